"""The global minimum of the TSVM's objective, by branch and bound over the signs of the unlabelled rows.

A node of the tree has fixed the signs of some unlabelled rows, sigma. The others are free: their loss H(|f|) is at
least 0, so that

    min 1/2 |w|^2 + sum_labelled C_i H(y_i f(x_i)) + sum_fixed C*_i H(sigma_i f(x_i))

is a convex problem and a lower bound of J below this node. J at its solution w* is an upper bound. If no free row lies
in the margin, the two are equal, and the node needs no children; nor does it if the bound is not below the best J so
far. Otherwise the free row deepest in the margin gets both signs. Only for s = 0.

With a fixed mean score the bound is better. The problem is strongly convex: a w at distance rho from w* costs rho^2 / 2
more, and changes f(x_i) by at most rho |x_i|. So the free rows cost at least C*_i max(0, 1 - |f*| - rho |x_i|), and the
minimum over rho of the sum of both is added. If even the largest rho worth its cost cannot change the sign of f(x_i),
the sign is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from deepsep.classifiers.declared_settings import integer, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ParameterError
from deepsep.solvers.cccp import cccp
from deepsep.solvers.one_vs_rest import Path
from deepsep.solvers.problem import Problem, Result
from deepsep.solvers.single_loop import single_loop
from deepsep.zoo.transductive.fixed_signs import FixedSigns


@dataclass(order=True)
class _Node:
    bound: float
    number: int  # of nodes with equal bounds, the newer one comes first, since it is deeper
    signs: Array
    w: Array
    branch: int  # the next free row that gets a sign; -1: none


def branch_and_bound(
    problem: Problem,
    start: Result,
    *,
    tol: float,
    max_iter: int,
    aim: float | None = None,
    max_nodes: int,
) -> Result:
    """Find the minimum of J; the gap is its relative distance to the lower bound."""
    local = cccp(problem, start, tol=tol, max_iter=max_iter, aim=aim)
    other = single_loop(problem, start, tol=tol, max_iter=max_iter, aim=aim)
    lower = np.array([k for k, path in enumerate(other.objective_path) if path[-1] < local.objective_path[k][-1]], int)
    local = local.replaced(lower, other.only(lower))
    effort = {"tol": min(tol, 1e-6), "max_sweeps": max_iter}
    each = np.arange(len(start.w))[:, None]
    return Result.joined([_one_class(problem.only(k), local.only(k), tol, effort, max_nodes) for k in each])


def _one_class(problem: Problem, local: Result, tol: float, effort: dict[str, Any], max_nodes: int) -> Result:
    rows, y = FixedSigns.of(problem), problem.signs[0]
    u, cost = problem.unlabeled.shape[0], problem.cost_unlabeled
    norms = _norms(problem)
    best = problem.coefficients(local)[0]
    upper = local.objective_path[0][-1]
    path = [upper]
    number = count(0, -1)
    open_nodes = [_Node(-np.inf, next(number), np.zeros(u), best, -1)]
    n_nodes = 0
    while open_nodes and open_nodes[0].bound < (1 - tol) * upper and n_nodes < max_nodes:
        parents = [heappop(open_nodes) for _ in range(min(32, len(open_nodes)))]  # solved together
        signs = np.array([child for node in parents for child in _children(node)])
        begin = np.array([node.w for node in parents for _ in _children(node)])
        solution = rows.solve(y, signs, begin, **effort)
        n_nodes += len(signs)
        free = signs == 0
        bounds = solution.objective * (1 - solution.gap) - free @ cost
        values, f = _values(problem, solution.w)
        leader = int(np.argmin(values))
        if values[leader] < upper:
            upper, best = float(values[leader]), solution.w[leader]
            path.append(upper)
        blur = np.sqrt(2 * solution.objective * solution.gap)[:, None] * norms  # error of w* due to the gap
        room = np.sqrt(2 * np.maximum(upper - bounds, 0))[:, None] * norms + blur
        bounds += _price_of_free_rows(1 - np.abs(f) - blur, np.where(free, cost, 0), norms)
        signs = np.where(free & (np.abs(f) > room), np.sign(f), signs)
        depth = np.where(free, cost * np.maximum(1 - np.abs(f), 0), 0)
        left = np.where(signs == 0, depth, 0)
        branch = np.where(left.any(axis=1), left.argmax(axis=1), -1)
        for i in np.flatnonzero((bounds < (1 - tol) * upper) & depth.any(axis=1)):
            heappush(open_nodes, _Node(float(bounds[i]), next(number), signs[i], solution.w[i], int(branch[i])))
    lower = min(open_nodes[0].bound, (1 - tol) * upper) if open_nodes else (1 - tol) * upper
    gap = np.array([max(upper - lower, 0.0) / upper])
    return problem.result(best[None], [path], gap, n_nodes, gap <= 2 * tol)


def _children(node: _Node) -> list[Array]:
    """Return the signs of a node's children, or its own if no row is left to branch on."""
    if node.branch < 0:
        return [node.signs]
    out = []
    for sign in (-1.0, 1.0):
        out.append(node.signs.copy())
        out[-1][node.branch] = sign
    return out


