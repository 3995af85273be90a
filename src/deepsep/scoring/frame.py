"""Predict the label, the class probabilities and the confidence of every row of a DataFrame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from deepsep.core.column_kinds import ColumnType
from deepsep.core.fields import with_fields
from deepsep.core.labels import codes_of
from deepsep.core.model_parts import first_step, is_pipeline
from deepsep.drift.counts import Counts
from deepsep.evaluation.frames import check_id_name, prediction_names
from deepsep.scoring.blocks import BLOCK_ROWS, encoded, in_blocks, rows_of
from deepsep.scoring.decisions import Decisions, Tally
from deepsep.scoring.leaving_out import LeavingOut, values_in_training
from deepsep.scoring.settings import MOST_PROBABLE_CLASS, Decision
from deepsep.scoring.who_scores import check_fast, choose
from deepsep.table.arrow_frames import to_frame
from deepsep.table.columns import UsefulColumns, as_frame
from deepsep.table.compiled import CompiledEncoding, EncodedRows
from deepsep.table.locations import find_column

Array = NDArray[Any]


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

    Rows go to the model in blocks of equal size, the last padded with copies: matrix
    products of other shapes round differently, and a row should get the same bits in any batch. (With a kernel the last
    digit may still differ.)

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
        Number of columns to add that contributed most to the row's label; see :func:`deepsep.scoring.reasons`. The
        model must have a profile of its training table.
    fast : bool, default=False
        Whether the student of a committee answers in its place; see docs/how-to/deployment/millions.md.
    decision : Decision, optional
        How labels follow from probabilities.
    **fields
        Fields of ``decision`` by name: ``sets``, ``per_class``, ``abstain`` and ``costs``.

    Returns
    -------
    pandas.DataFrame
        Columns ``<id>`` (or ``row``); the predicted label, under the name of the column of labels, or ``label`` if the
        model does not know it; ``probability_<class>`` for each class; ``confidence``, the largest of them; and, if
        asked for, ``set``, such as "gold|blue", the most probable class first, and ``reason_1``, such as "age = 61",
        with ``reason_1_odds``, and so on. A model without probabilities gives only the label.

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
    scorer = choose(model, (), fast)
    leaving_out = None if reasons is None else LeavingOut(scorer, reasons, values_in_training(model))
    return score_rows(scorer, frame, decisions, id=id, first_row=first_row, leaving_out=leaving_out)[0]


def score_rows(
    model: Any,
    frame: Any,
    decisions: Decisions,
    *,
    id: str | None = None,
    first_row: int = 0,
    counts: Counts | None = None,
    leaving_out: LeavingOut | None = None,
) -> tuple[pd.DataFrame, Tally]:
    """Return what :func:`score_frame` does, and what was decided.

    Rows and answers are counted if there is something to count them in.
    """
    scored = score_batch(model, frame, decisions, id=id, first_row=first_row, leaving_out=leaving_out)
    if counts is not None:
        scored.count(counts, first_row)
    return scored.frame, scored.tally


@dataclass(frozen=True)
class Scored:
    """A batch of rows with their predictions."""

    frame: pd.DataFrame  # the predictions
    tally: Tally
    columns: Any  # as the model uses them; None if it does not choose columns
    codes: Array
    confidence: Array | None

    def count(self, counts: Counts, first_row: int) -> None:
        """Count the rows and the answers, for the comparison with the training table."""
        if self.columns is not None:
            counts.add_columns(self.columns, first_row, len(self.frame))
        if len(self.codes):
            counts.add_answers(self.codes, self.confidence)


def score_batch(
    model: Any,
    batch: Any,
    decisions: Decisions,
    *,
    id: str | None = None,
    first_row: int = 0,
    leaving_out: LeavingOut | None = None,
    compiled: CompiledEncoding | None = None,
    in_parts: Callable[[Array, Array], Array | None] | None = None,
    predicting: AbstractContextManager[Any] | None = None,
) -> Scored:
    """Score some rows; all engines call this function.

    ``compiled`` is the model's encoding, for an Arrow table; ``in_parts`` is the estimator's way to predict rows in two
    parts, if it has one; ``predicting`` is held while the estimator predicts, if
    others do at the same time.
    """
    n, classes, has_p = len(batch), np.asarray(model.classes_), hasattr(model, "predict_proba")
    rows: Any = batch
    by_column = compiled is not None and isinstance(batch, pa.Table) and n > 0
    if isinstance(batch, pa.Table) and not by_column:
        rows = to_frame(batch, id)
    elif not by_column and not (isinstance(batch, np.ndarray) and id is None):
        rows = as_frame(batch)
    if id is None:
        out: dict[str, Any] = {"row": np.arange(first_row, first_row + n)}
    elif by_column:
        out = {id: to_frame(rows.select([id]), id)[id].array}
    else:
        out = {id: rows[find_column(rows.columns, id, "id column")].array}
        if id not in schema_of(model):
            rows = rows.drop(columns=id)
    reasons = leaving_out.column_names if leaving_out else []
    label = label_name(model, leaving_out)
    names = prediction_names(classes, label, sets=decisions.sets is not None)
    check_id_name(id, [*names, *reasons])
    estimator, used, matrix, columns = model, None, None, None
    if by_column and compiled is not None:
        estimator, encoded_rows = model[-1], compiled.read(rows)
        columns = encoded_rows.columns
        predict = _predictor(estimator, has_p, predicting, bounded=compiled.is_bounded)
        answers = _in_parts(compiled, encoded_rows, in_parts, predict)
    elif n:
        estimator, used, matrix = encoded(model, rows)
        columns = used if is_pipeline(model) else None
        answers = in_blocks(_predictor(estimator, has_p, predicting), lambda index: rows_of(matrix, index), n)
    else:
        answers = np.empty((0, len(classes))) if has_p else classes[:0]
    if not has_p:
        codes = codes_of(classes, answers)
        return Scored(pd.DataFrame(out | {names[0]: answers}), Tally(Counter(answers.tolist())), columns, codes, None)
    best, sure = (answers.argmax(axis=1), answers.max(axis=1)) if n else (np.empty(0, int), np.empty(0))
    predictions, tally = decisions.columns(answers, label)
    if leaving_out is not None and n:
        called, kept = decisions(answers)
        predictions |= leaving_out(estimator, as_frame(used), matrix, answers, np.where(kept, called, -1))
    result = pd.DataFrame(out | predictions | ({} if n else {name: [] for name in reasons}))
    return Scored(result, tally, columns, best, sure)


def _predictor(
    estimator: Any, has_p: bool, predicting: AbstractContextManager[Any] | None, *, bounded: bool = False
) -> Callable[[Any], Array]:
    predict: Callable[[Any], Array] = estimator.predict_proba if has_p else estimator.predict
    if bounded and has_p:
        predict = getattr(estimator, "predict_bounded", predict)
    if predicting is None or getattr(estimator, "predicts_in_threads", False):
        return predict

    def in_turn(matrix: Any) -> Array:
        with predicting:
            return predict(matrix)

    return in_turn


def _in_parts(
    compiled: CompiledEncoding,
    rows: EncodedRows,
    in_parts: Callable[[Array, Array], Array | None] | None,
    predict: Callable[[Any], Array],
) -> Array:
    """Return the answers about encoded rows, block by block, of rows in two parts where that can be."""
    answers = []
    for start in range(0, len(rows), BLOCK_ROWS):
        p = None if in_parts is None else in_parts(*compiled.split(rows, start, start + BLOCK_ROWS))
        answers.append(predict(_block(compiled, rows, start))[: len(rows) - start] if p is None else p)
    return np.concatenate(answers)


def _block(compiled: CompiledEncoding, rows: EncodedRows, start: int) -> Array:
    """Return a block of the matrix, padded with copies of its first row."""
    matrix = compiled.matrix(rows, start, start + BLOCK_ROWS)
    missing = BLOCK_ROWS - len(matrix)
    return np.concatenate([matrix, np.repeat(matrix[:1], missing, axis=0)]) if missing else matrix


def label_name(model: Any, leaving_out: LeavingOut | None) -> str | None:
    """Return the name of the column of labels, unless a column of reasons has it."""
    name = label_of(model)
    return None if leaving_out is not None and name in leaving_out.column_names else name


def label_of(model: Any) -> str | None:
    """Return the name of the column of labels that a model was fitted to; None if it is not known."""
    first = first_step(model)
    name = getattr(first, "label_", None)
    return name if isinstance(name, str) else None


def schema_of(model: Any) -> dict[str, ColumnType]:
    """Return the columns that a model needs, with their types; empty if it takes any matrix."""
    first = first_step(model)
    if isinstance(first, UsefulColumns):
        return first.schema_
    return dict.fromkeys(map(str, getattr(first, "feature_names_in_", ())), "number")
