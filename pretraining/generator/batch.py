"""A batch of synthetic tables, ready for the network."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from deepsep.networks import components
from deepsep.networks.in_context_network import UNLABELLED
from pretraining.generator.causal import causal_table
from pretraining.generator.clusters import cluster_table
from pretraining.generator.columns import add_irrelevant
from pretraining.generator.dice import Dice
from pretraining.generator.gaps import leave_gaps
from pretraining.generator.label_noise import flip, tidy
from pretraining.generator.manifolds import manifold_table
from pretraining.generator.quota import draw_sample
from pretraining.generator.sensors import sensor_table
from pretraining.generator.survey import survey_table
from pretraining.generator.topics import topic_table

Family = Callable[[Dice, int, int], tuple[Tensor, Tensor]]

# Whether the columns of a family may get gaps, noise and company.
FAMILIES: dict[str, tuple[Family, bool]] = {
    "causal": (causal_table, True),
    "clusters": (cluster_table, False),
    "manifolds": (manifold_table, False),
    "sensors": (sensor_table, False),
    "survey": (survey_table, True),
    "topics": (topic_table, True),
}
# What share of the tables each family makes. The weights up to run 13 are of the first.
PRIORS: dict[str, dict[str, float]] = {
    "first": {"causal": 0.42, "clusters": 0.11, "manifolds": 0.08, "sensors": 0.15, "survey": 0.12, "topics": 0.12},
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
    shares = PRIORS[prior]
    parts = []
    n_parts = 1 if family else min(3, max(1, tables // 3))
    for i in range(n_parts):
        size = tables // n_parts + (i < tables % n_parts)
        name = family or choices.choices(list(shares), list(shares.values()))[0]
        parts.append(_draw_part(Dice(size, generator, choices), name, context, asked, hidden))
    values, classes, labels, n_classes, true_shares = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    spectrum = None
    if as_components:
        values, spectrum = components.principal_components(values, context, columns)
    return Batch(values, classes, labels, n_classes, true_shares, spectrum)


def _draw_part(dice: Dice, name: str, context: int, asked: int, columns: int) -> tuple[Tensor, ...]:
    make, rough = FAMILIES[name]
    n = context + asked
    # Quotas need more rows to choose from than are used; long tables have enough to spare.
    rows = 2 * n if n < 600 else n + n // 2 if n < 1500 else n + n // 4
    table, classes = make(dice, rows, columns)
    if rough:
        table, classes = leave_gaps(dice, add_irrelevant(dice, table)), flip(dice, classes)
    classes, n_classes = tidy(dice, classes, table)
    sample = draw_sample(dice, classes, n_classes, context, asked)
    values = table.gather(1, sample.order[..., None].expand(-1, -1, columns))
    classes = classes.gather(1, sample.order)
    labels = torch.where(sample.labelled, classes[:, :context], UNLABELLED)
    return values, classes, labels, n_classes, sample.shares
