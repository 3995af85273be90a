"""Oblivious trees: every level asks one question of all rows, and the leaf gives the value."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, take

DEPTH = 4


def oblivious_trees(dice: Dice, inputs: Tensor, width: int) -> Tensor:
    """Return `width` trees of the inputs (tables, rows, k), of one to DEPTH questions each."""
    _, rows, k = inputs.shape
    asked = take(inputs, dice.integers(0, k - 1, width * DEPTH))
    # The threshold of a question is the value of some row, so that it splits the rows.
    threshold = asked.gather(1, dice.integers(0, rows - 1, 1, width * DEPTH))
    answers = (asked > threshold).view(-1, rows, width, DEPTH)
    levels = torch.arange(DEPTH, device=inputs.device)
    in_use = levels < dice.integers(1, DEPTH, 1, width, 1)
    leaf = ((answers & in_use) << levels).sum(-1)
    values = dice.normal(width, 2**DEPTH).transpose(1, 2)
    return values.gather(1, leaf)
