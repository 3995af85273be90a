"""Collobert's concave-convex procedure.

Fix the sign of every unlabelled row, solve the remaining convex problem exactly, read the signs again, and repeat until
they no longer change.
"""

from __future__ import annotations

import numpy as np

from deepsep.solvers.newton import minimise
from deepsep.solvers.problem import Problem, Result


def cccp(problem: Problem, start: Result, *, tol: float, max_iter: int, aim: float | None = None) -> Result:
    """Run Collobert's procedure from the supervised SVM; the constraint holds from the first step on."""
    c = len(problem.signs)
    rows, everything = problem.rows(), np.arange(c)
    free = problem.target is None
    w = problem.coefficients(start).copy()
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
        penalised = step.w[:, :-1] if free else step.w
        ridge = 0.5 * np.sum(penalised * penalised, axis=1)
        objective = ridge[active] + rows.transductive_loss(step.w[active], active)
        decided = rows.decide(step.w[active], active)
        gap[active] = step.gap[active]
        keep = np.ones(len(active), bool)
        for i, k in enumerate(active):
            # An exact step never raises J. If one does, that is rounding, and the last point was the fixed point.
            if paths[k] and objective[i] > paths[k][-1]:
                keep[i], converged[k] = False, bool(step.converged[k])
                continue
            w[k] = step.w[k]
            paths[k].append(float(objective[i]))
            if np.array_equal(decided[i], sigma[k]):
                keep[i], converged[k] = False, bool(step.converged[k])
            sigma[k] = decided[i]
        active = active[keep]
    return problem.result(w, paths, gap, steps, converged)
