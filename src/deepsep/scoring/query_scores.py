"""Score the rows of a query to a database into a table of the same database."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pandas as pd

from deepsep.databases.opening import open_reader, open_writer
from deepsep.errors import DeepSepError, ParameterError, Setting
from deepsep.scoring.costs import Costs
from deepsep.scoring.local import label_type, score_to_table
from deepsep.scoring.run import Progress, Scoring, warn_of_drift
from deepsep.scoring.scores_tables import ScoresTable, TableWriter
from deepsep.scoring.student import describe
from deepsep.table.queries import Query, QueryTable

BATCH = 20_000


def score_query(
    model: Any,
    query: Query,
    to: str,
    *,
    id: str,
    replace: bool = False,
    batch_rows: int = BATCH,
    fast: bool | None = None,
    sets: float | None = None,
    per_class: bool = False,
    abstain: float | None = None,
    costs: Costs | None = None,
    reasons: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Score the rows of a query into a table of the same database, batch by batch.

    Rows are read sorted by ``id``, and memory use is constant (DuckDB takes up to 1 GB for itself). A batch is written
    in one transaction, so that it is there completely or not at all. Rows whose identifier is in the table already are
    skipped: after a failure the same call goes on where it stopped, and later calls score the rows that have come
    since. The result is the same, to the bit, as without the interruption.

    The table has the columns of a scored file, with ``id`` as the primary key. A second table in the same schema,
    ``deepsep_scores``, has a row for each table of predictions: the model, the settings, the number of rows, the last
    key, and how the rows of the last call differ from the training table.

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
        Whether to begin anew if there is a table of predictions of that name, by whatever model; the first batch takes
        its place. Other tables are never replaced.
    batch_rows : int, default=20_000
        Number of rows in memory at a time, and in a transaction.
    fast : bool, optional
        As in :func:`score_file`. None: where the table has rows, by whom these were scored.
    sets, per_class, abstain, costs, reasons, progress
        As in :func:`score_file`.

    Returns
    -------
    dict
        As :func:`score_file`, about the rows that this call has scored; ``already`` is the number of rows that the
        table had, ``last_key`` the last key written.

    Raises
    ------
    DataError
        If the query or the table cannot be used.
    DatabaseError
        If the database cannot be reached or written. Both messages say what is in the table.
    """
    if id is None:
        raise ParameterError(
            "{to} needs {id}: the column that tells the rows apart, by which scoring goes on after a failure.",
            to=Setting("to"),
            id=Setting("id"),
        )
    scoring = Scoring(
        model,
        id=id,
        batch_rows=batch_rows,
        fast=fast,
        sets=sets,
        per_class=per_class,
        abstain=abstain,
        costs=costs,
        reasons=reasons,
    )
    with open_writer(query.database) as connection:
        table = ScoresTable(connection, to, id)
        record = None if replace else table.record
        if record is not None and scoring.fast is None:
            scoring.fast = record.settings["scored_by"] == "student"
        with open_reader(query.database, beside_writer=True) as reader:
            rows = QueryTable(reader, query.sql, id=id, besides=None if record is None else table.place, unique=True)
            parts = [scoring.part(rows, "the query")]
            scoring.choose(parts)
            settings = _settings(scoring)
            if record is not None:
                table.check_same(scoring.provenance, settings)
            already = table.begin(rows, scoring.provenance, settings, replace=replace)
            try:
                tallies = scoring.score(partial(score_to_table, table=table), parts, progress)
            except DeepSepError as error:
                gap = " " if error.text.endswith(".") else "\n"
                raise type(error)(f"{error.text}{gap}{_written(table, already)}", **error.settings) from error
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"Interrupted. {_written(table, already)}") from None
        done = {
            **scoring.result(tallies),
            "parts": 1,
            "failed": {},
            "target": f"table {to} of {query.database}",
            "already": already,
            "last_key": table.last_key,
            "drift_file": None,
        }
        if done["rows"]:
            table.finish(done["drift"])
    warn_of_drift(done["drift"])
    return done


def write_scores(
    model: Any, query: Query, to: str, frames: Iterable[pd.DataFrame], *, id: str, replace: bool, **asked: Any
) -> int:
    """Write the predictions of a fit to a table, like those of ``score_query``, and return their number."""
    options: dict[str, Any] = {"fast": False, "reasons": None, "batch_rows": BATCH}
    scoring = Scoring(model, id=id, **options, **asked)
    with open_writer(query.database) as connection:
        table = ScoresTable(connection, to, id)
        with open_reader(query.database, beside_writer=True) as reader:
            rows = QueryTable(reader, query.sql, id=id)
            scoring.choose([scoring.part(rows, "the query")])
            table.begin(rows, scoring.provenance, _settings(scoring), replace=replace)
            types = label_type(model, scoring.decisions) | {id: rows.id_type(id)}
        writer = TableWriter(table, types)
        for frame in frames:
            for start in range(0, max(len(frame), 1), BATCH):
                writer.write(frame[start : start + BATCH])
    return table.rows


def _settings(scoring: Scoring) -> dict[str, Any]:
    """Return all that decides what a row gets, beside the model."""
    sets, costs = scoring.decisions.sets, scoring.decisions.costs
    return {
        "id": scoring.id,
        "sets": sets and sets.coverage,
        "per_class": bool(sets and sets.per_class),
        "abstain": scoring.decisions.abstain,
        "costs": None if costs is None else costs.tolist(),
        "reasons": scoring.reasons,
        "scored_by": describe(scoring.model, scoring.scorer)["scored_by"],
    }


def _written(table: ScoresTable, already: int) -> str:
    """Return what a table has after a failure, and how to go on."""
    before = f"{already:,} rows from before" if already else ""
    if not table.rows:
        return f"Nothing was written{f'; the table {table.name} has {before}' if already else ''}."
    return (
        f"The table {table.name} has all rows up to the key {table.last_key!r}: {table.rows:,} in whole batches"
        f"{f', and {before}' if already else ''}. The same command goes on from there."
    )
