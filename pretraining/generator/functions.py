"""Functions of a node in a random graph: what turns its parents into numbers of its own."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, first, standardise
from pretraining.generator.layers import random_layer
from pretraining.generator.trees import oblivious_trees

GROUPS = 3
CENTRES = 24
WAVES = 48

Function = Callable[[Dice, Tensor, int], Tensor]


def linear(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Weighted sums."""
    return inputs @ dice.normal(inputs.shape[2], width)


def quadratic(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Products of two weighted sums, beside a third."""
    return linear(dice, inputs, width) * linear(dice, inputs, width) + linear(dice, inputs, width)


def perceptron(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Two layers with random activations."""
    return random_layer(dice, random_layer(dice, inputs, 2 * width, 0.0), width, 0.0)


def smooth(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Draws from a Gaussian process, by random waves; how rough they are differs from table to table."""
    k = inputs.shape[2]
    directions = dice.normal(k, WAVES)
    directions = directions / directions.norm(dim=1, keepdim=True)
    fall = dice.log_uniform(1.0, 8.0, 1, 1)
    frequency = dice.uniform(1, WAVES, low=1e-4) ** (-1 / fall) - 1
    frequency = frequency.clamp(max=30) * dice.log_uniform(0.5, 6.0, 1, 1)
    waves = (inputs @ (directions * frequency) + 2 * math.pi * dice.uniform(1, WAVES)).cos()
    drawn: Tensor = waves @ dice.normal(WAVES, width)
    return drawn


def ensembles(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Means of one to eight oblivious trees."""
    trees = dice.choices.choice([1, 2, 4, 8])
    return oblivious_trees(dice, inputs, width * trees).view(*inputs.shape[:2], width, trees).mean(3)


def blobs(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Values of the clusters that a row is near to, weighted by how near."""
    closeness = _distances(dice, inputs) / dice.log_uniform(0.2, 1.5, 1, 1)
    return (-closeness.square()).softmax(2) @ dice.normal(closeness.shape[2], width)


def cells(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """The value of the nearest of some rows: plane cuts, constant between them."""
    distance = _distances(dice, inputs)
    value = dice.normal(distance.shape[2], width)
    return value.gather(1, distance.argmin(2)[..., None].expand(-1, -1, width))


def products(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Products of two other functions."""
    one, other = dice.choices.choices([linear, smooth, ensembles, cells], k=2)
    return standardise(one(dice, inputs, width)) * standardise(other(dice, inputs, width))


FUNCTIONS: list[Function] = [linear, quadratic, perceptron, smooth, ensembles, ensembles, blobs, cells, products]


def node(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Return `width` functions of the inputs (tables, rows, k), of one kind for each third of the tables."""
    parts = []
    for part in inputs.chunk(GROUPS):
        own = Dice(len(part), dice.generator, dice.choices)
        parts.append(standardise(dice.choices.choice(FUNCTIONS)(own, part, width)))
    return torch.cat(parts)


def _distances(dice: Dice, inputs: Tensor) -> Tensor:
    # To the first rows, which are in no order, with some room around; one table uses more of them than another.
    centres = inputs[:, :CENTRES]
    centres = centres + 0.3 * dice.normal(*centres.shape[1:])
    in_use = first(dice.log_uniform(2, CENTRES + 0.9), centres.shape[1])
    return torch.cdist(inputs, centres).masked_fill(~in_use[:, None], 1e4)
