"""The sparse graph of nearest neighbours, and linear systems on it.

Nothing here is dense in the rows: there are lists of k neighbours, sparse matrices, and blocks of one column per class.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors

from deepsep.core.arrays import Array


def neighbours(X: Array, k: int, among: Array | None = None) -> tuple[Array, Array]:
    """Return the distances and indices, (n, k), of the exact k nearest rows of every row of X, nearest first.

    Candidates are the rows of ``among``, by default the other rows of X. Memory is that of the result.
    """
    rows = X if among is None else among
    most = len(rows) - (among is None)
    algorithm = "kd_tree" if X.shape[1] <= 5 else "brute"
    search = NearestNeighbors(n_neighbors=min(k, most), algorithm=algorithm, n_jobs=-1).fit(rows)
    distance, index = search.kneighbors(None if among is None else X)
    return distance, index


def affinities(distance: Array) -> Array:
    """Return exp(−d² / σ²), with σ each row's distance to its last neighbour, or 1 if all neighbours are copies."""
    scale = distance[:, -1:]
    return np.asarray(np.exp(-((distance / np.where(scale > 0, scale, 1.0)) ** 2)))


def connect(index: Array, affinity: Array, *, together: Literal["max", "sum"] = "max") -> sparse.csr_array:
    """Return the symmetric (n, n) matrix of an undirected graph, from each row's neighbours and affinities, (n, k).

    ``together`` combines the two affinities of rows that are neighbours of each other.
    """
    n, k = index.shape
    A = sparse.csr_array((affinity.ravel().astype(np.float64), index.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    W = A.maximum(A.T) if together == "max" else A + A.T
    W = sparse.csr_array(W)
    W.eliminate_zeros()
    W.sort_indices()
    return W


def degrees(W: sparse.csr_array) -> Array:
    """Return the sum of each row."""
    return np.asarray(W.sum(axis=1)).ravel()


def normalised(W: sparse.csr_array) -> sparse.csr_array:
    """Return D^(-1/2) W D^(-1/2), with zeros for a row without edges."""
    degree = degrees(W)
    root = np.zeros(len(degree))
    np.divide(1.0, np.sqrt(degree), out=root, where=degree > 0)
    return scaled(W, root, root)


def scaled(W: sparse.csr_array, left: Array, right: Array) -> sparse.csr_array:
    """Return diag(left) W diag(right)."""
    data = W.data * np.repeat(left, np.diff(W.indptr)) * right[W.indices]
    return sparse.csr_array((data, W.indices, W.indptr), shape=W.shape)


def diffuse(S: sparse.csr_array, Y: Array, alpha: float, *, tol: float = 1e-10, max_iter: int = 10_000) -> Array:
    """Solve (I − αS) Z = Y for all classes at once; S is normalised, and 0 ≤ α < 1.

    S has no negative entries, so neither has Z; values that rounding left below 0 become 0.
    """
    Z = conjugate_gradients(lambda V: V - alpha * (S @ V), np.asarray(Y, np.float64), tol=tol, max_iter=max_iter)
    return np.asarray(np.maximum(Z, 0))


def conjugate_gradients(
    product: Callable[[Array], Array],
    B: Array,
    *,
    diagonal: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
) -> Array:
    """Solve A Z = B, where A is symmetric and positive definite, for all columns of B at once.

    ``product`` is V → A V for (n, c) blocks, ``diagonal`` that of A, for preconditioning. Stops at residuals of ``tol``
    relative to those of Z = 0.
    """
    inverse = np.ones((len(B), 1)) if diagonal is None else 1 / diagonal[:, None]
    Z, R = np.zeros_like(B), B.copy()
    V = inverse * R
    P, rho = V.copy(), (R * V).sum(axis=0)
    aim = tol * np.sqrt(rho)
    for _ in range(max_iter):
        active = np.sqrt(rho) > aim
        if not active.any():
            return Z
        Q = product(P)
        curvature = (P * Q).sum(axis=0)
        # A column that is solved is not changed, since its step would be 0 / 0.
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=active & (curvature > 0))
        Z += step * P
        R -= step * Q
        V = inverse * R
        rho, before = (R * V).sum(axis=0), rho
        P = V + np.divide(rho, before, out=np.zeros_like(rho), where=active) * P
    warnings.warn(
        f"conjugate gradients stopped after {max_iter} iterations with a relative residual of "
        f"{float((np.sqrt(rho)[active] / aim[active]).max()) * tol:.1e}, above {tol:g}. Take more neighbours.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return Z


def reached(W: sparse.csr_array, labeled: Array) -> Array:
    """Return whether a path connects each row to a labelled row."""
    _, component = connected_components(W, directed=False)
    return np.isin(component, component[labeled])


def one_hot(codes: Array, n_classes: int) -> Array:
    """Return codes as rows of an (n, c) matrix, with zeros for -1."""
    return np.eye(n_classes + 1)[codes, :-1]  # the code -1 is the last


def distributions(Z: Array, otherwise: Array | None = None, *, least: float = 0.0) -> Array:
    """Return rows divided by their sums; a row whose sum is not above ``least`` becomes ``otherwise`` (uniform)."""
    total = Z.sum(axis=1)
    known = total > least
    P = np.empty(Z.shape)
    P[:] = 1 / Z.shape[1] if otherwise is None else otherwise
    P[known] = Z[known] / total[known, None]
    return P
