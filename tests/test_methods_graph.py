"""Methods on graphs of nearest neighbours: against dense algebra, scikit-learn and networkx."""

from itertools import product

import networkx
import numpy as np
import pytest
from rows import affinities, blobs, moons
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading as SklearnSpreading

from deepsep import load, save
from deepsep.classifiers import (
    GraphMinCut,
    InformationRegularization,
    LabelPropagation,
    LabelSpreading,
    MarkovRandomWalk,
    SemiBoost,
)
from deepsep.core.scaling import Scaling
from deepsep.errors import LabelWarning, ParameterError
from deepsep.zoo.graphs.graph import (
    conjugate_gradients,
    connect,
    degrees,
    diffuse,
    distributions,
    neighbours,
    normalised,
    one_hot,
    reached,
)
from deepsep.zoo.graphs.information import alternate, pulled, regions
from deepsep.zoo.graphs.mincut import cheapest_cut, class_cuts
from deepsep.zoo.graphs.random_walk import em, transitions, walked

GRAPH = [LabelSpreading, LabelPropagation, GraphMinCut, MarkovRandomWalk, InformationRegularization]


def graph_of(model, X):
    """The affinities that a model has of its training rows."""
    return affinities(Scaling.of(X, np.ones(len(X))).apply(X), model.n_neighbors).toarray()


# -- the graph -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 12])  # by a tree, and by comparing all
def test_neighbours_are_the_nearest_others(d):
    X = np.random.default_rng(0).normal(size=(60, d))
    distance, index = neighbours(X, 7)
    D = np.linalg.norm(X[:, None] - X[None], axis=-1)
    np.fill_diagonal(D, np.inf)
    np.testing.assert_allclose(distance, np.sort(D, axis=1)[:, :7], atol=1e-7)
    np.testing.assert_allclose(np.take_along_axis(D, index, 1), distance, atol=1e-7)
    new = X[:5] + 0.1
    distance, index = neighbours(new, 3, among=X)
    D = np.linalg.norm(new[:, None] - X[None], axis=-1)
    np.testing.assert_allclose(distance, np.sort(D, axis=1)[:, :3], atol=1e-7)


def test_copies_are_neighbours_but_a_row_is_not_its_own():
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 8)), 4, axis=0)
    distance, index = neighbours(X, 3)
    assert (index != np.arange(40)[:, None]).all()
    np.testing.assert_allclose(distance, 0, atol=1e-6)
    assert np.isfinite(affinities(X, 3).toarray()).all()


def test_more_neighbours_than_rows_are_all_others():
    _, index = neighbours(np.arange(5.0)[:, None], 30)
    assert index.shape == (5, 4)


def test_graph_is_symmetric_and_takes_the_larger_or_the_sum():
    X = np.random.default_rng(0).normal(size=(50, 3))
    distance, index = neighbours(X, 5)
    A = np.zeros((50, 50))
    A[np.arange(50)[:, None], index] = np.exp(-distance)
    np.testing.assert_array_equal(connect(index, np.exp(-distance)).toarray(), np.maximum(A, A.T))
    np.testing.assert_array_equal(connect(index, np.exp(-distance), together="sum").toarray(), A + A.T)


