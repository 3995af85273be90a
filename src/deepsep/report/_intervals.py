"""Scores with their uncertainty, from rows that were held out once each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep._metrics import calibration_error, scores

Array = NDArray[Any]

Z = 1.959963984540054  # of a 95 % interval
RESAMPLES = 1_000


def wilson(right: float, n: int) -> list[float]:
    """Return Wilson's 95 % interval of a share: ``right`` of ``n`` rows.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(70, 100)]
    [0.604, 0.781]
    """
    share, extra = right / n, Z * Z / n
    centre = (share + extra / 2) / (1 + extra)
    half = Z / (1 + extra) * math.sqrt(share * (1 - share) / n + extra / (4 * n))
    return [max(0.0, centre - half), min(1.0, centre + half)]


def paired_difference(right: Array, other: Array) -> dict[str, Any]:
    """Return by how much one method is more accurate than another on the same rows, with a 95 % interval.

    The interval is that of Bonett and Price (2012), a Wald interval with one row added to each of the two kinds that
    differ. Unlike the bootstrap it does not claim certainty where the two methods hardly ever differ.

    Examples
    --------
    >>> right, other = np.array([True] * 8 + [False] * 2), np.array([True] * 5 + [False] * 5)
    >>> paired_difference(right, other)["difference"]
    0.3
    """
    n = len(right)
    gained, lost = int((right & ~other).sum()), int((other & ~right).sum())
    up, down = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    half = Z * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    return {
        "difference": (gained - lost) / n,
        "interval": [max(-1.0, up - down - half), min(1.0, up - down + half)],
        "gained": gained,
        "lost": lost,
    }


def scores_with_intervals(p: Array, codes: Array, seed: int) -> dict[str, Any]:
    """Return accuracy, balanced accuracy, log loss and calibration error, each with a 95 % interval.

    Accuracy has Wilson's interval; the others have percentiles of a bootstrap over the held-out rows, drawn within
    each class. ``ece_if_calibrated`` is the calibration error that perfectly calibrated probabilities would show on as
    few rows: with few rows it is well above 0.
    """
    rng = np.random.default_rng(seed)
    found = scores(p, codes)
    strata = [np.flatnonzero(codes == k) for k in np.unique(codes)]
    draws = []
    for _ in range(RESAMPLES):
        at = np.concatenate([stratum[rng.integers(len(stratum), size=len(stratum))] for stratum in strata])
        draws.append(list(scores(p[at], codes[at]).values()))
    low, high = np.percentile(draws, [2.5, 97.5], axis=0)
    result: dict[str, Any] = {
        name: {"value": value, "interval": [float(low[i]), float(high[i])]}
        for i, (name, value) in enumerate(found.items())
    }
    right = p.argmax(axis=1) == codes
    result["accuracy"]["interval"] = wilson(int(right.sum()), len(right))
    result["ece_if_calibrated"] = _ece_if_calibrated(p, rng)
    return result


def _ece_if_calibrated(p: Array, rng: np.random.Generator) -> float:
    """Return the mean calibration error if every row's class were drawn from its own probabilities."""
    steps = p.cumsum(axis=1)
    drawn = [(rng.random((len(p), 1)) > steps[:, :-1]).sum(axis=1) for _ in range(200)]
    return float(np.mean([calibration_error(p, codes) for codes in drawn]))


def reliability(p: Array, codes: Array) -> list[dict[str, Any]]:
    """Return groups of equally many rows by confidence: mean confidence, share that is right, and its interval."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    groups = np.array_split(np.argsort(confidence, kind="stable"), int(np.clip(len(p) // 15, 2, 10)))
    return [
        {
            "confidence": float(confidence[at].mean()),
            "accuracy": float(right[at].mean()),
            "interval": wilson(int(right[at].sum()), len(at)),
            "n": len(at),
        }
        for at in groups
        if len(at)
    ]
