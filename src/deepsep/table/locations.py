"""Inspect a path: the kind of table that it holds, its compression and size, or why it cannot be read."""

from __future__ import annotations

import bz2
import difflib
import glob
import gzip
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from deepsep.errors import DataError, DeepSepError, Setting

Kind = Literal["text", "parquet", "feather", "excel", "spss"]

KIND_BY_SUFFIX = {
    **{".parquet": "parquet", ".feather": "feather", ".arrow": "feather", ".xlsx": "excel", ".xlsm": "excel"},
    **{".sav": "spss", ".zsav": "spss"},
}
# First bytes of each kind of file. The content decides, not the name.
KIND_BY_FIRST_BYTES: dict[bytes, Kind] = {
    **{b"PAR1": "parquet", b"ARROW1": "feather", b"PK\x03\x04": "excel"},
    **{b"$FL2": "spss", b"$FL3": "spss"},
}
FORMAT_NAMES: dict[Kind, str] = {
    **{"text": "a text file", "excel": "an Excel file", "spss": "an SPSS file"},
    **{"parquet": "a Parquet or Feather file", "feather": "a Parquet or Feather file"},
}
READABLE_FORMATS = "deepsep reads CSV, TSV, Parquet, Feather, Excel (.xlsx) and SPSS (.sav)"
COMPRESSION_BY_FIRST_BYTES = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
FOREIGN_BY_FIRST_BYTES = {
    b"\xd0\xcf\x11\xe0": "an old Excel file (.xls), or one with a password; save it as .xlsx without one, or as CSV",
    b"FEA1": "a Feather file of version 1; write it again with a current pyarrow, or as Parquet",
    b"%PDF": "a PDF",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"SQLite format 3": "an SQLite database; read it with a query to the database",
    b"\x80\x04": "a Python pickle, which is not opened since it could run code; write the table as Parquet",
    b"\x80\x05": "a Python pickle, which is not opened since it could run code; write the table as Parquet",
    b"<!DOCTYPE": "a web page; was the download refused?",
    b"<html": "a web page; was the download refused?",
}
# Bytes of memory needed while reading a table, per byte of its file (for text: per byte of uncompressed text).
MEMORY_GROWTH = {"text": 3.0, "feather": 4.0, "excel": 25.0, "spss": 25.0}
NAMELESS_PREFIX = "unnamed_"  # how the name of a column without one begins
LONGEST_NAME = 200  # characters of a name in a message


@dataclass(frozen=True)
class SeveralFiles:
    """Files whose rows are one table, in this order."""

    name: str  # what they are called in messages
    files: tuple[Path, ...]

    def __str__(self) -> str:
        return self.name


Place = Path | SeveralFiles
Named = str | os.PathLike[str] | SeveralFiles | Sequence[str | os.PathLike[str]]


def table_at(named: Named) -> Place:
    """Return the table that a path, a pattern such as ``parts/*.csv``, or several of them name.

    Files come in the order in which they are named; those of a pattern or of a folder are sorted by name. What a
    pattern names are several files, even where it matches one.
    """
    if isinstance(named, SeveralFiles):
        return named
    words = [named] if isinstance(named, str | os.PathLike) else list(named)
    found = [path for word in words for path in _matches(Path(word))]
    if not found:
        raise DataError("no file is named. Name at least one.")
    if len(found) == 1 and (found[0].is_dir() or found[0] in map(Path, words)):
        return found[0]
    for path in found:
        _check_exists(path)
    files = [file for path in found for file in (part_files(path) if path.is_dir() else [path])]
    known: set[Path] = set()
    for file in files:
        if file.resolve() in known:
            raise DataError(f"{file} is named twice. Name every file once.")
        known.add(file.resolve())
    name = str(words[0]) if len(words) == 1 else f"{files[0]} and {len(files) - 1} more files"
    return SeveralFiles(name, tuple(files))


def files_of(place: Place) -> list[Path]:
    """Return the files of a table, in the order of their rows."""
    if isinstance(place, SeveralFiles):
        return list(place.files)
    _check_exists(place)
    with readable(place):
        return part_files(place) if place.is_dir() else [place]


def is_several(place: Place) -> bool:
    """Whether a table is in several files, or in a folder of them, even if that has only one."""
    return isinstance(place, SeveralFiles) or place.is_dir()


@dataclass(frozen=True)
class FileType:
    """The kind of table that a file holds, and how it is compressed."""

    kind: Kind  # "text", "parquet", "feather", "excel" or "spss"
    compression: str | None = None  # of a text file: "gzip", "bz2", "xz", "zstd" or "zip"
    member: str | None = None  # the name of the only file in a zip archive


