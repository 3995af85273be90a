"""``deepsep score``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console, ExitCode
from deepsep.cli.options import (
    Address,
    Database,
    DecisionOptions,
    Engine,
    Id,
    MaybeTableFiles,
    ModelFolder,
    ReadingOptions,
    Replace,
    Sql,
    Workers,
    check_engine,
    option,
    source_of,
)


@command()
def score(
    model: ModelFolder,
    table: MaybeTableFiles = None,
    output: Annotated[
        Path | None,
        option("--output, -o", "FILE", "A .parquet, .csv, .tsv or .xlsx file; or a folder, if TABLE is several files."),
    ] = None,
    database: Database = None,
    query: Sql = None,
    to: Annotated[
        str | None,
        option(
            "--to",
            "TABLE",
            "A table of the database of --from or --database, or schema.table, in place of --output. Rows whose "
            "--id is in it already are skipped.",
        ),
    ] = None,
    target_database: Annotated[
        str | None,
        option(
            "--database",
            "DATABASE",
            "With TABLE and --to: the database that gets the predictions, named as in --from; it must exist.",
        ),
    ] = None,
    replace: Replace = False,
    id: Id = None,
    batch_size: Annotated[int, typer.Option(metavar="ROWS", help="Rows in memory at a time.", min=1)] = 20_000,
    fast: Annotated[
        bool, typer.Option("--fast", help="Score with the student of a committee, however few the rows.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Score with the committee itself, however many the rows.")
    ] = False,
    *,
    deciding: DecisionOptions,
    reasons: Annotated[
        int | None,
        option(
            "--reasons",
            "NUMBER",
            "Add the columns that contributed most to the label of each row: this many, such as 3.",
            min=1,
            max=20,
        ),
    ] = None,
    engine: Annotated[Engine, typer.Option(help="ray: score files to a folder on a Ray cluster.")] = "local",
    address: Address = None,
    workers: Workers = None,
    fail_on_drift: Annotated[
        bool, typer.Option("--fail-on-drift", help="End with exit code 3 if the rows differ from the training table.")
    ] = False,
    reading: ReadingOptions,
    out: Console,
) -> None:
    """Predict the label of every row of a table, with probabilities.

    Works on files of any size: rows are read, scored and written batch by batch. More than 100,000 rows are scored by
    the student of a committee, a network that is much faster, if it costs at most two points of accuracy. With --sets
    or --abstain the committee scores, however many the rows: what they promise rests on its predictions out of fold.

    With --reasons every column is left out in turn, by values of the training table in its place, so that every row is
    predicted some eight times for each column: quick with --fast, slow with a committee.

    TABLE may be several files, a pattern in quotes such as 'parts/*.csv', or a folder of Parquet parts: they are one
    table, in the order in which they are named, and sorted by name in a pattern or a folder.

    A run that was killed resumes where it stopped, if it is started again. Of several files, those that cannot be read
    are named and left out, the others are scored, and the exit code is 4; once they have been written again, the same
    command scores only what is missing.

    The rows are compared with the training table, and a notice says in which columns they differ. A file next to the
    output, scored.drift.json for scored.parquet, has all figures and says which model scored.

    With --from, rows come from a database, and with --to they go back to it: a transaction per batch, so that after a
    failure the same command resumes where it stopped. --database and --to write the rows of files to a database in the
    same way. The figures about drift, of the rows of the last run, are then in the table deepsep_scores.

    Example: deepsep score model customers.csv --id customer -o scored.parquet
    """
    import time

    from deepsep.cli.opening import open_classifier
    from deepsep.cli.printed_lines import aligned, decision_lines
    from deepsep.errors import ParameterError
    from deepsep.model.reading_again import as_remembered
    from deepsep.models import profile_of, provenance_of
    from deepsep.scoring import Resources, score_file
    from deepsep.table.source import ExternalRows

    if fast and exact:
        raise ParameterError("--fast and --exact exclude each other: leave out one of them.")
    source = source_of(table, database, query)
    if (output is None) is (to is None):
        raise ParameterError("where should the predictions go? Name a file with --output, or a table with --to.")
    if target_database is not None and (isinstance(source, ExternalRows) or to is None):
        raise ParameterError(
            "--database is for predictions of files in a table, which --to names. Leave it out with --from, whose "
            "database has the table, and with --output."
        )
    if not isinstance(source, ExternalRows) and to is not None and target_database is None:
        raise ParameterError("--to names a table of which database? Name it with --database, or a file with -o.")
    if replace and to is None:
        raise ParameterError("--replace belongs to --to: a file is always replaced.")
    check_engine(engine, address, workers)
    if engine == "ray" and to is not None:
        raise ParameterError("--engine ray scores files to a folder, not to a database. Leave it out.")
    fitted = open_classifier(model, "score")
    if fail_on_drift and profile_of(fitted) is None:
        raise ParameterError(
            f"--fail-on-drift: the model in {model} has no profile of its training table. Fit it again with this "
            "version of deepsep."
        )
    about = provenance_of(fitted)
    out.note(
        f"Model {about['name']} ({about['method']} of {about['created'][:16].replace('T', ' ')} UTC, written by "
        f"deepsep {about['deepsep']}; training data {about['training_data']})."
    )
    out.note(f"Scoring {source} ...")
    id, how = as_remembered(fitted, source, id, reading.given)
    asked: dict[str, Any] = {
        "id": id,
        "fast": True if fast else False if exact else None,
        "reasons": reasons,
        "decision": deciding.decision(fitted.classes_),
        "resources": Resources(engine=engine, address=address, workers=workers, batch_rows=batch_size),
    }
    began = time.perf_counter()
    with out.share("Scoring") as progress:
        if to is None:
            done = score_file(fitted, source, output or "", **asked, reading=how, progress=progress)
        elif isinstance(source, ExternalRows):
            from deepsep.apps.sql import score_query

            done = score_query(fitted, source, to, **asked, replace=replace, progress=progress)
        else:
            from deepsep.apps.sql import score_to_table

            where: dict[str, Any] = {"database": target_database or "", "replace": replace, "reading": how}
            done = score_to_table(fitted, source, to, **asked, **where, progress=progress)
    seconds = time.perf_counter() - began
    if done.get("already"):
        compared = " The comparison with the training table is about the new rows alone." if done["rows"] else ""
        out.note(f"The table had {done['already']:,} rows, which were skipped.{compared if done['drift'] else ''}")
    if engine == "ray" and done["scored_by"] == "student" and not reasons:
        from deepsep.apps.ray import MIN_STUDENT_ROWS

        if done["rows"] <= MIN_STUDENT_ROWS:
            out.note(f"A cluster cannot help a student with {done['rows']:,} rows: so few are quicker without it.")
    if done["ignored"]:
        names, more = done["ignored"][:5], len(done["ignored"]) - 5
        out.note(f"Not used by the model: {', '.join(names)}{f' and {more} more' if more > 0 else ''}.")
    if done["student"]:
        other = "--exact takes the committee" if done["scored_by"] == "student" else "--fast takes the student"
        choice = f"{other}." if deciding.sets is None else "Only the committee makes sets."
        out.note(
            f"Scored by the {done['scored_by']}. On rows held out, student and committee agree in "
            f"{done['student']['agreement']:.1%}; the rest costs the student about "
            f"{100 * done['student']['accuracy_loss']:.1f} points of accuracy. {choice}"
        )
    lines = [f"Scored {done['rows']:,} rows in {seconds:.1f} s: {done['target']}"]
    if done["rows"]:
        lines += aligned({name: f"{n / done['rows']:6.1%}  {n:,}" for name, n in done["labels"].items()})
    lines += decision_lines(done["decisions"], done["rows"], deciding.costs, by_student=done["scored_by"] == "student")
    if done["reasons"]:
        lines.append(
            f"Reasons: each column was left out in turn, by values of the training table in its place; "
            f"{done['reasons']['passes']:,} passes over the rows."
        )
    out.result("\n".join(lines), {**done, "seconds": round(seconds, 2)})
    if done["failed"]:
        raise typer.Exit(ExitCode.PARTS)
    if fail_on_drift and done["drift"]["drifted"]:
        raise typer.Exit(ExitCode.DRIFT)
