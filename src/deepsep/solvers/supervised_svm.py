"""The SVM on the labelled rows alone, from which the transductive ones start."""

from __future__ import annotations

import numpy as np

from deepsep.solvers import Array
from deepsep.solvers.newton import minimise
from deepsep.solvers.problem import Problem, Result


def supervised_svm(problem: Problem, *, tol: float, max_iter: int, aim: float | None = None) -> Result:
    """Solve the SVM on the labelled rows alone, with a free bias: the middle one if several are optimal."""
    alone = problem.supervised()
    c = len(problem.signs)
    start = np.zeros((c, problem.labeled.shape[1] + 1))
    solution = minimise(alone.rows(), start, tol=tol, max_sweeps=max_iter, aim=aim)
    w = solution.w[:, :-1]
    scores = problem.labeled_scores(w, np.zeros(c))
    b = np.array([_middle_bias(scores[k], problem.signs[k], problem.cost_labeled) for k in range(c)])
    hinges = np.maximum(1 - problem.signs * (scores + b[:, None]), 0)
    objective = 0.5 * np.sum(w * w, axis=1) + hinges @ problem.cost_labeled
    return Result(w, b, [[float(j)] for j in objective], solution.gap, solution.n_sweeps, solution.converged)


def _middle_bias(scores: Array, y: Array, cost: Array) -> float:
    """Return the middle of the biases that minimise sum cost H(y (scores + b)).

    The sum falls with slope -cost up to b = 1 - score of a row with y = 1, and rises with slope cost from
    b = -1 - score of a row with y = -1.
    """
    kinks = y - scores
    order = np.argsort(kinks, kind="stable")
    slope = np.cumsum(cost[order]) - cost[y > 0].sum()  # to the right of each kink
    flat = 1e-9 * cost.sum()
    first = int(np.argmax(slope >= -flat))
    last = int(np.argmax(slope > flat)) if slope[-1] > flat else len(slope) - 1
    return float(0.5 * (kinks[order[first]] + kinks[order[last]]))
