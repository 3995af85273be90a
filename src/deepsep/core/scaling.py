"""Scale features to mean 0 and variance 1, and before that columns of extreme size by an exact power of two.

Squares of 1e200 overflow, those of 1e-200 vanish, single precision ends at 1e38, and trees ignore differences below
1e-7. Every method would need its own guard. Instead such columns are divided by a power of two as rows are read,
which changes no digit; columns of ordinary size are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from deepsep.core.arrays import Array, checked_array
from deepsep.errors import DataError


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
        for rows in gen_batches(len(X), 4_096):
            sums += weight[rows] @ function(X[rows].astype(np.float64))
        return np.asarray(sums / weight.sum())

    def apply(self, X: Array) -> Array:
        """Return the scaled rows as float32."""
        out = np.empty(X.shape, np.float32)
        for rows in gen_batches(len(X), 4_096):
            out[rows] = (X[rows] - self.centre) / self.scale
        return out


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


MAX_MAGNITUDE = 2.0**55  # beyond which a value of a new row makes no difference


def find_exponents(X: Any, names: Any = None, *, together: bool = False) -> Array | None:
    """Return for each column the exponent of the power of two by which it is divided; None if none needs it.

    With ``together`` all columns get the same one, for methods to which their sizes relative to each other matter. A
    single value compared with which all other rows would be alike is a DataError, which names the column.
    """
    low, high = 2.0**-20, 2.0**50  # largest value of an ordinary column: about 1e-6 to 1e15
    largest = np.maximum(_dense(X.max(axis=0)), -_dense(X.min(axis=0))).astype(np.float64)
    for column in np.flatnonzero(largest > high):
        _check_column(X, int(column), names)
    if together:
        size = largest.max()
        if size == 0 or low <= size <= high:
            return None
        exponents = np.full(len(largest), np.frexp(size)[1], np.int32)
        spread = _deviation(divide(X, exponents)).max()
        return exponents + (np.frexp(spread)[1] if spread > low else 0)
    extreme = np.flatnonzero((largest > 0) & ((largest < low) | (largest > high)))
    if not extreme.size:
        return None
    exponents = np.zeros(len(largest), np.int32)
    exponents[extreme] = np.frexp(largest[extreme])[1]
    deviation = _deviation(divide(X[:, extreme], exponents[extreme]))
    exponents[extreme] += np.frexp(np.where(deviation > low, deviation, 1.0))[1]
    return exponents


@np.errstate(over="ignore", under="ignore")  # new rows may be of any size, and are bounded
def divide(X: Any, exponents: Array | None) -> Any:
    """Return the rows with each column divided by 2 to the power of its exponent."""
    if exponents is None:
        return X
    if not sparse.issparse(X):
        return np.ldexp(X, -exponents)
    scaled = X.copy()
    scaled.data = np.ldexp(X.data, -exponents[X.indices])
    return scaled


def bound(X: Any) -> Any:
    """Return rows in which no value is so large that computing with it would overflow."""
    values = X.data if sparse.issparse(X) else X
    if not values.size or max(values.max(), -values.min()) <= MAX_MAGNITUDE:
        return X
    if not sparse.issparse(X):
        return np.clip(X, -MAX_MAGNITUDE, MAX_MAGNITUDE)
    bounded = X.copy()
    bounded.data = np.clip(X.data, -MAX_MAGNITUDE, MAX_MAGNITUDE)
    return bounded


def _deviation(X: Any) -> Array:
    if not sparse.issparse(X):
        return np.asarray(X.std(axis=0, dtype=np.float64))
    mean, square = (np.asarray(values.mean(axis=0), np.float64).ravel() for values in (X, X.multiply(X)))
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0)))


def _dense(values: Any) -> Array:
    return values.toarray().ravel() if sparse.issparse(values) else np.asarray(values)


def _check_column(X: Any, column: int, names: Any) -> None:
    """Raise if the largest value of the column is out of all proportion to its median, and so a mistake."""
    values = np.abs(X[:, [column]].toarray().ravel() if sparse.issparse(X) else X[:, column]).astype(np.float64)
    given = np.sort(values[values > 0])
    typical, row = given[(len(given) - 1) // 2], int(values.argmax())
    if values[row] / 2.0**60 > typical:
        where = f"column {column}" if names is None else f"column {names[column]!r}"
        raise DataError(
            f"{where} has {values[row]:.3g} in row {row}, but usually values such as {typical:.3g}: compared with it, "
            "all other rows would look alike. Correct the value, or leave out the row."
        )
