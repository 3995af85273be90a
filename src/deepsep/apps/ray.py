"""Score the parts of a table on a Ray cluster: one model per worker, one part at a time."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import count
from typing import Any

from deepsep.core.checks import is_integer
from deepsep.errors import DeepSepError, ParameterError, Setting, missing_package
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


MAX_WORKER_DEATHS = 5  # with the same job, which is then given up


class Workers:
    """Actors of one kind, on the cluster that ``ray`` is connected to; ``arguments`` are those of their constructor."""

    def __init__(self, ray: Any, kind: type, arguments: Sequence[Any], n: int) -> None:
        self._ray, self._kind, self._arguments = ray, kind, arguments
        self._actors = [self._start(num_cpus=1) for _ in range(n)]

    def map(
        self, ask: Callable[[Any, Any], Any], jobs: Sequence[Any], on_done: Callable[[Any], None] | None = None
    ) -> list[Any]:
        """Return the results of jobs, in their order; if a worker dies, another one repeats its job.

        ``ask(actor, job)`` calls a method of an actor, and returns the reference to its result. Each worker gets a job,
        and another one when it is free. ``on_done`` is called with each result as soon as it is ready.
        """
        ray, results, deaths = self._ray, {}, Counter[int]()
        waiting = {
            ask(self._actors[seat], jobs[seat]): (seat, seat) for seat in range(min(len(jobs), len(self._actors)))
        }
        ahead = iter(range(len(waiting), len(jobs)))
        while waiting:
            (ready,), _ = ray.wait(list(waiting))
            seat, number = waiting.pop(ready)
            try:
                results[number] = ray.get(ready)
            except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
                deaths[number] += 1
                if deaths[number] > MAX_WORKER_DEATHS:
                    raise DeepSepError(
                        f"{deaths[number]} workers of the Ray cluster died one after the other with the same work. "
                        "Often a machine has too little memory for its workers, or another version of deepsep. Ray's "
                        f"message: {error}"
                    ) from error
                self._replace(seat)
                waiting[ask(self._actors[seat], jobs[number])] = (seat, number)
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            if on_done is not None:
                on_done(results[number])
            following = next(ahead, None)
            if following is not None:
                waiting[ask(self._actors[seat], jobs[following])] = (seat, following)
        return [results[number] for number in range(len(jobs))]

    def stop(self) -> None:
        """End all workers."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []

    def _start(self, *, num_cpus: int) -> Any:
        remote = self._ray.remote(num_cpus=num_cpus, scheduling_strategy="SPREAD")(self._kind)
        return remote.remote(*self._arguments)

    def _replace(self, seat: int) -> None:
        self._ray.kill(self._actors[seat])  # it may only be out of reach
        # It claims 0 CPUs: those of a lost machine are gone, and it must not wait for them.
        self._actors[seat] = self._start(num_cpus=0)


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[tuple[Any, int]]:
    """Yield Ray's module and the number of workers, by default one for each CPU; disconnect at the end.

    Uses the cluster that this process is connected to, if any; otherwise joins the one at ``address``, by default that
    in the variable RAY_ADDRESS. If that is "local", or there is none, a cluster is started on this machine.
    """
    if not (workers is None or is_integer(workers, 1)):
        raise ParameterError("{workers}; pass a positive integer or None.", workers=Setting("workers", workers))
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise missing_package('engine="ray"', "ray") from error
    ours = not ray.is_initialized()
    if ours:
        _join(ray, address, workers)
    try:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if workers is not None and workers > cpus:
            raise ParameterError(
                f"{{workers}}, but the Ray cluster has {cpus} CPUs. Ask for fewer workers, or add machines to it.",
                workers=Setting("workers", workers),
            )
        yield ray, workers or max(cpus, 1)
    finally:
        if ours:
            ray.shutdown()


def _join(ray: Any, address: str | None, workers: int | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    place = address or os.environ.get("RAY_ADDRESS") or "local"
    if place == "local":  # Ray starts a cluster on this machine, even if one is running
        ray.init(address=place, num_cpus=workers, include_dashboard=False, **options)
        return
    try:
        _knock(place)
        ray.init(address=place, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise ParameterError(
            f"{'{address}' if address else f'RAY_ADDRESS={place}'}: no Ray cluster answers "
            f"({str(error).splitlines()[0]}). Start one with `ray start --head` and name its address, or leave the "
            "address out: a cluster is then started on this machine.",
            address=Setting("address", place),
        ) from error


def _knock(address: str) -> None:
    """Raise unless something listens at an address, within ten seconds: Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=10).close()
