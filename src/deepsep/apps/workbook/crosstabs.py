"""Profiles of the segments in every column, against all rows, and tests of whether they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import chi2

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import kind_of, seconds_of
from deepsep.evaluation.intervals import effective
from deepsep.report.readable import ratio

Kind = Literal["number", "date", "category", "text"]
Unit = Literal["share", "number", "date", "deviations"]

OTHER_CODE, GAP_CODE = -1, -2  # of a value without a line of its own, and of no value


@dataclass(frozen=True)
class Line:
    """One line of a profile."""

    column: str
    what: str  # a level of the column, or the name of a statistic
    unit: Unit  # of the values; dates are seconds since 1970
    total: float  # of all rows
    values: Array  # (segments,), of the rows of each segment; NaN where there are none
    index: Array  # (segments,), 100 times the value over the total; NaN where that has no meaning


@dataclass(frozen=True)
class ProfiledColumn:
    """A column in a form that can be counted."""

    name: str
    kind: Kind  # "text" if hardly any texts are the same; numbers are then their lengths
    numbers: Array | None  # (n,), values, NaN where missing; dates as seconds since 1970
    levels: list[str]  # the values that have a line
    codes: Array  # (n,), the level of each row, -1 for another value and -2 for a gap

    def part(self, rows: Array) -> ProfiledColumn:
        """Return the column of some rows."""
        return replace(self, numbers=None if self.numbers is None else self.numbers[rows], codes=self.codes[rows])


def profiled_column(name: str, column: pd.Series[Any], n_levels: int = 20) -> ProfiledColumn:
    """Return a column, converted to its type, in a form that can be counted.

    Numbers have levels if there are at most 12 different ones. A column is free text if its most frequent levels make
    up less than 20 % of it.
    """
    kind, missing = kind_of(column), column.isna().to_numpy(bool)
    given = np.where(missing, GAP_CODE, OTHER_CODE)
    if kind == "date":
        return ProfiledColumn(name, "date", seconds_of(column), [], given)
    if kind == "number":
        numbers = column.to_numpy(np.float64, na_value=np.nan)
        distinct = np.unique(numbers[~missing])
        if len(distinct) > 12:
            return ProfiledColumn(name, "number", numbers, [], given)
        levels, codes = [f"{value:.10g}" for value in distinct], np.searchsorted(distinct, numbers)
        return ProfiledColumn(name, "number", numbers, levels, np.where(missing, GAP_CODE, codes))
    text = column.astype(object).map(str, na_action="ignore")
    counts = text.value_counts().sort_index(kind="stable").sort_values(ascending=False, kind="stable")
    if len(counts) > 10 * n_levels and counts.iloc[:n_levels].sum() < 0.2 * counts.sum():
        return ProfiledColumn(name, "text", text.str.len().to_numpy(np.float64), [], given)
    levels = [str(level) for level in counts.index[:n_levels]]
    codes = pd.Index(levels, dtype=object).get_indexer(text)
    return ProfiledColumn(name, "category", None, levels, np.where(missing, GAP_CODE, codes))


def profile_lines(column: ProfiledColumn, segment: Array, n_segments: int, weight: Array) -> list[Line]:
    """Return the lines of one column."""
    size = np.bincount(segment, weight, n_segments)
    levels = [*column.levels, *(["(other)"] if column.kind == "category" else []), "(missing)"]
    codes = [*range(len(column.levels)), *([OTHER_CODE] if column.kind == "category" else []), GAP_CODE]
    lines = []
    for name, code in zip(levels, codes, strict=True):
        at = column.codes == code
        counts = np.bincount(segment[at], weight[at], n_segments)
        if code >= 0 or at.any():
            lines.append(_line(column.name, name, "share", counts.sum() / size.sum(), ratio(counts, size)))
    return lines if column.numbers is None else lines + _number_lines(column, segment, n_segments, weight)


def _number_lines(column: ProfiledColumn, segment: Array, n_segments: int, weight: Array) -> list[Line]:
    assert column.numbers is not None
    given = ~np.isnan(column.numbers) & (weight > 0)
    x, k, w = column.numbers[given], segment[given], weight[given]
    if not len(x):
        return []
    what = "length: " if column.kind == "text" else ""
    medians = np.array([_median(x[k == i], w[k == i]) for i in range(n_segments)])
    if column.kind == "date":
        return [Line(column.name, "median", "date", _median(x, w), medians, np.full(n_segments, np.nan))]
    mean = float(w @ x / w.sum())
    means = ratio(np.bincount(k, w * x, n_segments), np.bincount(k, w, n_segments))
    spread = float(np.sqrt(w @ (x - mean) ** 2 / w.sum()))
    away = ratio(means - mean, np.full(n_segments, spread))
    above = x.min() >= 0
    return [
        _line(column.name, f"{what}mean", "number", mean, means, above),
        _line(column.name, f"{what}median", "number", _median(x, w), medians, above),
        Line(column.name, f"{what}mean, from total", "deviations", 0.0, away, np.full(n_segments, np.nan)),
    ]


def _line(column: str, what: str, unit: Unit, total: float, values: Array, compared: bool = True) -> Line:
    index = 100 * values / total if compared and total > 0 else np.full(len(values), np.nan)
    return Line(column, what, unit, float(total), values, index)


def _median(x: Array, w: Array) -> float:
    """Return the weighted median: the middle of the values at which half of the weight is reached."""
    if not len(x):
        return float("nan")
    order = np.argsort(x, kind="stable")
    x, below = x[order], np.cumsum(w[order])
    half = below[-1] / 2
    low = np.searchsorted(below, half * (1 - 1e-12))
    high = np.searchsorted(below, half * (1 + 1e-12), side="right")
    return float((x[low] + x[min(high, len(x) - 1)]) / 2)


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
