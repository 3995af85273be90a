"""Semismooth Newton steps inside an augmented Lagrangian, all problems in lock-step.

Each problem k is ``minimise 1/2 |w_k|^2 + sum_i C_i loss(w_k . x_i + offset_k)`` (see :mod:`deepsep.solvers.rows`).
A sweep over the rows answers for every problem at once, but each problem goes its own way: one may take a Newton
step while its neighbour shortens a step or updates its multipliers, and a problem that is done drops out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv
from scipy.sparse.linalg import LinearOperator, cg

from deepsep.solvers.curvature import WIDE, Factor
from deepsep.solvers.rows import Rows

Array = NDArray[Any]

ARMIJO = 1e-4
LOOSE = 2.0  # multipliers are updated once the gradient adds no more than this to the gap
STIFFEN = 2.0  # growth of kappa with each update of the multipliers; 8 doubles the number of sweeps
SECANTS = 5  # guesses at a shorter step before a line search
SEARCH = 12  # steps tried in one sweep of a line search
DIRECT = 3000  # the largest Newton system that is factorised
SINGLE_SWEEPS = 100  # in single precision; whoever needs more is held up by rounding
SINGLE_STIFFEST = 2.0**14  # 1 / kappa must stay above the rounding error of a score
ROUGH = 1e-4  # a gap wanted no smaller than this needs no certificate in double precision
EXTRA_SWEEPS = 30  # spent on `aim` once `tol` is reached


@dataclass
class Solution:
    """Where each problem ended."""

    w: Array  # (c, m)
    objective: Array  # (c,)
    gap: Array  # (c,)   relative duality gap, certified in double precision where tol < 1e-4 was reached
    n_sweeps: int
    converged: Array  # (c,) of bool


def minimise(
    rows: Rows,
    w: Array,
    *,
    problems: Array | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 1000,
    kappa: float = 4.0,
    aim: float | None = None,
) -> Solution:
    """Minimise these problems (all of them by default) from the start ``w`` to a relative duality gap of ``tol``.

    ``w`` and what is returned have one row for every problem of ``rows``; other problems are left as they are. With
    ``aim`` < ``tol``, a few more sweeps are spent on a gap of ``aim``, and the best point is returned.
    """
    w = np.array(w, dtype=np.float64)
    c, m = w.shape
    penalty = np.ones(m)
    if rows.free_bias:
        penalty[-1] = 0.0
    which = np.arange(c) if problems is None else problems
    ways = {int(k): _Descent(int(k), w[k], penalty, kappa, tol, tol if aim is None else min(aim, tol)) for k in which}
    # A group shares each sweep. Rows with many features gain nothing from it, and would hold a factor for each problem.
    groups = [list(ways.values())] if m <= WIDE else [[way] for way in ways.values()]
    n_sweeps = 0
    for group in groups:
        for _ in range(max_sweeps):
            commit = np.array([way.commit for way in group])
            sums = rows.sweep(
                np.array([way.point for way in group]),
                np.array([way.kappa for way in group]),
                np.array([way.problem for way in group]),
                commit if commit.any() else None,
            )
            n_sweeps += 1
            if not rows.double and n_sweeps >= SINGLE_SWEEPS:
                rows.promote()
            for i, way in enumerate(group):
                way.advance(rows, sums.pull[i], sums.slack[i], sums.envelope[i], sums.loss[i], sums.curvature[i])
            group = [way for way in group if not way.done]
            if not group:
                break
    out = Solution(w, np.full(c, np.nan), np.full(c, np.nan), n_sweeps, np.ones(c, bool))
    for k, way in ways.items():
        out.w[k], out.objective[k], out.gap[k], out.converged[k] = way.best, way.objective, way.gap, way.converged
    return out


class _Descent:
    """One problem's way down: what it knows, and where it wants to be evaluated next."""

    def __init__(self, problem: int, w: Array, penalty: Array, kappa: float, tol: float, aim: float) -> None:
        self.problem, self.penalty = problem, penalty
        self.point = w.copy()  # evaluated in the next sweep
        self.kappa = kappa
        self.commit = 0.0  # if positive, multipliers are first set to alpha at `point` with this stiffness
        self.tol, self.aim = tol, aim
        self._target = tol
        self._trial = False  # whether `point` must still show a lower merit than w
        self._w, self._merit, self._residual = self.point, np.inf, np.inf
        self._d, self._slope = np.zeros_like(w), 0.0  # the Newton step, and the slope of the merit along it
        self._step, self._rejected = 1.0, 0  # the part of it that leads to `point`, and how often it was too long
        self._patience = EXTRA_SWEEPS
        self.best, self.objective, self.gap = self.point, np.inf, np.inf
        self.converged = self.done = False

    def advance(
        self, rows: Rows, pull: Array, slack: float, envelope: float, loss: float, curvature: Array | Factor
    ) -> None:
        """Take in the sums at ``point`` and choose the next one."""
        at, self.commit = self.point, 0.0
        ridge = 0.5 * float((self.penalty * at) @ at)
        merit = ridge + envelope
        gradient = self.penalty * at - pull
        residual = 0.5 * float((self.penalty * gradient) @ gradient)
        if rows.free_bias:
            residual += abs(float(gradient[-1]))
        if self._trial and not self._improved(merit, residual, rows.double):
            self._shorten(rows, float(gradient @ self._d))
            return
        self._w, self._merit, self._residual, self._trial = at, merit, residual, False
        self._judge(rows, slack + residual, ridge + loss, ridge)
        if self.done:
            return
        if residual <= LOOSE * slack:  # solved as well as these multipliers deserve
            stiffest = np.inf if rows.double else SINGLE_STIFFEST
            self.commit, self.kappa = self.kappa, min(self.kappa * STIFFEN, max(stiffest, self.kappa))
        else:
            self._d = newton_direction(curvature, gradient, self.penalty)
            self._slope = float(gradient @ self._d)
            self._step, self._rejected = 1.0, 0
            self.point, self._trial = at + self._d, True

    def _improved(self, merit: float, residual: float, double: bool) -> bool:
        """Whether the step lowered the merit; where rounding hides that, whether it lowered the gradient."""
        rise = merit - self._merit - ARMIJO * self._step * self._slope
        rounding = (1e-13 if double else 3e-8) * abs(merit)
        return rise <= rounding or (rise <= 50 * rounding and residual <= 0.25 * self._residual)

    def _judge(self, rows: Rows, gap: float, objective: float, ridge: float) -> None:
        """Keep the point if its gap is the smallest, and decide whether to stop."""
        if gap <= self._target * objective and self.tol < ROUGH and (rows.free_bias or not rows.double):
            gap, loss = rows.certificate(self._w, self.kappa, self.problem)
            objective = ridge + loss
            if gap > self._target * objective:  # what looked small was rounding, or an unbalanced alpha
                if rows.double:
                    self._target *= 0.1
                else:
                    rows.promote()
        if gap / objective < self.gap:
            self.best, self.objective, self.gap = self._w, objective, gap / objective
        if self.converged:
            self._patience -= 1
        elif self.gap <= self.tol:
            self.converged, self._target = True, self.aim
        self.done = self.converged and (self.gap <= self.aim or self._patience <= 0)

    def _shorten(self, rows: Rows, slope: float) -> None:
        """Try a shorter step: where the slope of the merit would vanish if it were linear, and then by search."""
        self._rejected += 1
        if self._rejected <= SECANTS:
            share = self._slope / (self._slope - slope) if slope > 0 else 0.5
            self._step *= min(max(share, 0.1), 0.9)
            self.point = self._w + self._step * self._d
            return
        steps = 0.5 * 4.0 ** -np.arange(SEARCH)
        for _ in range(2):
            points = self._w + steps[:, None] * self._d
            n = len(steps)
            sums = rows.sweep(points, np.full(n, self.kappa), np.full(n, self.problem), curvature=False)
            merits = 0.5 * np.sum(self.penalty * points * points, axis=1) + sums.envelope
            best = int(np.argmin(merits))
            self.point, self._trial = points[best], False
            high = steps[best - 1] if best else 2 * steps[0]
            low = steps[best + 1] if best + 1 < n else 0.0
            steps = np.linspace(high, low, SEARCH + 2)[1:-1]
        if not rows.double and merits[best] >= self._merit:  # rounding hides the way down
            rows.promote()


