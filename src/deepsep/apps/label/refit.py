"""A fit to the labels so far: rows to ask about next, the accuracy to expect, and the columns by importance."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from deepsep.classifiers.committee.committee import Committee
from deepsep.model.table_model import for_table
from deepsep.scoring.to_label import rows_to_label
from deepsep.table.pipeline import source_columns

Array = NDArray[Any]

REFIT_MEMBERS = ["random-forest", "lightgbm-few-labels"]  # as in benchmarks/labelling.py; they take seconds


class Job(NamedTuple):
    """Input of a refit.

    Attributes
    ----------
    X : DataFrame
        Labelled rows, and unlabelled ones to learn from and to choose among.
    labels : list of str or None
        Their labels.
    labels_drawn : list of str or None
        The origin of each label: only labels drawn at random, or for quotas, tell the accuracy.
    free : array of bool
        Whether a row may be chosen.
    n : int
        Number of rows to choose.
    label : str
        Name of the column of labels.
    seed : int
        Seed of the fit and the choice.
    """

    X: pd.DataFrame
    labels: list[str | None]
    labels_drawn: list[str | None]
    free: Array
    n: int
    label: str
    seed: int


class Refit(NamedTuple):
    """Result of a refit.

    Attributes
    ----------
    rows : list of int
        Places of the chosen rows in the table of the job, the most uncertain first.
    accuracy : tuple of float, optional
        The share of the unlabelled rows that should be right, and the ends of an interval of 90 %; None if too few rows
        can tell.
    columns : list of str
        The columns that the model uses, the most important first.
    """

    rows: list[int]
    accuracy: tuple[float, float, float] | None
    columns: list[str]


def refit(job: Job) -> Refit:
    """Fit a forest and LightGBM that decide together, choose rows as ``deepsep next`` does, and measure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        committee = Committee(members=REFIT_MEMBERS, effort="fast", student=False, n_jobs=1, random_state=job.seed)
        labels = np.array(job.labels, dtype=object)
        model = for_table(committee).fit(job.X, labels, committee__labels_drawn=job.labels_drawn)
        chosen = []
        if job.free.any():
            known = np.flatnonzero(~job.free)
            asked = rows_to_label(
                model,
                job.X,
                job.n,
                label=job.label,
                known=known,
                random_state=job.seed,
                random_every=None,  # the page draws such rows itself
            )
            chosen = [int(row) for row in asked["row"]]
    expected = model[-1].expected_accuracy_
    accuracy = None if expected is None else (expected.value, expected.low, expected.high)
    return Refit(chosen, accuracy, _by_importance(model))


def _by_importance(model: Pipeline) -> list[str]:
    """Return the columns that the model uses, by the forest's importance."""
    names = list(model[0].schema_)
    sources, forest = source_columns(model[:-1], names), model[-1].members_.get("random-forest")
    if sources is None or forest is None:
        return names
    importance = forest.estimator_.feature_importances_
    return [names[j] for j in np.argsort([-importance[at].sum() for at in sources], kind="stable")]
