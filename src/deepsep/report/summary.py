"""The first step of the report: measure everything it shows and return a plain dictionary."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.classifiers.catalogue import find_method, record_of, title_of, uses_unlabeled
from deepsep.classifiers.committee.committee import Committee
from deepsep.core.fields import with_fields
from deepsep.core.label_origins import LabelOrigins, read_origins
from deepsep.core.labels import Labels, as_labels
from deepsep.core.model_parts import split_model
from deepsep.errors import DataError
from deepsep.evaluation.evidence import Evidence
from deepsep.evaluation.frames import column_names, in_batches, take, used_columns
from deepsep.evaluation.intervals import (
    effective,
    paired_difference,
    reliability,
    scores_with_intervals,
    share_right,
)
from deepsep.evaluation.population import given_shares, read_weights
from deepsep.evaluation.suspicious import SUSPICIOUS_COLUMNS, doubtful_labels, rank_labels, suspicious_labels
from deepsep.report import outcome, sentences
from deepsep.report.committee_held_out import gain_from_unlabeled, is_fitted_to, member_titles, members
from deepsep.report.explanation import importance, tree
from deepsep.report.findings import check_model, too_different
from deepsep.report.held_out import (
    BASELINE_METHODS,
    FOLDS,
    START_KEY,
    Evaluation,
    OnStep,
    evaluate_model,
)
from deepsep.report.label_gain import more_labels
from deepsep.report.map import positions
from deepsep.report.profiles import MAX_PROFILE_ROWS as PROFILE_ROWS
from deepsep.report.profiles import profiles
from deepsep.report.provenance import changed_settings, made, plain_value
from deepsep.report.ranking import check_comparison, related_to_report
from deepsep.report.shares import class_shares

Array = NDArray[Any]

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
    folds, seed, explained, comparison = settings.folds, settings.seed, settings.explained, settings.comparison
    began = time.perf_counter()
    known = as_labels(labels)
    n = len(known.codes)
    for what, given in (("the table has", table), ("there are ids for", ids), ("proba has", proba)):
        if given is not None and len(given) != n:
            raise DataError(f"{what} {len(given)} rows and there are {n} labels; they must match.")
    own = np.asarray(getattr(model, "classes_", known.classes)).tolist()
    if own != known.classes.tolist() and set(own) == set(known.classes.tolist()):
        raise DataError(
            "the classes of the model were renamed and are not sorted any more, so that no report can be made of it. "
            "Fit it again with the new names; deepsep rename renames the classes in the report of a model, too."
        )
    if comparison is not None:
        check_comparison(comparison, known, column_names(table))
    total = folds + 3
    step = _Steps(settings.on_step, total)
    step.report(0, "cross-validation, fold 1")
    weight = read_weights(sample_weight, known)
    estimator = split_model(model)[1]
    origins = estimator.label_origins_ if is_fitted_to(estimator, known) else read_origins(labels_drawn, known)
    evaluated = evaluate_model(
        model,
        table,
        known,
        origins=origins,
        folds=folds,
        seed=seed,
        sample_weight=weight,
        repeats=5 if explained else 0,
        n_jobs=settings.n_jobs,
        on_step=step.of_fold,
    )
    evaluation = None if isinstance(evaluated, str) else evaluated
    classes = [str(name) for name in known.classes]
    summary: dict[str, Any] = {
        "format": 1,
        "title": settings.title
        or f"{label[:1].upper()}{label[1:]} of {n:,} rows, from {int(known.labeled.sum()):,} labels",
        "asked": _asked(model, table, known, label, seed, evaluation),
        "classes": classes,
        "notes": [evaluated] if isinstance(evaluated, str) else list(evaluated.notes),
        "findings": check_model(model, table, known, weight) if settings.findings is None else settings.findings,
    }
    step.report(folds, "predictions")
    rows, p = _predictions(model, table, proba, n, seed)
    predicted = np.where(known.codes[rows] >= 0, known.codes[rows], p.argmax(axis=1))
    given = given_shares(estimator, known.classes)
    summary["shares"] = class_shares(
        known, rows, p, weight, given, None if evaluation is None else _evidence(evaluation)
    )
    summary |= _accuracy(evaluation, model, known, seed)
    summary["members"] = _members(estimator, known)
    summary["suspicious"] = _suspicious(estimator, evaluation, known, ids)
    if summary["accuracy"] is not None:
        _state_for_population(summary, estimator, origins)
        if summary["accuracy"]["population"] != "labels" or origins.given:
            # The shares among the labels do not matter, or are known.
            summary["shares"]["caution"] = None
    summary["more_labels"] = _more_labels(estimator, summary)
    summary["outcome"] = _outcome(evaluation, summary, known, p[known.codes[rows] < 0], model, origins)
    step.report(folds + 1, "the map")
    beats_guessing = evaluation is not None and _beats_guessing(summary["accuracy"])
    summary["map"] = _map(model, table, known, ids, proba, evaluation, seed) if evaluation and beats_guessing else None
    step.report(folds + 2, "profiles")
    summary["least_certain"] = _least_certain(rows, p, known, ids)
    part = _sample(len(rows), PROFILE_ROWS, seed)
    summary["profiles"] = profiles(take(used_columns(model, table), rows[part]), predicted[part], classes)
    if len(rows) < n:
        summary["notes"].append(
            f"Shares, profiles and the least certain rows are of {len(rows):,} rows drawn at random."
        )
    summary["explanation"] = _explanation(model, table, proba, evaluation, classes, seed) if explained else None
    summary["comparison"] = None if comparison is None else related_to_report(comparison, summary)
    summary["verdict"] = sentences.verdict(summary)
    summary["made"] = made(settings.command, time.perf_counter() - began, model)
    step.report(total, "done")
    return summary


def _title(label: str, known: Labels) -> str:
    return f"{label[:1].upper()}{label[1:]} of {len(known.codes):,} rows, from {int(known.labeled.sum()):,} labels"


class _Steps:
    """Reports progress to a callback, if there is one."""

    def __init__(self, on_step: OnStep | None, total: int) -> None:
        self._on_step, self._total = on_step, total

    def report(self, done: int, what: str) -> None:
        if self._on_step is not None:
            self._on_step(done, self._total, what)

    def of_fold(self, done: int, folds: int, what: str) -> None:
        self.report(done, what)


def _asked(
    model: Any, table: Any, known: Labels, label: str, seed: int, evaluation: Evaluation | None
) -> dict[str, Any]:
    _, estimator = split_model(model)
    record = record_of(estimator)
    labeled = int(known.labeled.sum())
    return {
        "method": type(estimator).__name__ if record is None else record.name,
        "method_title": title_of(estimator),
        "settings": changed_settings(estimator),
        "label": label,
        "rows": len(known.codes),
        "labelled": labeled,
        "unlabelled": len(known.codes) - labeled,
        "columns": len(column_names(table)),
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


def _accuracy(evaluation: Evaluation | None, model: Any, known: Labels, seed: int) -> dict[str, Any]:
    """Return everything that is measured on held-out rows."""
    _, estimator = split_model(model)
    if evaluation is None:
        nothing = dict.fromkeys(("accuracy", "curve", "confusion", "reliability"))
        unknown = sentences.unlabeled_rows(None, uses_unlabeled(estimator))
        return {**nothing, "rounds": _rounds(None, estimator), "unlabelled_rows": unknown}
    codes, weight, c = evaluation.codes, evaluation.weight, len(known.classes)
    right = {name: p.argmax(axis=1) == codes for name, p in evaluation.p.items()}
    names = _names(estimator)
    lines = []
    for key in sorted(evaluation.p, key=list(names).index):
        lines.append({"key": key, "name": names[key], **scores_with_intervals(evaluation.p[key], codes, seed, weight)})
        if key != "model":
            lines[-1]["against_model"] = paired_difference(right["model"], right[key], weight)
    p = evaluation.p["model"]
    table = np.zeros((c, c), int)
    np.add.at(table, (codes, p.argmax(axis=1)), 1)
    start = lines[[line["key"] for line in lines].index(START_KEY)] if START_KEY in evaluation.p else None
    return {
        "accuracy": {
            "held_out": len(codes),
            "effective": None if weight is None else effective(weight, len(codes)),
            "weighted": evaluation.weighted,
            "population": evaluation.population,
            "by_shares": evaluation.population == "given",
            "methods": lines,
        },
        "unlabelled_rows": sentences.unlabeled_rows(_against_start(estimator, start), uses_unlabeled(estimator)),
        "rounds": _rounds(evaluation, estimator),
        "curve": _curve(evaluation, names),
        "confusion": table.tolist(),
        "reliability": {
            "groups": reliability(p, codes, weight),
            **sentences.calibration(lines[0], float(np.average(p.max(axis=1), weights=weight))),
        },
    }


def _against_start(estimator: Any, start: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the lead of the model over the same one without its unlabelled rows, and the latter's name."""
    if start is None:
        return None
    if isinstance(estimator, Committee) and (gain := gain_from_unlabeled(estimator)) is not None:
        return {**gain, "name": f"{start['name']}, with the classes in the shares of the population"}
    return {**start["against_model"], "name": start["name"]}


