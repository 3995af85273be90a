"""Label switching, ∇TSVM, its continuation, S4VM and the exact minimum against mathematics and independent twins."""

from itertools import product

import numpy as np
import pytest
from oracle import hinge_svm, tsvm_objective
from rows import moons
from scipy import sparse
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from deepsep import TSVM
from deepsep.classifiers import S4VM, ContinuationTSVM, ExactTSVM, GradientTSVM, SwitchingTSVM
from deepsep.errors import ParameterError
from deepsep.solvers.problem import Problem
from deepsep.solvers.supervised_svm import supervised_svm
from deepsep.zoo.transductive.continuation_tsvm import (
    convex_variance,
    convolved_objective,
    convolved_peak,
    convolved_squared_hinge,
    squared_norms,
)
from deepsep.zoo.transductive.fixed_signs import FixedSigns
from deepsep.zoo.transductive.gradient_tsvm import smooth_objective
from deepsep.zoo.transductive.s4vm import diverse_boundaries, safest
from deepsep.zoo.transductive.switching_tsvm import highest, switch_pairs


def overlapping(u, seed, m=3, labeled=3, distance=1.5):
    """Rows of two classes that overlap: labelled rows, their signs, unlabelled rows; and the same as X, y of -1."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(u) < u // 2, 1.0, -1.0)
    y = np.repeat([1.0, -1.0], labeled)
    X_l, X_u = (rng.normal(size=(len(s), m)) + distance / 2 * s[:, None] / np.sqrt(m) for s in (y, signs))
    return X_l, y, X_u


def as_table(X_l, y, X_u):
    """Codes 5 and 6 for -1 and 1, which mark unlabelled rows."""
    return np.vstack([X_l, X_u]), np.concatenate([(y > 0) + 5, np.full(len(X_u), -1)])


def problem_of(X_l, y, X_u, C, C_star, r=None):
    mean = X_u.mean(axis=0)
    target = None if r is None else np.array([r])
    return Problem(X_l - mean, y[None], np.full(len(y), C), X_u - mean, np.full(len(X_u), C_star), target)


@pytest.mark.parametrize("method", [SwitchingTSVM, S4VM, ExactTSVM])
def test_unlabeled_rows_without_a_cost(method):
    X, y = as_table(*overlapping(20, seed=0))
    model = method(C=1.0, C_star=0.0).fit(X, y)
    constrained = method is ExactTSVM  # the mean score is still fixed
    alone = TSVM(C=1.0, C_star=0.0, balance=constrained).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-5)


# -- the exact minimum ---------------------------------------------------------------------------------------


def lowest_of_all(X_l, y, X_u, C, C_star, r):
    """The minimum over all labellings, each solved by another solver."""
    X, cost = np.vstack([X_l, X_u]), np.concatenate([np.full(len(y), C), np.full(len(X_u), C_star)])
    mean = X_u.mean(axis=0)
    labelings = product([-1.0, 1.0], repeat=len(X_u))
    return min(hinge_svm(X, np.concatenate([y, signs]), cost, mean=mean, r=r)[2] for signs in labelings)


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_the_exact_minimum_is_the_lowest_of_all_labelings(balance, C):
    X_l, y, X_u = overlapping(7, seed=int(10 * C), distance=1.0)
    C_star = C * len(y) / len(X_u)
    model = ExactTSVM(C=C, balance=balance).fit(*as_table(X_l, y, X_u))
    J = tsvm_objective(model.coef_[0], model.intercept_[0], X_l, y, X_u, C, C_star)
    np.testing.assert_allclose(J, model.objective_path_[0][-1], rtol=1e-9)
    np.testing.assert_allclose(J, lowest_of_all(X_l, y, X_u, C, C_star, 0.0 if balance else None), rtol=3e-6)
    assert (np.diff(model.objective_path_[0]) < 0).all()
    if balance:
        assert abs(np.mean(X_u @ model.coef_[0] + model.intercept_[0])) < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_no_solver_is_below_the_exact_minimum(seed):
    X, y, _ = moons(30, labeled=2, seed=seed)
    settings = {"C": 5.0, "kernel": "rbf", "gamma": 2.0}
    exact = ExactTSVM(**settings).fit(X, y)
    assert exact.duality_gap_[0] <= 2e-6
    assert exact.termination_condition_.startswith("global minimum")
    for algorithm in ("single-loop", "cccp"):
        local = TSVM(algorithm=algorithm, **settings).fit(X, y)
        assert local.objective_path_[0][-1] >= exact.objective_path_[0][-1] * (1 - 2e-6)


def test_a_search_that_is_cut_short_says_how_far_the_minimum_may_be():
    X, y, _ = moons(30, labeled=2, seed=1)
    settings = {"C": 1.0, "kernel": "rbf", "gamma": 2.0}
    exact = ExactTSVM(**settings).fit(X, y).objective_path_[0][-1]
    with pytest.warns(ConvergenceWarning, match="max_nodes=20 with a relative distance to the lower bound"):
        short = ExactTSVM(max_nodes=20, **settings).fit(X, y)
    reached, gap = short.objective_path_[0][-1], short.duality_gap_[0]
    assert gap > 1e-3
    assert reached * (1 - gap) <= exact <= reached


def test_too_many_unlabeled_rows_are_counted():
    X, y, _ = moons(100, labeled=2)
    with pytest.raises(ParameterError, match=r"96 unlabelled rows are too many.*n_unlabeled=50"):
        ExactTSVM().fit(X, y)
    assert ExactTSVM(n_unlabeled=10, random_state=0).fit(X, y).n_unlabeled_ == 10


@pytest.mark.parametrize("method", [ExactTSVM, GradientTSVM, ContinuationTSVM])
def test_a_weight_of_2_is_two_rows(method):
    X, y = as_table(*overlapping(8, seed=3))
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    weighted = method(C=1.0, tol=1e-9).fit(X, y, sample_weight=weight)
    copies = method(C=1.0, tol=1e-9).fit(*(np.repeat(rows, weight.astype(int), axis=0) for rows in (X, y)))
    np.testing.assert_allclose(weighted.decision_function(X), copies.decision_function(X), atol=1e-3)


# -- label switching -----------------------------------------------------------------------------------------


def switched_objective(signs, f, cost, positive, negative):
    return float(np.sum(cost * np.where(signs > 0, positive, negative) * np.maximum(1 - signs * f, 0)))


@pytest.mark.parametrize("seed", range(20))
def test_switching_keeps_the_share_and_lowers_the_objective(seed):
    rng = np.random.default_rng(seed)
    f, cost = 2 * rng.normal(size=40), np.ones(40)
    signs = rng.permutation(np.repeat([1.0, -1.0], [15, 25]))
    positive, negative = rng.uniform(0.1, 1, 2)
    while True:
        after = switch_pairs(signs, f, cost, positive, negative)
        assert (after > 0).sum() == 15
        if np.array_equal(after, signs):
            break
        before, now = (switched_objective(s, f, cost, positive, negative) for s in (signs, after))
        assert now < before
        signs = after
    slack = np.maximum(1 - signs * f, 0)
    for i, j in product(np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)):
        assert min(slack[i], slack[j]) == 0 or slack[i] + slack[j] <= 2


def test_rows_of_unequal_weight_are_switched_only_where_that_lowers_the_objective():
    f, signs = np.array([-0.2, 0.3]), np.array([1.0, -1.0])
    assert switch_pairs(signs, f, np.array([1.0, 1.0]), 1.0, 1.0).tolist() == [-1.0, 1.0]
    f = np.array([0.2, 0.3])  # the first row alone is right as it is
    assert switch_pairs(signs, f, np.array([1.0, 1.0]), 1.0, 1.0).tolist() == [-1.0, 1.0]
    assert switch_pairs(signs, f, np.array([9.0, 1.0]), 1.0, 1.0).tolist() == [1.0, -1.0]


def test_the_highest_scores_make_up_the_share():
    f = np.array([0.1, 5.0, -2.0, 3.0])
    assert highest(f, np.ones(4), 0.5).tolist() == [-1, 1, -1, 1]
    assert highest(f, np.array([1.0, 3.0, 1.0, 1.0]), 0.5).tolist() == [-1, 1, -1, -1]
    assert highest(f, np.ones(4), 0.01).tolist() == [-1, 1, -1, -1]  # never none
    assert highest(f, np.ones(4), 0.99).tolist() == [1, 1, -1, 1]  # never all


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("positive", [0.5, 0.25])
def test_switching_ends_at_the_svm_of_the_labels_that_it_implies(seed, positive):
    """Where no pair can be switched, the positive rows are those with the highest scores."""
    X_l, y, X_u = overlapping(40, seed)
    C, C_star = 1.0, 1.0 * 6 / 40
    model = SwitchingTSVM(C=C, priors={5: 1 - positive, 6: positive}).fit(*as_table(X_l, y, X_u))
    f = X_u @ model.coef_[0] + model.intercept_[0]
    signs = highest(f, np.ones(40), positive)
    assert (signs > 0).sum() == round(40 * positive)
    X, labels = np.vstack([X_l, X_u]), np.concatenate([y, signs])
    w, _, objective = hinge_svm(X, labels, np.concatenate([np.full(6, C), np.full(40, C_star)]))
    np.testing.assert_allclose(model.objective_path_[0][-1], objective, rtol=1e-5)
    np.testing.assert_allclose(model.coef_[0], w, atol=1e-4)
    assert (np.diff(model.objective_path_[0]) < 0).all()


# -- ∇TSVM ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [None, 0.3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_gradient_is_the_slope_of_the_objective(r, is_sparse):
    X_l, y, X_u = overlapping(12, seed=1)
    problem = problem_of(X_l, y, X_u, 2.0, 0.5, r)
    at = np.random.default_rng(0).normal(size=4 if r is None else 3)
    value, gradient = smooth_objective(at, problem, 0, 0.7)
    w, b = at[:3], at[3] if r is None else r
    f_l, f_u = (X @ w + b for X in (problem.labeled, problem.unlabeled))
    literal = w @ w / 2 + 2 * (np.maximum(0, 1 - y * f_l) ** 2).sum() + 0.7 * 0.5 * np.exp(-3 * f_u**2).sum()
    assert value == pytest.approx(literal, rel=1e-12)
    numeric = approx_fprime(at, lambda x: smooth_objective(x, problem, 0, 0.7)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)
    if is_sparse:
        thin = Problem(
            sparse.csr_array(X_l),
            y[None],
            problem.cost_labeled,
            sparse.csr_array(X_u),
            problem.cost_unlabeled,
            problem.target,
            centre=X_u.mean(axis=0),
        )
        again, slope = smooth_objective(at, thin, 0, 0.7)
        assert again == pytest.approx(value)
        np.testing.assert_allclose(slope, gradient, atol=1e-10)


@pytest.mark.parametrize("method", [GradientTSVM, ContinuationTSVM])
@pytest.mark.parametrize("balance", [True, False])
def test_descent_ends_at_a_minimum(balance, method):
    X_l, y, X_u = overlapping(60, seed=2)
    C, C_star = 1.0, 0.1
    model = method(C=C, balance=balance, tol=1e-10).fit(*as_table(X_l, y, X_u))
    problem = problem_of(X_l, y, X_u, C, C_star, 0.0 if balance else None)
    bias = model.intercept_[0] + model.coef_[0] @ X_u.mean(axis=0)
    at = model.coef_[0] if balance else np.append(model.coef_[0], bias)
    value, gradient = smooth_objective(at, problem, 0)
    assert value == pytest.approx(model.objective_path_[0][-1], rel=1e-9)
    assert np.abs(gradient).max() < 1e-4
    again = minimize(lambda x: smooth_objective(x, problem, 0)[0], at, method="Nelder-Mead")  # knows no gradient
    assert again.fun > value - 1e-6
    if balance:
        assert abs(bias) < 1e-9


def test_a_descent_that_is_cut_short_says_so():
    X, y = as_table(*overlapping(60, seed=2))
    with pytest.warns(ConvergenceWarning, match="GradientTSVM stopped at max_iter=1 with a relative squared gradient"):
        GradientTSVM(max_iter=1).fit(X, y)


# -- continuation --------------------------------------------------------------------------------------------


def norms_of(problem):
    return tuple(squared_norms(rows, problem.centre) for rows in (problem.labeled, problem.unlabeled))


@pytest.mark.parametrize("variance", [1e-3, 0.3, 20.0])
@pytest.mark.parametrize("z", [-3.0, -0.2, 0.0, 0.7, 4.0])
def test_convolved_losses_are_those_of_an_integral(z, variance):
    deviation = np.sqrt(variance)
    hinge, slope = (float(part[0]) for part in convolved_squared_hinge(np.array([z]), np.array([variance])))
    peak, fall = (float(part[0]) for part in convolved_peak(np.array([z]), np.array([variance]), 3.0))

    def mean(loss):
        parts = [(low, low + deviation) for low in z + deviation * np.arange(-10, 10)]
        return sum(quad(lambda x: loss(x) * norm.pdf(x, z, deviation), *part)[0] for part in parts)

    assert hinge == pytest.approx(mean(lambda x: max(0, x) ** 2), rel=1e-7, abs=1e-9)
    assert slope == pytest.approx(mean(lambda x: 2 * max(0, x)), rel=1e-7, abs=1e-9)
    assert peak == pytest.approx(mean(lambda x: np.exp(-3 * x * x)), rel=1e-7, abs=1e-9)
    assert fall == pytest.approx(mean(lambda x: -6 * x * np.exp(-3 * x * x)), rel=1e-7, abs=1e-9)


def test_convolved_losses_without_noise_are_the_losses():
    z = np.linspace(-2, 2, 9)
    hinge = [np.maximum(z, 0) ** 2, 2 * np.maximum(z, 0)]
    np.testing.assert_allclose(convolved_squared_hinge(z, np.zeros(9)), hinge, atol=1e-40)
    np.testing.assert_allclose(convolved_peak(z, np.zeros(9), 3.0)[0], np.exp(-3 * z * z))


@pytest.mark.parametrize("r", [None, 0.3])
def test_the_smoothed_objective_is_the_mean_over_noise_in_the_weights(r):
    problem = problem_of(*overlapping(8, seed=1, m=2), 2.0, 0.5, r)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)  # for a normal variable of variance 1
    at, variance = np.array([0.6, -0.4, 0.2][: 2 + (r is None)]), 0.25
    total = 0.0
    for (i, p), (j, q) in product(zip(nodes, weights, strict=True), repeat=2):
        moved = at + np.sqrt(variance) * np.array([i, j, 0.0][: len(at)])
        total += p * q / (2 * np.pi) * smooth_objective(moved, problem, 0)[0]
    value, gradient = convolved_objective(at, problem, 0, norms_of(problem), variance)
    assert value + variance == pytest.approx(total, rel=1e-4)  # v / 2 of |w|² / 2 for each of two weights
    numeric = approx_fprime(at, lambda x: convolved_objective(x, problem, 0, norms_of(problem), variance)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


def test_norms_of_sparse_rows_are_those_from_their_centre():
    rng = np.random.default_rng(0)
    X, centre = rng.normal(size=(9, 4)) * (rng.random((9, 4)) < 0.5), rng.normal(size=4)
    np.testing.assert_allclose(squared_norms(sparse.csr_array(X), centre), squared_norms(X - centre, None))
    np.testing.assert_allclose(squared_norms(X, None), np.linalg.norm(X, axis=1) ** 2)


def test_with_enough_smoothing_the_problem_is_convex_and_has_one_minimum():
    problem = problem_of(*overlapping(30, seed=0), 1.0, 2.0, 0.0)
    norms, rng = norms_of(problem), np.random.default_rng(0)
    first = convex_variance(norms[1], problem.cost_unlabeled, 3.0)

    def least_curvature(w, variance):
        slope = lambda at: convolved_objective(at, problem, 0, norms, variance)[1]  # noqa: E731
        hessian = np.array([(slope(w + step) - slope(w - step)) / 2e-5 for step in 1e-5 * np.eye(3)])
        return np.linalg.eigvalsh((hessian + hessian.T) / 2)[0]

    points = [np.zeros(3), *rng.normal(size=(50, 3)) * np.geomspace(0.01, 10, 50)[:, None]]
    assert min(least_curvature(w, first) for w in points) >= 0
    assert least_curvature(points[0], 0.0) < -1
    ends = [
        minimize(convolved_objective, w, args=(problem, 0, norms, first), jac=True, options={"gtol": 1e-9}).x
        for w in points[::10]
    ]
    np.testing.assert_allclose(ends, np.tile(ends[0], (len(ends), 1)), atol=1e-5)
    assert convex_variance(norms[1], 1e-6 * problem.cost_unlabeled, 3.0) == 0


def test_with_much_smoothing_it_is_a_problem_of_the_labeled_rows():
    """With w = √v u, the objective over v goes to |u|² / 2 and a mean of (e - y u·x / |x|)² above 0, |x|² C times."""
    problem = problem_of(*overlapping(30, seed=0), 1.0, 2.0, 0.0)
    norms, v = norms_of(problem), 1e8
    found = minimize(convolved_objective, np.zeros(3), args=(problem, 0, norms, v), jac=True, options={"gtol": 1e-3})

    def limit(u):
        t = -problem.signs[0] * (problem.labeled @ u) / np.sqrt(norms[0])
        return u @ u / 2 + norms[0] @ ((t * t + 1) * norm.cdf(t) + t * norm.pdf(t))

    np.testing.assert_allclose(found.x / np.sqrt(v), minimize(limit, np.zeros(3)).x, atol=1e-3)


def test_continuation_ends_no_higher_than_a_growing_cost_on_average():
    ends = []
    for seed in range(12):
        X, y, _ = moons(200, labeled=2, seed=seed)
        fits = [method(C=10, kernel="rbf", gamma=2.0).fit(X, y) for method in (GradientTSVM, ContinuationTSVM)]
        ends.append([fit.objective_path_[0][-1] for fit in fits])
    growing, smoothed = np.transpose(ends)
    assert smoothed.mean() < growing.mean()
    assert np.count_nonzero(smoothed < 0.95 * growing) >= 2
    assert (smoothed < 1.001 * growing).all()


# -- S4VM ----------------------------------------------------------------------------------------------------


def worst_case(y, said, signs, weight, risk):
    gain = np.sum(weight * (y == signs) * (said != signs), axis=1)
    loss = np.sum(weight * (y != signs) * (said == signs), axis=1)
    return float(np.min(gain - risk * loss))


@pytest.mark.parametrize("seed", range(20))
def test_the_safest_labels_never_lose_and_seldom_miss_the_best(seed):
    rng = np.random.default_rng(seed)
    said, *signs = np.where(rng.normal(size=(4, 9)) + 0.5 * rng.normal(size=9) < 0, -1.0, 1.0)
    signs, weight, risk = np.array(signs), rng.integers(1, 4, 9).astype(float), 3.0
    y = safest(said, signs, weight, risk)
    mine = worst_case(y, said, signs, weight, risk)
    best = max(worst_case(np.array(other), said, signs, weight, risk) for other in product([-1.0, 1.0], repeat=9))
    assert 0 <= mine <= best
    for truth in signs:  # whichever boundary is right, the labels are no worse than those of the SVM
        assert weight @ (y == truth) >= weight @ (said == truth)


def test_one_boundary_is_believed_and_agreement_changes_nothing():
    rng = np.random.default_rng(0)
    said, other = np.where(rng.normal(size=(2, 30)) < 0, -1.0, 1.0)
    np.testing.assert_array_equal(safest(said, other[None], np.ones(30), 3.0), other)
    np.testing.assert_array_equal(safest(said, np.array([said, said]), np.ones(30), 3.0), said)
    np.testing.assert_array_equal(safest(said, np.array([other, -other]), np.ones(30), 3.0), said)  # nothing is sure


def test_boundaries_differ_and_are_few():
    X_l, y, X_u = overlapping(60, seed=0, m=8)
    problem = problem_of(X_l, y, X_u, 1.0, 0.1, 0.0)
    start = supervised_svm(problem, tol=1e-6, max_iter=1000)
    signs = diverse_boundaries(problem, start, 30, 6, 1000, np.random.default_rng(0))
    assert 2 <= len(signs) <= 6
    assert len(np.unique(signs, axis=0)) == len(signs)


def test_where_no_label_changes_the_supervised_svm_remains():
    X, y = as_table(*overlapping(40, seed=0, distance=15))
    safe = S4VM(n_starts=1, random_state=0).fit(X, y)
    alone = TSVM(C_star=0.0, balance=False).fit(X, y)
    np.testing.assert_allclose(safe.decision_function(X), alone.decision_function(X), atol=1e-9)


# -- the SVM with fixed signs --------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [None, 0.2])
def test_a_sign_of_0_leaves_a_row_out(r):
    X_l, y, X_u = overlapping(10, seed=5)
    problem = problem_of(X_l, y, X_u, 1.0, 0.3, r)
    signs = np.array([[1.0, -1, 0, 0, 1, 1, -1, 0, -1, 1], [0.0, 0, 0, 1, 1, -1, -1, 0, 0, 0]])
    begin = np.zeros((2, 3 + (r is None)))
    solution = FixedSigns.of(problem).solve(y, signs, begin, tol=1e-9, max_sweeps=1000)
    for k, given in enumerate(signs):
        kept = given != 0
        X = np.vstack([problem.labeled, problem.unlabeled[kept]])
        cost = np.concatenate([np.full(6, 1.0), np.full(kept.sum(), 0.3)])
        _, _, objective = hinge_svm(X, np.concatenate([y, given[kept]]), cost, mean=np.zeros(3), r=r)
        np.testing.assert_allclose(solution.objective[k] - 0.3 * (~kept).sum(), objective, rtol=1e-7)
