"""Gaps: single cells and whole blocks of questions that were not answered, filled with the median."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, ranks


def gaps(dice: Dice, columns: Tensor) -> Tensor:
    """Mark missing cells: scattered ones in 30 % of the tables, blocks that some people skip in 15 %."""
    _, rows, n = columns.shape
    rate = 0.3 * dice.uniform(1, n) * dice.chance(0.3, 1, n) * dice.chance(0.3, 1, 1)
    scattered = dice.chance(rate, rows, n)
    # Who skips a block is chance, or depends on the answer to another question.
    filtered = ranks(columns[..., :1])
    skips = torch.where(dice.chance(0.5, 1, 1), filtered, dice.uniform(rows, 1)) < dice.uniform(
        1, 1, low=0.05, high=0.6
    )
    block = dice.chance(0.5 * dice.uniform(1, 1), 1, n) & dice.chance(0.15, 1, 1)
    return scattered | (skips & block)


def leave_gaps(dice: Dice, columns: Tensor) -> Tensor:
    """Fill missing cells with the median; some columns make way for an indicator of the gaps beside them."""
    missing = gaps(dice, columns)
    filled = torch.where(missing, columns.median(1, keepdim=True).values, columns)
    if columns.shape[2] < 3:
        return filled
    beside = missing.roll(1, 2)
    shown = beside.any(1, keepdim=True) & dice.chance(0.4, 1, columns.shape[2])
    return torch.where(shown, beside.to(columns.dtype), filled)
