"""Which tables are worth learning from: not those in which nothing can be learned, nor those without a mistake.

A small forest that is fitted to some rows of every table at once, on the GPU, and asked about others. Its trees are
drawn at random, all tables in one batch: a few dozen launches, and nothing waits for an answer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deepsep.networks.in_context_network import MAX_CLASSES
from pretraining.generator.dice import Dice, take

TREES = 32
DEPTH = 5
FITTED, ASKED = 256, 128
LEAST_EVIDENCE = 3.0


def score(dice: Dice, values: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Return by how many standard errors a forest's Brier score beats that of the classes' shares, and its accuracy.

    `values` (tables, rows, columns) in no order; the first rows are fitted to, the next are asked about.
    """
    rows = min(values.shape[1], FITTED + ASKED)
    fitted = rows * FITTED // (FITTED + ASKED)
    leaf = _leaves(dice, values[:, :rows], fitted)
    one_hot = torch.nn.functional.one_hot(classes[:, :rows], MAX_CLASSES).float()
    known, truth = one_hot[:, :fitted], one_hot[:, fitted:]
    shares = known.mean(1, keepdim=True)

    tables, leaves = len(values), 2**DEPTH
    place = (leaf + leaves * torch.arange(TREES, device=leaf.device)).flatten(1)  # (tables, rows * TREES)
    n_place, cells = fitted * TREES, TREES * leaves
    # Every leaf starts as one row of the average class.
    counts = shares.expand(-1, cells, -1).clone()
    index = place[:, :n_place, None].expand(-1, -1, MAX_CLASSES)
    counts.scatter_add_(1, index, known.repeat_interleave(TREES, 1))
    chances = counts / counts.sum(2, keepdim=True)
    found = chances.gather(1, place[:, n_place:, None].expand(-1, -1, MAX_CLASSES))
    forest = found.view(tables, rows - fitted, TREES, MAX_CLASSES).mean(2)

    gain = (shares - truth).square().sum(2) - (forest - truth).square().sum(2)
    error = gain.std(1) / gain.shape[1] ** 0.5
    right = (forest.argmax(2) == classes[:, fitted:rows]).float().mean(1)
    return gain.mean(1) / (error + 1e-6), right


def keep(dice: Dice, values: Tensor, classes: Tensor, wanted: int) -> Tensor:
    """Return the indices of `wanted` tables: those worth learning from, and others only where these run out."""
    evidence, accuracy = score(dice, values, classes)
    dropped = (evidence < LEAST_EVIDENCE) | (accuracy == 1)
    return (dropped + 0.5 * dice.uniform()).argsort()[:wanted]


def _leaves(dice: Dice, values: Tensor, fitted: int) -> Tensor:
    """Return the leaf of every row in every tree (tables, rows, TREES): questions about random columns."""
    rows = values.shape[1]
    leaf = torch.zeros(len(values), rows, TREES, dtype=torch.long, device=values.device)
    for level in range(DEPTH):
        asked = take(values, dice.integers(0, values.shape[2] - 1, TREES))
        # Between two rows' values, so that a question about two levels tells them apart.
        ends = asked.gather(1, dice.integers(0, fitted - 1, 2, TREES))
        leaf += (asked > ends.mean(1, keepdim=True)).long() * 2**level
    return leaf
