"""The transductive SVM over labelled and unlabelled rows: a supervised start, then one of two paths.

For each one-vs-rest problem, minimise

    J(w, b) = 1/2 |w|^2 + sum_labelled C_i H(y_i f(x_i)) + sum_unlabelled C*_i min(1 + s, H(|f(x_i)|))

with f(x) = w . x + b and H(z) = max(0, 1 - z); s = 0 is the loss of the paper, equation (1). Rows come centred on the
mean of the unlabelled rows, so the balancing constraint "mean of f over the unlabelled rows = r" is b = r.

:func:`cccp`
    Collobert's concave-convex procedure: fix the sign of every unlabelled row, solve the convex rest exactly, read the
    signs anew, until they stay.
:func:`single_loop`
    One augmented Lagrangian in which signs are read from f at every iterate. It ends at the same kind of point, one
    that an exact convex step cannot leave, for the price of about two convex steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.solvers.newton import minimise
from deepsep.solvers.rows import Rows, TransductivePass

Array = NDArray[Any]

TWO_LEVEL_FROM = 4_000  # unlabelled rows above which a part of them finds the start
TWO_LEVEL_SAMPLE = 2_000  # at least so many of them


@dataclass(frozen=True)
class Problem:
    """One-vs-rest problems on shared rows, which are centred on the weighted mean of the unlabelled ones.

    Rows may be of any type that knows its shape and can be sliced, as long as ``make_rows`` can read it; so may the
    costs of the unlabelled rows. Whatever reads a row does so through the pass.
    """

    labelled: Any  # (l, m), dense or CSR
    signs: Array  # (c, l) of -1 and 1
    cost_labelled: Array  # (l,)  C_i
    unlabelled: Any  # (u, m)
    cost_unlabelled: Any  # (u,)  C*_i
    target: Array | None  # (c,)  r: the mean score over the unlabelled rows; None: a free bias
    s: float = 0.0
    centre: Array | None = None  # (m,)  still to be subtracted from the rows, which are sparse
    make_rows: Callable[..., Any] = Rows  # called as Rows is; returns a TransductivePass

    def rows(self) -> TransductivePass:
        """Return the pass over the rows, with a column of ones if the bias is free."""
        rows: TransductivePass = self.make_rows(
            self.labelled,
            self.signs,
            self.cost_labelled,
            self.unlabelled,
            self.cost_unlabelled,
            offset=np.zeros(len(self.signs)) if self.target is None else self.target,
            free_bias=self.target is None,
            s=self.s,
            centre=self.centre,
        )
        return rows

    def supervised(self) -> Problem:
        """Return the problem of the labelled rows alone, with a free bias."""
        return replace(self, unlabelled=self.unlabelled[:0], cost_unlabelled=self.cost_unlabelled[:0], target=None)

    def only(self, which: Array) -> Problem:
        """Return these of the one-vs-rest problems."""
        return replace(self, signs=self.signs[which], target=None if self.target is None else self.target[which])

    def labelled_scores(self, w: Array, b: Array) -> Array:
        """Return f of the labelled rows, (c, l), in double precision."""
        return replace(self.supervised(), target=b).rows().scores(w, labelled=True)

    def unlabelled_scores(self, w: Array, b: Array) -> Array:
        """Return f of the unlabelled rows, (c, u)."""
        return replace(self, target=b).rows().scores(w, labelled=False)


@dataclass
class Result:
    """What a path returns; arrays have one entry a problem."""

    w: Array  # (c, m)
    b: Array  # (c,)
    objective_path: list[list[float]]  # J after every step, the start apart
    gap: Array  # relative duality gap of the last convex problem
    n_iter: int
    converged: Array

    def only(self, which: Array) -> Result:
        """Return the result of these problems."""
        paths = [self.objective_path[k] for k in which]
        return Result(self.w[which], self.b[which], paths, self.gap[which], self.n_iter, self.converged[which])

    def replaced(self, which: Array, other: Result) -> Result:
        """Return this result with those problems taken from another one."""
        new = replace(self, objective_path=list(self.objective_path), n_iter=self.n_iter + other.n_iter)
        for name in ("w", "b", "gap", "converged"):
            values = getattr(self, name).copy()
            values[which] = getattr(other, name)
            setattr(new, name, values)
        for k, path in zip(which, other.objective_path, strict=True):
            new.objective_path[k] = path
        return new


def supervised_svm(problem: Problem, *, tol: float, max_iter: int, aim: float | None = None) -> Result:
    """Solve the SVM on the labelled rows alone, with a free bias (the middle one where there are several)."""
    alone = problem.supervised()
    c = len(problem.signs)
    start = np.zeros((c, problem.labelled.shape[1] + 1))
    solution = minimise(alone.rows(), start, tol=tol, max_sweeps=max_iter, aim=aim)
    w = solution.w[:, :-1]
    scores = problem.labelled_scores(w, np.zeros(c))
    b = np.array([_middle_bias(scores[k], problem.signs[k], problem.cost_labelled) for k in range(c)])
    hinges = np.maximum(1 - problem.signs * (scores + b[:, None]), 0)
    objective = 0.5 * np.sum(w * w, axis=1) + hinges @ problem.cost_labelled
    return Result(w, b, [[float(j)] for j in objective], solution.gap, solution.n_sweeps, solution.converged)


def _middle_bias(scores: Array, y: Array, cost: Array) -> float:
    """Return the middle of the biases that minimise sum cost H(y (scores + b)).

    The sum falls with slope -cost until y = 1 rows are satisfied (b = 1 - score), and rises with slope cost from
    where y = -1 rows are not (b = -1 - score).
    """
    kinks = y - scores
    order = np.argsort(kinks, kind="stable")
    slope = np.cumsum(cost[order]) - cost[y > 0].sum()  # to the right of each kink
    flat = 1e-9 * cost.sum()
    first = int(np.argmax(slope >= -flat))
    last = int(np.argmax(slope > flat)) if slope[-1] > flat else len(slope) - 1
    return float(0.5 * (kinks[order[first]] + kinks[order[last]]))


def cccp(problem: Problem, start: Result, *, tol: float, max_iter: int, aim: float | None = None) -> Result:
    """Follow Collobert's procedure from the supervised SVM; the constraint holds from the first step on."""
    c = len(problem.signs)
    rows, everything = problem.rows(), np.arange(c)
    free = problem.target is None
    w = np.column_stack([start.w, start.b]) if free else start.w.copy()
    rows.offset, offset = (np.zeros(c) if free else start.b), rows.offset
    sigma = rows.decide(w, everything)
    rows.offset = offset
    paths: list[list[float]] = [[] for _ in range(c)]
    gap, converged = np.zeros(c), np.zeros(c, bool)
    active, steps = everything, 0
    while active.size and steps < max_iter:
        rows.linearise(sigma[active], active)
        step = minimise(rows, w, problems=active, tol=tol, max_sweeps=max_iter, aim=aim)
        steps += 1
        objective = 0.5 * _square(step.w, free)[active] + rows.transductive_loss(step.w[active], active)
        decided = rows.decide(step.w[active], active)
        gap[active] = step.gap[active]
        keep = np.ones(len(active), bool)
        for i, k in enumerate(active):
            # An exact step never raises J; one that does is rounding, and the last point was the fixed point.
            if paths[k] and objective[i] > paths[k][-1]:
                keep[i], converged[k] = False, bool(step.converged[k])
                continue
            w[k] = step.w[k]
            paths[k].append(float(objective[i]))
            if np.array_equal(decided[i], sigma[k]):
                keep[i], converged[k] = False, bool(step.converged[k])
            sigma[k] = decided[i]
        active = active[keep]
    return _result(problem, w, paths, gap, steps, converged)


