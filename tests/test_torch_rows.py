"""The pass over the rows with torch against the one with NumPy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from deepsep.errors import ParameterError  # noqa: E402
from deepsep.networks import TorchArrays, rows_by_size, torch_arrays  # noqa: E402
from deepsep.networks.torch_arrays import device_of  # noqa: E402
from deepsep.solvers.array_library import NumpyArrays  # noqa: E402
from deepsep.solvers.cccp import cccp  # noqa: E402
from deepsep.solvers.newton import minimise  # noqa: E402
from deepsep.solvers.problem import Problem  # noqa: E402
from deepsep.solvers.rows import Rows  # noqa: E402
from deepsep.solvers.single_loop import single_loop  # noqa: E402
from deepsep.solvers.supervised_svm import supervised_svm  # noqa: E402

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
KINDS = pytest.mark.parametrize("kind", ["loop", "capped", "linearised"])
BIAS = pytest.mark.parametrize("free", [False, True], ids=["balanced", "free bias"])
C, M, L, U = 3, 6, 70, 2600  # the unlabelled rows make two full products and a part of one
EVERY = np.arange(C)


def torch_pass(labeled, *rest, **settings):
    """Rows whose arrays are torch's, on the device where they are."""
    return Rows(labeled, *rest, library=TorchArrays(device_of(labeled)), **settings)


def make_problem(seed=0, *, free=False, s=0.0, u=U, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = np.arange(L + u) % C
    X = rng.normal(size=(L + u, M)) + 1.5 * rng.normal(size=(C, M))[y]
    X = (X - X[L:].mean(axis=0)).astype(dtype)
    signs = np.where(y[:L] == EVERY[:, None], 1.0, -1.0)
    target = None if free else np.array([-0.3, -0.4, -0.3])
    cost = np.full(L, 0.5), rng.uniform(0.5, 1.5, u) * 0.5 * L / u
    return Problem(X[:L], signs, cost[0], X[L:], cost[1], target, s)


def on(device, problem):
    """Return the problem with its rows on the device."""
    there = partial(torch.tensor, device=device)
    return replace(
        problem,
        labeled=there(problem.labeled),
        unlabeled=there(problem.unlabeled),
        cost_unlabeled=there(problem.cost_unlabeled),
        make_rows=torch_pass,
    )


def both_passes(device, kind, free, seed=0):
    problem = make_problem(seed, free=free, s=-0.3 if kind == "capped" else 0.0)
    passes = problem.rows(), on(device, problem).rows()
    if kind == "linearised":
        sigma = np.random.default_rng(seed).integers(-1, 2, size=(C, U)).astype(np.int8)
        for rows in passes:
            rows.linearise(sigma, EVERY)
    return passes


def assert_same_sums(ours, theirs, rtol=1e-10):
    for name in ("pull", "slack", "envelope", "loss"):
        expected = getattr(theirs, name)
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    assert len(ours.curvature) == len(theirs.curvature)
    for mine, other in zip(ours.curvature, theirs.curvature, strict=True):
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol * np.abs(other).max())


@pytest.fixture(params=["one chunk", "many chunks", "selected"])
def chunks(request, monkeypatch):
    """Small problems cut into chunks as large ones are, with rows of no curvature left out."""
    if request.param == "many chunks":
        monkeypatch.setattr(torch_arrays, "SPLIT_ROWS", 64)
        monkeypatch.setattr(torch_arrays, "CHUNK_NUMBERS", {"cpu": 64})
    if request.param == "selected":
        monkeypatch.setattr(torch_arrays, "SELECT_NUMBERS", 0)


