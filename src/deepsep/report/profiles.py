"""Profiles of the classes: the columns in which each differs most from all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.report.readable import Feature

Array = NDArray[Any]

MAX_PROFILE_ROWS = 50_000


def profiles(features: list[Feature], codes: Array, classes: list[str]) -> list[dict[str, Any]]:
    """Return for each class the features in which it differs most from all rows, in standard deviations."""
    values = np.stack([feature.values for feature in features]) if features else np.empty((0, len(codes)))
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    mean = ratio(filled.sum(axis=1), known.sum(axis=1))
    spread = np.sqrt(ratio((np.where(known, values - mean[:, None], 0.0) ** 2).sum(axis=1), known.sum(axis=1)))
    result = []
    for k, name in enumerate(classes):
        own = codes == k
        inside = ratio(filled[:, own].sum(axis=1), known[:, own].sum(axis=1))
        size = ratio(inside - mean, spread)
        result.append(
            {
                "class": name,
                "rows": int(own.sum()),
                "share": float(own.mean()),
                "features": _largest_differences(features, inside, mean, size) if own.any() else [],
            }
        )
    return result


def _largest_differences(
    features: list[Feature],
    inside: Array,
    everyone: Array,
    size: Array,
    n_lines: int = 6,
    least: float = 0.1,
    max_per_column: int = 2,
) -> list[dict[str, Any]]:
    """Return the features that differ most, by at least ``least`` standard deviations; at most two of a column."""
    lines: list[dict[str, Any]] = []
    used: dict[str, int] = {}
    for i in np.argsort(-np.abs(np.nan_to_num(size)), kind="stable"):
        feature = features[i]
        if len(lines) == n_lines or not abs(size[i]) >= least:
            break
        # Columns that are missing together, such as those of one examination, would fill the list.
        group = "missing" if feature.level == "missing" else f"column {feature.column}"
        used[group] = used.get(group, 0) + 1
        if used[group] > max_per_column:
            continue
        lines.append(
            {
                "feature": feature.name,
                "column": feature.column,
                "level": feature.level,
                "kind": feature.kind,
                "value": float(inside[i]),
                "everyone": float(everyone[i]),
                "value_text": feature.text(inside[i]),
                "everyone_text": feature.text(everyone[i]),
                "lift": float(inside[i] / everyone[i]) if feature.kind == "level" and everyone[i] > 0 else None,
                "difference": float(size[i]),
            }
        )
    return lines


def ratio(a: Array, b: Array) -> Array:
    """Return a / b, NaN where b is not above 0."""
    return np.asarray(np.divide(a, b, out=np.full(np.shape(a), np.nan), where=np.asarray(b) > 0))
