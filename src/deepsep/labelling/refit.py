"""A fit to the labels so far: which rows to ask about next, how accurate it should be, and which columns matter."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from deepsep.classifiers.committee import Committee
from deepsep.evaluation.expected_accuracy import expected_accuracy
from deepsep.evaluation.population import to_population
from deepsep.scoring.to_label import rows_to_label
from deepsep.table.pipeline import for_table, source_columns

Array = NDArray[Any]

FOREST = "random-forest"
MEMBERS = (FOREST, "lightgbm-few-labels")  # with which the choice of rows was measured; seconds, whatever the table
FEWEST = 10  # rows drawn at random and held out, from which on an accuracy is stated


class Job(NamedTuple):
    """What a refit needs.

    Attributes
    ----------
    X : DataFrame
        Labelled rows, and unlabelled ones to learn from and to choose among.
    labels : list of str or None
        Their labels.
    fair : array of bool
        Which labelled rows are like the others, and may tell the accuracy: not those that were chosen for being hard.
    free : array of bool
        Which rows may be chosen.
    n : int
        How many rows to choose.
    label : str
        Name of the column of labels.
    seed : int
        Seed of the fit and the choice.
    """

    X: pd.DataFrame
    labels: list[str | None]
    fair: Array
    free: Array
    n: int
    label: str
    seed: int


class Refit(NamedTuple):
    """What came out.

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
        committee = Committee(members=list(MEMBERS), effort="fast", student=False, n_jobs=1, random_state=job.seed)
        model = for_table(committee).fit(job.X, np.array(job.labels, dtype=object))
        chosen = []
        if job.free.any():
            known = np.flatnonzero(~job.free)
            asked = rows_to_label(model, job.X, job.n, label=job.label, known=known, random_state=job.seed)
            chosen = [int(row) for row in asked["row"]]
    return Refit(chosen, _accuracy(model[-1], job), _by_importance(model))


def _accuracy(committee: Any, job: Job) -> tuple[float, float, float] | None:
    held_out = committee.out_of_fold_
    unlabelled = np.array([label is None for label in job.labels])
    if held_out is None or not unlabelled.any():
        return None
    at = job.fair[held_out.rows]
    if at.sum() < FEWEST:
        return None
    codes = held_out.codes[at]
    weight = to_population(codes, None, committee.shares_)
    p = committee.label_distributions_[unlabelled]
    expected = expected_accuracy(p, np.ones(len(p)), held_out.p["committee"][at], codes, np.asarray(weight))
    return expected.value, expected.low, expected.high


def _by_importance(model: Pipeline) -> list[str]:
    """Return the columns that the model uses, by the forest's importance."""
    names = list(model[0].schema_)
    sources, forest = source_columns(model[:-1], names), model[-1].members_.get(FOREST)
    if sources is None or forest is None:
        return names
    importance = forest.estimator_.feature_importances_
    return [names[j] for j in np.argsort([-importance[at].sum() for at in sources], kind="stable")]
