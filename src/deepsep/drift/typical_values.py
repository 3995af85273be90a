"""A few values that represent a column of the training table, from its profile, or of any other table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from deepsep.core.arrays import Array
from deepsep.drift.profile import ColumnProfile

N_DRAWS = 8  # values that represent a column
MAX_EXACT_VALUES = 12  # different values of a column that are all used


def typical_values(column: ColumnProfile) -> tuple[list[Any], Array]:
    """Return values of a column and their weights, which sum to one; None is a gap.

    Up to twelve different values have their shares as weights. Of more, eight are taken at equal steps of the
    distribution. Levels that the profile does not name are left out. Free text is represented by a gap, since a profile
    has no texts.
    """
    if column.kind == "text" or not column.shares:
        return [None], np.ones(1)
    shares = np.array(column.shares) / sum(column.shares)
    if column.kind == "category":
        known: list[Any] = list(column.levels)
    elif column.distinct <= len(shares):
        known = column.edges[1:]
    else:  # bins of many values
        at = np.interp(_steps(), np.append(0.0, np.cumsum(shares)), column.edges)
        known, shares = at.tolist(), np.full(N_DRAWS, 1 / N_DRAWS)
    if column.kind == "date":
        known = [pd.Timestamp(seconds, unit="s").floor("us") for seconds in known]
    return _few(known, shares, column.gaps)


def values_of(column: pd.Series[Any]) -> tuple[list[Any], Array]:
    """Return values of a column and their weights, like :func:`typical_values`, from its rows."""
    given = column.dropna()
    shares = given.value_counts(normalize=True)
    if not len(given):
        return [None], np.ones(1)
    if len(shares) > MAX_EXACT_VALUES and not isinstance(given.iloc[0], str):
        at = np.ceil(_steps() * len(given)).astype(int) - 1
        shares = given.sort_values().iloc[at].value_counts(normalize=True)
    return _few(shares.index.tolist(), shares.to_numpy(), 1 - len(given) / len(column))


def _few(values: list[Any], shares: Array, gaps: float) -> tuple[list[Any], Array]:
    """Return all values if they are few, else some at equal steps of the distribution, and None for gaps, if any."""
    if len(values) > MAX_EXACT_VALUES:
        at = np.searchsorted(np.cumsum(shares), _steps())
        chosen, counts = np.unique(np.minimum(at, len(values) - 1), return_counts=True)
        values, shares = [values[i] for i in chosen], counts / N_DRAWS
    if gaps > 0:
        values, shares = [*values, None], np.append(shares * (1 - gaps), gaps)
    return [value for value, share in zip(values, shares, strict=True) if share > 0], shares[shares > 0]


def _steps() -> Array:
    return np.asarray((np.arange(N_DRAWS) + 0.5) / N_DRAWS)
