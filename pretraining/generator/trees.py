"""Oblivious trees: every level asks one question of all rows, and the leaf gives the value."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, take

DEPTH = 4


def oblivious_trees(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Return `width` trees of the inputs (tables, rows, k), of one to DEPTH questions each."""
    _, rows, k = inputs.shape
    depth = dice.integers(1, DEPTH, 1, width)
    leaf = torch.zeros(dice.tables, rows, width, dtype=torch.uint8, device=inputs.device)
    for level in range(DEPTH):
        asked = take(inputs, dice.integers(0, k - 1, width))
        # The threshold of a question is the value of some row, so that it splits the rows.
        threshold = asked.gather(1, dice.integers(0, rows - 1, 1, width))
        leaf += ((asked > threshold) & (level < depth)).to(torch.uint8) * 2**level
    values = dice.normal(width, 2**DEPTH).transpose(1, 2)
    return values.gather(1, leaf.long())
