"""Networks that, in rounds, embed all rows, spread the labels among them, and train on the result."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch
from deepsep.zoo.graphs.graph import connect, diffuse, distributions, neighbours, normalised, one_hot
from deepsep.zoo.network_method import NetworkMethod


class Spread(NamedTuple):
    """Labels of all rows, spread from the labelled ones, with weights."""

    codes: Array  # (n,): class of every row; labelled rows keep theirs
    weight: Array  # (n,): weight of the row in the loss


@settings
class PropagationMethod(NetworkMethod):
    """A network that is trained on the labelled rows, then in rounds on labels that spread in its embedding.

    Subclasses define ``_spread``, and may add a term to the loss of a row with ``_metric``.

    Parameters
    ----------
    rounds : int, default=10
        Number of times that labels are spread.
    warm_up : float, default=0.25
        Share of the steps on labelled rows alone, before the first round. The rounds share the other steps equally.
    """

    rounds: int = integer(10, 1)
    warm_up: float = real(0.25, above=0, below=1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        network, X, codes = self._begin(rows, rng)
        encoder, head = network.module["encoder"], network.module["head"]
        # A row of weight 0 is absent, from the embedding and from batches.
        present = np.flatnonzero(rows.weight > 0)

        def supervised(batch: Batch) -> Tensor:
            scores = network.scores(X[batch.both])
            return cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])

        first, *others = split_steps(self.steps, self.warm_up, self.rounds)
        self._train(network, rows, supervised, rng, steps=first)
        for steps in others:
            V = unit_rows(network.embed(X)[present])
            spread = self._spread(V, rows.codes[present], rows.weight[present], rows.n_classes)
            labels, trust = np.zeros(len(X), np.int64), np.zeros(len(X), np.float32)
            labels[present], trust[present] = spread
            goal, weight = (torch.from_numpy(values).to(network.device) for values in (labels, trust))
            metric = self._metric(V, spread, rng, network.device)

            def weighted(batch: Batch, goal: Tensor = goal, weight: Tensor = weight, metric: Any = metric) -> Tensor:
                at = batch.both
                h = encoder(X[at])
                losses = cross_entropy(head(h), goal[at], reduction="none")
                if metric is not None:
                    losses = losses + metric(h, goal[at])
                return (weight[at] * losses).mean()

            self._train(network, rows, weighted, rng, steps=steps)
        self._keep(network.state())

    def _spread(self, V: Array, codes: Array, weight: Array, n_classes: int) -> Spread:
        """Return labels and weights of all rows, given embeddings of length 1 and the labels of some."""
        raise NotImplementedError

    def _metric(self, V: Array, spread: Spread, rng: np.random.Generator, device: Any) -> Any:
        """Return a function of a batch's embeddings and labels that is added to the loss of each row, or None."""


def split_steps(steps: int, warm_up: float, rounds: int) -> list[int]:
    """Return the steps of the warm-up and of each round; there are fewer rounds if there are too few steps."""
    first = math.ceil(warm_up * steps)
    parts = np.array_split(np.arange(steps - first), rounds)
    return [first, *(len(part) for part in parts if len(part))]


def unit_rows(V: Array) -> Array:
    """Return rows scaled to length 1, as float64; a row of zeros is unchanged."""
    V = V.astype(np.float64)
    length = np.linalg.norm(V, axis=1, keepdims=True)
    return np.asarray(np.divide(V, length, out=np.zeros_like(V), where=length > 0))


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


