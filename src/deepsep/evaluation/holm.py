"""Correct p-values for the number of tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
