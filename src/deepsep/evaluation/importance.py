"""Permutation importance: how much worse predictions get when a column is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.evaluation.frames import take_mixed


@dataclass(frozen=True)
class Permuted:
    """The effect of shuffling each column on each row, as means over the repeats."""

    loss: Array  # (columns, rows), increase in −log p of the true class
    # (columns, rows), loss of accuracy: 1 for a row that was right and is now wrong, −1 for the reverse
    accuracy: Array
    per_class: Array  # (columns, rows, classes), increase in the log loss of each class against the rest


def permute(
    predict_proba: Callable[[Any], Array],
    table: Any,
    codes: Array,  # (rows,), their classes
    repeats: int,  # number of times that each column is shuffled
    rng: np.random.Generator,
    # columns that are shuffled together and count as one; by default each column alone
    groups: Sequence[Sequence[int]] | None = None,
    batch: int = 20_000,  # approximate number of rows that are predicted in one call
) -> Permuted:
    """Shuffle each column of the table in turn and measure the effect on the predictions."""
    groups = [[j] for j in range(table.shape[1])] if groups is None else groups
    n, d = len(codes), len(groups)
    before = _losses(predict_proba(table), codes)
    sums = [np.zeros((d, *part.shape)) for part in before]
    jobs = [(j, rng.permutation(n)) for j in range(d) for _ in range(repeats)]
    jobs = [(j, order) for j, order in jobs if len(groups[j])]  # an empty group changes nothing
    per_call = max(1, batch // n)
    for start in range(0, len(jobs), per_call):
        some = jobs[start : start + per_call]
        after = _losses(
            predict_proba(_shuffled(table, [(groups[j], order) for j, order in some])), np.tile(codes, len(some))
        )
        for i, (j, _) in enumerate(some):
            for total, now, was in zip(sums, after, before, strict=True):
                total[j] += now[i * n : (i + 1) * n] - was
    loss, wrong, per_class = (total / repeats for total in sums)
    return Permuted(loss, wrong, per_class)


def _shuffled(table: Any, jobs: list[tuple[Sequence[int], Array]]) -> Any:
    """Return one copy of the table for each job, with the job's columns shuffled."""
    n = len(jobs[0][1])
    rows = np.tile(np.arange(n), len(jobs))
    other: dict[int, Array] = {}
    for i, (columns, order) in enumerate(jobs):
        for j in columns:
            other.setdefault(j, rows.copy())[i * n : (i + 1) * n] = order
    return take_mixed(table, rows, other)


def _losses(p: Array, codes: Array, floor: float = 1e-6) -> tuple[Array, Array, Array]:
    p = np.clip(p, floor, 1 - floor)  # so that a single confident mistake does not dominate
    own = np.arange(len(p)), codes
    per_class = -np.log1p(-p)
    per_class[own] = -np.log(p[own])
    return -np.log(p[own]), (p.argmax(axis=1) != codes).astype(float), per_class


def join(parts: list[Permuted]) -> Permuted:
    """Join the results of several folds."""
    return Permuted(
        *(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("loss", "accuracy", "per_class"))
    )
