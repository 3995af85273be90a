"""The expected gain from more labels, by a power law that is fitted to the accuracy with fewer labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.core.checks import is_integer
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ModelFileError
from deepsep.evaluation.expected_accuracy import FOLD_DEPENDENCE, ExpectedAccuracy
from deepsep.evaluation.folds import Folds
from deepsep.evaluation.intervals import Estimate
from deepsep.evaluation.out_of_fold import Candidate, FoldFits

MORE_LABELS = 50  # for which the gain is reported

# The law is error(n) / error(today) = f + (1 - f) (n / today)^-c, where f is the part of the mistakes that no number
# of labels removes.
_C = np.exp(np.linspace(np.log(0.02), np.log(3.0), 241))
_F = (np.arange(100) + 0.5) / 100


class Gain(Estimate):
    """Expected gain in accuracy from more labels: ``value``, as a share (0.02 is 2 points), from ``low`` to ``high``.

    ``low`` and ``high`` are the ends of an interval of 90 %, and ``error`` is the standard error.
    """


@dataclass(frozen=True)
class Subsets:
    """Correctness of held-out rows after fits to parts of the labels."""

    labels: Array  # (k,), labels in training, as a mean over the folds
    right: Array  # (m, k), true for rows that are right, in the order of the folds


@dataclass(frozen=True)
class LearningCurve:
    """The accuracy as a function of the number of labels.

    Attributes
    ----------
    n_labels : int
        Labels today.
    today : ExpectedAccuracy
        The accuracy with these.
    labels : array (k,)
        Numbers of training labels with which a stand-in was measured.
    error : array (k,)
        Its share of mistakes on held-out rows.
    covariance : array (k, k)
        Covariance of ``error``.
    """

    n_labels: int
    today: ExpectedAccuracy
    labels: Array
    error: Array
    covariance: Array

    def gain(self, more: int = MORE_LABELS, *, luck: float = 0.15) -> Gain:
        """Return the expected gain in accuracy from ``more`` additional labels.

        With n labels, the accuracy depends on chance, with a variance of luck² / n around the law.
        """
        part = 1 - _law(1 + more / self.n_labels)
        weight = self._posterior()
        mean = float((weight * part).sum())
        square = float((weight * part**2).sum())
        mistakes = 1 - self.today.value
        spread = mistakes**2 * (square - mean**2) + self.today.error**2 * square
        chance = luck**2 * (1 / self.n_labels - 1 / (self.n_labels + more))
        return Gain(mistakes * mean, float(np.sqrt(spread + chance)))

    def to_state(self) -> dict[str, Any]:
        """Return plain values from which :meth:`from_state` restores the curve, except ``today``."""
        arrays = {"labels": self.labels, "error": self.error, "covariance": self.covariance}
        return {"n_labels": self.n_labels, **{name: array.tolist() for name, array in arrays.items()}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], today: ExpectedAccuracy) -> LearningCurve:
        """Return the curve from the result of :meth:`to_state`, or raise if the values do not fit together."""
        n_labels, k = state["n_labels"], len(state["labels"])
        labels, error = (np.array(state[name], float) for name in ("labels", "error"))
        covariance = np.array(state["covariance"], float).reshape(k, -1)
        fits = error.shape == (k,) and covariance.shape == (k, k) and is_integer(n_labels, 1) and (labels > 0).all()
        if not fits or not all(np.isfinite(array).all() for array in (labels, error, covariance)):
            raise ModelFileError("the model's learning curve does not fit together. Save it again.")
        return cls(n_labels, today, labels, error, covariance)

    def _posterior(self) -> Array:
        """Return the probability of each exponent and floor, (exponents, floors)."""
        log_p = _log_prior()
        if len(self.labels) > 1:
            shape = np.stack([_law(n / self.n_labels) for n in self.labels], axis=-1)
            precision = np.linalg.inv(self.covariance)
            inner = np.einsum("cfi,ij,cfj->cf", shape, precision, shape)
            cross = np.einsum("cfi,ij,j->cf", shape, precision, self.error)
            log_p = log_p + cross**2 / inner / 2  # for any scale of the stand-in's mistakes
        p = np.exp(log_p - log_p.max())
        return np.asarray(p / p.sum())


def _law(ratio: float) -> Array:
    """Return error(n) / error(today) for each exponent and floor, at a ratio of n to today."""
    return np.asarray(_F + (1 - _F) * ratio ** -_C[:, None])


def _log_prior(exponent: float = 0.75, spread: float = 0.3, a: float = 1.0, b: float = 0.8) -> Array:
    """Return the log density of a log-normal exponent c and a beta-distributed f, up to a constant.

    The parameters are the most likely ones given the committee's mistakes with 35, 125 and 500 labels on 18 tables
    (benchmarks/results/committee.csv).
    """
    away = (np.log(_C) - np.log(exponent)) / spread
    return np.asarray(-(away[:, None] ** 2) / 2 + (a - 1) * np.log(_F) + (b - 1) * np.log1p(-_F))


def fit_subsets(
    estimator: Any,  # a cheap one: it is fitted to each share of the labels in each fold, to labelled rows alone
    rows: TrainingRows,
    folds: Folds,  # the same as in the evaluation of the model
    *,
    n_jobs: int | None = None,
    shares: Sequence[float] = (0.4, 0.6, 0.8, 1.0),  # shares of a fold's training labels
) -> Subsets:
    """Fit a stand-in to parts of the training labels of each fold, and predict the rows of the fold."""
    labels, weight = rows.labels, rows.weight if rows.weighted else None
    labeled = replace(folds, rows=np.intersect1d(folds.rows, np.flatnonzero(labels.labeled)))
    fewest = len(labeled.rows) - max(map(len, folds.tests))
    shares = [share for share in shares if round(share * fewest) >= len(labels.classes)]
    candidates = {str(share): Candidate(estimator, labeled_only=True, label_share=share) for share in shares}
    fits = FoldFits(candidates, rows.X, labels, labeled, weight, ask=_predict, checked=True).fit(n_jobs)
    right = [fits.p[name] == fits.classes[fits.codes] for name in candidates]
    return Subsets(
        np.array([np.mean(np.round(share * fits.n_training)) for share in shares]),
        np.stack(right, axis=1) if right else np.zeros((len(fits.rows), 0), bool),
    )


def _predict(fitted: Any, X: Any) -> Array:
    return np.asarray(fitted.predict(X))


def learning_curve(
    subsets: Subsets,
    weight: Array,  # (m,), of the held-out rows; gives the classes their shares in the population
    n_labels: int,
    today: ExpectedAccuracy,  # the accuracy of the model with all of them
    *,
    repeats: int = 1,  # number of times that every labelled row occurs
    subset_error: float = 0.05,  # standard deviation of an accuracy due to the choice of the labels in a subset
) -> LearningCurve:
    """Return the learning curve of a model from that of a stand-in."""
    share = weight / weight.sum()
    wrong = 1.0 - subsets.right
    error = share @ wrong
    away = (wrong - error) * share[:, None]
    covariance = FOLD_DEPENDENCE**2 * repeats * away.T @ away + subset_error**2 * np.eye(len(error))
    return LearningCurve(n_labels, today, subsets.labels, error, covariance)
