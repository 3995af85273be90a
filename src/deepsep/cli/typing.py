"""``deepsep typing``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepsep.cli.console import console
from deepsep.cli.options import Debug, Json, Quiet, Seed, SegmentsFolder

if TYPE_CHECKING:
    from deepsep.apps.typing import TypingTool


def typing(
    model: SegmentsFolder,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The workbook, an .xlsx file; the query goes next to it, with the ending .sql.",
            show_default=False,
        ),
    ],
    n: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            metavar="QUESTIONS",
            help="How many questions; by default as few as --within allows, at most 15.",
            min=1,
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Agreement that fewer questions than all may cost, if -n is not given."),
    ] = 0.05,
    table: Annotated[str, typer.Option(metavar="NAME", help="Table of answers in the query.")] = "answers",
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a typing tool: the fewest questions that recover the segments.

    Writes a workbook in which a new respondent's answers give the segment by live formulas, and the same as a SQL
    query. Questions are added one at a time, the one that helps held-out respondents most. How well the tool agrees
    with the full segments is measured on respondents who had no part in it.

    Example: deepsep typing segments/model -n 8 -o typing.xlsx
    """
    made_by = "Made by deepsep"  # how a query of this command begins
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        from deepsep.apps.typing import make_typing_tool, typing_sql, write_typing_workbook
        from deepsep.cli.opening import open_segments
        from deepsep.errors import DataError
        from deepsep.files.atomic import replace_file, writing
        from deepsep.models import provenance_of

        if output.suffix.lower() != ".xlsx":
            raise DataError(f"the output {output} must end in .xlsx.")
        query = output.with_suffix(".sql")
        if query.exists() and not query.read_bytes().startswith(f"-- {made_by}".encode()):
            raise DataError(
                f"{query} would be replaced, and deepsep did not write it. Rename it, or name another output."
            )
        fitted = open_segments(model, "typing")
        about = provenance_of(fitted)
        out.note(f"Choosing among the questions of {len(fitted.labels_):,} respondents ...")
        with out.steps("Typing tool") as on_step:
            tool = make_typing_tool(fitted, n, within=within, random_state=seed, on_step=on_step)
        made = f"{made_by} {about['deepsep']} from the segments of {about['created'][:10]}, {about['sha256'][:12]}."
        with writing(output) as place:
            write_typing_workbook(tool, place, about=made)
        replace_file(query, f"-- {made}\n{typing_sql(tool, table)}")
        out.result(
            _text(tool, output, query, within, n), {**_content(tool), "workbook": output, "sql": query, "model": about}
        )


def _text(tool: TypingTool, output: Path, query: Path, within: float, n: int | None) -> str:
    agreement = tool.agreement
    lines = ["questions  agreement            question that is added"]
    for m, line in tool.curve.iterrows():
        chosen = "  <- chosen" if m == len(tool.items) else ""
        span = f"({100 * line['low']:.1f}–{100 * line['high']:.1f})"
        lines.append(f"{m:9d}  {line['agreement']:6.1%} {span:<13} {line['question']}{chosen}")
    lines.append(f"{'all':>9}  {tool.agreement_of_all:6.1%}")
    lines += [
        "",
        f"{len(tool.items)} questions give {agreement['agreement']:.1%} of held-out respondents the segment that all "
        f"questions give them (90 % interval {agreement['low']:.1%} to {agreement['high']:.1%}).",
    ]
    reached = tool.curve["agreement"].iloc[tool.suggested - 1] >= tool.agreement_of_all - within
    if not reached:
        lines.append(f"No number of questions up to {len(tool.curve)} comes within {within:.0%} of all questions.")
    elif n is not None and n != tool.suggested:
        lines.append(f"{tool.suggested} questions would be within {within:.0%} of all questions.")
    lines += [
        "",
        f"{output} gives respondents their segment by formulas: open it in Excel or LibreOffice.",
        f"{query} does the same in a database.",
    ]
    return "\n".join(lines)


def _content(tool: TypingTool) -> dict[str, Any]:
    return {
        "questions": [
            {"question": item.name, "answers": dict(zip(item.answers, points.tolist(), strict=True))}
            for item, points in zip(tool.items, tool.points, strict=True)
        ],
        "segments": list(tool.segment_names),
        "start": tool.start,
        **tool.agreement,
        "agreement_of_all": tool.agreement_of_all,
        "suggested": tool.suggested,
        "respondents": tool.respondents,
        "curve": tool.curve.reset_index().to_dict("records"),
    }
