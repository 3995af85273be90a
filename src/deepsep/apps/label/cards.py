"""A row of a table as a person wants to read it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from deepsep.errors import DataError
from deepsep.table.columns import UsefulColumns


def first_order(X: pd.DataFrame, max_rows: int = 1_000) -> list[str]:
    """Return the columns, those from which nothing can be learned last, judged by a sample of rows."""
    some = X if len(X) <= max_rows else X.sample(max_rows, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            useful = UsefulColumns().fit(some).schema_
        except DataError:  # no column is useful
            return list(X.columns)
    return [*useful, *(name for name in X.columns if name not in useful)]


def card(X: pd.DataFrame, row: int, order: Sequence[str]) -> list[dict[str, str]]:
    """Return the cells of a row as text, with the names of their columns, in the given order.

    Examples
    --------
    >>> card(pd.DataFrame({"age": [30.0], "plan": ["pro"], "left": [None]}), 0, ["plan", "age", "left"])
    [{'name': 'plan', 'text': 'pro'}, {'name': 'age', 'text': '30'}, {'name': 'left', 'text': ''}]
    """
    return [{"name": str(name), "text": cell_text(X[name].iloc[row])} for name in order]


def cell_text(value: Any) -> str:
    """Return a cell as text; a missing one as empty text.

    Examples
    --------
    >>> [cell_text(value) for value in (12.5, 1e7, 1234567.89, 1 / 3, True, pd.Timestamp("2025-03-31"), None)]
    ['12.5', '10000000', '1234567.89', '0.333333', 'yes', '2025-03-31', '']
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating) and abs(float(value)) < 1e15:
        number = float(value)
        return str(int(number)) if number.is_integer() else f"{number:.{max(6, len(str(int(abs(number)))) + 2)}g}"
    if isinstance(value, pd.Timestamp):
        return str(value.date()) if value == value.normalize() else str(value)
    return str(value)
