"""A small spreadsheet program: evaluates the formulas of an openpyxl workbook, with the few functions that we use."""

import re
from functools import cache
from typing import Any

import numpy as np
from openpyxl import Workbook
from openpyxl.utils import column_index_from_string

TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>"(?:[^"]|"")*") | (?P<ref>(?:\w+!)?\$?[A-Z]+\$?\d+(?::\$?[A-Z]+\$?\d+)?) | (?P<name>[A-Z]+)(?=\()
    | (?P<number>\d+(?:\.\d+)?) | (?P<sign>[-+*/=(),])
    )""",
    re.X,
)


def _text(value: Any) -> str:
    """What a cell is as text: an empty one is "", and a whole number has no decimals."""
    return "" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


FUNCTIONS = {
    "SUM": lambda cells: sum(cell for cell in cells.ravel() if isinstance(cell, int | float)),
    "SUMPRODUCT": lambda cells: np.sum(cells.astype(float)),
    "EXACT": lambda cells, value: np.vectorize(lambda cell: _text(cell) == _text(value), otypes=[bool])(cells),
    "TRIM": lambda value: " ".join(part for part in _text(value).split(" ") if part),
    "EXP": lambda value: np.exp(np.asarray(value, dtype=float)) if isinstance(value, np.ndarray) else np.exp(value),
    "MAX": lambda cells: max(cell for cell in cells.ravel() if isinstance(cell, int | float)),
    "INDEX": lambda cells, i: cells.ravel()[int(i) - 1],
    "MATCH": lambda value, cells, kind: cells.ravel().tolist().index(value) + 1,
    "IF": lambda condition, yes, no: yes() if condition() else no(),
}


class Spreadsheet:
    """Values of the cells of a workbook."""

    def __init__(self, book: Workbook) -> None:
        self.book = book
        self.value = cache(self._value)

    def _value(self, sheet: str, row: int, column: int) -> Any:
        cell = self.book[sheet].cell(row, column)
        if cell.data_type != "f":
            return cell.value
        result = eval(self._python(cell.value[1:]), {**FUNCTIONS, "cells": lambda at: self._cells(sheet, at)})
        return result.item() if hasattr(result, "item") else result

    def _cells(self, sheet: str, at: str) -> Any:
        *other, at = at.replace("$", "").split("!")
        ends = [re.fullmatch(r"([A-Z]+)(\d+)", end).groups() for end in at.split(":")]
        (left, top), (right, bottom) = [
            (column_index_from_string(letters), int(row)) for letters, row in (ends * 2)[:2]
        ]
        if len(ends) == 1:
            return self.value(*(other or [sheet]), top, left)
        values = np.empty((bottom - top + 1, right - left + 1), dtype=object)
        for i, j in np.ndindex(values.shape):
            values[i, j] = self.value(*(other or [sheet]), top + i, left + j)
        return values

    def _python(self, formula: str) -> str:
        """The formula as an expression of Python; the branches of IF wait, and = compares."""
        tokens, at = [], 0
        while at < len(formula):
            found = TOKEN.match(formula, at)
            assert found, formula[at:]
            tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        out, calls = [], []
        for kind, token in tokens:
            if kind == "text":
                out.append(repr(token[1:-1].replace('""', '"')))
            elif kind == "ref":
                out.append(f"cells({token!r})")
            elif kind == "name":
                assert token in FUNCTIONS, token
                out.append(token)
            elif token == "=":
                out.append("==")
            elif token == "(":
                is_if = bool(out) and out[-1] == "IF"
                calls.append(is_if)
                out.append("(lambda: " if is_if else "(")
            elif token == ",":
                out.append(", lambda: " if calls[-1] else ",")
            else:
                if token == ")":
                    calls.pop()
                out.append(token)
        return "".join(out)
