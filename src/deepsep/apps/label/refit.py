"""Fits to the labels so far, in another process: rows to ask about next, the accuracy to expect, important columns."""

from __future__ import annotations

import os
import threading
import warnings
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from deepsep.classifiers.committee.committee import Committee
from deepsep.core.arrays import Array
from deepsep.core.threads import end_with, without_interrupts
from deepsep.model.table_model import for_table
from deepsep.scoring.to_label import rows_to_label
from deepsep.table.pipeline import source_columns

REFIT_MEMBERS = ["random-forest", "lightgbm-few-labels"]  # as in benchmarks/labelling.py; they take seconds


class Job(NamedTuple):
    """Input of a refit."""

    X: pd.DataFrame  # labelled rows, and unlabelled ones to learn from and to choose among
    labels: list[str | None]  # their labels
    # the origin of each label: only labels drawn at random, or for quotas, tell the accuracy
    labels_drawn: list[str | None]
    free: Array  # whether a row may be chosen
    n: int  # number of rows to choose
    label: str  # name of the column of labels
    seed: int  # seed of the fit and the choice


class Refit(NamedTuple):
    """Result of a refit."""

    rows: list[int]  # places of the chosen rows in the table of the job, the most uncertain first
    # share of unlabelled rows that should be right, and the ends of its 90 % interval; None if too few rows can tell
    accuracy: tuple[float, float, float] | None
    columns: list[str]  # the columns that the model uses, the most important first


def refit(job: Job) -> Refit:
    """Fit a forest and LightGBM that decide together, choose rows as ``deepsep next`` does, and measure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        committee = Committee(members=REFIT_MEMBERS, effort="fast", student=False, n_jobs=1, random_state=job.seed)
        labels = np.array(job.labels, dtype=object)
        model = for_table(committee).fit(job.X, labels, committee__labels_drawn=job.labels_drawn)
        chosen = []
        if job.free.any():
            known = np.flatnonzero(~job.free)
            asked = rows_to_label(
                model,
                job.X,
                job.n,
                label=job.label,
                known=known,
                random_state=job.seed,
                random_every=None,  # the page draws such rows itself
            )
            chosen = [int(row) for row in asked["row"]]
    expected = model[-1].expected_accuracy_
    accuracy = None if expected is None else (expected.value, expected.low, expected.high)
    return Refit(chosen, accuracy, _by_importance(model))


def _by_importance(model: Pipeline) -> list[str]:
    """Return the columns that the model uses, by the forest's importance."""
    names = list(model[0].schema_)
    sources, forest = source_columns(model[:-1], names), model[-1].members_.get("random-forest")
    if sources is None or forest is None:
        return names
    importance = forest.estimator_.feature_importances_
    return [names[j] for j in np.argsort([-importance[at].sum() for at in sources], kind="stable")]


MAX_FAILURES = 3  # in a row


class Background:
    """Runs one refit at a time in a process that ends with this one."""

    def __init__(self) -> None:
        self.running = False  # whether a refit is under way, or its result has not been taken
        self.error = ""  # reason why the last refit failed
        self._done: list[Refit | Exception] = []
        self._process: Any = None
        self._pipe: Any = None
        self._failures = 0

    def start(self, job: Job) -> bool:
        """Start a refit, unless one is running or several in a row have failed."""
        if self.running or self._failures >= MAX_FAILURES:
            return False
        self.running = True
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return True

    def take(self) -> Refit | None:
        """Return the result of a refit, once; None if there is none, or it failed."""
        if not self._done:
            return None
        result = self._done.pop()
        self.running = False
        if isinstance(result, Refit):
            self.error, self._failures = "", 0
            return result
        self.error, self._failures = str(result) or type(result).__name__, self._failures + 1
        return None

    @property
    def process(self) -> int | None:
        """Number of the process; None before the first refit."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()

    def _run(self, job: Job) -> None:
        try:
            if self._process is None:
                self._begin()
            self._pipe.send(job)
            self._done.append(self._pipe.recv())
        except (OSError, EOFError):  # it was killed, for example for lack of memory
            self._process = None
            self._done.append(RuntimeError("the process of the refit ended"))
        except Exception as error:  # a table that cannot be sent must not end the labelling
            self._done.append(error)

    def _begin(self) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        with without_interrupts():
            process.start()
        theirs.close()
        self._process = process


def _work(pipe: Connection, parent: int) -> None:
    """Fit until the other end is closed; errors are sent as results."""
    end_with(parent)
    warnings.simplefilter("ignore")
    if hasattr(os, "nice"):
        os.nice(10)  # other programs come first
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        result: Any
        try:
            result = refit(job)
        except Exception as error:
            result = RuntimeError(str(error) or type(error).__name__)
        pipe.send(result)
