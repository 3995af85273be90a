"""Encode the columns of a table as a matrix, all columns of a kind at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils.validation import check_is_fitted
from skrub import StringEncoder

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import kind_of, seconds_of
from deepsep.errors import DataError
from deepsep.table.normal_scores import NormalScores

MAX_MATRIX_VALUE = float(np.finfo(np.float32).max)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode numbers, dates, categories and texts as a matrix of numbers.

    The columns are those of :class:`~deepsep.table.columns.UsefulColumns`. All columns of a kind are encoded together,
    which for thousands of columns takes seconds; only texts take a model of their own each.

    Parameters
    ----------
    cardinality_threshold : int, default=100
        Number of different values from which a column of text is encoded by its letters, not as a category.
    scale : bool, default=True
        Whether numbers become normal scores and categories one column per level, for networks and linear models.
        Otherwise numbers stay as they are and categories become codes, for trees.

    Attributes
    ----------
    sources_ : array (features,)
        The column of the table, by number, from which each feature comes.

    Examples
    --------
    >>> table = pd.DataFrame({"age": [20.0, 30, 60], "plan": ["free", "pro", "free"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'plan_free', 'plan_pro']
    >>> encoder.transform(table).round(1).tolist()
    [[-1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """

    def __init__(self, *, cardinality_threshold: int = 100, scale: bool = True) -> None:
        self.cardinality_threshold = cardinality_threshold
        self.scale = scale

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Learn how to encode the columns."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: pd.DataFrame, y: Any = None) -> Array:
        """Learn how to encode the columns, and return them encoded."""
        kinds: dict[str, list[int]] = {"number": [], "date": [], "category": [], "text": []}
        for j, (_, column) in enumerate(X.items()):
            kind = kind_of(column)
            few = kind == "text" and column.nunique() < self.cardinality_threshold
            kinds["category" if few else "number" if kind == "boolean" else kind].append(j)
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = X.shape[1]
        self.numbers_, self.dates_, self.categories_, self.texts_ = (np.array(at, int) for at in kinds.values())
        self.date_parts_ = [_telling_parts(X.iloc[:, j], self.scale) for j in self.dates_]
        self.sizes_ = _unusual_sizes(self._numbers(X))
        self.number_scores_ = NormalScores() if self.scale else None
        self.date_scores_ = NormalScores() if self.scale else None
        self.category_encoder_ = _category_encoder(self.scale)
        self.text_encoders_ = [StringEncoder(random_state=0) for _ in self.texts_]
        blocks = list(self._blocks(X, "fit_transform"))
        columns = [
            *self.numbers_,
            *np.repeat(self.dates_, [len(parts) for parts in self.date_parts_]),
            *np.repeat(self.categories_, n_levels(self.category_encoder_) if len(self.categories_) else 0),
            *(j for j, encoder in zip(self.texts_, self.text_encoders_, strict=True) for _ in encoder.all_outputs_),
        ]
        order = np.argsort(columns, kind="stable")
        self.sources_ = np.array(columns, int)[order]
        self.places_ = np.argsort(order)
        return self._in_order(blocks, len(X))

    def transform(self, X: pd.DataFrame) -> Array:
        """Return the columns encoded."""
        check_is_fitted(self, "sources_")
        return self._in_order(self._blocks(X, "transform"), len(X))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features."""
        check_is_fitted(self, "sources_")
        names = self.feature_names_in_
        features = np.empty(len(self.sources_), dtype=object)
        features[self.places_] = [
            *names[self.numbers_],
            *(f"{names[j]}_{part}" for j, part in self._dates()),
            *(self.category_encoder_.get_feature_names_out(names[self.categories_]) if len(self.categories_) else ()),
            *(name for encoder in self.text_encoders_ for name in encoder.get_feature_names_out()),
        ]
        return features

    def _in_order(self, blocks: Iterable[Array], n: int) -> Array:
        """Return the blocks as one matrix whose features have the order of the table's columns."""
        out, start = np.empty((n, len(self.places_)), np.float32), 0
        for block in blocks:
            out[:, self.places_[start : start + block.shape[1]]] = block
            start += block.shape[1]
        return out

    def _blocks(self, X: pd.DataFrame, method: str) -> Iterator[Array]:
        """Yield the features of each kind; ``method`` is "fit_transform" or "transform"."""
        if len(self.numbers_):
            numbers = np.clip(self._numbers(X) / self.sizes_, -MAX_MATRIX_VALUE, MAX_MATRIX_VALUE).astype(np.float32)
            yield numbers if self.number_scores_ is None else getattr(self.number_scores_, method)(numbers)
        yield from self._date_blocks({j: X.iloc[:, j] for j in self.dates_}, method)
        if len(self.categories_):
            yield getattr(self.category_encoder_, method)(_cells(X, self.categories_))
        yield from self._text_blocks({j: X.iloc[:, j] for j in self.texts_}, method)

    def other_blocks(self, columns: Mapping[int, pd.Series[Any]]) -> Iterator[Array]:
        """Yield the features of dates, then those of texts, as :meth:`transform` makes them."""
        yield from self._date_blocks(columns, "transform")
        yield from self._text_blocks(columns, "transform")

    def _date_blocks(self, columns: Mapping[int, pd.Series[Any]], method: str) -> Iterator[Array]:
        if len(self.dates_):
            parts = np.column_stack([_part(columns[j], part) for j, part in self._dates()])
            yield parts if self.date_scores_ is None else getattr(self.date_scores_, method)(parts)

    def _text_blocks(self, columns: Mapping[int, pd.Series[Any]], method: str) -> Iterator[Array]:
        for j, encoder in zip(self.texts_, self.text_encoders_, strict=True):
            try:
                yield np.asarray(getattr(encoder, method)(columns[j]))
            except ValueError as error:  # numbers that are not finite, in a saved model that was edited
                name = self.feature_names_in_[j]
                raise DataError(
                    f"the text of column {name!r} cannot be encoded ({error}). Fit the model again."
                ) from error

    def _numbers(self, X: pd.DataFrame) -> Array:
        return np.asarray(X.iloc[:, self.numbers_].to_numpy(np.float64))

    def _dates(self) -> Iterator[tuple[int, str]]:
        """Yield the columns of dates with each of the parts into which they are split."""
        for j, parts in zip(self.dates_, self.date_parts_, strict=True):
            yield from ((int(j), part) for part in parts)


