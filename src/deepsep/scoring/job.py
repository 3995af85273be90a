"""A scoring from any source to any target: its settings, its parts, the model that scores them, and the result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deepsep.core.column_kinds import ColumnType
from deepsep.core.model_parts import estimator_of, is_pipeline
from deepsep.core.threads import available_cores
from deepsep.drift.counts import Counts, one_in
from deepsep.drift.differences import find_drift, notice
from deepsep.drift.profile import TrainingProfile
from deepsep.errors import DataError, DriftWarning, ParameterError, Setting, warn
from deepsep.models import load, profile_of, provenance_of
from deepsep.scoring.decisions import Decision, Decisions, Tally, total
from deepsep.scoring.journal import Journal
from deepsep.scoring.leaving_out import LeavingOut, values_in_training
from deepsep.scoring.who_scores import check_fast, choose, schema_of, student_of
from deepsep.table.columns import check_names
from deepsep.table.locations import find_column
from deepsep.table.source import Source

BATCH_ROWS = 20_000  # rows in memory at a time
ENGINE_APPS = {"ray": "deepsep.apps.ray"}  # modules whose ``score_on_cluster`` scores on other machines

Progress = Callable[[int, float], None]  # rows scored so far, and the share of the source read so far
Report = Callable[[int, float], None]  # rows just scored, and the share of the part read so far


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The machines that score, and the rows that they have in memory at a time.

    Parameters
    ----------
    engine : {"local", "ray"}, default="local"
        "ray" scores several files to a folder on a Ray cluster, one model per worker. All machines must reach source
        and target by the same paths.
    address : str, optional
        Address of the Ray cluster. None: that of the variable RAY_ADDRESS. "local", or neither: one is started here.
    workers : int, optional
        With "ray": how many workers score, with a CPU each. None: one for each CPU of the cluster.
    batch_rows : int, default=20_000
        Number of rows in memory at a time, and in a transaction of a database.
    """

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = None
    batch_rows: int = BATCH_ROWS

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray"):
            raise ParameterError("{engine}; pass 'local' or 'ray'.", engine=Setting("engine", self.engine))
        if self.workers is not None and self.engine != "ray":
            workers, ray = Setting("workers", self.workers), Setting("engine", "ray")
            raise ParameterError("{workers} belongs to {ray}.", workers=workers, ray=ray)
        if not (isinstance(self.batch_rows, int) and self.batch_rows >= 1):
            raise ParameterError("{rows}; pass an integer of at least 1.", rows=Setting("batch_rows", self.batch_rows))

    def check_local(self) -> None:
        """Raise unless this machine scores."""
        if self.engine == "ray":
            raise ParameterError(
                "{ray} scores several files, such as a folder of Parquet parts, to a folder; use {local} for a file.",
                ray=Setting("engine", "ray"),
                local=Setting("engine", "local"),
            )


THIS_MACHINE = Resources()


class UnreadablePart(Exception):
    """One of several parts could not be read; the others can."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One file or query to score: the unit of work of every engine."""

    source: Source
    n_rows: int | None
    types: Mapping[str, ColumnType]  # of the columns to read
    name: str = "query"  # of its pieces
    relative: str = "query"  # where it is in the folder of parts
    target: Path = Path()  # parts with the same target are written to it one after another; none in a database
    first_row: int = 0
    alone: bool = True  # whether there is no other, so that scoring fails if it cannot be read


@dataclass(frozen=True)
class ScoringJob:
    """Settings that an engine needs to score parts."""

    model: Any  # that scores: the model itself, or its student
    decisions: Decisions
    leaving_out: LeavingOut | None  # finds reasons
    id: str | None
    batch_rows: int
    workers: int  # threads that score batches
    profile: TrainingProfile | None  # with which the rows are compared
    every: int  # one row in so many is compared
    provenance: Mapping[str, Any]
    journal: Journal | None = None  # of a target that is a file

    @property
    def scored_by(self) -> str:
        """Name of the method that scores; "student" for the student of a committee."""
        method = estimator_of(self.model)
        return str(getattr(method, "method_name", type(method).__name__))

    def new_counts(self) -> Counts | None:
        """Return counts of no rows, for the comparison with the training table."""
        return None if self.profile is None else Counts(self.profile, self.every)


