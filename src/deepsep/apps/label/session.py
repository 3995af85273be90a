"""One person's labelling of a table: the next row, the answers, and the results so far."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from deepsep.apps.label.answer_file import Answer, Answers
from deepsep.apps.label.refit import Background, Job
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.scoring.to_label import MAX_CONSIDERED_ROWS
from deepsep.table.columns import UsefulColumns, key_text
from deepsep.table.join import is_label


class UndoStep(NamedTuple):
    """One step to undo: an answer, with the one the row had before, or a skipped row."""

    row: int
    drawn: str | None
    before: Answer | None = None
    skipped: bool = False


class Session:
    """The state behind the page. All methods may be called from several threads."""

    def __init__(
        self,
        X: pd.DataFrame,  # the rows, without identifiers and labels
        y: pd.Series[Any],  # the labels of the table, by row number; missing for other rows
        ids: pd.Series[Any],  # the identifiers, or the row numbers
        answers: Answers,  # the file of answers
        *,
        classes: Sequence[str] = (),  # classes to offer in addition to those that occur in the labels
        seed: int = 0,  # seed of the random rows and the refits
        refits: Background | None = None,  # runs the refits. Without it there are none, and rows come at random.
        labels_drawn: Any = None,  # the origin of each label of the table; see :meth:`deepsep.Committee.fit`
    ) -> None:
        self._lock = threading.RLock()
        self.X, self.answers, self.refits, self.seed = X, answers, refits, seed
        labels = y.astype(object)[is_label(y).to_numpy()]
        self._known = {int(row): str(key_text(label)) for row, label in labels.items()}
        self._known_drawn = [None] * len(X) if labels_drawn is None else list(labels_drawn)
        self._ids = _identifiers(ids)
        self._row = {id: row for row, id in enumerate(self._ids)}
        used = {*self._known.values(), *(answer.label for answer in answers.given.values() if answer.label)}
        self.classes = list(dict.fromkeys([*map(check_class, classes), *sorted(used)]))
        self._history = [
            UndoStep(self._row[id], answer.drawn) for id, answer in answers.given.items() if id in self._row
        ]
        self._random = np.random.default_rng(seed).permutation(len(X)).tolist()  # the end comes first
        self._queue: list[int] = []
        self._skipped: dict[int, None] = {}
        self._skipped_chosen: set[int] = set()  # rows that were chosen, not drawn, when they were skipped
        self._sent: list[int] = []
        self._fitted_with = self._ordered_with = 0
        self.order = first_order(X)
        self.curve: list[dict[str, float]] = []
        self._texts: list[str] | None = None
        self._current: tuple[int, str | None] | None = None
        self._advance()

    # -- shown on the page ---------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the card to answer, and the progress."""
        with self._lock:
            return {**self.progress(), "card": None if self._current is None else self._card(self._current[0])}

    def progress(self) -> dict[str, Any]:
        """Return the classes with their labels so far, and the estimated accuracy."""
        with self._lock:
            self._take_refit()
            counts = Counter(label for label in self._labels().values())
            unsure = sum(answer.label is None for id, answer in self.answers.given.items() if id in self._row)
            labeled = counts.total()
            return {
                "label": self.answers.label,
                "file": self.answers.path.name,
                "classes": [{"name": name, "count": counts[name]} for name in self.classes],
                "labelled": labeled,
                "unsure": unsure,
                "rows": len(self.X),
                "undo": bool(self._history),
                "curve": self.curve,
                "refitting": self.refits is not None and self.refits.running,
                "refit_error": "" if self.refits is None else self.refits.error,
                "labels_until_fit": self._labels_until_fit(),
            }

    def _card(self, row: int) -> dict[str, Any]:
        answer = self.answers.given.get(self._ids[row])
        return {
            "row": row,
            "id": self._ids[row],
            "id_name": self.answers.id,
            "cells": card(self.X, row, self.order),
            "answer": None if answer is None else answer.label or "not sure",
            "in_table": self._known.get(row),
        }

    def search(self, words: str) -> list[dict[str, Any]]:
        """Return the first rows whose identifier or cells contain all of the words, in any case."""
        parts = words.casefold().split()
        if not parts:
            return []
        if self._texts is None:  # takes seconds for a large table, and answers need not wait
            cells = [self._ids, *(map(cell_text, self.X[name]) for name in self.X.columns)]
            self._texts = ["  ".join(texts).casefold() for texts in zip(*cells, strict=True)]
        found = (row for row, text in enumerate(self._texts) if all(part in text for part in parts))
        rows = list(islice(found, 20))
        with self._lock:
            return [self._found(row, parts) for row in rows]

    def _found(self, row: int, parts: list[str]) -> dict[str, Any]:
        answer, hits = self.answers.given.get(self._ids[row]), []
        for cell in card(self.X, row, self.order):
            if any(part in cell["text"].casefold() for part in parts):
                at = min(cell["text"].casefold().find(part) for part in parts if part in cell["text"].casefold())
                hits.append(f"{cell['name']}: {'…' if at > 30 else ''}{cell['text'][max(0, at - 30) : at + 60]}")
        label = self._known.get(row) or (None if answer is None else answer.label or "not sure")
        return {"row": row, "id": self._ids[row], "answer": label, "where": "; ".join(hits)[:200]}

    # -- requests of the page -------------------------------------------------------------------------------------

    def answer(self, row: int, label: str | None) -> dict[str, Any]:
        """Save the class of a row, or None for "not sure", and move on to the next row."""
        with self._lock:
            self._check_row(row)
            if label is not None and label not in self.classes:
                raise ParameterError(f"there is no class {label!r}. Add it first.")
            if row in self._known:
                raise ParameterError(f"the table has the label {self._known[row]!r} for this row. Correct it there.")
            before = self.answers.given.get(self._ids[row])
            asked = self._asked(row)
            self.answers.give(self._ids[row], Answer(label, before.drawn if before else asked))
            self._history.append(UndoStep(row, asked, before))
            self._skipped.pop(row, None)
            self._advance()
            return self.state()

    def skip(self, row: int) -> dict[str, Any]:
        """Move on to the next row; this one comes again when no others are left."""
        with self._lock:
            self._check_row(row)
            asked = self._asked(row)
            self._history.append(UndoStep(row, asked, skipped=True))
            if self._is_free(row):
                self._skipped[row] = None
                if asked == "chosen":
                    self._skipped_chosen.add(row)
            self._advance()
            return self.state()

    def undo(self) -> dict[str, Any]:
        """Take the last answer back, or the last skip, and show its row again."""
        with self._lock:
            if not self._history:
                raise ParameterError("there is nothing to undo.")
            step = self._history[-1]
            if step.skipped:
                self._skipped.pop(step.row, None)
            else:
                self.answers.give(self._ids[step.row], step.before)
            self._history.pop()
            self._current = step.row, step.drawn
            return self.state()

    def show(self, row: int) -> dict[str, Any]:
        """Show a row that was searched for."""
        with self._lock:
            self._check_row(row)
            self._current = row, "chosen"
            return self.state()

    def add_class(self, name: str) -> dict[str, Any]:
        """Offer one more class."""
        with self._lock:
            name = check_class(name)
            if name in self.classes:
                raise ParameterError(f"there is a class {name!r} already.")
            if len(self.classes) >= 200:
                raise ParameterError("there are 200 classes already, the most that the page offers.")
            self.classes.append(name)
            return self.state()

    def _asked(self, row: int) -> str | None:
        """Return the origin of a row that is answered."""
        return self._current[1] if self._current is not None and self._current[0] == row else "chosen"

    def _check_row(self, row: int) -> None:
        if not 0 <= row < len(self.X):
            raise ParameterError(f"there is no row {row}.")

    # -- the next row --------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        self._take_refit()
        self._start_refit()
        self._current = self._next()

    def _next(self) -> tuple[int, str] | None:
        self._queue = [row for row in self._queue if self._is_free(row) and row not in self._skipped]
        if self._queue and len(self.answers.given) % 4:  # each fourth row is random, to measure the accuracy fairly
            return self._queue[0], "chosen"
        while self._random and not self._is_free(self._random[-1]):
            self._random.pop()
        row = next((row for row in reversed(self._random) if self._is_free(row) and row not in self._skipped), None)
        if row is None:
            row = next(iter(self._skipped), None)
            if row is not None:
                del self._skipped[row]
        if row is None:
            return None
        return row, "chosen" if row in self._skipped_chosen else "random"

    def _is_free(self, row: int) -> bool:
        return row not in self._known and self._ids[row] not in self.answers.given

    def _labels(self) -> dict[int, str]:
        """Return all labels, of the table and the answers, by row."""
        answers = self.answers.given.items()
        own = {self._row[id]: answer.label for id, answer in answers if answer.label is not None and id in self._row}
        return {**own, **self._known}

    # -- refits --------------------------------------------------------------------------------------------------

    def _labels_until_fit(self) -> int:
        """Return the number of labels until the next refit."""
        if not self._fitted_with:
            return max(0, 20 - len(self._labels()))
        return max(0, self._fitted_with + self._growth() - len(self._labels()))

    def _growth(self) -> int:
        """Return the number of labels between two refits."""
        return max(10, int(0.1 * self._fitted_with))

    def _start_refit(self) -> None:
        if self.refits is None or self.refits.running or self._labels_until_fit():
            return
        labels = self._labels()
        if sum(count > 1 for count in Counter(labels.values()).values()) < 2:
            return
        rows, free = np.fromiter(labels, int), np.array([self._is_free(row) for row in range(len(self.X))])
        pool = np.flatnonzero(free)
        if len(pool) > MAX_CONSIDERED_ROWS:
            pool = np.random.default_rng([self.seed, len(rows)]).choice(pool, MAX_CONSIDERED_ROWS, replace=False)
        sent = np.sort(np.concatenate([rows, pool]))
        job = Job(
            X=self.X.iloc[sent].reset_index(drop=True),
            labels=[labels.get(row) for row in sent.tolist()],
            labels_drawn=[self._drawn(row) for row in sent.tolist()],
            free=free[sent],
            n=2 * self._growth(),
            label=self.answers.label,
            seed=self.seed,
        )
        if self.refits.start(job):
            self._sent, self._fitted_with = sent.tolist(), len(labels)

    def _drawn(self, row: int) -> str | None:
        answer = self.answers.given.get(self._ids[row])
        return self._known_drawn[row] if answer is None or row in self._known else answer.drawn

    def _take_refit(self) -> None:
        result = None if self.refits is None else self.refits.take()
        if result is None:
            return
        self._queue = [self._sent[place] for place in result.rows]
        if result.accuracy is not None:
            value, low, high = result.accuracy
            self.curve.append({"labels": self._fitted_with, "value": value, "low": low, "high": high})
        if self._fitted_with >= 2 * self._ordered_with:  # rarely, so that cards keep their look
            self._ordered_with = self._fitted_with
            self.order = [*result.columns, *(name for name in self.order if name not in result.columns)]


