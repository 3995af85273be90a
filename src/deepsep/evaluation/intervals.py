"""Scores of held-out rows, which may be weighted, with confidence intervals; p-values of several tests."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn import metrics

from deepsep.core.arrays import Array

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


INTERVAL_LEVEL = 0.9  # of every interval that users see
NORMAL_QUANTILE = 1.6448536269514722  # of such an interval
N_RESAMPLES = 1_000


class Estimate(NamedTuple):
    """An estimate with its standard error."""

    value: float
    error: float

    @property
    def interval(self) -> list[float]:
        """Both ends of an interval of 90 %."""
        half = NORMAL_QUANTILE * self.error
        return [self.value - half, self.value + half]

    @property
    def low(self) -> float:
        """The lower end."""
        return self.interval[0]

    @property
    def high(self) -> float:
        """The upper end."""
        return self.interval[1]


def wilson(right: float, n: float) -> list[float]:
    """Return Wilson's 90 % interval of a share: ``right`` of ``n`` rows.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(70, 100)]
    [0.62, 0.769]
    """
    share, extra = right / n, NORMAL_QUANTILE**2 / n
    centre = (share + extra / 2) / (1 + extra)
    half = NORMAL_QUANTILE / (1 + extra) * math.sqrt(max(share * (1 - share), 0.0) / n + extra / (4 * n))
    return [max(0.0, centre - half), min(1.0, centre + half)]


def effective(weight: Array | None, n: int) -> float:
    """Return the effective sample size of weighted rows: Kish's (Σw)² / Σw².

    The variance of a weighted share equals that of an unweighted share of this number of rows.

    Examples
    --------
    >>> effective(np.array([2.0, 2.0, 2.0]), 3), effective(np.array([1.0, 3.0]), 2)
    (3.0, 1.6)
    """
    return float(n) if weight is None else float(weight.sum() ** 2 / (weight**2).sum())


def share_right(right: Array, weight: Array | None = None) -> tuple[float, list[float]]:
    """Return the weighted share of rows that are right, and its Wilson interval for the effective sample size."""
    if weight is None:
        count, n = int(right.sum()), len(right)
        return count / n, wilson(count, n)
    share, n_effective = float(weight @ right / weight.sum()), effective(weight, len(right))
    return share, wilson(share * n_effective, n_effective)


def paired_difference(right: Array, other: Array, weight: Array | None = None) -> dict[str, Any]:
    """Return the difference in accuracy between two methods on the same rows, with a 90 % interval.

    The interval is that of Bonett and Price (2012): a Wald interval with one row added to each of the two kinds of
    discordant rows. Unlike the bootstrap, it is not too narrow if the two methods rarely differ. With weights,
    the shares are weighted and the number of rows is the effective one. ``gained`` and ``lost`` count rows.
    """
    better, worse = right & ~other, other & ~right
    n = effective(weight, len(right))
    gained, lost = (
        float(kind.sum()) if weight is None else float(n * (weight @ kind) / weight.sum()) for kind in (better, worse)
    )
    up, down = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    half = NORMAL_QUANTILE * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    return {
        "difference": (gained - lost) / n,
        "interval": [max(-1.0, up - down - half), min(1.0, up - down + half)],
        "gained": int(better.sum()),
        "lost": int(worse.sum()),
    }


def scores_with_intervals(p: Array, codes: Array, seed: int, weight: Array | None = None) -> dict[str, Any]:
    """Return accuracy, balanced accuracy, log loss and calibration error, each with a 90 % interval.

    Accuracy has Wilson's interval; the others have percentiles of a bootstrap over the held-out rows, drawn within
    each class. ``ece_if_calibrated`` is the mean calibration error of perfectly calibrated probabilities on as many
    rows, which is well above 0 if these are few. Weights apply to all scores.
    """
    rng = np.random.default_rng(seed)
    w = np.ones(len(p)) if weight is None else weight
    parts = _parts(p, codes)
    strata = [np.flatnonzero(codes == k) for k in np.unique(codes)]
    draws = []
    for _ in range(N_RESAMPLES):
        at = np.concatenate([stratum[rng.integers(len(stratum), size=len(stratum))] for stratum in strata])
        draws.append(_from_sums((np.bincount(at, minlength=len(p)) * w) @ parts))
    low, high = np.percentile(draws, [5, 95], axis=0).tolist()
    intervals = [share_right(p.argmax(axis=1) == codes, weight)[1], *map(list, zip(low, high, strict=True))]
    result: dict[str, Any] = {
        name: {"value": value, "interval": interval}
        for (name, value), interval in zip(scores(p, codes, weight).items(), intervals, strict=True)
    }
    result["ece_if_calibrated"] = _ece_if_calibrated(p, w, rng)
    return result


def _parts(p: Array, codes: Array) -> Array:
    """Return columns whose weighted sums determine every score, so that each resample costs one product.

    They are 1, the log loss, the calibration gap in each bin, and per class whether a row belongs to it and is right.
    """
    right = p.argmax(axis=1) == codes
    loss = -np.log(np.maximum(p[np.arange(len(p)), codes], np.finfo(np.float64).eps))
    of_class = np.eye(p.shape[1])[codes]
    return np.column_stack([np.ones(len(p)), loss, calibration_gaps(p, codes), of_class, of_class * right[:, None]])


def _from_sums(sums: Array) -> list[float]:
    """Return balanced accuracy, log loss and calibration error from the sums of :func:`_parts`."""
    total, loss, gaps = sums[0], sums[1], sums[2 : 2 + N_BINS]
    of_class, right = np.split(sums[2 + N_BINS :], 2)
    occurs = of_class > 0
    return [(right[occurs] / of_class[occurs]).mean(), loss / total, np.abs(gaps).sum() / total]


def _ece_if_calibrated(p: Array, weight: Array, rng: np.random.Generator) -> float:
    """Return the mean calibration error of simulated rows that are right as often as their confidence."""
    confidence = p.max(axis=1)
    bins = confidence_bins(confidence) * weight[:, None]
    drawn = [np.abs((confidence - (rng.random(len(p)) < confidence)) @ bins).sum() for _ in range(200)]
    return float(np.mean(drawn) / weight.sum())


def reliability(p: Array, codes: Array, weight: Array | None = None) -> list[dict[str, Any]]:
    """Return groups of equal size by confidence: mean confidence, share of rows that are right, and its interval."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    groups = np.array_split(np.argsort(confidence, kind="stable"), int(np.clip(len(p) // 15, 2, 10)))
    result = []
    for at in groups:
        if len(at):
            w = None if weight is None else weight[at]
            share, interval = share_right(right[at], w)
            sure = float(np.average(confidence[at], weights=w))
            result.append({"confidence": sure, "accuracy": share, "interval": interval, "n": len(at)})
    return result


def holm(p: Sequence[float] | Array) -> Array:
    """Return p-values corrected by Holm's method: the chance of any false alarm stays below the level.

    NaN stands for a test that was not possible and does not count.

    Examples
    --------
    >>> holm([0.01, 0.04, float("nan"), 0.03]).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    p = np.asarray(p, float)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted = np.full(len(p), np.nan)
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return adjusted
