"""Workbooks for Excel: the results of a fit, from a summary to rows to label next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.apps.workbook.book import make_workbook, write_workbook

__all__ = ["make_workbook", "write_workbook"]

_HOME = {
    "make_workbook": "deepsep.apps.workbook.book",
    "write_workbook": "deepsep.apps.workbook.book",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
