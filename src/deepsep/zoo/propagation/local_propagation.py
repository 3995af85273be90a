"""Local label propagation: labelled rows vote on the rows near them, and count more where rows are sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.zoo.graphs.graph import neighbours
from deepsep.zoo.propagation.propagation_rounds import PropagationMethod, Spread

if TYPE_CHECKING:
    from torch import Tensor


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
    steps : int, default=2000
        Steps of Adam in all.

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
        import torch

        if not self.metric:
            return None
        kept = draw_bank(spread.codes, rng)
        bank = torch.from_numpy(V[kept].astype(np.float32)).to(device)
        labels = torch.from_numpy(spread.codes[kept]).to(device)
        return lambda h, goal: self.metric * aggregation_loss(h, goal, bank, labels, self.temperature)


def aggregation_loss(h: Tensor, goal: Tensor, bank: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Return, for each row, minus the log of the share of its own class in its closeness to the bank."""
    import torch
    from torch.nn.functional import normalize

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
