"""Text files: their encoding, delimiter and columns, and their rows, every cell as text."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv as pacsv

from deepsep.errors import DataError, Setting, warn
from deepsep.table.locations import NAMELESS_PREFIX, READABLE_FORMATS, FileType, open_bytes
from deepsep.table.reading_settings import Reading

BLOCK_BYTES = 1 << 24  # bytes; no row may be longer


@dataclass(frozen=True)
class TextFormat:
    """Encoding, delimiter and header of a text file."""

    path: Path
    type: FileType
    encoding: str
    delimiter: str
    names: list[str]
    skip: int  # lines before the header: Excel's "sep=;", or a title
    n_lines: int  # in all; line breaks within quotes count
    n_bytes: int  # decompressed
    has_odd_quotes: bool  # whether the number of double quotes is odd

    @classmethod
    def of(cls, path: Path, type: FileType, reading: Reading) -> Self:
        """Detect encoding and delimiter if they are not given, and read the header, in one pass over the file."""
        encoding, text, n_lines, n_bytes, n_quotes = _examine(path, type, reading.encoding)
        delimiter, skip_rows = reading.delimiter, reading.skip_rows
        if not text.strip("\ufeff \r\n\t"):
            raise DataError(f"{path} is empty: it has only blank lines. Write the table again.")
        skip = 0
        if excel_line := re.match(r"\ufeff?sep=(.)\r?\n", text):
            skip, text = 1, text[excel_line.end() :]
            delimiter = delimiter or excel_line[1]
        if skip_rows:
            lines = text.splitlines(keepends=True)
            if len(lines) <= skip_rows:
                raise DataError(f"{path} has no lines left after {{skip}}.", skip=Setting("skip_rows", skip_rows))
            skip, text = skip + skip_rows, "".join(lines[skip_rows:])
        delimiter = _find_delimiter(path, text, delimiter)
        header = next((row for row in _rows(text, delimiter) if row), None)
        if header is None:
            raise DataError(
                f"{path}: the first line holds a value of more than {csv.field_size_limit():,} characters, which is "
                "no name of a column. Does the file have line breaks, and a first line with names?"
            )
        return cls(path, type, encoding, delimiter, names_in(header), skip, n_lines, n_bytes, n_quotes % 2 == 1)

    def tables(self, rows: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield tables of ``rows`` rows (the last may be shorter), every cell as text."""
        bad: list[int] = []  # lengths of rows that differ from the header's

        def note(row: Any) -> str:
            bad.append(row.actual_columns)
            return "error" if len(bad) > 1000 else "skip"

        encoding = "utf8" if self.encoding in ("utf-8", "utf-8-sig") else self.encoding
        read = pacsv.ReadOptions(
            column_names=self.names, skip_rows=self.skip, encoding=encoding, block_size=BLOCK_BYTES
        )
        parse = pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=note)
        convert = pacsv.ConvertOptions(
            column_types=dict.fromkeys(self.names, pa.string()), include_columns=list(columns)
        )
        pending: list[pa.Table] = []
        last = None  # rows of the file
        with open_bytes(self.path, self.type) as file:
            try:
                for batch in pacsv.open_csv(pa.PythonFile(file, mode="r"), read, parse, convert):
                    if bad:
                        raise self._ragged(bad)
                    table = pa.Table.from_batches([batch])
                    if len(table):
                        table, last = table.slice(1 if last is None else 0), table  # the header is the first row
                    pending.append(table)
                    while sum(map(len, pending)) >= rows:
                        whole = pa.concat_tables(pending)
                        yield whole.slice(0, rows)
                        pending = [whole.slice(rows)]
            except (pa.ArrowException, UnicodeError) as error:
                if bad:
                    raise self._ragged(bad) from error
                raise DataError(
                    f"{self.path} cannot be read as rows ({str(error).splitlines()[0][:200]}). The usual cause is a "
                    "double quote that is never closed: close it, or double it inside a value."
                ) from error
        if bad:
            raise self._ragged(bad)
        if last is not None:
            self._check_quotes(last)
        if sum(map(len, pending)):
            yield pa.concat_tables(pending)

    def _check_quotes(self, table: pa.Table) -> None:
        """Raise if the last row seems to have all the lines below a quote that is never closed."""
        bytewise = ("utf-8", "utf-8-sig", "cp1252")  # encodings in which a quote is always the same single byte
        if not (self.has_odd_quotes and self.encoding in bytewise):
            return
        (row,) = table.slice(len(table) - 1).to_pylist()
        if open_cell := next((cell for cell in row.values() if cell and "\n" in cell), None):
            raise DataError(
                f"{self.path}: a double quote is never closed; everything after it was read as one value, "
                f"{open_cell[:60]!r}. Close it, or double it if it is part of the value."
            )

    def _ragged(self, bad: list[int]) -> DataError:
        """Return an error that names the first line whose length differs from the header's."""
        width, wrong, rows, most = len(self.names), [], 0, 1000
        with open_bytes(self.path, self.type) as file:
            reader = csv.reader(io.TextIOWrapper(file, self.encoding, newline=""), delimiter=self.delimiter)
            line = 1
            with suppress(csv.Error):  # a huge value: what is known of the lines before it must do
                for row in reader:
                    rows += bool(row)
                    if row and len(row) != width and line > self.skip:
                        wrong.append((line, row))
                    line = reader.line_num + 1
                    if len(wrong) >= most:
                        break
        if not wrong:
            return DataError(
                f"{self.path}: some rows have {bad[0]} values but the header has {width}. Check the quotes."
            )
        line, row = wrong[0]
        start = self.delimiter.join(row)[:60]
        many = f" ({len(wrong)}{' or more' if len(wrong) >= most else ''} lines are like this)" if wrong[1:] else ""
        nearly_all = len(wrong) >= min(rows - 1, most)
        if nearly_all and width > 1 and all(len(row) == width + 1 for _, row in wrong):
            advice = "Every row has one more value than the header: name the first column too (are these row names?)."
        elif nearly_all and all(len(row) > width for _, row in wrong):
            advice = "If there is a title above the names of the columns, skip it with {skip}."
        elif len(row) > width:
            quote = f"If a value contains {self.delimiter!r}, put it in double quotes"
            advice = f"{quote}; otherwise remove the extra values."
        else:
            advice = "Is the line cut off, or a note below the table? Complete it or remove it."
        return DataError(
            f"{self.path}, line {line}: {len(row)} values, but the header has {width}{many}: {start!r}. {advice}",
            skip=Setting("skip_rows", line - 1),
        )


