"""Every method keeps the same contract; test_methods_*.py check what each computes against mathematics."""

import ast
import copy
import inspect
import random
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from rows import segments as make_segments
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

import deepsep
from deepsep import Committee, LabeledFold, load, method, methods, save
from deepsep.classifiers import Supervised
from deepsep.classifiers.catalogue import CATALOGUE
from deepsep.errors import DeepSepError, DeepSepWarning, LabelWarning, ParameterError
from deepsep.zoo.network_method import NetworkMethod

# Short training for every setting of these names that a method has.
SHORT = {
    "steps": 60,
    "code_steps": 60,
    "rounds": 2,
    "round_steps": 20,
    "hidden": (16, 8),
    "learning_rate": 0.02,
    "initial_epochs": 15,
    "label_epochs": 2,
    "estimator__n_estimators": 20,
    "estimator__learning_rate": 0.2,
    "n_cuts": 5,
    "n_starts": 5,
    "folds": 2,
    "n_members": 1,
    "members": ["tsvm", "logistic-regression"],
    "n_jobs": 1,
    "effort": "fast",
}
# The contract of DeepSep and TSVM is tested, in more detail, in files of their own.
OTHERS = [name for name in methods() if name not in ("deepsep", "tsvm")]
# One of each base class, and of the classes without one: scikit-learn's checks of all others are slow tests.
REPRESENTATIVES = (
    *("committee", "mean-teacher", "entropy-logistic", "label-spreading", "random-forest", "self-training"),
    "null-category-gp",
)
MARK = {"check_classifiers_classes": "uses -1 and 1 as classes, and -1 marks unlabelled rows"}
REASON = "mini-batches or resampled rows: k copies are met in other company than weight k"
EQUIVALENCE = {f"check_sample_weight_equivalence_on_{kind}_data": REASON for kind in ("dense", "sparse")}


BIG_LEAVES = "30 rows are too few for leaves of the default size: it may say the largest class of all rows"
UNLEARNED = {
    "lightgbm": BIG_LEAVES,
    "xgboost": BIG_LEAVES,
    "in-context": "its weights are random here; test_in_context.py has the accuracy of those in the package",
}


def short(name, **settings):
    model = method(name, **({"n_unlabeled": 12} if name == "exact-tsvm" else {}), **settings)
    return model.set_params(**{key: SHORT[key] for key in SHORT.keys() & model.get_params().keys()})


def expected_failures(model):
    """Rows that are drawn, in batches or for a tree, are drawn otherwise if there are more of them."""
    draws = isinstance(model, NetworkMethod | Committee)  # a committee deals rows into folds
    if isinstance(model, Supervised):
        settings = model.estimator.get_params()
        draws = settings.get("bootstrap", False) or settings.get("subsample", 1) != 1
    # scikit-learn spares its own label propagation the check of -1, and goes by the name.
    mark = {} if type(model).__name__ in ("LabelPropagation", "LabelSpreading") else MARK
    return mark | EQUIVALENCE if draws else mark


