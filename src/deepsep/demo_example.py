"""The paper's use case on public data: a small survey, a table of everyone, and the true segments to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep.classifiers.catalogue import find_method, method
from deepsep.datasets import load_nhanes
from deepsep.survey import write_segments
from deepsep.table import for_table

if TYPE_CHECKING:
    import pandas as pd

ID = "SEQN"
ANSWERS, PEOPLE, SURVEY, NEWCOMERS = "answers.parquet", "people.parquet", "survey.csv", "newcomers.parquet"
SEGMENTS, MODEL, SCORED = "segments", "model", "scored.parquet"
LABELS, LATER = 100, 500  # people whose segment is known, and people who arrive later
SUPERVISED = ("random-forest", "lightgbm-few-labels")  # methods that the model is compared with


@dataclass(frozen=True)
class Story:
    """Contents of the demo's files.

    Attributes
    ----------
    segments : SurveySegments
        The segments of the answers.
    segment : Series
        The true segment of everyone, by identifier; most of it is hidden from the models.
    n_people, n_columns, n_questions : int
        Number of people in ``people.parquet``, of its columns, and of questions in the survey.
    """

    segments: Any
    segment: pd.Series[Any]
    n_people: int
    n_columns: int
    n_questions: int


def write_files(folder: Path, *, seed: int = 0) -> Story:
    """Write the survey and the tables of NHANES 2017-18 for the demo.

    ====================  ========================================================================================
    answers.parquet       everyone's answers to the questionnaire
    segments/             the five segments of their answers
    people.parquet        the profile of all but 500 people
    survey.csv            the segments of 100 of them, drawn at random
    newcomers.parquet     the profile of the other 500
    ====================  ========================================================================================
    """
    nhanes = load_nhanes()
    order = np.random.default_rng(seed).permutation(len(nhanes.profile))
    later = np.sort(order[:LATER])
    here, asked = np.sort(order[LATER:]), np.sort(order[LATER : LATER + LABELS])
    nhanes.answers.reset_index().to_parquet(folder / ANSWERS, index=False)
    write_segments(nhanes.segments, nhanes.answers, folder / SEGMENTS, ids=nhanes.answers.index, id_name=ID)
    nhanes.profile.iloc[here].reset_index().to_parquet(folder / PEOPLE, index=False)
    nhanes.profile.iloc[later].reset_index().to_parquet(folder / NEWCOMERS, index=False)
    known = nhanes.segment.iloc[asked].to_frame().assign(probability=nhanes.segments.probability_[asked].round(4))
    known.reset_index().to_csv(folder / SURVEY, index=False)
    return Story(nhanes.segments, nhanes.segment, len(here), nhanes.profile.shape[1], nhanes.answers.shape[1])


def score_supervised(
    X: Any, y: Any, truth: Any, *, seed: int = 0, on_step: Callable[[int, int, str], object] | None = None
) -> dict[str, float]:
    """Return the accuracy on the hidden rows of methods that learn from labelled rows alone."""
    hidden = y.isna().to_numpy()
    right = np.asarray(truth)[hidden]
    accuracy = {}
    for i, record in enumerate(find_method(name) for name in SUPERVISED):
        if on_step is not None:
            on_step(i, len(SUPERVISED), record.title)
        model = for_table(method(record.name, random_state=seed)).fit(X, y)
        accuracy[record.title] = float((model.predict(X[hidden]) == right).mean())
    if on_step is not None:
        on_step(len(SUPERVISED), len(SUPERVISED), "done")
    accuracy["most frequent segment"] = float((right == y.mode()[0]).mean())
    return accuracy
