"""Score the parts of a table on a Ray cluster: one model per worker, one part at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from deepsep.apps.ray.connection import connected
from deepsep.apps.ray.workers import Workers
from deepsep.scoring import local
from deepsep.scoring.decisions import Tally
from deepsep.scoring.job import Part, Report, ScoringJob

MIN_STUDENT_ROWS = 300_000  # of these, Ray took 3.8 times as long as one machine: docs/results/scoring.md


def score_on_cluster(
    job: ScoringJob, parts: Sequence[Part], report: Report, *, address: str | None, workers: int | None
) -> list[Tally]:
    """Score the parts on a cluster and return what each holds.

    A part whose worker dies is scored by another one, from where the first had come.
    """
    with connected(address, workers) as (ray, n_workers):
        shared = ray.put(replace(job, workers=1))
        scorers = Workers(ray, Scorer, (shared,), max(1, min(len(parts), n_workers)))
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

    def __init__(self, job: ScoringJob) -> None:
        self.job = job

    def score(self, part: Part) -> Tally:
        """Score one part to its own pieces."""
        (tally,) = local.score_parts(self.job, [part], lambda rows, share: None)
        return tally
