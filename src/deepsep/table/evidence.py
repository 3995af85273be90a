"""Find columns that give the label away, and columns that differ between labelled and unlabelled rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from deepsep.core.labels import Labels

Array = NDArray[Any]

FOLDS = 5
ENOUGH = 20  # fewest labelled rows for a search for leaks
MOST_ROWS = 5_000  # most labelled rows used in it
LEAKS = 0.97  # balanced accuracy from which a single column is a leak
CLASS_ROWS = 10  # fewest labelled rows of a class for a search for leaks of that class alone
LEVELS = 50  # most levels of a category in the test for drift
SIGNIFICANT = 0.01  # after the Bonferroni correction
LARGEST = float(np.finfo(np.float32).max)  # trees compute in single precision
LARGE = 0.1  # smallest difference between distributions that is reported


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


def leaks(values: Mapping[str, pd.Series[Any]], labels: Labels) -> list[Leak]:
    """Return the columns that predict the label, or one class, by themselves on held-out rows."""
    at = np.flatnonzero(labels.labelled)
    if len(at) > MOST_ROWS:
        at = np.sort(np.random.default_rng(0).choice(at, MOST_ROWS, replace=False))
    codes = labels.codes[at]
    counts = np.bincount(codes, minlength=len(labels.classes))
    usable = counts[codes] >= 2  # a class with one row leaves nothing to learn from
    at, codes = at[usable], codes[usable]
    if len(at) < ENOUGH or len(np.unique(codes)) < 2:
        return []
    folds = min(FOLDS, int(np.bincount(codes)[np.unique(codes)].min()))
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(codes, codes))
    leaking = []
    for name, column in values.items():
        guess = _out_of_fold(column.iloc[at], codes, splits)
        right = guess == codes
        recall = np.array([right[codes == k].mean() for k in np.unique(codes)])
        if recall.mean() >= LEAKS:
            leaking.append(Leak(name, float(recall.mean()), len(codes)))
            continue
        for k in np.flatnonzero(counts >= CLASS_ROWS):
            own = codes == k
            if own.all():
                continue
            share = ((guess == k)[own].mean() + (guess != k)[~own].mean()) / 2
            precise = own[guess == k].mean() if (guess == k).any() else 0.0
            if share >= LEAKS and precise >= LEAKS and len(np.unique(codes)) > 2:
                leaking.append(Leak(name, float(share), len(codes), int(k)))
    return sorted(leaking, key=lambda leak: -leak.share)


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
        return np.asarray(np.clip(column.to_numpy(float), -LARGEST, LARGEST).reshape(-1, 1))
    return None


def drift(values: Mapping[str, pd.Series[Any]], labelled: Array) -> list[Drift]:
    """Return the columns that differ between labelled and unlabelled rows, the most different first.

    Numbers and dates are compared with a two-sample Kolmogorov–Smirnov test, text with a chi-squared test over its most
    frequent levels. Missing values are a level of their own; in numeric columns they get a test of their own.
    Significance is corrected for the number of tests, and small differences, which many rows make significant, are
    ignored.
    """
    if labelled.all() or labelled.sum() < ENOUGH or (~labelled).sum() < ENOUGH:
        return []
    tests = []
    for name, column in values.items():
        numbers = _numbers(column)
        missing = column.isna().to_numpy()
        if numbers is None:
            tests.append((name, *_compare_levels(column, labelled)))
            continue
        if missing.any():
            tests.append((name, *_compare_levels(pd.Series(np.where(missing, "missing", "given")), labelled)))
        a, b = numbers[labelled & ~missing, 0], numbers[~labelled & ~missing, 0]
        if min(len(a), len(b)) >= ENOUGH:
            test = stats.ks_2samp(a, b, method="asymp")
            middle = f"median {_round(np.median(a))} against {_round(np.median(b))}"
            if pd.api.types.is_datetime64_any_dtype(column):
                middle = "earlier" if np.median(a) < np.median(b) else "later"
            tests.append((name, float(test.pvalue), float(test.statistic), middle))
    drifts: dict[str, Drift] = {}
    for name, p, distance, how in sorted(tests, key=lambda test: -test[2]):
        if p * len(tests) < SIGNIFICANT and distance > LARGE:
            drifts.setdefault(name, Drift(name, distance, how))
    return list(drifts.values())


def _compare_levels(column: pd.Series[Any], labelled: Array) -> tuple[float, float, str]:
    """Return p, the distance between the shares of the levels, and the level that differs most."""
    names = column.astype(object).where(column.notna(), "missing")
    top = names.value_counts().index[:LEVELS]
    codes = pd.Index(top).get_indexer(pd.Index(names))
    table = np.array([np.bincount(codes[part] + 1, minlength=len(top) + 1) for part in (labelled, ~labelled)])
    keep = table.sum(axis=0) > 0
    shares = table / table.sum(axis=1, keepdims=True)
    change = shares[0] - shares[1]
    if keep.sum() < 2:
        return 1.0, 0.0, ""
    p = stats.chi2_contingency(table[:, keep], correction=False).pvalue
    k = int(np.abs(change).argmax())
    word = "others" if k == 0 else str(top[k - 1])
    return float(p), float(np.abs(change).sum() / 2), f"{word!r} {shares[0, k]:.0%} against {shares[1, k]:.0%}"


def _round(value: float) -> str:
    return f"{value:.4g}"
