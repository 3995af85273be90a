"""Predictions in a workbook: next to the table in a copy of the user's own file, or on a sheet of their own."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from openpyxl import Workbook, load_workbook

from deepsep.apps.workbook.sheets import add_table
from deepsep.errors import DataError, warn
from deepsep.model.predictions import Predictions
from deepsep.model.training_table import Training
from deepsep.table.excel import lines_of_table
from deepsep.table.excel_cells import PERCENT_FORMAT, as_header, fill, fits
from deepsep.table.locations import readable
from deepsep.table.reading_settings import Reading

PREDICTIONS_SHEET = "Predictions"
MAX_LISTED_ROWS = 200_000  # rows of the sheet of predictions


def prediction_rows(predictions: Predictions) -> pd.DataFrame | None:
    """Return the predictions as the table of a sheet, or None if they are too many."""
    return None if predictions.n_rows > MAX_LISTED_ROWS else pd.concat(predictions.frames(), ignore_index=True)


def add_predictions(book: Workbook, predictions: pd.DataFrame) -> None:
    """Add a sheet of predictions."""
    styles = [PERCENT_FORMAT if pd.api.types.is_float_dtype(predictions[name]) else None for name in predictions]
    rows = zip(*(predictions[name] for name in predictions), strict=True)
    add_table(book, PREDICTIONS_SHEET, [*map(str, predictions)], rows, styles=[None, *styles[1:]])


def copy_with_predictions(place: Path, data: Training, predictions: pd.DataFrame, reading: Reading) -> Workbook | None:
    """Return a copy of an Excel file with the predictions next to its table, or None, with a warning, if it cannot be.

    The copy opens at the table. Nothing else changes. A column whose name is taken gets another one, such as
    ``segment_predicted``.
    """
    try:
        header, *rows = lines_of_table(place, reading.sheet, reading.skip_rows)
        with readable(place), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            book = load_workbook(place, rich_text=True)
    except DataError as error:
        warn(f"the workbook has no copy of {place}, but the predictions on a sheet: {error}")
        return None
    if caught:
        lost = "; ".join(dict.fromkeys(str(one.message) for one in caught))
        warn(f"the copy of {place} in the workbook may lack something that is in the file: {lost}")
    sheet = book.worksheets[reading.sheet] if isinstance(reading.sheet, int) else book[reading.sheet]
    last = max(cell.column for row in sheet.iter_rows() for cell in row if cell.value is not None)
    last = max([last, *(cells.max_col for cells in sheet.merged_cells.ranges)])
    if len(rows) != len(data.labeled) or not fits(len(rows), last + predictions.shape[1]):
        warn(f"the workbook has no copy of {place}, but the predictions on a sheet: they do not fit next to its table.")
        return None
    taken = {str(cell.value) for cell in sheet[header] if cell.value is not None}
    book.active = sheet
    for each in book.worksheets:
        each.sheet_view.tabSelected = each is sheet
    for j, name in enumerate(predictions.columns[1:], start=last + 1):
        style = PERCENT_FORMAT if pd.api.types.is_float_dtype(predictions[name]) else None
        new = str(name)
        while new in taken:
            new += "_predicted"
        taken.add(new)
        as_header(fill(sheet.cell(header, j), new))
        for row, value in zip(np.flatnonzero(~data.labeled), predictions[name], strict=True):
            fill(sheet.cell(rows[row], j), value, style)
    return book
