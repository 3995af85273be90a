"""Cells of text files that a spreadsheet would take for formulas."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deepsep.errors import Setting, warn

FORMULA_START = r"^[=+\-@\t\r]"  # what a spreadsheet computes, unless it is a number such as -5
SIGNED_NUMBER = r"^[+-][0-9., ]*[0-9]%?$"


def formulas_in(table: pa.Table) -> dict[str, Any]:
    """Return the columns with cells that look like formulas: name → where these are."""
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            numbers = pc.match_substring_regex(column, SIGNED_NUMBER)
            at = pc.and_not(pc.match_substring_regex(column, FORMULA_START), numbers)
            if pc.any(at).as_py():
                found[name] = at
    return found


def escape_formulas(table: pa.Table) -> pa.Table:
    """Return a table with an apostrophe before such cells, with which spreadsheets take them for text."""
    for name, at in formulas_in(table).items():
        safe = pc.if_else(at, pc.replace_substring_regex(table[name], FORMULA_START, r"'\0"), table[name])
        table = table.set_column(table.column_names.index(name), name, safe)
    return table


def escaped(cell: Any) -> Any:
    """Return a cell as it is written to a text file that people open in a spreadsheet."""
    is_formula = isinstance(cell, str) and re.match(FORMULA_START, cell) and not re.match(SIGNED_NUMBER, cell)
    return f"'{cell}" if is_formula else cell


def unescaped(text: str) -> str:
    """Return a text without the apostrophe before a formula.

    Examples
    --------
    >>> unescaped("'=1+1"), unescaped("'s-Hertogenbosch")
    ('=1+1', "'s-Hertogenbosch")
    """
    return text[1:] if re.match(f"'{FORMULA_START[1:]}", text) else text


def warn_of_formulas(file: str, n_cells: int, example: tuple[str, str]) -> None:
    """Warn of cells that were written as they are, since identifiers must not change."""
    column, cell = example
    warn(
        f"{file} has cells that begin like a formula ({n_cells:,}, such as {cell[:60]!r} in the column {column!r}), "
        "which a spreadsheet would compute. If you open the file in one, write it with {escape}, or as .xlsx.",
        escape=Setting("escape_formulas", True),
    )
