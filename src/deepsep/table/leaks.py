"""Find columns that give the label away, and columns that differ between labelled and unlabelled rows.

A column that is given for labelled rows only is the worst of both: a model learns to rely on it, cross-validation
confirms that it helps, and the rows to predict do not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from deepsep.core.labels import Labels

Array = NDArray[Any]

MIN_CHECKED_ROWS = 20  # fewest labelled rows for a search for leaks
LEAK_SHARE = 0.97  # balanced accuracy from which a single column is a leak
MAX_DISTANCE = float(np.finfo(np.float32).max)  # trees compute in single precision
ONE_SIDED = 0.05  # share of given values on one side, over that on the other, below which a column is one-sided


@dataclass(frozen=True)
class Leak:
    """A column that predicts the label by itself, or one class (``code``) against all others."""

    column: str
    share: float  # balanced accuracy on held-out rows
    rows: int
    code: int | None = None


@dataclass(frozen=True)
class Drift:
    """A column whose distribution differs between labelled and unlabelled rows."""

    column: str
    distance: float  # largest difference of the distribution functions, or half the sum of differences in shares
    how: str


def one_sided(values: pd.Series[Any], labeled: Array) -> str:
    """Return why a column cannot help to predict the unlabelled rows, although labelled rows suggest it; "" if it can.

    Either it is given for labelled rows only, or for unlabelled rows only, or all unlabelled rows have the same value.

    Examples
    --------
    >>> labeled = np.arange(100) < 30
    >>> one_sided(pd.Series(np.where(labeled, 1.5, np.nan)), labeled)
    'given for labelled rows only'
    >>> one_sided(pd.Series(np.arange(100)), labeled)
    ''
    """
    first = 100  # rows compared first, to save comparing them all
    sure = 14.0  # −log of the probability of such a column by chance: one in a million
    given, n = values.notna().to_numpy(), len(labeled)
    sides = {"labelled": labeled, "unlabelled": ~labeled}
    if not all(side.any() for side in sides.values()):
        return ""
    shares = {name: given[side].mean() for name, side in sides.items()}
    for name, other in (("labelled", "unlabelled"), ("unlabelled", "labelled")):
        surprise = given[sides[name]].sum() * np.log(n / sides[name].sum())
        if shares[other] <= ONE_SIDED * shares[name] and surprise > sure:
            return f"given for {name} rows only"
    if shares["unlabelled"] == 1 and labeled.sum() * np.log(n / labeled.sum()) > sure:
        rows = np.flatnonzero(~labeled)
        some = values.iloc[rows[:first]].to_numpy()
        if (some == some[0]).all() and (values.iloc[rows] == some[0]).all():
            others = (values[labeled] != some[0]).sum()  # a missing value is another one
            if others * np.log(n / labeled.sum()) > sure:
                return "the same for all unlabelled rows"
    return ""


def leaks(values: Mapping[str, pd.Series[Any]], labels: Labels) -> list[Leak]:
    """Return the columns that predict the label, or one class, by themselves on held-out rows."""
    most_rows = 5_000  # most labelled rows used in it
    check_folds = 5
    class_rows = 10  # fewest labelled rows of a class for a search for leaks of that class alone
    at = np.flatnonzero(labels.labeled)
    if len(at) > most_rows:
        at = np.sort(np.random.default_rng(0).choice(at, most_rows, replace=False))
    codes = labels.codes[at]
    counts = np.bincount(codes, minlength=len(labels.classes))
    usable = counts[codes] >= 2  # a class with one row leaves nothing to learn from
    at, codes = at[usable], codes[usable]
    if len(at) < MIN_CHECKED_ROWS or len(np.unique(codes)) < 2:
        return []
    folds = min(check_folds, int(np.bincount(codes)[np.unique(codes)].min()))
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(codes, codes))
    leaking = []
    for name, column in _suspects(values, at, codes).items():
        guess = _out_of_fold(column, codes, splits)
        right = guess == codes
        recall = np.array([right[codes == k].mean() for k in np.unique(codes)])
        if recall.mean() >= LEAK_SHARE:
            leaking.append(Leak(name, float(recall.mean()), len(codes)))
            continue
        for k in np.flatnonzero(counts >= class_rows):
            own = codes == k
            if own.all():
                continue
            share = ((guess == k)[own].mean() + (guess != k)[~own].mean()) / 2
            precise = own[guess == k].mean() if (guess == k).any() else 0.0
            if share >= LEAK_SHARE and precise >= LEAK_SHARE and len(np.unique(codes)) > 2:
                leaking.append(Leak(name, float(share), len(codes), int(k)))
    return sorted(leaking, key=lambda leak: -leak.share)


def _suspects(values: Mapping[str, pd.Series[Any]], at: Array, codes: Array) -> dict[str, pd.Series[Any]]:
    """Return the rows ``at`` of the columns that may be leaks: all texts, and numbers that sort the rows by class.

    In the order of a number that gives classes away, the class changes a few times only. Counting the changes takes a
    fraction of the time of fitting trees, which matters if there are thousands of columns.
    """
    columns = {name: column.iloc[at] for name, column in values.items()}
    numbers = {name: cells[:, 0] for name, column in columns.items() if (cells := _numbers(column)) is not None}
    if not numbers:
        return columns
    by_class = np.argsort(codes, kind="stable")  # rows with equal values are ordered by class
    counts = np.bincount(codes)
    classes = np.flatnonzero(counts)
    few = 2 * len(classes) + 2
    harmless = set()
    for name, cells in numbers.items():
        ordered = codes[by_class][np.argsort(cells[by_class], kind="stable")]
        change = ordered[1:] != ordered[:-1]
        per_class = np.bincount(ordered[1:][change], minlength=len(counts)) + np.bincount(
            ordered[:-1][change], minlength=len(counts)
        )
        some_class = (per_class <= 4 + 8 * (1 - LEAK_SHARE) * counts)[classes].any()
        if not some_class and change.sum() > few + 2 * (1 - LEAK_SHARE) * len(classes) * len(codes):
            harmless.add(name)
    return {name: column for name, column in columns.items() if name not in harmless}


def _out_of_fold(column: pd.Series[Any], codes: Array, splits: list[tuple[Array, Array]]) -> Array:
    guess = np.empty(len(codes), dtype=codes.dtype)
    numbers = _numbers(column)
    levels = pd.factorize(column)[0] if numbers is None else None
    for train, test in splits:
        usual = np.bincount(codes[train]).argmax()
        if numbers is not None:
            tree = DecisionTreeClassifier(max_leaf_nodes=2 * len(np.unique(codes)) + 2, random_state=0)
            guess[test] = tree.fit(numbers[train], codes[train]).predict(numbers[test])
        else:
            assert levels is not None
            table = np.zeros((levels.max() + 2, codes.max() + 1))
            np.add.at(table, (levels[train], codes[train]), 1)  # a missing value is the last row
            best = np.where(table.any(axis=1), table.argmax(axis=1), usual)
            guess[test] = best[levels[test]]
    return guess


def _numbers(column: pd.Series[Any]) -> Array | None:
    """Return numbers and dates as a column of numbers; None for text."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return np.asarray(column.to_numpy("datetime64[s]").astype(float).reshape(-1, 1)) / 86_400
    if pd.api.types.is_numeric_dtype(column):
        return np.asarray(np.clip(column.to_numpy(float), -MAX_DISTANCE, MAX_DISTANCE).reshape(-1, 1))
    return None


