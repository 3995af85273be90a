"""The problem of the transductive SVM, and the result of solving it.

For each one-vs-rest problem, minimise

    J(w, b) = 1/2 |w|^2 + sum_labelled C_i H(y_i f(x_i)) + sum_unlabelled C*_i min(1 + s, H(|f(x_i)|))

with f(x) = w . x + b and H(z) = max(0, 1 - z); s = 0 is the loss of the paper, equation (1). Rows come centred on the
mean of the unlabelled rows, so the balancing constraint "mean of f over the unlabelled rows = r" is b = r.

Two paths lead from the supervised SVM to a point that an exact convex step cannot leave:
:func:`deepsep.solvers.cccp.cccp` and :func:`deepsep.solvers.single_loop.single_loop`. Other procedures of the
literature are in :mod:`deepsep.zoo.transductive`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deepsep.solvers import Array
from deepsep.solvers.rows import Rows


@dataclass(frozen=True)
class Problem:
    """One-vs-rest problems on shared rows, which are centred on the weighted mean of the unlabelled ones."""

    labeled: Any  # (l, m), dense or CSR
    signs: Array  # (c, l) of -1 and 1
    cost_labeled: Array  # (l,)  C_i
    unlabeled: Any  # (u, m)
    cost_unlabeled: Any  # (u,)  C*_i
    target: Array | None  # (c,)  r: the mean score over the unlabelled rows; None: a free bias
    s: float = 0.0
    centre: Array | None = None  # (m,)  still to be subtracted from the rows, which are sparse

    def rows(self) -> Rows:
        """Return the pass over the rows, with a column of ones if the bias is free."""
        return Rows(
            self.labeled,
            self.signs,
            self.cost_labeled,
            self.unlabeled,
            self.cost_unlabeled,
            offset=np.zeros(len(self.signs)) if self.target is None else self.target,
            free_bias=self.target is None,
            s=self.s,
            centre=self.centre,
        )

    def supervised(self) -> Problem:
        """Return the problem of the labelled rows alone, with a free bias."""
        return replace(self, unlabeled=self.unlabeled[:0], cost_unlabeled=self.cost_unlabeled[:0], target=None)

    def only(self, which: Array) -> Problem:
        """Return these of the one-vs-rest problems."""
        return replace(self, signs=self.signs[which], target=None if self.target is None else self.target[which])

    def labeled_scores(self, w: Array, b: Array) -> Array:
        """Return f of the labelled rows, (c, l), in double precision."""
        return replace(self.supervised(), target=b).rows().scores(w, labeled=True)

    def coefficients(self, at: Result) -> Array:
        """Return the coefficients for the pass: w, with a free bias appended."""
        return np.column_stack([at.w, at.b]) if self.target is None else at.w

    def result(self, w: Array, paths: list[list[float]], gap: Array, n_iter: int, converged: Array) -> Result:
        """Return the result with these coefficients."""
        if self.target is None:
            return Result(w[:, :-1], w[:, -1], paths, gap, n_iter, converged)
        return Result(w, np.array(self.target, dtype=np.float64), paths, gap, n_iter, converged)

    def unlabeled_scores(self, w: Array, b: Array) -> Array:
        """Return f of the unlabelled rows, (c, u)."""
        return replace(self, target=b).rows().scores(w, labeled=False)


@dataclass
class Result:
    """Result of a path; arrays have one entry per problem."""

    w: Array  # (c, m)
    b: Array  # (c,)
    objective_path: list[list[float]]  # J after every step, without the start
    gap: Array  # relative duality gap of the last convex problem
    n_iter: int
    converged: Array

    @classmethod
    def joined(cls, results: list[Result]) -> Result:
        """Return the results of several sets of problems as one."""
        arrays = {name: np.concatenate([getattr(r, name) for r in results]) for name in ("w", "b", "gap", "converged")}
        paths = [path for result in results for path in result.objective_path]
        return cls(objective_path=paths, n_iter=sum(result.n_iter for result in results), **arrays)

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
