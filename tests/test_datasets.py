"""The tables that ship with deepsep, and the generator: what they promise is so."""

import hashlib
import runpy
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

import deepsep
import deepsep.datasets._nhanes as nhanes_module
from deepsep import for_table
from deepsep.datasets import load_nhanes, make_survey
from deepsep.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def nhanes():
    return load_nhanes()


# -- NHANES --------------------------------------------------------------------------------------------------


def test_shipped_files_have_the_recorded_hashes_and_are_small():
    folder = resources.files("deepsep.datasets").joinpath("data")
    contents = {name: folder.joinpath(name).read_bytes() for name in nhanes_module.FILES}
    assert {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()} == nhanes_module.FILES
    assert sum(map(len, contents.values())) < 1_000_000


def test_a_damaged_file_is_noticed(monkeypatch):
    monkeypatch.setitem(nhanes_module.FILES, "profile.parquet", "0" * 64)
    with pytest.raises(DataError, match=r"profile\.parquet .* is damaged"):
        load_nhanes()


def test_tables_are_aligned_and_natural(nhanes):
    assert nhanes.answers.index.equals(nhanes.profile.index)
    assert nhanes.answers.index.equals(nhanes.segment.index)
    assert nhanes.answers.index.name == "SEQN"
    assert nhanes.answers.index.is_unique
    assert nhanes.profile["age"].between(18, 80).all()
    text = [name for name in nhanes.profile if not pd.api.types.is_numeric_dtype(nhanes.profile[name])]
    assert {"gender", "education", "diabetes", "children_under_6"} <= set(text)
    assert nhanes.profile["blood_lead_ug_dl"].isna().any()
    assert not set(nhanes.answers) & set(nhanes.profile)
    for name in nhanes.answers:
        assert not nhanes.answers[name].isin(["Refused", "Don't know", "Don't Know", ""]).any(), name


def test_every_column_of_answers_is_a_question(nhanes):
    assert nhanes.segments.left_out_ == {}
    kinds = {question.name: question.kind for question in nhanes.segments.questions_}
    assert [name for name, kind in kinds.items() if kind == "several"] == ["Kinds of milk", "Kinds of diet"]
    assert 130 <= sum(len(question.answers) for question in nhanes.segments.questions_) <= 160


def test_five_segments_leave_enough_rows_in_the_smallest(nhanes):
    sizes = nhanes.segment.value_counts()
    assert len(sizes) == 5
    assert sizes.min() >= 550
    assert sizes.sum() == 5533


def test_loads_do_not_share_what_callers_change(nhanes):
    other = load_nhanes()
    other.segments.rename({0: "Mine"})
    assert "Mine" not in load_nhanes().segments.segment_names_
    assert other.segment.equals(nhanes.segment)


def test_description_names_source_and_licence(nhanes):
    assert "https://www.cdc.gov/nchs/nhanes" in nhanes.DESCR
    assert "public domain" in nhanes.DESCR
    assert f"{nhanes.answers.shape[1]} questions" in nhanes.DESCR


@pytest.mark.slow
def test_segments_can_be_told_from_the_profile(nhanes):
    forest = for_table(RandomForestClassifier(100, min_samples_leaf=3, random_state=0))
    accuracy = cross_val_score(forest, nhanes.profile, nhanes.segment, cv=3).mean()
    assert accuracy > nhanes.segment.value_counts(normalize=True).max() + 0.12


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds_leave_enough_rows_too(nhanes, seed):
    other = deepsep.SurveySegments(n_segments=5, random_state=seed).fit(nhanes.answers)
    assert other.sizes_.min() >= 550


def test_build_script_makes_every_column_that_ships(nhanes):
    script = Path(__file__).parents[1] / "tools" / "build_nhanes.py"
    recipes = runpy.run_path(str(script))
    assert list(recipes["ANSWERS"]) == nhanes.answers.columns.tolist()
    assert list(recipes["PROFILE"]) == nhanes.profile.columns.tolist()


# -- the generator -------------------------------------------------------------------------------------------


def test_bayes_accuracy_is_what_bayes_rule_reaches():
    """With normal features of equal variance, linear discriminant analysis is Bayes' rule in the limit."""
    people = make_survey(40_000, n_segments=3, n_numbers=4, n_categories=0, missing=0, random_state=3)
    half = slice(None, 20_000), slice(20_000, None)
    rule = LinearDiscriminantAnalysis().fit(people.profile[half[0]], people.segment[half[0]])
    assert rule.score(people.profile[half[1]], people.segment[half[1]]) == pytest.approx(
        people.bayes_accuracy, abs=0.012
    )


def test_bayes_accuracy_with_categories_is_what_counting_reaches():
    """With one category, the best rule is the most frequent segment of each level."""
    people = make_survey(40_000, n_numbers=0, n_categories=1, separation=2, missing=0, random_state=4)
    counts = pd.crosstab(people.profile["plan 0"], people.segment)
    assert counts.max(axis=1).sum() / len(people.segment) == pytest.approx(people.bayes_accuracy, abs=0.012)


def test_segments_that_do_not_differ_leave_only_the_largest_share():
    people = make_survey(20_000, separation=0, missing=0, random_state=0)
    largest = pd.Series(people.segment).value_counts(normalize=True).max()
    assert people.bayes_accuracy == pytest.approx(largest, abs=0.015)


def test_generator_is_repeatable_and_touches_no_global_state():
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    first, again, other = (make_survey(50, random_state=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first.profile, again.profile)
    pd.testing.assert_frame_equal(first.answers, again.answers)
    assert first.bayes_accuracy == again.bayes_accuracy
    assert not first.answers.equals(other.answers)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


def test_missing_is_the_share_of_gaps():
    people = make_survey(2_000, missing=0.3, random_state=0)
    assert people.answers.isna().to_numpy().mean() == pytest.approx(0.3, abs=0.02)
    assert people.profile.isna().to_numpy().mean() == pytest.approx(0.3, abs=0.02)
    assert not make_survey(50, missing=0, random_state=0).answers.isna().any(axis=None)


@pytest.mark.parametrize(
    "setting",
    [{"n_segments": 1}, {"n_samples": 0}, {"missing": 1.5}, {"clarity": -1}, {"n_numbers": 0, "n_categories": 0}],
    ids=str,
)
def test_generator_checks_its_settings(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        make_survey(**{"n_samples": 50, **setting})
