"""Li and Zhou's S4VM: the safest labels if any of several boundaries through low density may be right.

Each boundary predicts labels of the unlabelled rows, sigma_t; the supervised SVM predicts others, s. If sigma_t were
right, labels y would gain the rows where y = sigma_t ≠ s and lose those where y ≠ sigma_t = s. The labels that are best
in the worst case,

    max over y in [-1, 1]^u of min over t of gain_t(y) - risk * loss_t(y),

are the solution of a linear program. y = s has the value 0, so the best ones never have less.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linprog

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.core.arrays import Array
from deepsep.solvers.one_vs_rest import Path
from deepsep.solvers.problem import Problem, Result
from deepsep.solvers.single_loop import single_loop
from deepsep.zoo.transductive.fixed_signs import FixedSigns


def safe_labels(
    problem: Problem,
    start: Result,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    aim: float | None = None,
    n_starts: int,
    n_boundaries: int,
    risk: float,
) -> Result:
    """Return the SVM on the labelled rows and the safest labels of the others; if these equal s, the start."""
    if not problem.cost_unlabeled.any():
        return start
    rows = FixedSigns.of(replace(problem, target=None))
    weight = problem.cost_unlabeled
    s = np.where(problem.unlabeled_scores(start.w, start.b) < 0, -1.0, 1.0)
    ends = []
    for k in range(len(start.w)):
        which = np.array([k])
        one, supervised = problem.only(which), start.only(which)
        signs = diverse_boundaries(one, supervised, n_starts, n_boundaries, max_iter, rng)
        y = safest(s[k], signs, weight, risk)
        if np.array_equal(y, s[k]):
            ends.append(supervised)
            continue
        begin = np.append(start.w[k], start.b[k])[None]
        solution = rows.solve(problem.signs[k], y[None], begin, tol=tol, max_sweeps=max_iter, aim=aim)
        path = [[float(solution.objective[0])]]
        w = solution.w
        ends.append(Result(w[:, :-1], w[:, -1], path, solution.gap, solution.n_sweeps, solution.converged))
    return Result.joined(ends)


def diverse_boundaries(
    problem: Problem, start: Result, n_starts: int, n_boundaries: int, max_iter: int, rng: np.random.Generator
) -> Array:
    """Return signs (n, u) of the unlabelled rows by a few different boundaries.

    Starts are the supervised SVM and random directions in which the rows spread. The local minima are clustered by
    their signs, and the lowest one of each cluster is taken.
    """
    u = problem.unlabeled.shape[0]
    random = np.asarray((problem.unlabeled.T @ rng.standard_normal((u, n_starts - 1))).T, dtype=np.float64)
    if problem.centre is not None:  # rows are not centred, and random sums must not depend on their mean
        random -= random.mean(axis=0)
    w = np.vstack([start.w, random])
    b = np.full(n_starts, start.b[0])
    many = problem.only(np.zeros(n_starts, int))
    spread = many.unlabeled_scores(w, np.zeros(n_starts)).std(axis=1)
    w[1:] /= np.maximum(spread[1:, None], np.finfo(float).tiny)
    begin = Result(w, b, [[] for _ in w], np.zeros(n_starts), 0, np.zeros(n_starts, bool))
    found = single_loop(many, begin, tol=1e-3, max_iter=max_iter)  # only the signs are needed
    signs = np.where(many.unlabeled_scores(found.w, found.b) < 0, -1, 1).astype(np.int8)
    objective = np.array([path[-1] for path in found.objective_path])
    if n_starts == 1:
        return signs
    some = signs[:, :: max(1, u // 5_000)]
    cluster = fcluster(linkage(some, "average", "hamming"), n_boundaries, "maxclust")
    lowest = [min(np.flatnonzero(cluster == label), key=lambda i: objective[i]) for label in np.unique(cluster)]
    return signs[lowest]


def safest(s: Array, signs: Array, weight: Array, risk: float) -> Array:
    """Return labels (u,) with the largest gain over the labels s, minus risk times the loss, in the worst case.

    Rows with the same pattern of labels are one variable of the linear program. Rows whose solution is between -1 and 1
    keep s; all rows do if the rounded labels could lose.
    """
    patterns, of = np.unique(np.vstack([s, signs]).T.astype(np.int8), axis=0, return_inverse=True)
    patterns = patterns.astype(np.float64)
    mass = np.bincount(of.ravel(), weights=weight) / weight.sum()
    s, sigma = patterns[:, 0], patterns[:, 1:].T
    # gain_t - risk loss_t = sum mass [(1 + y σ)(1 - s σ) - risk (1 - y σ)(1 + s σ)] / 4, with σ² = 1
    slope = mass * ((1 + risk) * sigma + (risk - 1) * s) / 4
    constant = (mass * ((1 - s * sigma) - risk * (1 + s * sigma)) / 4).sum(axis=1)
    n = len(s)
    best = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-slope, np.ones((len(sigma), 1))]),
        b_ub=constant,
        bounds=[(-1, 1)] * n + [(None, None)],
    )
    y = np.where(np.abs(best.x[:n]) > 1 - 1e-9, np.sign(best.x[:n]), s)
    if (slope @ y + constant).min() < -1e-12:
        y = s
    return np.asarray(y[of.ravel()])


@settings
class S4VM(LowDensitySVM):
    r"""Safe semi-supervised SVM: several boundaries through low density, and the labels that risk least.

    There are often several boundaries through low density, and the wrong one is worse than no unlabelled rows at all. A
    TSVM takes one. S4VM finds several, from random starts, and keeps a few that differ. Then it chooses labels of the
    unlabelled rows with the largest gain over the supervised SVM in the worst case, over which of these boundaries is
    the right one. The gain is the number of rows that become right, minus ``risk`` times those that become wrong.
    Finally the SVM is trained on these labels too, at the cost :math:`C^*`, to have a boundary for new rows.

    If the right boundary is among those found, the labels are at least as good as those of the supervised SVM. There is
    no such guarantee otherwise, nor for more than two classes, where each has its own boundary against the rest, nor
    for rows on which the last SVM departs from its labels.

    Parameters
    ----------
    n_starts : int, default=50
        Number of starts: the supervised SVM and random directions.
    n_boundaries : int, default=10
        Number of boundaries that are kept.
    risk : float, default=3.0
        Number of rows that must become right to make up for one that becomes wrong.
    random_state : int, RandomState or None, default=None
        Draws the starts, and everything that :class:`deepsep.TSVM` draws.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Objective of the last SVM.

    Notes
    -----
    Li and Zhou start from random labels and alternate between labels and SVM; here the starts are random directions,
    and all are followed together by the single loop of :class:`deepsep.TSVM`. Their boundaries satisfy a constraint on
    labels, and these the one on the mean score.

    References
    ----------
    Y.-F. Li, Z.-H. Zhou. Towards making unlabeled data never hurt. IEEE Transactions on Pattern Analysis and Machine
    Intelligence 37, 2015; first in ICML 2011.
    """

    method_name = "s4vm"
    _ends: ClassVar = {"safe labels": "optimum of the SVM on the safest labels"}

    n_starts: int = integer(50, 1)
    n_boundaries: int = integer(10, 1)
    risk: float = real(3.0, at_least=0)

    def _path(self, rng: np.random.Generator) -> Path:
        starts, kept = int(self.n_starts), int(self.n_boundaries)
        return partial(safe_labels, rng=rng, n_starts=starts, n_boundaries=kept, risk=float(self.risk))
