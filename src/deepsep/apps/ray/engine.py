"""Score the parts of a table on a Ray cluster: one model per worker, one part at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from deepsep.apps.ray.connection import connected
from deepsep.apps.ray.workers import Workers
from deepsep.scoring.decisions import Tally
from deepsep.scoring.local import score_parts as score_here
from deepsep.scoring.parts import Part, Report

MIN_STUDENT_ROWS = 300_000  # of these, Ray took 3.8 times as long as one machine: docs/results/scoring.md


def score_parts(
    model: Any,
    parts: Sequence[Part],
    options: Mapping[str, Any],
    report: Report,
    *,
    address: str | None,
    workers: int | None,
) -> list[Tally]:
    """Score the parts on a cluster and return what each holds.

    A part whose worker dies is scored by another one, from where the first had come.
    """
    with connected('engine="ray"', address, workers) as (ray, n_workers):
        arguments = (ray.put(model), dict(options))
        scorers = Workers(ray, Scorer, arguments, max(1, min(len(parts), n_workers)))
        done = count(1)
        try:
            return scorers.map(
                lambda actor, part: actor.score.remote(part),
                parts,
                lambda tally: report(tally.rows, next(done) / len(parts)),
            )
        finally:
            scorers.stop()


class Scorer:
    """A worker that holds one model and scores parts with it."""

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        self.model, self.options = model, options

    def score(self, part: Part) -> Tally:
        """Score one part to its own pieces."""
        (tally,) = score_here(self.model, [part], self.options, lambda rows, share: None)
        return tally
