"""The Laplacian SVM, cluster kernels and spectral transforms: beside general-purpose solvers and dense algebra."""

import numpy as np
import pytest
from rows import affinities, blobs, moons
from scipy import sparse
from scipy.linalg import sqrtm
from scipy.optimize import minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from deepsep import load, save
from deepsep.classifiers import ClusterKernel, LaplacianSVM, SpectralTransform
from deepsep.core.probability import platt_probabilities
from deepsep.zoo.graphs.graph import normalised
from deepsep.zoo.graphs.graph_kernels import Machines, leading_eigenvectors, one_vs_rest
from deepsep.zoo.graphs.laplacian_svm import roughness
from deepsep.zoo.graphs.spectral_kernels import aligned_spectrum, cluster_features


def scaled(X):
    return ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32).astype(np.float64)


# -- the machines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [moons, blobs])
def test_one_vs_rest_is_a_support_vector_machine_for_each_class(data):
    X, y, _ = data(120, 20)
    lab = y >= 0
    K = rbf_kernel(X[lab], gamma=0.5)
    coef, intercept = one_vs_rest(K, y[lab], 3.0)
    for k in range(y.max() + 1):
        twin = SVC(gamma=0.5, C=3.0, tol=1e-10).fit(X[lab], y[lab] == k)
        np.testing.assert_allclose((K @ coef + intercept)[:, k], twin.decision_function(X[lab]), atol=1e-5)


def test_a_machine_ends_where_rounding_hides_the_tolerance():
    """A kernel of rank one is a machine on one feature: the best offset of a slope puts some row on its margin."""
    rng = np.random.default_rng(0)
    x, C = 10 ** rng.uniform(-1.6, 0.9, 200), 10.0
    codes = (np.log(x) + rng.normal(size=200) > 1).astype(int)
    sign = 2 * codes - 1

    def objective(slope, offset):
        return slope**2 / 2 + C * np.maximum(0, 1 - sign * (slope * x + offset)).sum()

    coef, intercept = one_vs_rest(np.outer(x, x), codes, C)
    least = minimize_scalar(
        lambda slope: min(objective(slope, offset) for offset in sign - slope * x),
        bounds=(-10, 10),
        options={"xatol": 1e-10},
    )
    assert abs(least.x) > 0.1
    np.testing.assert_allclose(objective(x @ coef[:, 1], intercept[1]), least.fun, rtol=1e-5)


def test_a_machine_that_is_far_from_its_minimum_is_said_to_be():
    X, y, _ = blobs(150, 30)
    K, codes, C = rbf_kernel(X[y >= 0], gamma=0.5), y[y >= 0], 10.0
    with pytest.warns(ConvergenceWarning) as said:
        coef, intercept = one_vs_rest(K, codes, C, max_steps=3)
    expected = []
    for k in range(3):
        alpha, sign = np.abs(coef[:, k]), np.where(codes == k, 1, -1)
        margins = sign * (K @ coef[:, k] + intercept[k])
        primal = coef[:, k] @ K @ coef[:, k] / 2 + C * np.maximum(0, 1 - margins).sum()
        dual = alpha.sum() - np.outer(alpha * sign, alpha * sign).ravel() @ K.ravel() / 2
        expected.append(f"stopped after 3 steps with a relative duality gap of {(primal - dual) / primal:.1g}.")
    assert all(text in str(each.message) for text, each in zip(expected, said, strict=True))


def test_a_machine_that_stops_at_its_minimum_is_not_complained_about(recwarn):
    X, y, _ = blobs(150, 30)
    K, codes = rbf_kernel(X[y >= 0], gamma=0.5), y[y >= 0]
    steps = max(SVC(kernel="precomputed", C=10.0, tol=1e-4).fit(K, codes == k).n_iter_[0] for k in range(3))
    whole, _ = one_vs_rest(K, codes, 10.0)
    part, _ = one_vs_rest(K, codes, 10.0, max_steps=int(steps))  # too few for the tolerance, enough for the machine
    assert [str(each.message) for each in recwarn] == []
    assert 0 < np.abs(part - whole).max() < 0.1


def test_probabilities_keep_the_order_of_the_scores():
    X, y, _ = blobs(150, 10)
    lab = y >= 0
    K = rbf_kernel(X, X[lab], gamma=0.05)
    machines = Machines.of(K[lab], X[lab], y[lab], 1.0, np.random.default_rng(0))
    scores = K @ machines.coef + machines.intercept
    P = machines.probabilities(K)
    np.testing.assert_array_equal(P.argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_allclose(P.sum(axis=1), 1)


@pytest.mark.parametrize("n", [300, 700])  # all at once, and by iteration
def test_leading_eigenvectors(n):
    S = normalised(affinities(np.random.default_rng(0).normal(size=(n, 4))))
    values, vectors = leading_eigenvectors(S, 20, np.random.default_rng(0))
    exact = np.linalg.eigvalsh(S.toarray())[::-1][:20]
    np.testing.assert_allclose(values, exact, atol=1e-7)
    np.testing.assert_allclose(S @ vectors, vectors * values, atol=1e-6)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(20), atol=1e-7)