@DEVICES
@KINDS
@BIAS
def test_sums_are_those_of_numpy(device, kind, free, chunks):
    numpy_rows, torch_rows = both_passes(device, kind, free)
    rng = np.random.default_rng(1)
    m = numpy_rows.n_features
    assert (torch_rows.n_features, torch_rows.free_bias, torch_rows.double) == (m, free, True)
    repeated = np.full(12, 1)  # as in a line search
    asked = [
        (EVERY, None, True),
        (EVERY, np.array([4.0, 0.0, 8.0]), True),
        (np.array([2, 0]), np.array([0.0, 16.0]), True),
        (repeated, None, True),
        (repeated, None, False),
        (EVERY, None, True),
    ]
    for problems, commit, curvature in asked:
        w, kappa = rng.normal(size=(len(problems), m)), rng.uniform(2, 40, len(problems))
        sums = [rows.sweep(w, kappa, problems, commit, curvature) for rows in (torch_rows, numpy_rows)]
        assert_same_sums(*sums)
        gaps = [rows.certificate(w[0], 20.0, int(problems[0])) for rows in (torch_rows, numpy_rows)]
        np.testing.assert_allclose(*gaps, rtol=1e-10)
        np.testing.assert_array_equal(*(rows.decide(w, problems) for rows in (torch_rows, numpy_rows)))
        losses = [rows.transductive_loss(w, problems) for rows in (torch_rows, numpy_rows)]
        np.testing.assert_allclose(*losses, rtol=1e-12)


@DEVICES
@BIAS
def test_one_problem_can_be_linearised_again(device, free):
    passes = both_passes(device, "linearised", free)
    rng = np.random.default_rng(2)
    sigma, w = rng.integers(-1, 2, size=(1, U)), rng.normal(size=(C, M + free))
    for rows in passes:
        rows.linearise(sigma, np.array([1]))
    assert_same_sums(*(rows.sweep(w, np.full(C, 5.0), EVERY) for rows in passes[::-1]))


@DEVICES
@pytest.mark.parametrize("labeled", [True, False])
def test_scores(device, labeled):
    problem = make_problem(free=True)
    rng = np.random.default_rng(3)
    w, b = rng.normal(size=(C, M)), rng.normal(size=C)
    X = problem.labeled if labeled else problem.unlabeled
    for each in (problem, on(device, problem)):
        f = each.labeled_scores(w, b) if labeled else each.unlabeled_scores(w, b)
        assert f.dtype == np.float64
        np.testing.assert_allclose(f, w @ X.T + b[:, None], rtol=1e-10, atol=1e-10)
    nobody = on(device, problem).supervised().unlabeled_scores(w, b)
    assert nobody.shape == (C, 0)


@DEVICES
@BIAS
@pytest.mark.parametrize("s", [0.0, -0.3])
@pytest.mark.parametrize("path", [cccp, single_loop])
def test_a_whole_tsvm_ends_where_numpy_ends(device, path, free, s):
    exact = {"tol": 1e-10, "max_iter": 1000}
    problem = make_problem(4, free=free, s=s)
    ends = []
    for each in (problem, on(device, problem)):
        start = supervised_svm(each, **exact)
        ends.append((start, path(each, start, **exact)))
    for numpy_end, torch_end in zip(*ends, strict=True):
        assert torch_end.converged.all()
        np.testing.assert_allclose(torch_end.w, numpy_end.w, atol=1e-6)
        np.testing.assert_allclose(torch_end.b, numpy_end.b, atol=1e-6)
        for mine, other in zip(torch_end.objective_path, numpy_end.objective_path, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6)
    only = on(device, problem).only(np.array([1]))
    alone = path(only, ends[0][0].only(np.array([1])), **exact)
    np.testing.assert_allclose(alone.w[0], ends[0][1].w[1], atol=1e-5)


@DEVICES
@pytest.mark.parametrize("make_rows", [torch_pass, rows_by_size(Rows)], ids=["torch", "by size"])
def test_single_precision_and_the_two_level_start(device, make_rows, monkeypatch):
    """The gap is certified in double precision; the objective agrees to that gap."""
    monkeypatch.setattr(torch_arrays, "MAX_HOST_ROWS", 3000)  # the full problem on the device, its start on the host
    problem = make_problem(5, u=9000, dtype=np.float32)
    objectives = []
    for each in (problem, replace(on(device, problem), make_rows=make_rows)):
        start = supervised_svm(each, tol=1e-3, max_iter=1000)
        result = single_loop(each, start, tol=1e-6, max_iter=1000)
        assert result.converged.all()
        assert result.gap.max() <= 1e-6
        objectives.append([path[-1] for path in result.objective_path])
    np.testing.assert_allclose(*objectives, rtol=1e-5)


