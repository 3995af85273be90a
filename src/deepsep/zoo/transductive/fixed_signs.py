"""SVMs on labelled rows and on unlabelled ones with fixed signs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from deepsep.core.arrays import Array
from deepsep.solvers.newton import Solution, minimise
from deepsep.solvers.problem import Problem


@dataclass(frozen=True)
class FixedSigns:
    """Convex problems on the rows of one transductive problem, each with its own signs of the unlabelled rows."""

    problem: Problem  # all rows count as labelled; a row of sign 0 adds only the constant of its cost
    n_labeled: int  # rows with a given label

    @classmethod
    def of(cls, problem: Problem) -> FixedSigns:
        """Return the problems on the rows of a transductive problem, with its constraint."""
        blocks = [problem.labeled, problem.unlabeled]
        together: Any = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
        cost = np.concatenate([problem.cost_labeled, problem.cost_unlabeled])
        none = {"unlabeled": problem.unlabeled[:0], "cost_unlabeled": problem.cost_unlabeled[:0]}
        return cls(replace(problem, labeled=together, cost_labeled=cost, **none), problem.labeled.shape[0])

    def solve(self, y: Array, signs: Array, start: Array, *, factor: Array | None = None, **effort: Any) -> Solution:
        """Solve one problem for each row of signs (p, u), from coefficients (p, m) that a free bias may follow.

        ``factor`` (u,) multiplies the costs of the unlabelled rows.
        """
        problem = self.problem
        cost = problem.cost_labeled
        if factor is not None:
            cost = cost * np.concatenate([np.ones(self.n_labeled), factor])
        target = None if problem.target is None else np.repeat(problem.target, len(signs))
        given = np.hstack([np.repeat(y[None], len(signs), axis=0), signs]).astype(np.float64)
        return minimise(replace(problem, signs=given, cost_labeled=cost, target=target).rows(), start, **effort)
