"""Protocol of an array library for the pass over the rows, and its implementation for NumPy.

The arithmetic of a pass is written once, in operators and functions that NumPy and torch share. This protocol covers
what they do not share: storing rows and cutting them into chunks, exact sums over many rows, and transfers between host
and device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from deepsep.solvers.curvature import MAX_MATRIX_FEATURES, Factor, Factors, Matrices

Array = NDArray[Any]


class Curvature(Protocol):
    """Sums up the curvature of all problems, chunk by chunk; see :mod:`deepsep.solvers.curvature`."""

    def add(self, x: Any, cost: Any, alpha: Any) -> None:
        """Add some rows."""

    def result(self) -> list[Array] | list[Factor]:
        """Return the sums, one entry per problem."""


class ArrayLibrary(Protocol):
    """An array library and the device of its arrays."""

    xp: Any  # the module, with copysign, clip, where and other functions that NumPy and torch share

    def exactly(self) -> AbstractContextManager[Any]:
        """Return a context in which nothing is traced, and products have the full precision of their factors."""

    def precision(self, x: Any) -> Any:
        """Return the type in which rows are to be swept, ``xp.float32`` or ``xp.float64``."""

    def rows(self, x: Any, dtype: Any, ones: bool) -> Any:
        """Return the rows to store, without copying where possible; with ``ones``, a column of ones is appended."""

    def load(self, values: Any, dtype: Any = None) -> Any:
        """Return values, from the host or from the device, as an array of this type."""

    def send(self, *arrays: Array, dtype: Any = None) -> list[Any]:
        """Return small NumPy arrays as arrays of the library, all of one type and in one transfer."""

    def cast(self, x: Any, dtype: Any) -> Any:
        """Return an array as one of this type, without copying if it has the type already."""

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a new array."""

    def host(self, *arrays: Any) -> list[Array]:
        """Return arrays of one type as NumPy arrays, all in one transfer."""

    def places(self, n: int, c: int, m: int, dtype: Any) -> Iterator[slice]:
        """Yield slices of n rows of m features that c problems sweep at a time."""

    def scores(self, x: Any, w: Any, offset: Any) -> Any:
        """Return w x + offset for every row, (c, n), from w of shape (m, c) and offset of shape (c, 1)."""

    def multiply_add(self, a: Any, factor: Any, x: Any) -> Any:
        """Return a + factor x as a new array."""

    def products(self, a: Any, x: Any) -> Any:
        """Return a x, (c, m), to be added to sums of double precision, from a of shape (c, n)."""

    def totals(self, a: Any, cost: Any) -> Any:
        """Return a cost, (c,), to be added to sums of double precision."""

    def add_totals(self, sums: Any, terms: tuple[Any, ...], cost: Any) -> None:
        """Add the totals of each term to its row of sums."""

    def curvature(self, kappa: Any, m: int, centre: Array | None) -> Curvature:
        """Return an empty sum of the curvature."""


class NumpyArrays:
    """NumPy, with dense rows or CSR matrices."""

    xp = np

    def exactly(self) -> AbstractContextManager[Any]:
        """Return a context that changes nothing."""
        return nullcontext()

    def precision(self, x: Any) -> Any:
        """Return the type of the rows."""
        return x.dtype

    def rows(self, x: Any, dtype: Any, ones: bool) -> Any:
        """Return the rows themselves, or with a column of ones appended."""
        if not ones:
            return x
        column = np.ones((x.shape[0], 1), x.dtype)
        return sparse.hstack([x, column], format="csr") if sparse.issparse(x) else np.hstack([x, column])

    def load(self, values: Any, dtype: Any = None) -> Any:
        """Return a contiguous array."""
        return np.ascontiguousarray(values, dtype)

    def send(self, *arrays: Array, dtype: Any = None) -> list[Any]:
        """Return contiguous arrays."""
        return [self.load(array, dtype) for array in arrays]

    def cast(self, x: Any, dtype: Any) -> Any:
        """Return the array itself if it has the type."""
        return x.astype(dtype, copy=False)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a new array."""
        return np.zeros(shape, dtype)

    def host(self, *arrays: Any) -> list[Array]:
        """Return the arrays themselves."""
        return list(arrays)

    def places(self, n: int, c: int, m: int, dtype: Any) -> Iterator[slice]:
        """Yield chunks of at most 4,096 rows whose scores, 80 kB, fit into the cache and are reused by malloc."""
        size = max(256, min(4096, 80_000 // (c * np.dtype(dtype).itemsize)))
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))

    def scores(self, x: Any, w: Any, offset: Any) -> Any:
        """Return the scores by the faster of two products (the other is w'x')."""
        f = np.ascontiguousarray((x @ w).T)
        f += offset
        return f

    def multiply_add(self, a: Any, factor: Any, x: Any) -> Any:
        """Return the sum, rounded twice."""
        out = factor * x
        out += a
        return out

    def products(self, a: Any, x: Any) -> Any:
        """Return the product in the precision of its factors: a chunk has few rows."""
        return a @ x

    def totals(self, a: Any, cost: Any) -> Any:
        """Return the product in the precision of its factors."""
        return a @ cost

    def add_totals(self, sums: Any, terms: tuple[Any, ...], cost: Any) -> None:
        """Add one product after the other."""
        for row, term in zip(sums, terms, strict=True):
            row += term @ cost

    def curvature(self, kappa: Any, m: int, centre: Array | None) -> Curvature:
        """Return matrices; factors for many features or sparse rows."""
        return Factors(kappa, centre) if m > MAX_MATRIX_FEATURES or centre is not None else Matrices(kappa, m)
