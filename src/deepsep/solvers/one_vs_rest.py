"""Boundaries of each class against the rest, through low density: from rows and codes to scores.

This is not an estimator: callers check the rows, and tell users about the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deepsep.solvers import Array
from deepsep.solvers.cccp import cccp
from deepsep.solvers.problem import Problem, Result
from deepsep.solvers.single_loop import single_loop
from deepsep.solvers.spaces import Kernel, Separator, open_space
from deepsep.solvers.supervised_svm import supervised_svm

Path = Callable[..., Result]  # with the arguments of `cccp`


@dataclass(frozen=True)
class Costs:
    """The objective: C, C* and s of equation (1), and whether the mean score is fixed."""

    labeled: float  # C, of a row of weight 1
    unlabeled: float  # C*
    s: float = 0.0  # rows with ``|f| <= -s`` are undecided
    balance: bool = False  # whether the mean score over the unlabelled rows is fixed to 2 π − 1
    shares: Array | None = None  # (c,): π; None: the shares of the labelled rows


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the solver: one of the two paths of this package, or another one with a name, and when to stop."""

    algorithm: str = "single-loop"
    max_iter: int = 1000
    tol: float = 1e-6
    path: Path | None = None


@dataclass(frozen=True)
class Boundaries:
    """One boundary per class, or a single one for two classes."""

    separator: Separator
    result: Result
    space: str  # the space in which the rows were separated
    algorithm: str  # the path that was taken
    balanced: Array  # mask of the problems that have the balancing constraint
    # Problems of the single loop that were solved again with a constraint, because a class was lost without it
    collapsed: Array
    # (c,): the classes' shares of the unlabelled rows by the supervised start, where the labels give the constraint
    supervised_shares: Array | None = None

    def scores(self, X: Any) -> Array:
        """Return one score per class, (n, c); with two classes -f and f."""
        return class_scores(self.separator, X)

    @property
    def objective(self) -> float:
        """J, summed over the problems."""
        return float(sum(path[-1] for path in self.result.objective_path))


def class_scores(separator: Separator, X: Any) -> Array:
    """Return one score per class, (n, c); with two classes -f and f."""
    scores = separator.scores(X)
    return scores if scores.shape[1] > 1 else np.hstack([-scores, scores])


def separate(
    labeled: Any,  # (l, m), dense or CSR
    codes: Array,  # (l,)
    weight: Array,  # (l,); a weight of k counts as k rows
    unlabeled: Any,  # (u, m)
    unlabeled_weight: Array,  # (u,)
    n_classes: int,
    costs: Costs,
    solver: SolverSettings,
    *,
    kernel: Kernel | None = None,  # None: the inner product of the features
    rng: np.random.Generator | None = None,  # draws the landmarks of a Nyström map; only needed with a kernel
) -> Boundaries:
    """Find the boundaries of all classes, each of which has a labelled row; rows may be overwritten."""
    rng = np.random.default_rng(0) if rng is None else rng
    space = open_space(labeled, unlabeled, unlabeled_weight, kernel, rng)
    positive = codes == np.arange(n_classes)[:, None] if n_classes > 2 else (codes == 1)[None]
    among = np.bincount(codes, weights=weight, minlength=n_classes) / weight.sum()
    shares = among if costs.shares is None else costs.shares
    target = 2 * (shares if n_classes > 2 else shares[1:]) - 1
    problem = Problem(
        labeled=space.labeled,
        signs=np.where(positive, 1.0, -1.0),
        cost_labeled=costs.labeled * weight,
        unlabeled=space.unlabeled,
        cost_unlabeled=costs.unlabeled * unlabeled_weight,
        target=target if costs.balance and len(unlabeled_weight) else None,
        s=costs.s,
        centre=space.centre,
    )
    result, algorithm, collapsed, start = _solve(problem, costs, solver)
    balanced = np.full(len(problem.signs), problem.target is not None)
    balanced[collapsed] = True
    separator = space.separator(np.ascontiguousarray(result.w), result.b)
    by_labels = problem.target is not None and costs.shares is None and costs.unlabeled > 0
    supervised_shares = _predicted_shares(problem, start) if by_labels else None
    return Boundaries(separator, result, space.name, algorithm, balanced, collapsed, supervised_shares)


def _solve(problem: Problem, costs: Costs, solver: SolverSettings) -> tuple[Result, str, Array, Result]:
    """Return the solution, the path taken, the problems that collapsed without the constraint, and the start."""
    u = problem.unlabeled.shape[0]
    settings: dict[str, Any] = {"tol": solver.tol, "max_iter": solver.max_iter}
    if problem.labeled.shape[0] + u <= 1_000 and problem.labeled.dtype == np.float64:
        # Newton's last steps are few. With few rows they are also cheap, and results agree to the last digits.
        settings["aim"] = min(solver.tol, 1e-12)
    if not u or (costs.unlabeled == 0 and not costs.balance):
        result = supervised_svm(problem, **settings)
        return result, "supervised", np.array([], int), result
    # The single loop reads the signs again at each iterate, so a rough start is as good as an exact one.
    path = cccp if solver.algorithm == "cccp" else solver.path
    rough = {**settings, "tol": max(solver.tol, 1e-3), "aim": None}
    start = supervised_svm(problem, **(rough if path is None else settings))
    if path is not None:  # the caller asked for the result of this procedure, collapsed or not
        return path(problem, start, **settings), solver.algorithm, np.array([], int), start
    result = single_loop(problem, start, **settings)
    collapsed = _collapsed(problem, start, result) if problem.target is None else np.array([], int)
    if collapsed.size:
        # The mean score of the unlabelled rows by the supervised start, which keeps the sizes of both sides.
        weight = problem.cost_unlabeled / problem.cost_unlabeled.sum()
        target = (np.clip(problem.unlabeled_scores(start.w, start.b), -1, 1) @ weight)[collapsed]
        if costs.shares is not None:
            target = 2 * (costs.shares if len(problem.signs) > 1 else costs.shares[1:])[collapsed] - 1
        balanced = replace(problem.only(collapsed), target=target)
        result = result.replaced(collapsed, single_loop(balanced, start.only(collapsed), **settings))
    return result, "single-loop", collapsed, start


def _collapsed(problem: Problem, start: Result, result: Result) -> Array:
    """Return the problems of classes that have collapsed.

    Such a class gets far fewer of the unlabelled rows than by the supervised start. Its share of the labels is not a
    measure: labels may fill quotas where the population has 1 % of a class.
    """
    before, after = (_predicted_shares(problem, each) for each in (start, result))
    lost = np.flatnonzero(after < 0.1 * before)
    return lost if len(problem.signs) > 1 else np.zeros(min(lost.size, 1), int)


def _predicted_shares(problem: Problem, result: Result) -> Array:
    """Return each class's share of the unlabelled rows."""
    scores = problem.unlabeled_scores(result.w, result.b)
    scores = scores if len(scores) > 1 else np.vstack([-scores, scores])
    counts = np.bincount(scores.argmax(axis=0), weights=problem.cost_unlabeled, minlength=len(scores))
    return np.asarray(counts / counts.sum())
