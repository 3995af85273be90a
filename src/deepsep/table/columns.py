"""Choose the columns of a table that a model uses, with their types, and find them again when rows are scored."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from deepsep.core.column_kinds import ColumnType, kind_of
from deepsep.core.labels import as_labels
from deepsep.errors import DataError, Setting, listed, warn
from deepsep.table.column_types import LEADING_ZERO, MISSING_WORDS, identifiers_of, labels_of
from deepsep.table.dates import DATE_PATTERN, OTHER_DATE, DateColumn
from deepsep.table.leaks import one_sided
from deepsep.table.locations import closest, find_column

MAX_SHOWN_NAMES = 8  # names in a message
MAX_CELL_CHARACTERS = 10_000  # most characters of a cell that are used


class UsefulColumns(TransformerMixin, BaseEstimator):
    """Keep the columns from which something can be learned, and remember their types.

    Columns with a single value, and identifiers, are left out, with one warning that names them. An identifier is

    * text in which (nearly) every value differs, unless the values are dates or several words long;
    * text of e-mail addresses, UUIDs or hashes;
    * integers that are all different with few gaps between them, like row numbers, in any order;
    * integers that are all different, in a column named like an identifier ("user_id", "customerNr").

    Numbers with a fraction are never identifiers, nor are integers such as an income.

    If some rows are unlabelled, columns that are given for labelled rows only or for unlabelled rows only are left out,
    and so are columns that have the same value in all unlabelled rows. They cannot help to predict these rows, but
    cross-validation on labelled rows would suggest that they can.

    When rows are scored, the same columns are taken by name. Extra columns are ignored. Missing columns, and values
    that cannot be read as the type of their column, raise an error that lists the differences.

    Parameters
    ----------
    keep : sequence of str, default=()
        Columns to use even if they look useless.

    Attributes
    ----------
    schema_ : dict {column: "number", "boolean", "date" or "text"}
        The columns used, in the order of the table.
    left_out_ : dict {column: reason}
        The columns left out.
    label_ : str or None
        The name of the labels, if they are a column of a table; predictions are written under it.

    Examples
    --------
    >>> import warnings
    >>> table = pd.DataFrame({"id": range(40), "age": [20.5, 31] * 20, "plan": ["pro", "free"] * 20, "land": "UK"})
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     columns = UsefulColumns().fit(table)
    >>> columns.schema_
    {'age': 'number', 'plan': 'text'}
    >>> columns.left_out_
    {'id': 'identifier', 'land': 'constant'}
    >>> columns.transform(table[["plan"]])
    Traceback (most recent call last):
    ...
    deepsep.errors.DataError: the columns differ from those of the training table:
      missing: 'age'
    """

    def __init__(self, *, keep: Sequence[str] = ()) -> None:
        self.keep = keep

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn which columns are useful, and their types."""
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> pd.DataFrame:
        """Learn which columns are useful, and return them."""
        name = getattr(y, "name", None)
        self.label_: str | None = name if isinstance(name, str) else None
        frame, labeled = cut_long_cells(as_frame(X)), _labeled(y)
        for name in self.keep:
            find_column(frame.columns, name, setting="keep")
        columns: dict[str, pd.Series[Any]] = {}
        self.schema_: dict[str, ColumnType] = {}
        self.left_out_: dict[str, str] = {}
        for name in frame.columns:
            kind, cells, left_out = decide(frame[name], labeled)
            if kind is None or (left_out and name not in self.keep):
                self.left_out_[name] = left_out
            else:
                self.schema_[name] = kind
                columns[name] = for_encoders(cells, kind)
        self.feature_names_in_ = np.asarray(frame.columns, dtype=object)
        self.n_features_in_ = frame.shape[1]
        if not columns:
            raise DataError(f"no column can be used: {_reasons(self.left_out_)}. Add columns that differ between rows.")
        if self.left_out_:
            warn(
                f"left out {_reasons(self.left_out_)}. To use one of them anyway, pass {{keep}}.",
                keep=Setting("keep", [next(iter(self.left_out_))]),
            )
        return pd.DataFrame(columns)

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the columns of the schema, or raise an error that lists the differences."""
        check_is_fitted(self, "schema_")
        frame = as_frame(X)
        check_names(self.schema_, self.left_out_, frame.columns)
        columns, changed = {}, []
        for name, kind in self.schema_.items():
            try:
                columns[name] = for_encoders(convert(frame[name], kind), kind)
            except (ValueError, TypeError) as error:
                changed.append(f"{name!r} ({kind} in training, {error})")
        if changed:
            raise DataError(_differences(changed=changed))
        return pd.DataFrame(columns)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns used."""
        check_is_fitted(self, "schema_")
        return np.asarray(list(self.schema_), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.allow_nan = tags.input_tags.categorical = True
        return tags


def _labeled(y: Any) -> Any:
    """Return which rows have a label; None if all have one, or if the estimator will not accept the labels."""
    if y is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the estimator reads them, too, and warns
            labeled = as_labels(y).labeled
    except (ValueError, TypeError):
        return None
    return None if labeled.all() else labeled


def as_frame(X: Any) -> pd.DataFrame:
    """Return a table of any library (pandas, polars, Arrow ...), or a matrix, as a DataFrame with column names."""
    if isinstance(X, pd.DataFrame):
        frame = X
    elif hasattr(X, "__arrow_c_stream__"):
        frame = pa.table(X).to_pandas()
    else:
        values = np.asarray(X)
        if (n := values.ndim) != 2:
            raise DataError(f"expected a table with rows and columns, but got {n} dimensions. Pass a DataFrame.")
        frame = pd.DataFrame(values, columns=[f"x{i}" for i in range(values.shape[1])])
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise DataError(f"the table has more than one column named {_names(twice)}. Give every column its own name.")
    return frame if names == list(frame.columns) else frame.set_axis(names, axis=1)


def cut_long_cells(frame: pd.DataFrame, apart: Sequence[str | None] = ()) -> pd.DataFrame:
    """Return a table in which no cell of text is longer than 10,000 characters, with a warning if one was cut."""
    cut: dict[str, int] = {}
    columns = {}
    for name, column in frame.items():
        if name in apart or not (column.dtype == object or pd.api.types.is_string_dtype(column)):
            continue
        text = column if column.dtype != object else column[[isinstance(cell, str) for cell in column]].astype("str")
        longest = text.str.len().max()
        if longest > MAX_CELL_CHARACTERS:  # not for NaN
            cut[str(name)] = int(longest)
            columns[name] = column.map(lambda cell: cell[:MAX_CELL_CHARACTERS] if isinstance(cell, str) else cell)
    if not cut:
        return frame
    worst = max(cut, key=lambda name: cut[name])
    others = f" and in {len(cut) - 1} other columns" if len(cut) > 1 else ""
    warn(
        f"column {worst!r} has a cell of {cut[worst]:,} characters; of such cells{others} only the first "
        f"{MAX_CELL_CHARACTERS:,} characters are used."
    )
    return frame.assign(**columns)


def tidied(
    frame: pd.DataFrame, kind: str, label: str | None, id: str | None, types: Mapping[str, ColumnType]
) -> pd.DataFrame:
    """Return the rows of a table of some kind with labels, identifiers and types as they were asked for."""
    if label is not None:
        find_column(frame.columns, label, "label column")
        frame[label] = labels_of(frame[label], typed=kind not in ("text", "excel"))
    if id is not None:
        find_column(frame.columns, id, "id column")
        if kind == "text":  # other formats store the types
            frame[id] = identifiers_of(frame[id])
    for name, wanted in types.items():
        find_column(frame.columns, name, setting="types")
        if wanted == "text" and name not in (label, id):  # as a category, digits are not read as numbers later
            frame[name] = convert(frame[name], "text").astype("category")
    return cut_long_cells(frame, apart=(label, id))


def check_names(schema: dict[str, ColumnType], left_out: dict[str, str], names: Any) -> None:
    """Raise an error that lists the differences if a column of the schema is missing."""
    given = [str(name) for name in names]
    missing = [name for name in schema if name not in given]
    if missing:
        unexpected = [name for name in given if name not in schema and name not in left_out]
        raise DataError(_differences(missing=missing, unexpected=unexpected))


# -- types -----------------------------------------------------------------------------------------------------


class DecidedColumn(NamedTuple):
    """A column with its type, None for lists and other objects; its cells of that type; why a model leaves it out."""

    kind: ColumnType | None
    cells: pd.Series[Any]
    left_out: str


def decide(column: pd.Series[Any], labeled: Any = None) -> DecidedColumn:
    """Decide what a column is, and whether a model can learn from it; ``labeled`` are the rows with a label."""
    kind = _type_of(column)
    if kind is None:
        return DecidedColumn(kind, column, "lists or other objects")
    cells = convert(column, kind)
    left_out = _useless(column, cells, kind)
    if not left_out and labeled is not None:
        left_out = one_sided(cells, labeled)
    return DecidedColumn(kind, cells, left_out)


def _type_of(column: pd.Series[Any]) -> ColumnType | None:
    """Return the type of a column, by that of its values or, if they are text, by what they look like."""
    if isinstance(column.dtype, pd.PeriodDtype):
        return "date"
    if pd.api.types.is_timedelta64_dtype(column):
        return "number"
    if (kind := kind_of(column)) != "text" or isinstance(column.dtype, pd.CategoricalDtype):
        return kind
    given = column.dropna()
    if column.dtype != object:
        given = pd.Series(given.unique(), dtype="str")  # text: its distinct values suffice, and are fewer
    kinds = pd.api.types.infer_dtype(given, skipna=True)
    if kinds == "boolean":
        return "boolean"
    if kinds in ("integer", "floating", "mixed-integer-float", "decimal"):
        return "number"
    if kinds in ("datetime", "datetime64", "date"):
        return "date"
    if kinds in ("bytes", "mixed", "complex") and not given.map(lambda v: isinstance(v, str | int | float)).all():
        return None
    text = as_text(given).dropna()
    if len(text) and re.match(DATE_PATTERN, text.iloc[0], re.ASCII):
        dates = DateColumn("")
        dates.examine(_cells(text))
        if text.str.match(DATE_PATTERN).all() and dates.order is not None and dates.n_unreadable < dates.n_values:
            return "date"
    if not len(text) or text.str.contains(LEADING_ZERO).any():
        return "text"
    return "number" if pd.to_numeric(text, errors="coerce").notna().all() else "text"


def convert(column: pd.Series[Any], kind: ColumnType) -> pd.Series[Any]:
    """Return a column converted to the type, or raise TypeError with a value that does not fit."""
    api = pd.api.types
    if kind == "text":
        return as_text(column)
    if kind == "number" and isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":  # the usual case
        values = column.to_numpy(np.float64)
        return pd.Series(np.where(np.isfinite(values), values, np.nan), index=column.index)
    if kind == "date":
        if api.is_numeric_dtype(column) and column.notna().any():
            raise TypeError(f"numbers such as {column.dropna().iloc[0]} here")
        if isinstance(column.dtype, pd.PeriodDtype):
            column = column.dt.to_timestamp()
        if api.infer_dtype(column, skipna=True) == "string":
            dates = _dates(column)
        else:
            dates = pd.to_datetime(column, errors="coerce", utc=True).dt.tz_localize(None)
        _check_converted(column, dates)
        return dates
    if api.is_datetime64_any_dtype(column):
        raise TypeError("dates here")
    if api.is_timedelta64_dtype(column):
        return column.dt.total_seconds()
    if kind == "boolean" and not api.is_bool_dtype(column):
        words = as_text(column).str.lower()
        truth = words.map({"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0})
        _check_converted(words, truth)
        return truth.astype(float)
    cells = column if api.is_numeric_dtype(column) else as_text(column)
    numbers = pd.to_numeric(cells, errors="coerce").astype("Float64").to_numpy(float, na_value=np.nan)
    converted = pd.Series(numbers, index=column.index)
    _check_converted(cells, converted)
    return converted.where(np.isfinite(converted))


def _dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of text as dates, or raise TypeError if it is unclear whether day or month comes first."""
    text = as_text(column)
    cells = _cells(text)
    dates = DateColumn(str(column.name))
    dates.examine(cells)
    if dates.order is None:
        raise TypeError(f"dates such as {text.dropna().iloc[0]!r} here, where day and month could be swapped")
    return pd.Series(dates.read(cells).to_pandas().to_numpy(), index=column.index)


def _cells(text: pd.Series[Any]) -> Any:
    return pa.chunked_array([pa.array(text, pa.string(), from_pandas=True)])


def _check_converted(given: pd.Series[Any], converted: pd.Series[Any]) -> None:
    wrong = given.notna() & converted.isna()
    if wrong.any():
        some = given[wrong].iloc[0]
        raise TypeError(f"{'text' if isinstance(some, str) else 'values'} such as {some!r} here")


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column as text: whole numbers without a fraction, and words that mean a missing value as missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        names = as_text(pd.Series(column.cat.categories))
        values = names.to_numpy(object)[column.cat.codes] if len(names) else np.full(len(column), None)
        text = pd.Series(values, index=column.index, dtype="str")
    elif pd.api.types.is_string_dtype(column) and column.dtype != object:
        text = column.astype("str")
    else:
        text = pd.Series([key_text(value) for value in column], index=column.index, dtype="str")
    text = text.str.slice(0, MAX_CELL_CHARACTERS).str.strip()
    return text.mask(text.isin(MISSING_WORDS) | column.isna())


def key_text(value: Any) -> str | None:
    """Return a value as the text that identifies it; None for a missing value."""
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def for_encoders(column: pd.Series[Any], kind: ColumnType) -> pd.Series[Any]:
    """Return a column in a form from which its encoding follows: booleans as text."""
    if kind != "boolean":
        return column
    # pandas 2 writes missing values as "nan".
    return column.map({1: "true", 0: "false"}).astype("str").mask(column.isna())


# -- identifiers and constants ---------------------------------------------------------------------------------


def _useless(column: pd.Series[Any], values: pd.Series[Any], kind: ColumnType) -> str:
    """Return why nothing can be learned from a column ("constant", "identifier", "empty"), or "" if something can.

    ``values`` are the cells of the column converted to its type.
    """
    id_name = r"(^|[\W_])(id|uuid|guid|key|idx|index|rowid|row|nr|no|number)$|[a-z](Id|ID|Key|Nr|No)$"
    id_value = r"[^@\s]+@[^@\s]+\.\w+|[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{24,64}"
    min_distinct_values = 20  # number of values from which "all different" is informative
    counter = 2.0  # distinct integers that fill at least half their range are row numbers
    words = 5  # values of at least this many words are text, not names
    nearly_all = 0.95
    given = values.dropna()
    if not len(given):
        return "empty"
    distinct = len(np.unique(given.to_numpy())) if kind == "number" else given.nunique()
    if distinct == 1 and len(given) == len(values):
        return "constant"
    if len(given) < min_distinct_values:
        return ""
    if kind == "number" and pd.api.types.is_integer_dtype(column) and distinct == len(values):
        span = float(given.max()) - float(given.min()) + 1
        named_so = re.search(id_name, str(column.name), re.IGNORECASE)
        return "identifier" if span <= counter * len(values) or named_so else ""
    if kind == "text":
        some = given.sample(min(len(given), 1_000), random_state=0)
        if (
            some.nunique() > min_distinct_values
            and _share_like(re.compile(id_value, re.IGNORECASE).fullmatch, some) > nearly_all
        ):
            return "identifier"
        dates = _share_like(OTHER_DATE.match, some) > nearly_all
        if distinct >= nearly_all * len(given) and some.str.count(r"\S+").median() < words and not dates:
            return "identifier"
    return ""


def _share_like(match: Callable[[str], object], text: pd.Series[Any]) -> float:
    """Return the share of texts that match."""
    # Not by `text.str`: pandas 3.0 refuses compiled patterns with flags.
    return float(np.mean([match(each) is not None for each in text]))


# -- messages --------------------------------------------------------------------------------------------------


def _names(names: Iterable[str]) -> str:
    return listed(map(repr, names), MAX_SHOWN_NAMES)


def _reasons(left_out: dict[str, str]) -> str:
    return listed((f"{name!r} ({reason})" for name, reason in left_out.items()), MAX_SHOWN_NAMES)


def _differences(*, missing: Sequence[str] = (), unexpected: Sequence[str] = (), changed: Sequence[str] = ()) -> str:
    lines = ["the columns differ from those of the training table:"]
    if missing:
        lines.append(f"  missing: {_names(missing)}")
    if unexpected:
        lines.append(f"  unexpected: {_names(unexpected)}")
    if changed:
        lines.append("  changed type: " + ", ".join(changed[:MAX_SHOWN_NAMES]))
    renamed = [f"{name!r} to {other!r}" for name in missing if (other := closest(name, unexpected)) is not None]
    if renamed:
        lines.append(f"  renamed? {', '.join(renamed[:MAX_SHOWN_NAMES])}")
    return "\n".join(lines)
