"""What a model says about labelled rows when it has not seen their labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from deepsep.core.checks import check_priors
from deepsep.errors import DeepSepWarning
from deepsep.evaluation.folds import LabelledFold

Array = NDArray[Any]


def out_of_fold(
    model: Any,
    X: Any,
    codes: Array,
    weight: Array,
    say: Callable[[Any, Any], Array],
    *,
    folds: int,
    seed: int,
    **changes: Any,
) -> tuple[Array, Array]:
    """Fit copies of a model, each without the labels of one fold, and return (rows, what they say about them).

    Parameters
    ----------
    model : estimator
        Its settings are copied, with ``changes``; ``classes_`` is set.
    X, codes, weight
        All rows; codes are -1 for unlabelled ones, and rows of weight 0 are left out.
    say : callable
        ``say(copy, rows)`` returns an array with a row for each row.
    folds, seed : int
        The number of folds, each class having at least as many labelled rows, and the seed of everything random.
    """
    used = np.flatnonzero(weight > 0)
    priors = None if model.priors is None else dict(enumerate(check_priors(model.priors, model.classes_)))
    rows, said = [], []
    for train, test in LabelledFold(folds, random_state=seed).split(None, codes[used]):
        copy = clone(model).set_params(**changes, priors=priors, random_state=seed)
        copy._is_part = True  # of a larger fit: Ctrl-C must end that one
        at, held = used[train], used[test]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)  # the fit on all rows has said it
            copy.fit(X[at], codes[at], sample_weight=None if (weight == 1).all() else weight[at])
        rows.append(held)
        said.append(say(copy, X[held]))
    return np.concatenate(rows), np.concatenate(said)
