"""Text files of rows: which encoding, which delimiter, which columns; all cells as text."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as pacsv

from deepsep.core.notices import warn
from deepsep.errors import DataError, Setting
from deepsep.table.locations import compression_of, open_bytes, readable

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
UNUSUAL = "^~:#\x01 "  # delimiters that are named in messages but never assumed
HEAD = 1 << 18  # bytes from which the delimiter is told
CHUNK = 1 << 20
BLOCK = 1 << 24  # bytes; no row may be longer
CONTROL = bytes(set(range(32)) - {9, 10, 11, 12, 13, 26, 27})
UNDEFINED = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])  # no characters of cp1252
NOT_ASCII = bytes(range(0x80, 0x100))
LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
BYTEWISE = ("utf-8", "utf-8-sig", "cp1252")  # encodings in which a quote is a byte of its own
WESTERN = 0.3  # largest part of letters beyond ASCII in a text of a Western language
BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class TextFormat:
    """How a text file is to be read."""

    path: Path
    encoding: str
    delimiter: str
    names: list[str]
    skip: int  # lines before the header: Excel's "sep=;"

    @classmethod
    def of(cls, path: Path, encoding: str | None = None, delimiter: str | None = None) -> Self:
        """Find encoding and delimiter where they are not given, and read the header."""
        encoding = _find_encoding(path) if encoding is None else _check_encoding(path, encoding)
        with open_bytes(path) as file:
            start = file.read(HEAD)
        text = codecs.getincrementaldecoder(encoding)("strict").decode(start)
        if len(start) == HEAD:
            text = text[: max(text.rfind("\n"), 0) or None]
        if not text.strip("\ufeff \r\n\t"):
            raise DataError(f"{path} is empty: it holds only blank lines. Write the table again.")
        skip = 0
        if told := re.match(r"\ufeff?sep=(.)\r?\n", text):
            skip, text = 1, text[told.end() :]
            delimiter = delimiter or told[1]
        delimiter = _find_delimiter(path, text, delimiter)
        header = next(row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row)
        return cls(path, encoding, delimiter, _check_header(path, header), skip)

    @property
    def options(self) -> dict[str, Any]:
        """How pyarrow reads such a file: every cell as text, the header as the first row."""
        encoding = "utf8" if self.encoding in ("utf-8", "utf-8-sig") else self.encoding
        return {
            "read_options": pacsv.ReadOptions(
                column_names=self.names, skip_rows=self.skip, encoding=encoding, block_size=BLOCK
            ),
            "convert_options": pacsv.ConvertOptions(column_types=dict.fromkeys(self.names, pa.string())),
        }

    def parse(self, bad: list[Any]) -> pacsv.ParseOptions:
        """Return options under which rows of another length than the header are collected."""

        def note(row: Any) -> str:
            bad.append(row.actual_columns)
            return "error" if len(bad) > 1000 else "skip"

        return pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=note)


def read_text(form: TextFormat, data: bytes) -> pa.Table:
    """Return all rows, every cell as text."""
    bad: list[int] = []
    try:
        table = pacsv.read_csv(pa.BufferReader(data), parse_options=form.parse(bad), **form.options)
    except (pa.ArrowException, UnicodeError) as error:
        raise (_ragged(form, bad) if bad else _unparsed(form, error)) from error
    if bad:
        raise _ragged(form, bad)
    table = _without_header(form, table)
    if form.encoding in BYTEWISE and data.count(b'"') % 2:
        last = next(iter(table.slice(len(table) - 1).to_pylist()))
        if open_cell := next((cell for cell in last.values() if cell and "\n" in cell), None):
            raise DataError(
                f"{form.path}: a double quote is never closed; everything behind it was read as one value, "
                f"{open_cell[:60]!r}. Close it, or double it if it belongs to the value."
            )
    return table


def stream_text(
    form: TextFormat, rows: int, columns: Sequence[str], progress: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Yield the rows in tables of so many, every cell as text; ``progress`` hears how many bytes have been read."""
    options = form.options
    options["convert_options"].include_columns = list(columns)
    bad: list[int] = []
    with open(form.path, "rb") as raw:
        compressed = compression_of(form.path) is not None
        with open_bytes(form.path) if compressed else nullcontext(raw) as file:
            try:
                reader = pacsv.open_csv(pa.PythonFile(file, mode="r"), parse_options=form.parse(bad), **options)
                pending: list[pa.Table] = []
                first = True
                for batch in reader:
                    table = pa.Table.from_batches([batch])
                    if first and len(table):
                        table, first = table.slice(1), False
                    if bad:
                        raise _ragged(form, bad)
                    progress(raw.tell() if not compressed else 0)
                    pending.append(table)
                    while sum(map(len, pending)) >= rows:
                        whole = pa.concat_tables(pending)
                        yield whole.slice(0, rows)
                        pending = [whole.slice(rows)]
            except (pa.ArrowException, UnicodeError) as error:
                raise (_ragged(form, bad) if bad else _unparsed(form, error)) from error
            if bad:
                raise _ragged(form, bad)
            if sum(map(len, pending)):
                yield pa.concat_tables(pending)


