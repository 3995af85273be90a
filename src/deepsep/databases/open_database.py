"""Open connections to a database."""

from __future__ import annotations

from deepsep.databases.addresses import Address
from deepsep.databases.connections import Connection
from deepsep.databases.duckdb_files import DuckDB
from deepsep.databases.postgresql import PostgreSQL
from deepsep.databases.sqlite import SQLite


def open_reader(database: str, *, with_writer: bool = False) -> Connection:
    """Return a connection that can only read; ``with_writer``: this process also writes to the same database."""
    return _open(database, read_only=True, shared=with_writer)


def open_writer(database: str) -> Connection:
    """Return a connection that can write."""
    return _open(database, read_only=False, shared=True)


def _open(database: str, *, read_only: bool, shared: bool) -> Connection:
    address = Address.of(database)
    if address.system == "postgresql":
        return PostgreSQL(address.place, read_only=read_only)
    if address.system == "sqlite":
        return SQLite(address.place, read_only=read_only)
    return DuckDB(address.place, read_only=read_only, shared=shared)
