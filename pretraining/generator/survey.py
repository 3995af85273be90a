"""Survey answers: ordered answers that a few latent traits of a person explain."""

from __future__ import annotations

import torch
from torch import Tensor

from deepsep.networks.in_context_network import MAX_CLASSES
from pretraining.generator import clusters
from pretraining.generator.dice import Dice, first, scaled, standardise
from pretraining.generator.one_hot import OneHotGroups
from pretraining.generator.targets import cut, largest, nearest

TRAITS = 10


def traits(dice: Dice, rows: int) -> Tensor:
    """Return correlated traits of every person; in 40 % of the tables people come in types."""
    plain = dice.normal(rows, TRAITS)
    cluster = clusters.members(dice, rows, dice.integers(2, 8))
    typed = clusters.scatter(dice, cluster, dice.uniform(1, 1, low=0.3), TRAITS)
    people = torch.where(dice.chance(0.4, 1, 1), typed, plain) * first(dice.integers(2, TRAITS), TRAITS)[:, None]
    mixing = torch.eye(TRAITS, device=dice.device) + dice.uniform(1, 1, high=0.4) * dice.normal(TRAITS, TRAITS)
    return standardise(people @ mixing)


def answers(dice: Dice, people: Tensor, items: int) -> Tensor:
    """Return answers on scales of two to seven points; some items are reversed, some people say yes to everything."""
    main = torch.nn.functional.one_hot(dice.integers(0, TRAITS - 1, items), TRAITS).transpose(1, 2)
    sign = torch.where(dice.chance(0.3, 1, items), -1.0, 1.0)
    loadings = sign * dice.uniform(1, items, low=0.3) * main + 0.15 * dice.uniform(1, 1) * dice.normal(TRAITS, items)
    rows = people.shape[1]
    opinion = people @ loadings + dice.uniform(1, items, low=0.2) * dice.uniform(1, 1, low=0.3) * dice.normal(
        rows, items
    )
    opinion = opinion + 0.4 * dice.uniform(1, 1) * dice.chance(0.5, 1, 1) * dice.normal(rows, 1)
    popularity = 0.7 * dice.normal(1, items)
    share = torch.special.ndtr(standardise(opinion) + popularity)
    # Most questionnaires have one scale throughout.
    one, many = dice.integers(2, 7, 1, 1), dice.integers(2, 7, 1, items)
    return scaled(share, torch.where(dice.chance(0.7, 1, 1), one, many)).to(people.dtype)


def survey_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return answers, and a class that the same people's traits decide."""
    people = traits(dice, rows)
    groups = OneHotGroups.draw(dice, columns)
    questionnaire = answers(dice, people, columns)
    # Facts about people (age, income) follow the traits as well, more loosely, and are not on a scale.
    facts = standardise(people @ dice.normal(TRAITS, columns)) + dice.uniform(1, columns, high=2.0) * dice.normal(
        rows, columns
    )
    is_fact = dice.chance(dice.uniform(1, 1) * dice.chance(0.5, 1, 1), 1, columns) | groups.grouped[:, None]
    table = torch.where(is_fact, groups.tie(facts), questionnaire)

    n_classes = dice.integers(2, 8)
    noise = dice.log_uniform(0.05, 0.8, 1, 1)
    by_cut = cut(dice, people[..., 0] + noise[..., 0] * dice.normal(rows), n_classes)
    by_size = largest(dice, people @ dice.normal(TRAITS, MAX_CLASSES), n_classes, noise)
    by_distance = nearest(dice, people[..., :5] + 0.5 * noise * dice.normal(rows, 5), n_classes)
    way = dice.uniform(1)
    classes = torch.where(way < 0.35, by_cut, torch.where(way < 0.7, by_size, by_distance))
    return groups.encode(dice, table), classes
