"""Samples of tables of any size: all rows that have a label, and a random part of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from deepsep.core.arrays import Array
from deepsep.core.checks import is_integer, with_fields
from deepsep.core.column_kinds import ColumnType
from deepsep.core.labels import given_labels
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.table.arrow_frames import to_frame, without_dictionary
from deepsep.table.batches import Opened, OpenFiles, TableFile, open_table
from deepsep.table.column_types import labels_of
from deepsep.table.columns import tidied
from deepsep.table.locations import Named, check_memory, find_column
from deepsep.table.reading import check_types, joined, read_table, typed_rows
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.source import ExternalRows, RepeatedRows, SomeRows, Source, TableInMemory

Table = TableFile | RepeatedRows | TableInMemory
IsKnown = Callable[[Any, int, int], Array]  # cells of a column, the number of the first row, and how many they are

MAX_USEFUL_UNLABELED = 20_000  # unlabelled rows beyond which more did not help: docs/results/unlabelled-rows.md


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a table that a fit learns from, by their numbers, ascending."""

    read: Array  # all with a label, and a part of the others
    labeled: Array  # those with a label
    n_rows: int  # all rows of the table
    keys: Array | None = None  # hashes of the keys of all rows, where they come from a query

    @property
    def n_unlabeled(self) -> int:
        """All rows without a label."""
        return self.n_rows - len(self.labeled)

    @property
    def n_used(self) -> int:
        """Those of them that a fit learns from."""
        return len(self.read) - len(self.labeled)


@contextmanager
def open_tables(source: Named | Opened, id: str | None = None, keys: Array | None = None) -> Iterator[Sequence[Table]]:
    """Open the files of a table in their order, or external rows; they are read on request.

    External rows are read several times, and must come in the same order each time: they need an ``id`` by which they
    are sorted. If ``keys`` are given, as ``ChosenRows`` has them, others are an error.
    """
    opened = open_table(source)
    if not isinstance(opened, ExternalRows):
        yield [opened] if isinstance(opened, TableInMemory) else opened.tables
        return
    if id is None:
        raise DataError(
            f"{source} has too many rows to be read at once, and they must come in the same order each time. Name the "
            "column that tells them apart with {id}.",
            id=Setting("id"),
        )
    with opened.open(id, unique=True) as table:
        yield [RepeatedRows(table, opened.place, id, keys)]


def has_more_rows(source: Named | Opened, rows: int) -> bool:
    """Whether a table has more rows than this, and can be read batch by batch: Excel and SPSS files cannot."""
    opened = open_table(source)
    if isinstance(opened, OpenFiles):
        return opened.in_parts and sum(table.rows_at_most for table in opened.tables) > rows
    if isinstance(opened, TableInMemory):
        return opened.n_rows > rows
    with opened.open() as table:
        return table.n_rows > rows


def choose_rows(
    tables: Sequence[Table],
    *,
    label: str | None,
    is_known: tuple[str | None, IsKnown] | None = None,
    n: int,
    seed: int,
) -> ChosenRows | None:
    """Choose the rows to learn from: all with a label, and ``n`` of the others; None if there are no more than these.

    Other tables may have labels, too: ``is_known`` is the column of identifiers (None: row numbers count), and a
    function of its cells, the number of their first row and how many they are, which tells the rows that those tables
    may have.
    """
    on, known = is_known or (None, None)
    columns = list(dict.fromkeys(name for name in (label, on) if name is not None)) or tables[0].names[:1]
    for table in tables:
        for name in columns:
            find_column(table.names, name, "label column" if name == label else "id column")
    cells, marks, first = [], [], 0
    if isinstance(tables[0], TableInMemory):
        frame = tables[0].frame
        labeled = np.zeros(len(frame), bool) if label is None else given_labels(frame[label])[0]
        if known is not None:
            labeled = labeled | known(None if on is None else frame[on], 0, len(frame))
    else:
        for piece in _pieces(tables, columns):
            if label is not None:
                cells.append(without_dictionary(piece[label]).combine_chunks())
            if known is not None:
                marks.append(known(None if on is None else to_frame(piece.select([on]))[on], first, len(piece)))
            first += len(piece)
        labeled = np.zeros(first, bool) if not marks else np.concatenate(marks)
        if cells:
            labeled |= _have_label(str(label), cells, typed=getattr(tables[0], "kind", None) != "text")
    found, others = np.flatnonzero(labeled), np.flatnonzero(~labeled)
    if len(others) <= n:
        return None
    sample = np.random.default_rng(seed).permutation(others)[:n]
    keys = tables[0].keys if isinstance(tables[0], RepeatedRows) else None  # known once it was read
    return ChosenRows(np.sort(np.concatenate([found, sample])), found, len(labeled), keys)


def _pieces(tables: Sequence[Table], columns: Sequence[str]) -> Iterator[Any]:
    for table in tables:
        if not isinstance(table, TableInMemory):
            yield from table.pieces(20_000, columns)


