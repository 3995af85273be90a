"""Features from inducing points whose inner products approximate a kernel, and the variance that they miss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import solve_triangular

from deepsep.core.arrays import Array
from deepsep.solvers.spaces import Kernel, pivoted_cholesky, row_blocks


@dataclass(frozen=True)
class InducingFeatures:
    """Features z(x) for which z(x) · z(x') is the part of the kernel that the inducing points explain.

    Attributes
    ----------
    points : array (m, d)
        Inducing points.
    triangle : array (m, m)
        Cholesky factor of their kernel.
    centre : array (m,)
        Subtracted from the features.
    variance : float
        Factor of the kernel, k(x, x) for all x.
    kernel : callable
        A kernel with k(x, x) = 1.
    """

    points: Array
    triangle: Array
    centre: Array
    variance: float
    kernel: Kernel

    @classmethod
    def of(cls, points: Array, variance: float, kernel: Kernel) -> Self:
        """Return the features of these points, without points that others explain."""
        _, pivots, triangle = pivoted_cholesky(np.array(kernel(points, points), dtype=np.float64))
        return cls(points[pivots], triangle, np.zeros(len(pivots)), variance, kernel)

    def centred(self, Z: Array, weight: Array) -> Self:
        """Return features shifted to a mean of 0 over these rows."""
        return replace(self, centre=self.centre + weight @ Z / weight.sum())

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return the features of rows (n, m), and the variance that they miss (n,)."""
        Z, residual = np.empty((len(X), len(self.points))), np.empty(len(X))
        for part in row_blocks(len(X)):
            seen = self.kernel(X[part].astype(np.float64), self.points)
            Z[part] = solve_triangular(self.triangle, seen.T, lower=True).T
            residual[part] = self.variance * np.maximum(0.0, 1 - np.square(Z[part]).sum(axis=1))
        return np.sqrt(self.variance) * Z - self.centre, residual
