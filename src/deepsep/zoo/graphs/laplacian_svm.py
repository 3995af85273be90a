"""Laplacian SVM: a kernel machine whose scores are also smooth on the graph of all rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import rbf_kernel

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array, checked_array
from deepsep.core.probability import platt_probabilities
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.graphs.graph import degrees
from deepsep.zoo.graphs.graph_kernels import Machines
from deepsep.zoo.graphs.graph_method import GraphMethod
from deepsep.zoo.scaled_method import ScaledMethod


@settings
class LaplacianSVM(GraphMethod):
    r"""Laplacian SVM: a support vector machine whose scores also vary little between neighbours.

    For each class against the rest, with labels y = ±1 and an RBF kernel, the score f minimises

    .. math:: C \sum_{i \in \ell} \max(0, 1 - y_i f(x_i)) + \tfrac12 \lVert f \rVert_K^2
        + \frac{\lambda}{2 n} \sum_{i, j} w_{ij} (f(x_i) - f(x_j))^2,

    with the weights w of the graph, each divided by the mean degree of a row. λ = 0 is the ordinary SVM. In the
    paper's terms γ_A = 1 / (2 C ℓ) and γ_I is proportional to λ / C.

    The score is a sum of kernels around centres, :math:`f(x) = \sum_j a_j k(x, x_j) + b`. With all rows as centres
    this is the exact solution. With more than ``n_centers`` rows, the centres are the labelled rows and random
    unlabelled ones. The quadratic form of a is factored once, after which each class is an ordinary SVM on the labelled
    rows. Memory is that of n × ``n_centers`` numbers; prediction does not use the graph.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the labels. With a very large C, a machine may end short of its minimum, with a
        ``ConvergenceWarning``.
    smoothness : float, default=100.0
        λ, the weight of the graph.
    gamma : float, optional
        γ of the kernel :math:`e^{-\gamma \lVert x - x' \rVert^2}`; by default one over the squared median distance.
    n_centers : int, default=1000
        Maximum number of centres.
    random_state : int, RandomState or None, default=None
        Draws centres, and the folds in which probabilities are fitted.

    Attributes
    ----------
    gamma_ : float
        γ of the kernel.
    centers_ : array (m, d)
        The centres, scaled.
    coef_ : array (m, c)
        Coefficients a of each class against the rest.
    intercept_ : array (c,)
        Offsets.
    platt_ : (float, float)
        Slope and offset of the sigmoid that turns scores into probabilities.

    References
    ----------
    M. Belkin, P. Niyogi, V. Sindhwani. Manifold regularization: a geometric framework for learning from labeled and
    unlabeled examples. JMLR 7, 2006.
    """

    method_name = "laplacian-svm"
    _saved_values: ClassVar = {"gamma_": float, "platt_": tuple}

    C: float = real(10.0, above=0)
    smoothness: float = real(100.0, at_least=0)
    gamma: float | None = real(None, above=0, or_else=(None,))
    n_centers: int = integer(1000, 2)
    n_neighbors: int = 10

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        W = self._graph(rows)
        X = self._rows.astype(np.float64)
        self.gamma_ = _default_gamma(X, rng) if self.gamma is None else float(self.gamma)
        others = max(0, self.n_centers - len(rows.labeled))
        centres = np.concatenate([rows.labeled, rng.permutation(rows.unlabeled)[:others]])
        K = rbf_kernel(X, X[centres], gamma=self.gamma_)
        R = factor(K[centres], roughness(W, K), self.smoothness)
        lab = rows.labeled
        Z = solve_triangular(R, K[lab].T, lower=True).T  # features of the labelled rows in which the penalty is |w|²
        machines = Machines.of(Z @ Z.T, self._rows[lab], rows.codes[lab], self.C, rng)
        self.coef_ = solve_triangular(R, Z.T @ machines.coef, lower=True, trans="T")
        self.intercept_, self.platt_ = machines.intercept, machines.platt
        self.centers_ = self._rows[centres]
        self._forget("_rows")

    def _probabilities(self, X: Array) -> Array:
        centres, scores = self.centers_.astype(np.float64), np.empty((len(X), len(self.intercept_)))
        for start in range(0, len(X), self._chunk):
            block = self._scaling.apply(X[start : start + self._chunk]).astype(np.float64)
            scores[start : start + len(block)] = rbf_kernel(block, centres, gamma=self.gamma_) @ self.coef_
        return platt_probabilities(scores + self.intercept_, *self.platt_)

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, arrays = ScaledMethod._parts(self)  # prediction does not use the graph
        return state, arrays | {name: getattr(self, name) for name in ("centers_", "coef_", "intercept_")}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        ScaledMethod._restore(self, state, arrays)
        d, c = self.n_features_in_, len(self.classes_)
        self.centers_ = checked_array(arrays, "centers_", (None, d), "f")
        self.coef_ = checked_array(arrays, "coef_", (len(self.centers_), c), "f")
        self.intercept_ = checked_array(arrays, "intercept_", (c,), "f")


def roughness(W: sparse.csr_array, K: Array) -> Array:
    """Return Kᵀ L K / n, where L is the graph's Laplacian divided by the mean degree of a row."""
    degree = degrees(W)
    LK = (degree[:, None] * K - W @ K) / degree.mean()
    return np.asarray(K.T @ LK / len(K))


def factor(K: Array, rough: Array, smoothness: float, *, jitter: float = 1e-10) -> Array:
    """Return the lower triangle R for which R Rᵀ is the quadratic form of the coefficients, plus a small diagonal."""
    M = K + 2 * smoothness * rough
    M[np.diag_indices_from(M)] += jitter * np.trace(M) / len(M) + jitter
    return np.asarray(cholesky(M, lower=True))


def _default_gamma(X: Array, rng: np.random.Generator, max_rows: int = 1000) -> float:
    some = X if len(X) <= max_rows else X[rng.choice(len(X), max_rows, replace=False)]
    median = float(np.median(pdist(some))) or 1.0
    return 1 / median**2
