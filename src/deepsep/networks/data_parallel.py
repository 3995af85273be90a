"""Training of the default network by several processes at once: the same steps as by one.

Every batch is divided among the processes. Gradients are summed over them, and so are the moments of the batch norm, so
that a step is the one of a single process, apart from rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, distributed, nn

from deepsep.networks.interface import BN_EPS, BN_MOMENTUM, Array, Loss
from deepsep.networks.loop import adam, one_thread, row_losses, tensor
from deepsep.networks.torch_network import TorchNetwork


class TrainingPhase(NamedTuple):
    """A phase of training; rows of weight 0 have been left out."""

    X: Array
    targets: Array
    weight: Array
    loss: Loss
    epochs: int
    lr: float
    batch_size: int
    order: np.random.Generator  # of the rows


def train_together(network: TorchNetwork, phases: Sequence[TrainingPhase]) -> None:
    """Train the default network, without dropout, in all processes of torch's group; each ends with the same weights.

    Parameters
    ----------
    network : TorchNetwork
        The same in every process.
    phases : sequence of TrainingPhase
        One after the other, each with a fresh Adam.
    """
    rank, world = distributed.get_rank(), distributed.get_world_size()
    encoder: Any = network.module["encoder"]
    norm = SharedBatchNorm(encoder[2].num_features, eps=BN_EPS, momentum=BN_MOMENTUM)
    norm.load_state_dict(encoder[2].state_dict())
    encoder[2] = norm
    network.module.train()
    parameters = list(network.module.parameters())
    with one_thread():
        for phase in phases:
            optimiser = adam(network.decays(), lr=phase.lr)
            rows, goals, weights = (tensor(each, "cpu") for each in (phase.X, phase.targets, phase.weight))
            n = len(rows)
            for _ in range(phase.epochs):
                order = torch.from_numpy(phase.order.permutation(n))
                for batch in torch.split(order, phase.batch_size):
                    mine = batch[rank::world]
                    norm.batch_rows = len(batch)
                    optimiser.zero_grad()
                    losses = row_losses(network.scores(rows[mine]), goals[mine], phase.loss)
                    torch.autograd.backward(losses @ weights[mine] / weights[batch].sum())
                    _sum_gradients(parameters)
                    optimiser.step()
    network.module.eval()


class SharedBatchNorm(nn.BatchNorm1d):
    """Batch norm by the moments of a batch that several processes share."""

    batch_rows = 0  # in all processes

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the rows of this process; a batch of one row with the running moments."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        n = self.batch_rows
        if n > 1:
            sums: Any = _SumOverProcesses.apply(torch.stack([x.sum(dim=0), x.square().sum(dim=0)]))  # type: ignore[no-untyped-call]
            mean, square = sums / n
            var = (square - mean.square()).clamp(min=0)
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                self.running_mean.lerp_(mean, BN_MOMENTUM)
                self.running_var.lerp_(var * (n / (n - 1)), BN_MOMENTUM)
        else:
            mean, var = self.running_mean, self.running_var
        normal: Tensor = (x - mean) * ((var + self.eps).rsqrt() * self.weight) + self.bias
        return normal


def _sum_gradients(parameters: Sequence[Tensor]) -> None:
    """Replace gradients by their sums over all processes, in one message."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total = _sum(torch.cat([gradient.flatten() for gradient in gradients]))
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, part in zip(gradients, torch.split(total, sizes), strict=True):
        gradient.copy_(part.view_as(gradient))


def _sum(x: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes."""
    total = x.clone()
    if distributed.get_world_size() > 1:
        distributed.all_reduce(total)
    return total


class _SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over all processes, and the sum of the gradients on the way back."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return _sum(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return _sum(gradient.contiguous())