def _members(estimator: Any, known: Labels) -> dict[str, Any] | None:
    return members(estimator) if is_fitted_to(estimator, known) else None


def _suspicious(
    estimator: Any, evaluation: Evaluation | None, known: Labels, ids: Sequence[Any] | None
) -> list[dict[str, Any]] | None:
    """Return the labels that are improbable by the predictions out of fold, the most doubtful first."""
    if evaluation is None:
        return None
    if is_fitted_to(estimator, known):
        frame = suspicious_labels(estimator, ids=ids)
    else:
        frame = rank_labels(evaluation.rows, evaluation.codes, evaluation.p["model"], known.classes, ids)
    lines = doubtful_labels(frame, len(known.classes))
    return [
        {"id": str(name), **{key: plain_value(value) for key, value in zip(SUSPICIOUS_COLUMNS, line, strict=True)}}
        for name, *line in lines.itertuples(index=False, name=None)
    ]


def _state_for_population(summary: dict[str, Any], estimator: Any, origins: LabelOrigins) -> None:
    """Add the rows that the accuracies hold for; for a committee, state those to expect on the unlabelled rows.

    Held-out labels tell how far its members are behind. Guessing is right as often as the most frequent class occurs.
    """
    accuracy, expected, shares = summary["accuracy"], None, None
    if summary["members"] and estimator.shares_ is not None:
        expected = estimator.expected_accuracy_
        shares = dict(zip(summary["classes"], estimator.shares_.tolist(), strict=True))
    accuracy["holds_for_unlabelled"] = not too_different(summary["findings"])
    accuracy["condition"] = outcome.condition(origins, accuracy["population"], shares)
    accuracy["expected"] = expected is not None and accuracy["holds_for_unlabelled"]
    if expected is None or not accuracy["holds_for_unlabelled"]:
        return
    own, *others = accuracy["methods"]
    offset = expected.value - own["accuracy"]["value"]
    own["accuracy"] = {"value": expected.value, "interval": expected.interval}
    for line in others:
        if line["key"] == "majority":
            gap = line["against_model"]
            gap["difference"], gap["interval"] = gap["difference"] + offset, [end + offset for end in gap["interval"]]
        else:
            both = line["accuracy"]
            both["value"], *both["interval"] = (
                float(np.clip(each + offset, 0, 1)) for each in (both["value"], *both["interval"])
            )


