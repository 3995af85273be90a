"""Labelled and unlabelled rows that several test modules use."""

import numpy as np
from sklearn.datasets import make_blobs


def segments(n, labelled, *, classes=3, n_features=5, cluster_std=3.0, seed=0):
    """Return rows in overlapping segments, their labels (None beyond the first ``labelled`` rows), and the truth."""
    X, truth = make_blobs(n, centers=classes, n_features=n_features, cluster_std=cluster_std, random_state=seed)
    names = np.array(["amber", "blue", "cyan", "dune"], dtype=object)[truth]
    return X, np.where(np.arange(n) < labelled, names, None), names
