"""Checks of options and data before a long fit."""

from __future__ import annotations

import json
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep.cli.options import DecisionOptions
from deepsep.errors import DataError, ParameterError
from deepsep.evaluation.conformal import check_coverage, check_labels
from deepsep.report.ranking import check_comparison
from deepsep.scoring.decisions import Decision
from deepsep.scoring.to_label import GUESS_COLUMNS, LABEL_SHEET
from deepsep.table.batches import open_files
from deepsep.table.excel import sheet_names
from deepsep.table.join import is_label
from deepsep.table.locations import Place, file_type
from deepsep.table.reading import read_table
from deepsep.table.reading_settings import Reading
from deepsep.table.source import ExternalRows

if TYPE_CHECKING:
    from deepsep.apps.sql import Query
    from deepsep.model.training_table import Training


def check_scores_table(source: Place | Query, to: str | None, id: str | None, replace: bool) -> None:
    """Raise before a long fit if the predictions cannot go to the table."""
    if to is None:
        if replace:
            raise ParameterError("--replace belongs to --to.")
        return
    if not isinstance(source, ExternalRows):
        raise ParameterError("--to names a table of the database in --from. Leave it out: there is a file in --output.")
    if id is None:
        raise ParameterError("--to needs --id: the column that tells the rows apart.")
    from deepsep.apps.sql.database import open_writer
    from deepsep.apps.sql.scores_table import ScoresTable

    with open_writer(source.database) as connection:
        table = ScoresTable(connection, to, id)
        if table.record is None:
            table.check_creatable()
        elif not replace:
            raise DataError(f"the table {to} has predictions of another model. Name another table, or pass --replace.")


def check_workbook(target: Path, report: bool, source: Place | Query) -> None:
    """Raise before a long fit if the workbook cannot be written, or would replace something else."""
    from deepsep.apps.workbook.book import GUIDE_SHEET, check_target

    if not report:
        raise ParameterError("--workbook shows what the report measures: leave out --no-report.")
    exists = check_target(target).exists()
    if isinstance(source, Path) and source.is_file():
        if exists and target.samefile(source):
            raise DataError(f"--workbook {target} is the table itself. Name another file: the workbook has a copy.")
        if file_type(source).kind == "excel" and GUIDE_SHEET in sheet_names(source):
            raise DataError(
                f"{source} is a workbook of an earlier fit. Fit from your own file, with --labels {source} if you have "
                "filled in labels there."
            )
    if not exists:
        return
    names = sheet_names(target)
    if GUIDE_SHEET not in names:
        raise DataError(f"--workbook {target} is another file, not a workbook of deepsep. Name another one.")
    if LABEL_SHEET in names:
        book = open_files(target, Reading(sheet=LABEL_SHEET))
        rows = read_table(book)
        column = rows.columns[list(rows.columns).index(GUESS_COLUMNS[-1]) + 1]
        filled = int(is_label(read_table(book, label=column)[column]).sum())
        if filled:
            raise DataError(f"--workbook {target} has {filled} labels that someone filled in. Name another file.")


def check_decision(estimator: Any, data: Training, deciding: DecisionOptions) -> Decision:
    """Return how labels are to follow from probabilities, or raise before a long fit if that is impossible."""
    labels = data.labels
    decision = with_changes(deciding, costs=None).decision(labels.classes)  # their file is read if the rest is possible
    decision.check(estimator)
    if decision.sets is not None:
        check_coverage(decision.sets)
        counts = np.bincount(labels.codes[labels.labeled], minlength=len(labels.classes))
        check_labels(counts, decision.sets, per_class=decision.per_class, classes=labels.classes)
    decision = deciding.decision(labels.classes)
    decision.check(estimator)
    return decision


def read_comparison(file: Path, data: Training) -> dict[str, Any]:
    """Return the comparison in a file, or raise if it is missing or of another table."""
    try:
        comparison: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"--comparison {file}: there is no such file. Make it with deepsep compare -o {file}."
        ) from None
    except (ValueError, OSError) as error:
        raise DataError(f"--comparison {file} cannot be read as JSON: {error}") from None
    try:
        check_comparison(comparison, data.labels, list(data.X))
    except DataError as error:
        raise DataError(f"--comparison {file}: {error}") from None
    return comparison
