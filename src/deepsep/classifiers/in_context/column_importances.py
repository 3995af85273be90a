"""Importances of columns, by which members of the in-context network draw theirs where they cannot see all."""

from __future__ import annotations

import numpy as np

from deepsep.core.arrays import Array


def column_importances(
    values: Array, codes: Array, rng: np.random.Generator, n_trees: int = 100, least_share: float = 0.1
) -> Array:
    """Return the importance of each column of labelled rows in a forest of extra trees.

    ``least_share`` of their sum is divided evenly among the columns: with few labels, a forest uses few columns.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    forest = ExtraTreesClassifier(n_trees, random_state=int(rng.integers(2**31))).fit(values, codes)
    return np.asarray(forest.feature_importances_ + least_share / values.shape[1])
