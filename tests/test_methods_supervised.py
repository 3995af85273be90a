"""Supervised classifiers behind the common contract: beside the classifiers themselves, and saved without pickle."""

import json
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rows import segments as make_segments
from scipy import sparse
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import deepsep.files.manifest
import deepsep.models
from deepsep import LabeledFold, for_table, method
from deepsep.classifiers import Supervised
from deepsep.classifiers.catalogue import CATALOGUE
from deepsep.errors import DeepSepWarning, LabelWarning, ModelFileError, ParameterError
from deepsep.models import load, save

FEW_TREES = dict.fromkeys(("lightgbm", "lightgbm-few-labels", "xgboost", "random-forest", "extra-trees"), 10)
ROOT = Path(__file__).parents[1]


SUPERVISED = [name for name, record in CATALOGUE.items() if record.classifier]


def quick(name, **settings):
    """Build a baseline with few trees, or skip the test where its library is missing."""
    if name in ("lightgbm", "lightgbm-few-labels", "xgboost"):
        pytest.importorskip(name.partition("-")[0])
    more = {"n_estimators": FEW_TREES[name]} if name in FEW_TREES else {}
    return method(name, **{"random_state": 0, **more, **settings})


def segments(n=300, labeled=60, classes=3):
    return make_segments(n, labeled, classes=classes)


X, Y, NAMES = segments()


# -- the classifier itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), GaussianNB(), KNeighborsClassifier(3), RandomForestClassifier(10, random_state=3)],
    ids=lambda e: type(e).__name__,
)
def test_it_is_the_classifier_on_the_labeled_rows(estimator):
    model = Supervised(estimator).fit(X, Y)
    alone = estimator.fit(X[:60], NAMES[:60].astype(str))
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    assert model.transduction_[60:].tolist() == alone.predict(X[60:]).tolist()
    assert not hasattr(model.estimator_, "transduction_")


def test_settings_of_the_classifier_go_by_their_own_names():
    model = method("random-forest", n_estimators=5)
    assert model.estimator.n_estimators == 5
    model.set_params(n_estimators=7, standardize=True, estimator__max_depth=2)
    assert (model.estimator.n_estimators, model.estimator.max_depth, model.standardize) == (7, 2, True)
    with pytest.raises(ValueError, match="Invalid parameter 'n_trees'"):
        model.set_params(n_trees=3)
    folds = LabeledFold(3, random_state=0)
    search = GridSearchCV(for_table(model), {"supervised__n_estimators": [3, 4]}, cv=folds).fit(pd.DataFrame(X), Y)
    assert search.best_estimator_[-1].estimator_.n_estimators in (3, 4)
    nested = method("self-training").set_params(estimator__C=0.5)
    assert nested.estimator.estimator.C == 0.5


def test_standardizing_is_over_all_rows():
    model = Supervised(LogisticRegression(), standardize=True).fit(X * [1, 10, 100, 1, 1], Y)
    Z = StandardScaler().fit_transform(X)
    alone = LogisticRegression().fit(Z[:60], NAMES[:60].astype(str))
    np.testing.assert_allclose(model.predict_proba(X * [1, 10, 100, 1, 1]), alone.predict_proba(Z), atol=1e-9)


