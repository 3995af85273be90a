"""Connections to PostgreSQL, SQLite and DuckDB, each through its own driver.

Rows are read and written as Arrow batches, and the errors of drivers become deepsep's own.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from deepsep.errors import DatabaseError, DataError, DeepSepError, missing_package
from deepsep.table.arrow_frames import checked

LOCK_SECONDS = 10  # to wait for a lock of another program
ONE_SELECT = "Correct the query; it must be one select."


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _driver(module: str, feature: str, package: str) -> Any:
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

    def __init__(self, place: str, driver: Any) -> None:
        self.place, self._errors = place, driver.Error
        self._reading: Any = None  # from which rows are being read

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
    def _clear(self) -> Iterator[None]:
        """Turn errors of a driver into deepsep's, which say what to do."""
        try:
            yield
        except (self._errors, pa.ArrowException, OSError) as error:  # a stream raises the latter two
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> DeepSepError:
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

    def __init__(self, place: str, driver: Any, address: str) -> None:
        super().__init__(place, driver)
        with self._clear():
            self._connection = driver.connect(address)

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


class PostgreSQL(AdbcConnection):
    """A connection to PostgreSQL; libpq finds the password in the environment or the usual files."""

    types: ClassVar = {
        **{pa.string(): "text", pa.large_string(): "text", pa.float64(): "double precision"},
        **{pa.int64(): "bigint", pa.bool_(): "boolean", pa.date32(): "date"},
    }
    key_types: ClassVar = {
        **{"int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "date": pa.date32()},
        **dict.fromkeys(("text", "varchar", "uuid"), pa.string()),
    }
    longest_name = 63
    key_as_text = "{name}::text"
    mistakes: ClassVar = {
        "password authentication failed": "Set PGPASSWORD in the environment, or write the password to ~/.pgpass; name "
        "the user in the URL.",
        "no password supplied": "Set PGPASSWORD in the environment, or write the password to ~/.pgpass.",
        "does not exist": "Check the names in the URL and in the query.",
        "syntax error": ONE_SELECT,
        "multiple commands": ONE_SELECT,
        "data-modifying statement": ONE_SELECT,
        "permission denied": "Ask for permission, or name another user in the URL.",
    }
    failures: ClassVar = {
        "lock timeout": "The query reads from the target, or another program uses it. Name another, or try later.",
        "no space left": "Make room on the server's disk, and run the same command again.",
        "could not extend file": "Make room on the server's disk, and run the same command again.",
    }

    def __init__(self, place: str, *, read_only: bool) -> None:
        driver = _driver("adbc_driver_postgresql.dbapi", "PostgreSQL", "adbc-driver-postgresql")
        super().__init__(place, driver, place)
        self._uuids: dict[tuple[str, ...], list[str]] = {}
        if read_only:  # all queries see the same state of the data
            self.execute("set transaction isolation level repeatable read, read only")
        else:
            self.execute(f"set lock_timeout = '{LOCK_SECONDS}s'")
            self.execute("set idle_in_transaction_session_timeout = 0")  # while the query is sorted
            self.commit()

    def columns(self, query: str) -> list[tuple[str, str]]:
        with self._clear(), self._connection.cursor() as cursor:
            schema = cursor.adbc_execute_schema(f"select * from ({query}\n) as deepsep_source")
        return [(field.name, (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()) for field in schema]

    def readable(self, name: str, kind: str) -> str:
        plain = ("int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "name")
        if kind in (*plain, "bool", "date", "timestamp", "timestamptz"):
            return quoted(name)
        return f"{quoted(name)}::{'double precision' if kind == 'numeric' else 'text'} as {quoted(name)}"

    def has_table(self, table: tuple[str, ...]) -> bool:
        name = ".".join(map(quoted, table))
        return bool(self.fetch(f"select to_regclass({literal(name)}) is not null")[0][0])

    def wait_for(self, table: str, condition: str) -> None:
        self.execute(f"select 1 from {table} where {condition} for update")

    def stream(self, query: str, rows: int) -> Iterator[Any]:
        with self._clear(), self._connection.cursor() as self._reading:
            self._reading.execute(query)
            with self._reading.fetch_record_batch() as reader:
                yield from tables_of(iter(reader), rows)
        self._reading = None

    def append(self, table: tuple[str, ...], rows: Any) -> None:
        if table not in self._uuids:
            kinds = self.columns(f"select * from {'.'.join(map(quoted, table))}")
            self._uuids[table] = [name for name, kind in kinds if kind == "uuid"]
        for name in self._uuids[table]:
            digits = pc.replace_substring(rows[name].combine_chunks(), "-", "")
            data = pa.py_buffer(bytes.fromhex("".join(digits.to_pylist())))
            binary = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(digits), [None, data])
            rows = rows.set_column(rows.column_names.index(name), name, binary)
        super().append(table, rows)


class SQLite(AdbcConnection):
    """A connection to a file of SQLite."""

    types: ClassVar = {
        **{pa.string(): "text", pa.large_string(): "text", pa.float64(): "real"},
        **{pa.int64(): "integer", pa.bool_(): "integer"},
    }
    key_types: ClassVar = {"integer": pa.int64(), "text": pa.string()}
    any_case = True
    mistakes: ClassVar = {
        "no such table": "Check the names in the query.",
        "no such column": "Check the names in the query.",
        "syntax error": ONE_SELECT,
        "type mismatch": "Convert the column in the query, such as cast(age as real) as age.",
        "readonly": "Ask for permission to write to the file and its folder.",
        "malformed": "The file is damaged. Restore it from a copy.",
        "not a database": "The file is damaged. Restore it from a copy.",
    }
    failures: ClassVar = {
        "is locked": "Another program is writing to it. Try again later.",
        "disk is full": "Make room on the disk, and run the same command again.",
    }

    def __init__(self, place: str, *, read_only: bool) -> None:
        driver = _driver("adbc_driver_sqlite.dbapi", "SQLite", "adbc-driver-sqlite")
        super().__init__(place, driver, f"{Path(place).resolve().as_uri()}?mode={'ro' if read_only else 'rw'}")
        self.fetch(f"pragma busy_timeout = {1000 * LOCK_SECONDS}")

    def columns(self, query: str) -> list[tuple[str, str]]:
        # Without types: in SQLite, values have types, columns do not.
        self.execute(f"explain {query}")  # a bracket that closes ours would hide the rest of the query from the driver
        with self._clear(), self._connection.cursor() as cursor:
            cursor.execute(f"select * from ({query}\n) limit 0")
            return [(name, "") for name in cursor.fetch_arrow_table().column_names]

    def readable(self, name: str, kind: str) -> str:
        return quoted(name)

    def key_type(self, query: str, name: str) -> tuple[str, Any]:
        key = quoted(name)
        found = self.fetch(f"select distinct typeof({key}) from ({query}\n) where {key} is not null")
        kinds = sorted(kind for (kind,) in found) or ["integer"]
        if len(kinds) > 1 or kinds[0] not in self.key_types:
            raise DataError(
                f"the key {name!r} is of the type {' and '.join(kinds)}; a key is an integer or a text. Convert it in "
                f"the query, such as cast({name} as text) as {name}."
            )
        return kinds[0], self.key_types[kinds[0]]

    def has_table(self, table: tuple[str, ...]) -> bool:
        if len(table) > 1:
            raise DataError(f"{'.'.join(table)}: SQLite has no schemas. Name the table alone.")
        found = self.fetch(f"select count(*) from sqlite_master where name = {literal(table[0])} collate nocase")
        return bool(found[0][0])

    def stream(self, query: str, rows: int) -> Iterator[Any]:
        # They are copied to a temporary table on the disk first: an open reader would keep writers out, and the driver
        # takes the types of columns from the first rows of a query.
        copied = "deepsep_rows"
        self.execute(f"drop table if exists temp.{copied}")
        self.execute(f"create temp table {copied} as {query}")
        self.commit()
        done, total = 0, self.fetch(f"select max(rowid) from temp.{copied}")[0][0] or 0
        while done < total:
            page = f"select * from temp.{copied} where rowid > {done} and rowid <= {done + rows} order by rowid"
            with self._clear(), self._connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(rows)})
                cursor.execute(page)
                table = cursor.fetch_arrow_table()
            try:
                checked(table)
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"some text between the rows {done + 1} and {done + rows} of the query is not UTF-8. Leave its "
                    "column out, or convert it in the query, such as hex(name) as name."
                ) from error
            yield table
            done += rows