def file_types(files: Sequence[Path]) -> list[FileType]:
    """Return the types of the files of a table, or raise if they differ; Parquet and Feather go together."""
    types: list[FileType] = []
    for file in files:
        types.append(file_type(file))
        if FORMAT_NAMES[other := types[-1].kind] != FORMAT_NAMES[kind := types[0].kind]:
            raise DataError(
                f"{file} is {FORMAT_NAMES[other]}, and {files[0].name} is {FORMAT_NAMES[kind]}. All files of a table "
                "need the same format."
            )
    return types


def file_type(path: Path) -> FileType:
    """Return the type of a file, or raise an error that says what is there instead."""
    _check_exists(path)
    with readable(path), open(path, "rb") as file:
        head = file.read(16)
    if not head:
        raise DataError(f"{path} is empty (0 bytes). Write the table again.")
    for magic, what in FOREIGN_BY_FIRST_BYTES.items():
        if head.lower().startswith(magic.lower()):
            raise DataError(f"{path} is {what}. {READABLE_FORMATS}.")
    kind: Kind = next((kind for magic, kind in KIND_BY_FIRST_BYTES.items() if head.startswith(magic)), "text")
    compression = next((name for magic, name in COMPRESSION_BY_FIRST_BYTES.items() if head.startswith(magic)), None)
    member = _only_member(path) if kind == "excel" else None
    if member is not None:
        kind, compression = "text", "zip"
    named = KIND_BY_SUFFIX.get(path.suffix.lower(), kind)
    if named != kind and kind == "text":
        raise DataError(
            f"{path} is not a {named.title()} file, despite its name: it starts with {head[:8]!r}. Write it again, or "
            "rename it if it is a text file."
        )
    return FileType(kind, compression, member)


