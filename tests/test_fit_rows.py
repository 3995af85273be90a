"""Fits to checked rows: checked once for all fits of a larger one, and with the same bits as from raw rows."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from deepsep import TSVM, Committee, DeepSep, method
from deepsep.classifiers import base
from deepsep.core.labels import read_labels
from deepsep.core.training_rows import Context, TrainingRows
from deepsep.errors import DataError, DeepSepWarning, InterruptWarning, LabelError, ParameterError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, FoldFits
from tools import structure

SRC = Path(__file__).parents[1] / "src" / "deepsep"


def table(n=240, labeled=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(np.arange(n) < labeled, np.where(X[:, 0] + X[:, 1] > 0, "yes", "no"), None)


@pytest.fixture
def checks(monkeypatch):
    """The models for which rows are checked, in turn."""
    models, read = [], base.read_training_rows

    def listed(model, *given, **accept):
        models.append(model)
        return read(model, *given, **accept)

    monkeypatch.setattr(base, "read_training_rows", listed)
    return models


def test_a_committee_checks_its_rows_once(checks):
    members = {
        "tsvm": TSVM(probability="cv"),
        "deepsep": DeepSep(calibrate=True, initial_epochs=2, rounds=1),
        "logistic-regression": "logistic-regression",
    }
    model = Committee(members=members, effort="fast", twins=True, learning_curve=True, n_jobs=1, random_state=0)
    model.fit(*table())
    assert checks == [model]
    assert len(model.out_of_fold_.folds.tests) == 3
    assert model.learning_curve_ is not None
    assert model.student_ is not None


@pytest.mark.filterwarnings("ignore::deepsep.errors.DeepSepWarning")
@pytest.mark.parametrize("name", ["tsvm", "knn", "logistic-regression", "deepsep", "label-spreading"])
def test_checked_rows_give_the_same_bits_in_folds_as_fits_by_hand(name, checks):
    X, y = table()
    labels = read_labels(y)
    folds = deal_folds(labels, n_splits=2, seed=0)
    X[:, 1] *= 1e30
    X[:, 2] *= 1e-9
    X[folds.tests[0], 2] *= 1e9  # so that the column is of extreme size only where these rows are held out
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    one = method(name, random_state=0, **({"initial_epochs": 2, "rounds": 1} if name == "deepsep" else {}))
    candidates = {"all": Candidate(one), "alone": Candidate(one, labeled_only=True)}
    result = FoldFits(candidates, X, labels, folds, weight, checked=True).fit()
    assert checks == []
    for number, test in enumerate(folds.tests):
        train = np.setdiff1d(folds.rows, test)
        for which, rows in (("all", train), ("alone", train[labels.labeled[train]])):
            weights = {"sample_weight": weight[rows]} if has_fit_parameter(one, "sample_weight") else {}
            by_hand = clone(one).fit(X[rows], y[rows], **weights)
            np.testing.assert_array_equal(result.p[which][result.fold == number], by_hand.predict_proba(X[test]))


def test_rows_and_raw_rows_make_the_same_model():
    X, y = table()
    frame = pd.DataFrame(X * [1, 1e200, 1], columns=["a", "b", "c"])
    raw, model = (method("logistic-regression", random_state=0) for _ in range(2))
    raw.fit(frame, y)
    rows = model.training_rows(frame, y)
    assert not hasattr(model, "classes_")
    model.fit_rows(rows, Context(is_part=True))
    np.testing.assert_array_equal(model.predict_proba(frame), raw.predict_proba(frame))
    for name in ("classes_", "transduction_", "feature_names_in_", "_exponents"):
        np.testing.assert_array_equal(getattr(model, name), getattr(raw, name))
    assert (model.n_features_in_, model.data_fingerprint_) == (raw.n_features_in_, raw.data_fingerprint_)
    part = np.arange(0, len(y), 2)
    model.fit_rows(TrainingRows(X[part], rows.codes[part], rows.weight[part], rows.classes))
    assert not hasattr(model, "feature_names_in_")
    assert model._exponents is None
    assert model.predict(X).shape == (len(X),)


@pytest.mark.parametrize("priors", [None, {"yes": 0.3, "no": 0.7}])
@pytest.mark.parametrize("name", ["random-forest", "deepsep", "in-context", "tsvm", "label-spreading"])
def test_a_fit_for_new_rows_predicts_them_alike_and_leaves_out_its_own(name, priors):
    X, y = table()
    model = method(name, random_state=0)
    if priors is not None:
        if "priors" not in model.get_params():
            pytest.skip("the method has no priors")
        model.set_params(priors=priors)
    rows = model.training_rows(X, y)
    whole = clone(model).fit_rows(rows)
    model.fit_rows(rows, Context(for_new_rows=True))
    np.testing.assert_array_equal(model.predict_proba(X[::3]), whole.predict_proba(X[::3]))
    predicted = name in ("label-spreading", "tsvm") or priors is not None  # on the way to what new rows need
    assert (model.transduction_ is not None) is predicted


def test_a_committee_of_a_part_reads_the_origins_from_its_labels():
    X, y = table()
    model = Committee(members=["knn"], effort="fast", student=False, n_jobs=1, random_state=0)
    rows = model.training_rows(X, y)
    whole, part = (model.fit_rows(each).label_origins_ for each in (rows, replace(rows, labels_drawn=None)))
    np.testing.assert_array_equal(whole.codes, part.codes)


@pytest.mark.parametrize(
    ("labels_drawn", "message"),
    [
        ("hard", "labels_drawn='hard' is not an origin of labels. Use 'random'"),
        (["random"], r"labels_drawn has the shape \(1,\); pass one word, or one for each of \d+ rows"),
    ],
)
def test_origins_that_make_no_sense_are_refused(labels_drawn, message):
    X, y = table()
    with pytest.raises(LabelError, match=message):
        TSVM().training_rows(X, y, labels_drawn=labels_drawn)


def test_what_depends_on_the_rows_and_the_settings_is_looked_at_in_every_fit():
    X, y = table()
    rows = TSVM().training_rows(X, y)
    with pytest.raises(ParameterError, match="C=-1"):
        TSVM(C=-1).fit_rows(rows)
    with pytest.raises(DataError, match="all 3 features are constant"):
        TSVM().fit_rows(replace(rows, X=np.ones_like(X)))
    with pytest.warns(DeepSepWarning, match="1 of 3 features are constant"):
        TSVM().fit_rows(replace(rows, X=X * [1, 0, 1]))


def test_other_estimators_get_names():
    class Remembers(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            given.append(y)
            return super().fit(X, y == "yes", sample_weight)

    given = []
    X, y = table()
    labels = read_labels(y)
    folds = deal_folds(labels, n_splits=2, seed=0)
    candidates = {"all": Candidate(Remembers()), "alone": Candidate(Remembers(), labeled_only=True)}
    FoldFits(candidates, X, labels, folds, checked=True).fit()
    assert [set(each) for each in given] == [{"yes", "no", None}, {"yes", "no"}] * 2


def test_a_frozen_classifier_stays_as_it_is():
    X, y = table()
    labels, model = read_labels(y), method("knn").fit(X, y)
    folds = deal_folds(labels, n_splits=2, seed=0)
    before = model.predict_proba(X)
    result = FoldFits({"frozen": Candidate(FrozenEstimator(model))}, X, labels, folds).fit()
    np.testing.assert_array_equal(result.probabilities, before[result.rows])
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("is_part", [False, True])
def test_ctrl_c_ends_a_calibration_and_the_larger_work_of_which_it_is_a_part(is_part):
    def stop(steps, loss):
        heard.append(steps)
        if sum(heard) > 2:  # the fit itself has two
            raise KeyboardInterrupt

    heard = []
    model = DeepSep(n_networks=1, initial_epochs=2, rounds=0, calibrate=True, random_state=0)
    rows = model.training_rows(*table())
    with pytest.raises(KeyboardInterrupt) if is_part else pytest.warns(InterruptWarning, match="while calibrating"):
        model.fit_rows(rows, Context(on_step=stop, is_part=is_part))
    assert hasattr(model, "transduction_") is not is_part


def test_nothing_sets_attributes_on_estimators_from_outside(tmp_path):
    (tmp_path / "a.py").write_text("class A:\n    _told = None\n")
    (tmp_path / "b.py").write_text("def f(a):\n    a._told = print\n")
    for root, found in ((tmp_path, ["_told: b.py"]), (SRC, [])):
        facts = {fact.title: fact for fact in structure.read_facts(root)}
        assert facts["side channels"].places == found


def test_labels_of_one_class_have_no_rows():
    X, y = table()
    with pytest.raises(LabelError, match="at least two classes"):
        TSVM().training_rows(X, np.where(y == "yes", "yes", None))
