"""A scoring from any source to any target: its settings, who scores, and the result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from deepsep.core.model_parts import is_pipeline
from deepsep.core.notices import warn
from deepsep.core.threads import available_cores
from deepsep.drift.counts import Counts, one_in
from deepsep.drift.differences import find_drift
from deepsep.drift.drift_text import notice
from deepsep.errors import DataError, DriftWarning, ParameterError, Setting
from deepsep.models import load
from deepsep.scoring.decisions import Decisions, Tally, evidence_of
from deepsep.scoring.frame import schema_of
from deepsep.scoring.leaving_out import LeavingOut, values_in_training
from deepsep.scoring.parts import Part
from deepsep.scoring.remembered import profile_of, provenance_of
from deepsep.scoring.settings import THIS_MACHINE, Decision, Resources
from deepsep.scoring.who_scores import check_fast, choose, describe, rows_at_most
from deepsep.table.columns import check_names
from deepsep.table.locations import find_column
from deepsep.table.source import Source

Progress = Callable[[int, float], None]


class Scoring:
    """A scoring, its settings checked.

    Parameters
    ----------
    model : fitted classifier, or path
    decision : Decision
    id, resources, fast, reasons
        As in ``score_file``.

    Attributes
    ----------
    provenance : dict
        Where the model comes from.
    ignored : list of str
        Columns of the last source that the model does not use.
    scorer : fitted classifier
        The model, or its student; once the parts are known.
    options : dict
        What engines need to know.
    """

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
        most_workers = 16  # threads that score batches
        if fast not in (None, True, False):
            raise ParameterError("{fast}; pass True, False or None.", fast=Setting("fast", fast))
        self.model = load(model) if isinstance(model, str | os.PathLike) else model
        self.id, self.reasons = id, reasons
        self.decisions = Decisions.of(self.model, decision)
        check_fast(fast, decision.sets)
        self.fast = False if fast is None and (decision.sets is not None or decision.abstain is not None) else fast
        self.profile, self.provenance = profile_of(self.model), provenance_of(self.model)
        self.ignored: list[str] = []
        self.options: dict[str, Any] = {
            "id": id,
            "batch_rows": resources.batch_rows,
            "decisions": self.decisions,
            "profile": self.profile,
            "provenance": self.provenance,
            "workers": min(available_cores(), most_workers),
        }

    def part(
        self,
        source: Source,
        place: object,
        *,
        target: Path = Path(),
        first_row: int = 0,
        name: str = "query",
        relative: str = "query",
        alone: bool = True,
    ) -> Part:
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
        return Part(name, relative, source, target, first_row, source.n_rows, types, alone)

    def choose(self, parts: list[Part]) -> None:
        """Decide who scores, by the number of rows."""
        self.scorer = choose(self.model, parts, self.fast)
        sizes = [part.n_rows for part in parts]
        n_rows = None if None in sizes else sum(size or 0 for size in sizes)
        self.options["every"], self._leaving_out = one_in(n_rows), None
        if self.reasons is not None:
            self._leaving_out = LeavingOut(self.scorer, self.reasons, values_in_training(self.model))
            self._leaving_out.check_cost(self.scorer, n_rows, rows_at_most(parts))
        self.options["leaving_out"] = self._leaving_out

    def score(self, engine: Callable[..., list[Tally]], parts: list[Part], progress: Progress | None) -> list[Tally]:
        """Have an engine score the parts, and return what each holds."""
        return engine(self.scorer, parts, self.options, _Report(parts, progress))

    def result(self, tallies: list[Tally]) -> dict[str, Any]:
        """Return the result, as ``score_file`` does."""
        whole = sum(tallies, Tally())
        return {
            "rows": whole.rows,
            "labels": {name: whole.labels[name] for name in np.asarray(self.model.classes_).tolist()},
            "ignored": self.ignored,
            "decisions": self.decisions.describe(whole, evidence_of(self.scorer)),
            "reasons": self.reasons
            and {"number": self.reasons, "passes": self._leaving_out.passes if self._leaving_out else 0},
            **describe(self.model, self.scorer),
            "model": self.provenance,
            "drift": self._compare(tallies),
        }

    def _compare(self, tallies: list[Tally]) -> dict[str, Any] | None:
        """Return how all scored rows differ from the training table."""
        if self.profile is None:
            return None
        counts = Counts(self.profile)
        for tally in tallies:
            if tally.drift is not None:
                counts += tally.drift
        agreement = None if self.scorer is self.model else describe(self.model, self.scorer)["student"]["agreement"]
        return find_drift(self.profile, counts, np.asarray(self.model.classes_).tolist(), agreement=agreement)


def warn_of_drift(drift: dict[str, Any] | None) -> None:
    """Warn if scored rows differ from the training table."""
    if drift is not None and drift["drifted"]:
        warn(notice(drift), DriftWarning)


def _others(names: Iterable[str], id: str | None) -> list[str]:
    return [name for name in names if name != id]


class _Report:
    """Sums the progress over all parts."""

    def __init__(self, parts: list[Part], progress: Progress | None) -> None:
        self.rows, self.progress = 0, progress
        self.total = sum(part.n_rows or 0 for part in parts)

    def __call__(self, rows: int, share: float) -> None:
        self.rows += rows
        if self.progress is not None:
            self.progress(self.rows, self.rows / self.total if self.total else share)
