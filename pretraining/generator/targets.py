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
