"""The space in which rows are separated: the features themselves, or coordinates made from a kernel.

The solver knows only rows with a Euclidean inner product, centred on the weighted mean of the unlabelled ones. A space
makes such rows from X, and turns the solver's (w, b) back into a :class:`Separator` for the user's rows.

================  =========================================================================================
features          dense rows, centred
sparse features   sparse rows, centred without storing it; Newton systems by conjugate gradients
Gram              the exact kernel, or more features than rows: coordinates from a pivoted Cholesky factor of the
                  Gram matrix, at most one per row
Nyström           the kernel seen from at most 1,000 landmark rows
================  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from deepsep.errors import ParameterError
from deepsep.solvers import Array

Kernel = Callable[[Any, Any], Array]

EXACT_ROWS = 4_000  # a Gram matrix of this many rows takes 128 MB
N_LANDMARKS = 1_000
DENSE_ENTRIES = 20_000_000  # sparse rows with fewer entries than this are faster as dense ones


@dataclass(frozen=True)
class Separator:
    """Linear scores ``x . coef + intercept``, or ``kernel(x, support) . dual_coef + intercept``."""

    intercept: Array  # (c,)
    coef: Array | None = None  # (c, m)
    support: Any = None  # (j, m)
    dual_coef: Array | None = None  # (c, j)
    kernel: Kernel | None = None

    def scores(self, X: Any) -> Array:
        """Return the scores (n, c), a chunk of rows at a time."""
        out = np.empty((X.shape[0], len(self.intercept)))
        for rows in row_blocks(X.shape[0]):
            x = X[rows]
            if self.coef is not None:
                # In single precision the last digits of a row's score would depend on its place in the chunk.
                out[rows] = x.astype(np.float64, copy=False) @ self.coef.T
            else:
                assert self.kernel is not None
                assert self.dual_coef is not None
                out[rows] = self.kernel(x.astype(np.float64), self.support) @ self.dual_coef.T
        out += self.intercept
        return out


@dataclass(frozen=True)
class Space:
    """Rows for the solver, and the separator that its solution stands for."""

    name: str
    labeled: Any  # (l, m)
    unlabeled: Any  # (u, m)
    centre: Array | None  # (m,) still to be subtracted, where the rows are sparse
    separator: Callable[[Array, Array], Separator]  # from the solver's (w, b)


def open_space(labeled: Any, unlabeled: Any, weight: Array, kernel: Kernel | None, rng: np.random.Generator) -> Space:
    """Choose the space by kernel (None: the inner product of the features) and size; rows may be overwritten.

    ``weight`` are the weights of the unlabelled rows in their mean, and ``rng`` draws landmarks.
    """
    n, m = labeled.shape[0] + unlabeled.shape[0], labeled.shape[1]
    if kernel is not None:
        rows = _stack(labeled, unlabeled).astype(np.float64)  # in single precision a Gram matrix may be indefinite
        if n <= EXACT_ROWS:
            return _gram_space(rows, labeled.shape[0], weight, kernel)
        return _nystroem_space(rows, labeled.shape[0], weight, kernel, rng)
    if m > n and n <= EXACT_ROWS:
        return _gram_space(_stack(labeled, unlabeled), labeled.shape[0], weight, None)
    if not sparse.issparse(labeled):
        return _feature_space(labeled, unlabeled, weight)
    if n * m <= DENSE_ENTRIES:
        return _feature_space(labeled.toarray(), unlabeled.toarray(), weight)
    centre = _mean(labeled, unlabeled, weight)
    return Space("sparse features", labeled, unlabeled, centre, lambda w, b: Separator(b - w @ centre, coef=w))


def _feature_space(labeled: Array, unlabeled: Array, weight: Array) -> Space:
    centre = _mean(labeled, unlabeled, weight)
    for rows in (labeled, unlabeled):
        rows -= centre.astype(rows.dtype)
    exact_centre = centre.astype(labeled.dtype).astype(np.float64)
    return Space("features", labeled, unlabeled, None, lambda w, b: Separator(b - w @ exact_centre, coef=w))


def _gram_space(rows: Any, n_labeled: int, weight: Array, kernel: Kernel | None) -> Space:
    n = rows.shape[0]
    if kernel is not None:
        gram = np.array(kernel(rows, rows), dtype=np.float64)
    else:
        double = rows.astype(np.float64)
        if not sparse.issparse(rows):
            double -= double.mean(axis=0)  # far from the origin, inner products would drown the differences
        gram = double @ double.T
        gram = gram.toarray() if sparse.issparse(gram) else gram
    share = np.zeros(n)  # the mean of the unlabelled rows is a combination of rows
    share[n_labeled:] = weight / weight.sum() if weight.size else 0.0
    if not weight.size:
        share[:] = 1 / n
    to_mean = gram @ share
    mean_square = share @ to_mean
    coordinates, pivots, triangle = pivoted_cholesky(gram - to_mean[:, None] - to_mean + mean_square)

    def separator(w: Array, b: Array) -> Separator:
        on_rows = np.zeros((len(w), n))
        on_rows[:, pivots] = linalg.solve_triangular(triangle, w.T, lower=True, trans="T").T
        on_rows -= on_rows.sum(axis=1, keepdims=True) * share
        intercept = b - on_rows @ to_mean
        if kernel is None:
            coef = np.asarray((rows.T.astype(np.float64) @ on_rows.T).T)
            if not sparse.issparse(rows):
                intercept = intercept - coef @ rows.mean(axis=0, dtype=np.float64)
            return Separator(intercept, coef=coef)
        return Separator(intercept, support=rows, dual_coef=on_rows, kernel=kernel)

    return Space("Gram", coordinates[:n_labeled], coordinates[n_labeled:], None, separator)


def _nystroem_space(rows: Any, n_labeled: int, weight: Array, kernel: Kernel, rng: np.random.Generator) -> Space:
    n = rows.shape[0]
    landmarks = rows[draw_landmarks(n, n_labeled, N_LANDMARKS, rng)]
    _, pivots, triangle = pivoted_cholesky(np.array(kernel(landmarks, landmarks), dtype=np.float64))
    landmarks = landmarks[pivots]
    coordinates = np.empty((n, len(pivots)), np.float32)  # the map is the approximation, not its rounding
    for block in row_blocks(n):
        seen = kernel(rows[block], landmarks)
        coordinates[block] = linalg.solve_triangular(triangle, seen.T, lower=True).T
    inner = _feature_space(coordinates[:n_labeled], coordinates[n_labeled:], weight)

    def separator(w: Array, b: Array) -> Separator:
        intercept = inner.separator(w, b).intercept
        on_landmarks = linalg.solve_triangular(triangle, w.T, lower=True, trans="T").T
        return Separator(intercept, support=landmarks, dual_coef=on_landmarks, kernel=kernel)

    return Space("Nyström", inner.labeled, inner.unlabeled, None, separator)


def draw_landmarks(n: int, n_labeled: int, count: int, rng: np.random.Generator) -> Array:
    """Return the indices of landmarks among n > count rows, where the labelled ones come first."""
    # Labelled rows are what we know best, so they are up to half of the landmarks.
    from_labeled = rng.choice(n_labeled, min(n_labeled, count // 2), replace=False)
    others = np.setdiff1d(np.arange(n), from_labeled)
    chosen = np.concatenate([from_labeled, rng.choice(others, count - len(from_labeled), replace=False)])
    return np.sort(chosen)


def pivoted_cholesky(gram: Array) -> tuple[Array, Array, Array]:
    """Return coordinates Z with Z Z' = gram up to rounding, the pivot rows, and the triangle of Z in these rows."""
    packed, order, rank, _ = linalg.lapack.dpstrf(gram, lower=1)
    rank = max(int(rank), 1)
    order = order - 1
    lower = np.tril(packed)[:, :rank]
    coordinates = np.empty_like(lower)
    coordinates[order] = lower
    diagonal = gram.diagonal()
    if np.abs(diagonal - np.sum(coordinates**2, axis=1)).max() > 1e-6 * max(diagonal.max(), 0.0):
        raise ParameterError(
            "the kernel's matrix on the training rows is not positive semi-definite, even allowing for rounding. Scale "
            "the features (for example with StandardScaler), or pass a positive semi-definite kernel."
        )
    return coordinates, order[:rank], lower[:rank]


def row_blocks(n: int, size: int = 4_096) -> Iterator[slice]:
    """Yield slices that cut n rows into blocks."""
    return (slice(start, start + size) for start in range(0, n, size))


def _mean(labeled: Any, unlabeled: Any, weight: Array) -> Array:
    if not weight.size:
        return np.asarray(labeled.mean(axis=0, dtype=np.float64)).ravel()
    total = np.zeros(unlabeled.shape[1])
    for rows in row_blocks(unlabeled.shape[0]):
        total += weight[rows] @ unlabeled[rows].astype(np.float64)
    return np.asarray(total / weight.sum())


def _stack(labeled: Any, unlabeled: Any) -> Any:
    if sparse.issparse(labeled):
        return sparse.vstack([labeled, unlabeled], format="csr")
    return np.concatenate([labeled, unlabeled])
