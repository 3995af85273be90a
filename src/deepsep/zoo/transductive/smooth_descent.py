"""Chapelle and Zien's ∇TSVM: gradient descent on smooth losses, with a cost of unlabelled rows that grows in steps.

For each one-vs-rest problem, minimise

    1/2 |w|^2 + sum_labelled C_i max(0, 1 - y_i f(x_i))^2 + sum_unlabelled C*_i exp(-s f(x_i)^2)

where the mean of f over the unlabelled rows may be fixed, as in :mod:`deepsep.solvers.problem`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from deepsep.solvers.problem import Problem, Result

Array = NDArray[Any]


def smooth_descent(
    problem: Problem,
    start: Result,
    *,
    tol: float,
    max_iter: int,
    aim: float | None = None,
    sharpness: float = 3.0,
    steps: int = 10,
    max_gap: float = 1e-2,
) -> Result:
    """Descend from the supervised SVM while the cost of the unlabelled rows grows from C* / 2^steps to C*.

    The gap is |gradient|² / 2 over the objective, an upper bound of the possible gain if the losses are convex and the
    bias is fixed. A point with a gap up to ``max_gap`` counts as a minimum; it is larger for badly scaled rows.
    """
    ends = []
    for k in range(len(start.w)):
        at = np.append(start.w[k], start.b[k])[: start.w.shape[1] + (problem.target is None)]
        path, n_iter = [], 0
        for factor in 2.0 ** np.arange(-steps, 1):
            found = minimize(
                smooth_objective,
                at,
                args=(problem, k, factor, sharpness),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "gtol": 0.0, "ftol": 0.1 * tol},
            )
            at, n_iter = found.x, n_iter + int(found.nit)
            path.append(float(found.fun))
        gap = np.array([0.5 * float(found.jac @ found.jac) / max(found.fun, np.finfo(float).tiny)])
        ended = (gap <= max_gap) & (found.nit < max_iter) & (found.nfev < 2 * max_iter)
        b = at[-1:] if problem.target is None else problem.target[[k]].astype(np.float64)
        ends.append(Result(at[None, : start.w.shape[1]], b, [path[-1:]], gap, n_iter, ended))
    return Result.joined(ends)


def smooth_objective(
    at: Array, problem: Problem, k: int, factor: float = 1.0, sharpness: float = 3.0
) -> tuple[float, Array]:
    """Return the objective of problem k and its gradient at w, followed by a free bias.

    ``factor`` multiplies the cost C* of an unlabelled row.
    """
    m = problem.labeled.shape[1]
    w, b = at[:m], at[m] if problem.target is None else problem.target[k]
    shift = 0.0 if problem.centre is None else problem.centre @ w

    def scores(x: Any) -> Array:
        f: Array = (x @ w.astype(x.dtype)).astype(np.float64) - shift + b
        return f

    slack = np.maximum(1 - problem.signs[k] * scores(problem.labeled), 0)
    f = scores(problem.unlabeled)
    cost = factor * problem.cost_unlabeled
    peak = np.exp(-sharpness * f * f)
    value = 0.5 * w @ w + problem.cost_labeled @ (slack * slack) + cost @ peak
    slopes = (
        (problem.labeled, -2 * problem.cost_labeled * problem.signs[k] * slack),
        (problem.unlabeled, -2 * sharpness * cost * f * peak),
    )
    gradient = w.copy()
    for x, slope in slopes:
        gradient += (slope.astype(x.dtype) @ x).astype(np.float64)
        if problem.centre is not None:
            gradient -= slope.sum() * problem.centre
    if problem.target is None:
        gradient = np.append(gradient, sum(slope.sum() for _, slope in slopes))
    return float(value), gradient
