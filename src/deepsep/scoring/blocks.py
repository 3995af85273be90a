"""Predict rows in blocks of equal size, so that a row gets the same bits in any batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deepsep.core.model_parts import is_pipeline

Array = NDArray[Any]

BLOCK_ROWS = 1_024


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
    """Return the predictions for n rows, at least one; the last block is padded with copies.

    ``take`` returns rows by their numbers; ``keep`` returns what is kept of the predictions for these rows.
    """
    results = []
    for start in range(0, n, BLOCK_ROWS):
        index = np.arange(start, start + BLOCK_ROWS)
        inside = index < n
        results.append(keep(predict(take(np.where(inside, index, start)))[inside], index[inside]))
    return np.concatenate(results)
