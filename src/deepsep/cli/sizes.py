"""``deepsep sizes``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepsep.cli.console import console
from deepsep.cli.options import Debug, Id, Json, Label, ModelFolder, Quiet, TableFiles, Weight, takes_options
from deepsep.table.reading_settings import Reading

if TYPE_CHECKING:
    import pandas as pd


@takes_options()
def sizes(
    model: ModelFolder,
    table: TableFiles,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="Also by the groups in this column.", show_default=False),
    ] = None,
    screened: Annotated[
        Path | None,
        typer.Option(
            "--screened",
            metavar="FILE",
            help="For labels that fill quotas: a table with the columns class and looked_at, the number of people looked "
            "at until the labels of the class were found.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A .csv or .xlsx file as well.", show_default=False),
    ] = None,
    weight: Weight = None,
    id: Id = None,
    label: Label = None,
    *,
    reading: Reading,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Estimate how large the segments are, with intervals.

    TABLE is the one that the model was fitted to, or has the same columns. Counting predictions would be wrong where the
    model errs more in one segment than in another. So the predictions are corrected by their errors on labels that were
    held out in the fit: the 90 % intervals hold however wrong the model is, and are narrow if it is good.

    Example: deepsep sizes model customers.csv --by country
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        from deepsep.cli.opening import open_classifier
        from deepsep.model.reading_again import as_remembered
        from deepsep.model.sizes import segment_sizes, sizes_in_table
        from deepsep.scoring.frame import label_of, schema_of
        from deepsep.table import read_table
        from deepsep.table.opened import open_files

        fitted = open_classifier(model, "sizes")
        counts = None if screened is None else read_screened(screened)
        id, reading = as_remembered(fitted, list(table), id, reading)
        rows = open_files(list(table), reading)
        label = label or label_of(fitted) or "label"
        out.note(f"Reading {rows} ...")
        types = {name: kind for name, kind in schema_of(fitted).items() if name in rows.names}
        frame = read_table(rows, label=label if label in rows.names else None, id=id, types=types)
        found = sizes_in_table(fitted, frame, labels=known_labels(model), id=id, by=by, weight=weight, screened=counts)
        if output is not None:
            write(found.table, output)
        lines = [f"Share of all {len(frame):,} rows, with 90 % intervals:", "", *_lines(found.table), "", found.condition]
        out.result("\n".join(lines), {"sizes": found.table.to_dict("records"), "condition": found.condition})
