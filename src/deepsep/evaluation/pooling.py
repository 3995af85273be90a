"""The mixture of several models, fitted to the fair held-out labels, and its predictions out of fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.core.mixture import Array, Mixture, fit_mixture, mix_unseen, mixtures_without_folds
from deepsep.evaluation.population import to_population


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
    **how: Any,  # passed to :func:`~deepsep.core.mixture.fit_mixture`
) -> Pool:
    """Return the mixture of some models, weighted by held-out labels."""
    how |= {"usual": usual}
    if shares is None and estimate_shares is not None:
        shares = estimate_shares(fit_mixture(p, labels.codes, labels.weigh(None), **how))
    weight = labels.weigh(shares)
    without = mixtures_without_folds(p, labels.codes, weight, labels.rows, labels.fold, **how)
    mixture = fit_mixture(p, labels.codes, weight, **how)
    return Pool(mixture, [each for _, each in without], mix_unseen(p, without), weight, shares)
