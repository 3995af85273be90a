"""The first step of the report: measure everything it shows and return a plain dictionary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.classifiers.catalogue import record_of, title_of
from deepsep.classifiers.committee.committee import Committee
from deepsep.core.arrays import Array
from deepsep.core.checks import with_fields
from deepsep.core.label_origins import LabelOrigins, read_origins
from deepsep.core.labels import Labels, as_labels
from deepsep.core.model_parts import estimator_of
from deepsep.errors import DataError
from deepsep.evaluation.expected_accuracy import Evidence
from deepsep.evaluation.frames import column_names, in_batches, take
from deepsep.evaluation.population import given_shares, read_weights
from deepsep.evaluation.suspicious import SUSPICIOUS_COLUMNS, doubtful_labels, rank_labels, suspicious_labels
from deepsep.report import outcome
from deepsep.report.accuracy import measure_accuracy, state_for_population
from deepsep.report.committee_held_out import is_fitted_to, members
from deepsep.report.explanation import importance, tree
from deepsep.report.findings import check_model, too_different
from deepsep.report.held_out import FOLDS, Evaluation, OnStep, evaluate_model
from deepsep.report.map import positions
from deepsep.report.outcome import verdict
from deepsep.report.provenance import changed_settings, made, plain_value
from deepsep.report.ranking import check_comparison, related_to_report
from deepsep.report.readable import features_of, profiles
from deepsep.report.shares import class_shares

MAX_PREDICTED_ROWS = 100_000  # unless their probabilities are given


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Settings of a report.

    Parameters
    ----------
    title : str, optional
        Title of the report.
    command : str, optional
        The command that made it, shown at the end of the page.
    comparison : dict, optional
        The result of :func:`deepsep.study.compare` for this table and these labels, shown in the report.
    findings : list of dict, optional
        Warnings about the table, shown at the top of the report. By default those of :func:`deepsep.check_table` that
        make a model or its accuracy misleading: columns given for labelled rows only, leaks, differences between
        labelled and unlabelled rows, and dates read as text.
    folds : int, default=5
        Folds of the cross-validation; fewer if no class has as many labels.
    explained : bool, default=True
        Whether to measure which columns drive each class (see :mod:`deepsep.report.explanation`).
    seed : int, default=0
        Seed of everything random in the report; the model keeps its own.
    n_jobs : int, optional
        Number of folds to fit in parallel.
    on_step : callable, optional
        Called with (done, total, what comes next).
    """

    title: str | None = None
    command: str | None = None
    comparison: dict[str, Any] | None = None
    findings: list[dict[str, Any]] | None = None
    folds: int = FOLDS
    explained: bool = True
    seed: int = 0
    n_jobs: int | None = None
    on_step: OnStep | None = None


USUAL_SETTINGS = ReportSettings()


