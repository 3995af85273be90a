"""Columns whose distribution differs between the labelled and the unlabelled rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import kind_of
from deepsep.drift.profile import as_numbers
from deepsep.drift.two_samples import bins_differ, effective_rows, levels_differ


class ShiftedColumn(NamedTuple):
    """A column whose distribution differs."""

    column: str
    distance: float  # largest difference of the distribution functions, or half the sum of differences in shares
    how: str


def compare_labeled(
    values: Mapping[str, pd.Series[Any]], labeled: Array, weight: Array | None = None, *, min_rows: int = 20
) -> list[ShiftedColumn]:
    """Return the columns that differ between labelled and unlabelled rows, the most different first.

    Missing values are a level of text; in numeric columns they get a test of their own. Significance is corrected for
    the number of tests, and small differences, which many rows make significant, are ignored. Weighted rows are
    compared by their weighted distributions, for the effective number of rows.
    """
    least, significant = 0.1, 0.01  # difference of distributions that is reported; chance after Bonferroni's correction
    weight = np.ones(len(labeled)) if weight is None else weight
    sides = np.stack([labeled & (weight > 0), ~labeled & (weight > 0)])
    if sides.sum(axis=1).min() < min_rows:
        return []
    tests: list[tuple[float, ShiftedColumn]] = []
    for name, column in values.items():
        kind, missing = kind_of(column), column.isna().to_numpy()
        if kind == "text":
            tests.append(_compare_levels(name, column, sides, weight))
            continue
        if missing.any():
            tests.append(_compare_levels(name, pd.Series(np.where(missing, "missing", "given")), sides, weight))
        given = sides[:, ~missing]
        if given.sum(axis=1).min() >= min_rows:
            numbers = as_numbers(column[~missing], "date" if kind == "date" else "number")
            p, distance, (low, high) = _compare_numbers(numbers, given, weight[~missing])
            how = f"median {low:.4g} against {high:.4g}" if kind != "date" else "earlier" if low < high else "later"
            tests.append((p, ShiftedColumn(name, distance, how)))
    found: dict[str, ShiftedColumn] = {}
    for p, difference in sorted(tests, key=lambda test: -test[1].distance):
        if p * len(tests) < significant and difference.distance > least:
            found.setdefault(difference.column, difference)
    return list(found.values())


def _shares(codes: Array, n: int, sides: Array, weight: Array) -> tuple[Array, Array]:
    """Return the share of each of n codes on each side, and the effective number of rows of each side."""
    shares = [np.bincount(codes[side], weight[side], n) / weight[side].sum() for side in sides]
    return np.array(shares), np.array([effective_rows(weight[side]) for side in sides])


def _compare_numbers(numbers: Array, sides: Array, weight: Array) -> tuple[float, float, list[float]]:
    """Return p, the largest difference of the two distribution functions, and the two medians."""
    values, codes = np.unique(numbers, return_inverse=True)
    (here, there), (n, m) = _shares(codes, len(values), sides, weight)
    distance, p, _ = bins_differ(here, n, there, m)
    return p, distance, [float(values[np.searchsorted(np.cumsum(shares), 0.5)]) for shares in (here, there)]


def _compare_levels(name: str, column: pd.Series[Any], sides: Array, weight: Array) -> tuple[float, ShiftedColumn]:
    """Return p, and the distance between the shares of the levels with the level that differs most."""
    most_levels = 50
    names = column.astype(object).where(column.notna(), "missing")
    top = names.value_counts().index[:most_levels]
    (here, there), (n, m) = _shares(pd.Index(top).get_indexer(pd.Index(names)) + 1, len(top) + 1, sides, weight)
    distance, p = levels_differ(here, n, there, m)
    k = int(np.abs(here - there).argmax())
    word = "others" if k == 0 else str(top[k - 1])
    return p, ShiftedColumn(name, distance, f"{word!r} {here[k]:.0%} against {there[k]:.0%}")