# -- Laplacian SVM ---------------------------------------------------------------------------------------------


def test_without_smoothness_it_is_the_svm():
    X, y, _ = moons()
    model = LaplacianSVM(smoothness=0.0, gamma=0.7, C=2.0, random_state=0).fit(X, y)
    Z, lab = scaled(X), y >= 0
    twin = SVC(gamma=0.7, C=2.0, tol=1e-10).fit(Z[lab], y[lab])
    scores = twin.decision_function(Z)
    both = np.column_stack([-scores, scores])
    np.testing.assert_allclose(model.predict_proba(X), platt_probabilities(both, *model.platt_), atol=1e-4)


def test_it_is_the_minimum_that_a_general_solver_finds():
    X, y, _ = moons(40, 4)
    C, smoothness = 2.0, 30.0
    model = LaplacianSVM(smoothness=smoothness, gamma=2.0, C=C, n_neighbors=6, random_state=0).fit(X, y)
    Z, lab = scaled(X), np.flatnonzero(y >= 0)
    K, W = rbf_kernel(Z, gamma=2.0), affinities(Z.astype(np.float32), 6).toarray()
    W /= W.sum(axis=1).mean()
    signs = np.where(y[lab] == 1, 1.0, -1.0)

    def objective(f, b, penalty):
        loss = C * np.maximum(0, 1 - signs * (f[lab] + b)).sum()
        return loss + penalty / 2 + smoothness / (2 * 40) * (W * np.square(f[:, None] - f)).sum()

    a = np.zeros(40)
    centres = [int(np.abs(Z - row).sum(axis=1).argmin()) for row in model.centers_]  # in the order of the model
    a[centres] = model.coef_[:, 1]
    ours = objective(K @ a, model.intercept_[1], a @ K @ a)
    assert sorted(centres) == list(range(40))

    def general(theta):
        return objective(K @ theta[:40], theta[40], theta[:40] @ K @ theta[:40])

    start = np.append(a, model.intercept_[1])
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):  # convex: what no small step improves is the minimum
        assert all(general(start + size * rng.normal(size=41)) >= ours for _ in range(200))
    found = minimize(general, np.zeros(41), method="Powell", options={"maxiter": 20, "xtol": 1e-3, "ftol": 1e-6})
    assert ours <= found.fun * (1 + 1e-6)


def test_roughness_is_the_sum_over_edges():
    rng = np.random.default_rng(0)
    W, K = affinities(rng.normal(size=(50, 3))), rng.normal(size=(50, 4))
    dense = W.toarray() / W.toarray().sum(axis=1).mean()
    for v in np.eye(4):
        f = K @ v
        by_hand = (dense * np.square(f[:, None] - f)).sum() / 2 / 50
        assert v @ roughness(W, K) @ v == pytest.approx(by_hand)


def test_more_smoothness_is_smoother():
    X, y, _ = moons()
    Z = scaled(X)
    W = affinities(Z.astype(np.float32), 10)
    rough = []
    for smoothness in (0.0, 1e2, 1e4, 1e6):
        model = LaplacianSVM(smoothness=smoothness, gamma=3.0, C=1e4, random_state=0).fit(X, y)
        f = rbf_kernel(Z, model.centers_.astype(float), gamma=3.0) @ model.coef_[:, 1]
        rough.append(float(f @ (np.asarray(W.sum(axis=1)).ravel() * f - W @ f)))
    assert rough == sorted(rough, reverse=True)


def test_it_follows_the_moons():
    X, y, truth = moons(400, 2, seed=2)
    model = LaplacianSVM(smoothness=1e5, gamma=5.0, random_state=0).fit(X, y)
    assert (model.transduction_ == truth).mean() > 0.95


def test_fewer_centres_than_rows():
    X, y, truth = blobs(300, 5)
    few = LaplacianSVM(n_centers=60, random_state=0).fit(X, y)
    assert few.coef_.shape == (60, 3)
    assert (few.transduction_ == truth).mean() > 0.8
    whole = LaplacianSVM(random_state=0).fit(X, y)
    assert (few.transduction_ == whole.transduction_).mean() > 0.9


def test_new_rows_need_no_graph(tmp_path):
    X, y, _ = blobs()
    model = LaplacianSVM(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), model.label_distributions_)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.predict_proba(X + 0.1).tobytes() == model.predict_proba(X + 0.1).tobytes()
    assert (again.gamma_, again.platt_) == (model.gamma_, model.platt_)


