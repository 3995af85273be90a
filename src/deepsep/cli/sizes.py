"""``deepsep sizes``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import Id, Label, ModelFolder, ReadingOptions, TableFiles, Weight, option

if TYPE_CHECKING:
    import pandas as pd


@command()
def sizes(
    model: ModelFolder,
    table: TableFiles,
    by: Annotated[str | None, option("--by", "COLUMN", "Also by the groups in this column.")] = None,
    screened: Annotated[
        Path | None,
        option(
            "--screened",
            "FILE",
            "For labels that fill quotas: a table with the columns class and looked_at, the number of people "
            "looked at until the labels of the class were found.",
        ),
    ] = None,
    output: Annotated[Path | None, option("--output, -o", "FILE", "A .csv or .xlsx file as well.")] = None,
    weight: Weight = None,
    id: Id = None,
    label: Label = None,
    *,
    reading: ReadingOptions,
    out: Console,
) -> None:
    """Estimate how large the segments are, with intervals.

    TABLE is the one that the model was fitted to, or has the same columns. To count predicted labels would favour
    segments that are easy to predict. So the model's probabilities are corrected by their errors on labels that were
    held out in the fit: the 90 % intervals hold however wrong the model is, and are narrow if it is good.

    Example: deepsep sizes model customers.csv --by country
    """
    import json

    import pyarrow as pa

    from deepsep.cli.opening import open_classifier
    from deepsep.cli.words import in_options
    from deepsep.model.model_folder import read_labels_used
    from deepsep.model.reading_again import read_again
    from deepsep.model.segment_sizes import sizes_in_table
    from deepsep.scoring.writer import Writer

    fitted = open_classifier(model, "sizes")
    counts = None if screened is None else _read_screened(screened)
    frame, id, _ = read_again(fitted, table, id=id, label=label, given=reading.given, note=out.note)
    found = sizes_in_table(fitted, frame, read_labels_used(model), id=id, by=by, weight=weight, screened=counts)
    condition = in_options(found.basis)
    if output is not None:
        with Writer(output, {"low": pa.float64(), "high": pa.float64()}) as writer:
            writer.write(found.table)
    lines = [f"Share of all {len(frame):,} rows, with 90 % intervals:", "", *_lines(found.table), "", condition]
    plain = json.loads(found.table.to_json(orient="records"))
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
