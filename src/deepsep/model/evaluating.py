"""Evaluation of a fitted model on the rows that it was fitted to: findings, and the summary for the report."""

from __future__ import annotations

from typing import Any

from joblib import cpu_count

from deepsep.core.threads import silent_workers
from deepsep.evaluation.population import given_shares
from deepsep.model.training_table import ROW_COLUMN, Training
from deepsep.report.findings import check_population
from deepsep.report.held_out import FOLDS
from deepsep.report.summary import summarize


def evaluate_training(model: Any, data: Training, **settings: Any) -> dict[str, Any]:
    """Return what :func:`deepsep.report.summarize` does, for a model and its training rows."""
    own = {
        "ids": data.ids,
        "proba": model[-1].label_distributions_,
        "label": data.label,
        "findings": model.findings,
        "sample_weight": data.weight,
        "labels_drawn": data.labels_drawn,
        "seed": data.seed,
        "n_jobs": min(FOLDS, cpu_count()),
    }
    with silent_workers():
        return summarize(model, data.X, data.labels, **own | settings)


def find_problems(model: Any, columns: Any, data: Training) -> list[dict[str, Any]]:
    """Return the problems of a training table whose columns are converted; also, if so, that it is a part of one."""
    ids = None if data.ids.name == ROW_COLUMN else data.ids
    of_table = {"label": data.label, "ids": ids, "merged": data.merged}
    shares = given_shares(model[-1], data.labels.classes)
    findings = check_population(columns, data.labels, shares, data.weight, model[0].left_out_, **of_table)
    return findings if data.large is None else [*findings, _part_of(data)]


def _part_of(data: Training) -> dict[str, Any]:
    """Return the finding that a report is about a part of a large table."""
    assert data.large is not None
    chosen, n, n_labeled = data.large.chosen, len(data.X), int(data.labeled.sum())
    return {
        "severity": "note",
        "code": "part",
        "columns": [],
        "message": f"this is about {n:,} rows: the {n_labeled:,} with a label, and {n - n_labeled:,} of the "
        f"{chosen.n_unlabeled:,} without one, drawn at random. All of them are predicted.",
        "next": "Nothing.",
    }
