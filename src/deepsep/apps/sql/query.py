"""The rows of a query to a database, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deepsep.apps.sql.database import check_address, open_reader
from deepsep.apps.sql.drivers import Connection, quoted
from deepsep.errors import DataError, Setting
from deepsep.table.locations import find_column
from deepsep.table.source import ExternalRows, OpenRows
from deepsep.table.text import check_unique


@dataclass(frozen=True)
class Query(ExternalRows):
    """Rows in a database.

    Parameters
    ----------
    database : str
        ``postgresql://user@host/database`` without a password, or the path of an SQLite or DuckDB file.
    sql : str
        The query: one ``select``.
    """

    database: str
    sql: str

    def __post_init__(self) -> None:
        check_address(self.database, "Query.database")

    def __str__(self) -> str:
        return f"a query to {self.database}"

    @property
    def place(self) -> str:
        """The database."""
        return self.database

    @contextmanager
    def open(self, id: str | None = None, *, unique: bool = False) -> Iterator[QueryTable]:
        """Connect to the database, and run the query when rows are asked for."""
        with open_reader(self.database) as connection:
            yield QueryTable(connection, self.sql, id=id, unique=unique)


class QueryTable(OpenRows):
    """The rows of a query, sorted by ``id``: its columns are read at once, its rows on request.

    Rows whose identifiers are in the table ``besides`` are left out; if they are to be ``unique``, repeated ones are an
    error.
    """

    def __init__(
        self,
        connection: Connection,
        sql: str,
        *,
        id: str | None = None,
        besides: str | None = None,
        unique: bool = False,
    ) -> None:
        self.connection = connection
        self.sql = sql.strip().rstrip(";").rstrip()
        if not self.sql:
            raise DataError("{query} is empty. Write one, such as: select * from customers", query=Setting("query"))
        self._kinds = dict(columns := connection.columns(self.sql))
        self.names = [name for name, _ in columns]
        check_unique("the query", self.names)
        source = f"from ({self.sql}\n) as deepsep_source"
        key = None if id is None else quoted(find_column(self.names, id, "id column"))
        if besides is not None:
            done = f"select 1 from {besides} as deepsep_done where deepsep_done.{key} = deepsep_source.{key}"
            source += f" where not exists ({done})"
        keys = f"count({'distinct ' if unique else ''}{key or '*'})"
        count, given, different = connection.fetch(f"select count(*), count({key or '*'}), {keys} {source}")[0]
        if given < count:
            raise DataError(
                f"{count - given:,} of {count:,} rows of the query have no {id!r}, by which they are sorted and known. "
                f"Leave them out: where {id} is not null."
            )
        if different < given:
            raise DataError(
                f"the key {id!r} is not unique: {count:,} rows have {different:,} keys. Name another column "
                "with {id}, or write the query so that it gives every key once.",
                id=Setting("id"),
            )
        self.n_rows = count
        self._source = source if key is None else f"{source} order by deepsep_source.{key}"

    def pieces(self, rows: int, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow tables of ``rows`` rows; the last may be shorter."""
        chosen = ", ".join(self.connection.readable(name, self._kinds[name]) for name in columns)
        return self.connection.stream(f"select {chosen} {self._source}", rows)

    def id_type(self, name: str) -> Any:
        """Return the Arrow type of a column of identifiers."""
        return self.connection.key_type(self.sql, name)[1]
