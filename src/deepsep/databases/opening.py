"""Open connections to a database."""

from __future__ import annotations

from deepsep.databases.addresses import Address
from deepsep.databases.connections import Connection
from deepsep.databases.duckdb_files import DuckDB
from deepsep.databases.postgresql import PostgreSQL
from deepsep.databases.sqlite import SQLite


def open_reader(database: str, *, beside_writer: bool = False) -> Connection:
    """Return a connection that can only read; ``beside_writer``: this process writes to the same database."""
    address = Address.of(database)
    if address.system == "duckdb":
        return DuckDB(address.place, read_only=True, shared=beside_writer)
    return (PostgreSQL if address.system == "postgresql" else SQLite)(address.place, read_only=True)


def open_writer(database: str) -> Connection:
    """Return a connection that can write."""
    address = Address.of(database)
    system: type[PostgreSQL | SQLite | DuckDB] = {"postgresql": PostgreSQL, "sqlite": SQLite, "duckdb": DuckDB}[
        address.system
    ]
    return system(address.place, read_only=False)