def test_self_training_gets_the_unlabeled_rows():
    model = Supervised(SelfTrainingClassifier(LogisticRegression(), threshold=0.9)).fit(X, Y)
    codes = np.where(np.arange(300) < 60, np.searchsorted(["amber", "blue", "cyan"], NAMES.astype(str)), -1)
    alone = SelfTrainingClassifier(LogisticRegression(), threshold=0.9).fit(X, codes)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-12)
    supervised = Supervised(LogisticRegression()).fit(X, Y)
    assert not np.allclose(model.predict_proba(X), supervised.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("name", SUPERVISED)
def test_sparse_rows_as_dense_ones(name):
    rows = np.where(np.abs(X) > 2, X, 0)
    models = [quick(name).fit(kind(rows), Y) for kind in (np.asarray, sparse.csr_matrix, sparse.csr_array)]
    p, *others = (model.predict_proba(sparse.csr_matrix(rows)) for model in models[1:])
    assert all(np.allclose(p, other, atol=1e-9) for other in others)
    assert (models[0].predict(rows) == models[1].predict(rows)).mean() > 0.9  # centring is what differs


# -- weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["knn", "self-training"])
def test_without_weights_of_its_own_a_weight_is_copies(name):
    count = np.random.default_rng(0).integers(0, 4, 300)
    model = quick(name).fit(X, Y, sample_weight=count)
    again = quick(name).fit(np.repeat(X, count, axis=0), np.repeat(Y, count))
    np.testing.assert_allclose(model.predict_proba(X), again.predict_proba(X), atol=1e-6)
    with pytest.raises(ParameterError, match=r"takes no weights.*has 0\.5"):
        quick(name).fit(X, Y, sample_weight=np.where(np.arange(300) == 2, 0.5, 1.0))
    with pytest.raises(ParameterError, match="at most 10,000,000"):
        quick(name).fit(X, Y, sample_weight=np.full(300, 1e9))


def test_weights_are_passed_on():
    weight = np.random.default_rng(0).random(300) + 0.1
    model = Supervised(LogisticRegression()).fit(X, Y, sample_weight=weight)
    alone = LogisticRegression().fit(X[:60], NAMES[:60].astype(str), sample_weight=weight[:60])
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-9)


# -- probabilities from scores -------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", [SVC(), LinearSVC(), RidgeClassifier()], ids=lambda e: type(e).__name__)
def test_scores_become_probabilities_that_keep_their_order(estimator, classes):
    rows, y, _ = segments(classes=classes)
    model = Supervised(estimator, standardize=True, random_state=0).fit(rows, y)
    p = model.predict_proba(rows)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    scores = model.estimator_.decision_function(StandardScaler().fit_transform(rows))
    best = scores.argmax(axis=1) if classes > 2 else (scores > 0).astype(int)
    np.testing.assert_array_equal(p.argmax(axis=1), best)
    slope, offset = model.platt_
    assert slope > 0
    sigmoids = expit(slope * (scores if classes > 2 else np.column_stack([-scores, scores])) + offset)
    np.testing.assert_allclose(p, sigmoids / sigmoids.sum(axis=1, keepdims=True), atol=1e-12)


def test_probabilities_of_an_svm_are_honest():
    """Where classes overlap, confidence is near accuracy; the scores of seen rows would promise far more."""
    rows, y, names = segments(3000, labeled=150)
    p = quick("svm").fit(rows, y).predict_proba(rows[150:])
    right = np.array(["amber", "blue", "cyan"])[p.argmax(axis=1)] == names[150:]
    assert abs(p.max(axis=1).mean() - right.mean()) < 0.06


@pytest.mark.parametrize("per_class", [1, 2, 7])
def test_an_svm_with_few_labels(per_class):
    y = np.full(300, None)
    for k in ("amber", "blue", "cyan"):
        y[np.flatnonzero(k == NAMES)[:per_class]] = k
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        p = quick("svm").fit(X, y).predict_proba(X)
    assert np.isfinite(p).all()
    assert p.max() < 0.99
    assert (np.array(["amber", "blue", "cyan"])[p.argmax(axis=1)] == NAMES).mean() > 0.4


def test_one_lonely_class_is_never_held_out():
    y = np.where((NAMES == "cyan") & (np.arange(300) != np.flatnonzero(NAMES == "cyan")[0]), None, Y)
    with pytest.warns(LabelWarning, match="only one labelled row"):
        assert quick("svm").fit(X, y).predict_proba(X).shape == (300, 3)


# -- the table -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUPERVISED)
def test_no_probability_is_nan(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeepSepWarning)
        model = quick(name).fit(X, Y)
    for rows in (X, np.full((1, 5), 1e9), np.full((1, 5), -1e30)):
        p = model.predict_proba(rows)
        assert p.dtype == np.float64
        np.testing.assert_allclose(p.sum(axis=1), 1)


def test_more_neighbours_than_labeled_rows_are_all_of_them():
    y = np.full(300, None)
    y[:4] = ["amber", "amber", "amber", "blue"]
    with pytest.warns(LabelWarning):
        p = quick("knn").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p, np.tile([0.75, 0.25], (300, 1)))


