"""Virtual adversarial training: a network whose predictions should not change in the most sensitive direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.networks import Batch, TorchNetwork
from deepsep.zoo.network_method import NetworkMethod


@settings
class VirtualAdversarial(NetworkMethod):
    r"""Virtual adversarial training: a prediction should hold in the direction that changes it most.

    The loss is the cross-entropy of the labelled rows plus :math:`\alpha \, \mathrm{KL}(p(x) \,\Vert\, p(x + r))`, the
    mean over all rows, labelled or not, where r, of a given length, is the change of the features that moves the
    network's prediction most. To second order that is the leading eigenvector of the divergence's Hessian, found by
    power iteration: each iteration costs one more pass through the network and back. No gradient goes through p(x) or
    r.

    Predictions are compared without dropout, since two draws of it would change them more than r does. These passes do
    not update the running moments of batch norm.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the divergence. 0: the labelled rows alone (batch norm still sees all).
    epsilon : float, default=0.1
        Length of r per feature: r has length √d ε, and features have deviation 1.
    power_iterations : int, default=1
        Iterations for the direction of r.
    entropy : bool, default=False
        Whether the mean entropy of all rows is added to the loss, as in the best variant of the paper.

    References
    ----------
    T. Miyato, S. Maeda, M. Koyama, S. Ishii. Virtual adversarial training: a regularization method for supervised and
    semi-supervised learning. IEEE PAMI 2018.
    """

    method_name = "virtual-adversarial"

    alpha: float = real(1.0, at_least=0)
    epsilon: float = real(0.1, above=0)
    power_iterations: int = integer(1, 1)
    entropy: bool = False

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor, batch: Batch) -> Tensor:
        x = X[batch.both]
        scores = network.scores(x)
        loss = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])
        if self.alpha:
            with _undisturbed(network.module):
                loss = loss + self.alpha * self._divergence(network, x)
        if self.entropy:
            log_p = torch.log_softmax(scores, -1)
            loss = loss - (log_p.exp() * log_p).sum(-1).mean()
        return loss

    def _divergence(self, network: TorchNetwork, x: Tensor) -> Tensor:
        """Return the mean divergence at distance √d ε, in the worst direction."""
        with torch.no_grad():
            log_p = torch.log_softmax(network.scores(x), -1)
        direction = worst_direction(network.scores, x, log_p, torch.randn_like(x), self.power_iterations)
        return divergence(log_p, network.scores(x + self.epsilon * x.shape[1] ** 0.5 * direction))


def worst_direction(
    scores: Callable[[Tensor], Tensor], x: Tensor, log_p: Tensor, start: Tensor, iterations: int, *, xi: float = 1e-2
) -> Tensor:
    """Return for each row the direction, of length 1, in which its distribution changes most, by power iteration.

    The divergence and its gradient are 0 at x. So its gradient at a small step from x, of length √d ``xi``, is the
    Hessian times this step.
    """
    direction = unit(start)
    for _ in range(iterations):
        direction = direction.detach().requires_grad_()
        value = divergence(log_p, scores(x + xi * x.shape[1] ** 0.5 * direction))
        direction = unit(torch.autograd.grad(value, direction)[0])
    return direction.detach()


def divergence(log_p: Tensor, scores: Tensor) -> Tensor:
    """Return the mean of KL(p || q) over rows; q is the softmax of the scores."""
    each: Tensor = (log_p.exp() * (log_p - torch.log_softmax(scores, -1))).sum(-1)
    return each.mean()


def unit(rows: Tensor) -> Tensor:
    """Return rows scaled to length 1; a row of zeros is unchanged."""
    largest = rows.abs().amax(-1, keepdim=True)
    rows = rows / largest.clamp_min(1e-30)  # squares of small slopes would underflow
    length: Tensor = rows.norm(dim=-1, keepdim=True)
    return rows / length.clamp_min(1e-12)


@contextmanager
def _undisturbed(module: nn.Module) -> Iterator[None]:
    """Run the block without dropout and without updates of batch norm's running moments."""
    dropouts = [part for part in module.modules() if isinstance(part, nn.Dropout)]
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm1d)]
    momenta = [norm.momentum for norm in norms]
    for dropout in dropouts:
        dropout.eval()
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for dropout in dropouts:
            dropout.train()
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