# -- encoding --------------------------------------------------------------------------------------------------


def _chunks(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _find_encoding(path: Path) -> str:
    """Return the encoding by its mark, as UTF-8 or else as cp1252; or raise."""
    with open_bytes(path) as file:
        head = file.read(4096)
    for mark, name in BOMS.items():
        if head.startswith(mark):
            return _check_encoding(path, name)
    if b"\0" in head:  # ASCII in UTF-16 has a zero in every other byte
        even, odd = head[::2].count(0) / len(head[::2]), head[1::2].count(0) / max(len(head[1::2]), 1)
        if max(even, odd) > 0.3 and min(even, odd) < 0.05:
            return _check_encoding(path, "utf-16-le" if odd > even else "utf-16-be")
        raise _binary(path)
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    done, wrong = 0, None
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
            if _strange(chunk):
                raise _binary(path)
            done += len(chunk)
        decoder.decode(b"", final=True)
        return "utf-8"
    except UnicodeDecodeError as error:
        wrong = (done + error.start, error.object[error.start])
    far, near, undefined = 0, 0, 0
    for chunk in _chunks(path):
        if _strange(chunk):
            raise _binary(path)
        far += len(chunk) - len(chunk.translate(None, NOT_ASCII))
        near += len(chunk) - len(chunk.translate(None, LETTERS))
        undefined += len(chunk) - len(chunk.translate(None, UNDEFINED))
    if undefined or far > WESTERN * (far + near):
        raise DataError(
            f"the encoding of {path} cannot be told: it is not UTF-8 (see byte {wrong[0]:,}, 0x{wrong[1]:02x}), nor "
            "does it look like cp1252 (Western Windows). Name it, for example {encoding} (Cyrillic), "
            "'shift_jis' (Japanese) or 'gb18030' (Chinese), or save the file as UTF-8.",
            encoding=Setting("encoding", "cp1251"),
        )
    warn(
        f"{path} is not UTF-8 (see byte {wrong[0]:,}, 0x{wrong[1]:02x}) and was read as cp1252 (Western Windows). If "
        "accented letters look wrong, name the encoding, for example {encoding}.",
        encoding=Setting("encoding", "cp1250"),
    )
    return "cp1252"


def _check_encoding(path: Path, name: str) -> str:
    """Return the encoding if the whole file can be read in it."""
    try:
        decoder = codecs.getincrementaldecoder(name)("strict")
    except LookupError:
        raise DataError(
            "{encoding} is unknown. Use a name that Python knows, such as 'utf-8'.", encoding=Setting("encoding", name)
        ) from None
    done = 0
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
            done += len(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not {name}: byte {done + error.start:,} (0x{error.object[error.start]:02x}) has no meaning in "
            "it. Leave out the encoding to have it found, or name the right one."
        ) from None
    return name


def _strange(chunk: bytes) -> bool:
    """Whether more than one byte in a hundred is one that no text has."""
    return len(chunk) - len(chunk.translate(None, CONTROL)) > len(chunk) / 100


def _binary(path: Path) -> DataError:
    return DataError(
        f"{path} is a binary file, and none that deepsep knows. It reads CSV, TSV, Parquet, Feather and Excel (.xlsx)."
    )


# -- delimiter and header --------------------------------------------------------------------------------------


def _find_delimiter(path: Path, text: str, given: str | None) -> str:
    """Return the delimiter under which the first rows have one length, more than one; or raise."""
    if given is not None and len(given) != 1:
        raise DataError(
            "{delimiter}: it is one character, such as ',' or ';'. Use '\\t' for a tab.",
            delimiter=Setting("delimiter", given),
        )
    widths = {mark: _width(text, mark) for mark in (*DELIMITERS, *UNUSUAL)}
    best = max(DELIMITERS, key=lambda mark: widths[mark])
    if given is not None:
        if _width(text, given)[1] < 2 and widths[best][1] > 1:
            raise DataError(
                f"with {{delimiter}}, {path} has one column, {text.splitlines()[0][:60]!r}. "
                f"With {best!r} ({DELIMITERS[best]}) it has {widths[best][1]}. Use that, or leave the delimiter out.",
                delimiter=Setting("delimiter", given),
            )
        return given
    if widths[best][1] > 1:
        return best
    other = max(UNUSUAL, key=lambda mark: widths[mark])
    if widths[other][1] > 1 and widths[other][0] > 0.9:
        raise DataError(
            f"{path} has one column, {text.splitlines()[0][:60]!r}: its values are not separated by comma, semicolon, "
            f"tab or bar. With {{delimiter}} it has {widths[other][1]} columns; set that if it is right.",
            delimiter=Setting("delimiter", other),
        )
    return ","  # a table of one column


def _width(text: str, delimiter: str) -> tuple[float, int]:
    """Return how even the first rows are (the share of the usual length, 0 for one column), and that length."""
    try:
        rows = islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 200)
        lengths = Counter(len(row) for row in rows if row)
    except csv.Error:
        return 0.0, 1
    if not lengths:
        return 0.0, 1
    # The header decides where it is as wide as most rows: one long note should not sway the choice.
    length, count = max(lengths.items(), key=lambda item: (item[1], item[0]))
    return (round(count / lengths.total(), 2), length) if length > 1 else (0.0, 1)


