"""Quota sampling: who gets a label, who stays without one, and who is only asked about."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from deepsep.networks.in_context_network import MAX_CLASSES
from pretraining.generator.dice import Dice, first
from pretraining.generator.label_noise import counts

MOST_LABELS = 1500


class Sample(NamedTuple):
    """Rows in order: labelled, unlabelled context, asked."""

    order: Tensor  # (tables, context + asked)
    labeled: Tensor  # (tables, context)
    shares: Tensor  # (tables, MAX_CLASSES): of the classes among all rows without a label


def draw_sample(dice: Dice, classes: Tensor, n_classes: Tensor, context: int, asked: int) -> Sample:
    """Draw the rows of a context and those asked about.

    In 60 % of the tables labels fill quotas: every class has the same number, while the unlabelled rows keep the
    shares of the population. In the others labels are drawn like all rows. Every class has a label.
    """
    rows = classes.shape[1]
    shuffled = dice.uniform(rows)
    # Number the rows of every class in the order of the shuffle: 0, 1, 2, ...
    by_class = (classes + shuffled * 0.999).argsort(1)
    place = torch.arange(rows, device=classes.device).expand_as(classes)
    size = counts(classes)
    begin = (size.cumsum(1) - size).gather(1, classes.gather(1, by_class))
    within = torch.empty_like(shuffled).scatter_(1, by_class, place - begin)
    drawn = torch.where(within == 0, -1.0, shuffled)
    key = torch.where(dice.chance(0.6, 1), within + 0.5 * shuffled, drawn)
    turn = torch.empty_like(place).scatter_(1, key.argsort(1), place)

    most = min(context, MOST_LABELS)
    n_labeled = dice.log_uniform(min(5, most), most + 0.99).long().clamp(max=most)
    # Some tables have no unlabelled rows in the context, so that the network does not come to need them.
    n_labeled = torch.where(dice.chance(0.06), context, n_labeled)
    n_labeled = torch.maximum(n_labeled, n_classes.clamp(max=context))
    gets_label = turn < n_labeled[:, None]
    order = torch.where(gets_label, turn.float() / rows - 2, shuffled).argsort(1)[:, : context + asked]

    weights = torch.where(gets_label, 0.0, 1.0)
    left = torch.zeros(dice.tables, MAX_CLASSES, device=classes.device).scatter_add_(1, classes, weights)
    return Sample(order, first(n_labeled, context), left / left.sum(1, keepdim=True))
