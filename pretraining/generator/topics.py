"""Topic-model segments: people are mixtures of topics; the segment is a person's main topic in other questions."""

from __future__ import annotations

import torch
from torch import Tensor

from deepsep.networks.in_context_network import MAX_CLASSES
from pretraining.generator.columns import warp
from pretraining.generator.dice import Dice, first, standardise
from pretraining.generator.layers import random_layer
from pretraining.generator.one_hot import OneHotGroups
from pretraining.generator.survey import TRAITS, answers, traits

QUESTIONS = 24


def topic_table(dice: Dice, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return columns that follow the same people's traits, and segments found in answers that are not shown."""
    people = traits(dice, rows)
    n_topics = dice.integers(2, 8)
    sharpness = dice.log_uniform(1.0, 6.0, 1, 1)
    leaning = sharpness * standardise(people @ dice.normal(TRAITS, MAX_CLASSES)) + 0.7 * dice.normal(1, MAX_CLASSES)
    mixture = leaning.masked_fill(~first(n_topics, MAX_CLASSES)[:, None], -torch.inf).softmax(2)
    # Every topic has its own answers; a person gives the answers of the mixture.
    habits = (2 * dice.normal(MAX_CLASSES, QUESTIONS)).sigmoid()
    given = (
        torch.rand((*mixture.shape[:2], QUESTIONS), generator=dice.generator, device=dice.device) < mixture @ habits
    ).float()
    # One step of inference: how well each topic explains the answers of a person, beside how common it is.
    log_odds = (habits / (1 - habits)).clamp(1e-3, 1e3).log()
    evidence = given @ log_odds.transpose(1, 2) + (1 - habits).clamp(min=1e-3).log().sum(2)[:, None]
    common = mixture.mean(1, keepdim=True).clamp(min=1e-6).log()
    likeliest = (evidence + common).masked_fill(~first(n_topics, MAX_CLASSES)[:, None], -torch.inf).argmax(2)
    segments = torch.where(dice.chance(0.5, 1), likeliest, mixture.argmax(2))

    groups = OneHotGroups.draw(dice, columns)
    noise = dice.log_uniform(0.05, 1.0, 1, 1)
    measured = random_layer(dice, torch.cat([people, leaning[..., :4]], 2), columns, noise)
    questionnaire = answers(dice, people, columns)
    is_answer = dice.chance(dice.uniform(1, 1), 1, columns) & ~groups.grouped[:, None]
    shown = groups.encode(dice, warp(dice, groups.tie(measured), ~groups.grouped))
    return torch.where(is_answer, questionnaire, shown), segments
