"""Correlated sensors: spectra, images and statistics of textures, in which every column resembles others."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator import clusters
from pretraining.generator.dice import Dice, first, standardise
from pretraining.generator.layers import random_layer

LATENT = 16


def sensor_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return columns that all measure the same few things, and classes that are clusters of these."""
    n_classes = torch.where(dice.chance(0.6), dice.integers(2, 11), dice.integers(10, 26))
    cluster = clusters.members(dice, rows, (n_classes * dice.integers(1, 3)).clamp(max=clusters.MOST))
    # Directions differ much in spread: what tells the classes apart need not be what varies most.
    spread = dice.log_uniform(0.1, 1, 1, 1) * (0.7 * dice.normal(1, LATENT)).exp()
    latent = clusters.scatter(dice, cluster, spread, LATENT) * first(dice.integers(3, LATENT), LATENT)[:, None]
    bent = random_layer(dice, latent, LATENT, 0.0)
    latent = latent + dice.uniform(1, 1) * dice.chance(0.5, 1, 1) * bent

    signal = standardise(
        latent @ torch.where(dice.chance(0.65, 1, 1), _bumps(dice, columns), _statistics(dice, columns))
    )
    # Lighting and gain move all sensors of a row together.
    signal = signal * (0.2 * dice.chance(0.4, 1, 1) * dice.normal(rows, 1)).exp()
    signal = signal + 0.5 * dice.uniform(1, 1) * dice.chance(0.4, 1, 1) * dice.normal(rows, 1)
    response = dice.integers(0, 7, 1, 1)
    signal = torch.where(response == 0, (signal + dice.normal(1, columns)).relu(), signal)
    signal = torch.where(response == 1, (1.5 * signal).tanh(), signal)
    signal = torch.where(response == 2, signal.square(), signal)
    signal = torch.where(response == 3, signal.clamp(-4, 4).exp(), signal)
    signal = standardise(signal) + dice.log_uniform(0.005, 0.3, 1, 1) * dice.normal(rows, columns)
    steps = dice.integers(2, 8, 1, 1)
    return torch.where(dice.chance(0.3, 1, 1), (signal * steps).round() / steps, signal), cluster % n_classes[:, None]


def _bumps(dice: Dice, columns: int) -> Tensor:
    # Sensors sit on a line (spectra) or in a square (images); each latent is a few bumps on it.
    flat = dice.chance(0.5, 1, 1)
    across = torch.linspace(0, 1, columns, device=dice.device)
    side = max(2, round(columns**0.5))
    place = torch.arange(columns, device=dice.device)
    x = torch.where(flat, across, (place % side) / side)
    y = torch.where(flat, 0.5, (place // side) / side)
    loadings = torch.zeros(dice.tables, LATENT, columns, device=dice.device)
    for _ in range(2):
        at_x, at_y = dice.uniform(LATENT, 1), dice.uniform(LATENT, 1)
        width = dice.log_uniform(0.04, 0.5, LATENT, 1)
        apart = (x - at_x).square() + torch.where(flat, 0.0, (y - at_y).square())
        loadings = loadings + dice.normal(LATENT, 1) * (-apart / (2 * width.square())).exp()
    return loadings + 0.02 * dice.normal(LATENT, columns)


def _statistics(dice: Dice, columns: int) -> Tensor:
    # A few kinds of statistics, each taken many times with small differences.
    kinds = dice.normal(LATENT, 8)
    which = dice.integers(0, 7, 1, columns).expand(-1, LATENT, -1)
    return kinds.gather(2, which) + dice.log_uniform(0.05, 1, 1, 1) * dice.normal(LATENT, columns)