class Scoring:
    """A scoring with the settings of ``score_file``, checked; ``ignored`` are columns that the model does not use."""

    def __init__(
        self,
        model: Any,
        decision: Decision,
        *,
        id: str | None,
        resources: Resources = THIS_MACHINE,
        fast: bool | None = None,
        reasons: int | None = None,
    ) -> None:
        if fast not in (None, True, False):
            raise ParameterError("{fast}; pass True, False or None.", fast=Setting("fast", fast))
        self.model = load(model) if isinstance(model, str | os.PathLike) else model
        self.id, self.reasons, self._batch_rows = id, reasons, resources.batch_rows
        self.decisions = Decisions.of(self.model, decision)
        check_fast(fast, decision.sets)
        self.fast = False if fast is None and (decision.sets is not None or decision.abstain is not None) else fast
        self.profile = profile_of(self.model)
        self.ignored: list[str] = []

    def part(self, source: Source, place: object, **fields: Any) -> Part:
        """Return a table to score, after a check of its columns; ``place`` is for messages."""
        id, schema = self.id, schema_of(self.model)
        left_out = getattr(self.model[0], "left_out_", {}) if is_pipeline(self.model) else {}
        try:
            check_names(schema, left_out, source.names if id in schema else _others(source.names, id))
        except DataError as error:
            raise DataError(f"{place}: {error}") from None
        if id is not None:
            find_column(source.names, id, "id column")
        self.ignored = [each for each in source.names if schema and each not in schema and each != id]
        types = schema or dict.fromkeys(_others(source.names, id), "number")
        return Part(source=source, n_rows=source.n_rows, types=types, **fields)

    def job(self, parts: Sequence[Part]) -> ScoringJob:
        """Return what an engine needs; the number of rows decides who scores."""
        sizes = [part.n_rows for part in parts]
        n_rows = None if None in sizes else sum(size or 0 for size in sizes)
        at_most = sum(part.source.rows_at_most for part in parts)
        model, leaving_out = choose(self.model, at_most, self.fast), None
        if self.reasons is not None:
            leaving_out = LeavingOut(model, self.reasons, values_in_training(self.model))
            leaving_out.check_cost(model, n_rows, at_most)
        return ScoringJob(
            model=model,
            decisions=self.decisions,
            leaving_out=leaving_out,
            id=self.id,
            batch_rows=self._batch_rows,
            workers=min(available_cores(), 16),
            profile=self.profile,
            every=one_in(n_rows),
            provenance=provenance_of(self.model),
        )

    def result(self, job: ScoringJob, tallies: Iterable[Tally]) -> dict[str, Any]:
        """Return the result, as ``score_file`` does."""
        whole = total(tallies, None if self.profile is None else Counts(self.profile))
        classes, student = self.decisions.classes.tolist(), student_of(self.model)
        agreement = None if job.model is self.model else student.agreement_
        drift = whole.drift and find_drift(whole.drift.profile, whole.drift, classes, agreement=agreement)
        return {
            "rows": whole.rows,
            "labels": {name: whole.labels[name] for name in classes},
            "ignored": self.ignored,
            "decisions": self.decisions.describe(whole, getattr(estimator_of(job.model), "evidence_", None)),
            "reasons": job.leaving_out and {"number": self.reasons, "passes": job.leaving_out.passes},
            "scored_by": job.scored_by,
            "student": student and {"agreement": student.agreement_, "accuracy_loss": student.accuracy_loss_},
            "model": dict(job.provenance),
            "drift": drift,
        }


def reporting(parts: Sequence[Part], progress: Progress | None) -> Report:
    """Return a function that sums the progress over all parts."""
    done, total = 0, sum(part.n_rows or 0 for part in parts)

    def report(rows: int, share: float) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, done / total if total else share)

    return report


def failed_parts(parts: Sequence[Part], tallies: Sequence[Tally]) -> dict[str, str]:
    """Return the parts that could not be read, and why."""
    return {part.relative: tally.error for part, tally in zip(parts, tallies, strict=True) if tally.error}


def warn_of_drift(drift: dict[str, Any] | None) -> None:
    """Warn if scored rows differ from the training table."""
    if drift is not None and drift["drifted"]:
        warn(notice(drift), DriftWarning)


def _others(names: Iterable[str], id: str | None) -> list[str]:
    return [name for name in names if name != id]
