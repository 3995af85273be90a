"""Connections to databases: rows are read and written as Arrow batches, and drivers' errors become deepsep's own."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, ClassVar, Self

import pyarrow as pa

from deepsep.errors import DatabaseError, DataError, DeepSepError, missing_package

LOCK_SECONDS = 10  # to wait for a lock of another program
ONE_SELECT = "Correct the query; it must be one select."


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def load_driver(module: str, feature: str, package: str) -> Any:
    """Return the module of a driver, or raise if its package is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_package(feature, package) from error


class Connection(ABC):
    """A connection to a database; ``place`` is its name in messages."""

    types: ClassVar[Mapping[Any, str]]  # the system's names of the Arrow types of predictions
    key_types: ClassVar[Mapping[str, Any]]  # Arrow types of keys, by the system's names
    key_as_text: ClassVar[str] = ""  # an expression that makes a key of a column
    any_case: ClassVar[bool] = False  # whether names that differ only in case are the same
    longest_name: ClassVar[int] = 10_000  # bytes
    # Advice by parts of a message: for what a user can correct, and for everything else.
    mistakes: ClassVar[Mapping[str, str]] = {}
    failures: ClassVar[Mapping[str, str]] = {}

    def __init__(self, place: str) -> None:
        self.place = place

    @abstractmethod
    def execute(self, sql: str) -> None:
        """Run a statement, in the current transaction."""

    @abstractmethod
    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the few rows of a query."""

    @abstractmethod
    def columns(self, query: str) -> list[tuple[str, str]]:
        """Return the columns of a query, with the system's names of their types."""

    @abstractmethod
    def readable(self, name: str, kind: str) -> str:
        """Return the expression that reads a column of a type in a form that a table in a file can have."""

    def key_type(self, query: str, name: str) -> tuple[str, Any]:
        """Return the type of a key in the system and in Arrow, or raise if a key cannot have it."""
        kind = dict(self.columns(query))[name]
        if kind not in self.key_types:
            raise DataError(
                f"the key {name!r} is of the type {kind}; a key is an integer, a text, a date or a uuid. Convert it in "
                f"the query, such as {self.key_as_text.format(name=name)} as {name}."
            )
        return kind, self.key_types[kind]

    @abstractmethod
    def has_table(self, table: tuple[str, ...]) -> bool:
        """Return whether there is a table, or a view, of this name."""

    @abstractmethod
    def stream(self, query: str, rows: int) -> Iterator[Any]:
        """Yield the rows of a query as Arrow tables, in bounded memory."""

    @abstractmethod
    def append(self, table: tuple[str, ...], rows: Any) -> None:
        """Append an Arrow table to a table, in the current transaction."""

    @abstractmethod
    def commit(self) -> None:
        """End the transaction and keep its changes."""

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction and undo its changes."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def wait_for(self, table: str, condition: str) -> None:
        """Wait until other transactions that change these rows of a table have ended."""
        self.fetch(f"select 1 from {table} where {condition}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(DeepSepError):  # changes that were not committed are undone
            self.close()

    @contextmanager
    def clear_errors(self, kind: type[Exception]) -> Iterator[None]:
        """Turn errors of a driver into deepsep's, which say what to do."""
        try:
            yield
        except (kind, pa.ArrowException, OSError) as error:  # a stream raises the latter two
            raise self.explained(error) from error

    def explained(self, error: Exception) -> DeepSepError:
        """Return deepsep's error for a driver's error."""
        message = re.sub(r"\s*(Query was:.*|SQLSTATE: \w*)$", "", str(error), flags=re.DOTALL)
        message = re.sub(r"^[A-Z_]+: (\[\w+\] )?", "", message)
        text = f"{self.place}: {' '.join(message.split())[:400].rstrip('.! ')}"
        for kind, cures in ((DataError, self.mistakes), (DatabaseError, self.failures)):
            for part, cure in cures.items():
                if part in message.lower():
                    return kind(f"{text}. {cure}")
        # The classes of SQLSTATE that a user can correct; others are failures.
        if (getattr(error, "sqlstate", None) or "")[:2] in ("0A", "22", "23", "25", "28", "3D", "3F", "42"):
            return DataError(f"{text}. Correct the query, or the table.")
        return DatabaseError(f"{text}. Check the database and the connection, and run the same command again.")


class AdbcConnection(Connection):
    """A connection through an ADBC driver."""

    def __init__(self, place: str, module: Any, address: str, **options: Any) -> None:
        super().__init__(place)
        self._errors = module.Error
        self._reading: Any = None  # a cursor from which rows are being read
        with self._clear():
            self._connection = module.connect(address, **options)

    def _clear(self) -> Any:
        return self.clear_errors(self._errors)

    def execute(self, sql: str) -> None:
        with self._clear(), self._connection.cursor() as cursor:
            cursor.execute(sql)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with self._clear(), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def append(self, table: tuple[str, ...], rows: Any) -> None:
        *schema, name = table
        with self._clear(), self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, rows, mode="append", **({"db_schema_name": schema[0]} if schema else {}))

    def commit(self) -> None:
        with self._clear():
            self._connection.commit()

    def rollback(self) -> None:
        with self._clear():
            self._connection.rollback()

    def close(self) -> None:
        with self._clear():
            if self._reading is not None:
                self._reading.adbc_cancel()
                self._reading.close()
            self._connection.close()

    @contextmanager
    def reading(self, query: str) -> Iterator[Any]:
        """Yield a cursor for the rows of a query."""
        with self._clear(), self._connection.cursor() as cursor:
            self._reading = cursor
            cursor.execute(query)
            yield cursor
        self._reading = None


def tables_of(pieces: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield Arrow tables of ``rows`` rows (the last one may be shorter) from record batches of any size."""
    held: list[Any] = []
    for piece in pieces:
        held.append(piece)
        while sum(map(len, held)) >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
    if held:
        yield pa.Table.from_batches(held)
