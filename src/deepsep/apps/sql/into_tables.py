"""Score rows, of a query or of files, into a table of a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from deepsep.apps.sql.database import open_reader, open_writer
from deepsep.apps.sql.drivers import Connection
from deepsep.apps.sql.query import Query, QueryTable
from deepsep.apps.sql.scores_table import ScoresTable
from deepsep.core.arrays import Array
from deepsep.core.checks import with_fields
from deepsep.errors import DataError, DeepSepError, ParameterError, Setting
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision, Tally
from deepsep.scoring.files import plan_parts, warn_of_failed
from deepsep.scoring.job import (
    BATCH_ROWS,
    THIS_MACHINE,
    Part,
    Progress,
    Report,
    Resources,
    Scoring,
    ScoringJob,
    UnreadablePart,
    failed_parts,
    reporting,
    warn_of_drift,
)
from deepsep.scoring.local import id_type, no_rows, result_types, scored_batches
from deepsep.table.arrow_frames import cells_of, key_hashes
from deepsep.table.locations import Named, files_of, table_at
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.source import SomeRows


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
        tallies.append(with_changes(whole, drift=drift, error=error))
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
def saying_what_is_written(table: ScoresTable, already: int, go_on: str = "") -> Iterator[None]:
    """Add to an error what the table holds by then, and how to resume, even if it holds nothing yet with ``go_on``."""

    def written(first: str) -> str:
        before = f"{already:,} rows from before" if already else ""
        if not table.rows:
            return f"Nothing was written{f'; the table {table.name} has {before}' if already else ''}. {go_on}".rstrip()
        return (
            f"The table {table.name} has all rows up to the key {table.last_key!r}: {table.rows:,} in whole batches"
            f"{f', and {before}' if already else ''}. "
            + (go_on or f"{first} the same command again; it resumes where it stopped.")
        )

    try:
        yield
    except DeepSepError as error:
        raise error.followed_by(written("Fix this and run" if isinstance(error, DataError) else "Run")) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {written('Run')}") from None


def score_query(
    model: Any,
    query: Query,
    to: str,
    *,
    id: str,
    replace: bool = False,
    fast: bool | None = None,
    reasons: int | None = None,
    decision: Decision = MOST_PROBABLE_CLASS,
    resources: Resources = THIS_MACHINE,
    progress: Progress | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Score the rows of a query into a table of the same database, batch by batch.

    Rows are read sorted by ``id``, and memory use is constant (DuckDB takes up to 1 GB for itself). A batch is written
    in one transaction, so that it is there completely or not at all. Rows whose identifier is in the table already are
    skipped: after a failure the same call resumes where it stopped, and later calls score the rows that have come
    since. The result is the same, to the bit, as without the interruption.

    The table has the columns of a scored file, with ``id`` as the primary key. A second table in the same schema,
    ``deepsep_scores``, has a row for each table of predictions: the model, the settings, the number of rows, the last
    key, and how the rows of the last call, not those of earlier ones, differ from the training table.

    Parameters
    ----------
    model : fitted classifier, or path
        The model, or the folder of a saved one.
    query : Query
        The database, and the rows in it.
    to : str
        Name of the table, or "schema.table"; taken as it is, upper and lower case included. It is created with the
        first batch. An existing one must have been written by the same model with the same settings.
    id : str
        The column that tells the rows apart: integers, text, dates or uuids, without gaps and duplicates.
    replace : bool, default=False
        Whether to replace a table of predictions of that name, by any model; the first batch takes
        its place. Other tables are never replaced.
    fast : bool, optional
        As in :func:`deepsep.scoring.score_file`. None: where the table has rows, by whom these were scored.
    reasons, decision, resources, progress, **fields
        As in :func:`deepsep.scoring.score_file`. A cluster does not score queries.

    Returns
    -------
    dict
        As :func:`score_file`, about the rows that this call has scored, ``drift`` included; ``already`` is the number
        of rows that the table had, which ``drift`` has as ``rows_before``; ``last_key`` is the last key written.

    Raises
    ------
    DataError
        If the query or the table cannot be used.
    DatabaseError
        If the database cannot be reached or written. Both messages say what is in the table.
    """
    check_key_given(id)
    decision, resources = with_fields("score_query", fields, decision, resources)
    resources.check_local()
    scoring = Scoring(model, decision, id=id, resources=resources, fast=fast, reasons=reasons)
    with open_writer(query.database) as connection:
        table = ScoresTable(connection, to, id)
        goes_on = table.record is not None and not replace
        with open_reader(query.database, with_writer=True) as reader:
            rows = QueryTable(reader, query.sql, id=id, besides=table.place if goes_on else None, unique=True)
            table.begin(reader.key_type(rows.sql, id)[0], replace=replace)
            return score_into(scoring, table, [scoring.part(rows, "the query")], progress)


