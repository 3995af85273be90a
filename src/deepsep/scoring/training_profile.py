"""Give a model a profile of its training table, and compare other tables with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from deepsep.core.checks import row_weights
from deepsep.core.labels import given_labels
from deepsep.core.model_parts import is_pipeline
from deepsep.drift.counts import Counts, one_in
from deepsep.drift.differences import find_drift
from deepsep.drift.profile import profile_table
from deepsep.errors import DataError, ParameterError
from deepsep.models import fingerprint_of, profile_of
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decisions
from deepsep.scoring.frame import RowScorer
from deepsep.table.columns import UsefulColumns, as_frame


def remember_training(model: Any, X: Any, y: Any, sample_weight: Any = None) -> None:
    """Give a fitted model a profile of its training table, with which rows to score are compared from then on.

    The profile, ``model.training_profile_``, is saved with the model. It has quantiles and shares of frequent levels of
    each column and of the answers, and no rows. ``deepsep fit`` makes it for every model.

    Parameters
    ----------
    model : Pipeline
        A fitted pipeline of :func:`deepsep.for_table`.
    X : DataFrame
        The rows that it was fitted to, labelled and unlabelled.
    y, sample_weight : array-like of shape (n,)
        Their labels and, optionally, weights.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from deepsep import TSVM, for_table
    >>> from deepsep.scoring import compare_with_training, remember_training
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.normal(40.0, 10, 400), "income": rng.normal(30_000.0, 5_000, 400)})
    >>> young = np.where(table["age"] < 40, "young", "old")
    >>> labels = np.where(np.arange(400) < 30, young, None)
    >>> model = for_table(TSVM()).fit(table, labels)
    >>> remember_training(model, table, labels)
    >>> compare_with_training(model, table)["drifted"]
    False
    >>> compare_with_training(model, table.assign(age=table["age"] + 5))["notices"][-1]
    'age: 27 % of the values are 38.5 or less; 47 % in the training table.'
    """
    if not (is_pipeline(model) and isinstance(model[0], UsefulColumns)):
        raise ParameterError(
            "only a pipeline of deepsep.for_table remembers its training table: it knows the types of the columns."
        )
    remember_columns(model, model[0].transform(as_frame(X)), y, sample_weight)


def remember_columns(model: Any, columns: pd.DataFrame, y: Any, sample_weight: Any = None) -> None:
    """Give a model a profile of its training table, whose columns its first step has made already."""
    labeled = given_labels(y)[0] if not hasattr(y, "labeled") else y.labeled
    if len(columns) != len(labeled):
        raise DataError(f"X has {len(columns)} rows and y has {len(labeled)} entries; they must match.")
    proba = getattr(model[-1], "label_distributions_", None)
    if getattr(model[-1], "labels_its_rows_apart", False):
        proba = None
    elif proba is None or len(proba) != len(columns):
        proba = np.asarray(model[1:].predict_proba(columns)) if hasattr(model, "predict_proba") else None
    model.training_profile_ = profile_table(
        columns,
        proba,
        weight=row_weights(columns, sample_weight),
        unlabeled=~labeled,
        data=fingerprint_of(model),
    )


def compare_with_training(model: Any, table: Any) -> dict[str, Any]:
    """Return how the rows of a table differ from the training table of a model.

    A difference counts if it is too large for chance and large enough to matter; docs/how-to/predictions/drift.md has
    the limits.

    Parameters
    ----------
    model : Pipeline
        A model with a profile of its training table: written by ``deepsep fit``, or see :func:`remember_training`.
    table : DataFrame
        Rows of pandas, polars or Arrow.

    Returns
    -------
    dict
        ``drifted``, whether anything differs; ``notices``, a sentence for each difference, the largest first; ``rows``,
        ``rows_compared`` and ``training_rows``; ``columns`` and ``answers``, the figures.
    """
    together = 20_000  # rows
    profile = profile_of(model)
    if profile is None:
        raise DataError(
            "the model has no profile of its training table. Fit it again with deepsep fit, or call "
            "deepsep.scoring.remember_training."
        )
    frame = as_frame(table)
    counts, scorer = Counts(profile, one_in(len(frame))), RowScorer(model, Decisions.of(model, MOST_PROBABLE_CLASS))
    for start in range(0, len(frame), together):
        scorer(frame[start : start + together], start).count(counts, start)
    return find_drift(profile, counts, np.asarray(model.classes_).tolist())
