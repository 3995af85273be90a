"""Addresses of databases, of which those with a password are refused, and connections to them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from deepsep.apps.sql.drivers import Connection, DuckDB, PostgreSQL, SQLite
from deepsep.errors import DataError, Setting

System = Literal["postgresql", "sqlite", "duckdb"]

FILE_SYSTEMS = ("sqlite", "duckdb")
ADDRESS_EXAMPLES = "postgresql://user@host/database, or the path of an SQLite or DuckDB file"


@dataclass(frozen=True)
class Address:
    """The address of a database: its system and its place, without a password."""

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
        check_address(text)
        system, rest = _split(text)
        if system is None:
            return _file(Path(text))
        if system not in FILE_SYSTEMS:
            return cls("postgresql", f"postgresql://{rest}")
        found = _file(Path(unquote(rest.removeprefix("/"))))  # a third slash begins an absolute path
        if found.system != system:
            raise DataError(f"{found.place} is a database of {found.system}, not of {system}. Name its path alone.")
        return found


def open_reader(database: str, *, with_writer: bool = False) -> Connection:
    """Return a connection that can only read; ``with_writer``: this process also writes to the same database."""
    return _open(Address.of(database), read_only=True, shared=with_writer)


def open_writer(database: str) -> Connection:
    """Return a connection that can write."""
    return _open(Address.of(database), read_only=False, shared=True)


def _open(address: Address, *, read_only: bool, shared: bool) -> Connection:
    if address.system == "postgresql":
        return PostgreSQL(address.place, read_only=read_only)
    if address.system == "sqlite":
        return SQLite(address.place, read_only=read_only)
    return DuckDB(address.place, read_only=read_only, shared=shared)


def check_address(text: str, setting: str = "database") -> None:
    """Raise if an address contains a password, which must not be shown, or names a database of another system.

    ``setting`` is the name of the setting with the address.
    """
    password_advice = "set PGPASSWORD in the environment, or write the password to ~/.pgpass"
    system, rest = _split(text)
    if system is None:
        if os.path.exists(text):
            return
        keywords = r"(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*="
        if re.match(keywords, text.strip(), re.IGNORECASE):
            raise DataError(
                f"{{database}} does not take keywords such as host=. Name {ADDRESS_EXAMPLES}; for a password, "
                f"{password_advice}.",
                database=Setting(setting),
            )
        has_password = re.search(r":[^@/\\]*@|password\s*=", unquote(text), re.IGNORECASE) is not None
    else:
        has_password = system not in FILE_SYSTEMS and _has_password(rest)
    if has_password:
        raise DataError(
            "the address in {database} contains a password, which other users of the machine can see in the list of "
            f"processes, and which stays in the history of the shell. Leave it out, and {password_advice}.",
            database=Setting(setting),
        )
    if system not in (None, "postgresql", "postgres", *FILE_SYSTEMS):
        raise DataError(
            f"{{database}}: deepsep does not read databases of {system!r}. Name {ADDRESS_EXAMPLES}; from other "
            "systems, export the rows as Parquet.",
            database=Setting(setting, text),
        )


def _split(text: str) -> tuple[str | None, str]:
    """Return the scheme of a URL, or None, and the rest."""
    scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.:-]+)://", text)
    return (None, text) if scheme is None else (scheme[1].lower(), text[scheme.end() :])


def _has_password(rest: str) -> bool:
    """Return whether a URL has a password, after the user or among the parameters; ``rest`` is without the scheme.

    libpq looks for the user up to the first slash. A password that contains a slash is found, too.
    """
    user, at, _ = rest.partition("@")
    if at and ":" in unquote(user) and ("/" not in user or "=" not in user.partition("?")[2]):
        return True
    names = (unquote(each.partition("=")[0]).strip().lower() for each in re.split("[?&;]", rest)[1:])
    return any(name in ("password", "sslpassword") for name in names)


def _file(path: Path) -> Address:
    """Return the database in a file, by its first bytes."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist, and is not created"
        raise DataError(f"the database {path} {what}. Name {ADDRESS_EXAMPLES}.")
    try:
        with open(path, "rb") as file:
            head = file.read(16)
    except OSError as error:
        raise DataError(f"the database {path} cannot be read: {error.strerror}. Check the permissions.") from error
    if head.startswith(b"SQLite format 3\x00"):
        return Address("sqlite", str(path))
    if head[8:12] == b"DUCK":
        return Address("duckdb", str(path))
    raise DataError(
        f"{path} is neither an SQLite nor a DuckDB database. A file of rows, such as CSV or Parquet, is named as TABLE."
    )
