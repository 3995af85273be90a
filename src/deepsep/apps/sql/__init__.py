"""Rows and predictions in databases: PostgreSQL, and files of SQLite and DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.apps.sql.file_scores import score_to_table
    from deepsep.apps.sql.query import Query
    from deepsep.apps.sql.query_scores import score_query

__all__ = ["Query", "score_query", "score_to_table"]

_HOME = {
    "Query": "deepsep.apps.sql.query",
    "score_query": "deepsep.apps.sql.query_scores",
    "score_to_table": "deepsep.apps.sql.file_scores",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
