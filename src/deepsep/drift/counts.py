"""Counts of scored rows in the bins and levels of a training profile, batch by batch; counts of parts add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from deepsep.core.arrays import Array
from deepsep.drift.profile import ColumnProfile, TrainingProfile, as_numbers, count_bins, mark_of


def one_in(rows: int | None, enough: int = 5_000) -> int:
    """Return k if one in k rows of a table should be counted; 1, for all, if its size is unknown."""
    return max((rows or 0) // enough, 1)


class ColumnCounts:
    """Histogram of one column."""

    most_others = 1_000  # levels that are counted besides those of the profile

    def __init__(self, profile: ColumnProfile) -> None:
        self.profile, self.edges = profile, np.array(profile.edges)
        self.levels = {level: place for place, level in enumerate(profile.levels)}
        self.gaps = 0  # rows without a value
        # Of numbers: values below the range, in each bin, and above it. Of categories: at each level, and at others.
        self.counts = np.zeros(len(profile.levels) + 1 if profile.kind == "category" else len(self.edges) + 1, np.int64)
        self.marks = set(profile.marks or ())
        self.new = 0  # values at levels that the training table lacks; at all unnamed ones if its rare ones are unknown
        self.others: Counter[str] = Counter()  # these levels
        self.typical: float | None = None  # the median of a batch of numbers, once most are outside the range

    def add(self, column: Any) -> None:
        """Count the next rows: a Series, numbers with NaN for gaps, or (levels with None for gaps, codes of rows)."""
        if self.profile.kind == "category":
            if not isinstance(column, tuple):
                codes, levels = pd.factorize(column)
                column = [*map(str, levels), None], np.where(codes < 0, len(levels), codes)
            self._add_levels(*column)
            return
        if isinstance(column, tuple):  # text, whose lengths are counted
            names, codes = column
            column = pd.Series(np.array(names, dtype=object)[codes], dtype="str")
        if self.profile.kind == "number":
            cells = np.asarray(column, np.float64)
            numbers = cells[~np.isnan(cells)]
        else:
            numbers = as_numbers(column.dropna(), self.profile.kind)
        self.gaps += len(column) - len(numbers)
        if len(numbers) and len(self.edges):
            self.counts += count_bins(self.edges, numbers)
            if self.typical is None and 2 * int(self.counts[[0, -1]].sum()) > self.given:
                self.typical = float(np.median(numbers))

    def _add_levels(self, names: Sequence[str | None], codes: Array) -> None:
        for name, rows in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
            if name is None:
                self.gaps += rows
                continue
            place = self.levels.get(name, -1)
            self.counts[place] += rows  # the place of an unknown level is -1, the last
            if rows and place < 0 and mark_of(name) not in self.marks:
                self.new += rows
                if name in self.others or len(self.others) < self.most_others:
                    self.others[name] += rows

    def __iadd__(self, other: Self) -> Self:
        self.gaps += other.gaps
        self.counts += other.counts
        self.new += other.new
        self.others = Counter(dict((self.others + other.others).most_common(self.most_others)))
        self.typical = other.typical if self.typical is None else self.typical
        return self

    def to_plain(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        own = {name: getattr(self, name) for name in ("gaps", "new", "typical")}
        return {**own, "counts": self.counts.tolist(), "others": dict(self.others)}

    def restore(self, content: dict[str, Any]) -> None:
        """Set the counts to a result of ``to_plain``."""
        vars(self).update(content)
        self.counts, self.others = np.array(content["counts"], np.int64), Counter(content["others"])

    @property
    def given(self) -> int:
        """Number of rows with a value."""
        return int(self.counts.sum())


class Counts:
    """Counts of the rows that were scored, to compare with a training profile.

    Columns are counted in one row in ``every``, chosen pseudo-randomly by row number.
    """

    def __init__(self, profile: TrainingProfile, every: int = 1) -> None:
        self.profile, self.every = profile, every
        self.rows = self.counted = 0  # rows seen, and rows whose columns were counted
        self._chosen: Array | slice = slice(None)  # the rows of the last batch whose columns were counted
        self.columns = {name: ColumnCounts(column) for name, column in profile.columns.items()}
        answers = profile.answers
        # Rows per class, in the order of ``classes_``; empty if the profile has no predictions.
        self.classes = np.zeros(len(answers.shares) if answers else 0, np.int64)
        self.confidence = ColumnCounts(answers.confidence) if answers and answers.confidence else None
        self.total_confidence = 0.0

    def add_columns(self, columns: Mapping[str, Any] | pd.DataFrame, first_row: int = 0, n: int | None = None) -> None:
        """Count the columns of the next n rows, as the model uses them, from row number ``first_row``.

        Without n, the columns are a DataFrame.
        """
        n = len(columns) if n is None else n
        self.rows += n
        if self.every > 1:
            numbers = np.arange(first_row, first_row + n, dtype=np.uint64)
            # The multiples of an odd number are spread evenly over 32 bits.
            scattered = numbers * np.uint64(2_654_435_761) % np.uint64(1 << 32)
            self._chosen = np.flatnonzero(scattered < (1 << 32) // self.every)
            n = len(self._chosen)
        self.counted += n
        for name, column in self.columns.items():
            column.add(_taken(columns[name], self._chosen))

    def add_answers(self, codes: Array, confidence: Array | None) -> None:
        """Count the predictions of the next rows: the index of each row's class, and the confidence."""
        if not len(self.classes):
            return
        self.classes += np.bincount(codes, minlength=len(self.classes))
        if self.confidence is not None and confidence is not None:
            self.confidence.add(confidence[self._chosen])
            self.total_confidence += float(confidence.sum())

    def __iadd__(self, other: Self) -> Self:
        self.rows += other.rows
        self.counted += other.counted
        for name, column in self.columns.items():
            column += other.columns[name]
        self.classes += other.classes
        if self.confidence is not None and other.confidence is not None:
            self.confidence += other.confidence
        self.total_confidence += other.total_confidence
        return self

    def to_plain(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "rows": self.rows,
            "counted": self.counted,
            "columns": {name: column.to_plain() for name, column in self.columns.items()},
            "classes": self.classes.tolist(),
            "confidence": None if self.confidence is None else self.confidence.to_plain(),
            "total_confidence": self.total_confidence,
        }

    def from_plain(self, content: dict[str, Any]) -> Self:
        """Return counts for the same profile from a result of ``to_plain``."""
        other = type(self)(self.profile, self.every)
        other.rows, other.counted = content["rows"], content["counted"]
        for name, column in other.columns.items():
            column.restore(content["columns"][name])
        other.classes = np.array(content["classes"], np.int64)
        if other.confidence is not None:
            other.confidence.restore(content["confidence"])
        other.total_confidence = content["total_confidence"]
        return other


def _taken(column: Any, rows: Array | slice) -> Any:
    if isinstance(column, tuple):
        return column[0], column[1][rows]
    return column.iloc[rows] if isinstance(column, pd.Series) else column[rows]
