"""Chapelle and Zien's ∇TSVM: gradient descent on smooth losses, with a cost of unlabelled rows that grows in steps.

For each one-vs-rest problem, minimise

    1/2 |w|^2 + sum_labelled C_i max(0, 1 - y_i f(x_i))^2 + sum_unlabelled C*_i exp(-s f(x_i)^2)

where the mean of f over the unlabelled rows may be fixed, as in :mod:`deepsep.solvers.problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.optimize import minimize

from deepsep.core.arrays import Array
from deepsep.solvers.problem import Problem, Result

Loss = Callable[[Array], tuple[float, Array]]  # of the scores: the cost of all rows, and its slope for each
Objective = Callable[[Array, Problem, int], tuple[float, Array]]  # at w, of problem k: value and gradient


def smooth_descent(
    problem: Problem,
    start: Result,
    *,
    tol: float,
    max_iter: int,
    aim: float | None = None,
    sharpness: float = 3.0,
    steps: int = 10,
) -> Result:
    """Descend from the supervised SVM while the cost of the unlabelled rows grows from C* / 2^steps to C*."""
    factors = 2.0 ** np.arange(-steps, 1)
    stages = [partial(smooth_objective, factor=factor, sharpness=sharpness) for factor in factors]
    return descend(problem, start, stages, tol=tol, max_iter=max_iter)


def descend(
    problem: Problem,
    start: Result,
    stages: Sequence[Objective],
    *,
    tol: float,
    max_iter: int,
    max_gap: float = 1e-2,
) -> Result:
    """Minimise one objective after the other, each from the minimum of the one before.

    The gap is |gradient|² / 2 over the objective, an upper bound of the possible gain if the losses are convex and the
    bias is fixed. A point with a gap up to ``max_gap`` counts as a minimum; it is larger for badly scaled rows.
    """
    ends = []
    for k in range(len(start.w)):
        at = np.append(start.w[k], start.b[k])[: start.w.shape[1] + (problem.target is None)]
        n_iter = 0
        for objective in stages:
            found = minimize(
                objective,
                at,
                args=(problem, k),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "gtol": 0.0, "ftol": 0.1 * tol},
            )
            at, n_iter = found.x, n_iter + int(found.nit)
        gap = np.array([0.5 * float(found.jac @ found.jac) / max(found.fun, np.finfo(float).tiny)])
        ended = (gap <= max_gap) & (found.nit < max_iter) & (found.nfev < 2 * max_iter)
        b = at[-1:] if problem.target is None else problem.target[[k]].astype(np.float64)
        ends.append(Result(at[None, : start.w.shape[1]], b, [[float(found.fun)]], gap, n_iter, ended))
    return Result.joined(ends)


def smooth_objective(
    at: Array, problem: Problem, k: int, factor: float = 1.0, sharpness: float = 3.0
) -> tuple[float, Array]:
    """Return the objective of problem k and its gradient at w, followed by a free bias.

    ``factor`` multiplies the cost C* of an unlabelled row.
    """

    def labeled(f: Array) -> tuple[float, Array]:
        slack = np.maximum(1 - problem.signs[k] * f, 0)
        return problem.cost_labeled @ (slack * slack), -2 * problem.cost_labeled * problem.signs[k] * slack

    def unlabeled(f: Array) -> tuple[float, Array]:
        cost, peak = factor * problem.cost_unlabeled, np.exp(-sharpness * f * f)
        return cost @ peak, -2 * sharpness * cost * f * peak

    return with_gradient(at, problem, k, labeled, unlabeled)


def with_gradient(at: Array, problem: Problem, k: int, labeled: Loss, unlabeled: Loss) -> tuple[float, Array]:
    """Return |w|² / 2 plus the losses of both kinds of rows, and the gradient at w, followed by a free bias."""
    m = problem.labeled.shape[1]
    w, b = at[:m], at[m] if problem.target is None else problem.target[k]
    shift = 0.0 if problem.centre is None else problem.centre @ w
    value, gradient, bias = 0.5 * w @ w, w.copy(), 0.0
    for x, loss in ((problem.labeled, labeled), (problem.unlabeled, unlabeled)):
        cost, slope = loss((x @ w.astype(x.dtype)).astype(np.float64) - shift + b)
        value += cost
        gradient += (slope.astype(x.dtype) @ x).astype(np.float64)
        bias += slope.sum()
        if problem.centre is not None:
            gradient -= slope.sum() * problem.centre
    return float(value), gradient if problem.target is not None else np.append(gradient, bias)