def newton_direction(curvature: Array | Factor, gradient: Array, penalty: Array) -> Array:
    """Solve (diag(penalty) + curvature) d = -gradient by whatever is smallest: features, rows near a kink, or CG."""
    ridge = penalty.copy()
    if penalty[-1] == 0:  # a free bias may have no row near its kink: then it moves by 1, the width of a margin
        ridge[-1] = max(abs(gradient[-1]), 1e-12)
    if isinstance(curvature, np.ndarray):
        curvature.flat[:: len(ridge) + 1] += ridge
        return -_solve(curvature, gradient)
    j, m = curvature.x.shape
    if j == 0:
        return -gradient / ridge
    if j <= min(m, DIRECT):  # Woodbury
        inner = curvature.gram(ridge)
        inner[np.diag_indices(j)] += 1
        right = gradient / ridge
        return -(right - curvature.transposed(_solve(inner, curvature.times(right))) / ridge)
    if m <= DIRECT and curvature.centre is None:
        root = curvature.x * curvature.scale[:, None]
        return -_solve(root.T @ root + np.diag(ridge), gradient)
    matrix = LinearOperator((m, m), lambda v: ridge * v + curvature.transposed(curvature.times(v)), dtype=float)
    d, _ = cg(matrix, -gradient, rtol=1e-3, maxiter=200, M=LinearOperator((m, m), lambda v: v / ridge, dtype=float))
    return np.asarray(d)


def _solve(matrix: Array, right: Array) -> Array:
    """Solve a positive definite system; LAPACK by hand, since for 32 unknowns most of the time would go into checks."""
    _, solution, failed = dposv(matrix, right, lower=1)
    return np.asarray(solution if not failed else np.linalg.lstsq(matrix, right)[0])