def drift(values: Mapping[str, pd.Series[Any]], labeled: Array, weight: Array | None = None) -> list[Drift]:
    """Return the columns that differ between labelled and unlabelled rows, the most different first.

    Numbers and dates are compared with a two-sample Kolmogorov–Smirnov test, text with a chi-squared test over its most
    frequent levels. Missing values are a level of their own; in numeric columns they get a test of their own.
    Significance is corrected for the number of tests, and small differences, which many rows make significant, are
    ignored. Weighted rows are compared by their weighted distributions, for the effective number of rows.
    """
    large = 0.1  # smallest difference between distributions that is reported
    significant = 0.01  # after the Bonferroni correction
    weight = np.ones(len(labeled)) if weight is None else weight
    labeled, unlabeled = labeled & (weight > 0), ~labeled & (weight > 0)
    if min(labeled.sum(), unlabeled.sum()) < MIN_CHECKED_ROWS:
        return []
    tests = []
    for name, column in values.items():
        numbers = _numbers(column)
        missing = column.isna().to_numpy()
        if numbers is None:
            tests.append((name, *_compare_levels(column, labeled, unlabeled, weight)))
            continue
        if missing.any():
            gaps = pd.Series(np.where(missing, "missing", "given"))
            tests.append((name, *_compare_levels(gaps, labeled, unlabeled, weight)))
        here, there = labeled & ~missing, unlabeled & ~missing
        if min(here.sum(), there.sum()) >= MIN_CHECKED_ROWS:
            p, distance, medians = _compare_numbers(numbers[:, 0], here, there, weight)
            how = f"median {_round(medians[0])} against {_round(medians[1])}"
            if pd.api.types.is_datetime64_any_dtype(column):
                how = "earlier" if medians[0] < medians[1] else "later"
            tests.append((name, p, distance, how))
    drifts: dict[str, Drift] = {}
    for name, p, distance, how in sorted(tests, key=lambda test: -test[2]):
        if p * len(tests) < significant and distance > large:
            drifts.setdefault(name, Drift(name, distance, how))
    return list(drifts.values())


