"""Score files into a table of a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deepsep.apps.sql.connections import Connection
from deepsep.apps.sql.database import open_writer
from deepsep.apps.sql.into_tables import check_key_given, score_into
from deepsep.apps.sql.scores_table import ScoresTable
from deepsep.core.checks import with_fields
from deepsep.errors import DataError, Setting
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision
from deepsep.scoring.files import plan_parts, warn_of_failed
from deepsep.scoring.job import THIS_MACHINE, Part, Progress, Resources, Scoring
from deepsep.scoring.local import id_type
from deepsep.table.arrow_frames import cells_of, key_hashes
from deepsep.table.locations import Named, files_of, table_at
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.source import SomeRows

Array = NDArray[Any]


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
    """Score a file, or several of them, into a table of a database, batch by batch.

    The table, and ``deepsep_scores`` next to it, are those of :func:`score_query`, and so is the promise: a batch is
    written in one transaction, rows whose identifier is in the table already are skipped, and after a failure the same
    call resumes where it stopped, with the same result. Rows are written in the order of the file. The keys are read
    first, to find gaps and duplicates before anything is written, which takes some 16 bytes of memory for each.

    Parameters
    ----------
    model : fitted classifier, or path
        The model, or the folder of a saved one.
    source : str, path, or sequence of them
        As in :func:`deepsep.scoring.score_file`. Of several files, one that cannot be read is left out, with a warning.
    to : str
        Name of the table, or "schema.table"; see :func:`score_query`.
    database : str
        ``postgresql://user@host/database`` without a password, or the path of an SQLite or DuckDB file.
        It must exist.
    id : str
        The column that tells the rows apart: integers, text, or dates (not in SQLite), without gaps and duplicates.
    replace, fast
        As in :func:`score_query`.
    reasons, reading, decision, resources, progress, **fields
        As in :func:`deepsep.scoring.score_file`. A cluster does not score into a database.

    Returns
    -------
    dict
        As :func:`score_query`.

    Raises
    ------
    DataError
        If the source or the table cannot be used.
    DatabaseError
        If the database cannot be reached or written. Both messages say what is in the table.
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
