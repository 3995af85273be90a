"""Labels that may be wrong: those to which predictions out of fold give little probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.core.model_parts import split_model
from deepsep.errors import DataError, ParameterError
from deepsep.evaluation.out_of_fold import MODEL_NAME, OutOfFold

SUSPICIOUS_COLUMNS = ("given", "predicted", "probability_given", "probability_predicted", "trust")


def suspicious_labels(source: Any, *, ids: Sequence[Any] | None = None) -> Any:
    """Rank the labels of the labelled rows, with those that are most likely to be wrong first.

    Each label is compared with the prediction for its row by models that had not seen it. A class that is hard to
    recognise gets little probability everywhere, so the probability of a label is divided by the mean of its class. A
    low value is a reason to look at the row again, not proof: if the model is often wrong, so is this list.

    Parameters
    ----------
    source : fitted Committee, pipeline that ends in one, or OutOfFold
        Source of the predictions. For another method, pass the result of :func:`deepsep.out_of_fold`.
    ids : sequence of shape (n,), optional
        Identifiers of all rows of the training table; by default their numbers.

    Returns
    -------
    pandas.DataFrame
        One line per labelled row that was held out: ``row`` (or the name of ``ids``), ``given`` (the label),
        ``predicted`` (the most probable class), ``probability_given``, ``probability_predicted``, and ``trust``: the
        probability of the label, divided by the mean among all rows with this label.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep import TSVM, out_of_fold, suspicious_labels
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    >>> y = np.full(400, None)
    >>> y[:10], y[-10:] = "low", "high"
    >>> y[3] = "high"  # a mistake
    >>> suspicious_labels(out_of_fold(TSVM(), X, y, random_state=0))[["row", "given", "predicted"]].head(1)
       row given predicted
    0    3  high       low
    """
    held_out = _held_out(source)
    p = held_out.p["committee" if "committee" in held_out.p else MODEL_NAME]
    return rank_labels(held_out.rows, held_out.codes, p, held_out.classes, ids)


def rank_labels(rows: Array, codes: Array, p: Array, classes: Array, ids: Sequence[Any] | None = None) -> Any:
    """Return the frame of :func:`suspicious_labels` from predictions out of fold; a row may occur several times."""
    import pandas as pd

    rows, first, place = np.unique(rows, return_index=True, return_inverse=True)
    mean = np.zeros((len(rows), len(classes)))
    np.add.at(mean, place, p)
    mean /= np.bincount(place)[:, None]
    codes = codes[first]
    values = trust(mean, codes)
    name, names = "row", rows
    if ids is not None:
        if len(ids) <= rows.max(initial=-1):
            raise DataError(f"there are ids for {len(ids)} rows, but the model was fitted to more. Pass one per row.")
        name, names = str(getattr(ids, "name", None) or "id"), np.asarray(ids)[rows]
        name = "id" if name in SUSPICIOUS_COLUMNS else name
    given, predicted = classes[codes], classes[mean.argmax(axis=1)]
    columns = (given, predicted, mean[np.arange(len(mean)), codes], mean.max(axis=1), values)
    frame = pd.DataFrame({name: names, **dict(zip(SUSPICIOUS_COLUMNS, columns, strict=True))})
    return frame.iloc[np.argsort(values, kind="stable")].reset_index(drop=True)


def doubtful_labels(frame: Any, n_classes: int) -> Any:
    """Return the lines of :func:`suspicious_labels` whose label is improbable.

    Its probability, by models that have not seen it, is at most half of a guess: 25 % with two classes, 10 % with five.
    """
    return frame[frame["probability_given"] <= 0.5 / n_classes].reset_index(drop=True)


def trust(p: Array, codes: Array) -> Array:
    """Return the probability of each label, divided by the mean among the rows that have it.

    Examples
    --------
    >>> trust(np.array([[0.9, 0.1], [0.3, 0.7], [0.4, 0.6]]), np.array([0, 0, 1])).round(2)
    array([1.5, 0.5, 1. ])
    """
    given = p[np.arange(len(p)), codes]
    typical = np.bincount(codes, given, minlength=p.shape[1]) / np.maximum(np.bincount(codes, minlength=p.shape[1]), 1)
    return np.asarray(given / np.maximum(typical, np.finfo(float).tiny)[codes])


def _held_out(source: Any) -> OutOfFold:
    if isinstance(source, OutOfFold):
        return source
    held_out = getattr(split_model(source)[1], "out_of_fold_", None)
    if not isinstance(held_out, OutOfFold):
        raise ParameterError(
            f"{type(split_model(source)[1]).__name__} has no predictions out of fold. Pass a fitted committee that "
            "could hold labels out, or the result of deepsep.out_of_fold."
        )
    return held_out
