"""Rows and predictions in databases: PostgreSQL, and files of SQLite and DuckDB."""

from deepsep.apps.sql.into_tables import score_query, score_to_table
from deepsep.apps.sql.query import Query

__all__ = ["Query", "score_query", "score_to_table"]
