"""Layers: random mixtures of inputs, bent by random activations, some of them replaced by trees."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, standardise
from pretraining.generator.trees import oblivious_trees

ACTIVATIONS: list[Callable[[Tensor], Tensor]] = [
    lambda a: a,
    torch.tanh,
    torch.relu,
    torch.sin,
    torch.abs,
    lambda a: a.square() - 1,
    torch.sign,
    lambda a: 2 * (-a.square()).exp() - 1,
    lambda a: torch.where(a > 0, a, 0.1 * a),
    lambda a: (1.5 * a).round(),
    lambda a: (3 * a).sigmoid(),
]
GROUPS = 4


def bend(dice: Dice, values: Tensor) -> Tensor:
    """Apply a random activation to every column (tables, rows, width).

    Computing all activations of all columns would take most of the time of the whole generator. So the tables come in
    a few groups, and each group uses three activations, or eight.
    """
    which = dice.uniform(1, values.shape[2])
    parts = []
    for part, place in zip(values.chunk(GROUPS), which.chunk(GROUPS), strict=True):
        chosen = dice.choices.sample(ACTIVATIONS, 8 if dice.choices.random() < 0.3 else 3)
        out = chosen[0](part)
        for i, activation in enumerate(chosen[1:], 1):
            out = torch.where(place > i / len(chosen), activation(part), out)
        parts.append(out)
    return torch.cat(parts)


def random_layer(dice: Dice, inputs: Tensor, width: int, noise: Tensor | float) -> Tensor:
    """Return `width` random functions of the inputs (tables, rows, k), with mean 0, deviation 1, and noise."""
    _, rows, k = inputs.shape
    density = dice.log_uniform(min(0.99, 1.5 / k), 1, 1, 1)
    weights = dice.normal(k, width) * dice.chance(density, k, width) * (dice.normal(k, 1).abs() ** 1.5 + 0.05)
    mixed = standardise(inputs @ weights + 1e-3 * dice.normal(rows, width))
    mixed = mixed * (0.6 * dice.normal(1, width)).exp() + 0.7 * dice.normal(1, width)
    out = bend(dice, mixed)
    if dice.choices.random() < 0.6:
        share_of_trees = dice.uniform(1, 1) * dice.chance(0.85, 1, 1)
        out = torch.where(dice.chance(share_of_trees, 1, width), oblivious_trees(dice, inputs, width), out)
    return standardise(out) + noise * dice.normal(rows, width) * dice.chance(0.7, 1, width)
