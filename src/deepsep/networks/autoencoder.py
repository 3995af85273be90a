"""Pretraining an encoder to rebuild its input, on all rows, without labels."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from deepsep.networks.interface import Array, OnEpoch, present_rows, streams
from deepsep.networks.loop import adam, private_seed, run_epochs, tensor
from deepsep.networks.torch_network import TorchNetwork, linear_layer


def pretrain(
    network: TorchNetwork,
    X: Array,
    *,
    epochs: int,
    lr: float,
    batch_size: int,
    rng: np.random.Generator,
    weight: Array | None = None,
    on_epoch: OnEpoch | None = None,
) -> list[float]:
    """Train the encoder of a network to rebuild the rows, under a decoder that is then thrown away.

    The settings are those of :meth:`deepsep.networks.Network.train`. Returns the mean squared error of each epoch.
    """
    encoder = network.module["encoder"]
    rows, device = network._rows(X), network.device
    kept, weight = present_rows(weight)
    kept = np.arange(len(X)) if kept is None else kept
    weights = torch.ones(len(X), device=device) if weight is None else tensor(weight, device)
    order_rng, noise_seed = streams(rng)
    head, n_features = network.module["head"], math.prod(network.input_shape)
    assert isinstance(head, nn.Linear)
    layers = linear_layer(rng, head.in_features, 128), nn.Tanh(), linear_layer(rng, 128, n_features)
    decoder = nn.Sequential(*layers).to(device)
    optimiser = adam([(p, 0.0) for p in (*encoder.parameters(), *decoder.parameters())], lr=lr)
    norms = [module for module in encoder.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]

    def step(at: torch.Tensor) -> torch.Tensor:
        x, w = rows[at], weights[at]
        for norm in norms:
            norm.train(len(at) > 1)
        optimiser.zero_grad()
        errors = (decoder(encoder(x)) - x.flatten(1)).square().mean(1)
        total: torch.Tensor = errors @ w
        torch.autograd.backward(total / w.sum())
        optimiser.step()
        return total.detach()

    history: list[float] = []
    mass = float(weights.sum())

    def draw_order() -> Array:
        return order_rng.permutation(kept)

    def record(epoch: int, total: Array) -> bool | None:
        history.append(float(total) / mass)
        return None if on_epoch is None else on_epoch(epoch, history[-1])

    encoder.train()
    try:
        with private_seed(noise_seed, device):
            n, size = len(kept), min(batch_size, len(kept))
            run_epochs(step, draw_order, record, n=n, epochs=epochs, batch_size=size, device=device)
    finally:
        encoder.eval()
    return history
