"""Shares of the classes among the labels and among the predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.core.labels import Labels
from deepsep.evaluation.intervals import wilson
from deepsep.report.sentences import shares_differ

Array = NDArray[Any]


def shares(known: Labels, rows: Array, p: Array, weight: Array | None, given: Array | None = None) -> dict[str, Any]:
    """Return the share of each class among labelled and among unlabelled rows, and a caution where they differ.

    Parameters
    ----------
    known : Labels
        Of all rows.
    rows : array (m,)
        Numbers of the rows that were predicted.
    p : array (m, c)
        Their probabilities.
    weight : array (n,) or None
        Weights of all rows. The shares count rows; the caution compares weighted shares, since scores are weighted.
    given : array (c,) or None
        Known shares in the population. Scores refer to them, so that the shares of the labels do not matter.
    """
    alike = np.ones(len(known.codes))
    counts, predicted = _sums(known, rows, p, alike)
    labels, unlabelled = int(counts.sum()), bool(predicted.any())
    by_weight = _sums(known, rows, p, alike if weight is None else weight)
    differ = None
    if given is None and all(sums.any() for sums in by_weight):
        differ = shares_differ(*((sums / sums.sum()).tolist() for sums in by_weight))
    return {
        "lines": [
            {
                "class": str(name),
                "labels": int(counts[k]),
                "labelled": float(counts[k] / labels),
                "labelled_interval": wilson(int(counts[k]), labels),
                "predicted": float(predicted[k] / predicted.sum()) if unlabelled else None,
            }
            for k, name in enumerate(known.classes)
        ],
        "caution": differ,
    }


def _sums(known: Labels, rows: Array, p: Array, weight: Array) -> tuple[Array, Array]:
    """Return the weight of each class among labelled rows and among predictions for unlabelled ones."""
    c, at = len(known.classes), known.codes[rows] < 0
    return (
        np.bincount(known.codes[known.labelled], weight[known.labelled], c),
        np.bincount(p[at].argmax(axis=1), weight[rows[at]], c),
    )
