"""The model that scores: a committee or its student, its columns, and predictions in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import ColumnType
from deepsep.core.model_parts import estimator_of, first_step, is_pipeline
from deepsep.errors import ParameterError, Setting
from deepsep.table.columns import UsefulColumns

MANY_ROWS = 100_000  # above which a student scores in place of its committee
BLOCK_ROWS = 1_024


def student_of(model: Any) -> Any:
    """Return the student of a committee; None if the model has none."""
    return getattr(estimator_of(model), "student_", None)


def with_student(model: Any) -> Any:
    """Return the model with the student in place of its committee."""
    student = student_of(model)
    if not is_pipeline(model):
        return student
    return type(model)([*model.steps[:-1], ("student", student)], transform_input=model.transform_input)


def check_fast(fast: bool | None, sets: float | None) -> None:
    """Raise if the student is asked for sets."""
    if fast and sets is not None:
        raise ParameterError(
            "{fast}: sets rest on the committee's predictions out of fold, and the student's probabilities are others. "
            "Leave out {fast}, or {sets}.",
            fast=Setting("fast", True),
            sets=Setting("sets"),
        )


def choose(model: Any, rows: int, fast: bool | None) -> Any:
    """Return the model, or the same with the student in place of its committee; None: by the number of rows."""
    most_loss = 0.02  # if that is expected to cost no more accuracy
    student = student_of(model)
    if fast and student is None:
        raise ParameterError(
            "{fast}: the model has no student. Only a committee has one, fitted with at least 100 unlabelled rows and "
            "without student=False; leave out {fast}, or fit it again.",
            fast=Setting("fast", True),
        )
    if fast is None:
        fast = student is not None and student.accuracy_loss_ <= most_loss and rows > MANY_ROWS
    return with_student(model) if fast else model


def label_of(model: Any) -> str | None:
    """Return the name of the column of labels that a model was fitted to; None if it is not known."""
    name = getattr(first_step(model), "label_", None)
    return name if isinstance(name, str) else None


def schema_of(model: Any) -> dict[str, ColumnType]:
    """Return the columns that a model needs, with their types; empty if it takes any matrix."""
    first = first_step(model)
    if isinstance(first, UsefulColumns):
        return first.schema_
    return dict.fromkeys(map(str, getattr(first, "feature_names_in_", ())), "number")


def encoded(model: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Return the estimator of a model, the columns that it uses, and the matrix that it takes."""
    if is_pipeline(model):
        columns = model[0].transform(rows)
        return model[-1], columns, model[1:-1].transform(columns) if len(model) > 2 else columns
    if isinstance(rows, pd.DataFrame) and hasattr(model, "feature_names_in_"):
        rows = rows[list(model.feature_names_in_)]
    return model, rows, rows


def rows_of(matrix: Any, index: Array) -> Any:
    """Return some rows of a frame or a matrix."""
    return matrix.iloc[index] if hasattr(matrix, "iloc") else matrix[index]


def in_blocks(
    predict: Callable[[Any], Array],
    take: Callable[[Array], Any],
    n: int,
    keep: Callable[[Array, Array], Array] = lambda result, index: result,
) -> Array:
    """Return the predictions for n rows, at least one, in blocks of equal size: a row gets the same bits in any batch.

    Matrix products of other shapes round differently, so the last block is padded with copies. ``take`` returns rows
    by their numbers; ``keep`` returns what is kept of the predictions for these rows.
    """
    results = []
    for start in range(0, n, BLOCK_ROWS):
        index = np.arange(start, start + BLOCK_ROWS)
        inside = index < n
        results.append(keep(predict(take(np.where(inside, index, start)))[inside], index[inside]))
    return np.concatenate(results)
