"""A weighted mean of several models' class probabilities, with a temperature; both from rows held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from deepsep.core.probability import mixture_weights, temper

Array = NDArray[Any]

# A number k is worth as much evidence as the rows that together lower the log loss by that much.
WEIGHT_PENALTY, TEMPERATURE_PENALTY = 0.3, 2.0


@dataclass(frozen=True)
class Mixture:
    """How several models' probabilities become one.

    Attributes
    ----------
    weights : array (k,)
        Of the models; they sum to one.
    temperature : float
        The mean p becomes p^(1/T), normalised.
    """

    weights: Array
    temperature: float = 1.0

    def __call__(self, p: Array) -> Array:
        """Return the probabilities (n, c) of rows from those by each model, (k, n, c)."""
        return temper(np.tensordot(self.weights, p, 1), self.temperature)


def fit_mixture(
    p: Array,
    codes: Array,
    weight: Array,
    *,
    weight_penalty: float = WEIGHT_PENALTY,
    temperature_penalty: float = TEMPERATURE_PENALTY,
) -> Mixture:
    """Return the weights and the temperature with the lowest log loss on these rows, plus penalties.

    The weights are shrunk towards equal ones and the temperature T towards one, by ``temperature_penalty * (log T)^2``,
    so that a few rows cannot decide much.

    Parameters
    ----------
    p : array (k, m, c)
        The probabilities that each model gave to rows whose labels it had not seen.
    codes : array (m,)
        The classes of the rows.
    weight : array (m,)
        A weight of k counts as k rows.
    """
    rows = np.arange(len(codes))
    weights = mixture_weights(p[:, rows, codes], weight, penalty=weight_penalty)
    log_p = np.log(np.maximum(np.tensordot(weights, p, 1).astype(np.float64), 1e-30))

    def loss(log_t: float) -> float:
        fit = -(weight @ log_softmax(log_p / np.exp(log_t), axis=1)[rows, codes])
        return float(fit + temperature_penalty * log_t**2)

    best = minimize_scalar(loss, bounds=(np.log(0.25), np.log(4.0)), method="bounded")
    return Mixture(weights, float(np.exp(best.x)))


def mix_unseen(p: Array, codes: Array, weight: Array, rows: Array, fold: Array, **penalties: float) -> Array:
    """Return the mixture's probabilities of every row, with weights and temperature that its label has no part in.

    Parameters
    ----------
    p, codes, weight
        As for :func:`fit_mixture`.
    rows, fold : array (m,)
        Which row each is, since a row can occur several times, and which fold held it out.
    """
    mixed = np.empty(p.shape[1:])
    for test, others in _without(rows, fold):
        mixture = fit_mixture(p[:, others], codes[others], weight[others], **penalties)
        mixed[test] = mixture(p[:, test])
    return mixed


def _without(rows: Array, fold: Array) -> Iterator[tuple[Array, Array]]:
    for number in np.unique(fold):
        test = fold == number
        yield test, ~np.isin(rows, rows[test])
