"""Markov random walks: a row has the classes of the rows from which a short walk may have reached it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.graphs.graph import degrees, scaled
from deepsep.zoo.graphs.graph_method import GraphMethod


@settings
class MarkovRandomWalk(GraphMethod):
    r"""Markov random walks: labels are drawn at the start of a walk of t steps, and observed at its end.

    A walk starts at any row with equal probability and takes ``t`` steps, each to a neighbour (in proportion to the
    weights of the graph) or to the row itself (as to a neighbour at distance 0). A walk that ends at row k started at
    row i with probability :math:`P_{0|t}(i \mid k)`, and row k has the classes of the starts:
    :math:`P(y \mid k) = \sum_i P(y \mid i)\, P_{0|t}(i \mid k)`. The distributions P(y | i) of all rows are found by
    EM: they maximise :math:`\sum_k \log P(y_k \mid k)` over the labelled rows, a concave function, from the uniform
    start.

    The number of steps is the scale on which rows count as similar. Rows more than t edges from every label have the
    uniform distribution.

    Parameters
    ----------
    t : int, default=3
        Steps of a walk.
    max_iter : int, default=50
        Rounds of EM.
    tol : float, default=1e-4
        Increase of the mean log-likelihood of a label below which EM stops.

    Attributes
    ----------
    log_likelihood_ : list of float
        The mean log-likelihood of a label, before each round of EM and after the last. It never falls.
    n_iter_ : int
        Rounds of EM.

    References
    ----------
    M. Szummer, T. Jaakkola. Partially labeled classification with Markov random walks. NIPS 2001.
    """

    method_name = "markov-random-walk"
    _saved_values: ClassVar = {"log_likelihood_": list}

    t: int = integer(3, 0)
    max_iter: int = integer(50, 1)
    tol: float = real(1e-4, at_least=0)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        A = transitions(self._graph(rows))
        theta, self.log_likelihood_ = em(
            A, self.t, rows.labeled, rows.codes[rows.labeled], rows.n_classes, max_iter=self.max_iter, tol=self.tol
        )
        self.n_iter_ = len(self.log_likelihood_) - 1
        P = walked(A.T.tocsr(), self.t, theta)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        self.n_iter_ = len(self.log_likelihood_) - 1


def transitions(W: sparse.csr_array) -> sparse.csr_array:
    """Return the probabilities of a step from row to column, in proportion to W, with weight 1 for staying."""
    W = sparse.csr_array(W + sparse.eye_array(W.shape[0]))
    return scaled(W, 1 / degrees(W), np.ones(W.shape[0]))


def walked(A: sparse.csr_array, t: int, V: Array) -> Array:
    """Return A^t V, by t products."""
    for _ in range(t):
        V = A @ V
    return V


def em(
    A: sparse.csr_array, t: int, labeled: Array, codes: Array, n_classes: int, *, max_iter: int, tol: float
) -> tuple[Array, list[float]]:
    """Return P(y | i) of every row, and the mean log-likelihood of the labels before and after each round.

    With Q = A^t restricted to the columns k of the labelled rows and divided by their sums, P_{0|t}(i | k) = Q_ik. A
    round is P(y | i) ← P(y | i) Σ_{k: y_k = y} Q_ik / P(y_k | k), divided by its sum over y.
    """
    n = A.shape[0]
    back = A.T.tocsr()
    arrivals = walked(back, t, np.ones((n, 1)))[labeled, 0]
    theta = np.full((n, n_classes), 1 / n_classes)
    path: list[float] = []
    for _ in range(max_iter + 1):
        likelihood = walked(back, t, theta)[labeled, codes] / arrivals
        path.append(float(np.log(likelihood).mean()))
        if len(path) > max_iter or (len(path) > 1 and path[-1] - path[-2] < tol):
            break
        V = np.zeros((n, n_classes))
        V[labeled, codes] = 1 / (likelihood * arrivals)
        claim = theta * walked(A, t, V)
        total = claim.sum(axis=1, keepdims=True)
        theta = np.divide(claim, total, out=theta, where=total > 0)
    return theta, path
