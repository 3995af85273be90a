"""Put the results of a fit into an Excel workbook."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from openpyxl import Workbook
from openpyxl.formatting.rule import FormulaRule
from openpyxl.styles import PatternFill
from openpyxl.utils import get_column_letter

from deepsep.apps.workbook.crosstabs import Difference, Line, difference, profile_lines, profiled_column
from deepsep.apps.workbook.guide import Lines, guide
from deepsep.apps.workbook.own_file import add_predictions
from deepsep.apps.workbook.sheets import (
    NUMBER_FORMAT,
    P_FORMAT,
    WHOLE_FORMAT,
    Styled,
    add_page,
    add_table,
)
from deepsep.core.arrays import Array
from deepsep.core.labels import Labels, as_labels
from deepsep.errors import DataError
from deepsep.evaluation.frames import in_batches, take
from deepsep.evaluation.intervals import effective, holm
from deepsep.evaluation.population import read_weights
from deepsep.evaluation.suspicious import SUSPICIOUS_COLUMNS
from deepsep.files.atomic import writing
from deepsep.models import provenance_of
from deepsep.report.readable import typed_columns
from deepsep.report.summary import summarize
from deepsep.scoring.to_label import LABEL_SHEET, fill_in_sheet, rows_to_label
from deepsep.table.columns import as_frame
from deepsep.table.excel_cells import PERCENT_FORMAT, save_book

GUIDE_SHEET = "How to read it"
MAX_DRAWN_ROWS = 200_000  # unlabelled rows in the profiles
MAX_PROFILE_COLUMNS = 1_000


def write_workbook(model: Any, table: Any, labels: Any, path: str | os.PathLike[str], **settings: Any) -> None:
    """Write the workbook that :func:`make_workbook` returns to a file, which ends in ``.xlsx``; it may exist."""
    target = check_target(path)
    save_workbook(make_workbook(model, table, labels, **settings), target)


def save_workbook(book: Workbook, target: Path) -> None:
    """Write a workbook to a file, completely or not at all."""
    with writing(target) as place:
        save_book(book, place)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the path of a workbook, or raise if a workbook cannot have this name."""
    target = Path(path)
    if target.suffix.lower() != ".xlsx":
        raise DataError(f"the workbook {target} must end in .xlsx.")
    if target.is_dir():
        raise DataError(f"the workbook {target} is a folder. Name another file.")
    return target


