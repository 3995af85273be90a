"""Connections to files of DuckDB, through its own package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from deepsep.apps.sql.connections import ONE_SELECT, Connection, literal, load_driver, quoted, tables_of
from deepsep.errors import DataError


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
        super().__init__(place)
        driver = load_driver("duckdb", "a DuckDB file", "duckdb")
        self._errors = driver.Error
        self._reading: Any = None  # a reader of rows; while it is open, this process cannot open the file again
        with self._clear():
            self._connection = driver.connect(place, read_only=read_only and not shared)
        self.execute("set enable_progress_bar = false")  # it would be printed among the results
        self.execute("set memory_limit = '1GB'")  # beyond it, sorts and joins use the disk
        self._begin = "begin transaction read only" if read_only else "begin"
        self.execute(self._begin)

    def _clear(self) -> Any:
        return self.clear_errors(self._errors)

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
            if self._reading is not None:
                self._reading.close()
            self._connection.close()
