"""Recognise which columns of a survey are questions, and encode their answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse

from deepsep.core.arrays import Array
from deepsep.errors import DataError


@dataclass(frozen=True)
class Question:
    """A column of a survey whose cells are answers.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"choice", "several", "scale"}
        One answer from a list; any number of answers; one step of an ordered scale.
    answers : tuple of str
        The answers that count: in the order of the scale, otherwise the most frequent first.
    separator : str or None
        The text between several answers in a cell.
    """

    name: str
    kind: Literal["choice", "several", "scale"]
    answers: tuple[str, ...]
    separator: str | None = None

    def one_hot(self, column: Column) -> Any:
        """Return a CSR matrix (n, answers) of zeros and ones; answers that do not count get no column."""
        place = {answer: j for j, answer in enumerate(self.answers)}
        parts = [_split(level, self.separator) for level in column.levels]
        cells = [(i, place[part]) for i, given in enumerate(parts) for part in given if part in place]
        rows, answers = np.array(cells, dtype=np.int64).reshape(-1, 2).T
        # One row per level, and an empty last row, which the code -1 of a missing answer selects.
        shape = (len(parts) + 1, len(self.answers))
        levels = sparse.csr_array((np.ones(len(rows)), (rows, answers)), shape=shape)
        return levels[column.codes]


@dataclass(frozen=True)
class Column:
    """A column of cells as codes: indices into the distinct ``levels`` (text), -1 for a missing answer."""

    name: str
    codes: Array
    levels: list[str]
    ordered: bool
    numeric: bool

    def of(self, rows: Array) -> Column:
        """Return the column of some rows only, with the levels that they have."""
        codes = self.codes[rows]
        kept = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(self.levels)))
        to_kept = np.full(len(self.levels) + 1, -1)
        to_kept[kept] = np.arange(len(kept))
        return replace(self, codes=to_kept[codes], levels=[self.levels[i] for i in kept])

    @property
    def counts(self) -> Array:
        """Number of rows of each level."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.levels))


def read_column(name: str, cells: pd.Series) -> Column | None:
    """Return a column of cells, or None for dates.

    None, NaN and blank text are missing answers; true and false become Yes and No.
    """
    if cells.dtype.kind in "Mm":
        return None
    if cells.dtype == object:
        cells = cells.infer_objects()
    categories = getattr(cells.dtype, "categories", None)
    ordered = categories is not None and bool(cells.dtype.ordered)
    numeric = cells.dtype.kind in "iuf"
    try:
        codes, levels = pd.factorize(cells, sort=numeric or ordered)
    except TypeError as error:
        raise DataError(
            f"column {name!r} holds lists or other containers ({error}). Write several answers as text with a "
            'separator between them, such as "tea; milk".'
        ) from None
    if any(isinstance(level, date) for level in levels):
        return None
    texts = [_text(name, level) for level in levels]
    given = list(dict.fromkeys(text for text in texts if text is not None))
    place = {text: i for i, text in enumerate(given)}
    to_text = np.array([-1 if text is None else place[text] for text in texts] + [-1], dtype=np.int64)
    return Column(name, to_text[codes], given, ordered or numeric, numeric)


def read_question(
    name: str,
    column: Column | None,
    n: int,
    *,
    separator: str | None,
    detect: bool,
    min_count: int,
    max_levels: int = 20,
) -> Question | str:
    """Return the question in a column, or the reason why the column is not one."""
    if column is None:
        return "dates"
    counts = column.counts
    given = int(counts.sum())
    if not given:
        return "no answers"
    if len(column.levels) == 1 and given == n:
        return f"everyone gave the same answer, {column.levels[0]!r}"
    if len(column.levels) == given > max_levels:
        return "all answers differ: it looks like an identifier"
    if column.numeric and len(column.levels) > max_levels:
        return f"{len(column.levels)} different numbers: a measurement; bin it to use it"
    if column.ordered:
        separator = None
    elif detect:
        separator = find_separator(column.levels)
    shares: dict[str, int] = {}
    for level, count in zip(column.levels, counts.tolist(), strict=True):
        for part in _split(level, separator):
            shares[part] = shares.get(part, 0) + count
    kept = {answer: count for answer, count in shares.items() if count >= min_count}
    if 2 * sum(kept.values()) < sum(shares.values()):
        return f"{len(shares)} different answers, most of them given by fewer than {min_count}: free text"
    if len(kept) == 1 and next(iter(kept.values())) > n - min_count:
        return f"all but a few gave the same answer, {next(iter(kept))!r}"
    if column.ordered:
        return Question(name, "scale", tuple(kept))
    answers = tuple(sorted(kept, key=lambda answer: (-kept[answer], answer)))
    return Question(name, "several" if separator else "choice", answers, separator)


def find_separator(levels: Sequence[str]) -> str | None:
    """Return the separator between several answers in a cell, or None if each cell is one answer.

    Cells are combinations if splitting them leaves fewer different answers than there were different cells, and if most
    parts of a combination also occur in other cells. A sentence with a comma passes neither test.

    Examples
    --------
    >>> find_separator(["tea", "milk", "tea; milk", "tea; juice", "juice"])
    ';'
    >>> find_separator(["Often, once a day", "Rarely, once a week", "Never"]) is None
    True
    """
    for separator in (";", "|", ","):  # the most likely first
        combined = [level for level in levels if len(_split(level, separator)) > 1]
        if not combined:
            continue
        cells: dict[str, int] = {}
        for level in levels:
            for part in _split(level, separator):
                cells[part] = cells.get(part, 0) + 1
        parts = {part for level in combined for part in _split(level, separator)}
        if len(cells) < len(levels) and 2 * sum(cells[part] > 1 for part in parts) > len(parts):
            return separator
    return None


def unknown_answers(question: Question, column: Column) -> dict[str, int]:
    """Return the answers in a column that do not count for a question, with their respondents, most frequent first."""
    known, strange = set(question.answers), dict[str, int]()
    for level, count in zip(column.levels, column.counts.tolist(), strict=True):
        for part in _split(level, question.separator):
            if part not in known:
                strange[part] = strange.get(part, 0) + count
    return dict(sorted(strange.items(), key=lambda item: -item[1]))


def encode(columns: Mapping[str, Column | None], questions: Sequence[Question], n: int) -> Any:
    """Return a CSR matrix (n, answers of all questions) of zeros and ones."""
    blocks = []
    for question in questions:
        column = columns[question.name]
        if column is None:  # dates where the training table had answers
            blocks.append(sparse.csr_array((n, len(question.answers))))
        else:
            blocks.append(question.one_hot(column))
    return sparse.hstack(blocks, format="csr", dtype=np.float64)


def _split(cell: str, separator: str | None) -> list[str]:
    """Return the distinct answers in a cell."""
    if separator is None:
        return [cell]
    return list(dict.fromkeys(part.strip() for part in cell.split(separator) if part.strip()))


def _text(name: str, value: Any) -> str | None:
    if isinstance(value, bool | np.bool):
        return "Yes" if value else "No"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        if math.isinf(number):
            raise DataError(f"Input X contains infinity: column {name!r}. Replace it, or leave the cell empty.")
        return str(int(number)) if number.is_integer() else f"{number:g}"
    return str(value).strip() or None
