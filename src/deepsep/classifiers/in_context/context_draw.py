"""Draw the training rows in the context of the in-context network.

A weight of k is k copies of a row, if they fit. The draw does not depend on the order of the rows.
"""

from __future__ import annotations

import numpy as np

from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows


def draw_context(rows: TrainingRows, size: int, rng: np.random.Generator) -> tuple[Array, int]:
    """Return the rows of the context, labelled ones first, and the number of labelled rows that did not fit."""
    order = order_by_content(rows.X, np.flatnonzero(rows.weight > 0))
    labeled, unlabeled = order[rows.codes[order] >= 0], order[rows.codes[order] < 0]
    # A quarter is kept for unlabelled rows: without them the network would take the shares of the classes from labels
    # that were drawn evenly from the classes.
    reserved = min(_n_copies(rows.weight[unlabeled]), int(size * 0.25))
    room = max(size - reserved, rows.n_classes)
    first, out = _draw_labeled(rows, labeled, room, rng)
    left = min(size - len(first), _n_copies(rows.weight[unlabeled]))
    then = unlabeled[_draw_copies(rows.weight[unlabeled], max(left, 0), rng)]
    return np.concatenate([first, then]), out


def _draw_labeled(rows: TrainingRows, labeled: Array, room: int, rng: np.random.Generator) -> tuple[Array, int]:
    of_class = [labeled[rows.codes[labeled] == k] for k in range(rows.n_classes)]
    total = rows.weight[labeled].sum()
    wanted = _n_copies(rows.weight[labeled])
    sizes = np.array([max(1, round(wanted * rows.weight[each].sum() / total)) for each in of_class])
    fits = sizes.sum() <= room
    if not fits:
        sizes = _even(sizes, room)
    drawn = np.concatenate(
        [each[_draw_copies(rows.weight[each], n, rng)] for each, n in zip(of_class, sizes, strict=True)]
    )
    return drawn, 0 if fits else len(labeled) - len(np.unique(drawn))


def _even(sizes: Array, room: int) -> Array:
    """Return sizes that add up to ``room``, as equal as possible, none above its original size."""
    kept = np.zeros_like(sizes)
    left = room
    for i, k in enumerate(np.argsort(sizes, kind="stable")):
        kept[k] = min(sizes[k], left // (len(sizes) - i))
        left -= kept[k]
    return kept


def _n_copies(weight: Array) -> int:
    """Return the number of copies: the sum of the weights, or the number of rows if that is larger."""
    return max(len(weight), round(float(weight.sum())))


def _draw_copies(weight: Array, size: int, rng: np.random.Generator) -> Array:
    """Return ``size`` positions in proportion to weights, each as often as expected, rounded down or up at random."""
    if not size:
        return np.zeros(0, int)
    expected = weight * (size / weight.sum())
    whole = np.floor(expected + 1e-9)
    copies = whole.astype(int)
    left = size - int(copies.sum())
    if left > 0:
        turn = rng.permutation(len(weight))
        ends = np.cumsum(np.maximum(expected - whole, 0)[turn])
        at = (rng.random() + np.arange(left)) * (ends[-1] / left)
        np.add.at(copies, turn[np.minimum(np.searchsorted(ends, at, side="right"), len(weight) - 1)], 1)
    return np.repeat(np.arange(len(weight)), copies)


def order_by_content(X: Array, index: Array, chunk: int = 4_096) -> Array:
    """Return rows, given by their index, in an order that depends on their values alone."""
    parts = [index[start : start + chunk] for start in range(0, len(index), chunk)]
    largest = np.max([np.abs(X[part]).max(axis=0) for part in parts], axis=0).astype(np.float64)
    directions = np.random.default_rng(0).uniform(0.5, 1.5, X.shape[1]) / np.where(largest > 0, largest, 1)
    keys = [(X[part].astype(np.float64) * directions).sum(axis=1) for part in parts]
    return np.asarray(index[np.argsort(np.concatenate(keys), kind="stable")])