# -- encoding --------------------------------------------------------------------------------------------------


def _chunks(path: Path, type: FileType) -> Iterator[bytes]:
    with open_bytes(path, type) as file:
        yield from iter(lambda: file.read(1 << 20), b"")


def _examine(path: Path, type: FileType, given: str | None) -> tuple[str, str, int, int, int]:
    """Return the encoding, the first lines, and the numbers of lines, bytes and double quotes, in one pass.

    The encoding is the given one, else that of a byte order mark, else UTF-8 or cp1252; an error if it does not fit.
    """
    head_bytes = 1 << 18  # bytes read to detect the delimiter
    chunks = _chunks(path, type)
    first = next(chunks, b"")
    name = _announced(path, first[:4096]) if given is None else given
    decoder = _decoder("utf-8" if name is None else name)
    head, done, n_lines, n_quotes = b"", 0, 0, 0
    try:
        for chunk in chain([first], chunks):
            decoder.decode(chunk)
            if name is None:
                _refuse_binary(path, chunk)
            if done < BLOCK_BYTES and not _has_line(head):  # the header may be very long
                head += chunk
            done += len(chunk)
            n_lines += chunk.count(b"\n")
            n_quotes += chunk.count(b'"')
        decoder.decode(b"", final=True)
    except UnicodeError as error:
        at = why = str(error)  # such as a missing byte order mark
        if isinstance(error, UnicodeDecodeError):
            at, byte = f"byte {done + error.start:,}", f"0x{error.object[error.start]:02x}"
            at, why = f"{at}, {byte}", f"{at} ({byte}) is not valid"
        if name is None:
            _check_western(path, type, at)
            return _examine(path, type, "cp1252")
        raise DataError(
            f"{path} is not {name}: {why}. Leave out the encoding to have it detected, or name the right one."
        ) from None
    head = head[:head_bytes] if _has_line(head[:head_bytes]) else head
    decoder.reset()
    text = decoder.decode(head)
    text = text if len(head) == done else text[: max(text.rfind("\n"), 0) or None]
    return name or "utf-8", text, n_lines, done, n_quotes


def _has_line(head: bytes) -> bool:
    return re.search(rb"[\r\n]", head.strip()) is not None


