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
    """Labelled rows that were held out, with the labels on which an accuracy may rest.

    Attributes
    ----------
    codes, rows, fold : array (m,)
        The class and the index of each row, and the fold that held it out.
    weight : array (m,)
        The weights given by the user, or ones.
    fair : array (m,) of bool
        True for rows that represent the population, by themselves or once weighted; False for chosen ones.
    repeats : int
        Number of times that every row occurs.
    """

    codes: Array
    rows: Array
    fold: Array
    weight: Array
    fair: Array
    repeats: int = 1

    def weigh(self, shares: Array | None) -> Array:
        """Return weights that sum to the effective number of labels, and give the classes these shares."""
        fair = np.where(self.fair, self.weight, 0.0)
        weight = np.asarray(to_population(self.codes, fair, shares))
        return np.asarray(weight * weight.sum() / (weight @ weight) / self.repeats)


@dataclass(frozen=True)
class Pool:
    """A mixture of models, and its predictions of rows held out.

    Attributes
    ----------
    mixture : Mixture
        Fitted to all fair held-out labels.
    without_folds : list of Mixture
        The mixtures without each fold.
    held_out : array (m, c)
        Probabilities of each held-out row by the mixture without its fold.
    weight : array (m,)
        Weights of the held-out rows, which make them like the population.
    shares : array (c,) or None
        The shares that the weights give to the classes; None if the labels have those of the population.
    """

    mixture: Mixture
    without_folds: list[Mixture]
    held_out: Array
    weight: Array
    shares: Array | None


def fit_pool(
    p: Array,
    labels: HeldOutLabels,
    *,
    usual: Array,
    shares: Array | None = None,
    estimate_shares: Callable[[Mixture], Array | None] | None = None,
    **how: Any,
) -> Pool:
    """Return the mixture of some models, weighted by held-out labels.

    Parameters
    ----------
    p : array (k, m, c)
        Probabilities of the held-out rows by each model.
    labels : HeldOutLabels
        At least one of them is fair.
    usual : array (k,)
        Weights of the models without evidence.
    shares : array (c,), optional
        Known shares of the classes in the population.
    estimate_shares : callable, optional
        Returns the shares from a mixture, for labels that fill quotas if the shares are unknown.
    **how
        Passed to :func:`~deepsep.core.mixture.fit_mixture`.
    """
    how |= {"usual": usual}
    if shares is None and estimate_shares is not None:
        shares = estimate_shares(fit_mixture(p, labels.codes, labels.weigh(None), **how))
    weight = labels.weigh(shares)
    without = mixtures_without_folds(p, labels.codes, weight, labels.rows, labels.fold, **how)
    mixture = fit_mixture(p, labels.codes, weight, **how)
    return Pool(mixture, [each for _, each in without], mix_unseen(p, without), weight, shares)
