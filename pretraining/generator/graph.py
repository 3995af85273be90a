"""Graph tables: nodes that any earlier node may be a parent of, some parents of many and some of none."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pretraining.generator.causes import causes
from pretraining.generator.columns import warp
from pretraining.generator.dice import Dice, first, standardise, take
from pretraining.generator.functions import node
from pretraining.generator.one_hot import OneHotGroups
from pretraining.generator.targets import classes_of

PARENTS = 6
WIDTH = 10
SOURCES = 32


def graph_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return columns and classes, picked from the nodes of a random graph."""
    roots, active, _ = causes(dice, rows)
    noise = dice.log_uniform(0.002, 0.3, 1, 1)
    alive = active.float()
    pool = roots
    for _ in range(dice.choices.randint(2, 5)):
        parents = take(pool, _popular(dice, alive)) * first(dice.integers(1, PARENTS), PARENTS)[:, None]
        # Trees and cuts do not see these weights, all others do.
        parents = parents * (0.7 * dice.normal(1, PARENTS)).exp()
        made = node(dice, parents, WIDTH) + noise * dice.normal(rows, WIDTH)
        pool = torch.cat([pool, made], 2)
        alive = torch.cat([alive, alive.new_ones(dice.tables, WIDTH)], 1)

    groups = OneHotGroups.draw(dice, columns)
    # In half of the tables all columns come from a few nodes, and resemble each other.
    few = 0.02 + dice.chance(dice.log_uniform(0.15, 1, 1) ** dice.chance(0.5, 1), alive.shape[1])
    shown = dice.weighted(alive * few, columns)
    table = groups.tie(take(pool, shown))
    table = table + dice.log_uniform(1e-3, 0.3, 1, 1) * dice.chance(0.3, 1, columns) * dice.normal(rows, columns)

    # The class follows from other nodes, or, more often, from a few of the columns.
    used = dice.chance(dice.log_uniform(min(0.99, 2.5 / columns), 1, 1, 1), 1, columns)
    used = used | (torch.arange(columns, device=dice.device) == dice.integers(0, columns - 1, 1, 1))
    picked = dice.weighted(used[:, 0].float(), PARENTS)
    from_columns = node(dice, take(standardise(table), picked), SOURCES)
    index = dice.weighted(alive, SOURCES)
    sources = torch.where(dice.chance(0.7, 1, 1), from_columns, take(pool, index))
    return groups.encode(dice, warp(dice, table, ~groups.grouped)), classes_of(dice, sources)


def _popular(dice: Dice, alive: Tensor) -> Tensor:
    """Draw parents (tables, PARENTS): nodes differ so much in how popular they are that few are parents of most."""
    popularity = (math.pi * (dice.uniform(alive.shape[1], low=0.02, high=0.98) - 0.5)).tan()
    return dice.weighted(popularity.clamp(-6, 6).exp() * alive, PARENTS)
