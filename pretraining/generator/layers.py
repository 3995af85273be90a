"""Layers: random mixtures of inputs, bent by random activations, some of them replaced by trees."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, standardise
from pretraining.generator.trees import oblivious_trees

N_ACTIVATIONS = 11


def activations(a: Tensor) -> Tensor:
    """Return all activations of `a`, stacked last."""
    return torch.stack(
        [
            a,
            a.tanh(),
            a.relu(),
            a.sin(),
            a.abs(),
            a.square() - 1,
            a.sign(),
            2 * (-a.square()).exp() - 1,
            torch.where(a > 0, a, 0.1 * a),
            (1.5 * a).round(),
            (3 * a).sigmoid(),
        ],
        -1,
    )


def random_layer(dice: Dice, inputs: Tensor, width: int, noise: Tensor | float) -> Tensor:
    """Return `width` random functions of the inputs (tables, rows, k), with mean 0, deviation 1, and noise."""
    _, rows, k = inputs.shape
    density = dice.log_uniform(min(0.99, 1.5 / k), 1, 1, 1)
    weights = dice.normal(k, width) * dice.chance(density, k, width) * (dice.normal(k, 1).abs() ** 1.5 + 0.05)
    mixed = standardise(inputs @ weights + 1e-3 * dice.normal(rows, width))
    mixed = mixed * (0.6 * dice.normal(1, width)).exp() + 0.7 * dice.normal(1, width)
    # Most tables use up to three activations; the others use all.
    few = dice.integers(0, N_ACTIVATIONS - 1, 3).gather(1, dice.integers(0, 2, width))
    which = torch.where(dice.chance(0.3, 1), dice.integers(0, N_ACTIVATIONS - 1, width), few)
    bent = activations(mixed).gather(-1, which[:, None, :, None].expand(-1, rows, -1, 1)).squeeze(-1)
    share_of_trees = dice.uniform(1, 1) * dice.chance(0.5, 1, 1)
    out = torch.where(dice.chance(share_of_trees, 1, width), oblivious_trees(dice, inputs, width), bent)
    return standardise(out) + noise * dice.normal(rows, width) * dice.chance(0.7, 1, width)
