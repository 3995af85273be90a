"""Fit a model with progress bars, predict and evaluate it: what ``deepsep fit`` and the demo share."""

from __future__ import annotations

import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.classifiers.catalogue import find_method
from deepsep.classifiers.committee.committee import Committee
from deepsep.cli.progress import duration, watching, watching_committee
from deepsep.errors import InterruptWarning
from deepsep.model.fitting import fit_training
from deepsep.model.model_folder import other_files, predictions_file
from deepsep.model.predictions import Predictions, check_predicted_names, predict_unlabeled
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision

if TYPE_CHECKING:
    from deepsep.cli.console import Console
    from deepsep.core.context import Context
    from deepsep.model.table_model import TableModel
    from deepsep.model.training_table import Training


@dataclass(frozen=True)
class Fitted:
    """A fitted model, its predictions, and the other files of its folder."""

    model: TableModel
    asked: Decision  # of the labels, as far as it is possible
    predictions: Predictions
    summary: dict[str, Any] | None
    files: dict[str, bytes | Path]
    seconds: float


def fit_and_measure(
    out: Console,
    estimator: Any,
    data: Training,
    folder: Path,
    *,
    method: str,
    keep: list[str],
    seed: int,
    report: bool,
    command: str | None = None,
    format: str = "parquet",
    asked: Decision = MOST_PROBABLE_CLASS,
    comparison: dict[str, Any] | None = None,
) -> Fitted:
    """Fit a model, predict the unlabelled rows, and evaluate the model by cross-validation.

    ``folder`` is a temporary one, for the predictions.
    """
    check_predicted_names(data, asked)
    out.note(_announcement(estimator, method, data))
    wide = 1_000  # columns from which a report takes minutes
    if data.X.shape[1] > wide and report:
        out.note(f"All {data.X.shape[1]:,} columns are used, which makes the report slow; --no-report leaves it out.")
    began = time.perf_counter()
    with _progress(out, estimator, method, report) as (context, on_step):
        with warnings.catch_warnings():
            warnings.simplefilter("always", InterruptWarning)  # Ctrl-C ends the folds of a committee, not its fit
            model = fit_training(estimator, data, keep=keep, report=report, context=context)
        if any(text.startswith("interrupted") for text in out.warnings):
            out.note("The model is written with what is known; Ctrl-C again ends without one.")
        seconds = time.perf_counter() - began
        asked = _possible(out, model, asked)
        with out.share("Predicting") as progress:
            predictions = predict_unlabeled(model, data, asked, folder=folder, progress=progress)
        summary = None
        if report:
            if not isinstance(estimator, Committee):
                out.note("Evaluating it by cross-validation, next to other methods ...")
            settings = {"command": command or shlex.join(["deepsep", *sys.argv[1:]]), "comparison": comparison}
            summary = model.summary(**settings, seed=seed, on_step=on_step)
    file = predictions_file(format)
    files: dict[str, bytes | Path] = {file: predictions.write(folder / file), **other_files(model, data, summary)}
    return Fitted(model, asked, predictions, summary, files, seconds)


@contextmanager
def _progress(
    out: Console, estimator: Any, method: str, report: bool
) -> Iterator[tuple[Context, Callable[[int, int, str], None]]]:
    """Yield the context of a fit, and what the report calls at each step: one bar of a committee, two of others."""
    if isinstance(estimator, Committee):
        with watching_committee(out, report=report) as both:
            yield both
    else:
        with watching(out, estimator, method) as context, out.steps("Report") as on_step:
            yield context, on_step


def _possible(out: Console, model: TableModel, asked: Decision) -> Decision:
    """Return what is asked without what cannot be: a fit without predictions out of fold keeps its other results."""
    if asked.sets is not None and model.evidence_ is None:
        out.warn("no sets: no predictions out of fold are known, from which they are made.")
        return replace(asked, sets=None, per_class=False)
    return asked


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
