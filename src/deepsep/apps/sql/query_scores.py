"""Score the rows of a query to a database into a table of the same database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from deepsep.apps.sql.database import open_reader, open_writer
from deepsep.apps.sql.into_tables import check_key_given, saying_what_is_written, score_into, settings_of
from deepsep.apps.sql.query import Query, QueryTable
from deepsep.apps.sql.scores_table import ScoresTable
from deepsep.core.checks import with_fields
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision
from deepsep.scoring.job import BATCH_ROWS, THIS_MACHINE, Progress, Resources, Scoring
from deepsep.scoring.local import result_types
from deepsep.table.external import OpenRows


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
            return score_into(scoring, table, [scoring.part(OpenRows(rows), "the query")], progress)


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
            parts = [scoring.part(OpenRows(rows), "the query")]
            job, key = scoring.job(parts), reader.key_type(rows.sql, id)[0]
            table.begin(key, replace=replace)
            table.describe(job.provenance, settings_of(scoring, job))
            types = result_types(job, parts)
        with saying_what_is_written(table, 0, go_on):
            for frame in frames:
                for start in range(0, max(len(frame), 1), BATCH_ROWS):
                    table.write(frame[start : start + BATCH_ROWS], types)
    return table.rows
