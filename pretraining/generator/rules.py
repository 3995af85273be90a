"""Rules over a few discrete columns: parity, counts, decision lists, look-up tables, comparisons."""

from __future__ import annotations

import torch
from torch import Tensor

from pretraining.generator.dice import Dice, first, scaled, take
from pretraining.generator.one_hot import OneHotGroups

MOST_LEVELS = 6
LITERALS = 6
RULES = 6


def rule_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return columns, most of them discrete, and classes that a rule over up to six of them decides."""
    groups = OneHotGroups.draw(dice, columns)
    one, each = dice.integers(2, MOST_LEVELS, 1), dice.integers(2, MOST_LEVELS, columns)
    levels = torch.where(dice.chance(0.6, 1), torch.where(dice.chance(0.5, 1), 2, one), each)
    levels = torch.where(groups.grouped, groups.n_levels.clamp(max=MOST_LEVELS), levels)
    # Columns are independent, or have something in common.
    common = 0.8 * dice.uniform(1, columns) * dice.chance(0.4, 1, 1)
    latent = common * dice.normal(rows, 1) + (1 - common.square()).sqrt() * dice.normal(rows, columns)
    rank = torch.special.ndtr(latent) ** (0.4 * dice.normal(1, columns) * dice.chance(0.5, 1, 1)).exp()
    rank = groups.tie(rank)
    codes = scaled(rank, levels[:, None])

    relevant = _relevant(dice, columns)
    classes = _decide(dice, take(codes, relevant), levels.gather(1, relevant))

    # Categories have no order; some columns show the number that the levels are ranges of.
    shuffled = (codes * 5 + dice.integers(0, MOST_LEVELS - 1, 1, columns)) % levels[:, None]
    shown = torch.where(dice.chance(0.3, 1, columns), shuffled, codes).to(rank.dtype)
    continuous = dice.chance(dice.uniform(1, 1) * dice.chance(0.35, 1, 1), 1, columns)
    shown = torch.where(continuous, rank, shown)
    return torch.where(groups.grouped[:, None], (codes == groups.level[:, None]).to(rank.dtype), shown), classes


def _relevant(dice: Dice, columns: int) -> Tensor:
    """Draw the columns of a rule, all different where there are enough."""
    order = dice.uniform(columns).argsort(1)
    return order[:, torch.arange(LITERALS, device=dice.device) % columns]


def _decide(dice: Dice, codes: Tensor, levels: Tensor) -> Tensor:
    """Return the classes (tables, rows) by a rule over `codes` (tables, rows, LITERALS)."""
    rows = codes.shape[1]
    # A literal asks whether a code is at least something, or even; no literal is always true.
    least = 1 + dice.below(levels - 1, LITERALS)
    above, even = codes >= least[:, None], codes % 2 == dice.integers(0, 1, 1, LITERALS)
    literals = torch.where(dice.chance(0.6, 1, LITERALS), above, even)

    n_used = 2 + dice.integers(0, 1, 1) + dice.integers(0, 1, 1) * dice.integers(0, 2, 1)  # 2 to 5, most often 2 or 3
    used = first(n_used, LITERALS)
    true = (literals & used).sum(2)
    parity = true % 2
    count = torch.where(dice.chance(0.5, 1), (true >= 1 + dice.below(n_used, 1)).long(), true)

    n_classes = torch.where(dice.chance(0.5, 1), 2, dice.integers(2, 8, 1))
    size = levels[:, :3].clamp(max=MOST_LEVELS)
    cell = codes[..., 0] + size[:, None, 0] * codes[..., 1]
    cell = torch.where(dice.chance(0.4, 1), cell + (size[:, 0] * size[:, 1])[:, None] * codes[..., 2], cell)
    book = dice.below(n_classes, MOST_LEVELS**3)
    looked_up = book.gather(1, cell)

    asked = dice.uniform(RULES, LITERALS).argsort(2) < dice.integers(1, 3, RULES, 1)
    wanted = dice.chance(0.5, 1, RULES, LITERALS)
    holds = ((literals[:, :, None] == wanted) | ~asked[:, None]).all(3)
    # The last rule of all holds always.
    holds = torch.cat([holds & first(dice.integers(2, RULES, 1), RULES), holds.new_ones(dice.tables, rows, 1)], 2)
    verdict = torch.cat([(torch.arange(RULES, device=dice.device) % n_classes), dice.below(n_classes, 1)], 1)
    listed = verdict.gather(1, holds.to(torch.uint8).argmax(2))

    a, b, c, d = codes[..., :4].unbind(2)
    balance = 1 + ((a + 1) * (b + 1) - (c + 1) * (d + 1)).sign()
    equal = (a == b).long() | (literals[..., 2] & (c == d)).long()
    compared = torch.where(dice.chance(0.5, 1), balance, equal)
    added = (a + b) % n_classes.clamp(min=2)

    way = dice.uniform(1)
    classes = torch.where(way < 0.25, parity, torch.where(way < 0.35, count, looked_up))
    classes = torch.where(way > 0.6, listed, classes)
    classes = torch.where(way > 0.85, compared, classes)
    return torch.where(way > 0.94, added, classes)
