"""The TSVM estimator as users meet it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import deepsep
from deepsep import TSVM
from deepsep.errors import ApproximationWarning, CollapseWarning, DeepSepError, DeepSepWarning, LabelWarning

MINUS_ONE = {"check_classifiers_classes": "uses -1 and 1 as classes, and -1 marks unlabelled rows"}


@parametrize_with_checks(
    [TSVM(), TSVM(kernel="rbf"), TSVM(algorithm="cccp", balance=False)],
    expected_failed_checks=lambda estimator: MINUS_ONE,
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        check(estimator)


def three_classes(n=600, labeled=8, seed=0, spread=1.5):
    """Three clusters; `labelled` rows of each have a name, the others None."""
    X, truth = make_blobs(n, centers=[(-4, 0), (4, 0), (0, 5)], cluster_std=spread, random_state=seed)
    names = np.array(["amber", "blue", "cyan"], dtype=object)[truth]
    y = np.full(n, None)
    for k in range(3):
        rows = np.flatnonzero(truth == k)[:labeled]
        y[rows] = names[rows]
    return X, y, names


@pytest.fixture(scope="module")
def fitted():
    X, y, names = three_classes()
    return X, y, names, TSVM(random_state=0).fit(X, y)


# -- what a fitted model offers ------------------------------------------------------------------------------


def test_shapes_and_consistency(fitted):
    X, y, names, model = fitted
    assert model.classes_.tolist() == ["amber", "blue", "cyan"]
    assert model.decision_function(X).shape == (600, 3)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, atol=1e-10)
    p = model.predict_proba(X)
    assert p.shape == (600, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (model.classes_[p.argmax(axis=1)] == model.predict(X)).all()
    np.testing.assert_array_equal(p, model.label_distributions_)
    given = y != None  # noqa: E711
    assert (model.transduction_[given] == y[given]).all()
    assert (model.transduction_[~given] == model.predict(X)[~given]).all()
    assert (model.transduction_ == names).mean() > 0.97
    assert (model.duality_gap_ <= 1e-6).all()
    assert "fixed point" in model.termination_condition_
    assert [len(path) for path in model.objective_path_] == [1, 1, 1]
    assert model.algorithm_ == "single-loop"


def test_two_classes_are_one_problem():
    X, truth = make_moons(200, noise=0.1, random_state=0)
    y = np.where(np.arange(200) < 20, truth, -1)
    model = TSVM().fit(X, y)
    f = model.decision_function(X)
    assert f.shape == (200,)
    assert model.coef_.shape == (1, 2)
    np.testing.assert_array_equal(model.predict(X), (f > 0).astype(int))
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1] > 0.5, f > 0)


@pytest.mark.parametrize("probability", ["platt", "cv", "softmax", "hard"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_probability(probability, n_classes):
    X, y, names = three_classes()
    if n_classes == 2:
        keep = names != "cyan"
        X, y = X[keep], y[keep]
    model = TSVM(probability=probability, random_state=0).fit(X, y)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))


def test_no_probability_no_method():
    X, y, _ = three_classes()
    model = TSVM(probability=None).fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "label_distributions_")
    assert model.transduction_.shape == (600,)


def test_out_of_fold_probabilities_are_humbler():
    """On rows that overlap, scores of training rows flatter; held-out log loss must be better with "cv"."""
    rng = np.random.default_rng(0)
    losses = {"platt": [], "cv": []}
    for seed in range(5):
        X = rng.normal(size=(1000, 30))
        truth = (X[:, :3].sum(axis=1) + rng.normal(size=1000) * 1.5 > 0).astype(int)
        y = np.where(np.arange(1000) < 40, truth, -1)
        for probability, values in losses.items():
            p = TSVM(C=1.0, probability=probability, random_state=seed).fit(X, y).predict_proba(X[40:])
            values.append(-np.log(p[np.arange(960), truth[40:]]).mean())
    assert np.mean(losses["cv"]) < np.mean(losses["platt"])


# -- mathematics ---------------------------------------------------------------------------------------------


def test_balancing_fixes_the_mean_score():
    X, y, _ = three_classes()
    unlabeled = y == None  # noqa: E711
    model = TSVM().fit(X, y)
    np.testing.assert_allclose(model.decision_function(X[unlabeled]).mean(axis=0), 2 / 3 - 1, atol=1e-9)
    priors = {"amber": 0.5, "blue": 0.2, "cyan": 0.3}
    model = TSVM(priors=priors).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X[unlabeled]).mean(axis=0), [0.0, -0.6, -0.4], atol=1e-9)
    two = y != "cyan"
    model = TSVM(priors={"amber": 0.3, "blue": 0.7}).fit(X[two], y[two])
    scores = X[two & unlabeled] @ model.coef_[0] + model.intercept_[0]
    assert scores.mean() == pytest.approx(0.4)


def quota_of_gaussians(centres, shares, n, labels):
    """Return rows of N(centre, I), their classes, labels with as many of each class, and the true posteriors."""
    rng = np.random.default_rng(0)
    truth = rng.choice(len(shares), n, p=shares)
    X = rng.normal(size=(n, centres.shape[1])) + centres[truth]
    y = np.full(n, -1)
    for k in range(len(shares)):
        y[np.flatnonzero(truth == k)[:labels]] = k
    log_density = X @ centres.T - 0.5 * np.sum(centres**2, axis=1)
    return X, truth, y, softmax(log_density + np.log(shares), axis=1)


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize(
    ("centres", "shares"),
    [
        (np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([0.85, 0.15])),
        (1.8 * np.array([[0.0, 1.0], [0.87, -0.5], [-0.87, -0.5]]), np.array([0.7, 0.2, 0.1])),
    ],
)
def test_priors_lead_from_quota_labels_to_the_bayes_rule(centres, shares, balance):
    """As many labels of each class, but unequal classes: with the true shares, near the best that anyone can do."""
    X, truth, y, posterior = quota_of_gaussians(centres, shares, 6000, 200)
    rest = y == -1
    best = (posterior.argmax(axis=1) == truth)[rest].mean()
    model = TSVM(C_star=0.0, balance=balance, priors=dict(enumerate(shares))).fit(X, y)
    p = model.predict_proba(X[rest])
    np.testing.assert_allclose(p.mean(axis=0), shares, atol=1e-6)
    assert (model.predict(X) == truth)[rest].mean() > best - 0.01
    assert np.abs(p - posterior[rest]).mean() < 0.05
    unaware = TSVM(C_star=0.0, balance=False).fit(X, y)
    assert (unaware.predict(X) == truth)[rest].mean() < best - 0.02


@pytest.mark.parametrize("probability", ["platt", "cv", "softmax", "hard", None])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_priors_and_every_probability(probability, n_classes, tmp_path):
    """Predictions are the same with "platt", "hard" and None, and always the most probable class."""
    shares = np.array([0.7, 0.2, 0.1])[:n_classes] / sum([0.7, 0.2, 0.1][:n_classes])
    X, _, y, _ = quota_of_gaussians(np.eye(3)[:n_classes], shares, 400, 15)
    priors = dict(enumerate(shares))
    model = TSVM(priors=priors, probability=probability, random_state=0).fit(X, y)
    predicted = model.predict(X)
    np.testing.assert_array_equal(model.transduction_[y == -1], predicted[y == -1])
    if probability is not None:
        p = model.predict_proba(X)
        np.testing.assert_array_equal(p.argmax(axis=1), predicted)
        np.testing.assert_array_equal(p, model.label_distributions_)
    if n_classes == 2:
        np.testing.assert_array_equal(model.decision_function(X) > 0, predicted == 1)
    if probability in ("hard", None):
        np.testing.assert_array_equal(TSVM(priors=priors).fit(X, y).predict(X), predicted)
    else:
        np.testing.assert_allclose(p[y == -1].mean(axis=0), shares, atol=1e-6)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(deepsep.load(tmp_path / "model").predict(X), predicted)
    assert not hasattr(model.set_params(priors=None).fit(X, y), "prior_shift_")


def test_priors_without_unlabeled_rows_correct_by_the_ratio_of_shares():
    X, _, y, _ = quota_of_gaussians(np.array([[-1.0], [1.0]]), [0.5, 0.5], 200, 100)
    X, y = X[y >= 0], y[y >= 0]
    with pytest.warns(LabelWarning, match="no unlabelled rows"):
        plain, informed = TSVM().fit(X, y), TSVM(priors={0: 0.9, 1: 0.1}).fit(X, y)
    odds = [p[:, 0] / p[:, 1] for p in (plain.predict_proba(X), informed.predict_proba(X))]
    np.testing.assert_allclose(odds[1], odds[0] * 9 * (y == 1).sum() / (y == 0).sum(), rtol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_without_unlabeled_cost_it_is_the_supervised_svm(kernel):
    X, y, _ = three_classes(spread=3.0)
    given = y != None  # noqa: E711
    model = TSVM(C=0.3, C_star=0.0, balance=False, kernel=kernel, gamma=0.1, probability=None).fit(X, y)
    assert model.algorithm_ == "supervised"
    for k, name in enumerate(model.classes_):
        twin = SVC(C=0.3, kernel=kernel, gamma=0.1, tol=1e-10).fit(X[given], y[given] == name)
        np.testing.assert_allclose(model.decision_function(X)[:, k], twin.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("algorithm", ["auto", "cccp"])
@pytest.mark.parametrize("balance", [True, False])
def test_c_star_defaults(algorithm, balance):
    X, y, _ = three_classes()
    settings = {"C": 0.2, "algorithm": algorithm, "balance": balance, "random_state": 0}
    assert TSVM(**settings).fit(X, y).C_star_ == pytest.approx(0.2 * 24 / 576)
    assert TSVM(**settings, n_unlabeled=50).fit(X, y).C_star_ == pytest.approx(0.2 * 24 / 50)
    assert TSVM(**settings, n_unlabeled=50, C_star="pool").fit(X, y).C_star_ == pytest.approx(0.2 * 24 / 576)
    assert TSVM(**settings, n_unlabeled=50).fit(X, y).n_unlabeled_ == 50
    assert TSVM(**settings, n_unlabeled=5000).fit(X, y).n_unlabeled_ == 576


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6), kernel=st.sampled_from(["linear", "rbf"]), algorithm=st.sampled_from(["auto", "cccp"])
)
def test_row_order_does_not_matter(seed, kernel, algorithm):
    X, y, _ = three_classes(150, 5, seed=seed % 100, spread=2.5)
    order = np.random.default_rng(seed).permutation(150)
    model = TSVM(kernel=kernel, algorithm=algorithm)
    scores = clone(model).fit(X, y).decision_function(X)
    np.testing.assert_allclose(clone(model).fit(X[order], y[order]).decision_function(X), scores, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), kernel=st.sampled_from(["linear", "rbf"]), balance=st.booleans())
def test_a_weight_is_that_many_copies(seed, kernel, balance):
    X, y, _ = three_classes(150, 5, seed=seed % 100, spread=2.5)
    weight = np.random.default_rng(seed).integers(0, 4, 150)
    weight[[np.flatnonzero(y == name)[0] for name in ("amber", "blue", "cyan")]] = 2
    model = TSVM(kernel=kernel, balance=balance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        weighted = clone(model).fit(X, y, sample_weight=weight)
        copied = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.decision_function(X), copied.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-5)
    assert weighted.C_star_ == pytest.approx(copied.C_star_)


def test_labels_may_be_renamed():
    X, y, _ = three_classes()
    codes = np.array([{"amber": 7, "blue": 3, "cyan": 5, None: -1}[v] for v in y])
    by_name, by_code = TSVM().fit(X, y), TSVM().fit(X, codes)
    assert by_code.classes_.tolist() == [3, 5, 7]
    columns = [2, 0, 1]  # amber is 7, the last code
    np.testing.assert_allclose(by_name.decision_function(X), by_code.decision_function(X)[:, columns], atol=1e-9)


def test_the_two_paths_agree_on_well_separated_rows():
    X, y, _ = three_classes(spread=0.5)
    loop, steps = TSVM().fit(X, y), TSVM(algorithm="cccp").fit(X, y)
    np.testing.assert_allclose(loop.decision_function(X), steps.decision_function(X), atol=1e-4)
    for path in steps.objective_path_:
        assert (np.diff(path) <= 0).all()


# -- spaces: sparse rows, many features, kernels -------------------------------------------------------------


def text_like(n=120, m=900, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    rate = np.full((3, m), 0.02)
    for k in range(3):
        rate[k, 40 * k : 40 * (k + 1)] = 0.3
    X = (rng.random((n, m)) < rate[truth]).astype(float)
    X = X[:, X.any(axis=0)]
    return X, truth, np.where(np.arange(n) < 24, truth, -1)


def test_more_features_than_rows():
    """The Gram matrix must give what the features give."""
    X, truth, y = text_like()
    wide = TSVM(C=1.0).fit(X, y)
    assert wide.space_ == "Gram"
    assert wide.coef_.shape == (3, X.shape[1])
    np.testing.assert_allclose(wide.decision_function(X), X @ wide.coef_.T + wide.intercept_, atol=1e-9)
    rotation = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    narrow = TSVM(C=1.0).fit(rotation[0] * rotation[1], y)  # the same inner products in 120 features
    assert narrow.space_ == "features"
    np.testing.assert_allclose(
        wide.decision_function(X), narrow.decision_function(rotation[0] * rotation[1]), atol=1e-5
    )
    assert (wide.transduction_ == truth).mean() > 0.9


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_sparse_equals_dense(container):
    X, _, y = text_like()
    dense, thin = TSVM().fit(X, y), TSVM().fit(container(X), y)
    np.testing.assert_allclose(dense.decision_function(X), thin.decision_function(container(X)), atol=1e-7)
    tall = np.vstack([X[:, :50]] * 4)
    labels = np.concatenate([y] + [np.full(120, -1)] * 3)
    np.testing.assert_allclose(
        TSVM().fit(tall, labels).decision_function(tall),
        TSVM().fit(container(tall), labels).decision_function(tall),
        atol=1e-7,
    )


@pytest.mark.parametrize("balance", [True, False])
def test_many_sparse_rows_of_many_features(balance, monkeypatch):
    """Too large for a Gram matrix and for dense rows: the sparse path must find the same boundary."""
    X, _, y = text_like(400, 600)
    exact = TSVM(balance=balance, algorithm="cccp").fit(X, y)
    monkeypatch.setattr("deepsep.solvers.spaces.EXACT_ROWS", 100)
    monkeypatch.setattr("deepsep.solvers.spaces.DENSE_ENTRIES", 1000)
    thin = TSVM(balance=balance, algorithm="cccp").fit(sparse.csr_array(X), y)
    assert exact.space_ == "Gram"
    assert thin.space_ == "sparse features"
    np.testing.assert_allclose(thin.decision_function(X), exact.decision_function(X), atol=1e-3)


def test_rbf_is_linear_in_its_feature_map():
    X, y, _ = three_classes(150)
    values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=0.2))
    mapped = vectors * np.sqrt(np.maximum(values, 0))
    kernel, linear = TSVM(kernel="rbf", gamma=0.2).fit(X, y), TSVM().fit(mapped, y)
    assert kernel.space_ == "Gram"
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(mapped), atol=1e-5)
    own = TSVM(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.2)).fit(X, y)
    np.testing.assert_allclose(own.decision_function(X), kernel.decision_function(X), atol=1e-9)
    assert not hasattr(kernel, "coef_")


def test_nystroem_is_chosen_openly_and_is_close(monkeypatch):
    X, truth = make_moons(500, noise=0.1, random_state=0)
    y = np.where(np.arange(500) < 20, truth, -1)
    exact = TSVM(kernel="rbf", gamma=2.0, C=1.0).fit(X, y)
    monkeypatch.setattr("deepsep.solvers.spaces.EXACT_ROWS", 400)
    monkeypatch.setattr("deepsep.solvers.spaces.N_LANDMARKS", 200)
    with pytest.warns(ApproximationWarning, match="500 training rows"):
        near = TSVM(kernel="rbf", gamma=2.0, C=1.0, random_state=0).fit(X, y)
    assert near.space_ == "Nyström"
    assert (near.predict(X) == exact.predict(X)).mean() > 0.98


def test_an_indefinite_kernel_is_refused():
    X, y, _ = three_classes(60)
    with pytest.raises(DeepSepError, match="positive semi-definite"):
        TSVM(kernel=lambda a, b: -(a @ b.T)).fit(X, y)


# -- scikit-learn habits -------------------------------------------------------------------------------------


def test_fit_changes_no_parameter_and_is_repeatable():
    X, y, _ = three_classes()
    model = TSVM(n_unlabeled=100, random_state=3)
    before = model.get_params()
    first = model.fit(X, y).decision_function(X)
    assert model.get_params() == before
    np.testing.assert_array_equal(model.fit(X, y).decision_function(X), first)
    np.testing.assert_array_equal(clone(model).fit(X, y).decision_function(X), first)
    assert not np.array_equal(TSVM(n_unlabeled=100, random_state=4).fit(X, y).decision_function(X), first)


def test_global_random_state_is_left_alone():
    X, y, _ = three_classes()
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    TSVM(n_unlabeled=100, random_state=0).fit(X, y)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_pickle_predicts_the_same_bits(kernel):
    X, y, _ = three_classes()
    model = TSVM(kernel=kernel).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_single_precision_is_as_good():
    X, y, _ = three_classes(spread=2.5)
    single, double = TSVM().fit(X.astype(np.float32), y), TSVM().fit(X, y)
    np.testing.assert_allclose(single.decision_function(X.astype(np.float32)), double.decision_function(X), atol=1e-3)
    large = np.tile(X, (100, 40))  # 60,000 rows of 80 features: solved in single precision
    labels = np.full(60000, None)
    labels[:600] = y
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = TSVM(probability=None).fit(large.astype(np.float32), labels)
    assert (model.duality_gap_ <= 1e-6).all()


def test_data_frames_and_pipelines():
    X, y, names = three_classes()
    frame = pd.DataFrame(X, columns=["age", "spend"])
    model = make_pipeline(StandardScaler(), TSVM()).fit(frame, pd.Series(y))
    assert (model.predict(frame) == names).mean() > 0.95
    plain = TSVM().fit(frame, y)
    assert plain.feature_names_in_.tolist() == ["age", "spend"]
    with pytest.raises(ValueError, match="feature names"):
        plain.predict(frame.rename(columns={"age": "years"}))


def test_two_level_start_on_many_rows(monkeypatch):
    X, y, names = three_classes(3000)
    at_once = TSVM().fit(X, y)
    monkeypatch.setattr("deepsep.solvers.single_loop.TWO_LEVEL_FROM", 1000)
    monkeypatch.setattr("deepsep.solvers.single_loop.TWO_LEVEL_SAMPLE", 300)
    model = TSVM().fit(X, y)
    assert model.n_iter_ != at_once.n_iter_
    assert (model.duality_gap_ <= 1e-6).all()
    assert (model.transduction_ == names).mean() > 0.97


def test_unfitted():
    with pytest.raises(NotFittedError):
        TSVM().predict([[0.0]])


# -- bad input: an error names the value, the place and the next step ----------------------------------------

X_GOOD, Y_GOOD, _ = three_classes(60)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"C": 0}, "C=0; pass a positive number"),
        ({"C": "much"}, "C='much'"),
        ({"C_star": -1}, "C_star=-1"),
        ({"C_star": "all"}, "C_star='all'"),
        ({"s": 0.5}, "s=0.5"),
        ({"s": -1.0}, "s=-1.0"),
        ({"kernel": "poly"}, "kernel='poly'"),
        ({"gamma": 0.0}, "gamma=0.0"),
        ({"balance": "yes"}, "balance='yes'"),
        ({"n_unlabeled": 0}, "n_unlabeled=0"),
        ({"n_unlabeled": 2.5}, "n_unlabeled=2.5"),
        ({"probability": True}, "probability=True"),
        ({"algorithm": "qp"}, "algorithm='qp'"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"tol": 0}, "tol=0"),
        ({"priors": {"amber": 0.5, "blue": 0.2, "cyan": 0.2}}, "sum to 0.9"),
        ({"priors": {"amber": 0.5, "blue": 0.2, "red": 0.3}}, r"\['red'\] not among the classes"),
        ({"priors": {"amber": 0.5, "blue": 0.5}}, r"\['cyan'\] missing"),
        ({"priors": {"amber": 1.5, "blue": -0.5, "cyan": 0.0}}, r"priors\['amber'\]=1.5"),
        ({"priors": [0.5, 0.2, 0.3]}, "pass a dict"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(DeepSepError, match=words):
        TSVM(**settings).fit(X_GOOD, Y_GOOD)


def spoiled(value, row=3, column=1):
    X = X_GOOD.copy()
    X[row, column] = value
    return X


def test_bad_rows_to_predict(fitted):
    model = fitted[3]
    with pytest.raises(DeepSepError, match="row 3, column 1"):
        model.predict(spoiled(np.nan))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((2, 3)))


def test_what_works_with_a_warning():
    one = Y_GOOD.copy()
    one[np.flatnonzero(one == "cyan")[1:]] = None
    with pytest.warns(LabelWarning, match="one labelled row for class 'cyan'"):
        assert set(TSVM().fit(X_GOOD, one).predict(X_GOOD)) == {"amber", "blue", "cyan"}
    with pytest.warns(LabelWarning, match='fell back to "platt"'), pytest.warns(LabelWarning, match="one labelled row"):
        TSVM(probability="cv").fit(X_GOOD, one)
    with pytest.warns(DeepSepWarning, match=r"1 of 3 features are constant \(column 2\)"):
        TSVM().fit(np.column_stack([X_GOOD, np.ones(60)]), Y_GOOD)
    given = Y_GOOD != None  # noqa: E711
    with pytest.warns(LabelWarning, match="no unlabelled rows: TSVM learns from the labelled ones alone"):
        model = TSVM().fit(X_GOOD[given], Y_GOOD[given])
    assert model.algorithm_ == "supervised"
    for k, name in enumerate(model.classes_):
        twin = SVC(C=0.1, kernel="linear", tol=1e-10).fit(X_GOOD[given], Y_GOOD[given] == name)
        np.testing.assert_allclose(model.decision_function(X_GOOD)[:, k], twin.decision_function(X_GOOD), atol=1e-5)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        assert "max_iter=2" in TSVM(max_iter=2).fit(X_GOOD, Y_GOOD).termination_condition_


def overlapping():
    """Classes without a gap between them, and 50 labels."""
    rng = np.random.default_rng(1)
    truth = (np.arange(800) % 3 == 0).astype(int)
    X = rng.normal(size=(800, 5)) + 0.4 * truth[:, None]
    return X, np.where(np.arange(800) < 50, truth, -1)


def test_a_collapsed_class_is_recovered_with_a_warning():
    """With a free bias and a large C*, the boundary leaves the rows; the supervised one has rows on both sides."""
    X, y = overlapping()
    with pytest.warns(CollapseWarning, match="class 1"):
        model = TSVM(C=0.1, C_star=0.1, balance=False).fit(X, y)
    assert model.balanced_.tolist() == [True]
    assert 0.1 < (model.predict(X) == 1).mean() < 0.9
    shares = {0: 2 / 3, 1: 1 / 3}
    with pytest.warns(CollapseWarning, match="class 1"):
        known = TSVM(C=0.1, C_star=0.1, balance=False, priors=shares).fit(X, y)
    assert known.predict_proba(X[50:]).mean(axis=0) == pytest.approx([2 / 3, 1 / 3], abs=1e-6)


def test_an_exact_algorithm_is_left_as_it_is():
    X, y = overlapping()
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        model = TSVM(C=0.1, C_star=0.1, balance=False, algorithm="cccp").fit(X, y)
    assert model.balanced_.tolist() == [False]


def rare_class(share, seed):
    """Labels that fill quotas, 20 a class, where a class with a clear gap is rare in the population."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, 6))
    centres *= 4 / np.linalg.norm(centres[0] - centres[1])
    codes = rng.choice(3, size=3000, p=[share, (1 - share) / 2, (1 - share) / 2])
    codes[:60] = np.repeat(np.arange(3), 20)
    X = centres[codes] + 0.5 * rng.normal(size=(3000, 6))
    return X, np.where(np.arange(3000) < 60, codes, -1), codes


