"""The SVM on labelled rows and unlabelled ones that have been given signs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from deepsep.solvers.newton import Solution, minimise
from deepsep.solvers.problem import Problem

Array = NDArray[Any]


@dataclass(frozen=True)
class FixedSigns:
    """Convex problems on the rows of one transductive problem, each with signs of its own for the unlabelled rows.

    Attributes
    ----------
    problem : Problem
        All rows count as labelled; a sign of 0 leaves a row out, for the constant price of its cost.
    n_labelled : int
        How many of them have a given label.
    """

    problem: Problem
    n_labeled: int

    @classmethod
    def of(cls, problem: Problem) -> FixedSigns:
        """Take the rows of a problem, and its constraint."""
        blocks = [problem.labeled, problem.unlabeled]
        together: Any = sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
        cost = np.concatenate([problem.cost_labeled, problem.cost_unlabeled])
        none = {"unlabeled": problem.unlabeled[:0], "cost_unlabeled": problem.cost_unlabeled[:0]}
        return cls(replace(problem, labeled=together, cost_labeled=cost, **none), problem.labeled.shape[0])

    def solve(self, y: Array, signs: Array, start: Array, *, factor: Array | None = None, **effort: Any) -> Solution:
        """Solve one problem for each row of signs.

        Parameters
        ----------
        y : array (l,)
            The given labels, -1 and 1.
        signs : array (p, u)
            Of the unlabelled rows.
        start : array (p, m) or (p, m + 1)
            Coefficients, with a free bias behind them.
        factor : array (u,), optional
            By which the costs of the unlabelled rows are multiplied.
        **effort
            Of :func:`deepsep.solvers.newton.minimise`.
        """
        problem = self.problem
        cost = problem.cost_labeled
        if factor is not None:
            cost = cost * np.concatenate([np.ones(self.n_labeled), factor])
        target = None if problem.target is None else np.repeat(problem.target, len(signs))
        given = np.hstack([np.repeat(y[None], len(signs), axis=0), signs]).astype(np.float64)
        return minimise(replace(problem, signs=given, cost_labeled=cost, target=target).rows(), start, **effort)
