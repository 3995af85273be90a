"""Random numbers for a batch of tables: every draw has one entry per table in front."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Dice:
    """Draws for `tables` tables, from one generator.

    What must be decided on the host (how many layers, which family) comes from `choices`: reading it off the GPU
    would make the host wait.
    """

    tables: int
    generator: torch.Generator
    choices: random.Random

    @property
    def device(self) -> torch.device:
        return self.generator.device

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        draw = torch.rand(self.tables, *shape, generator=self.generator, device=self.device)
        return draw if (low, high) == (0.0, 1.0) else low + (high - low) * draw

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(self.tables, *shape, generator=self.generator, device=self.device)

    def log_uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return self.uniform(*shape, low=math.log(low), high=math.log(high)).exp()

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Integers from `low` to `high`, both included."""
        return torch.randint(low, high + 1, (self.tables, *shape), generator=self.generator, device=self.device)

    def chance(self, probability: float | Tensor, *shape: int) -> Tensor:
        return self.uniform(*shape) < probability

    def below(self, bound: Tensor | int, *shape: int) -> Tensor:
        """Integers from 0 to `bound` - 1."""
        return scaled(self.uniform(*shape), bound)

    def weighted(self, weights: Tensor, count: int) -> Tensor:
        """Draw `count` indices with replacement, as often as `weights` (tables, n) say."""
        # Not torch.multinomial, which may wait for the GPU to check the weights.
        ends = weights.cumsum(1)
        return torch.searchsorted(ends, self.uniform(count) * ends[:, -1:], right=True).clamp(max=weights.shape[1] - 1)


def scaled(fraction: Tensor, bound: Tensor | int) -> Tensor:
    """Numbers in [0, 1] as integers from 0 to `bound` - 1."""
    # A fraction close to 1 rounds up to `bound` itself when multiplied: hence the clamp.
    bound = torch.as_tensor(bound, device=fraction.device) if isinstance(bound, Tensor) else bound
    index = (fraction * bound).long()
    if isinstance(bound, Tensor):
        return torch.minimum(index, (bound - 1).expand_as(index)).clamp(min=0)
    return index.clamp(0, bound - 1)


def first(count: Tensor, size: int) -> Tensor:
    """Mark the first `count` of `size` entries: (tables, ...) -> (tables, ..., size)."""
    return torch.arange(size, device=count.device) < count[..., None]


def standardise(values: Tensor) -> Tensor:
    """Mean 0 and deviation 1 over the rows of every table (tables, rows, columns)."""
    values = values - values.mean(1, keepdim=True)
    return values / (values.square().mean(1, keepdim=True).sqrt() + 1e-4)


def ranks(values: Tensor) -> Tensor:
    """Ranks over the rows of every table, in [0, 1)."""
    order = values.argsort(1)
    places = torch.arange(values.shape[1], device=values.device, dtype=values.dtype) / values.shape[1]
    places = places.view(1, -1, *[1] * (values.dim() - 2)).expand_as(values)
    return torch.empty_like(values).scatter_(1, order, places)


def take(values: Tensor, index: Tensor) -> Tensor:
    """Columns of every table by index: (tables, rows, p), (tables, k) -> (tables, rows, k)."""
    return values.gather(2, index[:, None].expand(-1, values.shape[1], -1))
