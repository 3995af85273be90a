"""Co-training, tri-training and self-training around a classifier: what the copies are taught, counted by hand."""

import numpy as np
import pandas as pd
import pytest
from rows import segments as make_segments
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import LinearSVC

from deepsep import load, method, save
from deepsep.classifiers import CoTraining, Supervised, TriTraining
from deepsep.errors import LabelWarning, ModelFileError, ParameterError
from deepsep.zoo.wrappers.co_training import most_confident
from deepsep.zoo.wrappers.tri_training import Taught, lesson_size

X, Y, NAMES = make_segments(300, 30, cluster_std=2.0)
CODES = np.where(np.arange(300) < 30, np.searchsorted(["amber", "blue", "cyan"], NAMES.astype(str)), -1)
FITS = []


class Noted(GaussianNB):
    """A classifier that notes what it was trained on."""

    def fit(self, X, y):
        FITS.append((X.copy(), y.copy(), self))
        return super().fit(X, y)


@pytest.fixture(autouse=True)
def _no_fits():
    FITS.clear()


# -- tri-training ----------------------------------------------------------------------------------------------


def test_a_copy_is_taught_where_the_other_two_agree():
    model = TriTraining(estimator=Noted(), rounds=1, standardize=False, random_state=0).fit(X, Y)
    rows = X.astype(np.float32)
    first = [one.predict(rows) for _, _, one in FITS[:3]]
    for i, (seen, labels, _) in enumerate(FITS[3:]):
        one, other = (first[j] for j in range(3) if j != i)
        lent = np.flatnonzero((one == other) & (CODES < 0))
        agree = (one == other)[:30]
        error = (one[:30] != CODES[:30])[agree].mean()
        size = lesson_size(error, len(lent), Taught(0.5, 0))
        assert len(seen) == 30 + size
        np.testing.assert_array_equal(seen[:30], rows[:30])
        np.testing.assert_array_equal(labels[:30], CODES[:30])
        if size == len(lent):
            np.testing.assert_array_equal(seen[30:], rows[lent])
            np.testing.assert_array_equal(labels[30:], one[lent])
    assert len(FITS) == 6
    assert model.n_iter_ == 1


def test_each_copy_starts_from_as_many_rows_of_every_class():
    TriTraining(estimator=Noted(), rounds=1, random_state=0).fit(X, Y)
    for seen, labels, _ in FITS[:3]:
        np.testing.assert_array_equal(np.bincount(labels), np.bincount(CODES[:30]))
        assert len(np.unique(seen, axis=0)) < 30


def test_the_noise_in_the_labels_falls():
    """A lesson is never larger than e' m' / e allows, nor smaller than the one before."""
    for error in (0.0, 0.05, 0.2, 0.4):
        for before in (Taught(0.5, 0), Taught(0.3, 20), Taught(0.21, 50), Taught(0.05, 50)):
            for lent in (0, 1, 19, 20, 60, 1000):
                size = lesson_size(error, lent, before)
                assert 0 <= size <= lent
                if size:
                    known = before.size or np.floor(error / (before.error - error) + 1)
                    assert error * size < before.error * known
                    assert size >= known
    assert lesson_size(0.2, 1000, Taught(0.2, 10)) == 0
    assert lesson_size(0.0, 1000, Taught(0.5, 0)) == 1000
    assert lesson_size(0.2, 1000, Taught(0.3, 20)) == 29  # 0.2 · 29 < 0.3 · 20 = 0.2 · 30


def test_three_copies_have_one_voice_each():
    model = TriTraining(estimator="logistic-regression", random_state=0).fit(X, Y)
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    mean = np.mean([one.predict_proba(Z) for one in model.estimators_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), mean, atol=1e-6)


# -- co-training -----------------------------------------------------------------------------------------------


def test_the_surest_rows_of_each_class():
    P = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.8, 0.2], [0.45, 0.55]])
    np.testing.assert_array_equal(most_confident(P, np.array([2, 1])), [0, -1, 1, 0, -1])
    np.testing.assert_array_equal(most_confident(P, np.array([9, 9])), [0, 0, 1, 0, 1])


def test_views_see_their_columns_alone():
    model = CoTraining(estimator=GaussianNB(), views=([0, 1], [3]), rounds=5, random_state=0).fit(X, Y)
    assert [one.n_features_in_ for one in model.estimators_] == [2, 1]
    other = X.copy()
    other[:, [2, 4]] = np.random.default_rng(0).normal(size=(300, 2))
    again = CoTraining(estimator=GaussianNB(), views=([0, 1], [3]), rounds=5, random_state=0).fit(other, Y)
    np.testing.assert_array_equal(again.predict_proba(other), model.predict_proba(X))


def test_views_at_random_share_out_the_columns():
    model = CoTraining(estimator=GaussianNB(), rounds=1, random_state=0).fit(X, Y)
    assert sorted(np.concatenate(model.views_)) == [0, 1, 2, 3, 4]
    assert [len(view) for view in model.views_] == [3, 2]