def test_normalised_graph_is_as_written_also_for_a_row_without_edges():
    W = np.array([[0, 2.0, 0], [2.0, 0, 0], [0, 0, 0]])
    S = normalised(sparse.csr_array(W)).toarray()
    np.testing.assert_allclose(S, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_diffusion_solves_the_dense_system_for_all_classes():
    W = affinities(np.random.default_rng(0).normal(size=(120, 5)))
    Y = one_hot(np.r_[0, 1, 2, 0, np.full(116, -1)], 4)  # of the last class there is no label
    S = normalised(W)
    for alpha in (0.0, 0.5, 0.99):
        exact = np.linalg.solve(np.eye(120) - alpha * S.toarray(), Y)
        np.testing.assert_allclose(diffuse(S, Y, alpha), exact, atol=1e-8)


def test_conjugate_gradients_warn_when_they_do_not_arrive():
    W = affinities(np.random.default_rng(0).normal(size=(120, 5)))
    D = degrees(W)[:, None] + 1e-6
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        conjugate_gradients(lambda V: D * V - W @ V, np.eye(120)[:, :2], max_iter=2)


def test_reached_rows_are_those_with_a_path_to_a_label():
    W = sparse.csr_array(np.kron(np.eye(3), np.ones((4, 4)) - np.eye(4)))
    np.testing.assert_array_equal(reached(W, np.array([1, 9])), np.repeat([True, False, True], 4))


def test_distributions_sum_to_one_and_have_an_answer_for_every_row():
    P = distributions(np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([0.3, 0.7]))
    np.testing.assert_allclose(P, [[0.25, 0.75], [0.3, 0.7]])
    np.testing.assert_allclose(distributions(np.zeros((1, 4))), 0.25)


# -- label spreading and label propagation -------------------------------------------------------------------


@pytest.mark.parametrize("data", [moons, blobs])
def test_spreading_is_the_closed_form(data):
    X, y, _ = data()
    model = LabelSpreading(alpha=0.7).fit(X, y)
    W = graph_of(model, X)
    root = 1 / np.sqrt(W.sum(axis=1))
    Z = np.linalg.solve(np.eye(len(X)) - 0.7 * root[:, None] * W * root, one_hot(y, y.max() + 1))
    np.testing.assert_allclose(model.label_distributions_, Z / Z.sum(axis=1, keepdims=True), atol=1e-8)


def test_spreading_agrees_with_scikit_learn_on_the_same_graph():
    X, y, _ = blobs()
    model = LabelSpreading(alpha=0.6).fit(X, y)
    W = graph_of(model, X)
    twin = SklearnSpreading(kernel=lambda a, b: W, alpha=0.6, max_iter=10_000, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.label_distributions_, twin.label_distributions_, atol=1e-8)
    np.testing.assert_array_equal(model.transduction_[y < 0], twin.transduction_[y < 0])


@pytest.mark.parametrize("data", [moons, blobs])
def test_propagation_is_the_harmonic_function(data):
    X, y, _ = data()
    model = LabelPropagation(class_mass=False).fit(X, y)
    W = graph_of(model, X)
    L = np.diag(W.sum(axis=1)) - W
    u, labeled = y < 0, y >= 0
    Y = one_hot(y[labeled], y.max() + 1)
    f = np.linalg.solve(L[np.ix_(u, u)], W[np.ix_(u, labeled)] @ Y)
    np.testing.assert_allclose(model.label_distributions_[u], f, atol=1e-8)
    np.testing.assert_array_equal(model.label_distributions_[labeled], Y)
    scaled = f * Y.mean(axis=0) / f.sum(axis=0)
    P = LabelPropagation().fit(X, y).label_distributions_[u]
    np.testing.assert_allclose(P, scaled / scaled.sum(axis=1, keepdims=True), atol=1e-8)


@pytest.mark.parametrize("model", [LabelSpreading(alpha=0.99, n_neighbors=6), LabelPropagation(n_neighbors=6)])
def test_moons_are_told_apart_from_one_label_each(model):
    X, y, truth = moons(labeled=1)
    with pytest.warns(LabelWarning, match="only one labelled row"):
        model.fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.9


@pytest.mark.parametrize("cls", GRAPH)
def test_islands_without_labels_have_an_answer(cls):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 3)), rng.normal(size=(30, 3)) + 50, rng.normal(size=(30, 3)) - 50])
    y = np.full(90, -1)
    y[[0, 1, 2]], y[[30]] = 0, 1  # three labels of one class, one of the other, and an island with none
    with pytest.warns(LabelWarning, match="only one labelled row"):
        model = cls(n_neighbors=5, random_state=0).fit(X, y)
    P = model.label_distributions_
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (model.transduction_[:60] == np.repeat([0, 1], 30)).all()
    if cls in (LabelSpreading, LabelPropagation):
        np.testing.assert_allclose(P[60:], [[0.75, 0.25]] * 30)  # the shares of the labels
    if cls is MarkovRandomWalk:
        np.testing.assert_allclose(P[60:], 0.5)
    assert np.isfinite(model.predict_proba(X * 1e6)).all()