@settings
class LocalLabelPropagation(PropagationMethod):
    r"""Local label propagation: every row takes the vote of the labelled rows nearest in the network's embedding.

    The network is first trained on the labelled rows. In each round after that, all rows are embedded, as vectors
    :math:`v_i` of length 1. A labelled row j counts for a row i as :math:`e^{v_i \cdot v_j / \tau} / \rho_j`, where
    the density :math:`\rho_j` is the sum of :math:`e^{v_k \cdot v_j / \tau}` over the rows k nearest to j: labels reach
    further where rows are sparse. The labelled rows that count most vote. The winner becomes the row's label, and its
    share of the votes the confidence :math:`c_i` (1 for labelled rows). Training continues with the loss

    .. math:: c_i \left( -\log p_{y_i}(x_i) - \mu \log
              \frac{\sum_{k: y_k = y_i} e^{v_i \cdot v_k / \tau}}{\sum_k e^{v_i \cdot v_k / \tau}} \right)

    whose second term brings rows of the same label together.

    Parameters
    ----------
    n_neighbors : int, default=10
        Labelled rows that vote on a row.
    density_neighbors : int, default=25
        Nearest rows, including itself, that make up the density of a labelled row.
    temperature : float, default=0.07
        τ, at least 0.01.
    metric : float, default=1.0
        μ. 0: the first term alone.

    Notes
    -----
    Differences from the paper, which is about images:

    - All rows are embedded again in each round. The paper has too many images for that, and keeps a memory of their
      embeddings that follows the training.
    - In the second term of the loss, k runs over the round's embeddings of up to 512 rows, drawn with at least one of
      each label; in the paper, over all rows.
    - The embedding is the network's last layer, scaled to length 1; the paper has a second head for it.
    - The network is first trained on the labelled rows; in the paper, it starts from an embedding learned without
      labels.

    References
    ----------
    C. Zhuang, X. Ding, D. Murli, D. Yamins. Local label propagation for large-scale semi-supervised learning.
    arXiv:1905.11581, 2019.
    """

    method_name = "local-label-propagation"

    n_neighbors: int = integer(10, 1)
    density_neighbors: int = integer(25, 1)
    temperature: float = real(0.07, at_least=0.01)  # far below, e^(1 / temperature) overflows
    metric: float = real(1.0, at_least=0)

    def _spread(self, V: Array, codes: Array, weight: Array, n_classes: int) -> Spread:
        known = codes >= 0
        labeled = np.flatnonzero(known)
        density = local_density(V, labeled, k=self.density_neighbors, temperature=self.temperature)
        voters, loudness = V[labeled], weight[labeled] / density
        k, t = self.n_neighbors, self.temperature
        P = vote(V, voters, codes[labeled], loudness, k=k, temperature=t, n_classes=n_classes)
        return Spread(np.where(known, codes, P.argmax(axis=1)), np.where(known, 1.0, P.max(axis=1)))

    def _metric(self, V: Array, spread: Spread, rng: np.random.Generator, device: Any) -> Any:
        if not self.metric:
            return None
        kept = draw_bank(spread.codes, rng)
        bank = torch.from_numpy(V[kept].astype(np.float32)).to(device)
        labels = torch.from_numpy(spread.codes[kept]).to(device)
        return lambda h, goal: self.metric * aggregation_loss(h, goal, bank, labels, self.temperature)


def aggregation_loss(h: Tensor, goal: Tensor, bank: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return, for each row, minus the log of the share of its own class in its closeness to the bank."""
    near = normalize(h) @ bank.T / temperature
    alike = torch.where(goal.unsqueeze(1) == labels, near, -torch.inf)
    return near.logsumexp(1) - alike.logsumexp(1)


def local_density(V: Array, rows: Array, *, k: int, temperature: float) -> Array:
    """Return, for some rows, the sum of e^(v·w / temperature) over the k nearest rows w, including itself."""
    distance, _ = neighbours(V[rows], k, among=V)
    return np.asarray(np.exp((1 - np.square(distance) / 2) / temperature).sum(axis=1))


def vote(
    V: Array,
    voters: Array,
    codes: Array,
    loudness: Array,
    *,
    k: int,
    temperature: float,
    n_classes: int,
    block: int = 4_096,
) -> Array:
    """Return the share of each class in the vote on every row, ``block`` rows at a time.

    A voter w counts e^(v·w / temperature) times its loudness; the k voters that count most for a row vote on it.
    """
    k = min(k, len(voters))
    out = np.empty((len(V), n_classes))
    for start in range(0, len(V), block):
        counts = np.exp(V[start : start + block] @ voters.T / temperature) * loudness
        top = np.argpartition(-counts, k - 1, axis=1)[:, :k]
        votes = np.zeros((len(counts), n_classes))
        np.add.at(votes, (np.arange(len(counts))[:, None], codes[top]), np.take_along_axis(counts, top, axis=1))
        out[start : start + block] = votes / votes.sum(axis=1, keepdims=True)
    return out


def draw_bank(codes: Array, rng: np.random.Generator, size: int = 512) -> Array:
    """Return up to ``size`` rows at random, with at least one of each class."""
    order = rng.permutation(len(codes))
    first = order[np.unique(codes[order], return_index=True)[1]]
    return np.unique(np.concatenate([first, order[: size - len(first)]]))
