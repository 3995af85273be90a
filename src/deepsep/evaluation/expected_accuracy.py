"""The expected accuracy of a model on unlabelled rows: its confidence in them, corrected by rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepsep.core.arrays import Array
from deepsep.evaluation.intervals import Estimate, effective


class UnseenClasses(NamedTuple):
    """Share of the population in classes without a label, which cannot be predicted."""

    share: float = 0.0
    error: float = 0.0  # the standard error of its estimate


class Evidence(NamedTuple):
    """Probabilities of labelled rows by models that had not seen their labels."""

    p: Array  # (m, c)
    codes: Array  # (m,), their classes
    weight: Array  # (m,), gives the classes their shares in the population
    repeats: int  # number of times that every labelled row occurs
    unseen: UnseenClasses = UnseenClasses()  # rows of classes without a label, about which held-out rows say nothing


# Chosen for intervals of 90 % to hold in 85 to 95 % of simulated fits (benchmarks/promises.py).
GAP_SHRINKAGE = 0.75  # the part of the difference between held-out accuracy and confidence that counts
FOLD_DEPENDENCE = 1.15  # standard error of held-out rows, which share a model, over that of independent rows


class ExpectedAccuracy(Estimate):
    """The expected share of the unlabelled rows that are predicted correctly."""

    @property
    def interval(self) -> list[float]:
        """Both ends of an interval of 90 %."""
        low, high = super().interval
        return [max(0.0, low), min(1.0, high)]


def unseen_classes(counts: Array, known: Array | None = None) -> UnseenClasses:
    """Return the share of rows of classes without a label, from the numbers of random labels of the others.

    Good and Turing estimate it as the share of the labels that are the only one of their class: if one of n labels is
    left out, this is the probability that its class has no other label. ``known`` are classes that other labels show,
    which would not be missing without a random one.

    Examples
    --------
    >>> unseen_classes(np.array([20, 28, 1, 1])).share
    0.04
    """
    seldom = counts if known is None else np.where(known, 0, counts)
    n, once, twice = counts.sum(), (seldom == 1).sum(), (seldom == 2).sum()
    return UnseenClasses(float(once / n), float(np.sqrt(once + 2 * twice) / n)) if once else UnseenClasses()


def expected_accuracy(
    p: Array,  # (n, c), of the rows whose accuracy is estimated
    weight: Array,  # (n,)
    evidence: Evidence,
    *,
    confidence_error: float = 0.0,  # the standard error of the mean confidence; see :func:`jackknife_error`
) -> ExpectedAccuracy:
    r"""Return the expected accuracy on some rows, from probabilities of these rows and of labelled rows held out.

    If probabilities are calibrated, the accuracy is their mean confidence: the mean of each row's largest probability.
    Held-out rows show by how much this is off: by :math:`\hat\delta`, the mean of right minus confidence, with the
    standard error :math:`\sigma`. Since the probabilities were calibrated beforehand, the true :math:`\delta` is
    expected within a small multiple of :math:`\sigma` around zero. Under normal distributions its mean is
    :math:`s\hat\delta` and its variance :math:`s\sigma^2`, with some :math:`s < 1`.

    Held-out rows are predicted with fewer labels. That lowers their accuracy and their confidence alike, and hardly
    changes :math:`\delta`. If the probabilities were calibrated by the same rows, the mean confidence has an error of
    its own, which :math:`\hat\delta` mostly compensates. The number of correct rows among a few depends on chance,
    which adds to the variance, too.
    """
    confidence = float(np.average(p.max(axis=1), weights=weight))
    held_out, codes, own, repeats, unseen = evidence
    return corrected(
        confidence,
        held_out.max(axis=1),
        held_out.argmax(axis=1) == codes,
        own,
        repeats=repeats,
        unseen=unseen,
        n_rows=effective(weight, len(weight)),
        confidence_error=confidence_error,
    )


def jackknife_error(values: Sequence[float], repeats: int = 1) -> float:
    """Return the standard error of an estimate, from its values without each fold of data dealt ``repeats`` times."""
    folds = len(values) / repeats
    return float(np.sqrt((folds - 1) / folds * np.sum((np.array(values) - np.mean(values)) ** 2) / repeats))


def corrected(
    confidence: float,  # the mean probability of the labels that the rows get
    sure: Array,  # (m,), the probability of the label of each held-out row that would be accepted
    right: Array,  # (m,), whether it is right
    weight: Array,  # (m,)
    *,
    repeats: int = 1,  # number of times that every labelled row occurs
    unseen: UnseenClasses | None = None,
    n_rows: float = np.inf,  # whose accuracy is estimated: among a few, the number of correct ones depends on chance
    confidence_error: float = 0.0,  # the standard error of ``confidence``
) -> ExpectedAccuracy:
    """Return the expected accuracy on rows of a given mean confidence, corrected by held-out rows."""
    unseen = unseen or UnseenClasses()
    share, away = weight / weight.sum(), right - sure
    mean, n = float(share @ away), effective(weight, len(weight)) / repeats
    # As with one more row, half away from the mean: that a few rows are right proves little about others.
    deviation = (n * float(share @ (away - mean) ** 2) + 0.25) / (n + 1)
    of_seen = float(np.clip(confidence + GAP_SHRINKAGE * mean, 0, 1))
    value = of_seen * (1 - unseen.share)
    variance = (
        GAP_SHRINKAGE * FOLD_DEPENDENCE**2 * deviation / n
        + ((1 - GAP_SHRINKAGE) * confidence_error) ** 2
        + (of_seen * unseen.error) ** 2
        + value * (1 - value) / n_rows
    )
    return ExpectedAccuracy(value, float(np.sqrt(variance)))
