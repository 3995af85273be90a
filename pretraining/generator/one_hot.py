"""One-hot groups: a categorical variable as one column per level."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, ranks, scaled, take


@dataclass(frozen=True)
class OneHotGroups:
    """Runs of columns that become the levels of one variable, that of the first column of the run."""

    head: Tensor  # (tables, columns): the first column of the run
    level: Tensor  # (tables, columns): place in the run
    grouped: Tensor  # (tables, columns)
    n_levels: Tensor  # (tables, 1)

    @classmethod
    def draw(cls, dice: Dice, columns: int) -> OneHotGroups:
        """Draw groups of one to six levels, in a tenth of the tables of up to 16; in 60 % of the tables."""
        size = torch.where(dice.chance(0.1, 1), dice.integers(7, 16, 1), dice.integers(1, 6, 1)).clamp(max=columns)
        place = torch.arange(columns, device=dice.device)[None]
        head = place - place % size
        share = dice.uniform(1) * dice.chance(0.6, 1)
        return cls(head, place % size, dice.uniform(columns).gather(1, head) < share, size.clamp(min=2))

    def tie(self, columns: Tensor) -> Tensor:
        """Give all columns of a group the variable of the first."""
        return torch.where(self.grouped[:, None], take(columns, self.head), columns)

    def encode(self, dice: Dice, columns: Tensor) -> Tensor:
        """Replace each group by indicators: levels are ranges of the variable, of uneven width, or scattered ones."""
        power = (0.6 * dice.normal(columns.shape[2])).exp().gather(1, self.head)
        turns = torch.where(dice.chance(0.7, 1), 1, 2)
        code = scaled(ranks(columns) ** power[:, None], (self.n_levels * turns)[:, None]) % self.n_levels[:, None]
        return torch.where(self.grouped[:, None], (code == self.level[:, None]).to(columns.dtype), columns)
