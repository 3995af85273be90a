"""Deep label propagation: labels spread over the graph of a network's embedding, and train the network further."""

from __future__ import annotations

import numpy as np

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.zoo.graphs.graph import connect, diffuse, distributions, neighbours, normalised, one_hot
from deepsep.zoo.propagation.propagation_rounds import PropagationMethod, Spread


@settings
class DeepLabelPropagation(PropagationMethod):
    r"""Deep label propagation: labels spread over the graph of the network's embedding, and train it further.

    The network is first trained on the labelled rows. In each round after that, all rows are embedded, as vectors
    :math:`v_i` of length 1, and connected to their nearest rows with the affinities :math:`\max(0, v_i \cdot
    v_j)^\gamma`, symmetrised and normalised to S. Then :math:`(I - \alpha S) Z = Y` is solved by conjugate gradients.
    Each unlabelled row takes the class that is largest in its row of Z, with the weight :math:`1 - H / \log c` of that
    distribution, or 0 if no label reaches it. Training continues with all these labels. Each class is also weighted by
    one over its count.

    Parameters
    ----------
    n_neighbors : int, default=50
        Nearest rows that a row is connected to.
    alpha : float, default=0.99
        Extent to which labels spread, from 0 to below 1.
    gamma : float, default=3.0
        Exponent of the affinities.
    steps : int, default=2000
        Steps of Adam in all.

    Notes
    -----
    Neighbours are found by comparing all pairs of rows in every round: time grows with the square of the rows.

    References
    ----------
    A. Iscen, G. Tolias, Y. Avrithis, O. Chum. Label propagation for deep semi-supervised learning. CVPR 2019.
    """

    method_name = "deep-label-propagation"

    n_neighbors: int = integer(50, 1)
    alpha: float = real(0.99, at_least=0, below=1)
    gamma: float = real(3.0, above=0)

    def _spread(self, V: Array, codes: Array, weight: Array, n_classes: int) -> Spread:
        Z = propagate(V, one_hot(codes, n_classes), k=self.n_neighbors, alpha=self.alpha, gamma=self.gamma)
        return weighted_labels(Z, codes, weight)


def weighted_labels(Z: Array, codes: Array, weight: Array) -> Spread:
    """Return a label and a weight for every row from its row of Z; rows that no label reaches have weight 0."""
    labels = np.where(codes >= 0, codes, Z.argmax(axis=1))
    trust = np.where(codes >= 0, 1.0, certainty(Z))
    counted = (codes >= 0) | (Z.sum(axis=1) > 0)
    return Spread(labels, trust * class_weights(labels[counted], weight[counted], Z.shape[1])[labels])


def propagate(V: Array, Y: Array, *, k: int, alpha: float, gamma: float) -> Array:
    """Return the Z of (I - alpha S) Z = Y over the graph of the k nearest rows of V, which have length 1."""
    distance, index = neighbours(V, k)
    similarity = 1 - np.square(distance) / 2
    W = connect(index, np.maximum(0, similarity) ** gamma, together="sum")
    return diffuse(normalised(W), Y, alpha)


def certainty(Z: Array) -> Array:
    """Return 1 - H / log c of the distribution of each row; 0 for a row that no label reaches."""
    P = distributions(Z)
    logs = np.log(P, out=np.zeros_like(P), where=P > 0)
    certain = 1 + (P * logs).sum(axis=1) / np.log(Z.shape[1])
    return np.where(Z.sum(axis=1) > 0, certain.clip(0, 1), 0.0)


def class_weights(labels: Array, weight: Array, n_classes: int) -> Array:
    """Return one over the count of each class, divided by its mean over the rows."""
    counts = np.bincount(labels, weight, n_classes)
    return np.asarray(counts.sum() / (n_classes * counts))
