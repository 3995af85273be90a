"""Labelled and unlabelled rows that several test modules use."""

import numpy as np
from sklearn.datasets import make_blobs, make_moons

from deepsep.zoo.graphs import graph


def segments(n, labeled, *, classes=3, n_features=5, cluster_std=3.0, seed=0):
    """Return rows in overlapping segments, their labels (None beyond the first ``labelled`` rows), and the truth."""
    X, truth = make_blobs(n, centers=classes, n_features=n_features, cluster_std=cluster_std, random_state=seed)
    names = np.array(["amber", "blue", "cyan", "dune"], dtype=object)[truth]
    return X, np.where(np.arange(n) < labeled, names, None), names


def moons(n=200, labeled=5, seed=0):
    """Return two moons, some rows of each labelled and -1 for the others, and the truth."""
    X, truth = make_moons(n, noise=0.08, random_state=seed)
    rng = np.random.default_rng(seed)
    y = np.full(n, -1)
    for k in range(2):
        rows = rng.choice(np.flatnonzero(truth == k), labeled, replace=False)
        y[rows] = k
    return X, y, truth


def blobs(n=150, labeled=4, seed=0):
    """Return three clusters, the first rows of each labelled and -1 for the others, and the truth."""
    X, truth = make_blobs(n, centers=3, n_features=4, cluster_std=2.0, random_state=seed)
    y = np.full(n, -1)
    for k in range(3):
        y[np.flatnonzero(truth == k)[:labeled]] = k
    return X, y, truth


def affinities(X, k=10):
    """Return the graph of the nearest neighbours of rows."""
    distance, index = graph.neighbours(X, k)
    return graph.connect(index, graph.affinities(distance))
