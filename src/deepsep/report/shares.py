"""Shares of the classes among the labels and among the predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t

from deepsep.core.arrays import Array
from deepsep.core.labels import Labels
from deepsep.evaluation.expected_accuracy import FOLD_DEPENDENCE, Evidence
from deepsep.evaluation.intervals import INTERVAL_LEVEL, effective, share_right, wilson
from deepsep.report.outcome import shares_caution


def class_shares(
    known: Labels,
    rows: Array,  # (m,), numbers of the rows that were predicted
    p: Array,  # (m, c), their probabilities
    weight: Array | None,  # (n,); the shares count rows, the caution compares weighted shares, as scores are weighted
    given: Array | None = None,  # (c,), known shares in the population, to which scores refer
    held_out: Evidence | None = None,
) -> dict[str, Any]:
    """Return the share of each class among labelled and among unlabelled rows, and a caution where they differ."""
    alike = np.ones(len(known.codes))
    counts, predicted = _sums(known, rows, p, alike)
    labels, unlabeled = int(counts.sum()), bool(predicted.any())
    by_weight = _sums(known, rows, p, alike if weight is None else weight)
    differ = None
    if given is None and all(sums.any() for sums in by_weight):
        differ = shares_caution(*((sums / sums.sum()).tolist() for sums in by_weight))
    w = alike if weight is None else weight
    at = known.labeled & (w > 0)
    pairs = [share_right(known.codes[at] == k, w[at]) for k in range(len(known.classes))]
    among = [{"value": share, "interval": interval} for share, interval in pairs]
    estimated = estimate(known, rows, p, w, held_out)
    return {
        "lines": [
            {
                "class": str(name),
                "labels": int(counts[k]),
                "labelled": float(counts[k] / labels),
                "labelled_interval": wilson(int(counts[k]), labels),
                "predicted": float(predicted[k] / predicted.sum()) if unlabeled else None,
                "predicted_rows": int(predicted[k]),
                "predicted_weighted": float(by_weight[1][k] / by_weight[1].sum()) if by_weight[1].any() else None,
                "labelled_weighted": among[k],
                "estimated": estimated[k],
                "given": None if given is None else float(given[k]),
            }
            for k, name in enumerate(known.classes)
        ],
        "caution": differ,
        "weighted": weight is not None,
    }


def estimate(known: Labels, rows: Array, p: Array, weight: Array, held_out: Evidence | None) -> list[dict[str, Any]]:
    r"""Return the weighted share of each class among all rows, with a 90 % interval.

    Labelled rows are counted. For the unlabelled ones, this is the difference estimator of survey sampling: the mean
    probability of a class, plus the mean of its error on held-out rows, :math:`[y_i = k] - p_{ik}`. The estimate is
    right on average if the labelled rows are a random part of the rows, or weighted to be one, however wrong the model
    is; a good model makes the interval narrow. Counting predicted labels would favour classes that are easy to predict.

    Returns
    -------
    list of dict
        ``value``, and ``interval``: None if no labels were held out.
    """
    codes, w = known.codes[rows], weight[rows]
    free = codes < 0
    counted = np.bincount(codes[~free], w[~free], len(known.classes)) / w.sum()
    part = float(w[free].sum() / w.sum())
    if not part:
        return [{"value": float(share), "interval": [float(share)] * 2} for share in counted]
    value = counted + part * np.average(p[free], axis=0, weights=w[free])
    if held_out is None:
        return [{"value": float(share), "interval": None} for share in value]
    q, labels, own, repeats, _ = held_out
    missed = np.eye(len(known.classes))[labels] - q
    mean = np.average(missed, axis=0, weights=own)
    # At least 0.1: a few rows whose probabilities are right do not prove that all others are.
    deviation = np.maximum(np.sqrt(np.average((missed - mean) ** 2, axis=0, weights=own)), 0.1)
    n = effective(own, len(own)) / repeats
    others = effective(w[free], int(free.sum()))
    error = deviation * np.sqrt(FOLD_DEPENDENCE**2 / max(n - 1, 1) + 1 / others)
    half = t.ppf((1 + INTERVAL_LEVEL) / 2, max(n - 1, 1)) * part * error
    value = value + part * mean
    low, high = np.maximum(value - half, counted), np.minimum(value + half, counted + part)
    value = np.clip(value, counted, counted + part)
    return [
        {"value": float(share), "interval": [float(a), float(b)]}
        for share, a, b in zip(value, np.minimum(low, value), np.maximum(high, value), strict=True)
    ]


def _sums(known: Labels, rows: Array, p: Array, weight: Array) -> tuple[Array, Array]:
    """Return the weight of each class among labelled rows and among predictions for unlabelled ones."""
    c, at = len(known.classes), known.codes[rows] < 0
    return (
        np.bincount(known.codes[known.labeled], weight[known.labeled], c),
        np.bincount(p[at].argmax(axis=1), weight[rows[at]], c),
    )
