"""Tests of whether segments differ in a column, corrected for the number of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from deepsep.apps.workbook.crosstabs import GAP_CODE, ProfiledColumn
from deepsep.evaluation.intervals import effective

Array = NDArray[Any]


@dataclass(frozen=True)
class Difference:
    """Test of whether segments differ in a column."""

    test: str  # name of the test
    rows: int  # rows that were used
    statistic: float  # of the test; p is NaN if there is nothing to compare
    df: int
    p: float
    # from 0 to 1: Cramér's V, or epsilon squared, the part of the variance of ranks that the segments explain
    strength: float


def difference(column: ProfiledColumn, segment: Array, weight: Array) -> Difference:
    """Test whether segments differ in a column: Pearson's chi-squared test, or Kruskal and Wallis's for numbers.

    With weights, shares and ranks are weighted, and the number of rows is the effective one (Kish), which for equal
    weights is the number of rows. Levels that fewer than five rows have are tested together.
    """
    if column.kind == "category":
        return _chi_squared(column.codes - GAP_CODE, segment, weight)
    assert column.numbers is not None
    return _kruskal(column.numbers, segment, weight)


def _chi_squared(codes: Array, segment: Array, weight: Array) -> Difference:
    at = weight > 0
    codes, segment, weight = codes[at], segment[at], weight[at]
    rows = np.bincount(codes)
    codes = np.where(rows[codes] < 5, len(rows), codes) if len(codes) else codes
    table = np.zeros((len(rows) + 1, int(segment.max(initial=0)) + 1))
    np.add.at(table, (codes, segment), weight)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return Difference("chi-squared", len(codes), np.nan, 0, np.nan, np.nan)
    p = table / table.sum()
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    squared = float(((p - expected) ** 2 / expected).sum())
    df, statistic = (p.shape[0] - 1) * (p.shape[1] - 1), squared * effective(weight, len(weight))
    strength = float(np.sqrt(squared / (min(p.shape) - 1)))
    return Difference("chi-squared", len(codes), statistic, df, float(chi2.sf(statistic, df)), strength)


def _kruskal(numbers: Array, segment: Array, weight: Array) -> Difference:
    at = ~np.isnan(numbers) & (weight > 0)
    x, segment, w = numbers[at], segment[at], weight[at]
    used = np.unique(segment)
    values, place = np.unique(x, return_inverse=True)
    if len(used) < 2 or len(values) < 2:
        return Difference("Kruskal-Wallis", len(x), np.nan, 0, np.nan, np.nan)
    each = np.bincount(place, w)
    rank = (np.cumsum(each) - each / 2)[place]
    mean = w @ rank / w.sum()
    total = w @ (rank - mean) ** 2
    size = np.bincount(segment, w)[used]
    between = size @ (np.bincount(segment, w * rank)[used] / size - mean) ** 2
    strength = float(between / total)
    statistic = (effective(w, len(w)) - 1) * strength
    df = len(used) - 1
    return Difference("Kruskal-Wallis", len(x), float(statistic), df, float(chi2.sf(statistic, df)), strength)