def summarize(
    model: Any,
    table: Any,
    labels: Any,
    *,
    ids: Sequence[Any] | None = None,
    proba: Any = None,
    label: str = "class",
    sample_weight: Any = None,
    labels_drawn: Any = None,
    settings: ReportSettings = USUAL_SETTINGS,
    **fields: Any,
) -> dict[str, Any]:
    """Measure everything that the report shows.

    Parameters
    ----------
    model : fitted pipeline or estimator
        A model of :func:`deepsep.fit` or :func:`deepsep.for_table`, or an estimator of deepsep that takes a matrix.
    table : DataFrame or matrix
        All rows, labelled and unlabelled, with the columns that the model was fitted to.
    labels : array-like of shape (n,)
        Labels of the rows; None for unlabelled ones.
    ids : sequence of shape (n,), optional
        Identifiers of the rows in the report; by default their numbers from 0.
    proba : array of shape (n, c), optional
        ``model.predict_proba(table)``, if known already. Without it, at most 100,000 rows are predicted.
    label : str, default="class"
        Name of the label, such as the name of its column.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, in training and in scores and their intervals. If the model has ``priors``, held-out rows
        are also weighted so that the classes have these shares.
    labels_drawn : {"random", "quota", "chosen"} or array-like of shape (n,), optional
        How the labels were drawn; see :meth:`deepsep.Committee.fit`. A committee remembers what it was told.
    settings : ReportSettings, optional
        Settings of the report, such as ``folds``.
    **fields
        Fields of ``settings`` by name.

    Returns
    -------
    dict
        Plain values, ready for JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep import TSVM
    >>> from deepsep.report import summarize
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (100, 3)), rng.normal(2, 1, (100, 3))])
    >>> y = np.full(200, None)
    >>> y[:15], y[-15:] = "low", "high"
    >>> summary = summarize(TSVM().fit(X, y), X, y, folds=2)
    >>> summary["accuracy"]["methods"][0]["accuracy"]["value"]
    1.0
    """
    (settings,) = with_fields("summarize", fields, settings)
    began, seed, comparison = time.perf_counter(), settings.seed, settings.comparison
    known = as_labels(labels)
    n, names, classes = len(known.codes), column_names(table), [str(name) for name in known.classes]
    _check(model, known, {"the table has": table, "there are ids for": ids, "proba has": proba})
    if comparison is not None:
        check_comparison(comparison, known, names)

    def step(done: int, what: str) -> None:
        if settings.on_step is not None:
            settings.on_step(done, settings.folds + 3, what)

    step(0, "cross-validation, fold 1")
    estimator, weight = estimator_of(model), read_weights(sample_weight, known)
    committee = estimator if is_fitted_to(estimator, known) else None  # it has predictions out of fold
    origins = read_origins(labels_drawn, known) if committee is None else committee.label_origins_
    evaluated = evaluate_model(
        model,
        table,
        known,
        origins=origins,
        folds=settings.folds,
        seed=seed,
        sample_weight=weight,
        repeats=5 if settings.explained else 0,
        n_jobs=settings.n_jobs,
        on_step=lambda done, folds, what: step(done, what),
    )
    evaluation, notes = (None, [evaluated]) if isinstance(evaluated, str) else (evaluated, list(evaluated.notes))
    summary: dict[str, Any] = {
        "format": 1,
        "title": settings.title
        or f"{label[:1].upper()}{label[1:]} of {n:,} rows, from {int(known.labeled.sum()):,} labels",
        "asked": _asked(estimator, known, len(names), label, seed, evaluation),
        "classes": classes,
        "notes": notes,
        "findings": check_model(model, table, known, weight) if settings.findings is None else settings.findings,
    }
    step(settings.folds, "predictions")
    rows, p = _predictions(model, table, proba, n, seed)
    predicted = np.where(known.codes[rows] >= 0, known.codes[rows], p.argmax(axis=1))
    given, evidence = given_shares(estimator, known.classes), None if evaluation is None else evaluation.evidence
    summary["shares"] = class_shares(known, rows, p, weight, given, evidence)
    summary |= measure_accuracy(evaluation, estimator, known, seed)
    summary["members"] = None if committee is None else members(committee)
    summary["suspicious"] = None if evaluation is None else _suspicious(committee, evaluation, known, ids)
    holds = evaluation is not None and not too_different(summary["findings"])
    if evaluation is not None:
        state_for_population(summary["accuracy"], committee, classes, origins, holds)
        if evaluation.population != "labels" or origins.given:
            # The shares among the labels do not matter, or are known.
            summary["shares"]["caution"] = None
    summary["more_labels"] = outcome.more_labels(committee.learning_curve_) if committee is not None and holds else None
    summary["outcome"] = _outcome(summary, evidence, known, p[known.codes[rows] < 0], estimator, committee, origins)
    step(settings.folds + 1, "the map")
    summary["map"] = None
    if evaluation is not None and outcome.beats_guessing(summary["accuracy"]):
        summary["map"] = _map(model, table, known, ids, proba, evaluation, seed)
    step(settings.folds + 2, "profiles")
    summary["least_certain"] = _least_certain(rows, p, known, ids)
    part = _sample(len(rows), 50_000, seed)
    summary["profiles"] = profiles(features_of(model, take(table, rows[part])), predicted[part], classes)
    if len(rows) < n:
        notes.append(f"Shares, profiles and the least certain rows are of {len(rows):,} rows drawn at random.")
    summary["explanation"] = None
    if settings.explained:
        permuted, by_forest = None if evaluation is None else evaluation.permuted, isinstance(estimator, Committee)
        summary["explanation"] = {
            "importance": permuted and importance(permuted, names, classes, held_out=True, by_forest=by_forest),
            "tree": tree(model, table, classes, proba=proba, seed=seed),
        }
    summary["comparison"] = None if comparison is None else related_to_report(comparison, summary)
    summary["verdict"] = verdict(summary)
    summary["made"] = made(settings.command, time.perf_counter() - began, model)
    step(settings.folds + 3, "done")
    return summary


def _check(model: Any, known: Labels, given: dict[str, Any]) -> None:
    """Raise if something that was given has another number of rows, or if the model has other classes."""
    n = len(known.codes)
    for what, each in given.items():
        if each is not None and len(each) != n:
            raise DataError(f"{what} {len(each)} rows and there are {n} labels; they must match.")
    own = np.asarray(getattr(model, "classes_", known.classes)).tolist()
    if own != known.classes.tolist() and set(own) == set(known.classes.tolist()):
        raise DataError(
            "the classes of the model were renamed and are not sorted any more, so that no report can be made of it. "
            "Fit it again with the new names; deepsep rename renames the classes in the report of a model, too."
        )


