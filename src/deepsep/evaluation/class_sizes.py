r"""Shares of the classes in the population, with intervals: prediction-powered inference on out-of-fold predictions.

The share of a class is estimated by the difference estimator of survey sampling: :math:`\lambda` times its mean
probability among the unlabelled rows, plus the mean of :math:`[y_i = k] - \lambda p_{ik}` among held-out labels. It is
right on average however wrong the model is. The one :math:`\lambda` between 0 and 1 for all classes is that with the
smallest variance (Angelopoulos et al. 2023, PPI++): with a useless model it is near 0, and the interval that of the
labels alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from deepsep.core.arrays import Array
from deepsep.evaluation.expected_accuracy import FOLD_DEPENDENCE, Evidence
from deepsep.evaluation.intervals import effective, wilson


class Size(NamedTuple):
    """Share of a class in the population, and its 90 % interval; None if there is none."""

    share: float
    low: float | None = None
    high: float | None = None


class KnownShares(NamedTuple):
    """Class shares of the population by which labels for quotas are weighted."""

    value: Array  # (c,): the shares
    covariance: Array  # (c, c): zero if they are known exactly


def screened_shares(labels: Array, looked_at: Array) -> KnownShares:
    r"""Return the class shares that the cost of filling quotas tells.

    If :math:`m` people were looked at until there were :math:`n` of a class, :math:`(n - 1) / (m - 1)` is an unbiased
    estimate of its share (Haldane 1945), whose logarithm has a variance of about :math:`(1 - \pi) / n`. The shares are
    divided by their sum.

    Examples
    --------
    >>> screened_shares(np.array([100, 100]), np.array([125, 500])).value.round(2)
    array([0.8, 0.2])
    """
    raw = np.where(looked_at > labels, np.maximum(labels - 1, 0.5) / np.maximum(looked_at - 1, 1), 1.0)
    shares = raw / raw.sum()
    relative = np.diag(shares) - np.outer(shares, shares)
    return KnownShares(shares, relative @ np.diag((1 - np.minimum(raw, 1)) / labels) @ relative)


def class_sizes(
    p: Array,  # (u, c), of the unlabelled rows
    weight: Array,  # (u,)
    counted: Array,  # (c,), weight of the labelled rows of each class
    held_out: Evidence,  # weighted to be like the population
    *,
    unlabeled_weight: float | None = None,  # of all unlabelled rows, if ``p`` is of some drawn at random
    in_group: Array | None = None,  # mask of the rows of ``held_out`` that are in the group asked about; None: all
    known: KnownShares | None = None,  # of the population, if the labels fill quotas; None: a random sample
) -> list[Size]:
    """Return the share of each class among all rows, labelled ones included, with a 90 % interval."""
    free = weight.sum() if unlabeled_weight is None else unlabeled_weight
    total = free + counted.sum()
    if not free:
        return [Size(share, share, share) for share in (counted / total).tolist()]
    mask = np.ones(len(held_out.codes), bool) if in_group is None else in_group
    sample = held_out if known is None else _weighted_to(held_out, known.value)
    value, variance = _difference_estimate(p, weight, sample, mask, known)
    value = np.clip(value, 0, 1)
    n = _effective_rows(value, variance, pooled=known is None)
    part, given = free / total, counted / total
    sizes = []
    for k, share in enumerate(value.tolist()):
        low, high = wilson(share * n[k], n[k]) if np.isfinite(n[k]) else (share, share)
        sizes.append(Size(*(float(given[k] + part * each) for each in (share, min(low, share), max(high, share)))))
    return sizes


def _weighted_to(held_out: Evidence, shares: Array) -> Evidence:
    """Return the evidence with weights for which the classes have these shares."""
    among = np.bincount(held_out.codes, held_out.weight, len(shares))
    return held_out._replace(weight=held_out.weight * (shares / np.maximum(among, 1e-300))[held_out.codes])


def _difference_estimate(
    p: Array, weight: Array, held_out: Evidence, in_group: Array, known: KnownShares | None
) -> tuple[Array, Array]:
    """Return the estimates for a group of unlabelled rows, and their variances."""
    q, codes, own, repeats, _ = held_out
    own = own / own.sum()
    part = own[in_group].sum()
    y = np.eye(q.shape[1])[codes]
    # Residuals [y = k] - lambda q are linear in lambda, and so are their deviations from their mean in the group.
    means = [own[in_group] @ each[in_group] / part for each in (y, q)]
    deviations = [in_group[:, None] * (each - mean) for each, mean in zip((y, q), means, strict=True)]
    terms = _variance_terms(deviations, codes, own, repeats, known) / part**2
    spread = [own @ (a * b) / part for a, b in ((deviations[0],) * 2, deviations, (deviations[1],) * 2)]
    terms += np.stack(spread) / effective(weight, len(weight))
    of_y, of_both, of_q = terms  # the variance of a share is of_y - 2 lambda of_both + lambda^2 of_q
    factor = float(np.clip(of_both.sum() / of_q.sum(), 0, 1)) if of_q.sum() > 0 else 0.0
    value = factor * np.average(p, axis=0, weights=weight) + means[0] - factor * means[1]
    variance = np.maximum(of_y - 2 * factor * of_both + factor**2 * of_q, 0)
    # A few rows that are predicted perfectly do not prove that all others are: one more row is as wrong as by chance.
    n = max(effective(own[in_group], int(in_group.sum())) / repeats, 1)
    return value, variance + np.clip(value * (1 - value), 0, None) / (n * (n + 1))


def _variance_terms(
    deviations: list[Array], codes: Array, own: Array, repeats: int, known: KnownShares | None
) -> Array:
    """Return the variances of the weighted sums of both deviations, and between them their covariance, (3, c)."""
    of_y, of_q = deviations
    if known is None:
        n = max(effective(own, len(own)) / repeats, 2)
        squares = (own**2)[:, None] * FOLD_DEPENDENCE**2 * repeats * n / (n - 1)
        return np.stack([(squares * a * b).sum(0) for a, b in ((of_y, of_y), (of_y, of_q), (of_q, of_q))])
    # Quotas: the number of labels of a class is fixed, so rows vary within their class only, and the shares of classes
    # as they are known.
    classes = np.arange(len(known.value))
    member = codes == classes[:, None]
    n = np.maximum(member.sum(1) / repeats, 2)
    mean_y, mean_q = ((member * own) @ each / np.maximum((member * own).sum(1), 1e-300)[:, None] for each in deviations)
    within_y, within_q = of_y - mean_y[codes], of_q - mean_q[codes]
    squares = (own**2 * FOLD_DEPENDENCE**2 * repeats * (n / (n - 1))[codes])[:, None]
    pairs = ((within_y, mean_y, within_y, mean_y), (within_y, mean_y, within_q, mean_q), (within_q, mean_q) * 2)
    return np.stack(
        [
            (squares * a * b).sum(0) + np.einsum("jk,jl,lk->k", first, known.covariance, second)
            for a, first, b, second in pairs
        ]
    )


def _effective_rows(value: Array, variance: Array, *, pooled: bool) -> Array:
    """Return, for each class, the number of rows of which a count would have the same variance.

    Random labels of a rare class say little about its own variance, so all classes share one number.
    """
    binomial = value * (1 - value)
    if pooled:
        binomial, variance = (np.full(len(value), each.sum()) for each in (binomial, variance))
    rows: Array = np.divide(binomial, variance, out=np.full(len(value), np.inf), where=variance > 0)
    return rows
