"""The files of a table, opened once and passed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepsep.errors import DataError
from deepsep.table.batches import TableFile
from deepsep.table.external import ExternalRows
from deepsep.table.locations import Kind, Named, Place, check_same_columns, file_types, files_of, table_at
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.text import check_delimiters


@dataclass(frozen=True)
class OpenFiles:
    """The files of one table, whose encoding, delimiter and columns are known."""

    place: Place  # what they are called in messages
    tables: Sequence[TableFile]  # the files, in the order of their rows

    def __str__(self) -> str:
        return str(self.place)

    @property
    def kind(self) -> Kind:
        """The format of the first file."""
        return self.tables[0].kind

    @property
    def names(self) -> list[str]:
        """The columns."""
        return self.tables[0].names

    @property
    def in_parts(self) -> bool:
        """Whether they can be read batch by batch: Excel and SPSS files cannot."""
        return self.kind not in ("excel", "spss")


Opened = OpenFiles | ExternalRows


def open_table(named: Named | Opened, reading: Reading = AS_DETECTED, max_bytes: int | None = None) -> Opened:
    """Open the files of a table; external rows are returned as they are, since each use opens them again."""
    return named if isinstance(named, ExternalRows) else open_files(named, reading, max_bytes)


def open_files(named: Named | OpenFiles, reading: Reading = AS_DETECTED, max_bytes: int | None = None) -> OpenFiles:
    """Open the files of one table, or raise unless they have the same format and columns.

    Files that are open already are returned as they are.
    """
    if isinstance(named, OpenFiles):
        return named
    place = table_at(named)
    files = files_of(place)
    types = file_types(files)
    if types[0].kind == "spss" and len(files) > 1:
        raise DataError(f"{place}: SPSS files are read one by one. Write them to one file, or as Parquet.")
    tables = [TableFile(file, reading, type=type, max_bytes=max_bytes) for file, type in zip(files, types, strict=True)]
    check_same_columns(files, [table.names for table in tables])
    check_delimiters([table.form for table in tables if table.form is not None])
    return OpenFiles(place, tables)
