"""Causal tables: causes, layers on top of them, and columns and class picked from the nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.causes import WIDTH, causes
from pretraining.generator.columns import warp
from pretraining.generator.dice import Dice, standardise, take
from pretraining.generator.layers import random_layer
from pretraining.generator.one_hot import OneHotGroups
from pretraining.generator.targets import classes_of, number_of_classes

LAYER = 48


def causal_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return columns and classes."""
    roots, active, cluster = causes(dice, rows)
    noise = dice.log_uniform(0.002, 0.4, 1, 1)
    nodes, layer = [roots], roots
    for _ in range(dice.choices.randint(1, 4)):
        layer = random_layer(dice, layer, LAYER, noise)
        nodes.append(layer)
    pool = torch.cat(nodes, 2)
    groups = OneHotGroups.draw(dice, columns)
    # In half of the tables the columns are close to the causes; in the others they come from anywhere.
    reach = torch.where(dice.chance(0.5, 1), WIDTH + LAYER, pool.shape[2])
    table = groups.tie(take(pool, _living(dice, dice.below(reach, columns), active, pool.shape[2])))
    classes = _classes(dice, table, pool, active, cluster)
    return groups.encode(dice, warp(dice, table, ~groups.grouped)), classes


def _living(dice: Dice, index: Tensor, active: Tensor, n_nodes: int) -> Tensor:
    # Causes not in use are constant: take a node of a layer instead.
    alive = torch.cat([active, active.new_ones(dice.tables, n_nodes - WIDTH)], 1)
    return torch.where(alive.gather(1, index), index, WIDTH + dice.below(n_nodes - WIDTH, index.shape[1]))


def _classes(dice: Dice, table: Tensor, pool: Tensor, active: Tensor, cluster: Tensor) -> Tensor:
    columns = table.shape[2]
    # In most tables the target is a function of the columns themselves. Otherwise half are hopeless.
    share = dice.log_uniform(min(0.99, 2.5 / columns), 1, 1, 1)
    used = dice.chance(share, 1, columns)
    used = used | (torch.arange(columns, device=table.device) == dice.integers(0, columns - 1, 1, 1))
    near = random_layer(dice, standardise(table) * used, LAYER, 0.0)
    far = random_layer(dice, near, LAYER, 0.0)
    from_columns = torch.where(dice.chance(0.5, 1, 1), near, far)
    n_nodes = pool.shape[2]
    lowest = torch.where(dice.chance(0.5, 1), 0, max(0, n_nodes - LAYER))
    index = _living(dice, lowest + dice.below(n_nodes - lowest, LAYER), active, n_nodes)
    sources = torch.where(dice.chance(0.75, 1, 1), from_columns, take(pool, index))

    n_classes = number_of_classes(dice)
    classes = classes_of(dice, sources, n_classes)
    return torch.where((cluster >= 0) & dice.chance(0.3, 1), cluster % n_classes[:, None], classes)
