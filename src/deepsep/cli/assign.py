"""``deepsep assign``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import Id, ReadingOptions, SegmentsFolder, argument, option
from deepsep.cli.printed_lines import aligned


@command()
def assign(
    model: SegmentsFolder,
    answers: Annotated[
        Path, argument("ANSWERS", "Table with one row per respondent; its columns are matched by name.")
    ],
    output: Annotated[Path, option("--output, -o", "FILE", "A .parquet, .csv, .tsv or .xlsx file.")],
    id: Id = None,
    *,
    reading: ReadingOptions,
    out: Console,
) -> None:
    """Give new respondents their segment, with probabilities.

    The output has the columns of respondents.parquet: the identifier, segment, its probability, and the probability of
    every segment. Questions that the table lacks count as not answered; answers that the segments were not made of do
    not count; both are said. Only an empty cell is a missing answer.

    Example: deepsep assign segments/model answers.csv --id user_id -o assigned.parquet
    """
    import pyarrow as pa

    from deepsep.cli.answers import read_answers
    from deepsep.cli.opening import open_segments
    from deepsep.errors import DataError
    from deepsep.files.atomic import writing
    from deepsep.models import provenance_of
    from deepsep.scoring.files import SCORED_FORMATS
    from deepsep.scoring.writer import Writer
    from deepsep.survey import assign_segments
    from deepsep.table.locations import find_column

    if output.suffix.lower() not in SCORED_FORMATS:
        raise DataError(f"the output {output} must end in {', '.join(SCORED_FORMATS[:-1])} or {SCORED_FORMATS[-1]}.")
    if output.resolve() == answers.resolve():
        raise DataError(f"answers and output are both {output}. Name another output.")
    fitted = open_segments(model, "assign")
    out.note(f"Reading {answers} ...")
    frame = read_answers(out, answers, reading.settings, id=id)
    ids = None if id is None else frame[find_column(frame.columns, id, "id column")]
    done = assign_segments(
        fitted, frame if id is None else frame.drop(columns=id), ids=ids, id_name="row" if id is None else id
    )
    for sentence in done.sentences:
        out.warn(sentence)
    about = provenance_of(fitted)
    with writing(output) as place, Writer(place, {"segment": pa.string()}, about) as writer:
        writer.write(done.table)
    counts = done.table["segment"].value_counts().reindex(fitted.segment_names_, fill_value=0)
    n, placed = len(done.table), int(counts.sum())
    lines = [f"Gave {placed:,} of {n:,} respondents a segment: {output}"]
    lines += aligned({name: f"{count / max(n, 1):6.1%}  {count:,}" for name, count in counts.items()})
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