def _have_label(name: str, cells: list[Any], *, typed: bool) -> Array:
    """Return which cells of a column hold a label, by what its distinct values look like together."""
    schema = pa.unify_schemas([pa.schema({name: part.type}) for part in cells], promote_options="permissive")
    kind = schema.field(name).type
    column = pa.chunked_array([part.cast(kind) for part in cells]).combine_chunks().dictionary_encode("encode")
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    distinct = labels_of(to_frame(pa.table({name: column.dictionary}))[name], typed=typed)
    return np.asarray(given_labels(distinct)[0][column.indices.to_numpy()])


def read_rows(
    source: Named | Opened,
    rows: Array,
    *,
    keys: Array | None = None,
    label: str | None = None,
    id: str | None = None,
    types: Mapping[str, ColumnType] | None = None,
    max_bytes: int | None = None,
) -> pd.DataFrame:
    """Return some rows of a table, by their numbers, ascending, as ``read_table`` returns all.

    The table is read batch by batch, so that memory grows with the rows that are asked for, not with its size. ``keys``
    are those that the rows of a query must have.
    """
    growth = 4.0  # bytes of memory needed, per byte of the chosen rows as Arrow
    types = check_types(types)
    with open_tables(source, id, keys) as tables:
        names, first, taken = tables[0].names, 0, []
        if isinstance(tables[0], TableInMemory):
            return tidied(tables[0].frame.iloc[rows].reset_index(drop=True), "frame", label, id, types)
        for piece in _pieces(tables, names):
            low, high = np.searchsorted(rows, (first, first + len(piece)))
            if high > low:
                taken.append(piece.take(rows[low:high] - first))
            first += len(piece)
        whole = joined(source, names, taken)
        check_memory(source, growth * whole.nbytes, max_bytes)
        return typed_rows(whole, tables[0], label, id, types)


def read_sample(
    source: Named | Opened,
    *,
    label: str,
    unlabeled: int = MAX_USEFUL_UNLABELED,
    id: str | None = None,
    seed: int = 0,
    types: Mapping[str, ColumnType] | None = None,
    max_bytes: int | None = None,
    reading: Reading = AS_DETECTED,
    **fields: Any,
) -> pd.DataFrame:
    """Read a table of any size in bounded memory: all rows with a label, and some of the others, drawn at random.

    ``deepsep fit`` reads large tables like this: a few thousand unlabelled rows are worth learning from, and more are
    not; see docs/how-to/data/many-rows.md. :func:`deepsep.scoring.score_file` then predicts all.

    Parameters
    ----------
    source : str, path, sequence of them, or Query
        A CSV, TSV, Parquet or Feather file, several of them as in :func:`read_table`, or a
        :class:`deepsep.apps.sql.Query` to a database. It is read twice: first the column of labels, then all columns.
    label : str
        The column of labels.
    unlabeled : int, default=20_000
        Most unlabelled rows to read. Each is as likely to be among them as any other.
    id : str, optional
        The column of identifiers; a query needs one, by which its rows are sorted.
    seed : int, default=0
        Of the draw.
    types, max_bytes, reading, **fields
        As in :func:`read_table`.

    Returns
    -------
    pandas.DataFrame
        The rows in the order of the table, with their numbers in it, from 0 on, as the index.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from deepsep.table import read_sample
    >>> people = pd.DataFrame({"age": range(1_000), "segment": [None] * 500 + ["gold"] + [None] * 499})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     people.to_parquet(pathlib.Path(folder, "people.parquet"))
    ...     frame = read_sample(pathlib.Path(folder, "people.parquet"), label="segment", unlabeled=10)
    >>> len(frame), frame.loc[500, "segment"]
    (11, 'gold')
    """
    if not is_integer(unlabeled, 1):
        raise ParameterError("{rows}; pass an integer of at least 1.", rows=Setting("unlabeled", unlabeled))
    (reading,) = with_fields("read_sample", fields, reading)
    opened = open_table(source, reading, max_bytes)
    if isinstance(opened, OpenFiles) and not opened.in_parts:
        raise DataError(f"{opened} cannot be read in part. Read it with read_table.")
    with open_tables(opened, id) as tables:
        chosen = choose_rows(tables, label=label, n=unlabeled, seed=seed)
    how: dict[str, Any] = {"label": label, "id": id, "types": types, "max_bytes": max_bytes}
    if chosen is None:
        return read_table(opened, **how)
    return read_rows(opened, chosen.read, keys=chosen.keys, **how).set_index(chosen.read)


def other_rows(tables: Sequence[Source], without: Array) -> list[SomeRows]:
    """Return the tables without some of their rows, which are given by number, ascending."""

    def keep(batch: Any, first: int) -> Array:
        kept = np.ones(len(batch), bool)
        low, high = np.searchsorted(without, (first, first + len(batch)))
        kept[without[low:high] - first] = False
        return kept

    others, start = [], 0
    for table in tables:
        if len(tables) > 1 and isinstance(table, TableFile):
            table.count_rows()
        low, high = np.searchsorted(without, (start, np.inf if table.n_rows is None else start + table.n_rows))
        others.append(SomeRows(table, keep, first_row=start, n_without=int(high - low)))
        start += table.n_rows or 0
    return others
