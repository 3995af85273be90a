"""Survey weights: a respondent of weight w counts as w copies, of weight 0 as absent."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.metrics import adjusted_rand_score

from deepsep import SurveySegments, load, save
from deepsep.datasets import make_survey
from deepsep.errors import DataError, DeepSepError
from deepsep.survey.choosing_k import agreement, completion_perplexity, halve
from deepsep.survey.lda import AnswersLDA
from deepsep.survey.questions import encode, read_column

SETTINGS = {"n_segments": 3, "n_init": 1, "min_count": 1, "random_state": 0}


@pytest.fixture(scope="module")
def answers():
    return make_survey(200, n_segments=3, n_questions=12, random_state=0).answers


@pytest.fixture(scope="module")
def counts():
    return np.random.default_rng(0).integers(0, 4, 200)


@pytest.fixture(scope="module")
def copied(answers, counts):
    return SurveySegments(**SETTINGS).fit(answers.loc[np.repeat(answers.index, counts)])


def test_weights_are_copies(answers, counts, copied):
    weighted = SurveySegments(**SETTINGS).fit(answers, sample_weight=counts)
    # The order of answers, by frequency, may differ between the two.
    assert {q.name: set(q.answers) for q in weighted.questions_} == {q.name: set(q.answers) for q in copied.questions_}
    np.testing.assert_allclose(weighted.transform(answers), copied.transform(answers), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(weighted.sizes_, copied.sizes_)
    assert weighted.perplexity_ == pytest.approx(copied.perplexity_, rel=1e-9)
    assert weighted.segment_names_.tolist() == copied.segment_names_.tolist()
    key = ["segment", "question", "answer"]
    mine, theirs = (model.profiles_.set_index(key).sort_index() for model in (weighted, copied))
    pd.testing.assert_frame_equal(mine, theirs, rtol=1e-8)


def test_weights_of_one_are_none(answers):
    alike = SurveySegments(**SETTINGS).fit(answers, sample_weight=np.ones(200))
    none = SurveySegments(**SETTINGS).fit(answers)
    np.testing.assert_array_equal(alike.transform(answers), none.transform(answers))
    assert alike.weight_ is None


def test_people_of_weight_zero_have_a_segment_but_no_say(answers):
    strange = answers.copy()
    strange.iloc[:20] = "an answer that nobody else gives"
    weight = np.where(np.arange(200) < 20, 0.0, 1.5)
    model = SurveySegments(**SETTINGS).fit(strange, sample_weight=weight)
    assert not any("nobody" in answer for question in model.questions_ for answer in question.answers)
    assert (model.labels_[:20] == -1).all()
    assert len(model.labels_) == 200
    others = SurveySegments(**SETTINGS).fit(answers[20:], sample_weight=weight[20:])
    np.testing.assert_array_equal(model.transform(answers), others.transform(answers))


def test_bound_of_weights_is_that_of_scikit_learn(answers):
    """With weights of 1 the bound is scikit-learn's, which is computed row by row."""
    model = SurveySegments(**SETTINGS).fit(answers)
    columns = {name: read_column(name, answers[name]) for name in answers}
    rows = encode(columns, model.questions_, len(answers))
    lda = AnswersLDA(3, learning_method="batch", max_iter=5, random_state=0).fit(rows, sample_weight=np.ones(200))
    theirs = LatentDirichletAllocation(3)
    theirs.__dict__.update({name: value for name, value in vars(lda).items() if name != "bound_"})
    assert lda.bound_ == pytest.approx(theirs.perplexity(rows), rel=1e-6)


def test_figures_behind_the_choice_of_k_count_copies(answers, counts):
    model = SurveySegments(**SETTINGS).fit(answers)
    columns = {name: read_column(name, answers[name]) for name in answers}
    known, asked = halve(encode(columns, model.questions_, 200), np.random.default_rng(0))
    at = np.repeat(np.arange(200), counts)
    assert completion_perplexity(model.lda_, known, asked, counts.astype(float)) == pytest.approx(
        completion_perplexity(model.lda_, known[at], asked[at])
    )
    one, other = np.random.default_rng(1).integers(0, 3, (2, 200))
    other[:150] = one[:150]
    double = np.where(np.arange(200) < 100, 2.0, 1.0)
    twice = np.repeat(np.arange(200), double.astype(int))
    assert agreement(one, other, double) == pytest.approx(adjusted_rand_score(one[twice], other[twice]), abs=0.01)
    assert agreement(one, other, np.full(200, 7.0)) == pytest.approx(adjusted_rand_score(one, other))


def test_auto_compares_with_weights(answers, counts):
    model = SurveySegments(n_segments="auto", k_range=(2, 3), n_init=1, max_iter=5, random_state=0)
    plain, weighted = model.compare_k(answers), model.compare_k(answers, counts)
    assert (plain["perplexity"] != weighted["perplexity"]).all()
    assert model.fit(answers, sample_weight=counts).k_scores_.equals(weighted)


@pytest.mark.parametrize("weight", [[-1.0] + [1.0] * 199, [np.nan] + [1.0] * 199, [1.0] * 5, [0.0] * 199 + [1.0]])
def test_bad_weights_are_refused(answers, weight):
    with pytest.raises((ValueError, DeepSepError), match=r"weight|Weight"):
        SurveySegments(**SETTINGS).fit(answers, sample_weight=weight)


def test_saved_model_has_weights_and_answers(answers, counts, tmp_path):
    model = SurveySegments(**SETTINGS).fit(answers, sample_weight=counts)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.weight_, counts)
    np.testing.assert_array_equal(again.sizes_, model.sizes_)
    assert (again.answers_of_respondents() != model.answers_of_respondents()).nnz == 0
    save(again.forget_answers(), tmp_path / "model")
    with pytest.raises(DataError, match="does not have the answers"):
        load(tmp_path / "model").answers_of_respondents()
