"""Predict the label, the class probabilities and the confidence of every row of a DataFrame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from deepsep.core.arrays import Array
from deepsep.core.checks import with_fields
from deepsep.core.labels import codes_of
from deepsep.core.model_parts import is_pipeline
from deepsep.drift.counts import Counts
from deepsep.evaluation.frames import check_id_name, prediction_names
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision, Decisions, Tally
from deepsep.scoring.leaving_out import LeavingOut, values_in_training
from deepsep.scoring.who_scores import (
    BLOCK_ROWS,
    check_fast,
    choose,
    encoded,
    in_blocks,
    label_of,
    rows_of,
    schema_of,
)
from deepsep.table.arrow_frames import to_frame
from deepsep.table.columns import as_frame
from deepsep.table.compiled import CompiledEncoding, EncodedRows
from deepsep.table.locations import find_column


def score_frame(
    model: Any,
    frame: Any,
    *,
    id: str | None = None,
    first_row: int = 0,
    reasons: int | None = None,
    fast: bool = False,
    decision: Decision = MOST_PROBABLE_CLASS,
    **fields: Any,
) -> pd.DataFrame:
    """Return the label, the probability of each class and the confidence of every row.

    A row gets the same bits in any batch. (With a kernel the last digit may differ.)

    Parameters
    ----------
    model : fitted classifier
        For example from :func:`deepsep.for_table` or :func:`deepsep.load`.
    frame : DataFrame
        Rows of pandas, polars or Arrow.
    id : str, optional
        The column of identifiers, kept in the result. None: ``row``, the row number.
    first_row : int, default=0
        Number of the first row.
    reasons : int, optional
        Number of columns to add that contributed most to the row's label; see :func:`deepsep.scoring.reasons`.
    fast : bool, default=False
        Whether the student of a committee answers in its place; see docs/how-to/deployment/millions.md.
    decision : Decision, optional
        How labels follow from probabilities.
    **fields
        Fields of ``decision`` by name: ``sets``, ``per_class``, ``abstain`` and ``costs``.

    Returns
    -------
    pandas.DataFrame
        Columns ``<id>`` (or ``row``); the predicted label, under the name of the column of labels or ``label``;
        ``probability_<class>`` for each class; ``confidence``, the largest of them; and, if asked for, ``set``, such
        as "gold|blue", and ``reason_1``, such as "age = 61", with ``reason_1_odds``, and so on.

    Examples
    --------
    >>> from deepsep import TSVM, for_table
    >>> table = pd.DataFrame({"user": [7, 8, 9, 10], "age": [25, 31, 64, 70], "plan": ["free", "free", "pro", "pro"]})
    >>> model = for_table(TSVM()).fit(table.drop(columns="user"), ["young", None, None, "old"])
    >>> score_frame(model, table, id="user").round(2)
       user  label  probability_old  probability_young  confidence
    0     7  young             0.25               0.75        0.75
    1     8  young             0.35               0.65        0.65
    2     9    old             0.65               0.35        0.65
    3    10    old             0.75               0.25        0.75
    """
    (decision,) = with_fields("score_frame", fields, decision)
    decisions = Decisions.of(model, decision)
    check_fast(fast, decision.sets)
    scorer = choose(model, 0, fast)
    leaving_out = None if reasons is None else LeavingOut(scorer, reasons, values_in_training(model))
    return RowScorer(scorer, decisions, id=id, leaving_out=leaving_out)(frame, first_row).frame


@dataclass(frozen=True)
class Scored:
    """A batch of rows with their predictions."""

    frame: pd.DataFrame  # the predictions
    tally: Tally
    columns: Any  # as the model uses them; None if it does not choose columns
    codes: Array
    confidence: Array | None

    def count(self, counts: Counts, first_row: int) -> None:
        """Add the rows and the answers to the counts that are compared with the training table."""
        if self.columns is not None:
            counts.add_columns(self.columns, first_row, len(self.frame))
        if len(self.codes):
            counts.add_answers(self.codes, self.confidence)


class RowScorer:
    """Scores batches of rows with a model, in any number of threads; all engines use it.

    If it is ``compiled``, Arrow tables are encoded column by column where the model allows it, which is faster.
    """

    def __init__(
        self,
        model: Any,
        decisions: Decisions,
        *,
        id: str | None = None,
        leaving_out: LeavingOut | None = None,
        compiled: bool = False,
    ) -> None:
        self.model, self.decisions, self.id, self.leaving_out = model, decisions, id, leaving_out
        self._reasons = leaving_out.column_names if leaving_out else []
        self._label = _label_name(model, leaving_out)
        self._names = prediction_names(decisions.classes, self._label, sets=decisions.sets is not None)
        check_id_name(id, [*self._names, *self._reasons])
        self._has_p, self._predicting = hasattr(model, "predict_proba"), Lock()
        known = self._compiled = CompiledEncoding.of(model) if compiled and leaving_out is None else None
        self.dictionaries = [] if known is None else known.dictionaries  # columns to read dictionary-encoded
        self._in_parts = None  # the estimator's way to predict rows in two parts, if it has one
        if known is not None and known.groups and known.is_bounded and hasattr(model[-1], "in_parts"):
            self._in_parts = model[-1].in_parts(known.plain, known.groups)

    def __call__(self, batch: Any, first_row: int = 0) -> Scored:
        """Score rows of pandas, polars or Arrow, of which the first has this number."""
        n, classes, columns = len(batch), self.decisions.classes, None
        if self._compiled is not None and isinstance(batch, pa.Table) and n:
            keys = None if self.id is None else to_frame(batch.select([self.id]), self.id)[self.id].array
            rows = self._compiled.read(batch)
            columns, answers = rows.columns, self._answers_in_parts(self._compiled, rows)
        else:
            rows, keys = self._without_keys(batch)
            if n:
                estimator, used, matrix = encoded(self.model, rows)
                columns = used if is_pipeline(self.model) else None
                answers = in_blocks(self._predictor(estimator), lambda index: rows_of(matrix, index), n)
            else:
                answers = np.empty((0, len(classes))) if self._has_p else classes[:0]
        out = {"row": np.arange(first_row, first_row + n)} if self.id is None else {self.id: keys}
        if not self._has_p:
            frame, tally = pd.DataFrame(out | {self._names[0]: answers}), Tally(Counter(answers.tolist()))
            return Scored(frame, tally, columns, codes_of(classes, answers), None)
        predictions, tally = self.decisions.columns(answers, self._label)
        if not n:
            frame = pd.DataFrame(out | predictions | {name: [] for name in self._reasons})
            return Scored(frame, tally, columns, np.empty(0, int), np.empty(0))
        if self.leaving_out is not None:
            called, kept = self.decisions(answers)
            label = np.where(kept, called, -1)
            predictions |= self.leaving_out(estimator, as_frame(used), matrix, answers, label)
        frame = pd.DataFrame(out | predictions)
        return Scored(frame, tally, columns, answers.argmax(axis=1), answers.max(axis=1))

    def _without_keys(self, batch: Any) -> tuple[Any, Any]:
        """Return rows as the model takes them, and their identifiers."""
        if isinstance(batch, pa.Table):
            rows = to_frame(batch, self.id)
        else:
            rows = batch if isinstance(batch, np.ndarray) and self.id is None else as_frame(batch)
        if self.id is None:
            return rows, None
        keys = rows[find_column(rows.columns, self.id, "id column")].array
        return rows if self.id in schema_of(self.model) else rows.drop(columns=self.id), keys

    def _predictor(self, estimator: Any, *, bounded: bool = False) -> Callable[[Any], Array]:
        """Return the function that predicts; only some estimators may be called by several threads at a time."""
        predict: Callable[[Any], Array] = estimator.predict_proba if self._has_p else estimator.predict
        if bounded and self._has_p:
            predict = getattr(estimator, "predict_bounded", predict)
        if getattr(estimator, "predicts_in_threads", False):
            return predict

        def in_turn(matrix: Any) -> Array:
            with self._predicting:
                return predict(matrix)

        return in_turn

    def _answers_in_parts(self, compiled: CompiledEncoding, rows: EncodedRows) -> Array:
        """Return the answers about encoded rows, block by block, of rows in two parts where that can be."""
        answers, predict = [], self._predictor(self.model[-1], bounded=compiled.is_bounded)
        for start in range(0, len(rows), BLOCK_ROWS):
            p = None if self._in_parts is None else self._in_parts(*compiled.split(rows, start, start + BLOCK_ROWS))
            if p is None:
                block = compiled.matrix(rows, start, start + BLOCK_ROWS)
                padding = np.repeat(block[:1], BLOCK_ROWS - len(block), axis=0)
                p = predict(np.concatenate([block, padding]) if len(padding) else block)[: len(block)]
            answers.append(p)
        return np.concatenate(answers)


def label_type(model: Any, decisions: Decisions, leaving_out: LeavingOut | None = None) -> dict[str, Any]:
    """Return the Arrow types of the columns of labels and of reasons, which rows without a label do not determine."""
    label = _label_name(model, leaving_out)
    name = prediction_names(decisions.classes, label, sets=decisions.sets is not None)[0]
    reasons = leaving_out.column_names if leaving_out else []
    types = {reason: pa.float64() if reason.endswith("odds") else pa.string() for reason in reasons}
    return {name: pa.array(decisions.classes.tolist()).type, **types}


def _label_name(model: Any, leaving_out: LeavingOut | None) -> str | None:
    """Return the name of the column of labels, unless a column of reasons has it."""
    name = label_of(model)
    return None if leaving_out is not None and name in leaving_out.column_names else name
