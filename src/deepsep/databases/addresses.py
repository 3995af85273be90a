"""Which database an address names; addresses with a password are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from deepsep.errors import DataError, Setting

System = Literal["postgresql", "sqlite", "duckdb"]

SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+]+)://")
PASSWORD = re.compile(r":[^@]*@|[?&](ssl)?password=", re.IGNORECASE)
SQLITE, DUCKDB = b"SQLite format 3\x00", b"DUCK"  # at bytes 0 and 8 of a file
EXAMPLES = "postgresql://user@host/database, or the path of an SQLite or DuckDB file"


@dataclass(frozen=True)
class Address:
    """A database: its system, and where it is, without a password."""

    system: System
    place: str

    def __str__(self) -> str:
        return self.place

    @classmethod
    def of(cls, text: str) -> Address:
        """Return the database that a URL or a path names.

        Examples
        --------
        >>> Address.of("postgresql://anna@db.example.org/shop")
        Address(system='postgresql', place='postgresql://anna@db.example.org/shop')
        """
        scheme = SCHEME.match(text)
        if scheme is None:
            return _file(Path(text))
        rest = text[scheme.end() :]
        refuse_password(text)
        system = scheme[1].lower()
        if system in ("postgresql", "postgres"):
            return cls("postgresql", f"postgresql://{rest}")
        if system in ("sqlite", "duckdb"):
            found = _file(Path(unquote(rest.removeprefix("/"))))  # a third slash begins an absolute path
            if found.system != system:
                raise DataError(f"{found.place} is a database of {found.system}, not of {system}. Name its path alone.")
            return found
        raise DataError(
            f"{{database}}: deepsep reads no databases of {system!r}. Name {EXAMPLES}; from other systems, export the "
            "rows as Parquet.",
            database=Setting("database", text),
        )


def refuse_password(text: str) -> None:
    """Raise if an address contains a password, before anything shows it."""
    scheme = SCHEME.match(text)
    if scheme is not None and PASSWORD.search(text, scheme.end()):
        raise DataError(
            "the URL in {database} contains a password, which other users of the machine can see in the list of "
            "processes, and which stays in the history of the shell. Leave it out, and set PGPASSWORD in the "
            "environment, or write it to ~/.pgpass.",
            database=Setting("database"),
        )


def _file(path: Path) -> Address:
    """Return the database in a file, by its first bytes."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist, and none is made"
        raise DataError(f"the database {path} {what}. Name {EXAMPLES}.")
    try:
        with open(path, "rb") as file:
            head = file.read(16)
    except OSError as error:
        raise DataError(f"the database {path} cannot be read: {error.strerror}. Check the permissions.") from error
    if head.startswith(SQLITE):
        return Address("sqlite", str(path))
    if head[8:12] == DUCKDB:
        return Address("duckdb", str(path))
    raise DataError(
        f"{path} is neither an SQLite nor a DuckDB database. A file of rows, such as CSV or Parquet, is named as TABLE."
    )
