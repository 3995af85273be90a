"""Which database an address names; addresses with a password are refused."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from deepsep.errors import DataError, Setting

System = Literal["postgresql", "sqlite", "duckdb"]

SCHEME = re.compile(r"^\s*([A-Za-z][A-Za-z0-9+.:-]+)://")
FILES = ("sqlite", "duckdb")
KEYWORDS = re.compile(r"(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*=", re.IGNORECASE)
SECRET = re.compile(r":[^@/\\]*@|password\s*=", re.IGNORECASE)  # in what is neither a URL nor a file
SQLITE, DUCKDB = b"SQLite format 3\x00", b"DUCK"  # at bytes 0 and 8 of a file
EXAMPLES = "postgresql://user@host/database, or the path of an SQLite or DuckDB file"
OUTSIDE = "set PGPASSWORD in the environment, or write the password to ~/.pgpass"


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
        check_address(text)
        system, rest = _split(text)
        if system is None:
            return _file(Path(text))
        if system not in FILES:
            return cls("postgresql", f"postgresql://{rest}")
        found = _file(Path(unquote(rest.removeprefix("/"))))  # a third slash begins an absolute path
        if found.system != system:
            raise DataError(f"{found.place} is a database of {found.system}, not of {system}. Name its path alone.")
        return found


def check_address(text: str, setting: str = "database") -> None:
    """Raise if an address contains a password, before anything shows it, or names a database of another system.

    ``setting`` is the one that holds the address.
    """
    system, rest = _split(text)
    if system is None:
        if os.path.exists(text):
            return
        if KEYWORDS.match(text.strip()):
            raise DataError(
                f"{{database}} takes no keywords such as host=. Name {EXAMPLES}; for a password, {OUTSIDE}.",
                database=Setting(setting),
            )
        has_password = SECRET.search(unquote(text)) is not None
    else:
        has_password = system not in FILES and _has_password(rest)
    if has_password:
        raise DataError(
            "the address in {database} contains a password, which other users of the machine can see in the list of "
            f"processes, and which stays in the history of the shell. Leave it out, and {OUTSIDE}.",
            database=Setting(setting),
        )
    if system not in (None, "postgresql", "postgres", *FILES):
        raise DataError(
            f"{{database}}: deepsep reads no databases of {system!r}. Name {EXAMPLES}; from other systems, export the "
            "rows as Parquet.",
            database=Setting(setting, text),
        )


def _split(text: str) -> tuple[str | None, str]:
    """Return the scheme of a URL, or None, and the rest."""
    scheme = SCHEME.match(text)
    return (None, text) if scheme is None else (scheme[1].lower(), text[scheme.end() :])


def _has_password(rest: str) -> bool:
    """Whether a URL has a password, behind the user or among the parameters; ``rest`` is what follows the scheme.

    libpq looks for the user up to the first slash. A password that has one itself is found too.
    """
    user, at, _ = rest.partition("@")
    if at and ":" in unquote(user) and ("/" not in user or "=" not in user.partition("?")[2]):
        return True
    names = (unquote(each.partition("=")[0]).strip().lower() for each in re.split("[?&;]", rest)[1:])
    return any(name in ("password", "sslpassword") for name in names)


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