def _announced(path: Path, head: bytes) -> str | None:
    """Return the encoding of a byte order mark, or of ASCII in UTF-16, which has a zero in every other byte."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # before UTF-16, whose mark begins alike
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" not in head:
        return None
    even, odd = head[::2].count(0) / len(head[::2]), head[1::2].count(0) / max(len(head[1::2]), 1)
    if max(even, odd) > 0.3 and min(even, odd) < 0.05:
        return "utf-16-le" if odd > even else "utf-16-be"
    raise _binary(path)


def _check_western(path: Path, type: FileType, wrong: str) -> None:
    """Warn that a file is read as cp1252, or raise if it does not look like that; ``wrong``: why it is not UTF-8."""
    western = 0.3  # largest share of non-ASCII letters in a text of a Western language
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    groups = (bytes(range(0x80, 0x100)), letters, b"\x81\x8d\x8f\x90\x9d")  # the last: undefined in cp1252
    counts = [0, 0, 0]
    for chunk in _chunks(path, type):
        _refuse_binary(path, chunk)
        counts = [count + _count(chunk, group) for count, group in zip(counts, groups, strict=True)]
    far, near, undefined = counts
    if undefined or far > western * (far + near):
        raise DataError(
            f"cannot detect the encoding of {path}: it is not UTF-8 (see {wrong}) and does "
            "not look like cp1252 (Western Windows). Name it, for example {encoding} (Cyrillic), "
            "'shift_jis' (Japanese) or 'gb18030' (Chinese), or save the file as UTF-8.",
            encoding=Setting("encoding", "cp1251"),
        )
    warn(
        f"{path} is not UTF-8 (see {wrong}) and was read as cp1252 (Western Windows). If "
        "accented letters look wrong, name the encoding, for example {encoding}.",
        encoding=Setting("encoding", "cp1250"),
    )


def _decoder(name: str) -> codecs.IncrementalDecoder:
    """Return a strict decoder, or raise if there is no such encoding of text."""
    not_for_files = ("idna", "punycode", "undefined")  # encodings of names on the internet, or of nothing
    with suppress(LookupError, ValueError, AssertionError):
        b"a".decode(name, "ignore")  # raises if it is not an encoding of text, such as "hex"
        if codecs.lookup(name).name not in not_for_files:
            return codecs.getincrementaldecoder(name)("strict")
    raise DataError(
        "{encoding} is unknown, or is not an encoding of text. Use a name that Python knows, such as 'utf-8' or "
        "'cp1252', or leave it out to have it detected.",
        encoding=Setting("encoding", name),
    )


def _count(chunk: bytes, characters: bytes) -> int:
    return len(chunk) - len(chunk.translate(None, characters))


def _refuse_binary(path: Path, chunk: bytes) -> None:
    """Raise if more than one byte in a hundred is a control character that text does not have."""
    if _count(chunk, bytes(set(range(32)) - {9, 10, 11, 12, 13, 26, 27})) > len(chunk) / 100:
        raise _binary(path)


def _binary(path: Path) -> DataError:
    return DataError(f"{path} is a binary file of an unknown kind. {READABLE_FORMATS}.")


# -- delimiter and header --------------------------------------------------------------------------------------


def _find_delimiter(path: Path, text: str, given: str | None) -> str:
    """Return the delimiter that splits the first rows most evenly into several columns, or raise."""
    known = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
    no_delimiter = '"\r\n\0'
    unusual = "^~:#\x01 "  # delimiters suggested in messages but never assumed
    if given is not None and (len(given) != 1 or not given.isascii() or given in no_delimiter):
        raise DataError(
            "{delimiter}: pass one character of ASCII, such as ',' or ';', or '\\t' for a tab. If the file has another "
            "one, replace it in the file.",
            delimiter=Setting("delimiter", given),
        )
    widths = {mark: _width(text, mark) for mark in (*known, *unusual)}
    best = max(known, key=lambda mark: widths[mark])
    if given is not None:
        if _width(text, given)[1] < 2 and widths[best][1] > 1:
            raise DataError(
                f"with {{delimiter}}, {path} has one column, {text.splitlines()[0][:60]!r}. "
                f"With {best!r} ({known[best]}) it has {widths[best][1]}. Use that, or leave the delimiter "
                "out.",
                delimiter=Setting("delimiter", given),
            )
        return given
    if widths[best][1] > 1:
        return best
    other = max(unusual, key=lambda mark: widths[mark])
    if widths[other][1] > 1 and widths[other][0] > 0.9:
        raise DataError(
            f"{path} has one column, {text.splitlines()[0][:60]!r}: its values are not separated by commas, "
            f"semicolons, tabs or bars. With {{delimiter}} it has {widths[other][1]} columns; set that if it is right.",
            delimiter=Setting("delimiter", other),
        )
    return ","  # a table of one column


def _width(text: str, delimiter: str) -> tuple[float, int]:
    """Return the share of the first rows that have the usual length (0 for a single column), and that length."""
    lengths = Counter(len(row) for row in islice(_rows(text, delimiter), 200) if row)
    if not lengths:
        return 0.0, 1
    # Take the most frequent length: a single long line should not sway the choice.
    length, count = max(lengths.items(), key=lambda item: (item[1], item[0]))
    return (round(count / lengths.total(), 2), length) if length > 1 else (0.0, 1)


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the rows of a text up to the first that Python's reader cannot take, such as one with a huge value."""
    with suppress(csv.Error):
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def names_in(header: Iterable[Any]) -> list[str]:
    """Return the names of the columns in a header; those without one are numbered."""
    names = ["" if cell is None else str(cell).strip().lstrip("\ufeff") for cell in header]
    return [name or f"{NAMELESS_PREFIX}{i}" for i, name in enumerate(names, start=1)]


def check_unique(path: object, names: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(names, start=1):
        places.setdefault(name, []).append(i)
    twice = [f"{name!r} (columns {', '.join(map(str, at))})" for name, at in places.items() if len(at) > 1]
    if twice:
        raise DataError(
            f"{path} repeats {len(twice)} column names: {', '.join(twice[:5])}"
            f"{' ...' if len(twice) > 5 else ''}. Give every column its own name."
        )
