"""Clusters: rows scattered around centres of uneven size and spread."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, first, scaled, standardise

MOST = 64


def members(dice: Dice, rows: int, n_clusters: Tensor) -> Tensor:
    """Return the cluster of every row; in half of the tables some clusters are much larger than others."""
    place = dice.uniform(rows)
    uneven = place ** (1 + 2 * dice.uniform(1))
    return scaled(torch.where(dice.chance(0.5, 1), place, uneven), n_clusters[:, None])


def scatter(dice: Dice, cluster: Tensor, spread: Tensor, dimensions: int) -> Tensor:
    """Return a point per row, around the centre of its cluster; `spread` (tables, MOST or 1, dimensions or 1)."""
    centres = dice.normal(MOST, dimensions)
    index = cluster[..., None].expand(-1, -1, dimensions)
    spread = spread.expand(-1, MOST, dimensions).gather(1, index)
    return centres.gather(1, index) + spread * dice.normal(cluster.shape[1], dimensions)


def cluster_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Classes of one to three clusters each, seen through a linear map with little noise; up to 26 classes."""
    n_classes = dice.integers(2, 26)
    n_clusters = (n_classes * dice.integers(1, 3)).clamp(max=MOST)
    cluster = members(dice, rows, n_clusters)
    spread = dice.uniform(1, 1, low=0.05, high=0.75) * (0.5 * dice.normal(1, 16)).exp()
    latent = scatter(dice, cluster, spread, 16) * first(dice.integers(3, 16), 16)[:, None]
    loadings = dice.normal(16, columns) * dice.chance(dice.uniform(1, 1, low=0.3), 16, columns)
    noise = 0.02 + 0.3 * dice.uniform(1, 1).square()
    return standardise(latent @ loadings) + noise * dice.normal(rows, columns), cluster % n_classes[:, None]