# -- cluster kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("transfer", "power"), [("polynomial", 4), ("polynomial", 1), ("linear-step", 9)])
def test_cluster_kernel_is_the_power_of_the_positive_part(transfer, power):
    S = normalised(affinities(np.random.default_rng(0).normal(size=(80, 3)))).toarray()
    values, vectors = leading_eigenvectors(sparse.csr_array(S), 80, np.random.default_rng(0))
    Z = cluster_features(values, vectors, transfer, power)
    positive = (S + np.real(sqrtm(S @ S))) / 2
    K = np.linalg.matrix_power(positive, power if transfer == "polynomial" else 1)
    root = np.sqrt(np.diag(K))
    np.testing.assert_allclose(Z @ Z.T, K / root / root[:, None], atol=1e-5)


def test_a_step_on_separate_clusters_knows_the_clusters_alone():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(100, 1, (40, 2)), rng.normal(-100, 1, (40, 2))])
    values, vectors = leading_eigenvectors(normalised(affinities(X, 10)), 3, rng)
    Z = cluster_features(values, vectors, "step", 1)
    np.testing.assert_allclose(Z @ Z.T, np.kron(np.eye(3), np.ones((40, 40))), atol=1e-6)


def test_cluster_kernel_gives_a_cluster_its_label():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (60, 2)), rng.normal(20, 1, (60, 2)), rng.normal([0, 20], 1, (60, 2))])
    truth = np.repeat([0, 1, 2], 60)
    y = np.where(np.isin(np.arange(180), [3, 5, 63, 65, 123, 125]), truth, -1)
    for transfer, components in (("step", 3), ("linear-step", 3), ("polynomial", 50)):
        model = ClusterKernel(transfer=transfer, power=300, n_components=components, n_neighbors=10).fit(X, y)
        np.testing.assert_array_equal(model.transduction_, truth)


# -- spectral transforms ---------------------------------------------------------------------------------------


def alignment(mu, V, T):
    K = (V * mu) @ V.T
    return (K * T).sum() / np.linalg.norm(K) / np.linalg.norm(T)


@pytest.fixture
def eigenvectors():
    X, y, truth = moons(200, 15)
    _, vectors = leading_eigenvectors(normalised(affinities(X)), 12, np.random.default_rng(0))
    codes = truth[y >= 0]
    return vectors[y >= 0], np.where(codes[:, None] == codes, 1.0, -1.0)


@pytest.mark.parametrize("bias", [False, True])
def test_no_other_falling_spectrum_is_better_aligned(eigenvectors, bias):
    V, T = eigenvectors
    mu, reached = aligned_spectrum(V, T, bias=bias)
    assert (np.diff(mu[bias:]) <= 1e-12).all()
    assert (mu >= 0).all()
    assert reached == pytest.approx(alignment(mu, V, T), abs=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(300):
        other = np.sort(rng.exponential(size=12) ** rng.integers(1, 6))[::-1].copy()
        other[0] = rng.exponential() if bias else other[0]
        assert alignment(other, V, T) <= reached + 1e-9


@pytest.mark.parametrize("bias", [False, True])
def test_spectrum_is_the_one_of_a_general_solver(eigenvectors, bias):
    V, T = eigenvectors
    order = [{"type": "ineq", "fun": lambda mu, i=i: mu[i] - mu[i + 1]} for i in range(int(bias), 11)]
    found = minimize(
        lambda mu: -alignment(mu, V, T),
        np.linspace(1, 0.5, 12),
        method="SLSQP",
        bounds=[(0, None)] * 12,
        constraints=order,
        options={"maxiter": 2000, "ftol": 1e-12},
    )
    assert aligned_spectrum(V, T, bias=bias)[1] == pytest.approx(-found.fun, abs=1e-4)


def test_leaving_the_bias_free_aligns_better(eigenvectors):
    V, T = eigenvectors
    assert aligned_spectrum(V, T, bias=True)[1] >= aligned_spectrum(V, T, bias=False)[1] - 1e-9


def test_labels_against_every_eigenvector_leave_the_spectrum_flat():
    V = np.eye(4)
    mu, _ = aligned_spectrum(V, -np.eye(4), bias=False)
    np.testing.assert_array_equal(mu, 1)


@pytest.mark.parametrize("data", [moons, blobs])
def test_the_model_has_the_spectrum_and_keeps_what_it_says(data, tmp_path):
    X, y, truth = data(200, 10)
    model = SpectralTransform(n_components=30, random_state=0).fit(X, y)
    assert model.spectrum_.shape == model.eigenvalues_.shape == (30,)
    assert (np.diff(model.eigenvalues_) <= 1e-12).all()
    assert model.spectrum_.sum() == pytest.approx(200)  # the trace of the kernel
    assert (model.transduction_ == truth).mean() > 0.8
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").alignment_ == model.alignment_


@pytest.mark.parametrize("kind", [ClusterKernel, SpectralTransform, LaplacianSVM])
def test_renamed_classes_change_nothing_else(kind):
    X, y, _ = blobs()
    first = kind(random_state=0).fit(X, y)
    other = kind(random_state=0).fit(X, np.where(y >= 0, 2 - y, -1))
    np.testing.assert_array_equal(other.transduction_, 2 - first.transduction_)
