"""Rows and columns of pandas and polars frames and of matrices, and the columns of predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from deepsep.core.arrays import Array
from deepsep.errors import DataError


def take(table: Any, rows: Array) -> Any:
    """Return some rows of a table."""
    return _safe_indexing(table, rows)


def column_names(table: Any) -> list[str]:
    """Return the names of the columns; those of a matrix are x0, x1 and so on."""
    names = getattr(table, "columns", None)
    return [f"x{j}" for j in range(table.shape[1])] if names is None else [str(name) for name in names]


def take_mixed(table: Any, rows: Array, other: dict[int, Array]) -> Any:
    """Return some rows of a table in which a few columns come from other rows."""
    mixed = take(table, rows)
    if hasattr(mixed, "with_columns"):  # polars
        return mixed.with_columns([table[table.columns[j]].gather(at) for j, at in other.items()])
    if hasattr(mixed, "iloc"):
        mixed = mixed.reset_index(drop=True)
        for j, at in other.items():
            mixed[table.columns[j]] = table.iloc[:, j].take(at).reset_index(drop=True)
        return mixed
    mixed = np.array(mixed)
    for j, at in other.items():
        mixed[:, j] = table[at, j]
    return mixed


def in_batches(function: Callable[[Any], Array], table: Any, size: int = 20_000) -> Array:
    """Apply a function to all rows, batch by batch to save memory, and join the results."""
    n = len(table)
    if n <= size:
        return function(table)
    return np.concatenate([function(take(table, np.arange(i, min(i + size, n)))) for i in range(0, n, size)])


def prediction_columns(
    classes: Array, p: Array, label: str | None = None, *, predicted: Array | None = None, sets: Array | None = None
) -> dict[str, Array]:
    """Return the columns of predictions: the label, the probability of each class, and the confidence.

    ``predicted`` are the labels, if not the most likely classes; ``sets`` are texts of one more column.
    """
    best = p.max(axis=1) if len(p) else np.empty(0)
    columns = [classes[p.argmax(axis=1)] if predicted is None else predicted, *p.T, best]
    columns += [] if sets is None else [sets]
    return dict(zip(prediction_names(classes, label, sets=sets is not None), columns, strict=True))


def prediction_names(classes: Any, label: str | None = None, *, sets: bool = False) -> list[str]:
    """Return the names of the columns of predictions; the first is that of the column of labels, or "label"."""
    others = [*(f"probability_{name}" for name in classes), "confidence", *(["set"] if sets else [])]
    return ["label" if label is None or label in others else label, *others]


def check_id_name(id_name: Any, columns: Iterable[str]) -> None:
    """Raise if the identifier has the same name as a column of the result."""
    if id_name in columns:
        raise DataError(f"the id column is named {id_name!r}, like a column of the result. Rename it.")
