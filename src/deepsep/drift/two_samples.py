"""Tests of two samples, which may be weighted: of shares, of distributions over bins, and of extremes."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betainc, kolmogorov, ndtr

from deepsep.core.arrays import Array


def effective_rows(weight: Array) -> float:
    """Return the number of equally weighted rows whose mean would be as certain (Kish)."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def shares_differ(was: Any, n: float, now: Any, m: float) -> Array:
    """Return the p-values of pairs of shares, of n and m rows.

    They come from the angles of the shares, whose variance does not depend on the shares. If fewer than 30 rows are
    expected, they come from the binomial distribution of these rows over the two samples.
    """
    was, now = np.clip(was, 0, 1), np.clip(now, 0, 1)
    angle = 2 * np.abs(np.arcsin(np.sqrt(was)) - np.arcsin(np.sqrt(now)))
    by_angle = 2 * ndtr(-angle / np.sqrt(1 / n + 1 / m))
    common = was * n + now * m > (n + m) / 2
    here, there = np.where(common, 1 - now, now) * m, np.where(common, 1 - was, was) * n
    share = m / (n + m)
    less, more = betainc(there, here + 1, 1 - share), betainc(here, there + 1, share)
    by_count = np.minimum(1, 2 * np.minimum(np.where(there > 0, less, 1), np.where(here > 0, more, 1)))
    few = (here + there) * min(share, 1 - share) < 30
    return np.asarray(np.where(few, by_count, by_angle))


def chance_of_extremes(outside: int, m: int, n: float) -> float:
    """Return the probability that ``outside`` of m rows are beyond all n others, so that these m have the extremes."""
    k = np.arange(min(outside, m))
    return float(np.exp(np.log((m - k) / (n + m - k)).sum()))


def bins_differ(was: Array, n: float, now: Array, m: float) -> tuple[float, float, int]:
    """Return the largest difference between two distributions over bins, its p-value, and its bin.

    The p-value is twice the smaller one of Kolmogorov and Smirnov's test, which detects any difference, and Wilcoxon's,
    which detects shifts better. Both are corrected for, or conservative with, values in the same bin.
    """
    gap = np.abs(np.cumsum(was) - np.cumsum(now))
    at = int(gap.argmax())
    smirnov = kolmogorov(np.sqrt(n * m / (n + m)) * gap[at])
    both, total = was * n + now * m, n + m
    above = float(now @ (np.cumsum(was) - was / 2)) - 0.5  # probability that a value here is the larger one, minus 0.5
    variance = (total + 1) / (12 * n * m) * max(1 - float((both**3 - both).sum()) / (total**3 - total), 0.0)
    wilcoxon = 2 * ndtr(-abs(above) / np.sqrt(variance)) if variance > 0 else 1.0
    return float(gap[at]), float(min(1.0, 2 * min(smirnov, wilcoxon))), at


def levels_differ(was: Array, n: float, now: Array, m: float) -> tuple[float, float]:
    """Return half the sum of the differences between the shares of levels, and its p-value by the largest of them."""
    p = shares_differ(was, n, now, m)
    return float(np.abs(now - was).sum() / 2), min(1.0, float(p.min()) * len(p))
