"""Checks of restored transformers whose code trusts their attributes: a forged index could lead it anywhere in memory.

Most transformers compute with NumPy, which checks shapes and indices itself. The exceptions are here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np


def check_step(step: Any) -> None:
    """Raise ValueError if compiled code could not trust this transformer. Its own steps are checked separately."""
    for kind in type(step).__mro__:
        if kind.__name__ in STEP_CHECKS:
            STEP_CHECKS[kind.__name__](step)
    if isinstance(getattr(step, "n_jobs", None), int):
        step.n_jobs = min(step.n_jobs, os.cpu_count() or 1)


def _check_pipeline(step: Any) -> None:
    step.memory = None  # a folder of pickles, which the next fit would open


def _check_one_hot(step: Any) -> None:
    """Raise unless a one-hot encoder has a column for every category of a row."""
    if not hasattr(step, "categories_"):
        return
    n = len(step.categories_)
    mappings = step._default_to_infrequent_mappings if step._infrequent_enabled else [None] * n
    rare = step._infrequent_indices if step._infrequent_enabled else [None] * n
    dropped = step._drop_idx_after_grouping
    if not (n == step.n_features_in_ == len(mappings) == len(rare) == len(step._n_features_outs)):
        raise ValueError("a one-hot encoder has parts of different lengths")
    for i, categories in enumerate(step.categories_):
        width = len(categories)
        _need_integers(rare[i], width)
        mapping = mappings[i]
        if mapping is not None:
            _need_integers(mapping, width, length=width)
            width = int(mapping.max()) + 1
        if dropped is not None and dropped[i] is not None:
            width -= 1
        if categories.ndim != 1 or not len(categories) or step._n_features_outs[i] != width:
            raise ValueError("a one-hot encoder has more categories than columns")
        if categories.dtype.kind not in "OU":
            known = categories[~np.isnan(categories)] if categories.dtype.kind == "f" else categories
            if len(known) < len(categories) - 1 or (known[1:] <= known[:-1]).any():  # found by bisection
                raise ValueError("the categories of a one-hot encoder are not in order")


def _need_integers(array: Any, limit: int, length: int | None = None) -> None:
    if array is None:
        return
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array) or (length or len(array)) != len(array):
        raise ValueError("indices of categories are not integers, one for each")
    if array.min() < 0 or array.max() >= limit:
        raise ValueError("a category does not exist")


def _check_vocabulary(step: Any) -> None:
    """Raise unless words are numbered from 0 on: the numbers are columns of a sparse matrix."""
    if getattr(step, "input", "content") != "content":
        raise ValueError("a vectorizer would read files")
    words: dict[str, Any] = getattr(step, "vocabulary_", {})
    if sorted(_integers(words.values())) != list(range(len(words))):
        raise ValueError("the words of a vectorizer are not numbered")


def _check_hashes(step: Any) -> None:
    (count,) = _integers([step.n_features])
    if not 1 <= count < 2**31:
        raise ValueError(f"{count} hashed features")
    if getattr(step, "input", "content") not in ("content", "dict", "pair", "string"):
        raise ValueError("a vectorizer would read files")


def _check_table_encoder(step: Any) -> None:
    """Raise unless every feature has a place, since rows would otherwise have arbitrary content of the memory."""
    places = getattr(step, "places_", np.empty(0, int))
    if not np.array_equal(np.sort(places), np.arange(len(places))):
        raise ValueError("features of the table have no place")


def _check_spline(spline: Any) -> None:
    t, c, (k,) = spline.t, spline.c, _integers([spline.k])
    if not (t.dtype == c.dtype == np.float64 and t.ndim == 1 and c.ndim >= 1 and spline.axis == 0):
        raise ValueError("a spline has parts of another kind")
    if not (k >= 0 and len(t) >= 2 * k + 2 and len(c) >= len(t) - k - 1 and np.isfinite(t).all()):
        raise ValueError("a spline has parts of other lengths")
    if (np.diff(t) < 0).any():
        raise ValueError("the knots of a spline are not in order")


def _integers(values: Iterable[Any]) -> list[int]:
    numbers = list(values)
    if not all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in numbers):
        raise ValueError("a count is not an integer")
    return [int(number) for number in numbers]


STEP_CHECKS = {
    "Pipeline": _check_pipeline,
    "OneHotEncoder": _check_one_hot,
    "CountVectorizer": _check_vocabulary,
    "DictVectorizer": _check_vocabulary,
    "FeatureHasher": _check_hashes,
    "HashingVectorizer": _check_hashes,
    "BSpline": _check_spline,
    "TableEncoder": _check_table_encoder,
}
