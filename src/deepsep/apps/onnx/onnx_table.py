"""The encoding of a table as ONNX operators: from one tensor per column to the matrix that a network takes."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from deepsep.apps.onnx.onnx_graph import ML_DOMAIN, Graph, Tensor
from deepsep.core.arrays import Array
from deepsep.errors import DataError, ParameterError
from deepsep.table.column_types import MISSING_WORDS
from deepsep.table.columns import UsefulColumns
from deepsep.table.encoder import MAX_MATRIX_VALUE, TableEncoder

FLOAT_NAN = np.float32(np.nan)


def check_expressible(model: Pipeline) -> None:
    """Raise an error that lists the columns, or the steps, that ONNX has no operators for."""
    steps = [step for _, step in model.steps[:-1]]
    kinds = [type(step) for step in steps]
    if kinds not in ([UsefulColumns, TableEncoder], [UsefulColumns, TableEncoder, SimpleImputer]):
        names = ", ".join(kind.__name__ for kind in kinds)
        raise ParameterError(
            f"the export to ONNX knows the encoding of deepsep.for_table, but this pipeline has the steps {names}. Fit "
            "for_table(...) instead, or export model[-1] and encode the rows yourself."
        )
    encoder = steps[1]
    if not encoder.scale:
        raise ParameterError("the table is encoded for trees, and ONNX gets networks only. Fit a Committee or DeepSep.")
    texts = [str(encoder.feature_names_in_[j]) for j in encoder.texts_]
    if texts or "" in encoder.feature_names_in_:
        lines = [f"  {name!r}: text of many different values, which is encoded by its letters" for name in texts]
        lines += ["  '': ONNX needs a name for every input"] if "" in encoder.feature_names_in_ else []
        listed = "\n".join(lines)
        raise DataError(
            f"ONNX cannot express these columns:\n{listed}\nLeave them out, or group their values into "
            "fewer than 100, name every column, and fit again. Or serve the model with Python."
        )


def declare_columns(graph: Graph, model: Pipeline) -> dict[str, Tensor]:
    """Declare an input for each column of the table."""
    types: dict[str, type] = {"number": np.float32, "date": np.float64, "boolean": str, "text": str}
    schema, far = model[0].schema_, far_columns(model[1])
    return {name: graph.input(name, np.float64 if name in far else types[kind]) for name, kind in schema.items()}


def far_columns(encoder: TableEncoder) -> set[str]:
    """Return the columns of numbers that single precision cannot hold before they are divided by their size."""
    return {str(encoder.feature_names_in_[j]) for j in encoder.numbers_[encoder.sizes_ != 1]}


def encode_table(graph: Graph, model: Pipeline, columns: dict[str, Tensor]) -> Tensor:
    """Return the matrix, (rows, features) of single precision, that the steps before the last make of the columns."""
    encoder = model[1]
    truths = {name for name, kind in model[0].schema_.items() if kind == "boolean"}
    blocks = graph.concat(list(_blocks(graph, encoder, columns, truths)))
    features = graph.gather(blocks, np.argsort(encoder.places_), axis=1)
    for imputer in model[2:-1]:
        features = _fill(graph, imputer, features)
    return features


def _blocks(
    graph: Graph, encoder: TableEncoder, columns: dict[str, Tensor], truths: Container[str]
) -> Iterator[Tensor]:
    """Yield the features of each kind, in the order of ``TableEncoder``."""
    name = encoder.feature_names_in_
    if len(encoder.numbers_):
        pairs = zip(encoder.numbers_, encoder.sizes_, strict=True)
        numbers = [_number(graph, columns[name[j]], size) for j, size in pairs]
        yield _normal_scores(graph, encoder.number_scores_, graph.concat(numbers))
    if len(encoder.dates_):
        pairs = zip(encoder.dates_, encoder.date_parts_, strict=True)
        parts = [part for j, names in pairs for part in _date_parts(graph, columns[name[j]], names)]
        yield _normal_scores(graph, encoder.date_scores_, graph.concat(parts))
    if len(encoder.categories_):
        one_hot = encoder.category_encoder_
        every = zip(encoder.categories_, one_hot.categories_, one_hot.infrequent_categories_, strict=True)
        yield graph.concat(
            [_one_hot(graph, columns[name[j]], levels, rare, name[j] in truths) for j, levels, rare in every]
        )


def _number(graph: Graph, x: Tensor, size: float) -> Tensor:
    """Return a column of numbers in single precision, NaN where one is missing or infinite."""
    if size == 1:
        return graph.op("Where", graph.op("IsInf", x), FLOAT_NAN, x)
    known = graph.op("Where", graph.op("IsInf", x), np.float64(np.nan), x) / np.float64(size)
    return graph.cast(graph.op("Clip", known, np.float64(-MAX_MATRIX_VALUE), np.float64(MAX_MATRIX_VALUE)), np.float32)


def _normal_scores(graph: Graph, scores: Any, x: Tensor) -> Tensor:
    """Return ``scores.transform(x)``: linear between knots, which are found in two steps, block and place in it."""
    starts = [0, *scores.ends_[:-1]]
    knots = [scores.values_[start:end] for start, end in zip(starts, scores.ends_, strict=True)]
    values = [scores.scores_[start:end] for start, end in zip(starts, scores.ends_, strict=True)]
    side = int(np.ceil(np.sqrt(max(map(len, knots)))))
    shape = (len(knots), side * side)
    tables = knot, value, slope = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape)
    for k, (at, score) in enumerate(zip(knots, values, strict=True)):
        knot[k, : len(at)], value[k, : len(at)] = at, score
        slope[k, : len(at) - 1] = np.diff(score) / np.diff(at)
    blocks = knot.astype(np.float32).reshape(len(knots), side, side)
    lowest, highest = (np.array([at[i] for at in knots], np.float32) for i in (0, -1))

    gap = graph.op("IsNaN", x)
    x = graph.op("Min", graph.op("Max", graph.op("Where", gap, lowest, x), lowest), highest)
    reach = graph.op("Unsqueeze", x, np.array([2]))

    def passed(knots: Any) -> Tensor:
        below = graph.cast(graph.op("LessOrEqual", knots, reach), np.int64)
        return graph.op("ReduceSum", below, np.array([2]), keepdims=0) - np.int64(1)

    block = passed(blocks[:, :, 0]) + side * np.arange(len(knots))
    place = block * np.int64(side) + passed(graph.gather(blocks.reshape(-1, side), block))
    start, height, rise = (graph.gather(table.ravel(), place) for table in tables)
    found = height + rise * (graph.cast(x, np.float64) - start)
    return graph.op("Where", gap, FLOAT_NAN, graph.cast(found, np.float32))


def _date_parts(graph: Graph, seconds: Tensor, names: list[str]) -> list[Tensor]:
    """Return parts of dates given as seconds since 1970, NaN where one is missing.

    Year, month and day are counted from March of the year 0, so that the leap day is the last of its year.
    """
    gap = graph.op("IsNaN", seconds)
    known = graph.op("Where", gap, np.float64(0), seconds)
    per_day = 86_400.0
    days = graph.op("Floor", known / per_day)
    z = graph.cast(days, np.int64) + np.int64(719_468)
    era = z / np.int64(146_097)
    of_era = z % np.int64(146_097)
    leap = of_era - of_era / np.int64(1_460) + of_era / np.int64(36_524) - of_era / np.int64(146_096)
    year = leap / np.int64(365)
    of_year = of_era - (year * np.int64(365) + year / np.int64(4) - year / np.int64(100))
    from_march = (of_year * np.int64(5) + np.int64(2)) / np.int64(153)
    month = (from_march + np.int64(2)) % np.int64(12) + np.int64(1)
    parts = {
        "year": year + era * np.int64(400) + from_march / np.int64(10),
        "month": month,
        "day": of_year - (from_march * np.int64(153) + np.int64(2)) / np.int64(5) + np.int64(1),
        "hour": graph.op("Floor", (known - days * per_day) / 3_600.0),
        "total_seconds": known,
        "weekday": (z + np.int64(2)) % np.int64(7) + np.int64(1),
    }
    return [graph.op("Where", gap, FLOAT_NAN, graph.cast(parts[name], np.float32)) for name in names]


def _one_hot(graph: Graph, text: Tensor, levels: Array, rare: Array | None, is_truth: bool) -> Tensor:
    """Return one feature per frequent level, and one that rare and new levels share, if there are rare ones."""
    few = {_name(level) for level in (() if rare is None else rare)}
    frequent = [_name(level) for level in levels if _name(level) not in few]
    n = len(frequent) + (rare is not None)
    others = len(frequent) if rare is not None else n  # the row of zeros
    code = {name: i for i, name in enumerate(frequent)}
    code |= dict.fromkeys(MISSING_WORDS, code.get("", others))
    if is_truth:
        words = {"true": ("true", "True", "TRUE", "1"), "false": ("false", "False", "FALSE", "0")}
        code |= {word: code.get(level, others) for level in words for word in words[level]}
    numbers = graph.op(
        "LabelEncoder",
        text,
        domain=ML_DOMAIN,
        keys_strings=list(code),
        values_int64s=list(code.values()),
        default_int64=others,
    )
    return graph.op("Squeeze", graph.gather(np.eye(n + 1, n, dtype=np.float32), numbers), np.array([1]))


def _name(level: Any) -> str:
    return "" if level != level else str(level)


def _fill(graph: Graph, imputer: SimpleImputer, features: Tensor) -> Tensor:
    """Return the features without gaps, then which of them had one; features without any value are left out."""
    gap = graph.op("IsNaN", features)
    filled = graph.op("Where", gap, np.nan_to_num(imputer.statistics_).astype(np.float32), features)
    kept = np.flatnonzero(~np.isnan(imputer.statistics_))
    parts = [filled if len(kept) == len(imputer.statistics_) else graph.gather(filled, kept, axis=1)]
    if imputer.indicator_ is not None and len(imputer.indicator_.features_):
        parts.append(graph.cast(graph.gather(gap, imputer.indicator_.features_, axis=1), np.float32))
    return graph.concat(parts)
