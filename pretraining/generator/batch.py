"""A batch of synthetic tables, ready for the network."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from deepsep.networks import components
from deepsep.networks.in_context_network import UNLABELED
from pretraining.generator import worth
from pretraining.generator.causal import causal_table
from pretraining.generator.clusters import cluster_table
from pretraining.generator.columns import add_irrelevant
from pretraining.generator.dice import Dice
from pretraining.generator.gaps import leave_gaps
from pretraining.generator.graph import graph_table
from pretraining.generator.label_noise import flip, tidy
from pretraining.generator.manifolds import manifold_table
from pretraining.generator.profiles import profile_table
from pretraining.generator.quota import draw_sample
from pretraining.generator.rules import rule_table
from pretraining.generator.sensors import sensor_table
from pretraining.generator.series import series_table
from pretraining.generator.survey import survey_table
from pretraining.generator.topics import topic_table


class Family(NamedTuple):
    """What makes tables, and what may be done to them afterwards."""

    make: Callable[[Dice, int, int], tuple[Tensor, Tensor]]
    rough: bool = True  # columns may get gaps, noise and company
    chosen: bool = True  # some tables are hopeless: they are left out where the prior makes more than it needs


FAMILIES: dict[str, Family] = {
    "causal": Family(causal_table),
    "clusters": Family(cluster_table, rough=False, chosen=False),
    "manifolds": Family(manifold_table, rough=False, chosen=False),
    "sensors": Family(sensor_table, rough=False, chosen=False),
    "survey": Family(survey_table),
    "topics": Family(topic_table),
    "graph": Family(graph_table),
    # A forest misses parity, which a network need not.
    "rules": Family(rule_table, chosen=False),
    "profiles": Family(profile_table),
    "series": Family(series_table, rough=False),
}


class Prior(NamedTuple):
    """What share of the tables each family makes, and how many are made for each that is taken."""

    shares: dict[str, float]
    made: float = 1.0


# The weights up to run 13 are of the first.
PRIORS = {
    "first": Prior(
        {"causal": 0.42, "clusters": 0.11, "manifolds": 0.08, "sensors": 0.15, "survey": 0.12, "topics": 0.12}
    ),
    "second": Prior(
        {
            "causal": 0.22,
            "graph": 0.2,
            "rules": 0.12,
            "profiles": 0.08,
            "series": 0.06,
            "clusters": 0.06,
            "manifolds": 0.06,
            "sensors": 0.06,
            "survey": 0.07,
            "topics": 0.07,
        },
        made=1.25,
    ),
}


class Batch(NamedTuple):
    """Tables of one shape; the rows of the context come first."""

    values: Tensor  # (tables, context + asked, columns)
    classes: Tensor  # (tables, context + asked)
    labels: Tensor  # (tables, context): UNLABELLED where hidden
    n_classes: Tensor  # (tables,)
    shares: Tensor  # (tables, MAX_CLASSES)
    spectrum: Tensor | None  # (tables, columns), where the columns are principal components


@torch.no_grad()
def draw_batch(
    tables: int,
    context: int,
    asked: int,
    columns: int,
    *,
    generator: torch.Generator,
    choices: random.Random,
    prior: str = "first",
    family: str | None = None,
    share_of_components: float = 0.15,
) -> Batch:
    """Draw tables of one shape, from up to three families; `family` draws all from one."""
    as_components = columns <= components.MOST_COMPONENTS and choices.random() < share_of_components
    # Only the first components are kept, so there may be more columns behind them than the network sees.
    hidden = choices.choice([columns, 64, 100]) if as_components and columns == components.MOST_COMPONENTS else columns
    shares, made = PRIORS[prior]
    parts = []
    n_parts = 1 if family else min(3, max(1, tables // 3))
    for i in range(n_parts):
        size = tables // n_parts + (i < tables % n_parts)
        name = family or choices.choices(list(shares), list(shares.values()))[0]
        n_made = math.ceil(made * size) if FAMILIES[name].chosen else size
        parts.append(_draw_part(Dice(n_made, generator, choices), FAMILIES[name], size, context, asked, hidden))
    values, classes, labels, n_classes, true_shares = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    spectrum = None
    if as_components:
        values, spectrum = components.principal_components(values, context, columns)
    return Batch(values, classes, labels, n_classes, true_shares, spectrum)


def _draw_part(dice: Dice, family: Family, size: int, context: int, asked: int, columns: int) -> tuple[Tensor, ...]:
    n = context + asked
    # Quotas need more rows to choose from than are used; long tables have enough to spare.
    rows = 2 * n if n < 600 else n + n // 2 if n < 1500 else n + n // 4
    table, classes = family.make(dice, rows, columns)
    if family.rough:
        table, classes = leave_gaps(dice, add_irrelevant(dice, table)), flip(dice, classes)
    classes, n_classes = tidy(dice, classes, table)
    if dice.tables > size:
        kept = worth.keep(dice, table, classes, size)
        table, classes, n_classes = table[kept], classes[kept], n_classes[kept]
        dice = Dice(size, dice.generator, dice.choices)
    sample = draw_sample(dice, classes, n_classes, context, asked)
    values = table.gather(1, sample.order[..., None].expand(-1, -1, columns))
    classes = classes.gather(1, sample.order)
    labels = torch.where(sample.labeled, classes[:, :context], UNLABELED)
    return values, classes, labels, n_classes, sample.shares
