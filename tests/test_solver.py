"""The solvers against reference results, a general-purpose QP solver, and mathematics."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import hinge_svm, literal_cccp, tsvm_objective
from scipy import sparse

from deepsep.solvers.cccp import cccp
from deepsep.solvers.curvature import Factor
from deepsep.solvers.newton import minimise, newton_direction
from deepsep.solvers.problem import Problem
from deepsep.solvers.rows import Rows
from deepsep.solvers.single_loop import single_loop
from deepsep.solvers.supervised_svm import supervised_svm

REFERENCES = [
    pytest.param(problem, id=f"{name}-{i}")
    for name in ("rssl", "rbf")
    for i, problem in enumerate(json.loads((Path(__file__).parent / f"data/tsvm_{name}.json").read_text()))
]
EXACT = {"tol": 1e-10, "max_iter": 1000}


def two_blobs(rng, n_labeled=14, n_unlabeled=40, m=3, gap=1.0):
    """Two overlapping clusters; labels -1 and 1."""
    y = np.where(np.arange(n_labeled + n_unlabeled) % 2, 1.0, -1.0)
    X = rng.normal(size=(len(y), m)) + gap * y[:, None] / np.sqrt(m)
    return X[:n_labeled], y[:n_labeled], X[n_labeled:]


def make_problem(X_l, y, X_u, C, C_star, *, s=0.0, r=None):
    """Return the problem, and the mean of the unlabelled rows on which it is centred."""
    mean = X_u.mean(axis=0)
    target = None if r is None else np.array([r])
    cost_l, cost_u = np.full(len(y), float(C)), np.full(len(X_u), float(C_star))
    return Problem(X_l - mean, y[None], cost_l, X_u - mean, cost_u, target, s), mean


def boundary(result, mean):
    w = result.w[0]
    return w, float(result.b[0] - w @ mean)


@pytest.mark.parametrize("reference", REFERENCES)
def test_cccp_reaches_the_reference(reference):
    p = reference
    X_l, X_u = np.array(p["X_labeled"]), np.array(p["X_unlabeled"])
    y = np.array(p["y_labeled"], float)
    if p["kernel"] == "rbf":
        rows = np.vstack([X_l, X_u])
        gram = np.exp(-p["gamma"] * ((rows[:, None] - rows) ** 2).sum(axis=2))
        values, vectors = np.linalg.eigh(gram)
        rows = vectors * np.sqrt(np.maximum(values, 0))
        X_l, X_u = rows[: len(y)], rows[len(y) :]
    r = p["r"] if p["balancing_constraint"] else None
    problem, mean = make_problem(X_l, y, X_u, p["C"], p["C_star"], s=p["s"], r=r)
    result = cccp(problem, supervised_svm(problem, **EXACT), **EXACT)
    w, b = boundary(result, mean)
    assert result.converged.all()
    assert result.gap[0] <= 1e-9
    np.testing.assert_allclose(X_l @ w + b, p["decision_labeled"], atol=1e-3)
    np.testing.assert_allclose(X_u @ w + b, p["decision_unlabeled"], atol=1e-3)
    expected = p["objective"] - p["C_star"] * len(X_u) * (1 - p["s"])
    assert result.objective_path[0][-1] <= expected + 1e-6 * abs(expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("r", "s"), [(0.0, 0.0), (-0.3, -0.4), (None, 0.0), (None, -0.4)])
def test_cccp_is_collobert_step_for_step(seed, r, s):
    rng = np.random.default_rng(seed)
    X_l, y, X_u = two_blobs(rng, n_labeled=15)
    problem, mean = make_problem(X_l, y, X_u, 0.7, 0.25, s=s, r=r)
    result = cccp(problem, supervised_svm(problem, **EXACT), **EXACT)
    w, b, path = literal_cccp(X_l, y, X_u, 0.7, 0.25, s=s, r=r)
    while len(path) > 1 and path[-2] - path[-1] <= 1e-9 * path[-1]:
        path.pop()  # the twin's rounding may turn a row at f = 0 once more, which lowers nothing
    np.testing.assert_allclose(result.objective_path[0], path, rtol=1e-6)
    np.testing.assert_allclose(np.append(*boundary(result, mean)), np.append(w, b), atol=2e-4)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6), C=st.sampled_from([0.01, 1.0, 30.0]), free=st.booleans(), s=st.sampled_from([0, -0.5])
)
def test_objective_never_rises_and_the_gap_is_certified(seed, C, free, s):
    X_l, y, X_u = two_blobs(np.random.default_rng(seed), n_unlabeled=60)
    problem, mean = make_problem(X_l, y, X_u, C, C / 3, s=s, r=None if free else 0.1)
    result = cccp(problem, supervised_svm(problem, tol=1e-8, max_iter=1000), tol=1e-8, max_iter=1000)
    assert result.converged.all()
    assert result.gap[0] <= 1e-8
    path = result.objective_path[0]
    assert all(later <= earlier for earlier, later in pairwise(path))
    w, b = boundary(result, mean)
    assert path[-1] == pytest.approx(tsvm_objective(w, b, X_l, y, X_u, C, C / 3, s), rel=1e-9)
    if not free:
        assert np.mean(X_u @ w + b) == pytest.approx(0.1, abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("r", [0.0, None])
def test_single_loop_ends_where_an_exact_step_gains_nothing(seed, r, dtype):
    """The signs of the end fix a convex majoriser; a QP solver cannot lower it by more than the duality gap."""
    X_l, y, X_u = two_blobs(np.random.default_rng(seed), n_unlabeled=120)
    problem, mean = make_problem(X_l, y, X_u, 1.0, 0.1, r=r)
    problem = replace(problem, labeled=problem.labeled.astype(dtype), unlabeled=problem.unlabeled.astype(dtype))
    start = supervised_svm(problem, tol=1e-3, max_iter=1000)
    result = single_loop(problem, start, tol=1e-6, max_iter=1000)
    assert result.converged.all()
    assert result.gap[0] <= 1e-6
    w, b = boundary(result, mean)
    here = tsvm_objective(w, b, X_l, y, X_u, 1.0, 0.1)
    assert result.objective_path[0] == [pytest.approx(here, rel=1e-5)]
    signs = np.concatenate([y, np.sign(X_u @ w + b)])
    cost = np.concatenate([np.ones(len(y)), np.full(len(X_u), 0.1)])
    _, _, lowest = hinge_svm(np.vstack([X_l, X_u]), signs, cost, mean=X_u.mean(axis=0), r=r)
    assert here - lowest <= 1.1e-6 * here + (1e-5 if dtype == np.float32 else 0)


@pytest.mark.parametrize("m", [2, 5, 400])
@pytest.mark.parametrize("seed", range(3))
def test_supervised_svm_equals_the_qp(seed, m):
    rng = np.random.default_rng(seed)
    X, y, _ = two_blobs(rng, n_labeled=31, m=m)
    problem = Problem(X, y[None], np.full(len(y), 0.5), X[:0], np.zeros(0), None)
    result = supervised_svm(problem, **EXACT)
    w, _, objective = hinge_svm(X, y, np.full(len(y), 0.5))
    np.testing.assert_allclose(result.w[0], w, atol=1e-5)
    assert result.objective_path[0][0] == pytest.approx(objective, rel=1e-8)


def test_start_takes_the_middle_of_the_optimal_biases():
    """One row a class, far inside both margins at any small C: every bias in an interval is optimal."""
    X = np.array([[-0.5], [0.5]])
    problem = Problem(X, np.array([[-1.0, 1.0]]), np.full(2, 0.1), X[:0], np.zeros(0), None)
    result = supervised_svm(problem, **EXACT)
    assert result.w[0, 0] == pytest.approx(0.1)
    assert result.b[0] == pytest.approx(0.0, abs=1e-9)


def test_problems_in_lock_step_do_not_touch_each_other():
    rng = np.random.default_rng(5)
    X_l, _, X_u = two_blobs(rng, n_labeled=30, n_unlabeled=200)
    signs = np.where(rng.integers(3, size=30) == np.arange(3)[:, None], 1.0, -1.0)
    target = np.array([-0.3, -0.4, -0.3])
    mean = X_u.mean(axis=0)
    whole = Problem(X_l - mean, signs, np.ones(30), X_u - mean, np.full(200, 0.1), target)
    start = supervised_svm(whole, **EXACT)
    together = cccp(whole, start, **EXACT)
    for k in range(3):
        alone = cccp(whole.only(np.array([k])), start.only(np.array([k])), **EXACT)
        np.testing.assert_allclose(alone.w[0], together.w[k], atol=1e-5)
        assert len(alone.objective_path[0]) == len(together.objective_path[k])


def test_shards_add_up():
    """A pass over two halves sums to the pass over all rows: the solver may run over shards."""
    rng = np.random.default_rng(0)
    X_l, y, X_u = two_blobs(rng, n_labeled=20, n_unlabeled=9000, m=6)
    signs = np.vstack([y, -y])
    offset = np.array([0.1, -0.1])

    def rows(unlabeled, labeled=slice(None)):
        cost = np.full(len(unlabeled), 0.01)
        return Rows(X_l[labeled], signs[:, labeled], np.ones(len(y[labeled])), unlabeled, cost, offset=offset)

    w, kappa, which = rng.normal(size=(2, 6)), np.array([4.0, 32.0]), np.arange(2)
    whole = rows(X_u).sweep(w, kappa, which)
    parts = [rows(X_u[:5000]).sweep(w, kappa, which), rows(X_u[5000:], slice(0, 0)).sweep(w, kappa, which)]
    for name in ("pull", "slack", "envelope", "loss"):
        np.testing.assert_allclose(getattr(whole, name), sum(getattr(part, name) for part in parts), rtol=1e-12)
    for k in range(2):
        np.testing.assert_allclose(whole.curvature[k], sum(part.curvature[k] for part in parts), rtol=1e-10, atol=1e-12)


def test_sweep_is_the_gradient_and_curvature_of_its_envelope():
    rng = np.random.default_rng(1)
    X_l, y, X_u = two_blobs(rng, n_unlabeled=80)
    for linearised in (False, True):
        rows = Rows(X_l, y[None], np.ones(len(y)), X_u, np.full(80, 0.2), offset=np.array([0.2]))
        if linearised:
            rows.linearise(rng.integers(-1, 2, size=(1, 80)), np.arange(1))
        w, kappa, which, h = rng.normal(size=(1, 3)), np.array([3.0]), np.arange(1), 1e-6
        here = rows.sweep(w, kappa, which)
        for j in range(3):
            step = np.zeros((1, 3))
            step[0, j] = h
            up, down = rows.sweep(w + step, kappa, which), rows.sweep(w - step, kappa, which)
            assert (up.envelope - down.envelope) / (2 * h) == pytest.approx(-here.pull[:, j], abs=1e-6)
            np.testing.assert_allclose((down.pull - up.pull)[0] / (2 * h), here.curvature[0][j], atol=1e-4)


def test_every_newton_system_gives_the_same_direction():
    rng = np.random.default_rng(2)
    x, scale, centre = rng.normal(size=(40, 12)), rng.uniform(0.5, 2, 40), rng.normal(size=12)
    gradient, penalty = rng.normal(size=12), np.ones(12)
    penalty[-1] = 0.0
    root = scale[:, None] * (x - centre)
    exact = newton_direction(root.T @ root, gradient, penalty)
    few = slice(0, 9)
    exact_few = newton_direction(root[few].T @ root[few], gradient, penalty)
    for stored in (x, sparse.csr_array(x)):
        np.testing.assert_allclose(
            newton_direction(Factor(stored, scale, centre), gradient, penalty), exact, rtol=5e-3, atol=5e-3
        )
        np.testing.assert_allclose(
            newton_direction(Factor(stored[few], scale[few], centre), gradient, penalty),
            exact_few,
            rtol=1e-8,
            atol=1e-8,
        )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("r", [0.0, None])
def test_badly_scaled_rows_still_converge(scale, dtype, r):
    X_l, y, X_u = two_blobs(np.random.default_rng(0), n_labeled=60, n_unlabeled=500, m=8)
    mean = X_u.mean(axis=0)
    X_l, X_u = ((X - mean) * scale for X in (X_l, X_u))
    target = None if r is None else np.array([r])
    problem = Problem(X_l.astype(dtype), y[None], np.ones(60), X_u.astype(dtype), np.full(500, 0.1), target)
    start = supervised_svm(problem, tol=1e-3, max_iter=1000)
    result = single_loop(problem, start, tol=1e-6, max_iter=1000)
    assert result.converged.all()


def test_the_gap_is_confirmed_in_double_precision():
    """Scores of large single-precision rows are noise at 1e-6: the solver must notice and switch."""
    rng = np.random.default_rng(0)
    X, y, _ = two_blobs(rng, n_labeled=400, m=8)
    X = (X * 20).astype(np.float32)
    rows = Rows(X, y[None], np.full(400, 5.0), X[:0], np.zeros(0), offset=np.zeros(1))
    solution = minimise(rows, np.zeros((1, 8)), tol=1e-9)
    assert solution.converged.all()
    assert rows.double
    double = Rows(X.astype(float), y[None], np.full(400, 5.0), X[:0].astype(float), np.zeros(0), offset=np.zeros(1))
    reference = minimise(double, np.zeros((1, 8)), tol=1e-12)
    assert solution.objective[0] == pytest.approx(reference.objective[0], rel=2e-9)
