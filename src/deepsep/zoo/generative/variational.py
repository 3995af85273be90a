"""Variational autoencoders for rows of real numbers: the bounds of Kingma et al. (2014), M1 and M2.

Noise is always an argument, so the bounds are deterministic functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from deepsep.networks.torch_network import linear_layer


def kl_to_standard_normal(mean: Tensor, log_var: Tensor) -> Tensor:
    """Return KL(N(mean, var) ‖ N(0, 1)), summed over the last dimension."""
    return 0.5 * (mean.square() + log_var.exp() - log_var - 1).sum(-1)


def normal_log_density(x: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Return log N(x; mean, var), summed over the last dimension."""
    return -0.5 * ((x - mean).square() * (-log_var).exp() + log_var + math.log(2 * math.pi)).sum(-1)


def reparametrise(mean: Tensor, log_var: Tensor, noise: Tensor) -> Tensor:
    """Return a sample of N(mean, var) as a function of a sample of N(0, 1)."""
    return mean + (0.5 * log_var).exp() * noise


class _Normal(nn.Module):
    """A normal distribution whose mean and log-variance are linear in the input."""

    def __init__(self, n_in: int, n_out: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.mean = linear_layer(rng, n_in, n_out)
        self.log_var = linear_layer(rng, n_in, n_out)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean(h), self.log_var(h)


class VAE(nn.Module):
    """Posterior q(z | x) on top of an encoder, decoder p(x | z) and the standard normal p(z): a bound on log p(x).

    Mean and log-variance of z are linear in the encoder's output, of this width. Every feature of x is normal, with a
    mean by the decoder, whose layers are followed by tanh, and a learned variance.
    """

    def __init__(
        self, width: int, n_features: int, *, latent: int, hidden: Sequence[int], rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.latent = latent
        self.posterior = _Normal(width, latent, rng)
        self.decoder = _layers((latent, *hidden), n_features, rng)
        self.log_noise = nn.Parameter(torch.zeros(n_features, dtype=torch.float32))

    def bound(self, x: Tensor, h: Tensor, noise: Tensor) -> Tensor:
        """Return a sample of the bound E_q log p(x | z) - KL(q ‖ p) of each row, given noise of shape (rows, latent).

        The divergence is exact; only the first term is sampled.
        """
        mean, log_var = self.posterior(h)
        rebuilt = self.decoder(reparametrise(mean, log_var, noise))
        return normal_log_density(x, rebuilt, _floored(self.log_noise)) - kl_to_standard_normal(mean, log_var)


class ConditionalVAE(nn.Module):
    """q(z | x, y), p(x | y, z) and p(z): a bound on log p(x | y) for every class y, the generative half of M2.

    The layers from (x, y) to z are followed by tanh; the decoder has their widths in reverse.
    """

    def __init__(
        self, n_features: int, n_classes: int, *, latent: int, hidden: Sequence[int], rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.n_classes, self.latent = n_classes, latent
        # A layer on (x, one-hot y) is a layer on x plus a vector for each class, so x passes it once, not once per
        # class.
        self.from_x = linear_layer(rng, n_features, hidden[0])
        self.from_y = _class_vectors(rng, n_classes, hidden[0])
        self.encoder = nn.Sequential(nn.Tanh(), *_tanh_layers(tuple(hidden), rng))
        self.posterior = _Normal(hidden[-1], latent, rng)
        back = tuple(reversed(hidden))
        self.from_z = linear_layer(rng, latent, back[0])
        self.to_x = _class_vectors(rng, n_classes, back[0])
        self.decoder = nn.Sequential(nn.Tanh(), _layers(back, n_features, rng))
        self.log_noise = nn.Parameter(torch.zeros(n_features, dtype=torch.float32))

    def bound(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return a sample of the bound on log p(x | y) for each row and class, given noise (rows, c, latent)."""
        h = self.encoder(self.from_x(x).unsqueeze(1) + self.from_y)  # (rows, c, width)
        mean, log_var = self.posterior(h)
        rebuilt = self.decoder(self.from_z(reparametrise(mean, log_var, noise)) + self.to_x)  # (rows, c, d)
        density = normal_log_density(x.unsqueeze(1), rebuilt, _floored(self.log_noise))
        return density - kl_to_standard_normal(mean, log_var)


def marginal_bound(log_q: Tensor, bounds: Tensor) -> Tensor:
    """Return the bound on log p(x) of each row without its class: sum_y q(y | x) L(x, y) + H(q(y | x))."""
    return (log_q.exp() * (bounds - log_q)).sum(-1)


def _tanh_layers(widths: tuple[int, ...], rng: np.random.Generator) -> list[nn.Module]:
    return [layer for n_in, n_out in pairwise(widths) for layer in (linear_layer(rng, n_in, n_out), nn.Tanh())]


def _layers(widths: tuple[int, ...], n_out: int, rng: np.random.Generator) -> nn.Sequential:
    return nn.Sequential(*_tanh_layers(widths, rng), linear_layer(rng, widths[-1], n_out))


def _class_vectors(rng: np.random.Generator, n_classes: int, width: int) -> nn.Parameter:
    return nn.Parameter(linear_layer(rng, n_classes, width).weight.detach().T.contiguous())


def _floored(log_var: Tensor) -> Tensor:
    # A column determined by others, such as the last level of a category, would draw its variance towards 0, and then
    # dominate the decoder's loss.
    return log_var.clamp(min=-4.0)
