"""Support vector machines on labelled rows, for kernels that depend on the unlabelled ones."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from deepsep.core.arrays import Array
from deepsep.core.probability import fit_platt, platt_probabilities
from deepsep.evaluation.folds import deal_distinct


class Machines(NamedTuple):
    """Support vector machines, one class against the rest, with Platt's sigmoid of their scores."""

    coef: Array  # (l, c): scores are K coef + intercept, K of the labelled rows
    intercept: Array  # (c,)
    platt: tuple[float, float]

    @classmethod
    def of(cls, K: Array, X: Array, codes: Array, C: float, rng: np.random.Generator) -> Machines:
        """Fit machines to the kernel of the labelled rows X, and the sigmoid to scores of rows held out in five folds.

        Equal rows of X are in the same fold.
        """
        coef, intercept = one_vs_rest(K, codes, C)
        held, scores = [np.empty(0, int)], [np.empty((0, len(intercept)))]
        for test in deal_distinct(X, codes, 5, rng).tests:
            rest = np.setdiff1d(np.arange(len(codes)), test)
            if len(np.unique(codes[rest])) == len(intercept):
                a, b = one_vs_rest(K[np.ix_(rest, rest)], codes[rest], C)
                held.append(test)
                scores.append(K[np.ix_(test, rest)] @ a + b)
        unseen, f = np.concatenate(held), np.concatenate(scores)
        if not unseen.size:
            unseen, f = np.arange(len(codes)), K @ coef + intercept
        return cls(coef, intercept, fit_platt(f, codes[unseen], np.ones(len(unseen))))

    def probabilities(self, K: Array) -> Array:
        """Return class distributions of rows, given their kernel (n, l) with the labelled rows."""
        return platt_probabilities(K @ self.coef + self.intercept, *self.platt)


def one_vs_rest(K: Array, codes: Array, C: float, *, max_steps: int = 1_000_000) -> tuple[Array, Array]:
    """Return the coefficients (l, c) and offsets (c,) of a support vector machine for each class."""
    c = int(codes.max()) + 1
    coef, intercept = np.zeros((len(codes), c)), np.zeros(c)
    for k in range(1, 2) if c == 2 else range(c):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # libsvm keeps the kernel in single precision, so a smaller tolerance is not reached. Shrinking may never
            # end if rounding hides the tolerance.
            settings = {"tol": 1e-5, "max_iter": max_steps, "shrinking": False, "random_state": 0}
            machine = SVC(kernel="precomputed", C=C, **settings).fit(K, codes == k)
        coef[machine.support_, k] = machine.dual_coef_[0]
        intercept[k] = machine.intercept_[0]
        if machine.n_iter_[0] >= max_steps:
            _check_gap(K, np.where(codes == k, 1, -1), coef[:, k], intercept[k], C, max_steps)
    if c == 2:
        coef[:, 0], intercept[0] = -coef[:, 1], -intercept[1]
    return coef, intercept


def _check_gap(K: Array, sign: Array, coef: Array, intercept: float, C: float, steps: int) -> None:
    """Warn if a machine that has not reached its tolerance is far from the minimum."""
    scores = K @ coef
    length, slack = coef @ scores, np.maximum(0, 1 - sign * (scores + intercept)).sum()
    gap = (length + C * slack - np.abs(coef).sum()) / (length / 2 + C * slack)
    if gap > 1e-3:
        warnings.warn(
            f"a support vector machine stopped after {steps:,} steps with a relative duality gap of {gap:.1g}. "
            "Take a smaller C.",
            ConvergenceWarning,
            stacklevel=2,
        )


def leading_eigenvectors(S: sparse.csr_array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the largest eigenvalues of a symmetric matrix, largest first, and their vectors, as columns."""
    n = S.shape[0]
    if n <= max(400, 3 * count):  # faster than an iterative search
        value, vector = eigh(S.toarray(), subset_by_index=(max(0, n - count), n - 1))
    else:
        value, vector = eigsh(S, k=count, which="LA", v0=rng.normal(size=n), tol=1e-8, ncv=max(2 * count + 1, 40))
        order = np.argsort(value)
        value, vector = value[order], vector[:, order]
    return value[::-1], vector[:, ::-1]
