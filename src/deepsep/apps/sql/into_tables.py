"""Score rows, of a query or of files, into a table of a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from deepsep.apps.sql.scores_table import ScoresTable
from deepsep.errors import DataError, DeepSepError, ParameterError, Setting
from deepsep.scoring.decisions import Tally
from deepsep.scoring.job import (
    Part,
    Progress,
    Report,
    Scoring,
    ScoringJob,
    UnreadablePart,
    failed_parts,
    reporting,
    warn_of_drift,
)
from deepsep.scoring.local import no_rows, result_types, scored_batches


def check_key_given(id: str | None) -> None:
    """Raise if no column tells the rows apart."""
    if id is None:
        raise ParameterError(
            "{to} needs {id}: the column that tells the rows apart, by which scoring resumes after a failure.",
            to=Setting("to"),
            id=Setting("id"),
        )


def score_into(scoring: Scoring, table: ScoresTable, parts: list[Part], progress: Progress | None) -> dict[str, Any]:
    """Score the rows that a table lacks into it, and return the result, as ``score_query`` does."""
    if table.goes_on and table.record is not None and scoring.fast is None:
        scoring.fast = table.record.settings["scored_by"] == "student"
    job = scoring.job(parts)
    table.describe(job.provenance, settings_of(scoring, job))
    already = table.count()
    with saying_what_is_written(table, already):
        tallies = _score_parts(job, parts, reporting(parts, progress), table)
    failed = failed_parts(parts, tallies)
    done = {
        **scoring.result(job, tallies),
        "parts": len(parts) - len(failed),
        "failed": failed,
        "target": f"table {table.name} of {table.connection.place}",
        "already": already,
        "last_key": table.last_key,
        "drift_file": None,
    }
    if done["drift"] is not None:
        done["drift"]["rows_before"] = already
    if done["rows"]:
        table.finish(done["drift"])
    warn_of_drift(done["drift"])
    return done


def _score_parts(job: ScoringJob, parts: Sequence[Part], report: Report, table: ScoresTable) -> list[Tally]:
    """Score the parts to a table of a database, a transaction per batch, and return what each holds."""
    types, tallies = result_types(job, parts), []
    for part in parts:
        row, whole, error, drift = part.first_row, Tally(), None, job.new_counts()
        try:
            for scored, share in scored_batches(job, part):
                table.write(scored.frame, types)
                if drift is not None:
                    scored.count(drift, row)
                whole += scored.tally
                row += len(scored.frame)
                report(len(scored.frame), share)
        except UnreadablePart as reason:  # what was read of it stays
            error = str(reason)
        tallies.append(replace(whole, drift=drift, error=error))
    if table.untouched:
        table.write(no_rows(job, parts[0]), types)
    return tallies


def settings_of(scoring: Scoring, job: ScoringJob) -> dict[str, Any]:
    """Return the settings that decide what a row gets, besides the model."""
    sets, costs = scoring.decisions.sets, scoring.decisions.costs
    return {
        "id": scoring.id,
        "sets": sets and sets.coverage,
        "per_class": bool(sets and sets.per_class),
        "abstain": scoring.decisions.abstain,
        "costs": None if costs is None else costs.tolist(),
        "reasons": scoring.reasons,
        "scored_by": job.scored_by,
    }


@contextmanager
def saying_what_is_written(table: ScoresTable, already: int, go_on: str | None = None) -> Iterator[None]:
    """Add to an error what the table holds by then, and how to resume."""
    again = "the same command again; it resumes where it stopped."
    try:
        yield
    except DeepSepError as error:
        first = "Fix this and run" if isinstance(error, DataError) else "Run"
        raise error.followed_by(_written(table, already, go_on or f"{first} {again}", bool(go_on))) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Interrupted. {_written(table, already, go_on or f'Run {again}', bool(go_on))}"
        ) from None


def _written(table: ScoresTable, already: int, go_on: str, always: bool) -> str:
    """Return what a table has after a failure, and how to go on; ``always``: also if it has nothing yet."""
    before = f"{already:,} rows from before" if already else ""
    if not table.rows:
        text = f"Nothing was written{f'; the table {table.name} has {before}' if already else ''}."
        return f"{text} {go_on}" if always else text
    return (
        f"The table {table.name} has all rows up to the key {table.last_key!r}: {table.rows:,} in whole batches"
        f"{f', and {before}' if already else ''}. {go_on}"
    )
