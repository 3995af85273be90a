"""The fitted encoding of a pipeline as columnar code: Arrow tables in, blocks of a matrix out, the same bits.

Numbers come straight from Arrow's buffers. Categories are dictionary-encoded, so that only their levels are looked at,
and each level is looked up in a table of what the fitted encoder makes of it. Columns that have no such form, dates and
texts and columns of unusual types take the ordinary way, column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.impute import SimpleImputer

from deepsep.core.arrays import Array
from deepsep.core.model_parts import is_pipeline
from deepsep.table.arrow_frames import to_frame
from deepsep.table.columns import UsefulColumns, as_frame, as_text, check_names, convert, for_encoders
from deepsep.table.encoder import MAX_MATRIX_VALUE, TableEncoder, n_levels
from deepsep.table.normal_scores import InterpolatedScores


class Levels(NamedTuple):
    """A column of a category: its distinct values, cleaned, and which of them each row has."""

    names: list[str | None]
    codes: Array


class EncodedRows(NamedTuple):
    """Rows on their way to the matrix."""

    columns: Mapping[str, Any]  # as the model uses them: float64, Levels or a Series
    numbers: Array  # (numbers, n) of float32
    codes: list[Array]  # the line of each category's table
    others: Array  # (n, features): dates and texts

    def __len__(self) -> int:
        return len(self.others)


class CompiledEncoding:
    """Columnar code for the steps of a pipeline before its estimator.

    Use :meth:`of`, which returns None for steps that it does not know.
    """

    def __init__(self, useful: UsefulColumns, encoder: TableEncoder, imputer: SimpleImputer | None) -> None:
        self.useful, self.encoder = useful, encoder
        kinds = {int(j): kind for kind in ("numbers", "categories") for j in getattr(encoder, f"{kind}_")}
        self.kinds = {name: kinds.get(j, "other") for j, name in enumerate(useful.schema_)}
        self.names = list(useful.schema_)
        texts = [name for name, kind in useful.schema_.items() if kind == "text"]
        self.dictionaries = [name for name in texts if self.kinds[name] == "categories"]  # best read as such
        self.is_bounded = bool(encoder.scale)  # whether numbers of the matrix are finite and of ordinary size
        final = _Imputed(imputer, len(encoder.places_))
        self.n_features = final.n_features
        scores = encoder.number_scores_ if len(encoder.numbers_) else None
        self.scores = None if scores is None else InterpolatedScores(scores)
        place, start = encoder.places_, len(encoder.numbers_)
        self.numbers = final.at(place[:start])
        n_dates = sum(len(parts) for parts in encoder.date_parts_)
        dates = place[start : start + n_dates]
        start += n_dates
        self.tables = [] if not len(encoder.categories_) else level_tables(encoder.category_encoder_)
        self.categories = []
        for table in self.tables:
            end = start + table.rows.shape[1]
            self.categories.append(final.of_table(place[start:end], table.rows))
            start = end
        self.others = final.at(np.concatenate([dates, place[start:]]).astype(int))
        self._split_features(final, dates, place[start:])
        self._words: dict[str, dict[Any, str | None]] = {name: {} for name in self.names}  # cleaned

    def _split_features(self, final: _Imputed, dates: Array, texts: Array) -> None:
        """Set which features are plain numbers, and which are those of each category, all 0 but one that is 1."""
        self.groups: list[Array] = []
        self.levels: list[Array] = []
        total = sum(table.rows.shape[1] for table in self.tables)
        for pieces in self.categories:
            (columns, table), *more = pieces
            one_hot = np.isin(table, (0, 1)).all() and (table.sum(axis=1) <= 1).all()
            if more or not one_hot:
                self.groups = []
                return
            first = sum(map(len, self.groups))
            self.groups.append(np.arange(columns.start, columns.stop))
            self.levels.append(np.where(table.any(axis=1), first + table.argmax(axis=1), total))
        levels = np.concatenate([*self.groups, np.empty(0, int)])
        self.plain = np.setdiff1d(np.arange(self.n_features), levels)
        final = final.only(self.plain)
        self.plain_numbers = final.at(self.encoder.places_[: len(self.encoder.numbers_)])
        self.plain_others = final.at(np.concatenate([dates, texts]).astype(int))

    @classmethod
    def of(cls, model: Any) -> CompiledEncoding | None:
        """Return the compiled encoding of a fitted pipeline; None if some step is not of ``for_table``."""
        if not is_pipeline(model) or model.transform_input is not None:
            return None
        steps = [step for _, step in model.steps[:-1]]
        if [type(step) for step in steps[:2]] != [UsefulColumns, TableEncoder] or len(steps) > 3:
            return None
        if len(steps) == 2:
            return cls(steps[0], steps[1], None)
        imputer: Any = steps[2]
        plain = type(imputer) is SimpleImputer and np.isnan(imputer.missing_values) and not imputer.keep_empty_features
        return cls(steps[0], steps[1], imputer) if plain else None

    # -- from Arrow to columns -------------------------------------------------------------------------------

    def read(self, table: Any) -> EncodedRows:
        """Return the rows of an Arrow table, or raise the error of ``UsefulColumns.transform``."""
        check_names(self.useful.schema_, self.useful.left_out_, table.column_names)
        columns = {name: self._column(name, table[name]) for name in self.names}
        unusual = [name for name, column in columns.items() if column is None]
        if unusual:
            frame = as_frame(to_frame(table.select(unusual)))
            for name in unusual:
                kind = self.useful.schema_[name]
                try:
                    columns[name] = for_encoders(convert(frame[name], kind), kind)
                except (ValueError, TypeError):
                    self.useful.transform(to_frame(table))  # raises, and names all columns that have changed
                    raise
        blocks = self.encoder.other_blocks({j: columns[name] for j, name in enumerate(self.names)})
        others = np.column_stack([np.empty((len(table), 0), np.float32), *blocks])
        return EncodedRows(columns, self._numbers(columns, len(table)), self._codes(columns), others)

    def _column(self, name: str, column: Any) -> Any:
        """Return a column as float64, NaN where a value is missing, or as levels; None if it takes the ordinary way."""
        kind, wanted = self.useful.schema_[name], self.kinds[name]
        try:
            if wanted == "numbers" and kind == "number":
                return _as_numbers(column)
            if wanted == "categories":
                return _as_truth(column) if kind == "boolean" else self._as_levels(name, column)
        except (ValueError, TypeError, pa.ArrowException):  # such as text that is not UTF-8
            pass
        return None

    def _as_levels(self, name: str, column: Any) -> Levels | None:
        remembered = 100_000  # most words of a category whose meaning is remembered
        encoded = pa.types.is_dictionary(column.type)
        kind = column.type.value_type if encoded else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            return None
        column = _one_chunk(column.unify_dictionaries() if encoded else column.dictionary_encode())
        words, known = column.dictionary.to_pylist(), self._words[name]
        fresh = [word for word in words if word not in known]
        if fresh:
            text = as_text(pd.Series(fresh, dtype="str"))
            meaning = dict(zip(fresh, text.astype(object).where(text.notna(), None), strict=True))
            if len(known) + len(fresh) <= remembered:
                known.update(meaning)
            known = known | meaning
        codes = pc.fill_null(column.indices.cast(pa.int32()), len(words))
        return Levels([*(known[word] for word in words), None], codes.to_numpy())

    def _numbers(self, columns: Mapping[str, Any], n: int) -> Array:
        out = np.empty((len(self.encoder.numbers_), n), np.float32)
        for k, (j, size) in enumerate(zip(self.encoder.numbers_, self.encoder.sizes_, strict=True)):
            column = columns[self.names[j]]
            values = column if isinstance(column, np.ndarray) else column.to_numpy(np.float64)
            out[k] = np.clip(values if size == 1 else values / size, -MAX_MATRIX_VALUE, MAX_MATRIX_VALUE)
        return out

    def _codes(self, columns: Mapping[str, Any]) -> list[Array]:
        codes = []
        for j, table in zip(self.encoder.categories_, self.tables, strict=True):
            column = columns[self.names[j]]
            if not isinstance(column, Levels):
                at, words = pd.factorize(column, use_na_sentinel=True)
                column = Levels([*words.tolist(), None], np.where(at < 0, len(words), at))
            codes.append(np.array([table.lines.get(name, len(table.lines)) for name in column.names])[column.codes])
        return codes

    # -- from columns to the matrix --------------------------------------------------------------------------

    def matrix(self, rows: EncodedRows, start: int = 0, stop: int | None = None) -> Array:
        """Return the matrix of some rows, as the estimator takes it."""
        stop = len(rows) if stop is None else min(stop, len(rows))
        out = np.empty((stop - start, self.n_features), np.float32)
        self._put_plain(out, rows, start, stop, self.numbers, self.others)
        for codes, pieces in zip(rows.codes, self.categories, strict=True):
            lines = codes[start:stop]
            for columns, table in pieces:
                out[:, columns] = table[lines]
        return out

    def split(self, rows: EncodedRows, start: int, stop: int) -> tuple[Array, Array]:
        """Return the same in two parts: the plain features, and which level each category has, (n, categories).

        Levels are numbered over all categories; their number stands for none. There must be groups of them.
        """
        stop = min(stop, len(rows))
        out = np.empty((stop - start, len(self.plain)), np.float32)
        self._put_plain(out, rows, start, stop, self.plain_numbers, self.plain_others)
        levels = np.empty((stop - start, len(self.levels)), np.int64)
        for k, (level, codes) in enumerate(zip(self.levels, rows.codes, strict=True)):
            levels[:, k] = level[codes[start:stop]]
        return out, levels

    def _put_plain(
        self, out: Array, rows: EncodedRows, start: int, stop: int, numbers: _Features, others: _Features
    ) -> None:
        if len(rows.numbers):
            values = rows.numbers[:, start:stop]
            numbers.put(out, values if self.scores is None else self.scores(values))
        if rows.others.shape[1]:
            others.put(out, rows.others[start:stop].T)


def _as_numbers(column: Any) -> Array | None:
    if not (pa.types.is_integer(column.type) or column.type in (pa.float32(), pa.float64())):
        return None
    values = np.asarray(_one_chunk(column).to_numpy(zero_copy_only=False), np.float64)
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values


def _as_truth(column: Any) -> Levels | None:
    if not pa.types.is_boolean(column.type):
        return None
    codes = pc.fill_null(_one_chunk(column).cast(pa.int32()), 2)
    return Levels(["false", "true", None], codes.to_numpy())


def _one_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


# -- categories ------------------------------------------------------------------------------------------------


class LevelTable(NamedTuple):
    """Encoding of each level of a category, of a gap (None) and, in the last line, of any other word."""

    lines: dict[str | None, int]
    rows: Array


def level_tables(encoder: Any) -> list[LevelTable]:
    """Return the table of each category, by asking the fitted encoder about all levels."""
    levels = [[level for level in known if isinstance(level, str)] for known in encoder.categories_]
    cells = np.full((max(map(len, levels)) + 2, len(levels)), np.nan, dtype=object)
    for k, known in enumerate(levels):
        cells[: len(known), k] = known
        other = "?"
        while other in known:
            other += "?"
        cells[len(known) + 1, k] = other
    block = np.asarray(encoder.transform(cells), np.float32)
    tables, start = [], 0
    for known, width in zip(levels, n_levels(encoder), strict=True):
        lines = {level: i for i, level in enumerate([*known, None])}
        tables.append(LevelTable(lines, block[: len(known) + 2, start : start + width].copy()))
        start += width
    return tables


# -- gaps ------------------------------------------------------------------------------------------------------


class _Imputed:
    """Places of the features behind an imputer, its fill values, and the places of its marks."""

    def __init__(self, imputer: SimpleImputer | None, n: int) -> None:
        self.fill, self.to, self.mark = np.full(n, np.nan, np.float32), np.arange(n), np.full(n, -1)
        self.n_features = n
        if imputer is not None:
            kept = ~np.isnan(imputer.statistics_.astype(float))
            self.fill[kept] = imputer.statistics_[kept]
            self.to = np.where(kept, np.cumsum(kept) - 1, -1)
            marked = [] if imputer.indicator_ is None else imputer.indicator_.features_
            self.mark[marked] = kept.sum() + np.arange(len(marked))
            self.n_features = int(kept.sum()) + len(marked)

    def only(self, columns: Array) -> _Imputed:
        """Return the same for a matrix of some columns."""
        other = _Imputed(None, len(self.fill))
        place = np.full(self.n_features + 1, -1)  # the last for features that have none
        place[columns] = np.arange(len(columns))
        other.fill, other.to, other.mark = self.fill, place[self.to], place[self.mark]
        other.n_features = len(columns)
        return other

    def at(self, features: Array) -> _Features:
        return _Features(self.fill[features], self.to[features], self.mark[features])

    def of_table(self, features: Array, rows: Array) -> list[tuple[slice, Array]]:
        """Return runs of columns of the matrix, and what each line of a category's table puts there."""
        put = self.at(features)
        out = np.full((len(rows), self.n_features), np.nan, np.float32)
        put.put(out, rows.T)
        columns = np.sort(np.concatenate([put.to[put.to >= 0], put.mark[put.mark >= 0]]))
        return [(run, np.ascontiguousarray(out[:, run])) for _, run in _runs(columns)]


class _Features:
    """Puts features into the matrix, with their gaps filled and marked."""

    def __init__(self, fill: Array, to: Array, mark: Array) -> None:
        self.fill = fill[:, None]
        self.values, self.marks = list(_runs(to)), list(_runs(mark))
        self.to, self.mark = to, mark

    def put(self, out: Array, features: Array) -> None:
        """Write features, (k, n), into the matrix, (n, d)."""
        gaps = np.isnan(features)
        filled = np.where(gaps, self.fill, features)
        for rows, columns in self.values:
            out[:, columns] = filled[rows].T
        for rows, columns in self.marks:
            out[:, columns] = gaps[rows].T


def _runs(places: Array) -> Iterator[tuple[slice, slice]]:
    """Yield runs of consecutive places, with where they are in the array; -1 means none."""
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    for start, stop in zip([0, *cuts], [*cuts, len(places)], strict=True):
        if start < stop and places[start] >= 0:
            yield slice(int(start), int(stop)), slice(int(places[start]), int(places[stop - 1]) + 1)
