"""Networks that should be confident about the unlabelled rows: entropy minimisation and pseudo-labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from deepsep.classifiers.declared_settings import real, setting, settings
from deepsep.core.checks import is_number
from deepsep.networks import Batch, TorchNetwork
from deepsep.zoo.network_method import NetworkMethod


@settings
class EntropyNetwork(NetworkMethod):
    r"""Entropy minimisation: cross-entropy on labelled rows plus the entropy of the predictions of unlabelled ones.

    The loss is :math:`\frac1\ell \sum_i -\log p_{y_i}(x_i) + \lambda \frac1u \sum_j H(p(x_j))`: a boundary through
    dense regions leaves many rows uncertain, at a cost. The weight λ grows linearly to ``entropy`` over the steps, so
    that the network does not become confident before it has learned anything.

    Parameters
    ----------
    entropy : float, default=0.3
        λ. 0: the labelled rows alone (batch norm still sees both).

    References
    ----------
    Y. Grandvalet, Y. Bengio. Semi-supervised learning by entropy minimization. NIPS 2004.
    """

    method_name = "entropy-network"

    entropy: float = real(0.3, at_least=0)

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor, batch: Batch) -> Tensor:
        scores = network.scores(X[batch.both])
        b = len(batch.labeled)
        loss = cross_entropy(scores[:b], codes[batch.labeled])
        if len(scores) > b:
            log_p = torch.log_softmax(scores[b:], -1)
            loss = loss - self.entropy * batch.progress * (log_p.exp() * log_p).sum(-1).mean()
        return loss


def _are_increasing_shares(pair: Any) -> bool:
    both = isinstance(pair, Sequence) and len(pair) == 2 and all(map(is_number, pair))
    return both and 0 <= pair[0] < pair[1] <= 1


@settings
class PseudoLabel(NetworkMethod):
    r"""Pseudo-label: cross-entropy on labelled rows, and on unlabelled ones with their most probable class as label.

    The loss is :math:`\frac1\ell \sum_i -\log p_{y_i}(x_i) + \alpha(t) \frac1u \sum_j -\log \max_k p_k(x_j)`. The
    labels of unlabelled rows are updated in every step, from the same pass. Their weight α(t) is 0 at first, and then
    grows linearly.

    Parameters
    ----------
    weight : float, default=0.3
        Maximum of α. 0: the labelled rows alone (batch norm still sees both).
    ramp : pair of float, default=(0.1, 0.6)
        Shares of the steps after which α starts to grow, and reaches ``weight``.

    References
    ----------
    D.-H. Lee. Pseudo-label: the simple and efficient semi-supervised learning method for deep neural networks. ICML
    workshop on challenges in representation learning, 2013.
    """

    method_name = "pseudo-label"

    weight: float = real(0.3, at_least=0)
    ramp: Sequence[float] = setting(
        (0.1, 0.6), _are_increasing_shares, "two increasing shares of the steps, such as (0.1, 0.6)"
    )

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor, batch: Batch) -> Tensor:
        start, end = self.ramp
        scores = network.scores(X[batch.both])
        b = len(batch.labeled)
        loss = cross_entropy(scores[:b], codes[batch.labeled])
        if len(scores) > b:
            alpha = self.weight * ((batch.progress - start) / (end - start)).clamp(0, 1)
            loss = loss + alpha * cross_entropy(scores[b:], scores[b:].argmax(-1))
        return loss
