"""Warnings at the top of a report: findings that make the model or its accuracy misleading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.core.labels import Labels
from deepsep.core.model_parts import estimator_of
from deepsep.evaluation.frames import take
from deepsep.evaluation.population import given_shares, to_population
from deepsep.report.readable import typed_columns
from deepsep.table.quality import check_columns, rows_to_check


def check_model(model: Any, table: Any, labels: Labels, weight: Array | None = None) -> list[dict[str, Any]]:
    """Return the findings for the columns that a fitted model uses; see :func:`deepsep.table.quality.check_columns`."""
    rows = rows_to_check(labels)
    columns, _, left_out = typed_columns(model, take(table, rows))
    shares, weight = given_shares(estimator_of(model), labels.classes), None if weight is None else weight[rows]
    return check_population(columns, Labels(labels.codes[rows], labels.classes), shares, weight, left_out)


def check_population(
    columns: Any,
    labels: Labels,
    shares: Array | None,
    weight: Array | None = None,
    left_out: Mapping[str, str] | None = None,
    **of_table: Any,
) -> list[dict[str, Any]]:
    """Return the findings for converted columns, with labelled rows weighted to known shares of the classes."""
    if shares is not None:
        at = labels.labeled
        weight = np.ones(len(at)) if weight is None else np.array(weight, float)
        weight[at] = to_population(labels.codes[at], weight[at], shares)
    return check_columns(columns, labels, left_out=left_out, weight=weight, **of_table)


def too_different(findings: list[dict[str, Any]], max_distance: float = 0.25) -> bool:
    """Return whether labelled and unlabelled rows differ so much that accuracy does not carry over."""
    return any(finding.get("distance", 0.0) >= max_distance for finding in findings)
