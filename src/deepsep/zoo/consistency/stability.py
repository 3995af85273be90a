"""Transformation/stability loss with mutual exclusivity: predictions that do not change under noise, of one class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.zoo.consistency.consistency import PiModel, ramp

if TYPE_CHECKING:
    from torch import Tensor

    from deepsep.networks import Batch, TorchNetwork


@settings
class TransformationStability(PiModel):
    r"""Transformation/stability: several disturbed passes of every row should agree, and on one class only.

    The loss is the cross-entropy of the labelled rows plus, as means over all rows, labelled or not,

    - ``consistency`` times the mean of :math:`\lVert p_j - p_k \rVert^2 / c` over all pairs of passes j and k, which
      have independent noise on the features and independent dropout,
    - ``exclusivity`` times the mean of :math:`-\sum_k p_k \prod_{l \ne k} (1 - p_l)` over the passes: minus the
      probability that exactly one of c independent events of probabilities p happens. It is -1 for a confident
      prediction, and closest to 0 if all classes are equally probable.

    Both weights grow as in :class:`deepsep.classifiers.PiModel`, which has two passes and no ``exclusivity``.

    Parameters
    ----------
    passes : int, default=4
        Passes of every row in a step; time grows with them.
    exclusivity : float, default=0.1
        Maximum weight of mutual exclusivity. 0: agreement alone.

    Notes
    -----
    The papers also transform images; a table has no such transformations, so passes differ in noise and dropout only.
    Their losses are sums over pairs and passes, with constant weights.

    References
    ----------
    M. Sajjadi, M. Javanmardi, T. Tasdizen. Regularization with stochastic transformations and perturbations for deep
    semi-supervised learning. NIPS 2016.

    M. Sajjadi, M. Javanmardi, T. Tasdizen. Mutual exclusivity loss for semi-supervised deep learning. ICIP 2016.
    """

    method_name = "transformation-stability"

    passes: int = integer(4, 2)
    exclusivity: float = real(0.1, at_least=0)

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor) -> Callable[[Batch], Tensor]:
        import torch
        from torch.nn.functional import cross_entropy

        def loss_of(batch: Batch) -> Tensor:
            scores = network.scores(self._disturb(X[batch.both].repeat(self.passes, 1)))
            passes = torch.softmax(scores, -1).reshape(self.passes, -1, scores.shape[1])
            supervised = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])
            unsupervised = self.consistency * disagreement(passes)
            unsupervised = unsupervised - self.exclusivity * exactly_one(scores).mean()
            return supervised + ramp(batch.progress, self.ramp_up) * unsupervised

        return loss_of


def disagreement(passes: Tensor) -> Tensor:
    """Return the mean of (p_j - p_k)² over rows, classes, and the pairs of passes, which come first."""
    return 2 * passes.var(0).mean()


def exactly_one(scores: Tensor) -> Tensor:
    """Return for each row the probability that exactly one of c independent events happens.

    Their probabilities are the softmax of the scores. Logarithms of 1 - p are computed from the other scores, so that
    values and gradients are right even if p rounds to 1.
    """
    import torch

    whole = scores.logsumexp(-1, keepdim=True)
    own = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    others = scores.unsqueeze(-2).masked_fill(own, -torch.inf).logsumexp(-1) - whole  # log (1 - p)
    return (scores - whole - others + others.sum(-1, keepdim=True)).exp().sum(-1)
