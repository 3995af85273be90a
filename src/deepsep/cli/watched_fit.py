"""A fit with progress bars: what ``deepsep fit`` and the demo share."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deepsep.classifiers.catalogue import find_method
from deepsep.classifiers.committee.committee import Committee
from deepsep.cli.console import Console
from deepsep.cli.printed_lines import aligned
from deepsep.core.training_rows import Context
from deepsep.errors import InterruptWarning
from deepsep.model.fitting import fit_training
from deepsep.model.predictions import Predictions, check_predicted_names, predict_unlabeled
from deepsep.model.table_model import TableModel
from deepsep.model.training_table import Training
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision

OnStep = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Fitted:
    """A fitted model, its predictions, and its evaluation."""

    model: TableModel
    decision: Decision  # as far as it is possible
    predictions: Predictions
    summary: dict[str, Any] | None
    seconds: float


def fit_and_measure(
    out: Console,
    estimator: Any,
    data: Training,
    folder: Path,
    *,
    method: str,
    keep: list[str],
    report: bool,
    decision: Decision = MOST_PROBABLE_CLASS,
    **of_report: Any,
) -> Fitted:
    """Fit a model, predict the unlabelled rows, and evaluate the model by cross-validation.

    ``folder`` is a temporary one, for the predictions; ``of_report`` are settings of the report.
    """
    check_predicted_names(data, decision)
    out.note(_announcement(estimator, method, data))
    wide = 1_000  # columns from which a report takes minutes
    if data.X.shape[1] > wide and report:
        out.note(f"All {data.X.shape[1]:,} columns are used, which makes the report slow; --no-report leaves it out.")
    began = time.perf_counter()
    with ExitStack() as bars:
        on_step: Any = None  # what the report calls at each step: a committee has one bar for its fits and the report
        if isinstance(estimator, Committee):
            context, on_step = bars.enter_context(watching_committee(out, report=report))
        else:
            context = bars.enter_context(watching(out, estimator, method))
        with warnings.catch_warnings():
            if isinstance(estimator, Committee):  # of which Ctrl-C ends the folds, not the fit
                warnings.simplefilter("always", InterruptWarning)
            model = fit_training(estimator, data, keep=keep, report=report, context=context)
        if any(text.startswith("interrupted") for text in out.warnings):
            out.note("The model is written with what is known; Ctrl-C again ends without one.")
        seconds = time.perf_counter() - began
        if on_step is None:
            bars.close()
        if decision.sets is not None and model.evidence_ is None:
            out.warn("no sets: no predictions out of fold are known, from which they are made.")
            decision = replace(decision, sets=None, per_class=False)
        with out.share("Predicting") as progress:
            predictions = predict_unlabeled(model, data, decision, folder=folder, progress=progress)
        if report and on_step is None:
            out.note("Evaluating it by cross-validation, next to other methods ...")
            on_step = bars.enter_context(out.steps("Report"))
        summary = model.summary(**{"command": out.command, **of_report}, on_step=on_step) if report else None
    return Fitted(model, decision, predictions, summary, seconds)


def _announcement(estimator: Any, method: str, data: Training) -> str:
    """Return what is going to be fitted, and about how long it takes."""
    what = f"Fitting {method} to {len(data.X):,} rows, {int(data.labeled.sum()):,} of them labelled"
    if not isinstance(estimator, Committee):
        return f"{what} ({find_method(method).cost}) ..."
    plan = estimator.plan(len(data.X), data.labels)
    in_folds = f", and to the other rows in each of {plan.n_folds} folds" if plan.n_folds else ""
    lines = [f"{what}. It has {len(plan.members)} members, each fitted to all rows{in_folds}:"]
    lines += aligned(plan.members)
    if plan.left_out:
        lines.append(f"Not in it: {'; '.join(f'{name} ({why})' for name, why in plan.left_out.items())}.")
    cores = estimator.n_jobs or os.cpu_count() or 1
    lines.append(f"In all {plan.n_fits} fits: {duration(plan.seconds, cores)} ...")
    return "\n".join(lines)


def duration(seconds: float, cores: int) -> str:
    """Return roughly how long some seconds of work take on several cores."""
    minutes = seconds / cores / 60
    time = "less than a minute" if minutes < 0.75 else f"about {round(minutes)} minute{'s' * (minutes >= 1.5)}"
    return f"{time} on {cores} core{'s' * (cores > 1)}"


@contextmanager
def watching(out: Console, estimator: Any, name: str) -> Iterator[Context]:
    """Show a progress bar while an estimator is fitted, if it trains a network; yields the context of the fit."""
    if out.shows_progress and estimator._all_steps is not None:
        with out.bar(name, total=estimator._all_steps) as bar:

            def on_step(steps: int, loss: float) -> None:
                bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
                bar.update(steps)

            yield Context(on_step=on_step)
    else:
        yield Context()


@contextmanager
def watching_committee(out: Console, *, report: bool) -> Iterator[tuple[Context, OnStep]]:
    """Show one progress bar for all fits of a committee and its report.

    Yields the context of the fit, and what the report calls at each step.
    """
    report_seconds = 20.0  # seconds of work on one core, about, that a report adds to the fits of a committee
    fits, after = 0.0, report_seconds if report else 0.0
    with out.share_bar("committee") as bar:

        def move(seconds: float, what: str) -> None:
            bar.set_postfix_str(what, refresh=False)
            bar.update(seconds / (fits + after) - bar.n)

        def on_work(done: float, total: float, what: str) -> None:
            nonlocal fits
            fits = total
            move(done, what)

        yield Context(on_work=on_work), lambda done, total, what: move(fits + after * done / total, what)