@pytest.mark.parametrize("share", [0.01, 0.02, 0.04])
def test_a_class_that_is_rare_in_the_population_has_not_collapsed(share):
    for seed in range(3):
        X, y, codes = rare_class(share, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error", CollapseWarning)
            model = TSVM(balance=False).fit(X, y)
        assert (model.predict(X) == codes)[60:].mean() > 0.985


def test_many_features_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 200)) + 1e5
    truth = (X[:, :5].sum(axis=1) > 5e5).astype(int)
    y = np.where(np.arange(60) < 20, truth, -1)
    for seed in range(5):
        rows = np.random.default_rng(seed).permutation(60)
        model = TSVM().fit(X[rows], y[rows])
        np.testing.assert_allclose(
            model.decision_function(X[rows]),
            TSVM().fit(X[rows] - 1e5, y[rows]).decision_function(X[rows] - 1e5),
            atol=1e-4,
        )


def test_a_step_cut_short_is_no_fixed_point():
    """Whatever the settings, "fixed point" is only said with a gap below tol."""
    for seed in range(10):
        X, y, _ = three_classes(200, 6, seed=seed, spread=3.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = TSVM(C=5, algorithm="cccp", max_iter=8).fit(X * 3 + 1, y)
        if "fixed point" in model.termination_condition_:
            assert (model.duality_gap_ <= 1e-6).all()
