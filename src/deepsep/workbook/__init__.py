"""Workbooks for Excel: the results of a fit, from a summary to rows to label next, and typing tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.workbook.book import make_workbook, write_workbook
    from deepsep.workbook.typing_workbook import write_typing_workbook

__all__ = ["make_workbook", "write_typing_workbook", "write_workbook"]

_HOME = {
    "write_typing_workbook": "deepsep.workbook.typing_workbook",
    "make_workbook": "deepsep.workbook.book",
    "write_workbook": "deepsep.workbook.book",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
