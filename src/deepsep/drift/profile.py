"""A compact profile of a training table: the distributions of its columns and of the predictions, without its rows.

Values that few rows share are not written as they are: a level is named if at least ten rows have it, a bin of numbers
has about ten rows or more, and its edges are rounded outward to about a hundredth of the spread.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import kind_of, seconds_of
from deepsep.drift.two_samples import effective_rows
from deepsep.errors import ModelFileError

Kind = Literal["number", "date", "category", "text"]

MAX_BINS = 32  # of a column of numbers
MIN_SHARED_ROWS = 10  # that share a level before it is named, or a bin
MAX_NAMED_LEVELS = 40
MAX_COLUMNS = 1_000  # in a profile
N_MARKS = 4_096  # different marks of levels that are not named
MAX_MARKED_LEVELS = 100


@dataclass(frozen=True)
class ColumnProfile:
    """Profile of a column.

    Numbers are in bins: those of dates are seconds since 1970, those of text the lengths of the texts.
    """

    kind: Kind
    gaps: float  # share of the rows without a value
    distinct: int  # number of different values
    edges: list[float]  # the lowest value and the upper edge of each bin; the last is the highest value
    levels: list[str]  # the levels of a category that are named
    shares: list[float]  # share of the values in each bin or level
    others: float = 0.0  # expected share of the values at levels that are not named
    new: float = 0.0  # expected share of the values at levels that the training table does not have
    # A mark, one of 4,096 numbers, for each level that is not named, by which it is recognised. None if there are too
    # many, so that new levels cannot be distinguished from rare ones.
    marks: list[int] | None = None


@dataclass(frozen=True)
class AnswerProfile:
    """Profile of the model's predictions."""

    rows: float  # effective number of rows
    shares: list[float]  # share of the rows of each class, in the order of ``classes_``
    # The confidence, if the rows are unlabelled: a model is more confident on rows with labels
    confidence: ColumnProfile | None = None
    mean: float | None = None  # the mean of the confidence


@dataclass(frozen=True)
class TrainingProfile:
    """Profile of a training table."""

    rows: int  # number of rows
    effective: float  # effective number of rows: the number of equally weighted rows whose means are as certain
    columns: dict[str, ColumnProfile]
    answers: AnswerProfile | None
    # Fingerprint of the data that the model was fitted to; a model that is fitted again has another one
    data: str | None = None


def profile_table(
    columns: pd.DataFrame,
    proba: Array | None,
    *,
    weight: Array | None = None,
    unlabeled: Array | None = None,
    data: str | None = None,
) -> TrainingProfile:
    """Return the profile of a training table whose columns are as the model uses them; the first 1,000 are profiled.

    ``proba`` are the probabilities of the classes for each row; None if they are unlike those of new rows. If 50 rows
    are ``unlabeled``, only predictions of these are profiled. ``data`` is the fingerprint of the data.
    """
    weight = np.ones(len(columns)) if weight is None else weight
    some = columns.iloc[:, :MAX_COLUMNS]
    return TrainingProfile(
        rows=int((weight > 0).sum()),
        effective=effective_rows(weight),
        columns={str(name): profile_column(column, weight) for name, column in some.items()},
        answers=None if proba is None else _profile_answers(proba, weight, unlabeled),
        data=data,
    )


def _profile_answers(proba: Array, weight: Array, unlabeled: Array | None) -> AnswerProfile:
    fresh = unlabeled is not None and (weight[unlabeled] > 0).sum() >= 50
    if fresh:
        proba, weight = proba[unlabeled], weight[unlabeled]
    counts = np.bincount(proba.argmax(axis=1), weights=weight, minlength=proba.shape[1])
    rows, shares, best = effective_rows(weight), _rounded(counts / counts.sum()), proba.max(axis=1).astype(float)
    if not fresh:
        return AnswerProfile(rows, shares)
    return AnswerProfile(rows, shares, profile_column(pd.Series(best), weight), float(np.average(best, weights=weight)))


def profile_column(column: pd.Series[Any], weight: Array) -> ColumnProfile:
    """Return the profile of one column: numbers, dates, or anything else as text."""
    given = (column.notna().to_numpy() & (weight > 0)).astype(bool)
    gaps = float(f"{1 - weight[given].sum() / weight.sum():.6g}")
    values, weight = column[given], weight[given]
    kind: Kind = "date" if kind_of(column) == "date" else "number"
    if kind_of(column) == "text":
        levels = values.value_counts()
        if len(levels) < 100 or int(levels[_is_named(levels, 0)].sum()) * 2 >= len(values):
            return _profile_category(values, weight, gaps, levels)
        kind = "text"
    numbers = as_numbers(values, kind)
    edges = _edges(numbers, weight)
    inside = bin_of(edges, numbers) if len(edges) else np.empty(0, int)
    counts = np.bincount(inside, weights=weight, minlength=len(edges) + 1)[1:-1]
    shares = _rounded(counts / counts.sum()) if len(counts) else []
    return ColumnProfile(kind, gaps, int(values.nunique()), edges.tolist(), [], shares)


