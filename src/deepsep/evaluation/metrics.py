"""How good probabilities are: the four numbers that every table of results has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BINS = 10
FLOOR = 1e-15  # below which no probability of the right class counts, so that one row cannot cost infinitely much


def calibration_error(p: Array, codes: Array, bins: int = BINS) -> float:
    """Return the expected calibration error: the gap between confidence and accuracy, averaged over rows.

    Rows are put into bins of equal width by the probability of their predicted class.
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    at = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(at, weights=confidence - right, minlength=bins)
    return float(np.abs(gaps).sum() / len(p))


def log_loss(p: Array, codes: Array) -> float:
    """Return the mean of −log p of the right class."""
    return float(-np.log(np.maximum(p[np.arange(len(p)), codes], FLOOR)).mean())


def balanced_accuracy(p: Array, codes: Array) -> float:
    """Return the mean over the classes that occur of the share of their rows that are predicted right."""
    right = p.argmax(axis=1) == codes
    per_class = np.bincount(codes, weights=right, minlength=p.shape[1]), np.bincount(codes, minlength=p.shape[1])
    occurs = per_class[1] > 0
    return float((per_class[0][occurs] / per_class[1][occurs]).mean())


def scores(p: Array, codes: Array) -> dict[str, float]:
    """Return accuracy, balanced accuracy, log loss and calibration error of class probabilities (rows, classes)."""
    return {
        "accuracy": float((p.argmax(axis=1) == codes).mean()),
        "balanced_accuracy": balanced_accuracy(p, codes),
        "log_loss": log_loss(p, codes),
        "ece": calibration_error(p, codes),
    }
