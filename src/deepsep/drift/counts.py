"""Count scored rows in the bins and levels of a training profile, batch by batch; counts of parts add up."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deepsep.drift.profile import ColumnProfile, TrainingProfile, as_numbers, bin_of, mark_of

Array = NDArray[Any]

ENOUGH = 5_000  # rows of a large file that are counted
SCATTER = 2_654_435_761  # odd, so that its multiples are spread evenly over 32 bits
OTHERS = 1_000  # most levels that are counted beside those of the profile


def one_in(rows: int | None) -> int:
    """Return one in how many rows of a table are to be counted; of a table of unknown size all are."""
    return max((rows or 0) // ENOUGH, 1)


class ColumnCounts:
    """How many rows of a column fall where.

    Attributes
    ----------
    gaps : int
        Rows without a value.
    counts : array of int
        Of numbers: values below the range, in each bin, and above it. Of categories: values at each level, and at
        others.
    new : int
        Values at levels that the training table does not have; if the profile cannot tell, at all it does not name.
    others : Counter
        These levels.
    typical : float or None
        The median of a batch of numbers, once most are outside the range.
    """

    def __init__(self, profile: ColumnProfile) -> None:
        self.profile = profile
        self.edges = np.array(profile.edges)
        self.levels = pd.Index(profile.levels, dtype=object)
        self.gaps = 0
        self.counts = np.zeros(len(profile.levels) + 1 if profile.kind == "category" else len(self.edges) + 1, np.int64)
        self.marks = set(profile.marks or ())
        self.new = 0
        self.others: Counter[str] = Counter()
        self.typical: float | None = None

    def add(self, column: pd.Series[Any]) -> None:
        """Count the next rows."""
        if self.profile.kind == "category":
            rows = column.value_counts(sort=False)
            self.gaps += len(column) - int(rows.sum())
            place = self.levels.get_indexer(rows.index.astype(object))
            numbers = rows.to_numpy()
            np.add.at(self.counts, place, numbers)  # the place of an unknown level is -1, the last
            for at in np.flatnonzero(place < 0):
                level = str(rows.index[at])
                if self.marks and mark_of(level) in self.marks:
                    continue
                self.new += int(numbers[at])
                if level in self.others or len(self.others) < OTHERS:
                    self.others[level] += int(numbers[at])
            return
        if self.profile.kind == "number":
            cells = column.to_numpy(np.float64)
            numbers = cells[~np.isnan(cells)]
        else:
            numbers = as_numbers(column.dropna(), self.profile.kind)
        self.gaps += len(column) - len(numbers)
        if len(numbers) and len(self.edges):
            self.counts += np.bincount(bin_of(self.edges, numbers), minlength=len(self.counts))
            if self.typical is None and 2 * int(self.counts[[0, -1]].sum()) > self.given:
                self.typical = float(np.median(numbers))

    def __iadd__(self, other: Self) -> Self:
        self.gaps += other.gaps
        self.counts += other.counts
        self.new += other.new
        self.others = Counter(dict((self.others + other.others).most_common(OTHERS)))
        self.typical = other.typical if self.typical is None else self.typical
        return self

    @property
    def given(self) -> int:
        """Rows with a value."""
        return int(self.counts.sum())


class Counts:
    """What there is to compare with a training profile, of the rows that were scored.

    Attributes
    ----------
    rows : int
        Rows seen.
    counted : int
        Rows whose columns were counted: all, or one in ``every``, chosen by row number as if at random.
    columns : dict {column: ColumnCounts}
    classes : array of int
        Rows per class, in the order of ``classes_``; none if the profile has no answers.
    confidence : ColumnCounts or None
    total_confidence : float
        Sum of the confidence.
    """

    def __init__(self, profile: TrainingProfile, every: int = 1) -> None:
        self.every = every
        self.rows = self.counted = 0
        self._chosen: Array | slice = slice(None)  # of the rows whose columns were just counted
        self.columns = {name: ColumnCounts(column) for name, column in profile.columns.items()}
        answers = profile.answers
        self.classes = np.zeros(0 if answers is None else len(answers.shares), np.int64)
        known = None if answers is None else answers.confidence
        self.confidence = None if known is None else ColumnCounts(known)
        self.total_confidence = 0.0

    def add_columns(self, frame: pd.DataFrame, first_row: int = 0) -> None:
        """Count the columns of the next rows, as the model uses them; the first has this number."""
        self.rows += len(frame)
        if self.every > 1:
            numbers = np.arange(first_row, first_row + len(frame), dtype=np.uint64)
            scattered = numbers * np.uint64(SCATTER) % np.uint64(1 << 32)
            self._chosen = np.flatnonzero(scattered < (1 << 32) // self.every)
            frame = frame.take(self._chosen)
        self.counted += len(frame)
        for name, column in self.columns.items():
            column.add(frame[name])

    def add_answers(self, codes: Array, confidence: Array | None) -> None:
        """Count the answers about the next rows: the index of each row's class, and the confidence."""
        if not len(self.classes):
            return
        self.classes += np.bincount(codes, minlength=len(self.classes))
        if self.confidence is not None and confidence is not None:
            self.confidence.add(pd.Series(confidence[self._chosen]))
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
