"""Choice of rows to label next: uncertain ones that differ from each other."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from deepsep.core.arrays import Array


def choose_next_rows(p: Array, X: Array, n: int, *, per_class: bool = False, seed: int = 0) -> Array:
    """Choose the rows whose labels should help a model most.

    A row is uncertain if its two most probable classes are close. The 3n most uncertain rows are divided into n
    clusters by k-means, in which uncertain rows weigh more, and the row nearest to the centre of each cluster is
    chosen. Without clusters, many of the chosen rows could be almost the same.

    The rows X (m, d) are standardised and reduced to 20 principal components. With ``per_class``, equally many rows of
    each predicted class are chosen, as far as possible. The result has the most uncertain rows first.
    """
    unsure, Z = uncertainty(p), _positions(np.asarray(X, float), seed)
    if per_class:
        predicted = p.argmax(axis=1)
        quotas = _quotas(np.bincount(predicted, minlength=p.shape[1]), n)
        parts = [(np.flatnonzero(predicted == k), quota) for k, quota in enumerate(quotas) if quota]
    else:
        parts = [(np.arange(len(p)), min(n, len(p)))]
    chosen = [rows[_spread(unsure[rows], Z[rows], quota, seed)] for rows, quota in parts]
    together = np.concatenate([np.zeros(0, int), *chosen])
    return together[np.argsort(-unsure[together], kind="stable")]


def uncertainty(p: Array) -> Array:
    """Return the uncertainty of each row: 1 if its two most probable classes are equal, 0 if one is certain."""
    if p.shape[1] < 2:
        return np.zeros(len(p))
    two = np.partition(p, -2, axis=1)[:, -2:]
    return np.asarray(1 - (two[:, 1] - two[:, 0]))


def _positions(X: Array, seed: int, n_components: int = 20) -> Array:
    """Return the rows in a few principal components of the standardised columns."""
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0))[:, deviation > 0] / deviation[deviation > 0]
    if min(X.shape) <= n_components:
        return X
    return np.asarray(PCA(n_components, random_state=seed).fit_transform(X))


def _spread(unsure: Array, Z: Array, n: int, seed: int) -> Array:
    """Return n uncertain rows, one for each cluster of the most uncertain ones."""
    best = np.argsort(-unsure, kind="stable")[: 3 * n]
    distinct = len(np.unique(Z[best], axis=0)) if Z.shape[1] else 1
    if len(best) <= n or distinct < n:
        return best[:n]
    weight = np.maximum(unsure[best], 1e-6)
    distance = KMeans(n, n_init=1, random_state=seed).fit(Z[best], sample_weight=weight).transform(Z[best])
    free = np.ones(len(best), bool)
    for k in range(n):
        free[np.where(free, distance[:, k], np.inf).argmin()] = False
    return best[~free]


def _quotas(available: Array, n: int) -> Array:
    """Return the numbers of rows of each class, n in all: equally many, as far as possible."""
    quotas = np.zeros(len(available), int)
    while quotas.sum() < min(n, available.sum()):
        open_ = np.flatnonzero(quotas < available)
        quotas[open_[quotas[open_].argmin()]] += 1
    return quotas