@DEVICES
def test_rows_by_size(device):
    problem = make_problem(u=50)
    make = rows_by_size(Rows, device=device)
    assert isinstance(replace(on(device, problem), make_rows=make).rows().library, NumpyArrays)
    many = replace(make_problem(u=torch_arrays.MAX_HOST_ROWS), make_rows=make).rows()
    assert isinstance(many.library, TorchArrays)
    assert many.library.device.type == device


@DEVICES
def test_promotion_keeps_the_multipliers(device):
    problem = make_problem(dtype=np.float32)
    rng = np.random.default_rng(6)
    w, kappa = rng.normal(size=(C, M)), np.full(C, 8.0)
    passes = on(device, problem).rows(), problem.rows()
    for rows in passes:
        assert not rows.double
        rows.sweep(w, kappa, EVERY, kappa)
    assert_same_sums(*(rows.sweep(1.1 * w, kappa, EVERY) for rows in passes), rtol=1e-4)
    for rows in passes:
        rows.promote()
        assert rows.double
    assert_same_sums(*(rows.sweep(1.1 * w, kappa, EVERY) for rows in passes), rtol=1e-5)
    again = [rows.sweep(w, kappa, EVERY, kappa) for rows in passes]
    assert_same_sums(*again, rtol=1e-5)


@DEVICES
def test_the_gap_is_confirmed_in_double_precision(device):
    """Scores of large single-precision rows are noise at 1e-6: the solver must notice and switch."""
    problem = make_problem(7, dtype=np.float32)
    few = problem.supervised()
    problem = replace(few, labeled=20 * few.labeled, cost_labeled=np.full(L, 5.0), target=problem.target)
    rows = on(device, problem).rows()
    solution = minimise(rows, np.zeros((C, M)), tol=1e-9)
    assert solution.converged.all()
    assert rows.double
    reference = minimise(replace(problem, labeled=problem.labeled.astype(float)).rows(), np.zeros((C, M)), tol=1e-12)
    np.testing.assert_allclose(solution.objective, reference.objective, rtol=2e-9)


@DEVICES
def test_many_features(device):
    """Above 256 features the NumPy pass returns a factor; here it is a matrix at any width."""
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(90, 300)), np.where(np.arange(90) % 2, 1.0, -1.0)
    problem = Problem(X, y[None], np.full(90, 0.1), X[:0], np.zeros(0), None)
    results = [supervised_svm(each, tol=1e-10, max_iter=1000) for each in (problem, on(device, problem))]
    np.testing.assert_allclose(results[0].w, results[1].w, atol=1e-5)


@DEVICES
def test_tensors_on_the_device_are_not_copied(device):
    there = on(device, make_problem())
    rows = there.rows()
    assert rows.library.device.type == device
    assert rows.blocks[0].x.data_ptr() == there.labeled.data_ptr()
    assert rows.blocks[1].x.data_ptr() == there.unlabeled.data_ptr()
    before = there.unlabeled.clone()
    rows.sweep(np.ones((C, M)), np.full(C, 4.0), EVERY, np.full(C, 4.0))
    rows.promote()
    assert torch.equal(there.unlabeled, before)


@DEVICES
def test_rows_of_a_network_leave_no_gradients(device):
    problem = on(device, make_problem())
    problem.unlabeled.requires_grad_()
    rows = problem.rows()
    rows.sweep(np.ones((C, M)), np.full(C, 4.0), EVERY)
    assert not rows.blocks[1].x.requires_grad


@GPU
def test_reduced_precision_elsewhere_does_not_reach_the_scores():
    problem = make_problem(dtype=np.float32)
    rows = on("cuda", problem).rows()
    w, kappa = np.random.default_rng(9).normal(size=(C, M)), np.full(C, 8.0)
    exact = rows.sweep(w, kappa, EVERY)
    torch.set_float32_matmul_precision("high")
    try:
        again = rows.sweep(w, kappa, EVERY)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert_same_sums(again, exact, rtol=1e-12)


def test_centre_is_refused():
    with pytest.raises(ParameterError, match="centre"):
        replace(make_problem(), centre=np.zeros(M), make_rows=torch_pass).rows()