def single_loop(problem: Problem, start: Result, *, tol: float, max_iter: int, aim: float | None = None) -> Result:
    """Run one augmented Lagrangian whose signs follow f; with many unlabelled rows, first on every few of them."""
    u = problem.unlabelled.shape[0]
    kappa, n_sweeps = 4.0, 0
    if u > TWO_LEVEL_FROM:
        stride = u // max(TWO_LEVEL_SAMPLE, u // 50)
        few = replace(
            problem, unlabelled=problem.unlabelled[::stride], cost_unlabelled=stride * problem.cost_unlabelled[::stride]
        )
        start = single_loop(few, start, tol=max(tol, 1e-2), max_iter=max_iter)
        kappa, n_sweeps = 16.0, start.n_iter
    free = problem.target is None
    w = np.column_stack([start.w, start.b]) if free else start.w
    solution = minimise(problem.rows(), w, tol=tol, max_sweeps=max_iter, kappa=kappa, aim=aim)
    paths = [[float(j)] for j in solution.objective]
    return _result(problem, solution.w, paths, solution.gap, n_sweeps + solution.n_sweeps, solution.converged)


def _square(w: Array, free: bool) -> Array:
    w = w[:, :-1] if free else w
    return np.asarray(np.sum(w * w, axis=1))


def _result(problem: Problem, w: Array, paths: list[list[float]], gap: Array, n_iter: int, converged: Array) -> Result:
    if problem.target is None:
        return Result(w[:, :-1], w[:, -1], paths, gap, n_iter, converged)
    return Result(w, np.array(problem.target, dtype=np.float64), paths, gap, n_iter, converged)
