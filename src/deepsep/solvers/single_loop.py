"""The TSVM in a single loop: one augmented Lagrangian in which signs are read from f at every iterate.

It ends at the same kind of point as :func:`deepsep.solvers.cccp.cccp`, one that an exact convex step cannot leave, at
the cost of about two convex steps.
"""

from __future__ import annotations

from dataclasses import replace

from deepsep.solvers.newton import minimise
from deepsep.solvers.problem import Problem, Result

TWO_LEVEL_FROM = 4_000  # above this many unlabelled rows, a sample of them determines the start
TWO_LEVEL_SAMPLE = 2_000  # minimum size of this sample


def single_loop(problem: Problem, start: Result, *, tol: float, max_iter: int, aim: float | None = None) -> Result:
    """Run one augmented Lagrangian whose signs follow f; with many unlabelled rows, first on a sample of them."""
    u = problem.unlabeled.shape[0]
    kappa, n_sweeps = 4.0, 0
    if u > TWO_LEVEL_FROM:
        stride = u // max(TWO_LEVEL_SAMPLE, u // 50)
        few = replace(
            problem, unlabeled=problem.unlabeled[::stride], cost_unlabeled=stride * problem.cost_unlabeled[::stride]
        )
        start = single_loop(few, start, tol=max(tol, 1e-2), max_iter=max_iter)
        kappa, n_sweeps = 16.0, start.n_iter
    solution = minimise(problem.rows(), problem.coefficients(start), tol=tol, max_sweeps=max_iter, kappa=kappa, aim=aim)
    paths = [[float(j)] for j in solution.objective]
    return problem.result(solution.w, paths, solution.gap, n_sweeps + solution.n_sweeps, solution.converged)