def _more_labels(estimator: Any, summary: dict[str, Any]) -> dict[str, Any] | None:
    """Return the gain of a committee from more labels, if the unlabelled rows are like the labelled ones."""
    holds = summary["accuracy"] is not None and summary["accuracy"]["holds_for_unlabelled"]
    return more_labels(estimator.learning_curve_) if holds and summary["members"] is not None else None


def _outcome(
    evaluation: Evaluation | None,
    summary: dict[str, Any],
    known: Labels,
    unlabeled: Array,
    model: Any,
    origins: LabelOrigins,
) -> dict[str, Any]:
    """Return the verdict of the report, the surest rows, and what would help most."""
    accuracy = summary["accuracy"]
    verdict = outcome.judge(accuracy)
    if evaluation is None:
        return {"verdict": verdict, "by_share": [], "surest": None, "what_helps": []}
    points = [] if verdict == outcome.NOT_SHOWN else _by_share(evaluation, summary, unlabeled, model)
    counts = np.bincount(known.codes[known.labeled], minlength=len(known.classes))
    priors = split_model(model)[1].get_params(deep=False).get("priors")
    interval = accuracy["methods"][0]["accuracy"]["interval"]
    more = None if summary["more_labels"] is None else summary["more_labels"]["sentence"]
    helps = outcome.what_helps(
        verdict,
        counts,
        interval,
        priors_given=priors is not None,
        by_quotas=origins.basis == "quota",
        more_labels=more,
    )
    return {"verdict": verdict, "by_share": points, "surest": outcome.surest_part(points), "what_helps": helps}


