"""The results of a fit as an Excel workbook: a summary, segment sizes, profiles, tests, and rows to label next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.workbook.book import make_workbook, write_workbook

__all__ = ["make_workbook", "write_workbook"]

_HOME = {
    "make_workbook": "deepsep.workbook.book",
    "write_workbook": "deepsep.workbook.book",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
