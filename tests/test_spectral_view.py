"""The spectral view of the in-context network: its coordinates, new rows, bad input, the committee and files."""

import tracemalloc

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.datasets import make_blobs, make_moons
from sklearn.neighbors import NearestNeighbors

from deepsep import Committee, InContext, load, save
from deepsep.classifiers.committee.fits import twin_of
from deepsep.classifiers.in_context.spectral_map import SpectralMap
from deepsep.errors import DataError, DeepSepWarning, LabelWarning, ModelFileError
from deepsep.evaluation.pooling import HeldOutLabels, fit_pool
from deepsep.report.provenance import rows_in_model

accuracy = pytest.mark.usefixtures("shipped_network")


def clusters(n=900, d=8, centres=5, std=2.5, seed=0):
    return make_blobs(n, centers=centres, n_features=d, cluster_std=std, random_state=seed)[0].astype(np.float32)


def partly(truth, labeled=30):
    """Hide the classes of all but the first rows of each."""
    y = np.full(len(truth), -1)
    for k in np.unique(truth):
        y[np.flatnonzero(truth == k)[: labeled // (truth.max() + 1)]] = k
    return y


def small(**settings):
    return InContext(**{"view": "spectral", "n_members": 1, "random_state": 0, "device": "cpu"} | settings)


def walk(components, k=10):
    """The random walk on the graph of a map, as a dense matrix made in another way."""
    distance, index = NearestNeighbors(n_neighbors=k).fit(components).kneighbors()
    width, n = distance[:, -1], len(components)
    affinity = np.zeros((n, n))
    for i in range(n):
        affinity[i, index[i]] = np.exp(-(distance[i] ** 2) / (width[i] * width[index[i]]))
    affinity = np.maximum(affinity, affinity.T)
    return affinity / affinity.sum(axis=1, keepdims=True)


# -- the coordinates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 900])  # one way to find eigenvectors for few rows, another for many
def test_coordinates_are_the_slowest_eigenvectors_of_the_random_walk(n):
    X = clusters(n)
    found = SpectralMap.of(X, X)
    P = walk(found.rows.astype(float))
    vectors, values = found.vectors.astype(float), found.values.astype(float)
    np.testing.assert_allclose(P @ vectors, values * vectors, atol=2e-3)
    slowest = np.sort(np.linalg.eigvals(P).real)[::-1]
    np.testing.assert_allclose(values, slowest[1 : len(values) + 1], atol=1e-3)
    assert slowest[0] == pytest.approx(1)


def test_a_row_of_the_graph_has_its_own_coordinates():
    X = clusters()
    found = SpectralMap.of(X[:300], X)
    order = np.lexsort(found(X).T)
    np.testing.assert_array_equal(found(X)[order], found.vectors[np.lexsort(found.vectors.T)])


def test_new_rows_get_nearly_the_coordinates_that_they_would_have_in_the_graph():
    X = clusters(1200, std=2.0)
    known, new = X[:900], X[900:]
    without, within = SpectralMap.of(X[:300], known), SpectralMap.of(X[:300], X)
    # Both span nearly the same space, in which single vectors may be turned.
    turn = np.linalg.lstsq(without(known), within(known)[:, :8], rcond=None)[0]
    wanted, got = within(new)[:, :8], without(new) @ turn
    explained = 1 - ((wanted - got) ** 2).sum(axis=0) / ((wanted - wanted.mean(axis=0)) ** 2).sum(axis=0)
    assert explained.min() > 0.9
    assert explained[:4].min() > 0.97


def test_coordinates_have_the_same_bits_whatever_stands_beside_a_row():
    X = clusters()
    found, new = SpectralMap.of(X[:300], X), clusters(400, seed=1)
    among_many = found(np.concatenate([new, X]))[:400]
    for i in (0, 1, 127, 128, 399):
        np.testing.assert_array_equal(found(new[i : i + 1])[0], among_many[i])
    order = np.random.default_rng(0).permutation(len(X))
    again = SpectralMap.of(X[:300], X[order])
    np.testing.assert_array_equal(again(new), among_many)


def test_a_copy_of_a_row_changes_nothing():
    X = clusters()
    twice = SpectralMap.of(X[:300], np.concatenate([X, X[:50]]))
    np.testing.assert_array_equal(twice.vectors, SpectralMap.of(X[:300], X).vectors)


def test_memory_is_linear_in_the_rows():
    X = clusters(6000, d=4)
    tracemalloc.start()
    SpectralMap.of(X[:300], X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * 8 * len(X) ** 2


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        np.sort(np.random.default_rng(0).normal(size=(3000, 1)), axis=0),  # a line, on which walks are slowest
        np.random.default_rng(0).integers(0, 6, size=(2000, 3)).astype(float),  # many rows equally far away
        np.concatenate([clusters(700), 1e6 + clusters(15), -1e6 * np.ones((1, 8))]),  # separate parts
        make_blobs(1200, centers=60, n_features=3, cluster_std=0.01, random_state=0)[0],  # more parts than coordinates
        np.column_stack([clusters(500), clusters(500), np.ones(500)]),  # duplicated and constant columns
    ],
    ids=["line", "grid", "parts", "many parts", "columns"],
)
def test_odd_rows_get_finite_coordinates(X):
    X = X.astype(np.float32)
    found = SpectralMap.of(X[::3], X)
    assert np.isfinite(found(np.concatenate([X, X + 0.01, np.full((1, X.shape[1]), 1e4, np.float32)]))).all()
    assert 0 < len(found.values) <= 24
    assert (found.widths > 0).all()
    assert not (np.ptp(found.vectors, axis=0) < 1e-3).any(), "no coordinate is constant"
    np.testing.assert_array_equal(SpectralMap.of(X[::3], X).vectors, found.vectors)


def test_too_few_different_rows():
    X, truth = make_blobs(60, centers=2, random_state=0)
    with pytest.raises(DataError, match="at least 20 different rows, and there are 15"):
        small().fit(np.tile(X[:15], (4, 1)), np.tile(np.r_[truth[:10], [-1] * 5], 4))


def test_no_unlabeled_rows():
    X, truth = make_blobs(60, centers=2, random_state=0)
    with pytest.warns(LabelWarning), pytest.raises(DataError, match="learns from unlabelled rows, and there are none"):
        small().fit(X, truth)


def beside_a_linear_model(**settings):
    members = {"spectral": small(), "logistic-regression": "logistic-regression"}
    return Committee(members=members, effort="fast", n_jobs=1, random_state=0, student=False, **settings)


FEW = make_blobs(18, centers=2, n_features=3, random_state=0)


@pytest.mark.parametrize(
    ("X", "y", "why"),
    [
        (FEW[0], partly(FEW[1], 12), "at least 20 different rows, and there are"),
        (np.tile(FEW[0], (5, 1)), partly(np.tile(FEW[1], 5), 12), "at least 20 different rows, and there are 18"),
    ],
    ids=["fewer rows than neighbours", "few different rows"],
)
def test_a_committee_leaves_the_view_out_of_too_few_rows(X, y, why):
    with pytest.warns(DeepSepWarning, match=rf"left out of the committee: spectral \(.*{why}"):
        model = beside_a_linear_model().fit(X, y)
    assert list(model.members_) == ["logistic-regression"]
    assert np.isfinite(model.label_distributions_).all()


def test_a_committee_leaves_the_view_out_without_unlabeled_rows():
    X, truth = make_blobs(60, centers=2, n_features=3, random_state=0)
    left_out = pytest.warns(DeepSepWarning, match=r"left out of the committee: spectral \(.*there are none")
    with pytest.warns(LabelWarning, match="no unlabelled rows"), left_out:
        model = beside_a_linear_model().fit(X, truth)
    assert list(model.members_) == ["logistic-regression"]


@pytest.mark.filterwarnings("ignore:.*constant")
@pytest.mark.parametrize(
    "shape",
    [
        lambda X: np.column_stack([X, np.full(len(X), 7.0), X, X[:, ::-1]]),  # constant and duplicated columns
        lambda X: X[:, :1],  # one principal component
        lambda X: np.column_stack([X, 1e3 * (np.arange(len(X)) % 2)]),  # parts that nothing connects
        lambda X: (X.mean(axis=0) < X).astype(float) + np.arange(len(X))[:, None] % 40,  # few different values
    ],
    ids=["columns", "one component", "parts", "few values"],
)
def test_a_committee_keeps_the_view_of_odd_columns(shape):
    X, truth = make_blobs(150, centers=2, n_features=3, random_state=0)
    model = beside_a_linear_model().fit(shape(X), partly(truth))
    assert set(model.members_) == {"spectral", "logistic-regression"}
    assert np.isfinite(model.label_distributions_).all()


def test_the_twin_of_a_committee_does_without_the_view():
    X, truth = make_blobs(120, centers=2, n_features=3, cluster_std=3, random_state=0)
    members = {"spectral": small(), "tsvm": "tsvm", "logistic-regression": "logistic-regression"}
    model = Committee(members=members, twins=True, n_jobs=1, random_state=0).fit(X, partly(truth, 20))
    held_out = model.out_of_fold_
    assert twin_of("tsvm") in held_out.p
    assert twin_of("spectral") not in held_out.p
    assert not held_out.failures
    # The twin of the committee is that of the others, with their usual weights.
    alone = np.stack([held_out.p[twin_of("tsvm")], held_out.p["logistic-regression"]])
    weight = np.ones(len(held_out.rows))
    labels = HeldOutLabels(held_out.codes, held_out.rows, held_out.fold, weight, weight > 0, 1)
    pool = fit_pool(alone, labels, usual=np.full(2, 0.5), shares=model.population_shares_)
    np.testing.assert_array_equal(held_out.p[twin_of("committee")], pool.held_out)


# -- predictions ---------------------------------------------------------------------------------------------


@accuracy
def test_two_moons_with_six_labels():
    X, truth = make_moons(1006, noise=0.08, random_state=1)
    y = np.full(len(X), -1)
    for k in (0, 1):
        of_class = np.flatnonzero(truth == k)
        y[of_class[np.argsort(X[of_class, 0])[[0, len(of_class) // 2, -1]]]] = k
    model = small(n_members=2).fit(X, y)
    assert (model.transduction_ == truth)[y < 0].mean() > 0.95
    new, truth = make_moons(1000, noise=0.08, random_state=2)
    assert model.score(new, truth) > 0.95


@pytest.fixture(scope="module")
def fitted():
    X, truth = make_blobs(500, centers=3, n_features=6, cluster_std=2.5, random_state=0)
    return X, truth, small(n_members=2).fit(X, partly(truth))


def test_training_rows_and_new_ones_get_the_same_bits_alone_or_among_many(fitted):
    X, _, model = fitted
    np.testing.assert_array_equal(model.predict_proba(X), model.label_distributions_)
    new = X[:150] + 0.1
    p = model.predict_proba(np.concatenate([new, X]))
    for i in (0, 127, 149):
        np.testing.assert_array_equal(model.predict_proba(new[i : i + 1])[0], p[i])


def test_the_number_of_threads_and_the_order_of_the_rows_do_not_matter(fitted):
    X, truth, model = fitted
    before = torch.get_num_threads()
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            again = small(n_members=2).fit(X, partly(truth))
            np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    finally:
        torch.set_num_threads(before)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = small(n_members=2).fit(X[order], partly(truth)[order])
    np.testing.assert_allclose(shuffled.predict_proba(X), model.predict_proba(X), atol=1e-4)


def test_a_row_of_weight_zero_is_not_in_the_graph(fitted):
    X, truth, _ = fitted
    weight = np.where(np.arange(len(X)) < 400, 1, 0)
    weighted = small().fit(X, partly(truth), sample_weight=weight)
    alone = small().fit(X[:400], partly(truth)[:400])
    np.testing.assert_array_equal(weighted.predict_proba(X), alone.predict_proba(X))


def test_the_graph_has_a_limited_number_of_rows_that_the_model_contains(tmp_path, monkeypatch):
    monkeypatch.setattr("deepsep.classifiers.in_context.in_context.MAX_GRAPH_ROWS", 400)
    X, truth = make_blobs(700, centers=3, n_features=6, random_state=0)
    model = small(context_size=100).fit(X, partly(truth))
    save(model, tmp_path / "model")
    assert load_file(tmp_path / "model" / "arrays.safetensors")["graph/rows"].shape == (400, 6)
    assert rows_in_model(model) == rows_in_model(load(tmp_path / "model")) == 400
    assert set(model.context_.tolist()) < set(model.graph_.tolist())


def test_a_saved_model_predicts_the_same_bits(fitted, tmp_path):
    X, _, model = fitted
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X + 0.1), model.predict_proba(X + 0.1))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("graph/widths", lambda old: 0 * old, "impossible values"),
        ("graph/vectors", lambda old: old[:-1], "has shape"),
        ("graph/axes", lambda old: old[:, :-1].copy(), "has shape"),
    ],
)
def test_a_graph_that_does_not_fit_together_is_refused(name, change, words):
    X = clusters(300)
    arrays = SpectralMap.of(X, X).to_arrays()
    SpectralMap.from_arrays(arrays, 8)
    with pytest.raises(ModelFileError, match=words):
        SpectralMap.from_arrays(arrays | {name: change(arrays[name])}, 8)
