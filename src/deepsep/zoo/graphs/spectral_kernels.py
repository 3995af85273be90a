"""Kernels from the spectrum of a graph: cluster kernels, and transforms of the spectrum fitted to the labels."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.graphs.graph import normalised
from deepsep.zoo.graphs.graph_kernels import Machines, leading_eigenvectors
from deepsep.zoo.graphs.graph_method import GraphMethod


@settings
class SpectralKernel(GraphMethod):
    r"""A support vector machine with the kernel :math:`\sum_i \mu_i v_i v_i^\top`, v the eigenvectors of a graph.

    Subclasses return the kernel's features of all rows in ``_features``: a matrix Z with the kernel Z Zᵀ.

    Parameters
    ----------
    n_components : int, default=100
        Number of eigenvectors, those of the largest eigenvalues.
    C : float, default=10.0
        Weight of the labels in the support vector machine. With a very large C, a machine may end short of its
        minimum, with a ``ConvergenceWarning``.
    random_state : int, RandomState or None, default=None
        Draws the folds in which probabilities are fitted, and the start of the search for eigenvectors.

    Attributes
    ----------
    eigenvalues_ : array (n_components,)
        Eigenvalues of the normalised affinities, largest first.
    """

    n_components: int = integer(100, 1)
    C: float = real(10.0, above=0)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        S = normalised(self._graph(rows))
        self.eigenvalues_, vectors = leading_eigenvectors(S, min(self.n_components, len(rows.codes)), rng)
        Z = self._features(vectors, rows)
        lab = rows.labeled
        Z_lab = Z[lab]
        machines = Machines.of(Z_lab @ Z_lab.T, self._rows[lab], rows.codes[lab], self.C, rng)
        return machines.probabilities(Z @ Z_lab.T)

    def _features(self, vectors: Array, rows: TrainingRows) -> Array:
        raise NotImplementedError


@settings
class ClusterKernel(SpectralKernel):
    r"""Cluster kernel: a support vector machine for which rows of one cluster are close to each other.

    With the affinities W of the graph and :math:`S = D^{-1/2} W D^{-1/2} = \sum_i \lambda_i v_i v_i^\top`, the kernel
    is :math:`\sum_i \varphi(\lambda_i) v_i v_i^\top`, scaled so that each row has length 1. The transfer function φ
    keeps eigenvectors that vary little within clusters:

    - ``"step"``: 1 for the ``n_components`` largest eigenvalues, 0 for the others, as in spectral clustering;
    - ``"linear-step"``: λ for these, 0 for the others;
    - ``"polynomial"``: :math:`\lambda^t`, as in a random walk of t steps, for the ``n_components`` largest.

    Negative eigenvalues count as 0. New rows get the average of their neighbours.

    Parameters
    ----------
    transfer : {"polynomial", "linear-step", "step"}, default="polynomial"
        φ.
    power : int, default=5
        Exponent t of the polynomial.

    References
    ----------
    O. Chapelle, J. Weston, B. Schölkopf. Cluster kernels for semi-supervised learning. NIPS 2002.
    """

    method_name = "cluster-kernel"

    transfer: Literal["polynomial", "linear-step", "step"] = "polynomial"
    power: int = integer(5, 1)

    def _features(self, vectors: Array, rows: TrainingRows) -> Array:
        return cluster_features(self.eigenvalues_, vectors, self.transfer, self.power)


@settings
class SpectralTransform(SpectralKernel):
    r"""Kernel of a graph with a spectrum fitted to the labels: smoother eigenvectors count more.

    With the eigenvectors v of :math:`S = D^{-1/2} W D^{-1/2}`, smoothest first, the kernel is :math:`\sum_i \mu_i v_i
    v_i^\top`. The coefficients μ are those for which the kernel of the labelled rows is best aligned with T, which is 1
    for two rows of one class and −1 for others, among all with :math:`\mu_1 \ge \mu_2 \ge \dots \ge 0`: no parametric
    family is assumed. The first eigenvector of a connected graph, a bias term, only has :math:`\mu \ge 0` (the paper's
    "improved order").

    The paper solves a quadratically constrained programme. In the steps :math:`\nu_i = \mu_i - \mu_{i+1} \ge 0` the
    best aligned kernel has the direction of the projection of T on a cone, which non-negative least squares finds.

    New rows get the average of their neighbours.

    Attributes
    ----------
    spectrum_ : array (n_components,)
        μ, scaled so that the mean diagonal of the kernel is 1.
    alignment_ : float
        The cosine between the kernel of the labelled rows and T.

    References
    ----------
    X. Zhu, J. Kandola, Z. Ghahramani, J. Lafferty. Nonparametric transforms of graph kernels for semi-supervised
    learning. NIPS 2004.
    """

    method_name = "spectral-transform"
    _saved_values: ClassVar = {"alignment_": float}

    def _features(self, vectors: Array, rows: TrainingRows) -> Array:
        codes = rows.codes[rows.labeled]
        # A second eigenvalue of 1 belongs to another connected part of the graph.
        T = np.where(codes[:, None] == codes, 1.0, -1.0)
        mu, self.alignment_ = aligned_spectrum(
            vectors[rows.labeled], T, bias=bool(self.eigenvalues_[1:2].sum() < 1 - 1e-6)
        )
        self.spectrum_ = mu * len(vectors) / mu.sum()
        return np.asarray(vectors * np.sqrt(self.spectrum_))


def aligned_spectrum(V: Array, T: Array, *, bias: bool) -> tuple[Array, float]:
    """Return the μ, falling and not negative, for which Σ μ_i v_i v_iᵀ is best aligned with T, and the alignment.

    V (l, r) has the eigenvectors at the labelled rows, smoothest first; with ``bias``, the first is exempt from order.
    """
    r = V.shape[1]
    order = np.triu(np.ones((r, r)))  # μ = order ν: ν_j raises all up to the j-th
    if bias:
        order[0, 1:] = 0
    # ⟨v_i v_iᵀ, v_j v_jᵀ⟩ = (v_i · v_j)², and ⟨v_i v_iᵀ, T⟩ = v_iᵀ T v_i.
    Q = order.T @ np.square(V.T @ V) @ order
    c = order.T @ np.einsum("ki,kl,li->i", V, T, V, optimize=True)
    scale = 1 / np.sqrt(np.maximum(np.diag(Q), np.finfo(float).tiny))
    Q, c = Q * scale * scale[:, None], c * scale
    R = cholesky(Q + 1e-10 * np.eye(r), lower=True)
    nu = nnls(R.T, solve_triangular(R, c, lower=True), maxiter=30 * r)[0]
    if not nu.any():  # T is at an obtuse angle to all of them: all eigenvectors count equally
        nu[-1] = 1.0
    mu = order @ (nu * scale)
    alignment = float(c @ nu / np.sqrt(max(nu @ Q @ nu, np.finfo(float).tiny)) / np.linalg.norm(T))
    return mu / mu.max(), alignment


def cluster_features(values: Array, vectors: Array, transfer: str, power: int) -> Array:
    """Return the features of a cluster kernel, rows of length 1, from the eigenvalues and eigenvectors of S."""
    positive = np.clip(values, 0, 1)
    weight = {"step": np.ones_like(positive), "linear-step": positive, "polynomial": positive**power}[transfer]
    Z = vectors * np.sqrt(weight)
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    return np.asarray(np.divide(Z, length, out=np.zeros_like(Z), where=length > 1e-12 * length.max()))
