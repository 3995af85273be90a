"""Sheets of a workbook: tables with a header that stays, filters and formats, and pages of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from openpyxl import Workbook
from openpyxl.styles import Alignment
from openpyxl.utils import get_column_letter

from deepsep.table.excel_cells import BOLD_FONT, WRAPPED_TEXT, as_header, check_fits, fill, set_widths, width_of

NUMBER_FORMAT, WHOLE_FORMAT = "#,##0.00", "#,##0"
P_FORMAT = '[<0.0001]"<0.0001";0.0000'


class Styled(NamedTuple):
    """A value with its Excel format."""

    value: Any
    style: str


def add_table(
    book: Workbook,
    title: str,
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    styles: Sequence[str | None] | None = None,
    widths: dict[str, float] | None = None,
    frozen: int = 1,
) -> Any:
    """Add a sheet with a table; ``frozen`` columns and the header stay in sight.

    A cell may be ``Styled``; others have the format of their column.
    """
    sheet = book.create_sheet(title)
    styles = styles or [None] * len(names)
    for j, name in enumerate(names, start=1):
        as_header(fill(sheet.cell(1, j), name))
    n = 0
    for n, row in enumerate(rows, start=1):
        for j, (cell, style) in enumerate(zip(row, styles, strict=True), start=1):
            value, own = cell if isinstance(cell, Styled) else (cell, style)
            fill(sheet.cell(n + 1, j), value, own)
    check_fits(n, len(names), f"the sheet {title!r}", "Leave out some columns.")
    set_widths(sheet, [(widths or {}).get(name, width_of(name)) for name in names])
    sheet.freeze_panes = sheet.cell(2, frozen + 1)
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(names))}{n + 1}"
    sheet.print_title_rows = "1:1"
    return _on_paper(sheet)


def add_page(book: Workbook, title: str, lines: Iterable[tuple[str, Any, str | None]]) -> Any:
    """Add a sheet of text in two columns: (name, value, format); a line without a value is a heading."""
    sheet = book.create_sheet(title)
    left = Alignment(wrap_text=True, vertical="top", horizontal="left")
    for i, (what, value, style) in enumerate(lines, start=1):
        fill(sheet.cell(i, 1), what).alignment = WRAPPED_TEXT
        fill(sheet.cell(i, 2), value, style).alignment = left
        if value is None:
            sheet.cell(i, 1).font = BOLD_FONT
    set_widths(sheet, [34, 110])
    sheet.sheet_view.showGridLines = False
    return _on_paper(sheet)


def _on_paper(sheet: Any) -> Any:
    """Print a sheet in landscape format, as wide as the paper."""
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    return sheet