def _by_share(evaluation: Evaluation, summary: dict[str, Any], unlabeled: Array, model: Any) -> list[dict[str, Any]]:
    """Return the accuracy on the surest rows, by their share."""
    if summary["members"] is not None:
        committee = split_model(model)[1]
        whole = committee.expected_accuracy_
        return outcome.by_share(committee.evidence_, unlabeled, calibrated=True, whole=whole)
    return outcome.by_share(_evidence(evaluation), unlabeled, calibrated=False)


def _evidence(evaluation: Evaluation) -> Evidence:
    """Return the model's held-out predictions as evidence."""
    weight = np.ones(len(evaluation.codes)) if evaluation.weight is None else evaluation.weight
    return Evidence(evaluation.p["model"], evaluation.codes, weight, 1)


def _names(estimator: Any) -> dict[str, str]:
    """Return the names of the methods in the order of the table."""
    if isinstance(estimator, Committee) and hasattr(estimator, "members_"):
        start = "the same (labelled rows alone)"
        return {
            "model": title_of(estimator),
            START_KEY: start,
            **member_titles(estimator),
            "majority": "most frequent class",
        }
    start = (
        "its first network (labelled rows alone)"
        if hasattr(estimator, "round_proba")
        else "the same (labelled rows alone)"
    )
    titles = {key: find_method(key).title for key in BASELINE_METHODS}
    return {"model": title_of(estimator), START_KEY: start, **titles, "majority": "most frequent class"}


def _rounds(evaluation: Evaluation | None, estimator: Any) -> dict[str, Any] | None:
    """Return accuracy per round on held-out rows, and the share of unlabelled rows that kept their class."""
    agreement = [row["agreement"] for row in getattr(estimator, "history_", []) if row.get("phase") == "end"]
    if not any(value is not None for value in agreement):
        return None
    parts = ("network", "network_interval", "average", "average_interval")
    result: dict[str, Any] = {"rounds": list(range(len(agreement))), "agreement": agreement, **dict.fromkeys(parts)}
    if evaluation is None or evaluation.networks is None or evaluation.averages is None:
        return result
    result["rounds"] = list(range(len(evaluation.networks)))
    for name, p in (("network", evaluation.networks), ("average", evaluation.averages)):
        right = p.argmax(axis=2) == evaluation.codes
        result[name], result[f"{name}_interval"] = _shares_right(right, evaluation.weight)
    return result


def _curve(evaluation: Evaluation, names: dict[str, str]) -> dict[str, Any] | None:
    if len(evaluation.curve) < 2:
        return None
    lines = []
    for key in evaluation.curve[0]["right"]:
        shares, intervals = _shares_right([point["right"][key] for point in evaluation.curve], evaluation.weight)
        lines.append({"key": key, "name": names[key], "accuracy": shares, "interval": intervals})
    return {"labels": [point["labels"] for point in evaluation.curve], "methods": lines}


def _shares_right(each: Iterable[Array], weight: Array | None) -> tuple[list[float], list[list[float]]]:
    """Return the shares of rows that are right and their intervals, as two lists."""
    pairs = [share_right(right, weight) for right in each]
    return [share for share, _ in pairs], [interval for _, interval in pairs]


def _beats_guessing(accuracy: dict[str, Any]) -> bool:
    """Return whether the model is better than the most frequent class, by more than chance."""
    majority = next(line for line in accuracy["methods"] if line["key"] == "majority")
    return bool(majority["against_model"]["interval"][0] > 0)


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


def _explanation(
    model: Any, table: Any, proba: Any, evaluation: Evaluation | None, classes: list[str], seed: int
) -> dict[str, Any] | None:
    importances = None
    if evaluation is not None and evaluation.permuted is not None:
        by_forest = isinstance(split_model(model)[1], Committee)
        importances = importance(evaluation.permuted, column_names(table), classes, held_out=True, by_forest=by_forest)
    return {"importance": importances, "tree": tree(model, table, classes, proba=proba, seed=seed)}
