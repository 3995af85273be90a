"""Kernel density of rows on their first principal components."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Density:
    """Sum of normal kernels on every row, in the space of the first principal components.

    The bandwidth is the candidate under which rows are most likely when each is left out in turn.

    Parameters
    ----------
    X : tensor (n, d)
        Rows, at least two.
    components : int
        Maximum number of principal components. In more than 10 dimensions a few hundred rows say little about density.
    bandwidths : sequence of float
        Candidates, in units of the mean deviation of a component.
    """

    def __init__(
        self,
        X: Tensor,
        *,
        components: int = 10,
        bandwidths: Sequence[float] = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0),
    ) -> None:
        self._mean = X.mean(0)
        axes = torch.linalg.svd((X - self._mean).double(), full_matrices=False)[2]
        self._axes = axes[:components].T.to(X.dtype)
        self._rows = (X - self._mean) @ self._axes
        spread = float(self._rows.double().square().mean().sqrt()) or 1.0
        squares = _square_distances(self._rows, self._rows)
        squares.fill_diagonal_(math.inf)  # a row does not count for itself
        likely = [self._log_density(squares, factor * spread, len(X) - 1) for factor in bandwidths]
        best = max(range(len(bandwidths)), key=lambda i: float(likely[i].double().mean()))
        self.bandwidth = bandwidths[best] * spread
        self.left_out = likely[best]  # the log-density of each row according to the others

    def log_density(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        squares = _square_distances((x - self._mean) @ self._axes, self._rows)
        return self._log_density(squares, self.bandwidth, len(self._rows))

    def _log_density(self, squares: Tensor, h: float, n: int) -> Tensor:
        constant = math.log(n) + self._rows.shape[1] * math.log(h * math.sqrt(2 * math.pi))
        total: Tensor = torch.logsumexp(-squares / (2 * h**2), 1) - constant
        return total


def _square_distances(a: Tensor, b: Tensor) -> Tensor:
    return (a.square().sum(1, keepdim=True) + b.square().sum(1) - 2 * a @ b.T).clamp_min(0)
