"""``deepsep assign``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepsep.cli.console import console
from deepsep.cli.options import (
    Debug,
    Id,
    Json,
    Quiet,
    SegmentsFolder,
    takes_options,
)
from deepsep.table.reading_settings import Reading


@takes_options()
def assign(
    model: SegmentsFolder,
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            help="Table with one row per respondent; its columns are matched by name.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .parquet, .csv, .tsv or .xlsx file.", show_default=False
        ),
    ],
    id: Id = None,
    *,
    reading: Reading,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Give new respondents their segment, with probabilities.

    The output has the columns of respondents.parquet: the identifier, segment, its probability, and the probability of
    every segment. Questions that the table lacks count as not answered; answers that the segments were not made of do
    not count; both are said. Only an empty cell is a missing answer.

    Example: deepsep assign segments/model answers.csv --id user_id -o assigned.parquet
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        import pyarrow as pa

        from deepsep.cli.answers import read_answers
        from deepsep.cli.opening import open_segments
        from deepsep.errors import DataError
        from deepsep.models import provenance_of
        from deepsep.scoring.files import SCORED_FORMATS
        from deepsep.scoring.writer import write_frame
        from deepsep.survey import assign_segments
        from deepsep.table.locations import find_column

        if output.suffix.lower() not in SCORED_FORMATS:
            raise DataError(
                f"the output {output} must end in {', '.join(SCORED_FORMATS[:-1])} or {SCORED_FORMATS[-1]}."
            )
        if output.resolve() == answers.resolve():
            raise DataError(f"answers and output are both {output}. Name another output.")
        fitted = open_segments(model, "assign")
        out.note(f"Reading {answers} ...")
        frame = read_answers(out, answers, reading, id=id)
        ids = None if id is None else frame[find_column(frame.columns, id, "id column")]
        done = assign_segments(
            fitted, frame if id is None else frame.drop(columns=id), ids=ids, id_name="row" if id is None else id
        )
        for sentence in done.sentences:
            out.warn(sentence)
        about = provenance_of(fitted)
        write_frame(done.table, output, {"segment": pa.string()}, about)
        counts = done.table["segment"].value_counts().reindex(fitted.segment_names_, fill_value=0)
        n, placed, width = len(done.table), int(counts.sum()), max(map(len, counts.index))
        lines = [f"Gave {placed:,} of {n:,} respondents a segment: {output}"]
        lines += [f"  {name:<{width}}  {count / max(n, 1):6.1%}  {count:,}" for name, count in counts.items()]
        out.result(
            "\n".join(lines),
            {
                "rows": n,
                "segments": dict(counts.items()),
                "without_segment": n - placed,
                "absent": done.absent,
                "unknown": done.unknown,
                "ignored": done.ignored,
                "target": output,
                "model": about,
            },
        )
