"""Label noise, and classes as a table has them: present, large enough, and in no order."""

from __future__ import annotations

import torch
from torch import Tensor

from deepsep.networks.in_context_network import MAX_CLASSES
from pretraining.generator.dice import Dice


def flip(dice: Dice, classes: Tensor) -> Tensor:
    """Give some rows the class of another row, in half of the tables; seldom many."""
    rate = 0.35 * dice.uniform(1).square() * dice.chance(0.5, 1)
    return torch.where(dice.chance(rate, classes.shape[1]), classes.roll(1, 1), classes)


def counts(classes: Tensor) -> Tensor:
    """Count the rows of every class: (tables, rows) -> (tables, MAX_CLASSES)."""
    empty = torch.zeros(len(classes), MAX_CLASSES, device=classes.device)
    return empty.scatter_add_(1, classes, torch.ones_like(classes, dtype=empty.dtype))


def tidy(dice: Dice, classes: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return classes numbered 0, 1, ... in random order, and how many there are: always two or more.

    Classes with fewer than 0.5 % of the rows join the largest.
    """
    rows = classes.shape[1]
    size = counts(classes)
    rare = size.gather(1, classes) < max(4, 0.005 * rows)
    classes = torch.where(rare, size.argmax(1, keepdim=True), classes)
    # Where one class is left, the class is whether a random column is above its mean, and if that is constant a coin.
    lonely = (counts(classes) > 0).sum(1, keepdim=True) < 2
    column = columns.gather(2, dice.integers(0, columns.shape[2] - 1, 1, 1).expand(-1, rows, -1)).squeeze(2)
    halves = column > column.mean(1, keepdim=True)
    share = halves.float().mean(1, keepdim=True)
    halves = torch.where((share - 0.5).abs() < 0.48, halves, dice.chance(0.5, rows))
    classes = torch.where(lonely, halves.long(), classes)
    present = counts(classes) > 0
    number = (dice.uniform(MAX_CLASSES) + 2 * ~present).argsort(1).argsort(1)
    return number.gather(1, classes), present.sum(1)
