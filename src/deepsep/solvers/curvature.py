"""The curvature of the losses at a point, which the Newton method needs in addition to sums.

For each problem it is the sum of kappa C x x' over the rows near their kink, 0 < alpha < 1: a matrix, or for many
features a factor of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from deepsep.solvers import Array

MAX_MATRIX_FEATURES = 256  # above this many features, the curvature is returned as a factor, not as a matrix


@dataclass
class Factor:
    """The curvature R'R of rows with many features, kept as R = diag(scale) (x - centre)."""

    x: Any  # (j, m) dense or CSR
    scale: Array  # (j,)
    centre: Array | None  # (m,)

    def times(self, v: Array) -> Array:
        """Return R v."""
        shift = 0.0 if self.centre is None else self.centre @ v
        product: Array = self.scale * (self.x @ v - shift)
        return product

    def transposed(self, v: Array) -> Array:
        """Return R'v."""
        scaled = self.scale * v
        product: Array = self.x.T @ scaled
        return product if self.centre is None else product - scaled.sum() * self.centre

    def gram(self, ridge: Array) -> Array:
        """Return R diag(1 / ridge) R'."""
        divided = self.x @ sparse.diags_array(1 / ridge) if sparse.issparse(self.x) else self.x / ridge
        inner = divided @ self.x.T
        if sparse.issparse(inner):
            inner = inner.toarray()
        if self.centre is not None:
            shift = divided @ self.centre
            inner = inner - shift[:, None] - shift + self.centre @ (self.centre / ridge)
        product: Array = self.scale[:, None] * inner * self.scale
        return product


class Matrices:
    """The curvature as matrices, summed up chunk by chunk."""

    def __init__(self, kappa: Array, m: int) -> None:
        self._kappa = kappa
        self._sums = np.zeros((len(kappa), m, m))

    def add(self, x: Array, cost: Array, alpha: Array) -> None:
        """Add some rows."""
        for total, (rows, scale) in zip(self._sums, _near(self._kappa, cost, alpha), strict=True):
            if rows.size:
                root = x[rows]
                root *= scale[:, None]
                total += root.T @ root  # NumPy sees that it is symmetric and does half the work

    def result(self) -> list[Array]:
        """Return a matrix (m, m) for each problem."""
        return list(self._sums)


class Factors:
    """The curvature as factors, from dense or sparse rows."""

    def __init__(self, kappa: Array, centre: Array | None) -> None:
        self._kappa, self._centre = kappa, centre
        self._parts: list[list[tuple[Any, Array]]] = [[] for _ in kappa]

    def add(self, x: Any, cost: Array, alpha: Array) -> None:
        """Add some rows."""
        for parts, (rows, scale) in zip(self._parts, _near(self._kappa, cost, alpha), strict=True):
            parts.append((x[rows], scale))

    def result(self) -> list[Factor]:
        """Return a factor for each problem."""
        return [self._factor(parts) for parts in self._parts]

    def _factor(self, parts: list[tuple[Any, Array]]) -> Factor:
        stack = sparse.vstack if sparse.issparse(parts[0][0]) else np.concatenate
        x = stack([x for x, _ in parts])
        return Factor(x, np.concatenate([scale for _, scale in parts]), self._centre)


def _near(kappa: Array, cost: Array, alpha: Array) -> Any:
    """Yield, for each problem, the rows near their kink and the root of their curvature."""
    inside = (alpha > 0) & (alpha < 1)
    for i in range(len(alpha)):
        rows = inside[i].nonzero()[0]
        yield rows, np.sqrt(kappa[i] * cost[rows])
