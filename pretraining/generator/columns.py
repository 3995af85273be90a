"""Columns as they come: skewed, in levels, or with nothing to do with the class."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, ranks, scaled, standardise


def warp(dice: Dice, columns: Tensor, free: Tensor) -> Tensor:
    """Bend some of the `free` (tables, columns) columns: tails, exponentials, ranks, ordered levels."""
    values = standardise(columns)
    rank = ranks(columns)
    levels = dice.integers(2, 11, 1, columns.shape[2])
    kind = torch.where(free[:, None], dice.integers(0, 7, 1, columns.shape[2]), 7)
    out = torch.where(kind == 0, values * values.abs(), values)
    out = torch.where(kind == 1, values.clamp(-3, 3).exp(), out)
    out = torch.where(kind == 2, rank, out)
    out = torch.where(kind == 3, scaled(rank, levels).to(out.dtype), out)
    return torch.where(kind == 4, scaled(rank.square(), levels).to(out.dtype), out)


def add_irrelevant(dice: Dice, columns: Tensor) -> Tensor:
    """Break the link of some columns to the class, in a third of the tables: each is shifted along the rows."""
    share = 0.5 * dice.uniform(1) * dice.chance(0.35, 1)
    broken = dice.chance(share, columns.shape[2])
    shift = dice.choices.randint(1, columns.shape[1] - 1)
    return torch.where(broken[:, None], columns.roll(shift, 1), columns)
