"""Rows of a fit: read a table, and separate features, labels, weights and identifiers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from deepsep.core.labels import Labels, as_labels, given_labels
from deepsep.errors import DataError, ParameterError, Setting, Worded
from deepsep.scoring.to_label import LABEL_SHEET
from deepsep.table.batches import Opened, OpenFiles, open_files, open_table
from deepsep.table.columns import key_text
from deepsep.table.excel import sheet_names
from deepsep.table.join import (
    DRAWN_COLUMN,
    USUAL_LABEL_NAMES,
    add_labels,
    is_label,
    join_labels,
    read_drawn,
    word_or_column,
)
from deepsep.table.locations import find_column
from deepsep.table.reading import read_table
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.sampling import (
    MAX_USEFUL_UNLABELED,
    ChosenRows,
    choose_rows,
    has_more_rows,
    open_tables,
    other_rows,
    read_rows,
)
from deepsep.table.source import ExternalRows, RepeatedRows, SomeRows, TableInMemory
from deepsep.table.spellings import Merged, clean_labels

ROW_COLUMN = "row"  # name of the row numbers in outputs
Note = Callable[[str | Worded], object]


@dataclass(frozen=True, kw_only=True)
class TrainingTable:
    """Rows and labels of a fit, and how their files are read.

    Parameters
    ----------
    source : path, sequence of paths, Query or DataFrame
        The rows.
    label : str, optional
        Column of labels; empty for unlabelled rows.
    labels : path, DataFrame, or a sequence of these
        Other tables with labels.
    on : str, optional
        Column of identifiers by which they are joined. None: ``id``.
    prefer : {"new", "old"}, optional
        Which of two contradictory labels is used. None: they are an error.
    labels_drawn : str, optional
        Origin of the labels: "random", "quota" or "chosen", or a column that has one of these words for each label.
    weight, label_weight : str, optional
        Columns with the weight of each row, and of each label in ``labels``.
    id : str, optional
        Column of identifiers.
    drop, text : sequence of str
        Columns that are left out, and those that are read as text.
    unlabeled : int or "all", optional
        Unlabelled rows to learn from. None: 20,000.
    merge_spellings : bool, default=False
        Whether labels that differ only in case, blanks and accents are one class.
    no_label : str or sequence of str
        Words in the column of labels that mean no label, such as "unknown".
    reading : Reading
        Settings of how the files are read.
    """

    source: Any
    label: str | None = None
    labels: Any = ()
    on: str | None = None
    prefer: Literal["new", "old"] | None = None
    labels_drawn: str | None = None
    weight: str | None = None
    label_weight: str | None = None
    id: str | None = None
    drop: Sequence[str] = ()
    text: Sequence[str] = ()
    unlabeled: int | Literal["all"] | None = None
    merge_spellings: bool = False
    no_label: str | Sequence[str] = ()
    reading: Reading = AS_DETECTED

    def __post_init__(self) -> None:
        if isinstance(self.no_label, str):
            object.__setattr__(self, "no_label", [self.no_label])
        for name in ("drop", "text"):
            if isinstance(getattr(self, name), str):
                raise ParameterError("{setting}; pass a list of columns.", setting=Setting(name, getattr(self, name)))
        if not isinstance(self.labels, list | tuple):
            object.__setattr__(self, "labels", [self.labels])

    def open(self) -> Opened:
        """Open the files of the rows."""
        return open_table(self.source, self.reading)

    @property
    def most_unlabeled(self) -> int | None:
        """Most unlabelled rows to learn from; None: all."""
        if self.unlabeled is None:
            return MAX_USEFUL_UNLABELED
        if self.unlabeled == "all":
            return None
        if not (isinstance(self.unlabeled, int) and self.unlabeled > 0):
            raise ParameterError(
                "{unlabeled}: write a number of rows above 0, such as 100000, or all.",
                unlabeled=Setting("unlabeled", self.unlabeled),
            )
        return self.unlabeled

    @cached_property
    def opened_labels(self) -> list[OpenFiles | TableInMemory]:
        """The tables of labels, opened; of a workbook of a fit, the sheet to fill in."""
        tables: list[Any] = []
        for file in self.labels:
            table = open_table(file)
            is_book = isinstance(table, OpenFiles) and table.kind == "excel"
            to_fill_in = is_book and LABEL_SHEET in sheet_names(Path(file))
            tables.append(open_files(file, Reading(sheet=LABEL_SHEET)) if to_fill_in else table)
        return tables

    @property
    def joined_on(self) -> str:
        """Column by which labels are joined: ``on``, ``id``, or the row numbers of a file of ``deepsep next``."""
        return self.on or self.id or ROW_COLUMN


@dataclass(frozen=True)
class TableOrigin:
    """Settings with which a training table was read; a model remembers them for later tables."""

    kind: str  # format of the files, such as "text" or "excel"; "query" or "frame" for rows that come from no file
    id: str | None  # column of identifiers
    reading: Reading = AS_DETECTED
    drop: tuple[str, ...] = ()  # columns that were left out
    text: tuple[str, ...] = ()  # columns that were read as text
    weight: str | None = None  # column with the weight of each row
    merge_spellings: bool = False  # whether labels that differ only in case, blanks and accents were one class
    no_label: tuple[str, ...] = ()  # words in the column of labels that meant no label

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> TableOrigin:
        """Return the origin that a manifest holds, or raise if its values have other types."""
        columns = {name: tuple(values.get(name, ())) for name in ("drop", "text", "no_label")}
        origin = cls(**{**values, **columns, "reading": Reading(**values["reading"])})
        own = origin.reading
        texts = (origin.id, origin.weight, own.encoding, own.delimiter, *origin.drop, *origin.text, *origin.no_label)
        if not (
            isinstance(origin.kind, str)
            and all(isinstance(text, str | None) for text in texts)
            and isinstance(own.sheet, str | int)
            and isinstance(origin.merge_spellings, bool)
            and isinstance(own.dayfirst, bool | None)
        ):
            raise ValueError("a value has another type")
        return origin


@dataclass(frozen=True)
class LargeTable:
    """A table of which a part is in memory."""

    source: Opened
    id: str | None  # the column by which its rows are known in the outputs
    order: str | None  # the column by which those of a query are sorted
    chosen: ChosenRows  # the rows in memory, from which a fit learns

    @contextmanager
    def unlabeled(self) -> Iterator[Sequence[SomeRows]]:
        """Open the table, without the labelled rows; those of a query may have become more since."""
        chosen = self.chosen
        with open_tables(self.source, self.order) as tables:
            if isinstance(tables[0], RepeatedRows) and chosen.keys is not None:
                yield [tables[0].without(chosen.keys[chosen.labeled])]
            else:
                yield other_rows(tables, chosen.labeled)


@dataclass(frozen=True)
class Training:
    """Rows of a fit."""

    X: pd.DataFrame  # the features: never the label, the weight or the identifier
    y: pd.Series[Any]  # the labels; missing for unlabelled rows
    weight: Any  # an array, or None
    ids: pd.Series[Any]  # the identifiers, or the row numbers, with their column name in the outputs
    label: str  # name of the column of labels
    large: LargeTable | None = None  # the table that has more rows than these; None: these are all
    labels_drawn: Any = None  # the origin of each label as a word, None where it is unknown; None: nothing is known
    origin: TableOrigin | None = None  # settings with which later tables are read as well
    seed: int = 0  # of the choice of rows, and of the evaluation
    merged: Merged = field(default_factory=dict)  # spellings of the classes that were merged

    @cached_property
    def labels(self) -> Labels:
        """The labels as codes, read once."""
        return as_labels(self.y)

    @property
    def labeled(self) -> Any:
        """True for rows with a label."""
        return self.labels.labeled

    @property
    def n_unlabeled(self) -> int:
        """Number of unlabelled rows of the whole table."""
        return int((~self.labeled).sum()) if self.large is None else self.large.chosen.n_unlabeled


def number_rows(n: int, chosen: ChosenRows | None = None) -> pd.Series[Any]:
    """Return row numbers from 0, for tables without identifiers."""
    return pd.Series(np.arange(n) if chosen is None else chosen.read, name=ROW_COLUMN)


def weights_in(frame: pd.DataFrame, column: str) -> Any:
    """Return a column as weights, or raise with the first row that has none."""
    cells = frame[find_column(frame.columns, column, "weight column")]
    numbers = pd.to_numeric(cells, errors="coerce")
    if numbers.isna().all() and cells.notna().any():
        raise DataError(
            f"weight column {column!r} holds text, such as {cells.dropna().iloc[0]!r}. Name a column of numbers."
        )
    values = numbers.to_numpy(float)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            f"weight column {column!r}: row {row + 1} has {frame[column].iloc[row]!r}. A weight is a number of at "
            f"least 0, and {int(bad.sum())} rows have none. Fill them in, for example with 1."
        )
    return values


def read_training(
    asked: TrainingTable, seed: int = 0, *, source: Any = None, note: Note = lambda text: None
) -> Training:
    """Read a table with labels in one of its columns, or in other tables that are joined to it.

    Of a table with more unlabelled rows than a fit is to learn from, all labelled rows and some of the others are read.
    ``source`` is the table if it is open already; ``note`` is called with messages on what is done.
    """
    _check_together(asked)
    note(f"Reading {asked.source} ...") if not isinstance(asked.source, pd.DataFrame) else None
    source = source or asked.open()
    most, types, on = asked.most_unlabeled, dict.fromkeys(asked.text, "text"), asked.joined_on
    label, id, order = asked.label, asked.id, on if asked.labels else asked.id
    if most is not None and not has_more_rows(source, most):
        most = None
    if isinstance(source, ExternalRows) and order in (None, ROW_COLUMN) and asked.unlabeled is None:
        most = None  # its rows may come in another order each time
    chosen = None
    if not asked.labels:
        if most is not None:
            with open_tables(source, id) as tables:
                chosen = choose_rows(tables, label=label, n=most, seed=seed)
        frame = _read(source, chosen, label=label, id=id, types=types)
        (frame,), merged = _clean([frame], label, asked)
        word, column = _drawn(asked, list(frame.columns))
        frame = _with_origins(frame, label, str(source), column)
    else:
        frame, label, chosen, word, merged = _with_labels(asked, source, on, types, most, seed, note)
        id = id or (on if on != ROW_COLUMN or on in frame.columns else None)
    if isinstance(source, ExternalRows):
        note(f"Read {len(frame):,} rows of {frame.shape[1]} columns.")
    if chosen is not None:
        same = len(frame) == len(chosen.read)
        labeled = chosen.read[given_labels(frame[label])[0]] if same else chosen.read[:0]
        if not same or not (asked.labels or asked.no_label or np.array_equal(labeled, chosen.labeled)):
            raise DataError(f"{source} has changed while it was read. Fit again when nothing writes to it.")
        # Other tables may have named rows without giving them a label, and words may mean that there is none.
        chosen = replace(chosen, labeled=labeled)
        note(_what_is_used(chosen, asked))
    weights = [weights_in(frame, name) for name in (asked.weight, asked.label_weight) if name is not None]
    apart = {label, asked.weight, asked.label_weight, id, asked.on, DRAWN_COLUMN}
    apart |= {find_column(frame.columns, name, setting="drop") for name in asked.drop}
    weight = np.prod(weights, axis=0) if weights else None
    if weight is not None and not weight[frame[label].notna().to_numpy()].any():
        raise DataError(
            "the weights of all labelled rows are 0, so that there is nothing to learn from. Give weights above 0 to "
            "some of them, or leave out the column of weights."
        )
    return Training(
        X=frame.drop(columns=[name for name in frame.columns if name in apart]),
        y=frame[label],
        weight=weight,
        ids=number_rows(len(frame), chosen) if id is None else frame[find_column(frame.columns, id, "id column")],
        label=str(label),
        large=None if chosen is None else LargeTable(source, id, order, chosen),
        labels_drawn=_origins(frame, word),
        origin=TableOrigin(
            source.kind,
            id if id != ROW_COLUMN else None,
            asked.reading,
            tuple(asked.drop),
            tuple(asked.text),
            asked.weight,
            asked.merge_spellings,
            tuple(asked.no_label),
        ),
        seed=seed,
        merged=merged,
    )


def _drawn(asked: TrainingTable, names: list[str]) -> tuple[str | None, str | None]:
    """Return the word for all labels without another origin, and the column of origins."""
    if asked.labels_drawn is None:
        return None, None
    return word_or_column(asked.labels_drawn, names, " or ".join(map(str, [asked.source, *asked.labels])))


def _with_origins(frame: pd.DataFrame, label: str | None, where: str, column: str | None) -> pd.DataFrame:
    """Return a table with the origins of its labels, if it has any, in a column of the usual name."""
    labeled = is_label(frame[label]).to_numpy() if label in frame.columns else np.ones(len(frame), bool)
    words = read_drawn(frame, labeled, where, named=column)
    if words is None:
        return frame
    return frame.drop(columns=[name for name in (column,) if name in frame.columns]).assign(**{DRAWN_COLUMN: words})


def _clean(frames: list[pd.DataFrame], label: str | None, asked: TrainingTable) -> tuple[list[pd.DataFrame], Merged]:
    """Return tables with labels as asked for: spellings merged, and words for no label taken away."""
    at = [k for k, frame in enumerate(frames) if label in frame.columns]
    if not at or not (asked.merge_spellings or asked.no_label):
        return frames, {}
    given = [frames[k][label] for k in at]
    columns, merged = clean_labels(given, merge=asked.merge_spellings, no_label=asked.no_label)
    frames = list(frames)
    for k, column in zip(at, columns, strict=True):
        frames[k] = frames[k].assign(**{str(label): column})
    return frames, merged


def _origins(frame: pd.DataFrame, word: str | None) -> Any:
    """Return the origins that a column has, and the word where it has none."""
    if DRAWN_COLUMN not in frame.columns:
        return None if word is None else np.full(len(frame), word, object)
    words = frame[DRAWN_COLUMN].astype(object)
    return words.where(words.notna(), word).to_numpy()


def _read(source: Opened, chosen: ChosenRows | None, **how: Any) -> pd.DataFrame:
    return read_table(source, **how) if chosen is None else read_rows(source, chosen.read, keys=chosen.keys, **how)


def _what_is_used(chosen: ChosenRows, asked: TrainingTable) -> Worded:
    """Return which unlabelled rows are learned from, in words."""
    why = " More did not help in our measurements; {unlabeled} reads all of them into memory."
    return Worded(
        f"The table has {chosen.n_unlabeled:,} unlabelled rows. It learns from {chosen.n_used:,} of them, drawn at "
        f"random, and predicts all.{why if asked.unlabeled is None else ''}",
        unlabeled=Setting("unlabeled", "all"),
    )


def _with_labels(
    asked: TrainingTable,
    source: Opened,
    on: str,
    types: dict[str, Any],
    most: int | None,
    seed: int,
    note: Note,
) -> tuple[pd.DataFrame, str, ChosenRows | None, str | None, Merged]:
    """Return the table with the labels of other ones, next to its own if it has any, and the name of their column.

    It reads at most ``most`` unlabelled rows; None: all. It also returns the rows that were chosen of a large table,
    the origin of labels that have no other, and the spellings that were merged.
    """
    files, weight = asked.opened_labels, asked.label_weight
    # Before any values are read: a class may be called "NA" in the column of labels, and only there.
    apart = (on, weight, DRAWN_COLUMN, asked.labels_drawn)
    label, own = asked.label or _only_label(files[0].names, apart), names_of(source)
    by_number = on == ROW_COLUMN and ROW_COLUMN not in own
    id = None if by_number else on
    own_label, chosen, tables = label if label in own else None, None, []
    for file in files:
        tables.append(_read(file, None, label=label, id=find_column(file.names, on, f"{file}: id column")))
    word, column = _drawn(asked, [*own, *(name for known in tables for name in known.columns)])
    if most is not None:
        with open_tables(source, id) as opened:
            is_known = (id, _in_any([known[on] for known in tables]))
            chosen = choose_rows(opened, label=own_label, is_known=is_known, n=most, seed=seed)
    frame = _read(source, chosen, label=own_label, id=id, types=types)
    if by_number:
        frame = frame.assign(**{ROW_COLUMN: number_rows(len(frame), chosen).to_numpy()})
    (frame, *tables), merged = _clean([frame, *tables], label, asked)
    frame = _with_origins(frame, own_label, str(source), column)
    for file, known in zip(files, tables, strict=True):
        known = _with_origins(known, label, str(file), column)
        if label is not None and label in frame.columns:
            frame, summary = add_labels(frame, known, on=on, label=label, weight=weight, prefer=asked.prefer)
            note(_what_was_added(file, summary, asked))
        else:
            frame, summary = join_labels(frame, known, on=on, label=label, weight=weight)
            if label is None:
                label = str(summary["label"])
                (frame,), merged = _clean([frame], label, asked)
            note(f"{summary['labelled']:,} of {summary['rows']:,} rows have a label in {file}.")
    return frame.drop(columns=ROW_COLUMN) if by_number else frame, str(label), chosen, word, merged


def _in_any(columns: list[pd.Series[Any]]) -> Any:
    """Return which rows have an identifier of one of these columns, or one that differs from it in leading zeros."""

    def plain(value: Any) -> str | None:
        text = key_text(value)
        return None if text is None else text.strip().lstrip("0")

    known = {plain(value) for column in columns for value in column.dropna()}

    def mask(cells: Any, first: int, n: int) -> Any:
        values = range(first, first + n) if cells is None else cells
        return np.fromiter((plain(value) in known for value in values), bool, n)

    return mask


def _only_label(names: list[str], apart: Container[str | None]) -> str | None:
    """Return the column of labels of a table, if there is no doubt."""
    others = [name for name in names if name not in apart]
    usual = [name for name in USUAL_LABEL_NAMES if name in others]
    return next(iter(usual or (others if len(others) == 1 else [])), None)


def names_of(source: Opened) -> list[str]:
    """Return the names of the columns of a table."""
    if isinstance(source, ExternalRows):
        with source.open() as table:
            return table.names
    return source.names


def _what_was_added(file: OpenFiles | TableInMemory, summary: dict[str, Any], asked: TrainingTable) -> str:
    parts = [f"{summary['new']:,} new", f"{summary['same']:,} known and the same"]
    if summary["contradictory"]:
        parts.append(f"{summary['contradictory']:,} contradictory, of which the {asked.prefer} ones are used")
    return f"Labels in {file}: {', '.join(parts)}. {summary['labelled']:,} of {summary['rows']:,} rows have one now."


def _check_together(asked: TrainingTable) -> None:
    """Raise if a setting lacks the one it belongs to, or two of them name one column."""
    roles = {"label": asked.label, "weight": asked.weight, "label_weight": asked.label_weight}
    roles |= {"on": asked.on} if asked.labels else {"id": asked.id}
    roles |= {DRAWN_COLUMN: asked.labels_drawn}
    words = {name: Setting(name) for name in ("label", "labels", *roles)}
    for role, column in roles.items():
        if column == DRAWN_COLUMN and role != DRAWN_COLUMN:
            raise ParameterError(
                "{role}: a column of this name says how the labels were drawn. Rename it.",
                role=Setting(role, DRAWN_COLUMN),
            )
    if len(asked.labels) > 1 and asked.label_weight is not None:
        raise ParameterError("{label_weight} is for one table of labels: name one with {labels}.", **words)
    for (one, column), (other, same) in combinations(roles.items(), 2):
        if column is not None and column == same:
            raise ParameterError(
                f"{{one}} and {{other}} are both {column!r}. Name two columns, or leave out {{other}}.",
                one=Setting(one),
                other=Setting(other),
            )
    if not asked.labels:
        if asked.label is None:
            raise ParameterError(
                "which column holds the labels? Name it with {label}, or another table with {labels}.", **words
            )
        for name, value in (("on", asked.on), ("label_weight", asked.label_weight), ("prefer", asked.prefer)):
            if value is not None:
                raise ParameterError(
                    "{name} belongs to {labels}: name the table whose labels are to be joined.",
                    name=Setting(name),
                    labels=Setting("labels"),
                )
    elif asked.joined_on == ROW_COLUMN and ROW_COLUMN not in asked.opened_labels[0].names:
        raise ParameterError(
            f"{asked.opened_labels[0]} needs {{on}}: the identifier that both tables have.", on=Setting("on")
        )