def make_workbook(
    model: Any,
    table: Any,
    labels: Any,
    *,
    ids: Sequence[Any] | None = None,
    proba: Any = None,
    label: str = "class",
    summary: dict[str, Any] | None = None,
    n_next: int = 25,
    seed: int = 0,
    sample_weight: Any = None,
    predictions: pd.DataFrame | None = None,
    book: Workbook | None = None,
) -> Workbook:
    """Return the results of a fit as an Excel workbook.

    Its sheets are a summary; the size of each segment, with intervals; a profile of each segment in every column, with
    indexes against all rows; tests of the differences; the rows to label next; labels to check; and how to read it.
    All cells are values, none a formula. The workbook contains the rows to label, and labels to check.

    Parameters
    ----------
    model, table, labels, ids, proba, label, sample_weight
        As in :func:`deepsep.report.summarize`. Profiles are of at most 200,000 unlabelled rows, drawn at random.
    summary : dict, optional
        The result of :func:`deepsep.report.summarize`, if known already.
    n_next : int, default=25
        Number of rows to label next.
    seed : int, default=0
        Seed of everything random.
    predictions : DataFrame, optional
        Predictions of rows, for a sheet of their own.
    book : openpyxl.Workbook, optional
        A workbook to add the sheets to, such as a copy of the table with the predictions in it.

    Returns
    -------
    openpyxl.Workbook

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from deepsep import TSVM, for_table
    >>> from deepsep.report import summarize
    >>> from deepsep.apps.workbook import make_workbook
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.integers(18, 90, 300), "shoe": rng.integers(36, 46, 300)})
    >>> segment = np.where(table.age < 50, "young", "old").astype(object)
    >>> segment[60:] = None
    >>> model = for_table(TSVM()).fit(table, segment)
    >>> summary = summarize(model, table, segment, folds=2, explained=False)
    >>> book = make_workbook(model, table, segment, summary=summary)
    >>> book.sheetnames[:4]
    ['Summary', 'Segment sizes', 'Profiles', 'Tests']
    >>> [cell.value for cell in book["Tests"][2]][:2], book["Tests"]["I2"].value
    (['age', 'number'], 'yes')
    """
    known = as_labels(labels)
    weight = read_weights(sample_weight, known)
    if proba is None:
        proba = in_batches(model.predict_proba, table)
    if summary is None:
        summary = summarize(
            model, table, labels, ids=ids, proba=proba, label=label, seed=seed, sample_weight=sample_weight
        )
    with_predictions = book is not None or predictions is not None
    if book is None:
        book = Workbook()
        book.remove(book.active)
        book.properties.creator = "deepsep"
        book.properties.title = summary["title"]
    book.properties.description = json.dumps(provenance_of(model))
    frame = as_frame(table)
    notes: list[str] = []
    add_page(book, "Summary", _summary(summary))
    if predictions is not None:
        add_predictions(book, predictions)
    _add_sizes(book, summary["shares"], known, weight)
    _add_profiles(book, model, frame, known, np.asarray(proba), weight, seed, notes)
    _add_rows_to_label(book, model, frame, known, ids, np.asarray(proba), label, n_next, seed)
    if summary["suspicious"]:
        most = 10_000
        if len(summary["suspicious"]) > most:
            notes.append(f"Of {len(summary['suspicious']):,} labels to check, the first {most:,} are listed.")
        name = getattr(ids, "name", None) or "row"
        add_table(
            book,
            "Labels to check",
            [name, *(word.replace("_", " ") for word in SUSPICIOUS_COLUMNS)],
            [[line["id"], *(line[key] for key in SUSPICIOUS_COLUMNS)] for line in summary["suspicious"][:most]],
            styles=[None, None, None, PERCENT_FORMAT, PERCENT_FORMAT, NUMBER_FORMAT],
        )
    add_page(book, GUIDE_SHEET, guide(weighted=weight is not None, predictions=with_predictions, notes=notes))
    return book


def _summary(summary: dict[str, Any]) -> Lines:
    """Return the lines of the first sheet."""
    asked, accuracy, made = summary["asked"], summary["accuracy"], summary["made"]
    lines: Lines = [(summary["title"], None, None), ("Verdict", summary["outcome"]["verdict"], None)]
    lines += [("" if i else "In words", sentence, None) for i, sentence in enumerate(summary["verdict"])]
    lines += [("", None, None), ("Accuracy", None, None)]
    if accuracy is None:
        lines.append(("Not known", " ".join(summary["notes"]), None))
    else:
        by_key = {line["key"]: line["accuracy"] for line in accuracy["methods"]}
        low, high = by_key["model"]["interval"]
        what = "Expected of the unlabelled rows" if accuracy["expected"] else "Of held-out labelled rows"
        lines.append((what, by_key["model"]["value"], PERCENT_FORMAT))
        lines += [("    90 % interval, from", low, PERCENT_FORMAT), ("    to", high, PERCENT_FORMAT)]
        lines.append(("Of always guessing the largest", by_key["majority"]["value"], PERCENT_FORMAT))
        lines.append(("Held-out rows", accuracy["held_out"], WHOLE_FORMAT))
    lines += [("", None, None), ("What it rests on", None, None)]
    counted = {"Rows": "rows", "Labelled rows": "labelled", "Unlabelled rows": "unlabelled", "Columns": "columns"}
    lines += [(what, asked[key], WHOLE_FORMAT) for what, key in counted.items()]
    lines += [("Label", asked["label"], None), ("Method", asked["method_title"], None)]
    if summary["members"] is not None:
        lines += [(f"    {line['name']}, weight", line["weight"], "0.00") for line in summary["members"]["lines"]]
    for finding in summary["findings"]:
        cure = "" if finding["next"] == "Nothing." else f" {finding['next']}"
        lines.append((finding["severity"].capitalize(), f"{finding['message']}{cure}", None))
    lines += [("Note", note, None) for note in summary["notes"] if accuracy is not None]
    settings = ", ".join(f"{name}={value}" for name, value in asked["settings"].items()) or "the defaults"
    lines += [("", None, None), ("How it was made", None, None), ("Settings", settings, None)]
    lines += [("Seed", asked["seed"], None), ("Command", made["command"] or "–", None), ("Date", made["date"], None)]
    lines.append(("Versions", ", ".join(f"{name} {version}" for name, version in made["versions"].items()), None))
    return lines


