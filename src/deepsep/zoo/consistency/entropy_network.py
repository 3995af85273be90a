"""Entropy minimisation: a network that should also be confident about the unlabelled rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deepsep.classifiers.declared_settings import real, settings
from deepsep.zoo.network_method import NetworkMethod

if TYPE_CHECKING:
    from torch import Tensor

    from deepsep.networks import Batch, TorchNetwork


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

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor) -> Callable[[Batch], Tensor]:
        import torch
        from torch.nn.functional import cross_entropy

        def loss_of(batch: Batch) -> Tensor:
            scores = network.scores(X[batch.both])
            b = len(batch.labeled)
            loss = cross_entropy(scores[:b], codes[batch.labeled])
            if len(scores) > b:
                log_p = torch.log_softmax(scores[b:], -1)
                loss = loss - self.entropy * batch.progress * (log_p.exp() * log_p).sum(-1).mean()
            return loss

        return loss_of