def check_class(name: str, max_length: int = 100) -> str:
    """Return the name of a class without spaces around it, or raise if a file of labels cannot hold it."""
    name = name.strip()
    if not name or len(name) > max_length or not name.isprintable() or name == "-1":
        raise ParameterError(
            f"{name[:max_length]!r} cannot be the name of a class. Use 1 to {max_length} characters, all on one line, "
            "but not -1, which means unlabelled."
        )
    return name


def _identifiers(ids: pd.Series[Any]) -> list[str]:
    """Return identifiers as text, or raise if they do not tell the rows apart."""
    keys = [(key_text(value) or "").strip() or None for value in ids]
    texts = pd.Series(keys, dtype=object)
    for bad, what in ((texts.isna(), "is empty"), (texts.duplicated(), "repeats an identifier")):
        if bad.any():
            raise DataError(
                f"the id column {ids.name!r} {what} in {int(bad.sum())} rows, the first of them row "
                f"{int(bad.to_numpy().argmax()) + 1}. Answers need one identifier per row: name another column, or "
                "leave out {id} to use row numbers.",
                id=Setting("id"),
            )
    return [str(key) for key in keys]


def first_order(X: pd.DataFrame, max_rows: int = 1_000) -> list[str]:
    """Return the columns, those from which nothing can be learned last, judged by a sample of rows."""
    some = X if len(X) <= max_rows else X.sample(max_rows, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            useful = UsefulColumns().fit(some).schema_
        except DataError:  # no column is useful
            return list(X.columns)
    return [*useful, *(name for name in X.columns if name not in useful)]


def card(X: pd.DataFrame, row: int, order: Sequence[str]) -> list[dict[str, str]]:
    """Return the cells of a row as text, with the names of their columns, in the given order.

    Examples
    --------
    >>> card(pd.DataFrame({"age": [30.0], "plan": ["pro"], "left": [None]}), 0, ["plan", "age", "left"])
    [{'name': 'plan', 'text': 'pro'}, {'name': 'age', 'text': '30'}, {'name': 'left', 'text': ''}]
    """
    return [{"name": str(name), "text": cell_text(X[name].iloc[row])} for name in order]


def cell_text(value: Any) -> str:
    """Return a cell as text; a missing one as empty text.

    Examples
    --------
    >>> [cell_text(value) for value in (12.5, 1e7, 1234567.89, 1 / 3, True, pd.Timestamp("2025-03-31"), None)]
    ['12.5', '10000000', '1234567.89', '0.333333', 'yes', '2025-03-31', '']
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating) and abs(float(value)) < 1e15:
        number = float(value)
        return str(int(number)) if number.is_integer() else f"{number:.{max(6, len(str(int(abs(number)))) + 2)}g}"
    if isinstance(value, pd.Timestamp):
        return str(value.date()) if value == value.normalize() else str(value)
    return str(value)
