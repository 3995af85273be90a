"""Information regularisation: within a neighbourhood, labels should depend little on the row."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.graphs.graph import distributions, one_hot
from deepsep.zoo.graphs.graph_method import GraphMethod

LEAST_PROBABILITY = 1e-300  # keeps logarithms finite


@settings
class InformationRegularization(GraphMethod):
    r"""Information regularisation: labels within a region should not depend on the position of the row.

    The regions are the neighbourhoods of the rows: a row and the rows that it is connected to, in proportion to the
    weights of the graph. The distributions p_i of all rows minimise

    .. math:: \sum_{i \in \ell} -\log p_i(y_i) + \lambda \sum_R I_R, \qquad
        I_R = \sum_{i \in R} w_{iR} \, \mathrm{KL}(p_i \,\Vert\, q_R),

    where I_R is the mutual information between row and label in region R, the weights w of a region sum to 1, and
    :math:`q_R = \sum_i w_{iR} p_i` is its mean distribution. The problem is convex, and solved by alternation: q
    given p are the means; p given q are normalised geometric means of the regions around a row, shifted towards the
    row's own label. Each iteration takes two sparse products, and the objective never rises.

    With few labels, p is nearly the same everywhere but at the labels, as in :class:`LabelPropagation`. So by default
    each class is scaled to have the same share of the unlabelled rows as of the labels.

    Parameters
    ----------
    strength : float, default=0.1
        λ; a smaller value trusts labels more.
    class_mass : bool, default=True
        Whether classes are scaled to the shares of the labels.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-6
        Relative decrease of the objective below which iterations stop.

    Attributes
    ----------
    objective_path_ : list of float
        Objective after each iteration. It never rises.
    n_iter_ : int
        Their number.

    References
    ----------
    M. Szummer, T. Jaakkola. Information regularization with partially labeled data. NIPS 2002.

    A. Corduneanu, T. Jaakkola. On information regularization. UAI 2003.
    """

    method_name = "information-regularization"
    _saved_values: ClassVar = {"objective_path_": list}

    strength: float = real(0.1, above=0)
    class_mass: bool = True
    max_iter: int = integer(1000, 1)
    tol: float = real(1e-6, at_least=0)
    n_neighbors: int = 10

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        P, self.objective_path_ = alternate(
            regions(self._graph(rows)), rows.codes, rows.n_classes, self.strength, max_iter=self.max_iter, tol=self.tol
        )
        self.n_iter_ = len(self.objective_path_)
        if self.class_mass and rows.unlabeled.size:
            share = np.bincount(rows.codes[rows.labeled]) / len(rows.labeled)
            mass = P[rows.unlabeled].sum(axis=0)
            P[rows.unlabeled] = distributions(P[rows.unlabeled] * share / np.maximum(mass, LEAST_PROBABILITY), share)
        return P

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        self.n_iter_ = len(self.objective_path_)


def regions(W: sparse.csr_array) -> sparse.csr_array:
    """Return the weights of rows (columns) in regions (rows of the matrix), which sum to 1 in each region."""
    A = sparse.csr_array(W + sparse.eye_array(W.shape[0]))
    return sparse.csr_array(sparse.diags_array(1 / np.asarray(A.sum(axis=1)).ravel()) @ A)


def alternate(
    A: sparse.csr_array, codes: Array, n_classes: int, strength: float, *, max_iter: int, tol: float
) -> tuple[Array, list[float]]:
    """Return the distributions of all rows, and the objective after each iteration."""
    labeled = np.flatnonzero(codes >= 0)
    own = codes[labeled]
    back, load = A.T.tocsr(), np.asarray(A.sum(axis=0)).ravel()  # total weight of each row in its regions
    P = one_hot(codes, n_classes)
    P[codes < 0] = np.bincount(own, minlength=n_classes) / len(own)
    path: list[float] = []
    for _ in range(max_iter):
        Q = A @ P
        log_mean = back @ np.log(np.maximum(Q, LEAST_PROBABILITY)) / load[:, None]
        P = np.exp(log_mean - log_mean.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        P[labeled] = pulled(P[labeled], own, strength * load[labeled])
        loss = -np.log(np.maximum(P[labeled, own], LEAST_PROBABILITY)).sum()
        divergence = load @ (xlogy(P, P) - P * log_mean).sum(axis=1)
        path.append(float(loss + strength * divergence))
        if len(path) > 1 and path[-2] - path[-1] <= tol * abs(path[-1]):
            break
    return P, path


def pulled(G: Array, own: Array, weight: Array) -> Array:
    """Return the p that minimise −log p(own) + weight KL(p || g) for the rows g of G.

    The odds of the other classes among themselves are those of g, and p = p(own) solves
    weight (logit p − logit g) = 1 / p, whose left side grows and whose right side falls: by bisection.
    """
    at = np.arange(len(G)), own
    g = np.clip(G[at], LEAST_PROBABILITY, 1 - 1e-16)
    logit = np.log(g) - np.log1p(-g)
    low, high = logit, logit + (1 + 1 / g) / weight
    high = np.minimum(high, np.maximum(logit, 0) + 2 / weight + 1)  # at p ≥ 1/2 the right side is at most 2
    for _ in range(100):
        middle = (low + high) / 2
        below = weight * (middle - logit) < 1 + np.exp(-middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    p = 1 / (1 + np.exp(-high))
    others = np.where(np.arange(G.shape[1]) == own[:, None], 0.0, G)
    total = others.sum(axis=1, keepdims=True)
    spread = np.divide(others, total, out=np.zeros_like(others), where=total > 0)
    out = (1 - p)[:, None] * spread
    out[at] = 1 - out.sum(axis=1)
    return np.asarray(out)