def test_lightgbm_with_its_defaults_has_too_few_rows_and_says_nothing(capfd):
    pytest.importorskip("lightgbm")
    rows, y, _ = segments(labeled=35)
    p = method("lightgbm").fit(rows, y).predict_proba(rows)
    assert (p == p[0]).all()
    assert len(np.unique(method("lightgbm-few-labels").fit(rows, y).predict(rows))) == 3
    assert capfd.readouterr() == ("", "")


def test_settings_go_where_they_belong():
    model = method("knn", n_neighbors=3, standardize=False, random_state=7)
    assert (model.estimator.n_neighbors, model.standardize, model.random_state) == (3, False, 7)
    assert method("self-training", estimator__C=0.3).estimator.estimator.C == 0.3
    with pytest.raises(ParameterError, match=r"knn has no setting 'neighbours'.*n_neighbors"):
        method("knn", neighbours=3)
    with pytest.raises(ParameterError, match="random-forest"):
        method("forest")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match=r"pip install xgboost"):
        method("xgboost")


@pytest.mark.parametrize("estimator", [None, "svm", LogisticRegression, StandardScaler(), DummyClassifier])
def test_other_things_than_classifiers_are_refused(estimator):
    with pytest.raises(ParameterError, match="pass a classifier"):
        Supervised(estimator).fit(X, Y)


def test_seeds():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    forest = Supervised(RandomForestClassifier(10)).fit(X, Y)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert forest.estimator.random_state is None
    assert forest.estimator_.random_state is not None
    own = Supervised(RandomForestClassifier(10, random_state=3), random_state=5).fit(X, Y)
    assert own.estimator_.random_state == 3


