"""Semismooth Newton steps inside an augmented Lagrangian, all problems in lock-step.

Each problem k is ``minimise 1/2 |w_k|^2 + sum_i C_i loss(w_k . x_i + offset_k)`` (see :mod:`deepsep.solvers.rows`).
A sweep over the rows evaluates every problem at once, but each problem advances independently: one may take a Newton
step while another shortens a step or updates its multipliers, and a problem that is solved drops out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.sparse.linalg import LinearOperator, cg

from deepsep.solvers import Array
from deepsep.solvers.curvature import MAX_MATRIX_FEATURES, Factor
from deepsep.solvers.rows import Rows


@dataclass
class Solution:
    """Solution of each problem."""

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

    ``w`` and the solution have one row for every problem of ``rows``; other problems are left as they are. With
    ``aim`` < ``tol``, up to 30 more sweeps try to reach a gap of ``aim``, and the best point is returned.
    """
    w = np.array(w, dtype=np.float64)
    c, m = w.shape
    penalty = np.ones(m)
    if rows.free_bias:
        penalty[-1] = 0.0
    which = np.arange(c) if problems is None else problems
    ways = {int(k): _Descent(int(k), w[k], penalty, kappa, tol, tol if aim is None else min(aim, tol)) for k in which}
    # A group shares each sweep. Rows with many features gain nothing from it, and would hold a factor for each problem.
    groups = [list(ways.values())] if m <= MAX_MATRIX_FEATURES else [[way] for way in ways.values()]
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
            if not rows.double and n_sweeps >= 100:  # rounding slows down a problem that needs more
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
    """State of the descent of one problem, and the point at which to evaluate it next."""

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
        self._extra_sweeps = 30  # spent on `aim` once `tol` is reached
        self.best, self.objective, self.gap = self.point, np.inf, np.inf
        self.converged = self.done = False

    def advance(
        self, rows: Rows, pull: Array, slack: float, envelope: float, loss: float, curvature: Array | Factor
    ) -> None:
        """Use the sums at ``point`` to choose the next point."""
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
        if residual <= 2 * slack:  # solved as well as is useful with these multipliers: update them
            stiffest = np.inf if rows.double else 2.0**14  # 1 / kappa must stay above the rounding error of a score
            # Growth of kappa by 8 instead of 2 doubles the number of sweeps.
            self.commit, self.kappa = self.kappa, min(self.kappa * 2, max(stiffest, self.kappa))
        else:
            self._d = newton_direction(curvature, gradient, self.penalty)
            self._slope = float(gradient @ self._d)
            self._step, self._rejected = 1.0, 0
            self.point, self._trial = at + self._d, True

    def _improved(self, merit: float, residual: float, double: bool) -> bool:
        """Return whether the step lowered the merit or, where rounding hides that, the gradient."""
        rise = merit - self._merit - 1e-4 * self._step * self._slope  # Armijo's condition
        rounding = (1e-13 if double else 3e-8) * abs(merit)
        return rise <= rounding or (rise <= 50 * rounding and residual <= 0.25 * self._residual)

    def _judge(self, rows: Rows, gap: float, objective: float, ridge: float) -> None:
        """Keep the point if its gap is the smallest, and decide whether to stop."""
        # A gap of 1e-4 or more needs no certificate in double precision.
        if gap <= self._target * objective and self.tol < 1e-4 and (rows.free_bias or not rows.double):
            gap, loss = rows.certificate(self._w, self.kappa, self.problem)
            objective = ridge + loss
            if gap > self._target * objective:  # the gap looked small because of rounding, or of an unbalanced alpha
                if rows.double:
                    self._target *= 0.1
                else:
                    rows.promote()
        if gap / objective < self.gap:
            self.best, self.objective, self.gap = self._w, objective, gap / objective
        if self.converged:
            self._extra_sweeps -= 1
        elif self.gap <= self.tol:
            self.converged, self._target = True, self.aim
        self.done = self.converged and (self.gap <= self.aim or self._extra_sweeps <= 0)

    def _shorten(self, rows: Rows, slope: float) -> None:
        """Try a shorter step: first five secant steps, then a line search that tries 12 steps in one sweep."""
        self._rejected += 1
        if self._rejected <= 5:
            share = self._slope / (self._slope - slope) if slope > 0 else 0.5
            self._step *= min(max(share, 0.1), 0.9)
            self.point = self._w + self._step * self._d
            return
        n = 12
        steps = 0.5 * 4.0 ** -np.arange(n)
        for _ in range(2):
            points = self._w + steps[:, None] * self._d
            sums = rows.sweep(points, np.full(n, self.kappa), np.full(n, self.problem), curvature=False)
            merits = 0.5 * np.sum(self.penalty * points * points, axis=1) + sums.envelope
            best = int(np.argmin(merits))
            self.point, self._trial = points[best], False
            high = steps[best - 1] if best else 2 * steps[0]
            low = steps[best + 1] if best + 1 < n else 0.0
            steps = np.linspace(high, low, n + 2)[1:-1]
        if not rows.double and merits[best] >= self._merit:  # rounding hides the way down
            rows.promote()


def newton_direction(curvature: Array | Factor, gradient: Array, penalty: Array, *, direct: int = 3000) -> Array:
    """Solve (diag(penalty) + curvature) d = -gradient.

    The system is factorised in the features or in the rows near a kink, whichever are fewer, if these are at most
    ``direct``; otherwise it is solved by conjugate gradients.
    """
    ridge = penalty.copy()
    if penalty[-1] == 0:  # without a row near its kink, a free bias moves by 1, the width of a margin
        ridge[-1] = max(abs(gradient[-1]), 1e-12)
    if isinstance(curvature, np.ndarray):
        curvature.flat[:: len(ridge) + 1] += ridge
        return -_solve(curvature, gradient)
    j, m = curvature.x.shape
    if j == 0:
        return -gradient / ridge
    if j <= min(m, direct):  # Woodbury
        inner = curvature.gram(ridge)
        inner[np.diag_indices(j)] += 1
        right = gradient / ridge
        return -(right - curvature.transposed(_solve(inner, curvature.times(right))) / ridge)
    if m <= direct and curvature.centre is None:
        root = curvature.x * curvature.scale[:, None]
        return -_solve(root.T @ root + np.diag(ridge), gradient)
    matrix = LinearOperator((m, m), lambda v: ridge * v + curvature.transposed(curvature.times(v)), dtype=float)
    d, _ = cg(matrix, -gradient, rtol=1e-3, maxiter=200, M=LinearOperator((m, m), lambda v: v / ridge, dtype=float))
    return np.asarray(d)


def _solve(matrix: Array, right: Array) -> Array:
    """Solve a positive definite system by LAPACK, since for 32 unknowns SciPy's checks would take most of the time."""
    _, solution, failed = dposv(matrix, right, lower=1)
    return np.asarray(solution if not failed else np.linalg.lstsq(matrix, right)[0])