def _norms(problem: Problem) -> Array:
    """Return |x_i| of the unlabelled rows, which bound changes of f; practically infinite with a free bias."""
    x = problem.unlabeled.toarray() if sparse.issparse(problem.unlabeled) else problem.unlabeled
    if problem.target is None:
        return np.full(len(x), 1e100)
    centred = x if problem.centre is None else x - problem.centre
    return np.asarray(np.maximum(np.linalg.norm(centred, axis=1), 1e-100))


def _price_of_free_rows(depth: Array, cost: Array, norms: Array) -> Array:
    """Return for each node a lower bound of min over rho of rho² / 2 + sum cost max(0, depth - rho norms).

    The slope rho - sum of cost norms over the rows with depth > rho norms rises with rho, so its root is bisected.
    """
    low = np.zeros(len(depth))
    high = np.maximum((depth / norms).max(axis=1), 0)
    for _ in range(40):
        rho = 0.5 * (low + high)
        falls = rho < (cost * norms * (depth > rho[:, None] * norms)).sum(axis=1)
        low, high = np.where(falls, rho, low), np.where(falls, high, rho)
    return np.asarray(0.5 * low**2 + (cost * np.maximum(depth - high[:, None] * norms, 0)).sum(axis=1))


def _values(problem: Problem, w: Array) -> tuple[Array, Array]:
    """Return J at each point, and the scores f of the unlabelled rows."""
    free = problem.target is None
    rows = problem.only(np.zeros(len(w), int)).rows()
    penalised = w[:, :-1] if free else w
    values = 0.5 * np.sum(penalised**2, axis=1) + rows.transductive_loss(w, np.arange(len(w)))
    return values, rows.scores(w, labeled=False)


@settings
class ExactTSVM(LowDensitySVM):
    r"""Transductive SVM solved to its global minimum, by branch and bound over the labels of the unlabelled rows.

    It has the objective of :class:`deepsep.TSVM` (with s = 0), but ends at the lowest of all local minima, which a
    lower bound proves. The time may double with each unlabelled row, so more than 50 are an error. It is for teaching,
    and to measure how far other solvers are from the minimum: see ``docs/results/local-minima.md``. A lower objective
    does not always mean a lower error.

    Parameters
    ----------
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`. False: a free bias. The
        minimum may then leave all unlabelled rows on one side, and bounds are weaker.
    max_nodes : int, default=200000
        Maximum number of nodes of the search for each class; a second is enough for thousands. Beyond it, the best
        boundary so far is the result, with a ``ConvergenceWarning``; ``duality_gap_`` bounds how much lower the minimum
        can be.
    n_unlabeled : int, optional
        Train on this many unlabelled rows, drawn at random. None: all of them, at most 50.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Lowest objective so far, from the better of the two solvers of :class:`deepsep.TSVM` to the minimum.
    duality_gap_ : array (c,)
        Relative distance of the lower bound from the objective: about ``tol`` if the minimum was found.
    n_iter_ : int
        Number of nodes over all classes.

    References
    ----------
    K. P. Bennett, A. Demiriz. Semi-supervised support vector machines. NIPS 1998.

    O. Chapelle, V. Sindhwani, S. S. Keerthi. Branch and bound for semi-supervised support vector machines. NIPS 2006.
    """

    method_name = "exact-tsvm"
    _ends: ClassVar = {"branch and bound": "global minimum"}
    _gap: ClassVar[str] = "relative distance to the lower bound"
    _limit: ClassVar[str] = "max_nodes"

    max_nodes: int = integer(200_000, 1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Any:
        u = len(rows.unlabeled) if self.n_unlabeled is None else min(self.n_unlabeled, len(rows.unlabeled))
        if u > 50:
            raise ParameterError(
                f"{u:,} unlabelled rows are too many for {self.method_name}, as time may double with each; at most 50 "
                "are allowed. Set n_unlabeled=50 to train on that many, drawn at random, or use tsvm."
            )
        return super()._learn(rows, rng)

    def _path(self, rng: np.random.Generator) -> Path:
        return partial(branch_and_bound, max_nodes=int(self.max_nodes))
