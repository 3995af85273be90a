"""Base of the methods that label the nodes of a graph of nearest neighbours."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from deepsep.classifiers.base import UnweightedClassifier
from deepsep.classifiers.declared_settings import integer, settings
from deepsep.core.arrays import Array, checked_array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.graphs.graph import affinities, connect, neighbours
from deepsep.zoo.scaled_method import ScaledMethod


@settings
class GraphMethod(ScaledMethod, UnweightedClassifier):
    """A method that labels the nodes of a graph.

    Rows are nodes, and each is connected to its nearest rows: a_ij = exp(−d²_ij / σ²_i), where σ_i is the distance
    from row i to the farthest of its neighbours, and w_ij = max(a_ij, a_ji). So weights lie between 1/e and 1 in
    dense and in sparse regions, and no edge vanishes.

    Subclasses label the nodes of ``_graph(rows)`` in ``_learn`` and return their class distributions. A new row gets
    the average distribution of its neighbours among the training rows, weighted by a_ij. Memory grows linearly with the
    rows: it holds the rows, their neighbours, and mostly a few columns per class.

    Parameters
    ----------
    n_neighbors : int, default=25
        Number of neighbours of a row.
    random_state : int, RandomState or None, default=None
        Not used, since nothing is random; accepted because every method has it.
    """

    labels_its_rows_apart = True  # training rows by their own node, new rows by their neighbours

    n_neighbors: int = integer(25, 1)
    _chunk: ClassVar[int] = 16_384  # new rows at a time

    def _graph(self, rows: TrainingRows) -> sparse.csr_array:
        """Return the affinities of the training rows, and keep the data for prediction."""
        self._rows, self._k = self._fit_scaling(rows).apply(rows.X), int(self.n_neighbors)
        distance, index = neighbours(self._rows, self._k)
        return connect(index, affinities(distance))

    def _probabilities(self, X: Array) -> Array:
        P = np.empty((len(X), len(self.classes_)))
        n = len(self._rows)
        for start in range(0, len(X), self._chunk):
            distance, index = neighbours(self._scaling.apply(X[start : start + self._chunk]), self._k, self._rows)
            affinity = affinities(distance)
            affinity /= affinity.sum(axis=1, keepdims=True)
            b, k = index.shape
            A = sparse.csr_array((affinity.ravel(), index.ravel(), np.arange(0, b * k + 1, k)), shape=(b, n))
            P[start : start + b] = A @ self.label_distributions_
        return np.asarray(P / P.sum(axis=1, keepdims=True))  # sums of exactly 1

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, arrays = super()._parts()
        return {"k": self._k, **state}, {"rows": self._rows, **arrays}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        self._k = int(state["k"])
        self._rows = checked_array(arrays, "rows", (len(self.transduction_), self.n_features_in_), "f")
