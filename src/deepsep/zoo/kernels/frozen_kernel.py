"""A Gaussian process on a trained embedding, which gives a row the same bits in any batch.

As in :mod:`deepsep.networks.frozen`, both factors of every matrix product lie on grids on which sums are exact in
double precision, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from deepsep.networks.frozen import ROW_BITS, WEIGHT_BITS, rounded
from deepsep.networks.interface import Array


@dataclass(frozen=True)
class FrozenKernel:
    """Posterior of a Gaussian process, given the targets of some rows.

    Attributes
    ----------
    known : array (l, k)
        Embeddings of these rows, from -1 to 1, on a grid.
    coef : array (l, c)
        Inverse of the covariance of the targets, times the targets.
    inverse_root : array (l, l)
        Inverse of the covariance's lower triangle.
    length, variance, noise : float
        Parameters of the kernel variance * exp(-|e - e'|² / 2 length²), and noise of the targets.
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
        """Condition on targets; a row of weight w stands for w rows, each with its own noise."""
        known = on_steps(known)
        covariance = variance * _gaussian(known, known, length)
        # A floor on the noise of rows of great weight, so that rows with equal embeddings may differ.
        covariance[np.diag_indices_from(covariance)] += np.maximum(noise / weight, 1e-8 * variance)
        inverse_root = np.tril(solve_triangular(cholesky(covariance, lower=True), np.eye(len(known)), lower=True))
        return cls(known, inverse_root.T @ (inverse_root @ targets), inverse_root, length, variance, noise)

    def predict(self, embedding: Array, chunk: int = 2_048) -> tuple[Array, Array]:
        """Return mean (n, c) and variance (n,) of the targets of new rows, noise included."""
        mean, variance = np.empty((len(embedding), self.coef.shape[1])), np.empty(len(embedding))
        for start in range(0, len(embedding), chunk):
            part = slice(start, start + chunk)
            k = _gaussian(on_steps(embedding[part]), self.known, self.length)
            k = rounded(k, np.array(-ROW_BITS))
            mean[part] = k @ self._on_grid[0]
            explained = np.square(k @ self._on_grid[1])
            # One column after the other, since the bits of a sum along a row depend on how rows are stored.
            variance[part] = self.variance + self.noise - np.cumsum(explained, axis=1)[:, -1]
        return mean, np.maximum(variance, self.noise)

    def leave_one_out(self, targets: Array) -> tuple[Array, Array]:
        """Return mean (l, c) and variance (l,) of each row's target, noise included, given those of all other rows."""
        precision = np.square(self.inverse_root).sum(axis=0)
        return targets - self.coef / precision[:, None], 1 / precision

    @cached_property
    def _on_grid(self) -> tuple[Array, Array]:
        parts = self.variance * self.coef, self.variance * self.inverse_root.T
        _, exponents = zip(*(np.frexp(1.001 * np.abs(part).sum(axis=0)) for part in parts), strict=True)
        first, second = (rounded(part, e - WEIGHT_BITS) for part, e in zip(parts, exponents, strict=True))
        return first, second


def on_steps(embedding: Array) -> Array:
    """Return numbers from -1 to 1, rounded to the grid, as float64.

    The grid has 22 bits, so products of two numbers, summed over up to 500, have 53 bits.
    """
    return rounded(embedding.astype(np.float64), np.array(-22))


def _gaussian(a: Array, b: Array, length: float) -> Array:
    square = np.square(a) @ np.ones((a.shape[1], 1)) + np.square(b).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(-0.5 / length**2 * np.maximum(square, 0)))