def write_scores(
    model: Any,
    query: Query,
    to: str,
    frames: Iterable[pd.DataFrame],
    decision: Decision,
    *,
    id: str,
    fast: bool,
    replace: bool,
    go_on: str,
) -> int:
    """Write the predictions of a fit to a table, like those of ``score_query``, and return their number.

    ``fast``: they are the student's. ``go_on`` says after a failure how to write the others.
    """
    scoring = Scoring(model, decision, id=id, fast=fast)
    with open_writer(query.database) as connection:
        table = ScoresTable(connection, to, id)
        with open_reader(query.database, with_writer=True) as reader:
            rows = QueryTable(reader, query.sql, id=id)
            parts = [scoring.part(rows, "the query")]
            job, key = scoring.job(parts), reader.key_type(rows.sql, id)[0]
            table.begin(key, replace=replace)
            table.describe(job.provenance, settings_of(scoring, job))
            types = result_types(job, parts)
        with saying_what_is_written(table, 0, go_on):
            for frame in frames:
                for start in range(0, max(len(frame), 1), BATCH_ROWS):
                    table.write(frame[start : start + BATCH_ROWS], types)
    return table.rows


def score_to_table(
    model: Any,
    source: Named,
    to: str,
    *,
    database: str,
    id: str,
    replace: bool = False,
    fast: bool | None = None,
    reasons: int | None = None,
    reading: Reading = AS_DETECTED,
    decision: Decision = MOST_PROBABLE_CLASS,
    resources: Resources = THIS_MACHINE,
    progress: Progress | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Score a file, or several of them, into a table of a database, batch by batch, as :func:`score_query` does.

    Rows are written in the order of the file. The keys are read first, to find gaps and duplicates before anything is
    written, which takes some 16 bytes of memory for each.

    Parameters
    ----------
    model, to, replace, fast
        As in :func:`score_query`.
    source : str, path, or sequence of them
        As in :func:`deepsep.scoring.score_file`. Of several files, one that cannot be read is left out, with a warning.
    database : str
        ``postgresql://user@host/database`` without a password, or the path of an SQLite or DuckDB file.
        It must exist.
    id : str
        The column that tells the rows apart: integers, text, or dates (not in SQLite), without gaps and duplicates.
    reasons, reading, decision, resources, progress, **fields
        As in :func:`deepsep.scoring.score_file`. A cluster does not score into a database.

    Returns
    -------
    dict
        As :func:`score_query`.
    """
    check_key_given(id)
    reading, decision, resources = with_fields("score_to_table", fields, reading, decision, resources)
    resources.check_local()
    scoring = Scoring(model, decision, id=id, resources=resources, fast=fast, reasons=reasons)
    place = table_at(source)
    files = files_of(place)
    with open_writer(database) as connection:
        table = ScoresTable(connection, to, id)
        parts, failed = plan_parts(scoring, place, files, Path(to), reading)
        kind = _key_type(id_type(parts, id), id, connection)
        parts, unreadable = _check_keys(parts, id)
        table.begin(connection.types[kind], replace=replace)
        kind = _same_type(table, kind)

        def is_new(batch: Any, first: int) -> Array:
            return ~table.are_known(cells_of(batch, id).to_pylist()) if table.goes_on else np.ones(len(batch), bool)

        parts = [with_changes(part, source=SomeRows(part.source, is_new, key=id, key_type=kind)) for part in parts]
        done = score_into(scoring, table, parts, progress)
    done["failed"] = failed | unreadable | done["failed"]
    warn_of_failed(done["failed"], len(files))
    return done


def _key_type(kind: Any, id: str, connection: Connection) -> Any:
    """Return the Arrow type of keys in a database, or raise if they are none."""
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return pa.int64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_date32(kind) and kind in connection.types:
        return kind
    dates = ", a text or a date" if pa.date32() in connection.types else " or a text"
    raise DataError(
        f"the key {id!r} is of the type {kind}; a key in {connection.place} is an integer{dates}. Convert it in the "
        "file, or name another column with {id}.",
        id=Setting("id"),
    )


def _same_type(table: ScoresTable, kind: Any) -> Any:
    """Return the Arrow type of the keys that a table has, or raise if those of the file are others."""
    if not table.count():
        return kind
    name, known = table.connection.key_type(f"select * from {table.place}", table.id)
    if name.lower() == "uuid" or _key_type(known, table.id, table.connection) != kind:
        raise DataError(
            f"the keys of the table {table.name} are of the type {name}, those of the file {kind}. Name another table "
            "with {to}, or replace it with {replace}.",
            to=Setting("to"),
            replace=Setting("replace", True),
        )
    return known


def _check_keys(parts: Sequence[Part], id: str) -> tuple[list[Part], dict[str, str]]:
    """Raise if a key is missing or repeated; return the parts that can be read, and why the others cannot."""
    readable, failed, hashes, gaps = [], dict[str, str](), [], 0
    for part in parts:
        try:
            own = [(key_hashes(keys), keys.null_count) for keys in _pieces(part, id)]
        except DataError as error:
            if part.alone:
                raise
            failed[part.relative] = str(error)
            continue
        readable.append(part)
        hashes += [each for each, _ in own]
        gaps += sum(count for _, count in own)
    if not readable:
        raise DataError(f"no part can be read. {next(iter(failed.values()))}")
    if gaps:
        raise DataError(
            f"{gaps:,} of {sum(map(len, hashes)):,} rows have no {id!r}, by which they are known. Leave them out of "
            "the file."
        )
    whole = np.concatenate([*hashes, np.empty(0, np.uint64)])
    whole.sort()
    repeated = np.unique(whole[1:][whole[1:] == whole[:-1]])
    if len(repeated):
        _refuse_repeated(readable, id, repeated)
    return readable, failed


def _refuse_repeated(parts: Sequence[Part], id: str, hashes: Array) -> None:
    """Raise if keys with these hashes are the same; two may share a hash by chance."""
    seen: Counter[Any] = Counter()
    for part in parts:
        for keys in _pieces(part, id):
            seen.update(keys.filter(pa.array(np.isin(key_hashes(keys), hashes))).to_pylist())
    twice = [key for key, count in seen.items() if count > 1]
    if twice:
        raise DataError(
            f"the key {id!r} is not unique: {len(twice):,} keys are repeated, such as {twice[0]!r}. Name another "
            "column with {id}, or write the file so that it has every key once.",
            id=Setting("id"),
        )


def _pieces(part: Part, id: str) -> Iterator[Any]:
    piece = 100_000  # keys examined at a time
    for batch, _ in part.source.tables(piece, [id], {}, id):
        keys = cells_of(batch, id)
        if pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type):
            blank = pc.equal(pc.utf8_trim_whitespace(keys), "")
            keys = pc.if_else(blank, pa.scalar(None, keys.type), keys)
        yield keys
