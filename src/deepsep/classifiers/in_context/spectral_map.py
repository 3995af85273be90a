"""Spectral coordinates: the slowest random walks on a graph of nearest neighbours, and their extension to new rows.

Rows that many short steps connect have nearly the same coordinates, whether they are labelled or not. A graph of n rows
with k neighbours each takes memory for n k numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from deepsep import networks
from deepsep.core.arrays import Array, checked_array
from deepsep.errors import DataError, ModelFileError

N_NEIGHBORS = 10
MAX_VECTORS = 24
MAX_DENSE = 400  # rows of a graph whose eigenvectors are found without iterations
LEAST_VALUE = 0.1  # of an eigenvalue, by which the extension to new rows divides
TILE = 128
SAME = 1e-6  # of a width: a row that near to one of the graph is that row
MOST_DEVIATIONS = 8.0


@dataclass(frozen=True)
class SpectralMap:
    """Coordinates of the rows of a graph, from which those of any row follow.

    The coordinates are eigenvectors of the random walk on the graph, without the constant one, scaled to a mean square
    of 1. Between rows at a distance d the affinity is exp(-d² / (s t)), where s and t are the distances of the two to
    their tenth neighbours (Zelnik-Manor and Perona, 2004). Distances are between principal components.

    Attributes
    ----------
    mean, scale : array (d,)
        Of the columns, by which they are standardised.
    axes : array (d, p)
        Principal axes.
    rows : array (n, p)
        Principal components of the distinct rows of the graph.
    widths : array (n,)
        Distance of each to its last neighbour.
    vectors : array (n, m)
        Their coordinates, the slowest first.
    values : array (m,)
        Eigenvalues of the coordinates, at most 1.
    """

    mean: Array
    scale: Array
    axes: Array
    rows: Array
    widths: Array
    vectors: Array
    values: Array

    @classmethod
    def of(cls, context: Array, some: Array) -> Self:
        """Return the map of some rows with the principal axes of a context, both of float32.

        Raises
        ------
        DataError
            If too few rows are distinct.
        """
        mean, scale, axes, _ = (part[0].numpy().astype(np.float64) for part in networks.components_of(context))
        # Sorted, so that the order of the rows makes no difference.
        rows = np.unique(_components(some, mean[0], scale[0], axes), axis=0).astype(np.float64)
        n = len(rows)
        if n < 2 * N_NEIGHBORS:
            raise DataError(
                f'InContext: view="spectral" needs at least {2 * N_NEIGHBORS} different rows, and there are {n}. Pass '
                "more unlabelled rows, or choose another view."
            )
        index = np.concatenate([nearest for _, nearest in _nearest(rows, rows, N_NEIGHBORS + 1)])
        # A row is not always found nearest to itself, where another one is very close.
        others = index != np.arange(n)[:, None]
        others[others.all(axis=1), -1] = False
        index = index[others].reshape(n, N_NEIGHBORS)
        distance = _distances(rows, rows[index])
        widths = distance.max(axis=1)
        values, vectors = _slowest(_connect(index, _affinities(distance, widths, widths[index])))
        if not len(values):
            raise DataError(
                'InContext: view="spectral" has found no coordinates in the graph of nearest neighbours. Choose '
                "another view."
            )
        parts = (mean[0], scale[0], axes, rows, widths, vectors, values)
        return cls(*(each.astype(np.float32) for each in parts))

    def __call__(self, X: Array) -> Array:
        """Return the coordinates of rows, (n, m) of float32, each for itself.

        A row of the graph has its own. Any other row has the weighted mean of its neighbours' coordinates, divided by
        the eigenvalue, as the rows of the graph have (the extension of Nyström).
        """
        mean, scale, axes, graph, *_ = (each.astype(np.float64) for each in vars(self).values())
        parts = [np.empty((0, len(self.values)))]
        for tile, index in _nearest(_components(X, mean, scale, axes).astype(np.float64), graph, N_NEIGHBORS):
            distance = _distances(tile, graph[index])
            nearest = index[np.arange(len(index)), distance.argmin(axis=1)]
            known = distance.min(axis=1) <= SAME * self.widths[nearest]
            affinity = _affinities(distance, distance.max(axis=1), self.widths[index])
            mean = (affinity[:, :, None] * self.vectors[index]).sum(axis=1) / affinity.sum(axis=1)[:, None]
            parts.append(np.where(known[:, None], self.vectors[nearest], mean / self.values))
        return np.concatenate(parts).astype(np.float32)

    def to_arrays(self) -> dict[str, Array]:
        """Return what a saved model holds of the map."""
        return {f"graph/{name}": value for name, value in vars(self).items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], n_columns: int) -> Self:
        """Return the map of the arrays of :meth:`to_arrays`, or raise if they do not fit together."""
        mean, scale = (checked_array(arrays, f"graph/{name}", (n_columns,), "f") for name in ("mean", "scale"))
        axes = checked_array(arrays, "graph/axes", (n_columns, None), "f")
        rows = checked_array(arrays, "graph/rows", (None, axes.shape[1]), "f")
        values = checked_array(arrays, "graph/values", (None,), "f")
        widths = checked_array(arrays, "graph/widths", (len(rows),), "f")
        vectors = checked_array(arrays, "graph/vectors", (len(rows), len(values)), "f")
        if len(rows) < N_NEIGHBORS or min(scale.min(), widths.min(), values.min(initial=1)) <= 0:
            raise ModelFileError("the graph of the model has impossible values. Save the model again.")
        return cls(mean, scale, axes, rows, widths, vectors, values)


def _components(X: Array, mean: Array, scale: Array, axes: Array) -> Array:
    """Return principal components, each row's summed from the first column to the last, wherever the row stands."""
    scores = np.clip((X - mean) / scale, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    out = np.zeros((len(X), axes.shape[1]))
    for j in range(scores.shape[1]):
        out += scores[:, j, None] * axes[j]
    return out.astype(np.float32)


def _nearest(rows: Array, among: Array, k: int) -> Iterator[tuple[Array, Array]]:
    """Yield (rows, indices of the k nearest of each), a tile at a time; of equally distant ones, the first.

    Tiles have one shape, filled up with zeros, so that a row's products are the same wherever it stands.
    """
    size = (among**2).sum(axis=1)
    n = len(among)
    for start in range(0, len(rows), TILE):
        part = rows[start : start + TILE]
        tile = np.zeros((TILE, rows.shape[1]))
        tile[: len(part)] = part
        square = size - 2 * (tile @ among.T)
        square -= square.min(axis=1, keepdims=True)
        # Distances become whole numbers, of which rounding hardly tells any two apart, followed by the row's number.
        steps = np.rint(square * (2.0**40 / np.maximum(square.max(axis=1, keepdims=True), 1e-300)))
        key = steps.astype(np.int64) * n + np.arange(n)
        nearest = np.argpartition(key, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(key, nearest, axis=1), axis=1)
        yield part, np.take_along_axis(nearest, order, axis=1)[: len(part)]


def _distances(rows: Array, neighbors: Array) -> Array:
    """Return the distances of rows (n, p) to their neighbours (n, k, p)."""
    return np.asarray(np.sqrt(((rows[:, None] - neighbors) ** 2).sum(axis=2)))


def _affinities(distance: Array, width: Array, widths: Array) -> Array:
    """Return the affinities of rows (n,) to their neighbours (n, k), none so small that it would be lost."""
    return np.asarray(np.exp(-np.minimum(distance**2 / (width[:, None] * widths), 20.0)))


def _connect(index: Array, affinity: Array) -> sparse.csr_array:
    """Return the symmetric matrix of affinities; an edge joins two rows if either is a neighbour of the other."""
    n, k = index.shape
    directed = sparse.csr_array((affinity.ravel(), index.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    return sparse.csr_array(directed.maximum(directed.T))


def _slowest(graph: sparse.csr_array) -> tuple[Array, Array]:
    """Return the largest eigenvalues of the random walk below the trivial one, and their vectors."""
    n = graph.shape[0]
    root = np.sqrt(graph.sum(axis=1))
    symmetric, trivial = _scaled(graph, 1 / root), root / np.linalg.norm(root)
    if n <= MAX_DENSE:
        values, vectors = np.linalg.eigh(symmetric.toarray() - np.outer(trivial, trivial))
    else:
        walk = LinearOperator((n, n), lambda v: symmetric @ v - trivial * (trivial @ v), dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(n)  # the same vectors for the same rows
        try:
            values, vectors = eigsh(walk, MAX_VECTORS, which="LA", v0=start, ncv=3 * MAX_VECTORS, tol=1e-4, maxiter=40)
        except ArpackNoConvergence as some:  # rows along a line, say: the first few are good enough
            values, vectors = some.eigenvalues, some.eigenvectors
    order = np.argsort(-values, kind="stable")[: min(MAX_VECTORS, n // 2)]
    order = order[values[order] > LEAST_VALUE]
    coordinates = vectors[:, order] / root[:, None]
    coordinates /= np.sqrt((coordinates**2).mean(axis=0))
    largest = coordinates[np.abs(coordinates).argmax(axis=0), np.arange(len(order))]
    return values[order], coordinates * np.sign(largest)


def _scaled(graph: sparse.csr_array, by: Array) -> sparse.csr_array:
    data = graph.data * np.repeat(by, np.diff(graph.indptr)) * by[graph.indices]
    return sparse.csr_array((data, graph.indices, graph.indptr), shape=graph.shape)