def test_views_by_name():
    frame = pd.DataFrame(X, columns=list("abcde"))
    by_name = CoTraining(estimator=GaussianNB(), views=(["a", "b"], ["d"]), random_state=0).fit(frame, Y)
    by_number = CoTraining(estimator=GaussianNB(), views=([0, 1], [3]), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(by_name.predict_proba(frame), by_number.predict_proba(X))


def test_each_round_labels_rows_for_both():
    model = CoTraining(estimator=Noted(), views=([0, 1], [2, 3, 4]), rounds=3, random_state=0).fit(X, Y)
    assert len(FITS) == 8
    for (a, labels_a, _), (b, labels_b, _) in zip(FITS[::2], FITS[1::2], strict=True):
        np.testing.assert_array_equal(labels_a, labels_b)
        assert a.shape[1] + b.shape[1] == 5
    sizes = [len(labels) for _, labels, _ in FITS[::2]]
    assert sizes[0] == 30
    counts = np.bincount(CODES[:30])
    assert all(0 < step <= 2 * np.round(counts / counts.min()).sum() for step in np.diff(sizes))
    np.testing.assert_array_equal(FITS[-1][1][:30], CODES[:30])
    assert model.n_iter_ == 3


def test_what_two_views_say_is_multiplied():
    model = CoTraining(estimator=GaussianNB(), views=([0, 1], [2, 3, 4]), standardize=False, random_state=0).fit(X, Y)
    rows = X.astype(np.float32)
    P = model.estimators_[0].predict_proba(rows[:, :2]) * model.estimators_[1].predict_proba(rows[:, 2:])
    np.testing.assert_allclose(model.predict_proba(X), P / P.sum(axis=1, keepdims=True), atol=1e-6)


def test_it_ends_when_all_rows_have_labels():
    model = CoTraining(estimator=GaussianNB(), rounds=10_000, per_round=5, random_state=0).fit(X, Y)
    assert model.n_iter_ < 150


@pytest.mark.parametrize(
    ("views", "words"),
    [
        (([0, 9], [1]), r"a column 9; X has 5 columns, from 0 to 4"),
        ((["a"], [1]), "a column 'a'"),
        (([0], []), "two lists of columns"),
        ([0, 1], "two lists of columns"),
        (([0], [1], [2]), "two lists of columns"),
    ],
)
def test_bad_views(views, words):
    with pytest.raises(ParameterError, match=words):
        CoTraining(views=views).fit(X, Y)


# -- the classifier --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CoTraining, TriTraining])
def test_a_classifier_by_name_is_the_one_of_that_method(kind):
    named = kind(estimator="logistic-regression", random_state=0).fit(X, Y).predict_proba(X)
    built = kind(estimator=LogisticRegression(max_iter=1000), random_state=0).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(named, built)


@pytest.mark.parametrize("kind", [CoTraining, TriTraining])
@pytest.mark.parametrize("wrong", [LinearSVC(), LogisticRegression, 3, "svm", np.zeros(2)])
def test_other_things_than_classifiers_are_refused(kind, wrong):
    with pytest.raises(ParameterError, match="pass a classifier with predict_proba"):
        kind(estimator=wrong).fit(X, Y)


@pytest.mark.parametrize("kind", [CoTraining, TriTraining])
def test_names_of_other_methods_are_refused(kind):
    with pytest.raises(ParameterError, match="does not learn from labelled rows alone; pass one of lightgbm"):
        kind(estimator="tsvm").fit(X, Y)
    with pytest.raises(ParameterError, match="did you mean 'random-forest'"):
        kind(estimator="random-forrest").fit(X, Y)


@pytest.mark.parametrize("kind", [CoTraining, TriTraining])
@pytest.mark.parametrize("estimator", ["lightgbm-few-labels", LogisticRegression(C=0.5), RandomForestClassifier(5)])
def test_saved_with_any_classifier(kind, estimator, tmp_path):
    model = kind(estimator=estimator, rounds=2, random_state=0).fit(X, Y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert again.n_iter_ == model.n_iter_
    assert repr(again) == repr(model)


@pytest.mark.parametrize("kind", [CoTraining, TriTraining])
def test_more_neighbours_than_labels_are_all_of_them(kind):
    y = np.full(300, None)
    y[:4] = NAMES[:4]
    with pytest.warns(LabelWarning):
        model = kind(estimator="knn", rounds=1, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_classifier_that_no_file_holds():
    with pytest.raises(ModelFileError, match="GaussianNB cannot be saved"):
        TriTraining(estimator=GaussianNB()).fit(X, Y).save("nowhere")


def test_self_training_around_another_classifier():
    model = method("self-training", estimator="random-forest", standardize=False, random_state=0)
    assert isinstance(model.estimator.estimator, RandomForestClassifier)
    assert model.estimator.estimator.n_estimators == 500
    model.set_params(estimator__estimator=LogisticRegression(C=0.1))
    direct = Supervised(SelfTrainingClassifier(LogisticRegression(C=0.1))).fit(X, Y)
    np.testing.assert_allclose(model.fit(X, Y).predict_proba(X), direct.predict_proba(X))
    assert isinstance(method("self-training").estimator.estimator, LogisticRegression)
    with pytest.raises(ParameterError, match="does not learn from labelled rows alone"):
        method("self-training", estimator="deepsep")
