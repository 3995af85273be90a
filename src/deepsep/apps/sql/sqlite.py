"""Connections to files of SQLite, through its ADBC driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from deepsep.apps.sql.connections import LOCK_SECONDS, ONE_SELECT, AdbcConnection, literal, load_driver, quoted
from deepsep.errors import DataError
from deepsep.table.arrow_frames import checked


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
        driver = load_driver("adbc_driver_sqlite.dbapi", "SQLite", "adbc-driver-sqlite")
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
