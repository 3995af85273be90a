"""Workbooks for Excel: the results of a fit, from a summary to rows to label next."""

from deepsep.apps.workbook.book import make_workbook, write_workbook

__all__ = ["make_workbook", "write_workbook"]