def _asked(
    estimator: Any, known: Labels, n_columns: int, label: str, seed: int, evaluation: Evaluation | None
) -> dict[str, Any]:
    record, labeled = record_of(estimator), int(known.labeled.sum())
    return {
        "method": type(estimator).__name__ if record is None else record.name,
        "method_title": title_of(estimator),
        "settings": changed_settings(estimator),
        "label": label,
        "rows": len(known.codes),
        "labelled": labeled,
        "unlabelled": len(known.codes) - labeled,
        "columns": n_columns,
        "classes": len(known.classes),
        "seed": seed,
        "model_seed": plain_value(estimator.get_params(deep=False).get("random_state")),
        "folds": None if evaluation is None else evaluation.n_folds,
        "training_labels": None if evaluation is None else evaluation.n_training,
    }


def _predictions(model: Any, table: Any, proba: Any, n: int, seed: int) -> tuple[Array, Array]:
    """Return the numbers of the predicted rows and their probabilities."""
    if proba is not None:
        return np.arange(n), np.asarray(proba, float)
    rows = _sample(n, MAX_PREDICTED_ROWS, seed)
    return rows, in_batches(model.predict_proba, table if len(rows) == n else take(table, rows))


def _sample(n: int, most: int, seed: int) -> Array:
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _suspicious(
    committee: Committee | None, evaluation: Evaluation, known: Labels, ids: Sequence[Any] | None
) -> list[dict[str, Any]]:
    """Return the labels that are improbable by the predictions out of fold, the most doubtful first."""
    if committee is not None:
        frame = suspicious_labels(committee, ids=ids)
    else:
        frame = rank_labels(evaluation.rows, evaluation.codes, evaluation.p["model"], known.classes, ids)
    lines = doubtful_labels(frame, len(known.classes))
    return [
        {"id": str(name), **{key: plain_value(value) for key, value in zip(SUSPICIOUS_COLUMNS, line, strict=True)}}
        for name, *line in lines.itertuples(index=False, name=None)
    ]


def _outcome(
    summary: dict[str, Any],
    evidence: Evidence | None,
    known: Labels,
    unlabeled: Array,
    estimator: Any,
    committee: Any,  # the estimator, if it is one with predictions out of fold
    origins: LabelOrigins,
) -> dict[str, Any]:
    """Return the verdict of the report, the surest rows, and what would help most."""
    word, points, helps = outcome.judge(summary["accuracy"]), [], []
    if committee is not None and word != outcome.NOT_SHOWN:
        points = outcome.by_share(committee.evidence_, unlabeled, whole=committee.expected_accuracy_)
    elif evidence is not None and word != outcome.NOT_SHOWN:
        points = outcome.by_share(evidence, unlabeled, calibrated=False)
    if summary["accuracy"] is not None:
        helps = outcome.what_helps(
            word,
            np.bincount(known.codes[known.labeled], minlength=len(known.classes)),
            summary["accuracy"]["methods"][0]["accuracy"]["interval"],
            priors_given=estimator.get_params(deep=False).get("priors") is not None,
            by_quotas=origins.basis == "quota",
            more_labels=summary["more_labels"] and summary["more_labels"]["sentence"],
        )
    return {"verdict": word, "by_share": points, "surest": outcome.surest_part(points), "what_helps": helps}


def _map(
    model: Any,
    table: Any,
    known: Labels,
    ids: Sequence[Any] | None,
    proba: Any,
    evaluation: Evaluation,
    seed: int,
) -> dict[str, Any]:
    rows = evaluation.embedded.rows
    p = np.array(in_batches(model.predict_proba, take(table, rows)) if proba is None else np.asarray(proba)[rows])
    held_out = dict(zip(evaluation.rows.tolist(), evaluation.p["model"], strict=True))
    for i in np.flatnonzero(np.isin(rows, evaluation.rows)):
        p[i] = held_out[rows[i]]
    at = positions(evaluation.embedded, seed)
    return {
        "of": evaluation.embedded.of,
        "rows": [
            {
                "id": str(int(i) if ids is None else ids[i]),
                "x": round(float(x), 4),
                "y": round(float(y), 4),
                "predicted": int(own.argmax()),
                "probability": round(float(own.max()), 4),
                "label": None if known.codes[i] < 0 else int(known.codes[i]),
            }
            for i, (x, y), own in zip(rows, at, p, strict=True)
        ],
    }


def _least_certain(rows: Array, p: Array, known: Labels, ids: Sequence[Any] | None) -> list[dict[str, Any]]:
    """Return the unlabelled rows whose two most probable classes are closest."""
    at = np.flatnonzero(known.codes[rows] < 0)
    order = np.argsort(-p[at], axis=1)[:, :2]
    first, second = (np.take_along_axis(p[at], order[:, [j]], axis=1)[:, 0] for j in (0, 1))
    result = []
    for i in np.argsort(first - second, kind="stable")[:15]:
        row = int(rows[at[i]])
        result.append(
            {
                "id": str(row if ids is None else ids[row]),
                "row": row,
                "first": str(known.classes[order[i, 0]]),
                "first_probability": float(first[i]),
                "second": str(known.classes[order[i, 1]]),
                "second_probability": float(second[i]),
            }
        )
    return result
