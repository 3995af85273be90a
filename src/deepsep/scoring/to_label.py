"""The rows of a table to label next, as a table for a person to fill in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from openpyxl import Workbook
from openpyxl.styles import PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.datavalidation import DataValidation

from deepsep.core.checks import is_integer
from deepsep.core.model_parts import is_pipeline
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.evaluation.frames import in_batches
from deepsep.evaluation.next_rows import choose_next_rows
from deepsep.files.atomic import writing
from deepsep.scoring.who_scores import encoded, label_of, schema_of
from deepsep.table.columns import as_frame, key_text
from deepsep.table.excel_cells import PERCENT_FORMAT, as_header, check_fits, fill, save_book, set_widths, width_of
from deepsep.table.formulas import escaped, warn_of_formulas
from deepsep.table.join import DRAWN_COLUMN, is_label
from deepsep.table.locations import find_column

MAX_CONSIDERED_ROWS = 10_000  # of more, a random sample of this size is considered
GUESS_COLUMNS = ("model_guess", "model_probability", "model_runner_up", "model_runner_up_probability")
LABEL_FILE_FORMATS = (".csv", ".tsv", ".xlsx")
LABEL_SHEET = "Rows to label next"  # of a workbook with all results


def rows_to_label(
    model: Any,
    table: Any,
    n: int = 25,
    *,
    id: str | None = None,
    label: str | None = None,
    known: Any = (),
    per_class: bool = False,
    random_state: int = 0,
    proba: Any = None,
    random_every: int | None = 10,
) -> pd.DataFrame:
    """Return the rows of a table whose labels should help a model most, with an empty column for them.

    They are uncertain, and differ from each other. Of more than 10,000 unlabelled rows, 10,000 are drawn at random and
    considered. Every tenth row is drawn at random instead: only labels of random rows show the accuracy.

    Parameters
    ----------
    model : fitted pipeline
        From :func:`deepsep.for_table` or :func:`deepsep.load`.
    table : DataFrame
        The training table, or any other with its columns.
    n : int, default=25
        How many rows.
    id : str, optional
        The column of identifiers. None: ``row``, the row number.
    label : str, optional
        The column of labels; it may be missing in the table. None: that of the training table, or ``label``.
    known : array-like, optional
        Identifiers of other rows that have a label.
    per_class : bool, default=False
        Whether to choose equally many rows of each predicted class.
    random_state : int, default=0
        Seed of the choice.
    proba : array of shape (n, c), optional
        ``model.predict_proba(table)``, if known already.
    random_every : int, optional
        One row in this many is drawn at random; None: none.

    Returns
    -------
    pandas.DataFrame
        ``<id>`` (or ``row``); ``model_guess``, ``model_probability``, ``model_runner_up`` and
        ``model_runner_up_probability``; the empty column of labels; ``labels_drawn``, which is "chosen" or "random";
        the columns that the model uses, and all others.

    Examples
    --------
    >>> from deepsep import for_table, method
    >>> segment = ["young", None, None, None, "old"]
    >>> table = pd.DataFrame({"user": [6, 7, 8, 9, 10], "age": [20, 25, 45, 65, 70], "segment": segment})
    >>> model = for_table(method("logistic-regression")).fit(table[["age"]], table["segment"])
    >>> rows_to_label(model, table, 1, id="user")[["user", "segment", "age"]]
       user segment  age
    0     8    None   45
    """
    if not hasattr(model, "predict_proba"):
        raise ParameterError("the model has no probabilities, so that it cannot tell which rows are uncertain.")
    frame = as_frame(table).reset_index(drop=True)
    label = label or label_of(model) or "label"
    ids = frame[find_column(frame.columns, id, "id column")] if id is not None else pd.Series(frame.index, name="row")
    if random_every is not None and not is_integer(random_every, 2):
        raise ParameterError("{every}; pass 2 or more, or None.", every=Setting("random_every", random_every))
    for what, name, taken in (
        ("label", label, [ids.name, *GUESS_COLUMNS, DRAWN_COLUMN]),
        ("id", ids.name, [*GUESS_COLUMNS, DRAWN_COLUMN]),
    ):
        if name in taken:
            raise DataError(f"the {what} column is named {name!r}, like another column of the result. Rename it.")
    labeled = is_label(frame[label]).to_numpy() if label in frame.columns else np.zeros(len(frame), bool)
    labeled = labeled | ids.map(key_text).isin({key_text(value) for value in known}).to_numpy()
    pool = np.flatnonzero(~labeled)
    if not len(pool):
        raise DataError("every row of the table has a label. Name a table with unlabelled rows.")
    if len(pool) > MAX_CONSIDERED_ROWS:
        pool = np.sort(np.random.default_rng(random_state).choice(pool, MAX_CONSIDERED_ROWS, replace=False))
    features, p = _encoded_and_predicted(model, frame.iloc[pool], None if proba is None else np.asarray(proba)[pool])
    n = min(n, len(pool))
    is_random = np.arange(1, n + 1) % (random_every or n + 1) == 0
    drawn = np.random.default_rng([random_state, 1]).choice(len(pool), is_random.sum(), replace=False)
    others = np.setdiff1d(np.arange(len(pool)), drawn)
    best = choose_next_rows(p[others], features[others], n - len(drawn), per_class=per_class, seed=random_state)
    chosen = np.empty(n, int)
    chosen[is_random], chosen[~is_random] = drawn, others[best]
    origins = np.where(is_random, "random", "chosen")
    return _for_people(frame.iloc[pool[chosen]], ids.iloc[pool[chosen]], p[chosen], model, label, origins)


def _encoded_and_predicted(model: Any, rows: pd.DataFrame, p: Any) -> tuple[Any, Any]:
    """Return rows as numbers, and their probabilities, unless these are known."""
    if not (is_pipeline(model) or hasattr(model, "feature_names_in_")):
        rows = rows.iloc[:, : model.n_features_in_]
    estimator, _, matrix = encoded(model, rows)
    return np.asarray(matrix), in_batches(estimator.predict_proba, matrix) if p is None else p


def _for_people(rows: pd.DataFrame, ids: pd.Series[Any], p: Any, model: Any, label: str, origins: Any) -> pd.DataFrame:
    """Return the chosen rows as a person wants to see them."""
    order = np.argsort(-p, axis=1, kind="stable")
    best = np.take_along_axis(p, order, axis=1).round(3)
    classes = np.asarray(model.classes_)
    second = (classes[order[:, 1]], best[:, 1]) if len(classes) > 1 else (None, None)
    guess = dict(zip(GUESS_COLUMNS, (classes[order[:, 0]], best[:, 0], *second), strict=True))
    head = {ids.name: ids.to_numpy(), **guess, label: None, DRAWN_COLUMN: origins}
    used = [name for name in schema_of(model) if name in rows.columns]
    others = [name for name in rows.columns if name not in used]
    shown = [name for name in (*used, *others) if name not in head]
    return pd.concat([pd.DataFrame(head), rows[shown].reset_index(drop=True)], axis=1)


def write_rows_to_label(
    frame: pd.DataFrame, target: Path, *, label: str, classes: Any, escape_formulas: bool = False
) -> None:
    """Write rows to label to a .csv, .tsv or .xlsx file; in Excel, the labels are chosen from a list.

    Cells of text files that look like formulas are escaped, or warned of.
    """
    kind = target.suffix.lower()
    if kind not in LABEL_FILE_FORMATS:
        raise DataError(f"{target} must end in {', '.join(LABEL_FILE_FORMATS[:-1])} or {LABEL_FILE_FORMATS[-1]}.")
    if kind == ".xlsx":
        check_fits(len(frame), frame.shape[1], "the file to fill in", "Write a .csv file instead.")
        book = Workbook()
        book.active.title = "rows to label"
        fill_in_sheet(book.active, frame, label=label, classes=classes)
        with writing(target) as place:
            save_book(book, place)
        return
    style: Any = {"encoding": "utf-8-sig"} if kind == ".csv" else {"sep": "\t", "encoding": "utf-8"}
    safe = frame.map(escaped).rename(columns=escaped)
    found = [
        (str(name), str(cell))
        for name in frame.columns
        for cell in (name, *frame[name].astype(object))
        if escaped(cell) is not cell
    ]
    with writing(target) as place:
        (safe if escape_formulas else frame).to_csv(place, index=False, **style)
    if found and not escape_formulas:
        warn_of_formulas(target.name, len(found), found[0])


def fill_in_sheet(sheet: Any, frame: pd.DataFrame, *, label: str, classes: Any) -> None:
    """Write rows to label to a sheet on which labels are chosen from a list; the list is on a hidden sheet."""
    probabilities = ("model_probability", "model_runner_up_probability")
    names = sheet.parent.create_sheet("classes")
    names.sheet_state = "hidden"
    for i, name in enumerate(np.asarray(classes).tolist(), start=1):
        fill(names.cell(i, 1), name)
    at = list(frame.columns).index(label) + 1
    for j, name in enumerate(map(str, frame.columns), start=1):
        as_header(fill(sheet.cell(1, j), name))
        style = PERCENT_FORMAT if name in probabilities else None
        for i, value in enumerate(frame.iloc[:, j - 1].astype(object).tolist(), start=2):
            fill(sheet.cell(i, j), value, style)
    set_widths(sheet, [width_of(str(name)) for name in frame.columns])
    letter = get_column_letter(at)
    for i in range(1, len(frame) + 2):
        sheet.cell(i, at).fill = PatternFill("solid", fgColor="FFF2CC")
    listed = f"={names.title}!$A$1:$A${len(classes)}"
    choice = DataValidation("list", formula1=listed, allow_blank=True, errorStyle="warning")
    choice.error, choice.showErrorMessage = "This is not one of the classes so far.", True
    choice.add(f"{letter}2:{letter}{max(len(frame), 1) + 1}")
    sheet.add_data_validation(choice)
    sheet.freeze_panes = sheet.cell(2, at + 1)
    sheet.auto_filter.ref = f"A1:{get_column_letter(frame.shape[1])}{len(frame) + 1}"
