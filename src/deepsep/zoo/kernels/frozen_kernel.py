"""A Gaussian process on an embedding that has been trained: it predicts, and a row gets the same bits in any company.

As in :mod:`deepsep.networks.frozen`, both factors of every matrix product lie on grids on which double precision holds
its sums exactly, whatever the order in which they are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from deepsep.networks.frozen import ROW_BITS, WEIGHT_BITS, rounded
from deepsep.networks.interface import Array

EMBEDDING_BITS = 22  # numbers from -1 to 1: products of two, summed over up to 500, have 53 bits
ROWS = 2_048  # at a time
LEAST_NOISE = 1e-8  # of a row of great weight, beside the variance: keeps rows with equal embeddings apart


@dataclass(frozen=True)
class FrozenKernel:
    """The posterior of a Gaussian process, given targets of some rows.

    Attributes
    ----------
    known : array (l, k)
        Embeddings of those rows, from -1 to 1, on a grid.
    coef : array (l, c)
        The inverse of the covariance of the targets, times the targets.
    inverse_root : array (l, l)
        The inverse of the covariance's lower triangle.
    length, variance, noise : float
        Of the kernel variance * exp(-|e - e'|² / 2 length²), and of the targets.
    """

    known: Array
    coef: Array
    inverse_root: Array
    length: float
    variance: float
    noise: float

    @classmethod
    def of(
        cls, known: Array, targets: Array, weight: Array, length: float, variance: float, noise: float
    ) -> FrozenKernel:
        """Condition on targets; a row of weight w stands for w rows, each with noise of its own."""
        known = on_steps(known)
        covariance = variance * _gaussian(known, known, length)
        covariance[np.diag_indices_from(covariance)] += np.maximum(noise / weight, LEAST_NOISE * variance)
        inverse_root = np.tril(solve_triangular(cholesky(covariance, lower=True), np.eye(len(known)), lower=True))
        return cls(known, inverse_root.T @ (inverse_root @ targets), inverse_root, length, variance, noise)

    def predict(self, embedding: Array) -> tuple[Array, Array]:
        """Return mean (n, c) and variance (n,) of the targets of new rows, noise included."""
        mean, variance = np.empty((len(embedding), self.coef.shape[1])), np.empty(len(embedding))
        for start in range(0, len(embedding), ROWS):
            part = slice(start, start + ROWS)
            k = _gaussian(on_steps(embedding[part]), self.known, self.length)
            k = rounded(k, np.array(-ROW_BITS))
            mean[part] = k @ self._on_grid[0]
            explained = np.square(k @ self._on_grid[1])
            # In blocks of rows and one column after the other: a sum along a row depends on how rows are stored.
            variance[part] = self.variance + self.noise - np.cumsum(explained, axis=1)[:, -1]
        return mean, np.maximum(variance, self.noise)

    def leave_one_out(self, targets: Array) -> tuple[Array, Array]:
        """Return mean (l, c) and variance (l,) of each row's target, noise included, given those of all others."""
        precision = np.square(self.inverse_root).sum(axis=0)
        return targets - self.coef / precision[:, None], 1 / precision

    @cached_property
    def _on_grid(self) -> tuple[Array, Array]:
        parts = self.variance * self.coef, self.variance * self.inverse_root.T
        _, exponents = zip(*(np.frexp(1.001 * np.abs(part).sum(axis=0)) for part in parts), strict=True)
        first, second = (rounded(part, e - WEIGHT_BITS) for part, e in zip(parts, exponents, strict=True))
        return first, second


def on_steps(embedding: Array) -> Array:
    """Return numbers from -1 to 1, rounded to the grid, as float64."""
    return rounded(embedding.astype(np.float64), np.array(-EMBEDDING_BITS))


def _gaussian(a: Array, b: Array, length: float) -> Array:
    square = np.square(a) @ np.ones((a.shape[1], 1)) + np.square(b).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(-0.5 / length**2 * np.maximum(square, 0)))
