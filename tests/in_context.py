"""An in-context network of random weights: as quick as its answers are wrong, which most tests do not mind."""

from functools import cache

import torch
from torch import nn

from deepsep.networks.in_context_network import InContextNetwork, Sizes

TINY = Sizes(width=16, inducing=8, column_blocks=1, row_blocks=1, context_blocks=2, context_heads=2)


@cache
def random_network(device: str) -> InContextNetwork:
    """Return the network on a device; its answers depend on the row, the column and the labels of the context."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = InContextNetwork(TINY)
        for weight in network.parameters():
            if weight.ndim > 1:  # some of them start as zero, and many so small that answers are nearly equal
                nn.init.normal_(weight, std=2 / weight.shape[1] ** 0.5)
    return network.to(device).eval().requires_grad_(False)
