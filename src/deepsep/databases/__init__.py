"""Connections to databases through Arrow: PostgreSQL, and files of SQLite and DuckDB."""
