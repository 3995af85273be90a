"""Out-of-fold predictions in a saved model: numbers of rows, folds and probabilities, but no features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deepsep.core.arrays import Array, checked_array
from deepsep.core.probability import check_probabilities
from deepsep.errors import DataError, ModelFileError
from deepsep.evaluation.folds import Folds
from deepsep.evaluation.out_of_fold import OutOfFold


def to_parts(held_out: OutOfFold) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return plain values and arrays from which :func:`from_parts` restores the predictions, without ``extras``.

    The classes of the rows are left out, since a model knows those of its training rows.
    """
    state = {
        "names": list(held_out.p),
        "seconds": held_out.seconds,
        "failures": held_out.failures,
        "n_repeats": held_out.folds.n_repeats,
        "seed": held_out.folds.seed,
        "notes": list(held_out.folds.notes),
    }
    arrays = {
        "rows": held_out.rows.astype(np.int32),
        "sizes": np.array([len(test) for test in held_out.folds.tests], np.int32),
        "n_training": held_out.n_training.astype(np.int32),
        "taking_part": held_out.folds.rows.astype(np.int32),
        "p": np.stack([*held_out.p.values()]).astype(np.float32),
    }
    if held_out.weight is not None:
        arrays["weight"] = held_out.weight
    return state, arrays


def from_parts(state: Mapping[str, Any], arrays: Mapping[str, Any], codes: Array, classes: Array) -> OutOfFold:
    """Return the predictions from the result of :func:`to_parts` and the classes of all training rows, or raise."""
    names, sizes = list(state["names"]), checked_array(arrays, "sizes", (None,), "i")
    rows, taking_part = (checked_array(arrays, name, (None,), "i") for name in ("rows", "taking_part"))
    p = checked_array(arrays, "p", (len(names), len(rows), len(classes)), "f")
    weight = checked_array(arrays, "weight", (len(rows),), "f") if "weight" in arrays else None
    n_training = checked_array(arrays, "n_training", (len(sizes),), "i")
    n_repeats = state["n_repeats"]
    if not _fit_together(rows, sizes, taking_part, n_repeats, len(codes)) or not _are_weights(weight):
        raise ModelFileError("the rows and folds of the model's predictions do not fit together. Save it again.")
    try:
        for each in p:
            check_probabilities(each)
    except DataError:
        raise ModelFileError("the model's predictions out of fold are not probabilities. Save it again.") from None
    tests = np.split(rows, np.cumsum(sizes)[:-1])
    return OutOfFold(
        rows=rows,
        fold=np.repeat(np.arange(len(sizes)), sizes),
        codes=codes[rows],
        classes=classes,
        weight=weight,
        p=dict(zip(names, p, strict=True)),
        seconds=dict(state["seconds"]),
        failures=dict(state["failures"]),
        n_training=n_training,
        extras=[{} for _ in tests],
        folds=Folds(taking_part, tuple(tests), n_repeats, state["seed"], tuple(state["notes"])),
    )


def _fit_together(rows: Array, sizes: Array, taking_part: Array, n_repeats: Any, n: int) -> bool:
    """Return whether every repeat holds out as many rows, none twice, all of them among those that take part."""
    if not (isinstance(n_repeats, int) and n_repeats > 0 and len(rows)):
        return False
    if len(sizes) % n_repeats or len(rows) % n_repeats or (sizes < 1).any() or sizes.sum() != len(rows):
        return False
    if any(len(np.unique(part)) < len(part) for part in np.split(rows, n_repeats)):
        return False
    return bool(np.isin(rows, taking_part).all() and taking_part.min() >= 0 and taking_part.max() < n)


def _are_weights(weight: Array | None) -> bool:
    return weight is None or bool((np.isfinite(weight) & (weight >= 0)).all() and weight.any())