class DuckDB(Connection):
    """A connection to a file of DuckDB; in one process all connections to a file share its settings."""

    types: ClassVar = {
        **{pa.string(): "varchar", pa.large_string(): "varchar", pa.float64(): "double"},
        **{pa.int64(): "bigint", pa.bool_(): "boolean", pa.date32(): "date"},
    }
    key_types: ClassVar = {
        **{"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(), "BIGINT": pa.int64()},
        **{"UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(), "UBIGINT": pa.uint64()},
        **{"VARCHAR": pa.string(), "UUID": pa.string(), "DATE": pa.date32()},
    }
    any_case = True
    key_as_text = "cast({name} as varchar)"
    mistakes: ClassVar = {
        "does not exist": "Check the names in the query.",
        "data-modifying statement": ONE_SELECT,
        "binder error": "Correct the query.",
        "parser error": ONE_SELECT,
        "read-only mode": f"A query cannot write. {ONE_SELECT}",
        "conversion error": "Convert the column in the query, such as try_cast(age as double) as age.",
        "permission denied": "Ask for permission to write to the file and its folder.",
    }
    failures: ClassVar = {
        "could not set lock": "Another program has the file open. Close it there.",
        "out of memory": "DuckDB may use 1 GB here. Write the result of the query to a table, and query that.",
        "no space left": "Make room on the disk, and run the same command again.",
    }

    def __init__(self, place: str, *, read_only: bool, shared: bool) -> None:
        driver = _driver("duckdb", "a DuckDB file", "duckdb")
        super().__init__(place, driver)
        with self._clear():
            self._connection = driver.connect(place, read_only=read_only and not shared)
        self.execute("set enable_progress_bar = false")  # it would be printed among the results
        self.execute("set memory_limit = '1GB'")  # beyond it, sorts and joins use the disk
        self._begin = "begin transaction read only" if read_only else "begin"
        self.execute(self._begin)

    def execute(self, sql: str) -> None:
        with self._clear():
            self._connection.execute(sql)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        with self._clear():
            return list(self._connection.execute(sql).fetchall())

    def columns(self, query: str) -> list[tuple[str, str]]:
        sql = f"describe select * from ({query}\n)"
        with self._clear():
            statements = self._connection.extract_statements(sql)
        if len(statements) > 1:  # DuckDB would run them all, and one of them could end the read-only transaction
            raise DataError(f"{self.place}: the query has several statements. {ONE_SELECT}")
        return [(name, kind) for name, kind, *_ in self.fetch(sql)]

    def readable(self, name: str, kind: str) -> str:
        floats, texts = ("DECIMAL", "HUGEINT", "UHUGEINT", "BIGNUM"), ("UUID", "JSON", "BIT")
        to = "double" if kind.startswith(floats) else "varchar" if kind.startswith(texts) else None
        return quoted(name) if to is None else f"cast({quoted(name)} as {to}) as {quoted(name)}"

    def has_table(self, table: tuple[str, ...]) -> bool:
        schema = literal(table[0]) if len(table) > 1 else "current_schema()"
        return bool(
            self.fetch(
                "select count(*) from information_schema.tables where table_catalog = current_database() and "
                f"lower(table_schema) = lower({schema}) and lower(table_name) = lower({literal(table[-1])})"
            )[0][0]
        )

    def stream(self, query: str, rows: int) -> Iterator[Any]:
        with self._clear():
            self._reading = self._connection.sql(query).to_arrow_reader(rows)
            yield from tables_of(iter(self._reading), rows)

    def append(self, table: tuple[str, ...], rows: Any) -> None:
        names = ", ".join(map(quoted, rows.column_names))
        with self._clear():
            self._connection.register("deepsep_batch", rows)
            place = ".".join(map(quoted, table))
            self._connection.execute(f"insert into {place} ({names}) select {names} from deepsep_batch")
            self._connection.unregister("deepsep_batch")

    def commit(self) -> None:
        self.execute("commit")
        self.execute(self._begin)

    def rollback(self) -> None:
        self.execute("rollback")
        self.execute(self._begin)

    def close(self) -> None:
        with self._clear():
            if self._reading is not None:  # while it is open, this process cannot open the file again
                self._reading.close()
            self._connection.close()


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