def _add_sizes(book: Workbook, shares: dict[str, Any], known: Labels, weight: Array | None) -> None:
    given = any(line["given"] is not None for line in shares["lines"])
    names = [
        *("Segment", "Labels", "Share of labels", "Labels: from", "Labels: to", "Predicted rows"),
        *("Share of predictions", "Estimated share of all rows", "Estimate: from", "Estimate: to"),
        *(["Share given"] if given else []),
    ]
    rows = []
    for line in shares["lines"]:
        among, estimated = line["labelled_weighted"], line["estimated"]
        rows.append(
            [
                *(line["class"], line["labels"], among["value"], *among["interval"]),
                *(line["predicted_rows"], line["predicted_weighted"]),
                *(estimated["value"], *(estimated["interval"] or (None, None))),
                *([line["given"]] if given else []),
            ]
        )
    total = [*("All", int(known.labeled.sum()), 1.0, None, None), int((~known.labeled).sum()), 1.0, 1.0, None, None]
    rows.append([*total, *([1.0] if given else [])])
    styles = [None, WHOLE_FORMAT, *[PERCENT_FORMAT] * 3, WHOLE_FORMAT, *[PERCENT_FORMAT] * (len(names) - 6)]
    sheet = add_table(
        book, "Segment sizes", names, rows, styles=styles, widths={"Segment": 28.0, **dict.fromkeys(names[1:], 14.0)}
    )
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(names))}{len(rows)}"  # not the line of all
    below = len(rows) + 3
    if weight is not None:
        alike = effective(weight[known.labeled], 0)
        sheet.cell(below, 1).value = f"Shares are weighted. The labels count like {alike:,.0f} equally weighted ones."
        below += 1
    if shares["caution"]:
        sheet.cell(below, 1).value = shares["caution"]