@parametrize_with_checks([short(name) for name in REPRESENTATIVES], expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        check(estimator)


@pytest.mark.slow
@pytest.mark.usefixtures("shipped_network")
@parametrize_with_checks([method(name) for name in OTHERS], expected_failed_checks=expected_failures)
def test_scikit_learn_contract_with_defaults(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        check(estimator)


def slow_unless(names):
    """Return all methods; those that differ in nothing from the ones named are left to the slow tests."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in methods()]


def segments(n=240, labeled=30):
    return make_segments(n, labeled, cluster_std=2.0)


@pytest.fixture(scope="module", params=OTHERS)
def fitted(request):
    X, y, names = segments()
    return X, y, names, request.param, short(request.param, random_state=0).fit(X, y)


def test_it_speaks_as_deepsep_does(fitted):
    X, y, _, _, model = fitted
    p = model.predict_proba(X)
    assert p.dtype == np.float64
    assert p.shape == model.label_distributions_.shape == (240, 3)
    for distribution in (p, model.label_distributions_):
        np.testing.assert_allclose(distribution.sum(axis=1), 1)
        assert (distribution >= 0).all()
    assert model.classes_.tolist() == ["amber", "blue", "cyan"]
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    np.testing.assert_array_equal(model.transduction_[:30], y[:30])
    unlabeled = model.classes_[model.label_distributions_.argmax(axis=1)][30:]
    np.testing.assert_array_equal(model.transduction_[30:], unlabeled)
    assert len(model.data_fingerprint_) > 10


def test_it_learns(fitted):
    X, _, names, name, model = fitted
    if name in UNLEARNED:
        pytest.skip(UNLEARNED[name])
    assert (model.predict(X) == names)[30:].mean() > 0.75
    fresh, truth = make_blobs(300, centers=3, n_features=5, cluster_std=2.0, random_state=0)  # the same centres
    assert (model.predict(fresh + 0.01) == np.array(["amber", "blue", "cyan"])[truth]).mean() > 0.75


def test_same_seed_same_bits_whatever_the_global_state(fitted):
    X, y, _, name, model = fitted
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    again = short(name, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.label_distributions_, model.label_distributions_)
    short(name).fit(X[:60], y[:60])
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert random.getstate() == before[1]


def test_a_saved_model_predicts_the_same_bits(fitted, tmp_path):
    X, _, _, _, model = fitted
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.label_distributions_, model.label_distributions_)
    np.testing.assert_array_equal(again.transduction_, model.transduction_)
    assert again.transduction_.dtype == model.transduction_.dtype
    assert repr(again) == repr(model)
    assert str(clone(again).get_params()) == str(clone(model).get_params())


def test_settings_changed_after_fit_do_not_change_the_model(fitted):
    X, *_, model = copy.deepcopy(fitted)
    before = model.predict_proba(X)
    changes = {"hidden": (3,), "n_neighbors": 1, "alpha": 0.1, "steps": 1, "standardize": False, "temperature": 9.0}
    model.set_params(**{key: value for key, value in changes.items() if key in model.get_params()})
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("name", [name for name in OTHERS if has_fit_parameter(method(name), "sample_weight")])
def test_a_row_of_weight_0_is_absent(name):
    """Rows that would turn the classes around have no influence without a weight."""
    X, y, names = segments()
    wrong = np.roll(np.unique(names), 1)[np.searchsorted(np.unique(names), names)]
    doubled, labels = np.concatenate([X, X]), np.concatenate([y, wrong])
    weight = np.repeat([1.0, 0.0], len(X))
    model = short(name, random_state=0).fit(doubled, labels, sample_weight=weight)
    if name not in UNLEARNED:
        assert (model.predict(X) == names).mean() > 0.75
    assert model.transduction_[len(X) :].tolist() == wrong.tolist()


@pytest.mark.parametrize("name", OTHERS)
def test_without_unlabeled_rows(name):
    X, _, names = segments(90)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = short(name, random_state=0).fit(X, names)
    messages = [str(w.message) for w in caught if issubclass(w.category, LabelWarning)]
    assert np.isfinite(model.predict_proba(X)).all()
    assert any("no unlabelled rows" in words for words in messages) == CATALOGUE[name].uses_unlabeled
    assert all(w.filename == __file__ for w in caught if issubclass(w.category, LabelWarning))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # an SVM that the features want scaling
@pytest.mark.parametrize("name", OTHERS)
def test_one_label_a_class_repeated_rows_and_one_far_from_all_others(name):
    X, _, names = segments(60)
    first = np.unique(names, return_index=True)[1]
    y = np.full(180, None)
    y[3 * first] = names[first]
    X = np.repeat(X, 3, axis=0)
    X[-1] = 1e6
    with pytest.warns(LabelWarning, match="only one labelled row"):
        model = short(name, random_state=0).fit(X, y)
    far = np.concatenate([X[:2], np.full((1, 5), -1e9)])
    for p in (model.label_distributions_, model.predict_proba(far)):
        np.testing.assert_allclose(p.sum(axis=1), 1)


EXTREME = np.array([1e150, 1e-150, 1e-30, 1e300, 1.0])


@pytest.mark.usefixtures("shipped_network")
@pytest.mark.parametrize("name", slow_unless({"deepsep", "tsvm", *REPRESENTATIVES}))
def test_features_of_extreme_size(name, tmp_path):
    X, y, _ = make_segments(120, 60, classes=2)
    first = short(name, random_state=0).fit(X, y)
    ordinary = first.predict_proba(X)
    model = short(name, random_state=0).fit(X * EXTREME, y)
    p = model.predict_proba(X * EXTREME)
    assert np.isfinite(p).all()
    assert np.ptp(p[:, 0]) > 0.5 * np.ptp(ordinary[:, 0])  # rows are told apart as before
    assert (p.argmax(axis=1) == ordinary.argmax(axis=1)).mean() > 0.8
    monstrous = np.array([np.full(5, 1e300), np.full(5, -1e308), np.full(5, 1e-310), np.zeros(5)])
    for far in (first.predict_proba(monstrous), model.predict_proba(monstrous)):
        np.testing.assert_allclose(far.sum(axis=1), 1, atol=1e-5)
        assert far.min() >= 0
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").predict_proba(X * EXTREME).tobytes() == p.tobytes()


def test_extreme_powers_of_two_change_nothing():
    """A network sees the same bits: the division is exact, and what follows standardises."""
    X, y, _ = make_segments(120, 30)
    ordinary = short("deepsep", random_state=0).fit(X, y).predict_proba(X)
    for power in (-900, -40, 60, 900):
        scaled = np.ldexp(X, power)
        assert short("deepsep", random_state=0).fit(scaled, y).predict_proba(scaled).tobytes() == ordinary.tobytes()


def test_sparse_features_of_extreme_size():
    X, y, _ = make_segments(120, 60)
    X = np.where(np.abs(X) > 0.5, X, 0) * EXTREME
    dense, thin = (Supervised(SVC(), random_state=0).fit(rows, y) for rows in (X, sparse.csr_matrix(X)))
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), atol=0.02)


@pytest.mark.parametrize("name", [name for name in OTHERS if "estimator" not in method(name).get_params()])
def test_bad_settings(name):
    for setting, value in method(name).get_params().items():
        if setting == "random_state" or callable(value):
            continue
        bad = ["nonsense", np.str_("nonsense")]
        if isinstance(value, int | float) and not isinstance(value, bool):
            bad += [-1, np.int64(-1), np.float64(-1.5)]
        X, y, _ = segments(60)
        for wrong in bad:
            with pytest.raises(ParameterError, match=setting) as raised:
                method(name, **{setting: wrong}).fit(X, y)
            assert "np." not in str(raised.value)


# The skeleton makes sparse rows dense for all others.
SPARSE = {name for name in methods() if short(name)._accept.get("accept_sparse")}


@pytest.mark.usefixtures("shipped_network")
@pytest.mark.parametrize("name", slow_unless(SPARSE | set(REPRESENTATIVES)))
def test_sparse_rows_give_the_model_of_dense_ones(name):
    X, y, _ = segments(120)
    X = np.where(np.abs(X) > 1, X, 0).astype(np.float32)
    dense = short(name, random_state=0).fit(X, y)
    for form in (sparse.csr_array, sparse.coo_matrix):
        model = short(name, random_state=0).fit(form(X), y)
        np.testing.assert_allclose(model.predict_proba(form(X)), model.predict_proba(X), atol=1e-5)
        # Those that take sparse rows as they are do not centre them, which is not quite the same model.
        assert (model.predict(X) == dense.predict(X)).mean() > 0.9


@pytest.mark.parametrize("name", OTHERS)
def test_it_cross_validates(name):
    X, y, _ = segments(60)
    scores = cross_val_score(short(name, random_state=0), X, y, cv=LabeledFold(2, random_state=0))
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()


def test_a_pipeline_for_tables_is_saved(tmp_path):
    X, y, _ = segments(90)
    table = pd.DataFrame(X, columns=list("abcde")).assign(plan=np.where(X[:, 0] > 0, "free", "pro"))
    table.loc[3, "a"] = np.nan
    model = deepsep.for_table(method("random-forest", n_estimators=10, random_state=0)).fit(table, y)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(table), model.predict_proba(table))


# -- the table of methods ------------------------------------------------------------------------------------


def test_methods_can_be_built_and_are_described():
    described = methods()
    assert {"deepsep", "tsvm", "mean-teacher", "random-forest"} <= described.keys() <= CATALOGUE.keys()
    for name, text in described.items():
        assert "Assumes: " in text
        assert "Cost: " in text
        assert hasattr(method(name, random_state=3), "predict_proba")
        assert method(name, random_state=3).random_state == 3


@pytest.mark.parametrize("kind", sorted({type(method(name)) for name in methods()}, key=str))
def test_each_setting_is_documented_once_with_its_default(kind):
    section = re.search(r"Parameters\n-+\n(.*?)(\n\n\w+\n-+\n|$)", inspect.cleandoc(kind.__doc__), re.S)[1]
    heads = [re.fullmatch(r"([\w, ]+)(?: : (.*))?", line) for line in section.splitlines() if line[0] != " "]
    documented = [name for head in heads for name in head[1].split(", ")]
    assert sorted(documented) == sorted(inspect.signature(kind).parameters)
    for name, text in ((head[1], head[2] or "") for head in heads if "," not in head[1]):
        stated, default = text.partition("default=")[2], inspect.signature(kind).parameters[name].default
        assert not stated or ast.literal_eval(stated) == default, (name, stated)


def test_an_unknown_method_or_setting_is_named():
    with pytest.raises(ParameterError, match="did you mean 'mean-teacher'"):
        method("mean-techer")
    for name in methods():
        with pytest.raises(DeepSepError, match="'stepps'"):
            method(name, stepps=3)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)  # as if it were not installed
    assert "xgboost" not in methods()
    assert "lightgbm" in methods()
    with pytest.raises(ImportError, match=r"pip install xgboost"):
        method("xgboost")


def test_the_names_at_the_top_are_the_promised_ones():
    promised = [
        "TSVM",
        "DeepSep",
        "Committee",
        "InContext",
        "LabeledFold",
        "SurveySegments",
        "TableModel",
        "fit",
        "for_table",
        "save",
        "load",
        "method",
        "methods",
        "out_of_fold",
        "suspicious_labels",
    ]
    assert set(deepsep.__all__) == {*promised, "datasets", "errors", "__version__"}
