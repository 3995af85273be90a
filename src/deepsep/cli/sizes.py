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
            help="For labels that fill quotas: a table with the columns class and looked_at, the number of people "
            "looked at until the labels of the class were found.",
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

    TABLE is the one that the model was fitted to, or has the same columns. To count predicted labels would favour
    segments that are easy to predict. So the model's probabilities are corrected by their errors on labels that were
    held out in the fit: the 90 % intervals hold however wrong the model is, and are narrow if it is good.

    Example: deepsep sizes model customers.csv --by country
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        import json as json_module

        import pyarrow as pa

        from deepsep.cli.next import known_labels
        from deepsep.cli.opening import open_classifier
        from deepsep.cli.words import in_options
        from deepsep.model.reading_again import as_remembered
        from deepsep.model.sizes import sizes_in_table
        from deepsep.scoring.frame import label_of, schema_of
        from deepsep.scoring.writer import Writer
        from deepsep.table import read_table
        from deepsep.table.batches import open_files

        fitted = open_classifier(model, "sizes")
        counts = None if screened is None else _read_screened(screened)
        id, reading = as_remembered(fitted, list(table), id, reading)
        rows = open_files(list(table), reading)
        label = label or label_of(fitted) or "label"
        out.note(f"Reading {rows} ...")
        types = {name: kind for name, kind in schema_of(fitted).items() if name in rows.names}
        frame = read_table(rows, label=label if label in rows.names else None, id=id, types=types)
        found = sizes_in_table(fitted, frame, known_labels(model), id=id, by=by, weight=weight, screened=counts)
        condition = in_options(found.basis)
        if output is not None:
            with Writer(output, {"low": pa.float64(), "high": pa.float64()}) as writer:
                writer.write(found.table)
        lines = [f"Share of all {len(frame):,} rows, with 90 % intervals:", "", *_lines(found.table), "", condition]
        plain = json_module.loads(found.table.to_json(orient="records"))
        out.result("\n".join(lines), {"sizes": plain, "condition": condition, "target": output})


def _lines(table: pd.DataFrame) -> list[str]:
    """Return the sizes as lines of a console, groups under their names."""
    from deepsep.report.wording import percent

    *group, name, _, _, _, _ = table.columns
    width = max(len(str(each)) for each in table[name])
    lines = []
    for key, part in table.groupby(group[0], sort=False) if group else [(None, table)]:
        lines += [] if key is None else [f"{group[0]} = {key}"]
        for segment, share, low, high, labels in part[[name, "share", "low", "high", "labels"]].itertuples(index=False):
            interval = "no interval" if low != low else f"{100 * low:.1f} to {percent(high, 1)}"
            lines.append(f"  {segment!s:<{width}}  {percent(share, 1):>7}   {interval:<16} {labels:>5} labels")
    return lines


def _read_screened(file: Path) -> dict[Any, int]:
    """Return the screening counts in a file, or raise."""
    from deepsep.errors import DataError
    from deepsep.table import read_table

    frame = read_table(file)
    if not {"class", "looked_at"} <= set(frame.columns):
        raise DataError(f"{file} needs the columns class and looked_at, and has {', '.join(map(str, frame.columns))}.")
    counts = dict(zip(frame["class"], frame["looked_at"], strict=True))
    if len(counts) < len(frame):
        raise DataError(f"{file} has a class twice. Write one line for each class.")
    return {name: int(n) if float(n).is_integer() else n for name, n in counts.items() if n == n and n is not None}
