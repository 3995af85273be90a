"""Read the table of a fit, and separate features, labels, weights and identifiers."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep.cli.options import FitOptions, TrainingOptions, split_names
from deepsep.core.labels import Labels, as_labels, given_labels
from deepsep.databases.open_database import open_reader
from deepsep.errors import DataError, ParameterError
from deepsep.table import add_labels, join_labels, read_table
from deepsep.table.columns import key_text
from deepsep.table.drawn import DRAWN, read_drawn, word_or_column
from deepsep.table.join import USUAL, is_label
from deepsep.table.locations import find_column
from deepsep.table.opened import Opened, OpenFiles
from deepsep.table.queries import Query, QueryTable
from deepsep.table.repeated_queries import rows_without_keys
from deepsep.table.sampling import (
    ENOUGH,
    ChosenRows,
    choose_rows,
    has_more_rows,
    open_tables,
    other_rows,
    read_rows,
)
from deepsep.table.source import SomeRows

if TYPE_CHECKING:
    import pandas as pd

    from deepsep.cli.console import Console


ROW = "row"  # name of the row numbers in outputs


@dataclass(frozen=True)
class LargeTable:
    """A table of which a part is in memory.

    Attributes
    ----------
    source : OpenFiles or Query
        The rows.
    id : str or None
        The column by which they are known in the outputs.
    order : str or None
        The column by which those of a query are sorted.
    chosen : ChosenRows
        Which rows are learned from: those in memory.
    """

    source: Opened
    id: str | None
    order: str | None
    chosen: ChosenRows

    @contextmanager
    def unlabeled(self) -> Iterator[list[SomeRows]]:
        """Open the table, without the labelled rows; those of a query may have become more since."""
        chosen = self.chosen
        with open_tables(self.source, self.order) as tables:
            if chosen.keys is None or self.order is None or not isinstance(tables[0], QueryTable):
                yield other_rows(tables, chosen.labeled)
            else:
                yield [rows_without_keys(tables[0], self.order, chosen.keys[chosen.labeled])]


@dataclass(frozen=True)
class Training:
    """The rows of a fit.

    Attributes
    ----------
    X : DataFrame
        The features: never the label, the weight or the identifier.
    y : Series
        The labels; missing for unlabelled rows.
    weight : array or None
        The weight of each row.
    ids : Series
        The identifiers, or the row numbers, with their column name in the outputs.
    label : str
        Name of the column of labels.
    large : LargeTable or None
        The table that has more rows than these; None: these are all.
    labels_drawn : array or None
        The origin of each label as a word, None where it is unknown; None: nothing is known.
    """

    X: pd.DataFrame
    y: pd.Series[Any]
    weight: Any
    ids: pd.Series[Any]
    label: str
    large: LargeTable | None = None
    labels_drawn: Any = None

    @cached_property
    def labels(self) -> Labels:
        """The labels as codes, read once."""
        return as_labels(self.y)

    @property
    def labeled(self) -> Any:
        """Which rows have a label."""
        return self.labels.labeled


def number_rows(n: int, chosen: ChosenRows | None = None) -> pd.Series[Any]:
    """Return row numbers from 0, for tables without identifiers."""
    import pandas as pd

    return pd.Series(np.arange(n) if chosen is None else chosen.read, name=ROW)


def read_weights(frame: pd.DataFrame, column: str) -> Any:
    """Return a column as weights, or raise with the first row that has none."""
    import pandas as pd

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


def read_training(out: Console, options: TrainingOptions, seed: int = 0, *, source: Opened | None = None) -> Training:
    """Read a table with labels in one of its columns, or in another table that is joined to it.

    Of a table with more unlabelled rows than a fit is to learn from, all labelled rows and some of the others are read.
    ``source`` is the table, if it is open already.
    """
    _check_together(options)
    out.note(f"Reading {options.source} ...")
    source = source or options.open()
    most = options.most_unlabeled(ENOUGH) if isinstance(options, FitOptions) else None
    types = dict.fromkeys(split_names(options.text), "text")
    label, id, on = options.label, options.id, _joined_on(options)
    order = on if options.labels else id
    if most is not None and not has_more_rows(source, most):
        most = None
    if isinstance(options, FitOptions) and isinstance(source, Query) and order in (None, ROW):
        most = most if options.unlabeled is not None else None  # its rows may come in another order each time
    if not options.labels:
        chosen = None if most is None else _choose(source, id, label, None, most, seed)
        frame = _read(source, chosen, label=label, id=id, types=types)
        word, column = _drawn(options, list(frame.columns))
        frame = _with_origins(frame, label, str(source), column)
    else:
        frame, label, chosen, word = _with_labels(out, options, source, on, types, most, seed)
        id = id or (on if on != ROW or on in frame.columns else None)
    if isinstance(source, Query):
        out.note(f"Read {len(frame):,} rows of {frame.shape[1]} columns.")
    if chosen is not None:
        same = len(frame) == len(chosen.read)
        labeled = chosen.read[given_labels(frame[label])[0]] if same else chosen.read[:0]
        if not same or not (options.labels or np.array_equal(labeled, chosen.labeled)):
            raise DataError(f"{source} has changed while it was read. Fit again when nothing writes to it.")
        chosen = replace(chosen, labeled=labeled)  # other tables may have named rows without giving them a label
        out.note(_what_is_used(chosen, options))
    weights = [read_weights(frame, name) for name in (options.weight, options.label_weight) if name is not None]
    apart = {label, options.weight, options.label_weight, id, options.on, DRAWN}
    apart |= {find_column(frame.columns, name, "--drop: column") for name in split_names(options.drop)}
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
    )


def _drawn(options: TrainingOptions, names: list[str]) -> tuple[str | None, str | None]:
    """Return the word for all labels without another origin, and the column of origins."""
    if options.labels_drawn is None:
        return None, None
    return word_or_column(options.labels_drawn, names, " or ".join(map(str, [options.source, *(options.labels or ())])))


def _with_origins(frame: pd.DataFrame, label: str | None, where: str, column: str | None) -> pd.DataFrame:
    """Return a table with the origins of its labels, if it has any, in a column of the usual name."""
    labeled = is_label(frame[label]).to_numpy() if label in frame.columns else np.ones(len(frame), bool)
    words = read_drawn(frame, labeled, where, named=column)
    if words is None:
        return frame
    return frame.drop(columns=[name for name in (column,) if name in frame.columns]).assign(**{DRAWN: words})


def _origins(frame: pd.DataFrame, word: str | None) -> Any:
    """Return the origins that a column has, and the word where it has none."""
    if DRAWN not in frame.columns:
        return None if word is None else np.full(len(frame), word, object)
    words = frame[DRAWN].astype(object)
    return words.where(words.notna(), word).to_numpy()


def _choose(
    source: Opened, id: str | None, label: str | None, is_known: Any, most: int, seed: int
) -> ChosenRows | None:
    """Choose the rows of a large table to learn from; None: all of them."""
    with open_tables(source, id) as tables:
        return choose_rows(tables, label=label, is_known=is_known, n=most, seed=seed)


def _read(source: Opened, chosen: ChosenRows | None, **how: Any) -> pd.DataFrame:
    return read_table(source, **how) if chosen is None else read_rows(source, chosen.read, keys=chosen.keys, **how)


def _what_is_used(chosen: ChosenRows, options: TrainingOptions) -> str:
    """Return which unlabelled rows are learned from, in words."""
    why = " More did not help in our measurements; --unlabelled all reads all of them into memory."
    given = isinstance(options, FitOptions) and options.unlabeled is not None
    return (
        f"The table has {chosen.n_unlabeled:,} unlabelled rows. It learns from {chosen.n_used:,} of them, drawn at "
        f"random, and predicts all.{'' if given else why}"
    )


def _joined_on(options: TrainingOptions) -> str:
    """Return the column by which labels are joined: --on, --id, or the row numbers of a file of ``deepsep next``."""
    return options.on or options.id or ROW


def _with_labels(
    out: Console,
    options: TrainingOptions,
    source: Opened,
    on: str,
    types: dict[str, Any],
    most: int | None,
    seed: int,
) -> tuple[pd.DataFrame, str, ChosenRows | None, str | None]:
    """Return the table with the labels of other ones, beside its own if it has any, and the name of their column.

    It reads at most so many unlabelled rows; None: all. It also returns the rows that were chosen of a large table, and
    the origin of labels that have no other.
    """
    files, weight = options.opened_labels, options.label_weight
    # Before any values are read: a class may be called "NA" in the column of labels, and only there.
    apart = (on, weight, DRAWN, options.labels_drawn)
    label, own = options.label or _only_label(files[0].names, apart), column_names(source)
    by_number = on == ROW and ROW not in own
    own_label, chosen, tables = label if label in own else None, None, []
    for file in files:
        tables.append(read_table(file, label=label, id=find_column(file.names, on, f"{file}: id column")))
    word, column = _drawn(options, [*own, *(name for known in tables for name in known.columns)])
    if most is not None:
        is_known = (None if by_number else on, _in_any([known[on] for known in tables]))
        chosen = _choose(source, None if by_number else on, own_label, is_known, most, seed)
    frame = _read(source, chosen, label=own_label, id=None if by_number else on, types=types)
    if by_number:
        frame = frame.assign(**{ROW: number_rows(len(frame), chosen).to_numpy()})
    frame = _with_origins(frame, own_label, str(source), column)
    for file, known in zip(files, tables, strict=True):
        known = _with_origins(known, label, str(file), column)
        if label is not None and label in frame.columns:
            prefer: Any = None if options.prefer is None else options.prefer.value
            frame, summary = add_labels(frame, known, on=on, label=label, weight=weight, prefer=prefer)
            out.note(_what_was_added(file, summary, options))
        else:
            frame, summary = join_labels(frame, known, on=on, label=label, weight=weight)
            label = str(summary["label"])
            out.note(f"{summary['labelled']:,} of {summary['rows']:,} rows have a label in {file}.")
    return frame.drop(columns=ROW) if by_number else frame, str(label), chosen, word


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
    usual = [name for name in USUAL if name in others]
    return next(iter(usual or (others if len(others) == 1 else [])), None)


def column_names(source: Opened) -> list[str]:
    """Return the names of the columns of a table."""
    if isinstance(source, Query):
        with open_reader(source.database) as connection:
            return QueryTable(connection, source.sql).names
    return source.names


def _what_was_added(file: OpenFiles, summary: dict[str, Any], options: TrainingOptions) -> str:
    parts = [f"{summary['new']:,} new", f"{summary['same']:,} known and the same"]
    if summary["contradictory"]:
        parts.append(f"{summary['contradictory']:,} contradictory, of which the {options.prefer} ones are used")
    return f"Labels in {file}: {', '.join(parts)}. {summary['labelled']:,} of {summary['rows']:,} rows have one now."


def _check_together(options: TrainingOptions) -> None:
    """Raise if an option lacks the one it belongs to, or two of them name one column."""
    roles = {"--label": options.label, "--weight": options.weight, "--label-weight": options.label_weight}
    roles |= {"--on": options.on} if options.labels else {"--id": options.id}
    roles |= {"--labels-drawn": options.labels_drawn}
    for role, column in roles.items():
        if column == DRAWN and role != "--labels-drawn":
            raise ParameterError(f"{role} {DRAWN}: a column of this name says how the labels were drawn. Rename it.")
    if len(options.labels or ()) > 1 and options.label_weight is not None:
        raise ParameterError("--label-weight is for one table of labels: name one with --labels.")
    for (one, column), (other, same) in combinations(roles.items(), 2):
        if column is not None and column == same:
            raise ParameterError(f"{one} and {other} are both {column!r}. Name two columns, or leave out {other}.")
    if not options.labels:
        if options.label is None:
            raise ParameterError("which column holds the labels? Name it with --label, or another table with --labels.")
        for name, value in (
            ("--on", options.on),
            ("--label-weight", options.label_weight),
            ("--prefer", options.prefer),
        ):
            if value is not None:
                raise ParameterError(f"{name} belongs to --labels: name the table whose labels are to be joined.")
    elif _joined_on(options) == ROW and not (options.labels[0].exists() and ROW in options.opened_labels[0].names):
        raise ParameterError(f"--labels {options.labels[0]} needs --on: the identifier that both tables have.")
