"""Read the table of a fit, and separate features, labels, weights and identifiers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep.cli.options import TrainingOptions, split_names
from deepsep.core.labels import Labels, as_labels
from deepsep.errors import DataError, ParameterError
from deepsep.table import join_labels, read_table
from deepsep.table.batches import TableFile
from deepsep.table.join import USUAL
from deepsep.table.locations import find_column

if TYPE_CHECKING:
    import pandas as pd

    from deepsep.cli.console import Console


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
    """

    X: pd.DataFrame
    y: pd.Series[Any]
    weight: Any
    ids: pd.Series[Any]
    label: str

    @cached_property
    def labels(self) -> Labels:
        """The labels as codes, read once."""
        return as_labels(self.y)

    @property
    def labelled(self) -> Any:
        """Which rows have a label."""
        return self.labels.labelled


def number_rows(n: int) -> pd.Series[Any]:
    """Return row numbers from 0, for tables without identifiers."""
    import pandas as pd

    return pd.Series(np.arange(n), name="row")


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


def read_training(out: Console, options: TrainingOptions) -> Training:
    """Read a table with labels in one of its columns, or in another table that is joined to it."""
    _check_together(options)
    out.note(f"Reading {options.table} ...")
    how: dict[str, Any] = {"types": dict.fromkeys(split_names(options.text), "text"), **options.for_reader()}
    label, id = options.label, options.id
    if options.labels is None:
        frame = read_table(options.table, label=label, id=id, **how)
    else:
        frame = read_table(options.table, id=options.on, **how)
        frame, label = _join(out, frame, options)
        id = id or options.on
    weights = [read_weights(frame, name) for name in (options.weight, options.label_weight) if name is not None]
    apart = {label, options.weight, options.label_weight, id, options.on}
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
        ids=number_rows(len(frame)) if id is None else frame[find_column(frame.columns, id, "id column")],
        label=str(label),
    )


def _join(out: Console, frame: pd.DataFrame, options: TrainingOptions) -> tuple[pd.DataFrame, str]:
    """Return the table with the labels of another one, and the name of their column."""
    file, on, weight = Path(str(options.labels)), str(options.on), options.label_weight
    names = TableFile(file).names
    others = [name for name in names if name not in (on, weight)]
    usual = [name for name in USUAL if name in others]
    # Before the values are read: a class may be called "NA" in the column of labels, and only there.
    label = options.label or next(iter(usual or (others if len(others) == 1 else [])), None)
    known = read_table(file, label=label, id=find_column(names, on, "--on: column"))
    joined, summary = join_labels(frame, known, on=on, label=label, weight=weight)
    out.note(f"{summary['labelled']:,} of {summary['rows']:,} rows have a label in {file}.")
    return joined, summary["label"]


def _check_together(options: TrainingOptions) -> None:
    """Raise if an option lacks the one it belongs to, or two of them name one column."""
    roles = {"--label": options.label, "--weight": options.weight, "--label-weight": options.label_weight}
    roles |= {"--on": options.on} if options.labels is not None else {"--id": options.id}
    for (one, column), (other, same) in combinations(roles.items(), 2):
        if column is not None and column == same:
            raise ParameterError(f"{one} and {other} are both {column!r}. Name two columns, or leave out {other}.")
    if options.labels is None:
        if options.label is None:
            raise ParameterError("which column holds the labels? Name it with --label, or another table with --labels.")
        for name, value in (("--on", options.on), ("--label-weight", options.label_weight)):
            if value is not None:
                raise ParameterError(f"{name} belongs to --labels: name the table whose labels are to be joined.")
    elif options.on is None:
        raise ParameterError(f"--labels {options.labels} needs --on: the identifier that both tables have.")
