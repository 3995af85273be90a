"""Connections to PostgreSQL, through its ADBC driver: rows are read and written by ``COPY``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from deepsep.apps.sql.connections import (
    LOCK_SECONDS,
    ONE_SELECT,
    AdbcConnection,
    literal,
    load_driver,
    quoted,
    tables_of,
)


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
        driver = load_driver("adbc_driver_postgresql.dbapi", "PostgreSQL", "adbc-driver-postgresql")
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
        with self.reading(query) as cursor, cursor.fetch_record_batch() as reader:
            yield from tables_of(iter(reader), rows)

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