def as_numbers(values: pd.Series[Any], kind: Kind) -> Array:
    """Return values without gaps as numbers, to put them in bins."""
    if kind == "number":
        return np.asarray(values.to_numpy(np.float64))
    if kind == "date":
        return seconds_of(values)
    return np.asarray(values.str.len().to_numpy(np.float64))


def bin_of(edges: Array, numbers: Array) -> Array:
    """Return the bin of each number: 0 is below the range, ``len(edges)`` above it.

    Examples
    --------
    >>> bin_of(np.array([0.0, 1.0, 5.0]), np.array([-1.0, 0.0, 1.0, 2.0, 6.0])).tolist()
    [0, 1, 1, 2, 3]
    """
    bins = np.searchsorted(edges[1:], numbers, side="left") + 1
    bins[numbers < edges[0]] = 0
    return cast(Array, bins)


def count_bins(edges: Array, numbers: Array) -> Array:
    """Return the counts of numbers below the range, in each bin, and above it, faster than by ``bin_of``."""
    ordered = np.sort(numbers)
    upto = np.searchsorted(ordered, edges[1:], side="right")
    below = np.searchsorted(ordered, edges[0], side="left")
    return np.diff(np.concatenate([[0, below], upto, [len(ordered)]]))


def _edges(numbers: Array, weight: Array) -> Array:
    """Return the lowest value and quantiles, rounded outward."""
    if not len(numbers):
        return np.empty(0)
    order = np.argsort(numbers, kind="stable")
    numbers, below = numbers[order], np.cumsum(weight[order])
    n_bins = min(max(len(numbers) // MIN_SHARED_ROWS, 1), MAX_BINS)
    at = np.searchsorted(below, below[-1] * (np.arange(1, n_bins) / n_bins - 1e-12))
    quantiles = np.append(numbers[np.minimum(at, len(numbers) - 1)], numbers[-1])
    low, high = numbers[int(0.05 * (len(numbers) - 1))], numbers[int(0.95 * (len(numbers) - 1))]
    spread = high - low or numbers[-1] - numbers[0]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        power = math.floor(math.log10(spread / 100)) if 0 < spread < math.inf and spread / 100 > 0 else None
        if power is not None and abs(power) < 300:
            up = 10.0**-power if power < 0 else 1.0
            down = 10.0**power if power > 0 else 1.0
            rounded = np.append(np.floor(numbers[0] * up / down), np.ceil(quantiles * up / down)) * down / up
            if np.isfinite(rounded).all() and rounded[0] <= numbers[0] and rounded[-1] >= numbers[-1]:
                return np.append(rounded[0], np.unique(rounded[1:]))
    return np.append(numbers[0], np.unique(quantiles))


def _is_named(levels: pd.Series[int], less: int) -> Array:
    """Return a mask of the levels that are named, or would be with ``less`` fewer rows."""
    beyond = int(levels.iloc[MAX_NAMED_LEVELS]) + 1 if len(levels) > MAX_NAMED_LEVELS else 0
    short = levels.index.str.len().to_numpy() <= 100 if len(levels) else np.empty(0, bool)
    return np.asarray((levels.to_numpy() - less >= max(MIN_SHARED_ROWS, beyond)) & short)


def _profile_category(values: pd.Series[Any], weight: Array, gaps: float, levels: pd.Series[int]) -> ColumnProfile:
    """Return the profile of a category.

    Levels are named because they are frequent here, so they are a little less frequent in other rows. The expected
    share of other levels there is the share of rows whose level would not be named without this one row. The expected
    share of new levels is the share of rows whose level would not be known without this row (Good and Turing's idea).
    """
    names = [str(name) for name in levels.index[_is_named(levels, 0)]]
    if not len(values):
        return ColumnProfile("category", gaps, 0, [], [], [])
    codes = pd.Index(names, dtype=object).get_indexer(values.astype(object))
    counts = np.bincount(codes + 1, weights=weight, minlength=len(names) + 1)[1:]
    sure = levels.index[_is_named(levels, 1)]
    rare = weight[~values.isin(sure).to_numpy()].sum() if len(names) < len(levels) else 0.0
    once = levels.index[levels.to_numpy() == 1]
    new = float(weight[values.isin(once).to_numpy()].sum() / weight.sum())
    marks = sorted({mark_of(str(name)) for name in levels.index.difference(names)})
    return ColumnProfile(
        kind="category",
        gaps=gaps,
        distinct=len(levels),
        edges=[],
        levels=names,
        shares=_rounded(counts / weight.sum()),
        others=float(f"{rare / weight.sum():.6g}"),
        new=float(f"{new:.6g}"),
        marks=marks if len(marks) <= MAX_MARKED_LEVELS else None,
    )


def mark_of(level: str) -> int:
    """Return a number from 0 to 4,095 for a level."""
    return zlib.crc32(level.encode("utf-8", "backslashreplace")) % N_MARKS


def _rounded(shares: Array) -> list[float]:
    return [float(f"{share:.6g}") for share in shares]


# -- files -----------------------------------------------------------------------------------------------------


def dump_profile(profile: TrainingProfile) -> bytes:
    """Return a profile as the content of a file."""
    return json.dumps(asdict(profile), allow_nan=False, separators=(",", ":")).encode("ascii")


def read_profile(data: bytes, kinds: Mapping[str, str], n_classes: int) -> TrainingProfile:
    """Return the profile in a file, or raise if it does not belong to a model with these columns and classes."""
    try:
        _need(len(data) <= 1 << 25, "it is too large")
        content = json.loads(data)
        columns = {name: _read_column(column) for name, column in content["columns"].items()}
        answers = None if content["answers"] is None else _read_answers(content["answers"], n_classes)
        profile = TrainingProfile(content["rows"], content["effective"], columns, answers, content["data"])
        _need(asdict(profile) == content, "it has parts that no profile has")
        _need(isinstance(profile.data, str | None), "its fingerprint is not text")
        _need(len(columns) <= MAX_COLUMNS, "it has too many columns")
        for name, column in columns.items():
            expected = {"number": ("number",), "date": ("date",)}.get(kinds[name], ("category", "text"))
            _need(column.kind in expected, f"column {name!r} is of another kind")
        valid = _is_count(profile.rows) and 0 < _number(profile.effective) <= profile.rows * 1.001
        _need(valid, "its rows do not add up")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ModelFileError(
            f"the profile of the training table does not belong to this model ({type(error).__name__}: {error}). Save "
            "the model again."
        ) from None
    return profile


def _read_column(entry: Mapping[str, Any]) -> ColumnProfile:
    column = ColumnProfile(**entry)
    kind, edges, levels, marks = (
        column.kind,
        [_number(edge) for edge in column.edges],
        column.levels,
        column.marks or [],
    )
    _need(kind in get_args(Kind) and _is_count(column.distinct), "a column has no kind")
    ordered = all(low < high for low, high in pairwise(edges[1:])) and edges[:1] <= edges[1:2]
    _need(not edges or (2 <= len(edges) <= MAX_BINS + 1 and ordered), "bins are not in order, or are too many")
    _need(kind != "date" or all(abs(edge) < 1e15 for edge in edges), "a date is out of range")
    valid = all(isinstance(level, str) for level in levels) and len(set(levels)) == len(levels) <= MAX_NAMED_LEVELS
    _need(valid and not (edges and levels), "levels are not text, occur twice, or are too many")
    _need(len(marks) <= MAX_MARKED_LEVELS and all(_is_count(mark) and mark < N_MARKS for mark in marks), "odd marks")
    _need(len(column.shares) == (len(levels) if kind == "category" else max(len(edges) - 1, 0)), "a bin has no share")
    shares = column.gaps, column.others, column.new, *column.shares
    _need(all(0 <= _number(share) <= 1 for share in shares), "a share is not between 0 and 1")
    valid = sum(column.shares) < 1.001 and (kind == "category" or not edges or _are_all(column.shares))
    _need(valid, "shares do not add up")
    return column


def _read_answers(entry: Mapping[str, Any], n_classes: int) -> AnswerProfile:
    confidence = None if entry["confidence"] is None else _read_column(entry["confidence"])
    _need(confidence is None or confidence.kind == "number", "the confidence is not a number")
    _need((confidence is None) == (entry["mean"] is None), "the confidence has no mean")
    _need(confidence is None or _number(entry["mean"]) >= 0, "the confidence has no mean")
    _need(len(entry["shares"]) == n_classes and _number(entry["rows"]) > 0, "it has other classes")
    _need(_are_all(entry["shares"]), "shares do not add up to one")
    return AnswerProfile(entry["rows"], entry["shares"], confidence, entry["mean"])


def _are_all(shares: list[float]) -> bool:
    return all(_number(share) >= 0 for share in shares) and abs(sum(shares) - 1) < 1e-3


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _number(value: Any) -> float:
    _need(type(value) in (int, float) and math.isfinite(value), "a number is not finite")
    return float(value)


def _need(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)
