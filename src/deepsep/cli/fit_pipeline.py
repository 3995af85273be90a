"""Fit a model to a table, predict the rows without a label, and measure it: what ``deepsep fit`` and the demo share."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from deepsep.classifiers.catalogue import find_method
from deepsep.classifiers.committee.committee import Committee
from deepsep.cli.options import Format
from deepsep.cli.outputs import REPORT, SUMMARY, as_file, label_files
from deepsep.cli.progress import duration, watching, watching_committee
from deepsep.errors import InterruptWarning
from deepsep.evaluation.frames import check_id_name, prediction_names
from deepsep.report.findings import check_fit
from deepsep.scoring.decisions import Decisions, evidence_of
from deepsep.scoring.local import label_type
from deepsep.scoring.others import read_frames
from deepsep.scoring.settings import LIKELIEST_CLASS, Decision
from deepsep.scoring.training_profile import remember_columns
from deepsep.table import for_table

if TYPE_CHECKING:
    from deepsep.cli.console import Console
    from deepsep.cli.training import Training
    from deepsep.core.context import Context
    from deepsep.core.training_rows import TrainingRows

WIDE = 1_000  # columns from which a report takes minutes


@dataclass(frozen=True)
class Fitted:
    """A fitted model, its predictions, and the other files of its folder."""

    model: Any
    asked: Decision  # of the labels, as far as it is possible
    predictions: pd.DataFrame  # of the unlabelled rows in memory
    decisions: dict[str, Any]
    findings: list[dict[str, Any]]
    summary: dict[str, Any] | None
    files: dict[str, bytes | Path]
    seconds: float
    frames: Iterable[pd.DataFrame]  # the predictions of all unlabelled rows
    counts: dict[Any, int]  # how often each class is predicted for them
    n_predicted: int
    scored: dict[str, Any] | None  # how rows beside those in memory were predicted
    workbook: Any = None


def fit_and_measure(
    out: Console,
    estimator: Any,
    data: Training,
    *,
    method: str,
    keep: list[str],
    seed: int,
    report: bool,
    command: str | None,
    predictions: Format = Format.parquet,
    asked: Decision = LIKELIEST_CLASS,
    comparison: dict[str, Any] | None = None,
    workbook: bool = False,
    scratch: Path | None = None,
) -> Fitted:
    """Fit a model, predict the unlabelled rows, and evaluate the model by cross-validation.

    ``scratch`` is a folder for the predictions of a large table.
    """
    labeled = data.labeled
    check_id_name(data.ids.name, prediction_names(data.labels.classes, data.label, sets=asked.sets is not None))
    together = isinstance(estimator, Committee)
    if together:
        estimator.set_params(twins=report)
    out.note(_announcement(estimator, method, data))
    if data.X.shape[1] > WIDE and report:
        out.note(f"All {data.X.shape[1]:,} columns are used, which makes the report slow; --no-report leaves it out.")
    began = time.perf_counter()
    model = for_table(estimator, keep=keep)
    weights = {} if data.weight is None else {"sample_weight": data.weight}
    columns = model[0].fit_transform(data.X, data.labels)
    findings = check_fit(columns, data.labels, estimator, data.weight, model[0].left_out_)
    if data.large is not None:
        findings.append(_part_of(data))
    on_step: Callable[[int, int, str], object] | None = None
    with ExitStack() as stack:
        stack.enter_context(_silent_workers())
        encoded = model[1:-1].fit_transform(columns, data.labels)
        if together:
            context, on_step = stack.enter_context(watching_committee(out, report=report))
            rows = model[-1].training_rows(encoded, data.labels, **weights, labels_drawn=data.labels_drawn)
            _fit_committee(out, model[-1], rows, context)
        else:
            with watching(out, model[-1], method) as context:
                model[-1].fit_rows(model[-1].training_rows(encoded, data.labels, **weights), context)
            if report:
                out.note("Evaluating it by cross-validation, next to other methods ...")
                on_step = stack.enter_context(out.steps("Report"))
        remember_columns(model, columns, data.labels, data.weight)
        model[0].label_ = data.label  # the predictions of ``deepsep score`` are written under this name too
        seconds = time.perf_counter() - began
        proba = model[-1].label_distributions_
        asked = _possible(out, model, asked)
        decisions = Decisions.of(model, asked)
        predicted, tally = decisions.columns(proba[~labeled], data.label)
        frame = pd.DataFrame({data.ids.name: data.ids.to_numpy()[~labeled], **predicted})
        frames: Iterable[Any] = [frame]
        counts, n_predicted, scored = frame.iloc[:, 1].value_counts().to_dict(), len(frame), None
        files: dict[str, Any] = {}
        if data.large is None or scratch is None:
            files[predictions.file] = as_file(frame, predictions, label_type(model, decisions))
        else:
            from deepsep.cli.many_rows import predict_all

            whole, files[predictions.file], scored = predict_all(out, model, data, asked, predictions, scratch)
            frames, counts, n_predicted = read_frames(whole), scored["labels"], scored["rows"]
        summary = None
        if report:
            from joblib import cpu_count

            from deepsep.report import render, summarize
            from deepsep.report.held_out import FOLDS

            summary = summarize(
                model,
                data.X,
                data.labels,
                ids=data.ids,
                proba=proba,
                label=data.label,
                command=command or shlex.join(["deepsep", *sys.argv[1:]]),
                comparison=comparison,
                findings=findings,
                seed=seed,
                sample_weight=data.weight,
                labels_drawn=data.labels_drawn,
                n_jobs=min(FOLDS, cpu_count()),
                on_step=on_step,
            )
            files[REPORT] = render(summary, data_file=SUMMARY).encode()
            files[SUMMARY] = json.dumps(summary, ensure_ascii=False, indent=1).encode()
    files |= label_files(model, data, summary)
    described = decisions.describe(tally, evidence_of(model)) if scored is None else scored["decisions"]
    book = None
    if workbook:
        from deepsep.apps.workbook import make_workbook

        book = make_workbook(
            model,
            data.X,
            data.labels,
            ids=data.ids,
            proba=proba,
            label=data.label,
            summary=summary,
            seed=seed,
            sample_weight=data.weight,
        )
    return Fitted(
        model, asked, frame, described, findings, summary, files, seconds, frames, counts, n_predicted, scored, book
    )


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


def _possible(out: Console, model: Any, asked: Decision) -> Decision:
    """Return what is asked without what cannot be: a fit without predictions out of fold keeps its other results."""
    if asked.sets is not None and evidence_of(model) is None:
        out.warn("no sets: no predictions out of fold are known, from which they are made.")
        return replace(asked, sets=None, per_class=False)
    return asked


def _fit_committee(out: Console, committee: Committee, rows: TrainingRows, context: Context) -> None:
    """Fit a committee; if Ctrl-C ends the folds, it is kept with what is known by then."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InterruptWarning)
        committee.fit_rows(rows, context)
    if any(text.startswith("interrupted") for text in out.warnings):
        out.note("The model is written with what is known; Ctrl-C again ends without one.")


def _announcement(estimator: Any, method: str, data: Training) -> str:
    """Return what is going to be fitted, and about how long it takes."""
    what = f"Fitting {method} to {len(data.X):,} rows, {int(data.labeled.sum()):,} of them labelled"
    if not isinstance(estimator, Committee):
        return f"{what} ({find_method(method).cost}) ..."
    plan = estimator.plan(len(data.X), data.labels)
    width = max(map(len, plan.members))
    in_folds = f", and to the other rows in each of {plan.n_folds} folds" if plan.n_folds else ""
    lines = [f"{what}. It has {len(plan.members)} members, each fitted to all rows{in_folds}:"]
    lines += [f"  {name:<{width}}  {why}" for name, why in plan.members.items()]
    if plan.left_out:
        lines.append(f"Not in it: {'; '.join(f'{name} ({why})' for name, why in plan.left_out.items())}.")
    cores = estimator.n_jobs or os.cpu_count() or 1
    lines.append(f"In all {plan.n_fits} fits: {duration(plan.seconds, cores)} ...")
    return "\n".join(lines)


@contextmanager
def _silent_workers() -> Iterator[None]:
    """Keep the worker processes from printing warnings, also after Ctrl-C."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before