@parametrize_with_checks(
    [Supervised(GaussianNB()), Supervised(RidgeClassifier(), standardize=True)],
    expected_failed_checks=lambda model: {"check_classifiers_classes": "uses -1 and 1 as classes; -1 is a mark"},
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        check(estimator)


# -- saving --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", SUPERVISED)
def test_a_saved_model_predicts_the_same_bits(name, classes, tmp_path):
    rows, y, _ = segments(classes=classes)
    model = quick(name).fit(rows, y)
    model.set_params(standardize=not model.standardize)  # has no part in a fitted model
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert repr(again) == repr(model)
    assert repr(again.estimator_) == repr(model.estimator_)
    for some in (rows, rows[:1]):
        assert again.predict_proba(some).tobytes() == model.predict_proba(some).tobytes()
    assert again.transduction_.tolist() == model.transduction_.tolist()
    save(again, tmp_path / "again")
    assert load(tmp_path / "again").predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()
    assert again.fit(rows, y).predict_proba(rows).shape == (300, classes)


@pytest.mark.parametrize(
    "estimator",
    [
        KNeighborsClassifier(algorithm="kd_tree"),
        SelfTrainingClassifier(RandomForestClassifier(5)),
        DecisionTreeClassifier(max_depth=3),
        SVC(kernel="poly"),
    ],
    ids=["tree of neighbours", "self-training", "one tree", "another kernel"],
)
def test_other_classifiers_are_saved(estimator, tmp_path):
    model = Supervised(estimator, random_state=0).fit(X, Y)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


@pytest.mark.parametrize(
    ("library", "kind", "settings"),
    [
        ("lightgbm", "LGBMClassifier", {"objective": "multiclassova", "sigmoid": 0.7}),
        ("lightgbm", "LGBMClassifier", {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}),
        ("lightgbm", "LGBMClassifier", {"min_child_samples": 200}),
        ("xgboost", "XGBClassifier", {"num_parallel_tree": 2, "subsample": 0.5}),
        ("xgboost", "XGBClassifier", {"gamma": 2.0}),
        ("xgboost", "XGBClassifier", {"base_score": 0.3}),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_boosted_trees_of_other_settings_are_saved(library, kind, settings, classes, tmp_path):
    if classes == 2 and settings.get("objective") == "multiclassova":
        settings = {"sigmoid": 0.7}
    if library == "lightgbm":
        settings = {"verbose": -1, **settings}
    rows, y, _ = segments(classes=classes)
    estimator = getattr(pytest.importorskip(library), kind)(n_estimators=6, **settings)
    model = Supervised(estimator, random_state=0).fit(rows, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()
    importance = model.estimator_.feature_importances_
    np.testing.assert_allclose(again.estimator_.feature_importances_, importance, rtol=1e-6)


@pytest.mark.parametrize("name", ["knn", "svm", "random-forest"])
def test_a_model_of_sparse_rows_is_saved(name, tmp_path):
    rows = sparse.csr_matrix(np.where(np.abs(X) > 2, X, 0))
    model = quick(name).fit(rows, Y)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()


def test_a_forest_takes_little_space(tmp_path):
    save(quick("random-forest", n_estimators=50).fit(X, Y), tmp_path / "model")
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) < 100_000
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_bytes())
    assert manifest["files"].keys() == {"arrays.safetensors", "parts/classifier.gz"}


def test_saving_over_a_model_leaves_none_of_its_parts(tmp_path):
    save(quick("random-forest").fit(X, Y), tmp_path / "model")
    save(quick("lightgbm").fit(X, Y), tmp_path / "model")
    assert [p.name for p in (tmp_path / "model" / "parts").iterdir()] == ["classifier.gz"]
    load(tmp_path / "model")


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianNB(),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        KNeighborsClassifier(metric=lambda a, b: abs(a - b).sum(), algorithm="brute"),
        SelfTrainingClassifier(GaussianNB()),
        type("Mine", (LogisticRegression,), {})(),
    ],
    ids=["unlisted", "wrapped", "function", "nested", "subclass"],
)
def test_what_only_code_could_restore_is_not_saved(estimator, tmp_path):
    model = Supervised(estimator).fit(X, Y)
    with pytest.raises(ModelFileError, match="cannot be saved"):
        save(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# -- forgeries: every hash fits ------------------------------------------------------------------------------


def forge(place, content=None, edit=lambda manifest: None):
    manifest = json.loads((place / "manifest.json").read_bytes())
    if content is not None:
        (part,) = (name for name in manifest["files"] if name.startswith("parts/"))
        (place / part).write_bytes(content)
        manifest["files"][part] = {"size": len(content), "sha256": deepsep.files.manifest.sha256(content)}
    edit(manifest)
    manifest.pop("sha256")
    manifest["sha256"] = deepsep.files.manifest.sha256(deepsep.files.manifest.canonical(manifest))
    (place / "manifest.json").write_bytes(deepsep.files.manifest.canonical(manifest))


def refuse(place, words=None):
    with pytest.raises(ModelFileError, match=words):
        load(place)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved model of each kind that the tests below spoil."""
    folder = tmp_path_factory.mktemp("saved")
    for name in ("random-forest", "svm", "knn", "lightgbm"):
        save(quick(name).fit(X, Y), folder / name)
    return folder


def part_of(place):
    (part,) = (place / "parts").iterdir()
    return part


def test_damage_is_found(saved, tmp_path):
    for name in ("random-forest", "lightgbm"):
        place = Path(shutil.copytree(saved / name, tmp_path / name))
        part = part_of(place)
        whole = part.read_bytes()
        for spoilt in (whole[:-1], whole + b"\n", bytes([whole[0] ^ 1]) + whole[1:]):
            part.write_bytes(spoilt)
            refuse(place, "parts/classifier")
        part.unlink()
        refuse(place, "is missing")


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m["estimator"]["settings"]["estimator"].update(__classifier__="os"),
        lambda m: m["estimator"]["settings"]["estimator"]["settings"].update(unheard_of=1),
        lambda m: m["estimator"]["state"].pop("platt"),
        lambda m: m["arrays"].pop("classifier.gz"),
        lambda m: m["arrays"].update({"../secret": {"file": "../secret"}}),
        lambda m: m["files"].update({"parts/more": {"size": 0, "sha256": ""}}),
        lambda m: m["estimator"].update(n_features_in_=4),
    ],
)
def test_forged_manifests(edit, saved, tmp_path):
    place = Path(shutil.copytree(saved / "random-forest", tmp_path / "copy"))
    forge(place, edit=edit)
    refuse(place)


def test_another_scikit_learn_warns(saved, tmp_path):
    place = Path(shutil.copytree(saved / "random-forest", tmp_path / "copy"))
    forge(place, edit=lambda m: m["versions"].update({"scikit-learn": "1.2.0"}))
    with pytest.warns(DeepSepWarning, match=r"scikit-learn 1\.2\.0"):
        load(place)


# -- the benchmark -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the benchmarks are not part of the distribution")
def test_the_benchmark_runs_resumes_and_sums_up(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import methods as benchmark

    def run(*arguments):
        benchmark.main([*arguments, "--out", str(tmp_path / "results.csv")])
        return capsys.readouterr()

    command = ["--only", "digits", "--labels", "35", "--seeds", "1", "--jobs", "1", "--methods"]
    first = run(*command, "knn")
    whole = (tmp_path / "results.csv").read_text()
    assert len(whole.splitlines()) == 2
    accuracy = float(whole.splitlines()[1].split(",")[5])
    assert 0.5 < accuracy < 0.9
    assert f"| knn | {100 * accuracy:.1f} |" in first.out
    (tmp_path / "results.csv").write_text(whole + "digits,35,0,logi")  # killed while it wrote
    second = run(*command, "knn,logistic-regression", "--per-table")
    assert (tmp_path / "results.csv").read_text().startswith(whole)
    assert "1 of 2 cells to do" in second.err
    assert second.out.count("| logistic-regression |") == 2
    again = run(*command, "knn,logistic-regression")
    assert "0 of 2 cells to do" in again.err
    summary = run("--summary", str(tmp_path / "results.csv"))
    assert summary.out == again.out
    monkeypatch.setattr(benchmark, "split", lambda *arguments: 1 / 0)
    failed = run(*command, "knn,svm")
    assert "1 of 2 cells to do" in failed.err
    assert "| svm | – |" in failed.out
    assert "ZeroDivisionError" in failed.out
    with pytest.raises(SystemExit):
        run(*command, "knn,no-such")
    assert "no-such" in capsys.readouterr().err


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the benchmarks are not part of the distribution")
def test_a_summary_has_the_seconds_that_are_given_and_marks_fewer_seeds(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import methods as benchmark

    cells = ["35,0,knn,s,0.5,0.5,0.1,1.0,3.000,", "35,1,knn,s,0.7,0.7,0.1,1.0,,", "35,0,svm,s,0.4,0.4,0.1,1.0,,"]
    lines = [",".join(benchmark.COLUMNS), *(f"nursery,{cell}" for cell in cells)]
    (tmp_path / "results.csv").write_text("\n".join(lines) + "\n")
    benchmark.main(["--summary", str(tmp_path / "results.csv")])
    shown = capsys.readouterr().out
    assert "| knn | 60.0 | 60.0 | 10 | 3 |" in shown
    assert "| svm* | 40.0 | 40.0 | 10 | – |" in shown
    assert "svm: of 2 seeds only 1" in shown


def test_a_setting_that_makes_no_sense_is_a_parameter_error():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), ["a", "b"] * 10
    with pytest.raises(ParameterError, match="'C' parameter of LogisticRegression"):
        method("logistic-regression", C="banana").fit(X, y)


@pytest.mark.parametrize("name", ["random-forest", "extra-trees"])
def test_threads_that_predict_with_a_forest_at_once_warn_of_nothing(name):
    """As scikit-learn does, whose trees set the filters of warnings aside for a moment."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 20, (X[:, 0] > 0).astype(int), -1)
    model = method(name, n_estimators=20, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), model.estimator_.predict_proba(X))
    before = sys.getswitchinterval()
    try:
        with ThreadPoolExecutor(16) as pool, warnings.catch_warnings():
            warnings.simplefilter("error")
            sys.setswitchinterval(1e-6)
            for p in pool.map(model.predict_proba, [X] * 300):
                np.testing.assert_array_equal(p, model.label_distributions_)
    finally:
        sys.setswitchinterval(before)
