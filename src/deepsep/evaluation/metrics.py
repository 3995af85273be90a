"""Weighted metrics of class probabilities: accuracy, balanced accuracy, log loss, calibration error."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

Array = NDArray[Any]

METRIC_NAMES = ("accuracy", "balanced_accuracy", "log_loss", "ece")
N_BINS = 10


def scores(p: Array, codes: Array, weight: Array | None = None) -> dict[str, float]:
    """Return accuracy, balanced accuracy, log loss and calibration error of class probabilities (rows, classes)."""
    predicted = p.argmax(axis=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="y_pred contains classes not in y_true")  # few rows may lack a class
        balanced = metrics.balanced_accuracy_score(codes, predicted, sample_weight=weight)
    return {
        "accuracy": float(metrics.accuracy_score(codes, predicted, sample_weight=weight)),
        "balanced_accuracy": float(balanced),
        "log_loss": log_loss(p, codes, weight),
        "ece": calibration_error(p, codes, weight),
    }


def log_loss(p: Array, codes: Array, weight: Array | None = None) -> float:
    """Return scikit-learn's log loss, for probabilities in any precision."""
    p = p.astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)  # in single precision they do not sum to one closely enough
    return float(metrics.log_loss(codes, p, labels=np.arange(p.shape[1]), sample_weight=weight))


def calibration_error(p: Array, codes: Array, weight: Array | None = None) -> float:
    """Return the expected calibration error: the gap between confidence and accuracy, averaged over rows.

    Rows are put into ten bins of equal width by the probability of their predicted class.
    """
    weight = np.ones(len(p)) if weight is None else weight
    return float(np.abs(weight @ calibration_gaps(p, codes)).sum() / weight.sum())


def calibration_gaps(p: Array, codes: Array) -> Array:
    """Return confidence minus correctness (1 or 0) in the column of the row's bin, and 0 in the others."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    return np.asarray(confidence_bins(confidence) * (confidence - right)[:, None])


def confidence_bins(confidence: Array) -> Array:
    """Return the bin of each row, one of ten of equal width, as one-hot columns."""
    return np.asarray(np.eye(N_BINS)[np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)])
