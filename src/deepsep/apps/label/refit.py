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
    """Input of a refit."""

    X: pd.DataFrame  # labelled rows, and unlabelled ones to learn from and to choose among
    labels: list[str | None]  # their labels
    # the origin of each label: only labels drawn at random, or for quotas, tell the accuracy
    labels_drawn: list[str | None]
    free: Array  # whether a row may be chosen
    n: int  # number of rows to choose
    label: str  # name of the column of labels
    seed: int  # seed of the fit and the choice


class Refit(NamedTuple):
    """Result of a refit."""

    rows: list[int]  # places of the chosen rows in the table of the job, the most uncertain first
    # share of unlabelled rows that should be right, and the ends of its 90 % interval; None if too few rows can tell
    accuracy: tuple[float, float, float] | None
    columns: list[str]  # the columns that the model uses, the most important first


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
