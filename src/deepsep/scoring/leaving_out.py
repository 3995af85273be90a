"""Why a row gets its label: the columns without which the label would be less likely."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from deepsep.classifiers.committee.committee import Committee
from deepsep.classifiers.in_context.in_context import InContext
from deepsep.core.arrays import Array
from deepsep.core.model_parts import estimator_of, is_pipeline
from deepsep.drift.typical_values import typical_values, values_of
from deepsep.errors import ParameterError, Setting, warn
from deepsep.models import profile_of
from deepsep.scoring.who_scores import BLOCK_ROWS, encoded, in_blocks, rows_of
from deepsep.table.columns import UsefulColumns, as_frame
from deepsep.table.pipeline import source_columns

MAX_SLOW_PREDICTIONS = 5_000_000  # by a committee, or by an in-context network
MAX_QUIET_SECONDS = 60  # from which the time is said beforehand


class LeavingOut:
    """Leaves out one column at a time, and sees how much less likely the label of a row becomes.

    Values of the training table take the place of a column, and the probability of the label is averaged over them:
    ``values`` has them, with their weights, for each column that the model uses. A row gets ``n`` reasons at most, and
    is predicted ``passes`` times.
    """

    def __init__(self, model: Any, n: int, values: Mapping[str, tuple[list[Any], Array]] | None) -> None:
        if not (isinstance(n, int) and 1 <= n <= 20):
            raise ParameterError("{n}; pass an integer from 1 to 20.", n=Setting("reasons", n))
        if not hasattr(model, "predict_proba"):
            raise ParameterError(
                "{n}: the model has no probabilities, which reasons would change. Choose another method.",
                n=Setting("reasons"),
            )
        if values is None:
            raise ParameterError(
                "{n}: the model has no profile of its training table, whose values take the place of a column that is "
                "left out. Fit it again with deepsep fit, or call deepsep.scoring.remember_training.",
                n=Setting("reasons"),
            )
        self.n = n
        self.names, grid = list(values), list(values.values())
        groups = _features_of(model, self.names)
        used = [j for j, group in enumerate(groups) if len(group)]
        sizes = [len(grid[j][0]) for j in used]
        self._columns, self._starts = np.array(used, int), np.cumsum([0, *sizes[:-1]])
        self.passes = sum(sizes)
        self._weight = np.concatenate([grid[j][1] for j in used])
        self._points = _encoded_values(model, self.names, grid, used)
        self._swapped = np.zeros((self.passes, self._points.shape[1]), bool)
        for j, start, size in zip(used, self._starts, sizes, strict=True):
            self._swapped[start : start + size, groups[j]] = True

    @property
    def column_names(self) -> list[str]:
        """Names of the columns of the result."""
        return [name for k in range(1, self.n + 1) for name in (f"reason_{k}", f"reason_{k}_odds")]

    def __call__(self, estimator: Any, columns: pd.DataFrame, matrix: Any, p: Array, label: Array) -> dict[str, Any]:
        """Return the columns of reasons.

        ``columns`` and ``matrix`` are the rows as people see them, and as the estimator takes them; ``label`` is the
        number of each row's class, -1 for a row without a label, which has no reasons.
        """
        together = 1 << 20  # probabilities in memory at a time
        figures = 6  # decimals of the log odds that count; the rest is rounding
        least = 0.005  # change of the log odds below which a column is not a reason
        strengths = np.full((len(label), len(self.names)), -np.inf)
        at = np.flatnonzero(label >= 0)
        mix, step = _mixer(matrix, self._points), max(together // self.passes, 1)
        for start in range(0, len(at), step):
            rows = at[start : start + step]
            without = self._probability_without(estimator, mix, rows, label[rows])
            own = p[rows, label[rows]].astype(np.float64)
            change = _log_odds(own)[:, None] - _log_odds(without)
            strengths[rows[:, None], self._columns] = change.round(figures)
        best = np.argsort(-strengths, axis=1, kind="stable")[:, : self.n]
        out: dict[str, Any] = {}
        cells = [columns[name].array for name in self.names]
        for k in range(self.n):
            column = best[:, k] if k < best.shape[1] else np.zeros(len(label), int)
            strength = strengths[np.arange(len(label)), column]
            given = (strength >= least) & (k < best.shape[1])
            texts = np.full(len(label), None, dtype=object)
            pairs = zip(np.flatnonzero(given).tolist(), column[given].tolist(), strict=True)
            texts[given] = [reason_text(self.names[j], cells[j][i]) for i, j in pairs]
            out[f"reason_{k + 1}"] = pd.Series(texts, dtype="str").array
            out[f"reason_{k + 1}_odds"] = np.where(given, np.exp(np.where(given, strength, 0.0)), np.nan)
        return out

    def _probability_without(self, estimator: Any, mix: Any, rows: Array, label: Array) -> Array:
        """Return the probability of each row's label with each column left out in turn, (rows, columns)."""
        pairs, T = len(rows) * self.passes, self.passes

        def some(index: Array) -> Any:
            which, point = index // T, index % T
            return mix(rows[which], point, self._swapped[point])

        p = in_blocks(estimator.predict_proba, some, pairs, keep=lambda q, at: q[np.arange(len(q)), label[at // T]])
        return np.asarray(np.add.reduceat(p.reshape(-1, T) * self._weight, self._starts, axis=1))

    def check_cost(self, model: Any, rows: int | None, rows_at_most: int) -> None:
        """Raise if it would take too long, and say beforehand how long it takes if that is more than a minute.

        ``rows`` is None if only an upper bound of their number is known.
        """
        estimator = estimator_of(model)
        most = MAX_SLOW_PREDICTIONS // self.passes
        if isinstance(estimator, Committee | InContext) and rows_at_most > most:
            has_student = getattr(estimator, "student_", None) is not None
            cure = " {fast} takes the student, which is much faster." if has_student else ""
            raise ParameterError(
                f"{{n}}: every row is predicted {self.passes:,} times, with one column left out at a time, which would "
                f"take too long for more than {most:,} rows.{cure} Or score fewer rows.",
                n=Setting("reasons", self.n),
                fast=Setting("fast", True),
            )
        began = time.perf_counter()
        estimator.predict_proba(rows_of(self._points, np.arange(BLOCK_ROWS) % self.passes))
        each = (time.perf_counter() - began) * self.passes / BLOCK_ROWS  # seconds for a row
        if rows_at_most > int(MAX_QUIET_SECONDS / each):
            minutes = max(round((1_000 if rows is None else rows) * each / 60), 1)
            how_many = "the rows" if rows is None else f"{rows:,} rows"
            warn(
                f"reasons leave out one column at a time: {self.passes:,} passes over {how_many}, about {minutes} "
                f"minute{'s' * (minutes > 1)}{' for each 1,000 of them' if rows is None else ''}."
            )


def reasons(model: Any, table: Any, n: int = 3, *, background: Any = None) -> pd.DataFrame:
    """Return for each row the columns that contributed most to its label.

    One column at a time is left out: values of the training table take its place. A column is a reason if the odds of
    the label are lower without it. Columns that say the same stand in for each other, so that neither may appear.

    Parameters
    ----------
    model : fitted classifier
        A model of :func:`deepsep.fit`, or any pipeline or estimator that takes a matrix, with a background.
    table : DataFrame or matrix
        The rows.
    n : int, default=3
        How many reasons, at most.
    background : DataFrame or matrix, optional
        Rows whose values take the place of a column. None: the profile of the training table.

    Returns
    -------
    pandas.DataFrame
        ``label``; ``reason_1``, such as "age = 61", and ``reason_1_odds``, how many times higher the odds of the label
        are than without the column; and so on. Empty where there are fewer reasons.

    Examples
    --------
    >>> from deepsep import method, for_table
    >>> from deepsep.scoring import reasons
    >>> table = pd.DataFrame({"age": [20.0, 25, 30, 65, 70, 75], "plan": ["free", "pro", "free", "free", "pro", "pro"]})
    >>> model = for_table(method("logistic-regression")).fit(table, ["young", "young", None, "old", "old", None])
    >>> found = reasons(model, table[::5], 2, background=table)
    >>> found["reason_1"].tolist()
    ['age = 20', 'age = 75']
    >>> found["reason_2"].isna().all()  # both plans were equally frequent among young and old
    np.True_
    """
    frame = table if isinstance(table, np.ndarray) and not is_pipeline(model) else as_frame(table)
    leaving_out = LeavingOut(model, n, values_in_training(model) if background is None else _values(model, background))
    if not len(frame):
        return pd.DataFrame(columns=["label", *leaving_out.column_names])
    estimator, columns, matrix = encoded(model, frame)
    p = in_blocks(estimator.predict_proba, lambda index: rows_of(matrix, index), len(frame))
    label = p.argmax(axis=1)
    found = leaving_out(estimator, as_frame(columns).set_axis(leaving_out.names, axis=1), matrix, p, label)
    return pd.DataFrame({"label": np.asarray(model.classes_)[label], **found})


def values_in_training(model: Any) -> dict[str, tuple[list[Any], Array]] | None:
    """Return values that stand for each column of a model's training table; None if it has no profile."""
    profile = profile_of(model)
    if profile is None:
        return None
    return {name: typical_values(column) for name, column in profile.columns.items()}


def _values(model: Any, background: Any) -> dict[str, tuple[list[Any], Array]]:
    rows = as_frame(background)
    if hasattr(model, "feature_names_in_") and not is_pipeline(model):
        rows = rows[list(model.feature_names_in_)]
    columns = as_frame(model[0].transform(rows) if is_pipeline(model) else rows)
    return {str(name): values_of(column) for name, column in columns.items()}


def reason_text(name: str, value: Any) -> str:
    """Return a cell as a reason.

    Examples
    --------
    >>> reason_text("age", 61.0), reason_text("plan", None), reason_text("joined", pd.Timestamp("2024-05-06"))
    ('age = 61', 'plan is missing', 'joined = 2024-05-06')
    """
    longest = 60  # letters of a text in a reason
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return f"{name} is missing"
    if isinstance(value, pd.Timestamp):
        return f"{name} = {value.date() if value == value.normalize() else value.isoformat(' ', 'minutes')}"
    if isinstance(value, float | np.floating):
        number = float(value)
        return f"{name} = {number:{'.0f' if number.is_integer() and abs(number) < 1e15 else '.6g'}}"
    text = str(value)
    return f"{name} = {text if len(text) <= longest else text[: longest - 1] + '…'}"


def _features_of(model: Any, names: Sequence[str]) -> list[list[int]]:
    """Return which features of the matrix come from each column."""
    if not is_pipeline(model):
        return [[j] for j in range(len(names))]
    groups = source_columns(model[:-1], names) if isinstance(model[0], UsefulColumns) else None
    if groups is None:
        raise ParameterError(
            "{n}: it is not known which features come from which column. Reasons are for pipelines of "
            "deepsep.for_table with at most 1,000 columns, and for estimators that take a matrix.",
            n=Setting("reasons"),
        )
    return groups


def _encoded_values(model: Any, names: Sequence[str], grid: list[tuple[list[Any], Array]], used: list[int]) -> Any:
    """Return a row for each value of each column, as the estimator takes it; its other columns do not matter."""
    n = sum(len(grid[j][0]) for j in used)
    columns, start = {}, 0
    for j, name in enumerate(names):
        values, (own, _) = [grid[j][0][0]] * n, grid[j]
        if j in used:
            values[start : start + len(own)] = own
            start += len(own)
        columns[name] = pd.Series(values, dtype=_dtype(own))
    frame = pd.DataFrame(columns)
    if is_pipeline(model):
        return model[1:-1].transform(frame)
    return frame if hasattr(model, "feature_names_in_") else frame.to_numpy(np.float64)


def _dtype(values: list[Any]) -> str:
    known = next((value for value in values if value is not None), "")
    return "str" if isinstance(known, str) else "datetime64[us]" if isinstance(known, pd.Timestamp) else "float64"


def _mixer(matrix: Any, points: Any) -> Callable[[Array, Array, Array], Any]:
    """Return a function of (rows, points, swapped features): the rows with these features taken from the points."""
    if not hasattr(matrix, "iloc"):
        return lambda rows, point, swapped: np.where(swapped, points[point], matrix[rows])
    n, both = len(matrix), {name: _joined(matrix[name], points[name]) for name in matrix}

    def mix(rows: Array, point: Array, swapped: Array) -> pd.DataFrame:
        at = np.where(swapped, n + point[:, None], rows[:, None])
        return pd.DataFrame({name: column.take(at[:, j]) for j, (name, column) in enumerate(both.items())})

    return mix


def _joined(column: pd.Series[Any], other: pd.Series[Any]) -> Any:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.api.types.union_categoricals([column, other])
    return pd.concat([column, other], ignore_index=True).array


def _log_odds(p: Array) -> Array:
    floor = 1e-6  # of probabilities, so that odds are finite
    p = np.clip(p, floor, 1 - floor)
    return np.asarray(np.log(p) - np.log1p(-p))