def _telling_parts(dates: pd.Series[Any], weekday: bool) -> list[str]:
    """Return the parts of dates that differ between rows."""
    parts = ["year", "month", "day", "hour", "total_seconds", *(["weekday"] if weekday else [])]
    given = dates.dropna()
    return [part for part in parts if part == "total_seconds" or len(np.unique(_part(given, part))) > 1]


def _part(dates: pd.Series[Any], part: str) -> Array:
    if part == "total_seconds":
        return seconds_of(dates).astype(np.float32)
    values = dates.dt.day_of_week + 1 if part == "weekday" else getattr(dates.dt, part)
    return np.where(dates.isna(), np.nan, values).astype(np.float32)


def _unusual_sizes(numbers: Array) -> Array:
    """Return 1 for each column of numbers, or their typical size where single precision could not tell them apart."""
    far_value = 20  # numbers whose median is beyond 10 to this power, or its inverse, are divided by their typical size
    sizes = np.ones(numbers.shape[1])
    with np.errstate(divide="ignore"):
        exponents = np.log10(np.abs(numbers))
    far = (np.abs(exponents) > far_value) & np.isfinite(exponents)
    for j in np.flatnonzero(far.any(axis=0)):
        known = exponents[np.isfinite(exponents[:, j]), j]
        if abs(np.median(known)) > far_value:
            sizes[j] = 10.0 ** np.round(np.median(known))
    return sizes


def _category_encoder(scale: bool) -> Any:
    rare = 0.003  # share of the rows below which a level is rare
    levels = 40  # most columns that a category becomes; rarer levels share one
    if not scale:
        return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, dtype=np.float32)
    return OneHotEncoder(
        max_categories=levels,
        min_frequency=rare,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        dtype=np.float32,
    )


def n_levels(encoder: Any) -> list[int]:
    """Return how many features each category becomes."""
    if isinstance(encoder, OrdinalEncoder):
        return [1] * len(encoder.categories_)
    return [
        len(levels) - (0 if rare is None else len(rare) - 1)
        for levels, rare in zip(encoder.categories_, encoder.infrequent_categories_, strict=True)
    ]


def _cells(X: pd.DataFrame, columns: Array) -> Array:
    """Return columns of text as a matrix of objects, NaN where a value is missing."""
    cells = np.empty((len(X), len(columns)), dtype=object)
    for k, j in enumerate(columns):
        column = X.iloc[:, j]
        cells[:, k] = column.to_numpy(object)
        cells[column.isna().to_numpy(), k] = np.nan
    return cells
