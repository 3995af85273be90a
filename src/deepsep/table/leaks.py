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
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import kind_of, seconds_of
from deepsep.core.labels import Labels

LEAK_SHARE = 0.97  # balanced accuracy from which a single column is a leak
ONE_SIDED = 0.05  # share of given values on one side, over that on the other, below which a column is one-sided


@dataclass(frozen=True)
class Leak:
    """A column that predicts the label by itself, or one class (``code``) against all others."""

    column: str
    share: float  # balanced accuracy on held-out rows
    rows: int
    code: int | None = None


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
    fewest_rows, most_rows = 20, 5_000  # labelled rows used in it
    check_folds = 5
    class_rows = 10  # fewest labelled rows of a class for a search for leaks of that class alone
    at = np.flatnonzero(labels.labeled)
    if len(at) > most_rows:
        at = np.sort(np.random.default_rng(0).choice(at, most_rows, replace=False))
    codes = labels.codes[at]
    counts = np.bincount(codes, minlength=len(labels.classes))
    usable = counts[codes] >= 2  # a class with one row leaves nothing to learn from
    at, codes = at[usable], codes[usable]
    if len(at) < fewest_rows or len(np.unique(codes)) < 2:
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
        changing = np.concatenate([ordered[1:][change], ordered[:-1][change]])
        per_class = np.bincount(changing, minlength=len(counts))
        some_class = (per_class <= 4 + 8 * (1 - LEAK_SHARE) * counts)[classes].any()
        if not some_class and change.sum() > few + 2 * (1 - LEAK_SHARE) * len(classes) * len(codes):
            harmless.add(name)
    return {name: column for name, column in columns.items() if name not in harmless}


def _out_of_fold(column: pd.Series[Any], codes: Array, splits: list[tuple[Array, Array]]) -> Array:
    guess = np.empty(len(codes), dtype=codes.dtype)
    numbers = _numbers(column)
    levels = pd.factorize(column)[0] if numbers is None else codes
    for train, test in splits:
        if numbers is not None:
            tree = DecisionTreeClassifier(max_leaf_nodes=2 * len(np.unique(codes)) + 2, random_state=0)
            guess[test] = tree.fit(numbers[train], codes[train]).predict(numbers[test])
            continue
        table = np.zeros((levels.max() + 2, codes.max() + 1))
        np.add.at(table, (levels[train], codes[train]), 1)  # a missing value is the last row
        usual = np.bincount(codes[train]).argmax()
        guess[test] = np.where(table.any(axis=1), table.argmax(axis=1), usual)[levels[test]]
    return guess


def _numbers(column: pd.Series[Any]) -> Array | None:
    """Return numbers and dates as a column of numbers; None for text."""
    kind = kind_of(column)
    if kind == "text":
        return None
    numbers = seconds_of(column) / 86_400 if kind == "date" else column.to_numpy(float)
    largest = float(np.finfo(np.float32).max)  # trees compute in single precision
    return np.asarray(np.clip(numbers, -largest, largest).reshape(-1, 1))
