"""Causes: the hidden variables at the root of a table."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator import clusters
from pretraining.generator.dice import Dice, first

WIDTH = 16


def causes(dice: Dice, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return causes (tables, rows, WIDTH), which are in use (tables, WIDTH), and a cluster per row (-1 where none).

    Normal, uniform, heavy-tailed, or clusters; from one cause to all of them, few more often than many.
    """
    active = first(dice.log_uniform(1.5, WIDTH + 0.9), WIDTH)
    active[:, 0] = True
    plain = dice.normal(rows, WIDTH)
    kind = dice.integers(0, 9, 1, 1)
    plain = torch.where(kind == 0, dice.uniform(rows, WIDTH, low=-1.7, high=1.7), plain)
    plain = torch.where(kind == 1, plain * plain.abs().sqrt(), plain)
    cluster = clusters.members(dice, rows, dice.integers(2, 40))
    spread = 0.05 + 0.95 * dice.uniform(clusters.MOST, 1) * dice.uniform(1, 1)
    clustered = clusters.scatter(dice, cluster, spread, WIDTH)
    is_clustered = dice.chance(0.4, 1, 1)
    values = torch.where(is_clustered, clustered, plain)
    return values * active[:, None], active, torch.where(is_clustered[..., 0], cluster, -1)