def part_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and its subfolders, sorted by name."""
    files = sorted(folder.rglob("*.parquet"))
    if shown := [file for file in files if not re.search(r"(^|/)[._]", file.relative_to(folder).as_posix())]:
        return shown
    if (folder / "manifest.json").exists():
        raise DataError(f"{folder} is a saved model, not a table. Name the file that holds the rows.")
    raise DataError(
        f"{folder} is a folder without Parquet files (it has {_names(folder)}). Name a file, a pattern such as "
        f"'{folder}/*.csv', or a folder of .parquet files."
    )


@contextmanager
def open_bytes(path: Path, type: FileType) -> Iterator[BinaryIO]:
    """Open a text file as bytes, decompressed."""
    with readable(path):
        if type.compression == "zip":
            with zipfile.ZipFile(path) as archive, archive.open(str(type.member)) as member:
                yield cast(BinaryIO, member)
        elif type.compression == "zstd":
            import pyarrow as pa

            with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
                yield stream
        else:
            opener: Any = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open, None: open}[type.compression]
            with opener(path, "rb") as file:
                yield file


@contextmanager
def readable(path: object) -> Iterator[None]:
    """Turn any error while a file is read into a DataError: a broken file is not a bug in deepsep."""
    try:
        yield
    except (DeepSepError, ImportError, MemoryError, Warning):
        raise
    except PermissionError as error:
        raise DataError(
            f"{path} cannot be read: permission denied. If another program such as Excel has it open, close it there; "
            "otherwise ask for permission to read it."
        ) from error
    except (EOFError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} is damaged: it cannot be decompressed ({error}). Copy it again.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{path} cannot be read: {reason}. Check the path and the disk.") from error
    except Exception as error:  # any other, of the libraries that read files
        if type(error).__module__ == "pyarrow.lib":  # not by its class: pyarrow takes long to import
            reason = str(error).splitlines()[0][:200]
            raise DataError(f"{path} is damaged or incomplete ({reason}). Write it again.") from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(
            f"{path} cannot be read: it is damaged or unusual ({reason}). Open it in the program that wrote it, and "
            "save it again, for example as CSV in UTF-8."
        ) from error


def check_memory(path: object, needed: float, limit: int | None) -> float:
    """Return how many bytes of memory reading may use, or raise if a table needs more."""
    allowed, why = _allowed(limit)
    if needed > allowed:
        raise DataError(
            f"{path} needs about {_size(needed)} of memory, but only {_size(allowed)} are allowed ({why}). Scoring "
            "handles files of any size, batch by batch. To fit, learn from fewer unlabelled rows, for example with "
            "{unlabeled} (read_sample in Python), leave out columns, or allow more with {max_bytes}.",
            unlabeled=Setting("unlabeled", 20_000),
            max_bytes=Setting("max_bytes"),
        )
    return allowed


def closest(wanted: object, known: Iterable[object]) -> str | None:
    """Return the most similar of the known names, or None if none is similar."""
    names = {str(name).lower(): str(name) for name in known if len(str(name)) <= LONGEST_NAME}
    close = difflib.get_close_matches(str(wanted).lower(), names, n=1, cutoff=0.6)
    return names[close[0]] if close else None


def find_column(names: Iterable[Any], wanted: str, role: str = "column", *, setting: str | None = None) -> str:
    """Return the name if it is among the columns, or raise an error that suggests the most similar one.

    Examples
    --------
    >>> find_column(["age", "segment"], "segmnt", "label column")
    Traceback (most recent call last):
    ...
    deepsep.errors.DataError: label column 'segmnt' not found; did you mean 'segment'?
    """
    known = list(names)
    if wanted in known:
        return wanted
    shown = ", ".join(repr(str(name)[:LONGEST_NAME]) for name in known[:12]) + (" ..." if len(known) > 12 else "")
    similar = closest(wanted, known)
    hint = f". The table has {shown}." if similar is None else f"; did you mean {similar!r}?"
    if sum(str(name).startswith(NAMELESS_PREFIX) for name in known) >= len(known) / 2:
        hint += " If there is a title above the names of the columns, skip it with {skip}."
    where, settings = ("", {}) if setting is None else ("{setting}: ", {"setting": Setting(setting)})
    raise DataError(f"{where}{role} {wanted!r} not found{hint}", skip=Setting("skip_rows", 1), **settings)


def _matches(path: Path) -> list[Path]:
    """Return the files that a pattern matches, sorted by name; the path itself if it is none."""
    if not glob.has_magic(str(path)) or os.path.lexists(path):
        return [path]
    if found := sorted(map(Path, glob.glob(str(path), recursive=True))):
        return found
    folder = next(parent for parent in path.parents if not glob.has_magic(str(parent)))
    if not folder.is_dir():
        raise DataError(f"no file matches {path}: the folder {folder} does not exist. Check the path.")
    raise DataError(f"no file matches {path}: the folder {folder} has {_names(folder)}. Check the pattern.")


def _names(folder: Path) -> str:
    """Return the first names in a folder, for messages."""
    names = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    return f"{', '.join(names[:5])}{' ...' if len(names) > 5 else ''}" if names else "no files"


def _check_exists(path: Path) -> None:
    if path.exists():
        return
    if not path.parent.is_dir():
        raise DataError(f"{path} does not exist, nor does the folder {path.parent}. Check the path.")
    similar = None
    with suppress(OSError):
        similar = closest(path.name, [item.name for item in path.parent.iterdir()])
    raise DataError(
        f"{path} does not exist{'. Check the path.' if similar is None else f'; did you mean {similar!r}?'}"
    )


def _only_member(path: Path) -> str | None:
    """Return the name of the only file in a zip archive; None for an Excel file, which is a zip archive too."""
    encrypted = 0x1  # a flag of a file in a zip archive
    known_methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with readable(path), zipfile.ZipFile(path) as archive:
        files = [file for file in archive.infolist() if not file.is_dir() and not file.filename.startswith("__MACOSX")]
    if any(file.filename == "xl/workbook.xml" for file in files):
        return None
    if len(files) != 1:
        raise DataError(f"{path} is a zip archive of {len(files)} files. Unpack it and name the table.")
    (file,) = files
    if file.flag_bits & encrypted:
        raise DataError(f"{path} is a zip archive with a password. Unpack it and name the table.")
    if file.compress_type not in known_methods:
        raise DataError(f"{path} is compressed in a way that deepsep cannot undo. Unpack it and name the table.")
    return file.filename


def _allowed(limit: int | None) -> tuple[float, str]:
    if limit is not None:
        return limit, "max_bytes"
    if text := os.environ.get("DEEPSEP_MAX_BYTES"):
        try:
            return float(text), "DEEPSEP_MAX_BYTES in the environment"
        except ValueError:
            raise DataError(
                f"DEEPSEP_MAX_BYTES={text!r} in the environment is not a number of bytes. Set it to a number such as "
                "8e9."
            ) from None
    return 0.6 * free_memory(), "60 % of the free memory"


def free_memory() -> float:
    """Return the free memory in bytes, or infinity if the system does not say."""
    free = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024.0 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):  # a container's own limit
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text() for name in ("max", "current"))
        free.append(float(limit) - float(used))  # the limit is "max" where there is none
    return min(free, default=float("inf"))


def _size(n: float) -> str:
    size, unit = next((pair for pair in ((1e3, "kB"), (1e6, "MB"), (1e9, "GB")) if n < 1000 * pair[0]), (1e12, "TB"))
    return f"{n / size:.1f} {unit}"
