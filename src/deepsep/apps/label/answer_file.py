"""The answers of a person, in a file that is complete after each of them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from deepsep.errors import DataError, Setting
from deepsep.files.atomic import remove_leftovers, replace_file
from deepsep.table.batches import open_files
from deepsep.table.columns import key_text
from deepsep.table.join import DRAWN_COLUMN, read_drawn
from deepsep.table.locations import find_column
from deepsep.table.reading import read_table

ANSWER_COLUMN = "answer"  # its values: "label" or "not sure"


class Answer(NamedTuple):
    """Answer of a person about a row."""

    label: str | None  # the class; None for "not sure"
    drawn: str | None  # "random", "chosen" by the model or a search, "quota" in a file from elsewhere; None: not known


class Answers:
    """Answers by identifier, in the order in which they were given.

    The file is a CSV that ``deepsep fit --labels`` takes: the identifier, the label (empty for "not sure"), the kind of
    answer, and how the row was drawn. It is replaced as a whole after every answer, and is on the disk before the
    answer counts as given. Lines of an earlier file stay, even if the table does not have their identifier.
    """

    def __init__(self, path: Path, id: str, label: str) -> None:
        for name in (ANSWER_COLUMN, DRAWN_COLUMN):
            if name in (id, label):
                raise DataError(f"the column {name!r} of {path} would have two meanings. Rename that of the table.")
        self.path, self.id, self.label = path.resolve(), id, label
        if self.path.suffix.lower() != ".csv":
            raise DataError(f"the output {path} must end in .csv.")
        remove_leftovers(self.path)
        self.given: dict[str, Answer] = self._read() if self.path.exists() else {}
        self._stamp = self._stamped()

    def give(self, id: str, answer: Answer | None) -> None:
        """Write an answer to the file, or remove that of a row; if this fails, nothing has changed."""
        given = {key: value for key, value in self.given.items() if key != id}
        if answer is not None:
            given[id] = answer
        if self._stamped() != self._stamp:
            raise DataError(
                f"{self.path} was changed by another program, so this answer was not saved. Start deepsep label again: "
                "it will read the changed file."
            )
        replace_file(self.path, self._as_text(given).encode("utf-8-sig"))
        self.given, self._stamp = given, self._stamped()

    def _as_text(self, given: dict[str, Answer]) -> str:
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow([self.id, self.label, ANSWER_COLUMN, DRAWN_COLUMN])
        for id, (label, drawn) in given.items():
            lines.writerow([id, label, "not sure" if label is None else "label", drawn])
        return text.getvalue()

    def _read(self) -> dict[str, Answer]:
        table = open_files(self.path)
        names = table.names
        for name, role in ((self.id, "id column"), (self.label, "label column")):
            find_column(names, name, f"{self.path}: {role}")
        others = [name for name in names if name not in (self.id, self.label, ANSWER_COLUMN, DRAWN_COLUMN)]
        if others:
            raise DataError(
                f"{self.path} is another file: it has {', '.join(map(repr, others[:5]))}. Name another output, and "
                "pass this file as {labels} if its labels should count.",
                labels=Setting("labels"),
            )
        if not self.path.read_bytes().strip().count(b"\n"):  # all answers were taken back
            return {}
        texts: Any = dict.fromkeys({ANSWER_COLUMN, DRAWN_COLUMN} & {*names}, "text")
        frame = read_table(table, label=self.label, id=self.id, types=texts)
        return _answers(frame, self.id, self.label, self.path)

    def _stamped(self) -> tuple[int, int, int] | None:
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino


def _answers(frame: pd.DataFrame, id: str, label: str, path: Path) -> dict[str, Answer]:
    """Return the answers in a table, or raise if a row has two."""
    drawn = read_drawn(frame, np.ones(len(frame), bool), str(path))
    nothing: Any = [None] * len(frame)
    result: dict[str, Answer] = {}
    kinds, words = frame.get(ANSWER_COLUMN, nothing), nothing if drawn is None else drawn
    for raw, cell, kind, word in zip(frame[id], frame[label], kinds, words, strict=True):
        key, name = key_text(raw) or None, key_text(cell)
        if name is None and kind != "not sure":
            continue
        if key is None:
            raise DataError(f"{path}: a label has no {id!r}. Fill it in, or name another output.")
        answer = Answer(name, word)
        if result.get(key, answer).label != name:
            raise DataError(f"{path} has two answers for {id} {key!r}. Keep one line for each identifier.")
        result[key] = answer
    return result
