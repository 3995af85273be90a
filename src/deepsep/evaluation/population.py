"""Figures for a population whose class shares are known: how rows count there, and what models say about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.core.checks import check_priors, check_weights
from deepsep.core.labels import Labels
from deepsep.core.probability import fit_temperature, log_shift_to_shares, round_weights, shifted, temper
from deepsep.errors import DeepSepWarning, ParameterError

Array = NDArray[Any]


def read_weights(sample_weight: Any, labels: Labels) -> Array | None:
    """Return the weights of the rows, None if there are none, or raise."""
    if sample_weight is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)  # a note tells of classes with one label
            return check_weights(labels.codes, sample_weight, labels)
    except ParameterError:
        raise
    except (TypeError, ValueError) as error:
        said = str(error).rstrip(".!")
        raise ParameterError(
            f"sample_weight: {said}. Pass one finite number of at least 0 for each of the {len(labels.codes)} rows."
        ) from None


def given_shares(estimator: Any, classes: Array) -> Array | None:
    """Return the shares in the estimator's ``priors``, in the order of the classes; None if there are none."""
    priors = estimator.get_params(deep=False).get("priors")
    return check_priors(priors, classes) if isinstance(priors, Mapping) else None


def to_population(codes: Array, weight: Array | None, shares: Array | None) -> Array | None:
    """Return weights of labelled rows under which the classes have their shares in the population.

    A row weighs its class's share there over that among the labels, times its own weight. Classes that have no row here
    take no part.

    Examples
    --------
    >>> to_population(np.array([0, 0, 0, 1]), None, np.array([0.5, 0.5]))
    array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    if shares is None:
        return weight
    w = np.ones(len(codes)) if weight is None else weight
    among = np.bincount(codes, w, len(shares))
    return np.asarray(w * shares[codes] * w.sum() / among[codes])


@dataclass(frozen=True)
class Population:
    """What brings probabilities to the shares given: the unlabelled rows of a training part.

    Attributes
    ----------
    shares : array (c,)
        Of the classes.
    rows : matrix
        The unlabelled rows.
    weight : array
        Their weights.
    """

    shares: Array
    rows: Any
    weight: Array


@dataclass(frozen=True)
class Said:
    """What a model says before it is tempered and brought to shares.

    Attributes
    ----------
    p : array (m, c)
        Of the rows asked about.
    population : Population or None
        None: there are no shares to be brought to.
    unlabelled : array (u, c) or None
        Of its unlabelled rows; None if it has none.
    shift : array (c,) or None
        The model's own shift, which does not depend on probabilities where there are no unlabelled rows.
    """

    p: Array
    population: Population | None = None
    unlabelled: Array | None = None
    shift: Array | None = None

    def brought_to_shares(self, temperature: float = 1.0) -> Array:
        """Return the probabilities tempered and then brought to the shares, as :class:`deepsep.DeepSep` does it."""
        p = self.p if temperature == 1 else temper(self.p, temperature)
        if self.population is None:
            return p
        shift = self.shift
        if self.unlabelled is not None:
            unlabelled = np.maximum(temper(self.unlabelled, temperature), 1e-30)
            shift = log_shift_to_shares(np.log(unlabelled), self.population.shares, self.population.weight)
        assert shift is not None  # a model with shares has one
        return shifted(p, shift)


def by_round(fitted: Any, X: Any, population: Population | None) -> tuple[list[Said], list[Said]]:
    """Return what each round's network, and the moving average up to it, say about rows; round 0 is the start."""
    said, there = _networks(fitted, X), None
    if population is not None and len(population.weight):
        there = _networks(fitted, population.rows)
    shift = getattr(fitted, "prior_shift_", None)
    networks, averages = (
        [Said(p, population, None if q is None else q[t], shift) for t, p in enumerate(each)]
        for each, q in (
            (said, there),
            (_averages(said, fitted.decay), None if there is None else _averages(there, fitted.decay)),
        )
    )
    return networks, averages


def tempered(p: Array, codes: Array, said: list[Said], weight: Array) -> Array:
    """Return probabilities as a calibrated method would say them: each fold with the temperature of the others.

    Parameters
    ----------
    p : array (m, c)
        What was said about the rows of all folds, brought to the shares.
    codes, weight : array (m,)
        Their classes and weights.
    said : list of Said
        What was said in each fold.
    """
    fold = np.repeat(np.arange(len(said)), [len(part.p) for part in said])
    found = p.copy()
    for k, part in enumerate(said):
        others = fold != k
        T = fit_temperature(p[others], codes[others], weight[others])
        found[~others] = part.brought_to_shares(T)
    return found


def _networks(fitted: Any, X: Any) -> Array:
    return np.stack([fitted.round_proba(X, t) for t in range(fitted.n_rounds_ + 1)])


def _averages(networks: Array, decay: float) -> Array:
    averages = networks.copy()
    for t in range(1, len(networks)):
        averages[t] = np.tensordot(round_weights(t, decay), networks[1 : t + 1], 1)
    return averages
