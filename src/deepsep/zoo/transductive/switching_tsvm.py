"""SwitchingTSVM: Joachims' transductive SVM, which switches pairs of labels of unlabelled rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.declared_settings import settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.core.arrays import Array
from deepsep.solvers.one_vs_rest import Path
from deepsep.solvers.problem import Problem, Result
from deepsep.zoo.transductive.fixed_signs import FixedSigns


@settings
class SwitchingTSVM(LowDensitySVM):
    r"""Transductive SVM by label switching: unlabelled rows get labels, and pairs of them are switched.

    For each class against the rest it minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_{\text{labelled}} H(y_i f(x_i)) + C^* \sum_{\text{unlabelled}} H(y^*_i f(x_i)),

    over w, b and the labels :math:`y^*`, of which a fixed share is positive. The rows that the supervised SVM scores
    highest start as positive, and :math:`C^*` starts at 1e-5 and is doubled up to its value. Whenever a positive and a
    negative row together cost more than with switched labels, their labels are switched, and the SVM is trained again,
    until there is no such pair.

    It fixes the share of rows on the positive side of each boundary, where :class:`deepsep.TSVM` fixes the mean
    score. Right shares help; wrong ones do harm, since labels are taken from one class to fill another. Pass ``priors``
    if the shares of the population differ from those of the labels.

    Parameters
    ----------
    priors : dict {class: share}, optional
        Class shares in the population: of the rows labelled positive. None: those of the labelled rows.
        Probabilities are corrected for them, as in :class:`deepsep.TSVM`.
    max_iter : int, default=1000
        Maximum number of passes over the rows in one convex problem, and of convex problems for each class.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Objective after each training of the SVM with the final :math:`C^*`; it never rises.
    n_iter_ : int
        Number of SVMs that were trained.

    Notes
    -----
    Joachims switches one pair at a time; here all pairs that gain are switched before the SVM is trained again, which
    is much faster and ends when no pair gains either. A row has one label for any weight, so with unequal weights the
    share is only approximate.

    References
    ----------
    T. Joachims. Transductive inference for text classification using support vector machines. ICML 1999.

    V. Sindhwani, S. S. Keerthi. Large scale semi-supervised linear SVMs. SIGIR 2006 (several pairs at a time).
    """

    balance: ClassVar[bool] = True  # type: ignore[misc]  # not a setting: the share of positive labels is fixed
    method_name = "switching-tsvm"
    _ends: ClassVar = {"label switching": "no pair of labels is worth switching"}

    def _path(self, rng: np.random.Generator) -> Path:
        return label_switching


def label_switching(problem: Problem, start: Result, *, tol: float, max_iter: int, aim: float | None = None) -> Result:
    """Switch labels, starting from the supervised SVM, with a free bias; the share of positives is (1 + target) / 2."""
    assert problem.target is not None
    if not problem.cost_unlabeled.any():
        return start
    rows = FixedSigns.of(replace(problem, target=None))
    share = (1 + problem.target) / 2
    f = problem.unlabeled_scores(start.w, start.b)
    effort = {"tol": tol, "max_sweeps": max_iter, "aim": aim}
    ends = [
        _one_class(rows, problem.signs[k], f[k], share[k], np.append(start.w[k], start.b[k]), max_iter, effort)
        for k in range(len(f))
    ]
    return Result.joined(ends)


def _one_class(
    rows: FixedSigns, y: Array, f: Array, share: float, w: Array, max_iter: int, effort: dict[str, Any]
) -> Result:
    cost = rows.problem.cost_labeled[rows.n_labeled :]
    signs = highest(f, cost, share)
    n_positive = np.sum(signs > 0)
    negative = min(1.0, 1e-5 / cost.max())  # factors of C* for rows of each sign
    positive = min(1.0, negative * n_positive / max(len(f) - n_positive, 1))
    n_solved = 0
    while True:
        last = negative == positive == 1
        now = effort if last else {**effort, "tol": max(effort["tol"], 1e-3), "aim": None}
        path: list[float] = []
        while n_solved < max_iter:
            factor = np.where(signs > 0, positive, negative)
            solution = rows.solve(y, signs[None], w[None], factor=factor, **now)
            n_solved += 1
            if path and solution.objective[0] >= path[-1]:  # the gain is only rounding
                break
            w, gap, solved = solution.w[0], solution.gap, solution.converged
            path.append(float(solution.objective[0]))
            f = rows.problem.labeled_scores(w[None, :-1], w[-1:])[0, rows.n_labeled :]
            switched = switch_pairs(signs, f, cost, positive, negative)
            if np.array_equal(switched, signs):
                break
            signs = switched
        if last or n_solved >= max_iter:
            return Result(w[None, :-1], w[-1:], [path], gap, n_solved, solved & last)
        negative, positive = min(2 * negative, 1.0), min(2 * positive, 1.0)


def highest(f: Array, weight: Array, share: float) -> Array:
    """Return 1 for the rows with the highest scores, up to this share of the weight, and -1 for the others.

    Both signs occur if there are at least two rows.
    """
    order = np.argsort(-f, kind="stable")
    before = np.cumsum(weight[order]) - 0.5 * weight[order]
    n_positive = int(np.searchsorted(before, share * weight.sum()))
    n_positive = int(np.clip(n_positive, min(1, len(f) - 1), max(len(f) - 1, 1)))
    signs = np.full(len(f), -1.0)
    signs[order[:n_positive]] = 1.0
    return signs


def switch_pairs(signs: Array, f: Array, cost: Array, positive: float, negative: float) -> Array:
    """Return the signs after switching all pairs whose slacks are positive and add up to more than 2.

    Pairs do not share rows, and those with the largest slacks come first. Each pair lowers the objective, so all of
    them together do. If rows have different costs, this is checked for each pair.
    """
    slack = np.maximum(1 - signs * f, 0)
    order = np.argsort(-slack, kind="stable")
    up, down = order[signs[order] > 0], order[signs[order] < 0]
    n = min(len(up), len(down))
    up, down = up[:n], down[:n]
    other = np.maximum(2 - slack, 0)
    gain = cost[up] * (positive * slack[up] - negative * other[up])
    gain += cost[down] * (negative * slack[down] - positive * other[down])
    worth = (slack[up] > 0) & (slack[down] > 0) & (slack[up] + slack[down] > 2) & (gain > 0)
    switched = signs.copy()
    switched[up[worth]], switched[down[worth]] = -1.0, 1.0
    return switched
