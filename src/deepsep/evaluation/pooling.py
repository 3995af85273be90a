"""The mixture of several models, fitted to the fair held-out labels, and its predictions out of fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from deepsep.core.arrays import Array
from deepsep.evaluation.population import to_population


@dataclass(frozen=True)
class Mixture:
    """Mixture of several models' probabilities: the product of p^(w / T), normalised."""

    weights: Array  # (k,): of the models; they sum to one
    # T: above one the mixture is less sure than the geometric mean of the models, below one surer
    temperature: float = 1.0

    def __call__(self, p: Array) -> Array:
        """Return the probabilities (n, c) of rows from those by each model, (k, n, c)."""
        return np.asarray(softmax(np.tensordot(self.weights / self.temperature, _logs(p), 1), axis=1))


def fit_mixture(p: Array, codes: Array, weight: Array, *, usual: Array | None = None, penalty: float = 30.0) -> Mixture:
    """Return the mixture with the lowest log loss on these rows, plus a penalty.

    The exponents w / T of the models are not negative. The penalty is ``penalty`` times the sum of their squared
    differences from the usual ones, so that a few rows cannot decide much. The problem is convex. The default penalty
    was chosen, with the usual weights of a committee's members, on two draws of 18 tables that are not part of any
    published figure.

    ``p`` (k, m, c) are the probabilities that each model gave to rows whose labels it had not seen, and ``usual`` (k,)
    the exponents without evidence, by default equal ones with the sum one.
    """
    usual = np.full(len(p), 1 / len(p)) if usual is None else usual
    log_p, rows = _logs(p), np.arange(len(codes))
    own = log_p[:, rows, codes]

    def look(exponents: Array) -> tuple[float, Array]:
        log_mix = log_softmax(np.tensordot(exponents, log_p, 1), axis=1)
        mean = np.einsum("kmc,mc->km", log_p, np.exp(log_mix))
        away = exponents - usual
        loss = -(weight @ log_mix[rows, codes]) + penalty * (away @ away)
        return float(loss), (mean - own) @ weight + 2 * penalty * away

    best = minimize(look, usual, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(p), options={"ftol": 1e-12})
    total = float(best.x.sum())
    weights = best.x / total if total > 0 else np.full(len(p), 1 / len(p))
    return Mixture(weights, 1 / max(total, 0.01))  # a finite temperature


def mixtures_without_folds(
    p: Array, codes: Array, weight: Array, rows: Array, fold: Array, **how: Any
) -> list[tuple[Array, Mixture]]:
    """Return for every fold the rows that it holds out, and the mixture that was fitted without their labels.

    ``rows`` are the indices of the rows, which can occur several times, and ``fold`` is the one that held each out.
    """
    mixtures = []
    for number in np.unique(fold):
        test = fold == number
        others = ~np.isin(rows, rows[test])
        mixtures.append((test, fit_mixture(p[:, others], codes[others], weight[others], **how)))
    return mixtures


def mix_unseen(p: Array, mixtures: list[tuple[Array, Mixture]]) -> Array:
    """Return the probabilities of every row by the mixture that was fitted without its label."""
    mixed = np.empty(p.shape[1:])
    for test, mixture in mixtures:
        mixed[test] = mixture(p[:, test])
    return mixed


def _logs(p: Array, doubt: float = 0.005) -> Array:
    """Return the logs of probabilities, none of them 0: a forest may give a class the probability 0."""
    return np.asarray(np.log((1 - doubt) * p.astype(np.float64) + doubt / p.shape[-1]))


@dataclass(frozen=True)
class HeldOutLabels:
    """Labelled rows that were held out, with the labels on which an accuracy may rest."""

    codes: Array  # (m,), the classes
    rows: Array  # (m,), the numbers of the rows
    fold: Array  # (m,), the folds that held them out
    weight: Array  # (m,), the weights given by the user, or ones
    # (m,), true for rows that represent the population, by themselves or once weighted; False for chosen ones
    fair: Array
    repeats: int = 1  # number of times that every row occurs

    def weigh(self, shares: Array | None) -> Array:
        """Return weights that sum to the effective number of labels, and give the classes these shares."""
        fair = np.where(self.fair, self.weight, 0.0)
        weight = np.asarray(to_population(self.codes, fair, shares))
        return np.asarray(weight * weight.sum() / (weight @ weight) / self.repeats)


@dataclass(frozen=True)
class Pool:
    """A mixture of models, and its predictions of rows held out."""

    mixture: Mixture  # fitted to all fair held-out labels
    without_folds: list[Mixture]  # the mixtures without each fold
    held_out: Array  # (m, c), probabilities of each held-out row by the mixture without its fold
    weight: Array  # (m,), weights of the held-out rows, which make them like the population
    # (c,), the shares that the weights give to the classes; None if the labels have those of the population
    shares: Array | None


def fit_pool(
    p: Array,  # (k, m, c), probabilities of the held-out rows by each model
    labels: HeldOutLabels,  # at least one is fair
    *,
    usual: Array,  # (k,), weights of the models without evidence
    shares: Array | None = None,  # (c,), known shares of the classes in the population
    # returns the shares from a mixture, for labels that fill quotas if the shares are unknown
    estimate_shares: Callable[[Mixture], Array | None] | None = None,
    **how: Any,  # passed to :func:`~deepsep.evaluation.pooling.fit_mixture`
) -> Pool:
    """Return the mixture of some models, weighted by held-out labels."""
    how |= {"usual": usual}
    if shares is None and estimate_shares is not None:
        shares = estimate_shares(fit_mixture(p, labels.codes, labels.weigh(None), **how))
    weight = labels.weigh(shares)
    without = mixtures_without_folds(p, labels.codes, weight, labels.rows, labels.fold, **how)
    mixture = fit_mixture(p, labels.codes, weight, **how)
    return Pool(mixture, [each for _, each in without], mix_unseen(p, without), weight, shares)
