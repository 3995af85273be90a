"""Label propagation, which keeps the given labels, and label spreading, which may overrule them."""

from __future__ import annotations

import numpy as np

from deepsep.classifiers.declared_settings import real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.graphs.graph import conjugate_gradients, degrees, diffuse, distributions, normalised, one_hot, reached
from deepsep.zoo.graphs.graph_method import GraphMethod

RESIDUAL_TOL = 1e-12  # relative; small, so that distant labels count as well


@settings
class LabelSpreading(GraphMethod):
    r"""Label spreading: every row takes some of its neighbours' labels, and keeps some of its own.

    With the affinities W of the graph, their row sums D, and :math:`S = D^{-1/2} W D^{-1/2}`, the scores of all rows
    are :math:`Z = (I - \alpha S)^{-1} Y`, where Y has a 1 for each label. They are found by conjugate gradients for
    all classes at once, and the rows of Z, divided by their sums, are the distributions. A row that no label reaches
    has the shares of the classes among the labels.

    Parameters
    ----------
    alpha : float, default=0.8
        Share of a score that comes from the neighbours, from 0 to below 1.

    References
    ----------
    D. Zhou, O. Bousquet, T. N. Lal, J. Weston, B. Schölkopf. Learning with local and global consistency. NIPS 2003.
    """

    method_name = "label-spreading"

    alpha: float = real(0.8, at_least=0, below=1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        Z = diffuse(normalised(self._graph(rows)), one_hot(rows.codes, rows.n_classes), self.alpha, tol=RESIDUAL_TOL)
        # 1 − α is the least eigenvalue: a smaller sum may be due to the residual alone.
        error = RESIDUAL_TOL * rows.n_classes * np.sqrt(len(rows.labeled)) / (1 - self.alpha)
        return distributions(Z, _shares(rows), least=error)


@settings
class LabelPropagation(GraphMethod):
    r"""Label propagation: every unlabelled row is the weighted mean of its neighbours, and labels stay as they are.

    This is the harmonic function of the graph: the distributions f of the unlabelled rows solve :math:`(D_{uu} -
    W_{uu}) f_u = W_{u\ell} f_\ell`, by conjugate gradients for all classes at once. f_i is also the probability that a
    random walk from row i first meets a label of each class. A row that no label reaches has the shares of the classes
    among the labels.

    With few labels, walks forget their start before they meet one: f is then nearly the same everywhere but at the
    labels, and the largest entry means little. So by default each class is scaled to have the same share of the rows
    as of the labels (class mass normalisation). This helps up to a point: if only one row in a thousand or fewer has a
    label, prefer :class:`LabelSpreading`.

    Parameters
    ----------
    class_mass : bool, default=True
        Whether classes are scaled to the shares of the labels.

    References
    ----------
    X. Zhu, Z. Ghahramani. Learning from labeled and unlabeled data with label propagation. CMU-CALD-02-107, 2002.

    X. Zhu, Z. Ghahramani, J. Lafferty. Semi-supervised learning using Gaussian fields and harmonic functions. ICML
    2003.
    """

    method_name = "label-propagation"

    class_mass: bool = True

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        W = self._graph(rows)
        labeled = rows.labeled
        unlabeled = np.flatnonzero((rows.codes < 0) & reached(W, labeled))
        F = one_hot(rows.codes, rows.n_classes)
        F[rows.codes < 0] = _shares(rows)
        if unlabeled.size:
            degree, edges = degrees(W)[unlabeled], W[unlabeled]
            W_uu, known = edges[:, unlabeled], edges[:, labeled] @ F[labeled]
            f = conjugate_gradients(
                lambda V: degree[:, None] * V - W_uu @ V, known, diagonal=degree, tol=RESIDUAL_TOL
            ).clip(0, 1)
            if self.class_mass:
                f *= _shares(rows) / np.maximum(f.sum(axis=0), np.finfo(float).tiny)
            F[unlabeled] = distributions(f, _shares(rows))
        return F


def _shares(rows: TrainingRows) -> Array:
    return np.bincount(rows.codes[rows.labeled], minlength=rows.n_classes) / len(rows.labeled)