def _add_profiles(
    book: Workbook,
    model: Any,
    frame: pd.DataFrame,
    known: Labels,
    proba: Array,
    weight: Array | None,
    seed: int,
    notes: list[str],
) -> None:
    """Add the sheets of profiles and tests."""
    n_segments, names = len(known.classes), [str(name) for name in known.classes]
    w = np.ones(len(known.codes)) if weight is None else weight
    rows = _some_rows(known, seed)
    columns, _, left_out = typed_columns(model, take(frame, rows))
    if columns.shape[1] > MAX_PROFILE_COLUMNS:
        notes.append(f"Of {columns.shape[1]:,} columns, the first {MAX_PROFILE_COLUMNS:,} are profiled and tested.")
        columns = columns.iloc[:, :MAX_PROFILE_COLUMNS]
    if len(rows) < len(known.codes):
        notes.append(
            f"Of {len(known.codes):,} rows, {len(rows):,} are profiled: all labelled ones, and others drawn at random, "
            "which count for the rest."
        )
        free = ~known.labeled
        w = w * np.where(free, free.sum() / (len(rows) - known.labeled.sum()), 1.0)
    segment = np.where(known.codes >= 0, known.codes, proba.argmax(axis=1))[rows]
    w, of_labels = w[rows], known.labeled[rows]
    lines: list[Line] = []
    found: dict[str, tuple[str, Difference, Difference]] = {}  # by labelled rows, and by all
    for name in columns:
        column = profiled_column(name, columns[name])
        lines += profile_lines(column, segment, n_segments, w)
        own = difference(column.part(of_labels), segment[of_labels], w[of_labels])
        found[name] = column.kind, own, difference(column, segment, w)
    adjusted = dict(zip(found, holm([own.p for _, own, _ in found.values()]), strict=True))
    sizes = [
        "(all)",
        "rows",
        *(Styled(n, WHOLE_FORMAT) for n in (len(segment), *np.bincount(segment, minlength=n_segments))),
    ]
    head = ["Column", "Value", "Total", *names, *(f"Index: {name}" for name in names), "p, corrected"]
    sheet = add_table(
        book,
        "Profiles",
        head,
        [[*sizes, *[None] * (n_segments + 1)], *(_profile_row(line, adjusted[line.column]) for line in lines)],
        styles=[*[None] * (3 + n_segments), *["0"] * n_segments, P_FORMAT],
        widths={"Column": 26, "Value": 20, **dict.fromkeys(head[2:], 14.0)},
        frozen=3,
    )
    first, last = get_column_letter(4 + n_segments), get_column_letter(3 + 2 * n_segments)
    where = f"{first}3:{last}{len(lines) + 2}"
    for colour, rule in (("C6E7CE", f"{first}3>=120"), ("F6CDCB", f"{first}3<=80")):  # green and red
        formula, fill = f"AND(ISNUMBER({first}3),{rule})", PatternFill(bgColor=colour)
        sheet.conditional_formatting.add(where, FormulaRule(formula=[formula], fill=fill))
    tests = [
        [
            *(name, kind, own.test, own.rows, own.statistic, own.df, own.p, adjusted[name]),
            *(_verdict(adjusted[name]), own.strength, everyone.strength),
        ]
        for name, (kind, own, everyone) in found.items()
    ]
    tests += [[name, reason, *[None] * 6, "left out", None, None] for name, reason in left_out.items()]
    add_table(
        book,
        "Tests",
        [
            *("Column", "Kind", "Test", "Labelled rows", "Statistic", "Degrees of freedom", "p", "p, corrected"),
            *("Differs?", "Strength, labelled rows", "Strength, all rows"),
        ],
        tests,
        styles=[None, None, None, WHOLE_FORMAT, NUMBER_FORMAT, WHOLE_FORMAT, P_FORMAT, P_FORMAT, None, "0.00", "0.00"],
        widths={"Column": 28, "Test": 18},
    )


def _some_rows(known: Labels, seed: int) -> Array:
    """Return the labelled rows and the others, or a random part of those if there are very many."""
    free = np.flatnonzero(~known.labeled)
    if len(free) <= MAX_DRAWN_ROWS:
        return np.arange(len(known.codes))
    some = np.random.default_rng(seed).choice(free, MAX_DRAWN_ROWS, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(known.labeled), some]))


def _profile_row(line: Line, p: float) -> list[Any]:
    styles = {
        "share": PERCENT_FORMAT,
        "number": NUMBER_FORMAT,
        "date": "yyyy-mm-dd",
        "deviations": "[>=0.005]+0.00;[<=-0.005]-0.00;0.00",
    }
    style = styles[line.unit]
    values = [line.total, *line.values.tolist()]
    if line.unit == "date":
        values = [None if v != v else datetime.fromtimestamp(v, UTC).replace(tzinfo=None) for v in values]
    return [line.column, line.what, *(Styled(value, style) for value in values), *line.index.tolist(), p]


def _verdict(p: float) -> str:
    if p != p:
        return "nothing to compare"
    return "yes" if p < 0.05 else "not shown"


def _add_rows_to_label(
    book: Workbook,
    model: Any,
    frame: pd.DataFrame,
    known: Labels,
    ids: Any,
    proba: Array,
    label: str,
    n: int,
    seed: int,
) -> None:
    if known.labeled.all() or not n:
        return
    name = getattr(ids, "name", None)
    if ids is not None and name not in (None, "row"):
        frame, names, id = frame.assign(**{str(name): np.asarray(ids)}), np.asarray(ids), str(name)
    else:
        names, id = np.arange(len(frame)), None
    taken = names[known.labeled]
    chosen = rows_to_label(model, frame, n, id=id, label=label, known=taken, random_state=seed, proba=proba)
    fill_in_sheet(book.create_sheet(LABEL_SHEET), chosen, label=label, classes=known.classes)
