"""Profiles: many classes with few rows each, every column distributed in its own way in every class."""

from __future__ import annotations

import torch
from torch import Tensor

from deepsep.networks.in_context_network import MAX_CLASSES
from pretraining.generator import clusters
from pretraining.generator.dice import Dice, ranks, scaled, standardise
from pretraining.generator.one_hot import OneHotGroups

FACTORS = 4


def profile_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return columns of all kinds, and four to 32 classes that come in groups of similar ones."""
    n_classes = dice.log_uniform(4, MAX_CLASSES + 0.9).long()
    classes = clusters.members(dice, rows, n_classes)
    n_groups = dice.integers(1, 8, 1)
    of_group = dice.normal(8, columns).gather(
        1, (torch.arange(MAX_CLASSES, device=dice.device) % n_groups)[..., None].expand(-1, -1, columns)
    )
    apart = dice.uniform(1, 1)
    typical = apart * dice.normal(MAX_CLASSES, columns) + (1 - apart) * of_group
    # Few columns have to tell more than many.
    strength = dice.log_uniform(1.5, 12, 1, 1) * max(0.25, columns**-0.5)
    informative = dice.chance(dice.uniform(1, 1, low=0.2), 1, columns)
    typical = strength * typical * informative * (0.5 * dice.normal(1, columns)).exp()
    values = typical.gather(1, classes[..., None].expand(-1, -1, columns))
    # Rows of a class differ in ways that columns share.
    together = dice.normal(rows, FACTORS) @ dice.normal(FACTORS, columns) / FACTORS**0.5
    shared = dice.uniform(1, 1) * dice.chance(0.5, 1, 1)
    values = values + shared * together + (1 - shared.square()).sqrt() * dice.normal(rows, columns)

    groups = OneHotGroups.draw(dice, columns)
    values = groups.tie(values)
    discrete = dice.chance(dice.uniform(1, 1) * dice.chance(0.6, 1, 1), 1, columns)
    levels = torch.where(dice.chance(0.5, 1, 1), 2, dice.integers(2, 6, 1, columns))
    # Not by rank: a level may be rare.
    level = scaled(torch.special.ndtr(standardise(values) + 0.7 * dice.normal(1, columns)), levels)
    tails = torch.where(dice.chance(0.2, 1, columns), values.clamp(-6, 6).exp(), values)
    tails = torch.where(dice.chance(0.1, 1, 1), ranks(values), tails)
    return groups.encode(dice, torch.where(discrete, level.to(values.dtype), tails)), classes