def _check_header(path: Path, header: list[str]) -> list[str]:
    names = [name.strip().lstrip("\ufeff") for name in header]
    names = [name or f"unnamed_{i}" for i, name in enumerate(names, start=1)]
    check_unique(path, names)
    return names


def check_unique(path: Path, names: Sequence[str]) -> None:
    """Raise if two columns have one name."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(names, start=1):
        places.setdefault(name, []).append(i)
    twice = [f"{name!r} (columns {', '.join(map(str, at))})" for name, at in places.items() if len(at) > 1]
    if twice:
        raise DataError(
            f"{path} has {len(twice)} column names more than once: {', '.join(twice[:5])}"
            f"{' ...' if len(twice) > 5 else ''}. Give every column its own name."
        )


# -- rows ------------------------------------------------------------------------------------------------------


def _without_header(form: TextFormat, table: pa.Table) -> pa.Table:
    if len(table) < 2:
        shown = ", ".join(form.names[:5]) + (" ..." if len(form.names) > 5 else "")
        raise DataError(f"{form.path} has a header ({shown}) and no rows.")
    return table.slice(1)


def _ragged(form: TextFormat, bad: list[int]) -> DataError:
    """Say which line is of another length than the header."""
    width, wrong, rows = len(form.names), [], 0
    with open_bytes(form.path) as file:
        text = io.TextIOWrapper(file, form.encoding, newline="")
        reader = csv.reader(text, delimiter=form.delimiter)
        line = 1
        for row in reader:
            rows += bool(row)
            if row and len(row) != width and line > form.skip:
                wrong.append((line, row))
            line = reader.line_num + 1
            if len(wrong) >= 1000:
                break
    if not wrong:
        return DataError(f"{form.path}: some rows have {bad[0]} values where the header has {width}. Check the quotes.")
    line, row = wrong[0]
    start = form.delimiter.join(row)[:60]
    many = f" ({len(wrong)}{' or more' if len(wrong) >= 1000 else ''} lines are like this)" if len(wrong) > 1 else ""
    if len(wrong) >= min(rows - 1, 1000) and all(len(row) == width + 1 for _, row in wrong):
        advice = "Every row has one value more than the header: name the first column too (are these row names?)."
    elif len(row) > width:
        advice = f"If a value contains {form.delimiter!r}, put it in double quotes; otherwise remove what is too much."
    else:
        advice = "Is it cut off, or a note below the table? Complete the line or remove it."
    found = f"{len(row)} values where the header has {width}"
    return DataError(f"{form.path}, line {line}: {found}{many}: {start!r}. {advice}")


def _unparsed(form: TextFormat, error: Exception) -> DataError:
    return DataError(
        f"{form.path} cannot be read as rows ({str(error).splitlines()[0][:200]}). A double quote that is "
        "never closed is the usual cause: look for it, or double it inside a value."
    )


def load_bytes(path: Path, most: float) -> bytes | None:
    """Return the whole file, decompressed; None if that is more than so many bytes."""
    parts, total = [], 0
    with readable(path):
        for chunk in _chunks(path):
            parts.append(chunk)
            total += len(chunk)
            if total > most:
                return None
    return b"".join(parts)