def _compare_numbers(
    numbers: Array, labeled: Array, unlabeled: Array, weight: Array
) -> tuple[float, float, tuple[float, float]]:
    """Return p, the largest difference of the two distribution functions, and the two medians."""
    order = np.argsort(numbers, kind="stable")
    shares = np.stack([np.where(side, weight, 0.0) / weight[side].sum() for side in (labeled, unlabeled)])
    functions = shares[:, order].cumsum(axis=1)
    values = numbers[order]
    last = np.append(values[1:] != values[:-1], True)  # of equal values
    distance = float(np.abs(functions[0] - functions[1])[last].max())
    n, m = (_effective(weight[side]) for side in (labeled, unlabeled))
    medians = [float(values[np.searchsorted(function, 0.5)]) for function in functions]
    return float(special.kolmogorov(distance * np.sqrt(n * m / (n + m)))), distance, (medians[0], medians[1])


def _compare_levels(
    column: pd.Series[Any], labeled: Array, unlabeled: Array, weight: Array
) -> tuple[float, float, str]:
    """Return p, the distance between the shares of the levels, and the level that differs most."""
    levels = 50  # most levels of a category in the test for drift
    sides = (labeled, unlabeled)
    names = column.astype(object).where(column.notna(), "missing")
    top = names.value_counts().index[:levels]
    codes = pd.Index(top).get_indexer(pd.Index(names))
    shares = np.array([np.bincount(codes[side] + 1, weight[side], len(top) + 1) / weight[side].sum() for side in sides])
    occurs = shares.sum(axis=0) > 0
    change = shares[0] - shares[1]
    if occurs.sum() < 2:
        return 1.0, 0.0, ""
    n, m = (_effective(weight[side]) for side in sides)
    pooled = (n * shares[0] + m * shares[1])[occurs] / (n + m)
    p = special.chdtrc(occurs.sum() - 1, n * m / (n + m) * (change[occurs] ** 2 / pooled).sum())
    k = int(np.abs(change).argmax())
    word = "others" if k == 0 else str(top[k - 1])
    return float(p), float(np.abs(change).sum() / 2), f"{word!r} {shares[0, k]:.0%} against {shares[1, k]:.0%}"


def _effective(weight: Array) -> float:
    """Return the effective number of weighted rows: Kish's (Σw)² / Σw²."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def _round(value: float) -> str:
    return f"{value:.4g}"