@pytest.mark.parametrize("cls", [*GRAPH, SemiBoost])
def test_copies_of_rows_are_no_trouble(cls):
    X, y, truth = blobs()
    X, y, truth = np.repeat(X, 12, axis=0), np.repeat(y, 12), np.repeat(truth, 12)
    model = cls(n_neighbors=5, random_state=0).fit(X, y)  # all neighbours are copies
    assert np.isfinite(model.label_distributions_).all()
    np.testing.assert_array_equal(model.transduction_[y >= 0], y[y >= 0])


@pytest.mark.parametrize("cls", [*GRAPH, SemiBoost])
def test_more_neighbours_than_rows(cls):
    X, y, _ = blobs(n=20, labeled=2)
    model = cls(n_neighbors=100, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("cls", [LabelSpreading, LabelPropagation, MarkovRandomWalk])
def test_the_order_of_rows_does_not_matter(cls):
    X, y, _ = blobs()
    order = np.random.default_rng(1).permutation(len(X))
    a, b = cls().fit(X, y), cls().fit(X[order], y[order])
    np.testing.assert_allclose(a.label_distributions_[order], b.label_distributions_, atol=1e-6)
    np.testing.assert_allclose(a.predict_proba(X + 0.1), b.predict_proba(X + 0.1), atol=1e-6)


@pytest.mark.parametrize("cls", GRAPH)
def test_new_rows_have_the_weighted_mean_of_their_neighbours(cls):
    X, y, _ = blobs()
    model = cls(n_neighbors=6, standardize=False, random_state=0).fit(X, y)
    new = X[:20] + 0.3
    rows = X.astype(np.float32)
    distance, index = NearestNeighbors(n_neighbors=6).fit(rows).kneighbors(new.astype(np.float32))
    P = np.empty((20, 3))
    for i in range(20):
        a = np.exp(-((distance[i] / distance[i].max()) ** 2))
        P[i] = (a[:, None] * model.label_distributions_[index[i]]).sum(axis=0) / a.sum()
    np.testing.assert_allclose(model.predict_proba(new), P, atol=1e-6)


# -- graph min-cut -------------------------------------------------------------------------------------------


def small_graph(seed, n=8):
    """Weights in 64ths: whole numbers after scaling, so that no cut is rounded."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.integers(1, 64, (n, n)) * (rng.random((n, n)) < 0.4), 1) / 64
    to_source, to_sink = rng.integers(0, 64, (2, n)) * (rng.random((2, n)) < 0.4) / 64
    return W + W.T, to_source, to_sink


def cut_weight(W, to_source, to_sink, with_source):
    return W[np.ix_(with_source, ~with_source)].sum() + to_sink[with_source].sum() + to_source[~with_source].sum()


@pytest.mark.parametrize("seed", range(20))
def test_cut_is_the_cheapest_of_all(seed):
    W, to_source, to_sink = small_graph(seed)
    source, sink, weight = cheapest_cut(sparse.csr_array(W), to_source, to_sink)
    sides = [np.array(side) for side in product([False, True], repeat=8)]
    weights = np.array([cut_weight(W, to_source, to_sink, side) for side in sides])
    cheapest = [side for side, w in zip(sides, weights, strict=True) if w < weights.min() + 1e-9]
    np.testing.assert_allclose(weight, weights.min(), atol=1e-6)
    np.testing.assert_array_equal(source, np.logical_and.reduce(cheapest))
    np.testing.assert_array_equal(sink, ~np.logical_or.reduce(cheapest))


def test_cut_weighs_what_networkx_finds():
    X, y, _ = moons()
    W = affinities(X).toarray()
    u = np.flatnonzero(y < 0)
    to_source, to_sink = (W[np.ix_(u, np.flatnonzero(y == k))].sum(axis=1) for k in (0, 1))
    _, _, weight = cheapest_cut(sparse.csr_array(W[np.ix_(u, u)]), to_source, to_sink)
    graph = networkx.Graph()
    graph.add_weighted_edges_from([(i, j, W[i, j]) for i, j in np.argwhere(np.triu(W) > 0)], weight="capacity")
    for k in (0, 1):
        graph.add_edges_from((f"class {k}", i) for i in np.flatnonzero(y == k))  # without a limit
    between = W[np.ix_(np.flatnonzero(y == 0), np.flatnonzero(y == 1))].sum()  # cut in any case
    expected, _ = networkx.minimum_cut(graph, "class 0", "class 1")
    np.testing.assert_allclose(weight + between, expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_classes_never_claim_the_same_row(seed):
    W, _, _ = small_graph(seed, n=40)
    rng = np.random.default_rng(seed)
    terminal = rng.integers(1, 64, (40, 4)) * (rng.random((40, 4)) < 0.5) / 8
    W = sparse.csr_array(W)
    alone = np.column_stack([cheapest_cut(W, t, terminal.sum(axis=1) - t)[0] for t in terminal.T])
    assert (alone.sum(axis=1) <= 1).all()
    np.testing.assert_array_equal(class_cuts(W, terminal), alone)
    assert alone.any()


def test_large_and_small_weights_keep_within_32_bits():
    W = sparse.csr_array(np.array([[0, 1e-12], [1e-12, 0]]))
    source, sink, weight = cheapest_cut(W, np.array([1e9, 0]), np.array([0, 1e9]))
    np.testing.assert_array_equal([source, sink], [[True, False], [False, True]])
    assert weight < 10  # the smallest edge is one unit of 2^-30 of the largest sum


def test_mincut_without_noise_is_one_cut():
    X, y, _ = moons(labeled=3)
    model = GraphMinCut(noise=0.0, n_cuts=3, pull=0.0, n_neighbors=8).fit(X, y)
    u = y < 0
    W = graph_of(model, X)
    terminal = W[u][:, ~u] @ one_hot(y[~u], 2)
    claims = class_cuts(sparse.csr_array(W[np.ix_(u, u)]), terminal)
    claimed = claims.any(axis=1)
    assert model.claimed_ == pytest.approx(claimed.mean())
    np.testing.assert_allclose(model.label_distributions_[u][claimed], (3 * claims[claimed] + 0.5) / 4)


def test_mincut_tells_moons_apart_and_is_reproducible():
    X, y, truth = moons()
    a, b = (GraphMinCut(random_state=3).fit(X, y) for _ in range(2))
    assert (a.transduction_ == truth).mean() > 0.95
    np.testing.assert_array_equal(a.label_distributions_, b.label_distributions_)
    assert 0 < a.claimed_ <= 1


# -- Markov random walks -------------------------------------------------------------------------------------


def dense_walk(W, t):
    """P(began at i | ended at k), from the power of a dense matrix."""
    A = W + np.eye(len(W))
    A /= A.sum(axis=1, keepdims=True)
    power = np.linalg.matrix_power(A, t)
    return power / power.sum(axis=0)


def test_walks_are_the_power_of_the_matrix():
    W = affinities(np.random.default_rng(0).normal(size=(40, 3)), 4)
    A = transitions(W)
    np.testing.assert_allclose(A.sum(axis=1), 1)
    V = np.random.default_rng(1).random((40, 2))
    np.testing.assert_allclose(walked(A, 5, V), np.linalg.matrix_power(A.toarray(), 5) @ V)


def test_random_walk_is_em_written_out():
    X, y, _ = blobs(n=60)
    model = MarkovRandomWalk(t=3, max_iter=7, tol=0.0).fit(X, y)
    Q = dense_walk(graph_of(model, X), 3)
    theta = np.full((60, 3), 1 / 3)
    labeled = np.flatnonzero(y >= 0)
    for _ in range(7):
        began = np.array([theta[:, y[k]] * Q[:, k] for k in labeled])  # P(i | k, y_k)
        began /= began.sum(axis=1, keepdims=True)
        total = began.sum(axis=0)
        new = np.stack([began[y[labeled] == c].sum(axis=0) for c in range(3)], axis=1)
        theta = np.where(total[:, None] > 0, new / np.where(total > 0, total, 1)[:, None], theta)
    np.testing.assert_allclose(model.label_distributions_, Q.T @ theta, atol=1e-10)
    likelihood = [np.log((Q[:, k] @ theta)[y[k]]) for k in labeled]
    np.testing.assert_allclose(model.log_likelihood_[-1], np.mean(likelihood))
    assert model.n_iter_ == 7


@pytest.mark.parametrize("data", [moons, blobs])
def test_the_likelihood_of_labels_never_falls(data):
    X, y, _ = data()
    labeled = np.flatnonzero(y >= 0)
    _, path = em(transitions(affinities(X)), 4, labeled, y[labeled], y.max() + 1, max_iter=40, tol=0.0)
    assert (np.diff(path) >= -1e-12).all()
    assert path[0] == pytest.approx(-np.log(y.max() + 1))
    assert path[-1] > path[0]


def test_without_steps_only_labels_are_known():
    X, y, _ = blobs()
    P = MarkovRandomWalk(t=0).fit(X, y).label_distributions_
    np.testing.assert_allclose(P[y < 0], 1 / 3)
    np.testing.assert_allclose(P[y >= 0], one_hot(y[y >= 0], 3))


# -- all -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [*GRAPH, SemiBoost])
def test_saved_models_say_the_same(cls, tmp_path):
    X, y, _ = blobs()
    names = np.array(["amber", "blue", "cyan", None], dtype=object)[y]
    model = cls(random_state=0).fit(X, names)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X + 0.1), model.predict_proba(X + 0.1))
    np.testing.assert_array_equal(again.label_distributions_, model.label_distributions_)
    np.testing.assert_array_equal(again.transduction_, model.transduction_)
    for name in ("claimed_", "log_likelihood_", "n_iter_"):
        assert getattr(again, name, None) == getattr(model, name, None)


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (LabelSpreading, {"alpha": 1.0}, "LabelSpreading: alpha=1.0; pass a number from 0 to below 1"),
        (LabelPropagation, {"n_neighbors": 0}, "n_neighbors=0; pass an integer of at least 1"),
        (GraphMinCut, {"n_cuts": 0}, "n_cuts=0; pass an integer of at least 1"),
        (GraphMinCut, {"pull": -1}, "pull=-1; pass a number of at least 0"),
        (GraphMinCut, {"noise": 2}, "noise=2; pass a number from 0 to 1"),
        (MarkovRandomWalk, {"t": 1.5}, "t=1.5; pass an integer of at least 0"),
        (MarkovRandomWalk, {"tol": -1}, "tol=-1; pass a number of at least 0"),
        (MarkovRandomWalk, {"max_iter": 0}, "max_iter=0; pass an integer of at least 1"),
        (SemiBoost, {"rounds": 0}, "rounds=0; pass an integer of at least 1"),
        (SemiBoost, {"sample": 0}, "sample=0; pass a number above 0 and at most 1"),
        (SemiBoost, {"C": -1}, "C=-1; pass a number of at least 0, or None"),
    ],
)
def test_settings_that_make_no_sense_are_named(cls, settings, message):
    X, y, _ = blobs()
    with pytest.raises(ParameterError, match=message):
        cls(**settings).fit(X, y)


@pytest.mark.parametrize("cls", [*GRAPH, SemiBoost])
def test_labeled_rows_alone_are_enough(cls):
    X, _, truth = blobs()
    with pytest.warns(LabelWarning, match="no unlabelled rows"):
        model = cls(random_state=0).fit(X, truth)
    assert (model.predict(X) == truth).mean() > 0.8


# -- information regularisation --------------------------------------------------------------------------------


def information(A, P):
    """The mutual information between row and label in each region, from its definition."""
    joint = A[:, :, None] * P  # (regions, rows, classes)
    label = joint.sum(axis=1, keepdims=True)
    ratio = np.divide(joint, A[:, :, None] * label, where=joint > 0, out=np.ones_like(joint))
    return (joint * np.log(ratio)).sum(axis=(1, 2))


def test_regions_are_neighbourhoods_with_weights_that_sum_to_one():
    W = affinities(np.random.default_rng(0).normal(size=(30, 2)), 4)
    A = regions(W).toarray()
    np.testing.assert_allclose(A.sum(axis=1), 1)
    np.testing.assert_array_equal(A > 0, (W.toarray() > 0) | np.eye(30, dtype=bool))


@pytest.mark.parametrize("strength", [0.05, 1.0, 20.0])
def test_turns_end_at_the_minimum_of_a_general_solver(strength):
    rng = np.random.default_rng(0)
    A = regions(affinities(rng.normal(size=(24, 2)), 4))
    codes = np.r_[0, 1, 2, 0, np.full(20, -1)]
    P, path = alternate(A, codes, 3, strength, max_iter=20_000, tol=0.0)
    assert (np.diff(path) <= 1e-9).all()

    def objective(P):
        return -np.log(P[np.arange(4), codes[:4]]).sum() + strength * information(A.toarray(), P).sum()

    assert path[-1] == pytest.approx(objective(P), rel=1e-5)
    found = minimize(lambda s: objective(softmax(s.reshape(24, 3), axis=1)), np.zeros(72), options={"maxiter": 2000})
    assert path[-1] == pytest.approx(found.fun, rel=1e-3)
    assert path[-1] <= found.fun * (1 + 1e-6)


def test_a_label_pulls_its_row_as_far_as_it_should():
    rng = np.random.default_rng(0)
    G, own, weight = rng.dirichlet(np.ones(4), size=20), rng.integers(0, 4, 20), rng.exponential(size=20) * 3
    P = pulled(G, own, weight)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    others = np.arange(4) != own[:, None]
    ratio = np.where(others, P / G, np.nan)
    np.testing.assert_allclose(np.nanmax(ratio, axis=1), np.nanmin(ratio, axis=1))
    for g, k, w, p in zip(G, own, weight, P, strict=True):
        rest = np.delete(g, k) / (1 - g[k])

        def objective(t, g=g, k=k, w=w, rest=rest):
            q = np.insert((1 - t) * rest, k, t)
            return -np.log(t) + w * (q * np.log(q / g)).sum()

        best = minimize_scalar(objective, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-10})
        assert p[k] == pytest.approx(best.x, abs=1e-5)


def test_little_strength_keeps_the_labels_as_they_are():
    X, y, _ = moons()
    P = InformationRegularization(strength=1e-4, class_mass=False).fit(X, y).label_distributions_
    assert P[y >= 0, y[y >= 0]].min() > 0.99


def test_class_mass_gives_the_shares_of_the_labels():
    X, y, _ = blobs()
    raw, scaled = (
        InformationRegularization(class_mass=on).fit(X, y).label_distributions_[y < 0] for on in (False, True)
    )
    expected = raw / raw.sum(axis=0)
    np.testing.assert_allclose(scaled, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
