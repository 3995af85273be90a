"""The opponents of a classifier in adversarial training: a generator of rows, and a judge of rows with classes.

Noise is always an argument, so both are deterministic functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from deepsep.networks.torch_network import linear_layer


class Generator(nn.Module):
    """Generator of rows like those of X from ``latent`` random numbers, and from a class if there are classes.

    A column with two values in X, such as a level of a category, stays between the two and tends towards one of them;
    other columns may take any value. Layers are linear, followed by batch norm and max(0, ·).
    """

    def __init__(
        self, X: Tensor, *, latent: int, hidden: Sequence[int], n_classes: int = 0, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.latent, self.n_classes = latent, n_classes
        self.low: Tensor
        self.high: Tensor
        self.two_valued: Tensor
        for name, value in zip(("low", "high", "two_valued"), _levels(X), strict=True):
            self.register_buffer(name, value)
        widths = (latent + n_classes, *hidden)
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(widths):
            norm = nn.BatchNorm1d(n_out, track_running_stats=False, dtype=torch.float32)
            layers += [linear_layer(rng, n_in, n_out), norm, nn.ReLU()]
        self.layers = nn.Sequential(*layers, linear_layer(rng, widths[-1], X.shape[1]))
        self.to(X.device)

    def forward(self, noise: Tensor, codes: Tensor | None = None) -> Tensor:
        """Return a row for each row of noise (m, latent), of the class in ``codes`` (m,) if there are classes."""
        if codes is not None:
            noise = torch.cat([noise, torch.eye(self.n_classes, dtype=noise.dtype, device=noise.device)[codes]], 1)
        h: Tensor = self.layers(noise)
        return torch.where(self.two_valued, self.low + (self.high - self.low) * torch.sigmoid(h), h)


class PairJudge(nn.Sequential):
    """Scores (rows, c) of each row with every class: the log-odds that the pair is from the data.

    Layers are followed by a leaky max(0, ·) and dropout.
    """

    def __init__(
        self, n_features: int, n_classes: int, *, hidden: Sequence[int], dropout: float, rng: np.random.Generator
    ) -> None:
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise((n_features, *hidden)):
            layers += [linear_layer(rng, n_in, n_out), nn.LeakyReLU(0.2), nn.Dropout(dropout)]
        super().__init__(*layers, linear_layer(rng, hidden[-1], n_classes))


def _levels(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the minimum and maximum of each column, and whether it has no other values."""
    low, high = X.amin(0), X.amax(0)
    return low, high, ((low == X) | (high == X)).all(0)
