"""Targets: how a class comes out of numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from deepsep.networks.in_context_network import MAX_CLASSES
from pretraining.generator.dice import Dice, first, ranks, standardise


def cut(dice: Dice, score: Tensor, n_classes: Tensor) -> Tensor:
    """Cut one number (tables, rows) into classes of uneven size."""
    sizes = (dice.normal(MAX_CLASSES) * dice.uniform(1, high=1.2)).exp() * first(n_classes, MAX_CLASSES)
    edges = sizes.cumsum(1) / sizes.sum(1, keepdim=True)
    return torch.minimum(torch.searchsorted(edges, ranks(score), right=True), n_classes[:, None] - 1)


def largest(dice: Dice, scores: Tensor, n_classes: Tensor, noise: Tensor) -> Tensor:
    """Take the class with the largest of MAX_CLASSES scores, where some classes have a head start."""
    scores = standardise(scores) * (0.3 * dice.normal(1, MAX_CLASSES)).exp()
    scores = (
        scores
        + dice.normal(1, MAX_CLASSES) * dice.uniform(1, 1)
        + noise * torch.randn(scores.shape, generator=dice.generator, device=scores.device)
    )
    return scores.masked_fill(~first(n_classes, MAX_CLASSES)[:, None], -torch.inf).argmax(2)


def nearest(dice: Dice, points: Tensor, n_classes: Tensor, prototypes: int = 64) -> Tensor:
    """Take the class of the nearest prototype, one or many per class; prototypes are rows themselves."""
    size = points.shape[2]
    centres = points[:, :prototypes] + 0.1 * dice.normal(min(prototypes, points.shape[1]), size)
    n_centres = centres.shape[1]
    in_turn = torch.arange(n_centres, device=points.device) % n_classes[:, None]
    at_random = dice.below(n_classes[:, None], n_centres)
    owner = torch.where(dice.chance(0.5, 1), in_turn, at_random)
    in_use = torch.where(dice.chance(0.5), n_classes.float(), n_classes + 40 * dice.uniform())
    distance = torch.cdist(points, centres).masked_fill(~first(in_use, n_centres)[:, None], torch.inf)
    return owner.gather(1, distance.argmin(2))


def number_of_classes(dice: Dice) -> Tensor:
    """Draw two to 26 classes, few more often than many."""
    n_classes = torch.where(dice.chance(0.8), dice.integers(2, 10), dice.integers(2, 26))
    return torch.where(dice.chance(0.15), 2, n_classes)


def classes_of(dice: Dice, sources: Tensor, n_classes: Tensor | None = None) -> Tensor:
    """Make classes of numbers (tables, rows, MAX_CLASSES or more) in one of the three ways."""
    n_classes = number_of_classes(dice) if n_classes is None else n_classes
    rows = sources.shape[1]
    noise = dice.log_uniform(0.003, 0.5, 1, 1)
    # One node alone has few values where it is a step or a tree, and a cut through many equal ones would be chance.
    mixing = dice.uniform(1, 1) ** torch.arange(4, device=sources.device)
    score = standardise((standardise(sources[..., :4]) * mixing).sum(2, keepdim=True))[..., 0]
    by_cut = cut(dice, score + noise[..., 0] * dice.normal(rows), n_classes)
    by_size = largest(dice, sources[..., :MAX_CLASSES], n_classes, noise)
    points = standardise(sources[..., :6]) * dice.chance(dice.uniform(1, 1) + 0.2, 1, 6)
    by_distance = nearest(dice, points + 0.5 * noise * dice.normal(rows, 6), n_classes)
    way = dice.uniform(1)
    return torch.where(way < 0.3, by_cut, torch.where(way < 0.65, by_size, by_distance))
