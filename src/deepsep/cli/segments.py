"""``deepsep segments``."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import Drop, Id, ReadingOptions, Seed, Weight, argument, option, split_names
from deepsep.errors import DataError, ParameterError


@command()
def segments(
    answers: Annotated[Path, argument("ANSWERS", "Table with one row per respondent and one column per question.")],
    output: Annotated[Path, option("--output, -o", "FOLDER", "Folder for the segments.")],
    k: Annotated[str, option("-k", "NUMBER", "Number of segments, or 'auto'.")] = "5",
    id: Id = None,
    separator: Annotated[
        str | None, typer.Option(help="Text between several answers in a cell; detected by default.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option(metavar="FILE", help="names.json of an earlier run, edited by you.")
    ] = None,
    weight: Weight = None,
    drop: Drop = "",
    *,
    reading: ReadingOptions,
    seed: Seed = 0,
    out: Console,
) -> None:
    """Find segments in the answers to a questionnaire.

    Also shows what sets each segment apart. The folder gets respondents.parquet (everyone's segment with its
    probability), profiles.csv, names.json for you to edit, segments.html, and the model. Only an empty cell is a
    missing answer: "None" and "NA" are answers like any other. With --weight, people count by their survey weights in
    the segments, their number, shares and profiles.

    Example: deepsep segments answers.csv -k 5 --id user_id -o segments
    """
    n_segments = _number(k)
    if weight is not None and weight == id:
        raise ParameterError(f"--weight and --id are both {id!r}. Name two columns, or leave out --id.")
    from deepsep.cli.answers import read_answers
    from deepsep.evaluation.frames import check_id_name
    from deepsep.model.training_table import weights_in
    from deepsep.report import render_segments
    from deepsep.survey import SurveySegments, read_names, write_segments
    from deepsep.survey.segment_files import RESPONDENT_COLUMNS, check_folder
    from deepsep.table.locations import find_column

    check_folder(output)
    check_id_name(id or "row", RESPONDENT_COLUMNS)
    _check_names(output, names)
    given = None if names is None else read_names(names)
    out.note(f"Reading {answers} ...")
    frame = read_answers(out, answers, reading.settings, id=id)
    apart = [find_column(frame.columns, name, "--drop: column") for name in split_names(drop)]
    ids = None if id is None else frame[id]
    counts = None if weight is None else weights_in(frame, weight)
    X = frame.drop(columns=list({*apart, *([] if id is None else [id]), *([] if weight is None else [weight])}))
    many = "2 to 8" if n_segments == "auto" else str(n_segments)
    out.note(f"Looking for {many} segments among {len(X):,} respondents ...")
    model = SurveySegments(n_segments=n_segments, separator=separator or "auto", names=given, random_state=seed)
    with out.steps("Comparing") as on_step:
        model.fit(X, sample_weight=counts, on_step=on_step)
    summary = write_segments(
        model, X, output, ids=ids, id_name=id or "row", render=partial(render_segments, command=out.command)
    )
    out.result(_text(summary, output, id), {**summary, "folder": output})


def _number(k: str) -> int | str:
    if k == "auto":
        return k
    if not k.isdecimal() or int(k) < 2:
        raise ParameterError(f"-k {k}: pass a number of at least 2, or auto.")
    return int(k)


def _check_names(output: Path, given: Path | None) -> None:
    """Raise if the run would overwrite names that someone edited after an earlier run."""
    from deepsep.survey import read_names
    from deepsep.survey.segment_files import NAMES_FILE, read_summary

    file, summary = output / NAMES_FILE, read_summary(output)
    if summary is None or not file.exists() or (given is not None and given.resolve() == file.resolve()):
        return
    # With --names, names of the last run may be overwritten unless edited since; without it, only suggested names may.
    ours = "suggested" if given is None else "name"
    written = {segment["segment"]: segment.get(ours, segment["name"]) for segment in summary["segments"]}
    if any(written.get(k) != name for k, name in read_names(file).items()):
        raise DataError(
            f"{file} holds edited names, which this run would overwrite. To use them, add --names "
            f"{shlex.quote(str(file))}; to discard them, delete or move that file."
        )


def _text(summary: dict[str, Any], output: Path, id: str | None) -> str:
    shown = 4  # answers shown per segment
    lines = [
        f"{summary['n_segments']} segments of {summary['respondents']:,} respondents, from {summary['answers']} "
        f"answers to {summary['questions']} questions."
    ]
    if summary["without_answers"]:
        lines.append(f"{summary['without_answers']:,} respondents gave no answer that counts and have no segment.")
    if summary["weighted"]:
        lines.append("Shares are weighted, numbers of respondents are not.")
    if summary["compared"]:
        lines += ["", "segments  perplexity (noise)  stability"]
        for row in summary["compared"]:
            chosen = "  <- chosen" if row["k"] == summary["n_segments"] else ""
            fit = f"{row['perplexity']:.2f} (± {row['perplexity_std']:.2f})"
            lines.append(f"{row['k']:8d}  {fit:>18}  {row['stability']:9.2f}{chosen}")
        lines.append(
            "Perplexity on held-out respondents: lower is better. Stability over samples and seeds: 1 is best."
        )
        lines.append(summary["reason"])
    for segment in summary["segments"]:
        lines += [
            "",
            f"{segment['segment']}  {segment['name']}: {segment['size']:,} respondents, {segment['share']:.0%}",
        ]
        for answer in segment["telling"][:shown]:
            lines.append(
                f"     {answer['question']}: {answer['answer']}, {answer['share']:.0%} here and "
                f"{answer['overall']:.0%} overall ({answer['lift']:.1f} times)"
            )
    quoted, on = shlex.quote(str(output)), shlex.quote(id or "ID")
    lines += [
        "",
        f"{output / 'respondents.parquet'} holds the segment of each respondent.",
        f"{output / 'segments.html'} shows the segments: open it in a browser.",
        f"To rename segments: deepsep rename {quoted} NAMES.csv, a table with the columns old and new.",
        f"New respondents: deepsep assign {quoted}/model ANSWERS.csv -o assigned.parquet",
        f"Next: deepsep fit EVERYONE.csv --labels {quoted}/respondents.parquet --on {on} -o model",
    ]
    return "\n".join(lines)
