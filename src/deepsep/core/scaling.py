"""Scale features to mean 0 and variance 1, with row weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deepsep.core.arrays import checked_array

Array = NDArray[Any]


@dataclass(frozen=True)
class Scaling:
    """Centre and scale of each feature: rows become (x - centre) / scale."""

    centre: Array  # (d,)
    scale: Array  # (d,)

    @classmethod
    def none(cls, d: int) -> Self:
        """Return the scaling that changes nothing."""
        return cls(np.zeros(d), np.ones(d))

    @classmethod
    def of(cls, X: Array, weight: Array) -> Self:
        """Return the scaling by weighted mean and standard deviation; constant features keep scale 1."""
        centre = cls._mean(X, weight, lambda x: x)
        deviation = np.sqrt(cls._mean(X, weight, lambda x: np.square(x - centre)))
        varies = deviation > 1e-14 * np.abs(centre)  # relative: a feature may be tiny and still matter
        return cls(centre, np.where(varies, deviation, 1.0))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], d: int) -> Self:
        """Return the scaling of d features whose ``vars`` are among the arrays of a file, or raise."""
        return cls(*(checked_array(arrays, name, (d,), "f") for name in ("centre", "scale")))

    @staticmethod
    def _mean(X: Array, weight: Array, function: Any) -> Array:
        sums = np.zeros(X.shape[1])
        for rows in _blocks(len(X)):
            sums += weight[rows] @ function(X[rows].astype(np.float64))
        return np.asarray(sums / weight.sum())

    def apply(self, X: Array) -> Array:
        """Return the scaled rows as float32."""
        out = np.empty(X.shape, np.float32)
        for rows in _blocks(len(X)):
            out[rows] = (X[rows] - self.centre) / self.scale
        return out


def _blocks(n: int, size: int = 4_096) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]


class ScaledRows:
    """Rows of a table that are scaled on access, so that the table is never copied."""

    rows_on_demand = True

    def __init__(self, X: Array, scaling: Scaling, index: Array) -> None:
        self._X, self._index = X, index
        self._centre, self._factor = scaling.centre.astype(X.dtype), (1 / scaling.scale).astype(X.dtype)
        self.shape = (len(index), X.shape[1])
        self.ndim = 2

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, at: Any) -> Array:
        rows = self._X[self._index[at]] - self._centre
        rows *= self._factor
        return np.asarray(rows, dtype=np.float32)
