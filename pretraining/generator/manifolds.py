"""Manifolds: classes that are curves, rings or bent clouds with gaps between them, which unlabelled rows show."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pretraining.generator import clusters
from pretraining.generator.dice import Dice, first, standardise

LATENT = 6
MOST = 16
HARMONICS = 3


def manifold_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return classes of one or two pieces each, seen in as many columns or mixed into more."""
    n_classes = torch.where(dice.chance(0.5), 2, dice.integers(2, 8))
    n_pieces = n_classes * torch.where(dice.chance(0.75), 1, 2)
    piece = clusters.members(dice, rows, n_pieces)
    along = dice.uniform(rows)
    thickness = dice.log_uniform(0.02, 0.22, 1, 1)
    flat = _flat_shapes(dice, piece, along, n_pieces) + thickness * dice.normal(rows, 2)
    size = min(LATENT, max(2, columns))
    # Directions beside the plane of the shape hold nothing, or noise.
    beside = dice.log_uniform(0.05, 1, 1, 1) * dice.chance(0.5, 1, 1) * dice.normal(rows, size - 2)
    deep = torch.where(
        dice.chance(0.5, 1, 1),
        _curves(dice, piece, along, size) + thickness * dice.normal(rows, size),
        clusters.scatter(dice, piece, dice.uniform(1, 1, low=0.05, high=0.35), size),
    )
    latent = torch.where(dice.chance(0.6, 1, 1), torch.cat([flat, beside], 2), deep)
    latent = warped(dice, latent, 0.6 * dice.uniform(1, 1) * dice.chance(0.6, 1, 1))
    return _shown(dice, latent, columns), piece % n_classes[:, None]


def warped(dice: Dice, points: Tensor, strength: Tensor) -> Tensor:
    """Move points (tables, rows, k) along a smooth random field: what was straight is bent, gaps stay gaps."""
    size = points.shape[2]
    turns = dice.normal(size, 8)
    waves = (points @ turns + 2 * math.pi * dice.uniform(1, 8)).sin()
    return points + strength * waves @ dice.normal(8, size) / 2


def _flat_shapes(dice: Dice, piece: Tensor, along: Tensor, n_pieces: Tensor) -> Tensor:
    # Half-moons that reach into one another, rings around one another, or arms of a spiral.
    k, turn = piece.float(), math.pi * along
    upper = 1 - 2 * (piece % 2)
    moons = torch.stack([turn.cos() + k, upper * turn.sin() + 0.5 * (piece % 2)], 2)
    radius, angle = 0.4 + k, 2 * turn
    rings = torch.stack([radius * angle.cos(), radius * angle.sin()], 2)
    arms = dice.uniform(1, low=0.3, high=1.2) * along + k / n_pieces[:, None]
    reach = (0.3 + 2 * along) * n_pieces[:, None] / 2
    spirals = torch.stack([reach * (2 * math.pi * arms).cos(), reach * (2 * math.pi * arms).sin()], 2)
    kind = dice.uniform(1, 1)
    flat = torch.where(kind < 0.4, moons, torch.where(kind < 0.7, rings, spirals))
    turned = math.pi * dice.uniform(1, 1)
    x, y = flat.unbind(2)
    turned_flat = torch.stack(
        [x * turned[..., 0].cos() - y * turned[..., 0].sin(), x * turned[..., 0].sin() + y * turned[..., 0].cos()], 2
    )
    return torch.where(dice.chance(0.5, 1, 1), turned_flat, flat)


def _curves(dice: Dice, piece: Tensor, along: Tensor, size: int) -> Tensor:
    # Each piece is a smooth curve of its own: a few waves in every direction, the slow ones the largest.
    order = torch.arange(1, HARMONICS + 1, device=dice.device)
    steps = (math.pi * along[..., None] * order).sin(), (math.pi * along[..., None] * order).cos()
    waves = torch.cat([*steps, torch.ones_like(along)[..., None]], 2)
    fall = torch.cat([1 / order, 1 / order, torch.ones(1, device=dice.device)])
    shapes = dice.normal(MOST, 2 * HARMONICS + 1, size) * fall[:, None]
    each = shapes.flatten(2).gather(1, piece[..., None].expand(-1, -1, shapes[0, 0].numel()))
    return (waves[..., None] * each.view(*waves.shape, size)).sum(2)


def _shown(dice: Dice, latent: Tensor, columns: int) -> Tensor:
    size = latent.shape[2]
    rows = latent.shape[1]
    place = torch.arange(columns, device=dice.device)
    # Each column is one direction, or a mixture of all; with few columns seldom, because a mixture may hide the gaps.
    plain = torch.nn.functional.one_hot(place % size, size).float().transpose(0, 1).expand(dice.tables, -1, -1)
    mixed = dice.normal(size, columns)
    shown = standardise(latent @ torch.where(dice.chance(0.5 if columns > 3 else 0.8, 1, 1), plain, mixed))
    shown = shown + dice.log_uniform(0.005, 0.2, 1, 1) * dice.chance(0.6, 1, 1) * dice.normal(rows, columns)
    # Beyond the first few, columns may have nothing to do with it.
    useful = first(size + (columns - size) * dice.uniform(), columns) | dice.chance(0.7, 1)
    return torch.where(useful[:, None], shown, dice.normal(rows, columns))
