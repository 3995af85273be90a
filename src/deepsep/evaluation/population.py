"""Populations with known class shares: weights of held-out rows, and probabilities adjusted to the shares."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.core.checks import check_priors, check_weights
from deepsep.core.labels import Labels
from deepsep.core.probability import fit_temperature, log_shift_to_shares, moving_averages, shifted, temper
from deepsep.errors import DeepSepWarning, ParameterError


def read_weights(sample_weight: Any, labels: Labels) -> Array | None:
    """Return the weights of the rows, None if they were not given, or raise."""
    if sample_weight is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)  # the folds have a note about classes with one label
            return check_weights(labels.codes, sample_weight, labels)
    except ParameterError:
        raise
    except (TypeError, ValueError) as error:
        reason = str(error).rstrip(".!")
        raise ParameterError(
            f"sample_weight: {reason}. Pass one finite number of at least 0 for each of the {len(labels.codes)} rows."
        ) from None


def given_shares(estimator: Any, classes: Array) -> Array | None:
    """Return the estimator's ``priors`` in the order of the classes, or None."""
    priors = estimator.get_params(deep=False).get("priors")
    return check_priors(priors, classes) if isinstance(priors, Mapping) else None


def to_population(codes: Array, weight: Array | None, shares: Array | None) -> Array | None:
    """Return weights of labelled rows that give the classes their shares in the population.

    The weight of a row is multiplied by its class's share in the population over that among the labels. Classes without
    rows are left out.

    Examples
    --------
    >>> to_population(np.array([0, 0, 0, 1]), None, np.array([0.5, 0.5]))
    array([0.66666667, 0.66666667, 0.66666667, 2.        ])
    """
    if shares is None:
        return weight
    w = np.ones(len(codes)) if weight is None else weight
    among = np.bincount(codes, w, len(shares)) / w.sum()
    factors = np.divide(shares, among, out=np.zeros(len(shares)), where=among > 0)
    return np.asarray(w * factors[codes])


def held_out_weights(codes: Array, given: Array | None, shares: Array | None) -> tuple[Array | None, bool, bool]:
    """Return the weights of held-out rows (None if equal), and whether given weights and whether shares vary them."""
    weight = to_population(codes, given, shares)
    weighted, by_shares = _differ(given), weight is not given and _differ(weight)
    return (weight if weighted or by_shares else None), weighted, by_shares


def _differ(weight: Array | None) -> bool:
    return weight is not None and not np.allclose(weight, weight[0])


@dataclass(frozen=True)
class Population:
    """Known class shares, and the unlabelled training rows by which probabilities are adjusted to them."""

    shares: Array  # (c,)
    rows: Any
    weight: Array


@dataclass(frozen=True)
class RawProbabilities:
    """Probabilities of a model before calibration and adjustment to known shares."""

    p: Array  # (m, c), probabilities of the held-out rows
    population: Population | None = None  # None if the shares are unknown
    unlabeled: Array | None = None  # (u, c), probabilities of the unlabelled rows
    shift: Array | None = None  # (c,), the model's own adjustment, used without unlabelled rows

    def adjusted(self, temperature: float = 1.0) -> Array:
        """Return the probabilities calibrated and then adjusted to the shares, as in :class:`deepsep.DeepSep`."""
        p = self.p if temperature == 1 else temper(self.p, temperature)
        if self.population is None:
            return p
        shift = self.shift
        if self.unlabeled is not None:
            unlabeled = np.maximum(temper(self.unlabeled, temperature), 1e-30)
            shift = log_shift_to_shares(np.log(unlabeled), self.population.shares, self.population.weight)
        assert shift is not None  # a model with shares has one
        return shifted(p, shift)


def by_round(
    fitted: Any, X: Any, population: Population | None
) -> tuple[list[RawProbabilities], list[RawProbabilities]]:
    """Return the probabilities of each round's network and of the moving average; round 0 is the initial network."""
    shift = getattr(fitted, "prior_shift_", None)
    networks, unlabeled = all_rounds(fitted, X), None
    if population is not None and len(population.weight):
        unlabeled = all_rounds(fitted, population.rows)

    def raw(rounds: Array, others: Array | None) -> list[RawProbabilities]:
        each = [None] * len(rounds) if others is None else list(others)
        return [RawProbabilities(p, population, q, shift) for p, q in zip(rounds, each, strict=True)]

    averaged = None if unlabeled is None else moving_averages(unlabeled, fitted.decay)
    return raw(networks, unlabeled), raw(moving_averages(networks, fitted.decay), averaged)


def all_rounds(fitted: Any, X: Any) -> Array:
    """Return the probabilities of rows by the network of each round, (rounds + 1, n, c)."""
    return np.stack([fitted.round_proba(X, t) for t in range(fitted.n_rounds_ + 1)])


def tempered(p: Array, codes: Array, raw: list[RawProbabilities], weight: Array) -> Array:
    """Return calibrated probabilities: those of each fold (one of ``raw``) with the temperature fitted to the others.

    ``p`` are those of all folds, adjusted to the shares.
    """
    fold = np.repeat(np.arange(len(raw)), [len(part.p) for part in raw])
    result = p.copy()
    for k, part in enumerate(raw):
        others = fold != k
        T = fit_temperature(p[others], codes[others], weight[others])
        result[~others] = part.adjusted(T)
    return result
