"""Workers on a Ray cluster: processes with a state of their own, which are replaced when they die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from deepsep.errors import DeepSepError

MAX_WORKER_DEATHS = 5  # with the same job, which is then given up


class Workers:
    """Actors of one kind, on the cluster that ``ray`` is connected to; ``arguments`` are those of their constructor."""

    def __init__(self, ray: Any, kind: type, arguments: Sequence[Any], n: int) -> None:
        self._ray, self._kind, self._arguments = ray, kind, arguments
        self._actors = [self._start(num_cpus=1) for _ in range(n)]

    def __len__(self) -> int:
        return len(self._actors)

    def map(
        self, ask: Callable[[Any, Any], Any], jobs: Sequence[Any], on_done: Callable[[Any], None] | None = None
    ) -> list[Any]:
        """Return the results of jobs, in their order; if a worker dies, another one repeats its job.

        ``ask(actor, job)`` calls a method of an actor, and returns the reference to its result. Each worker gets a job,
        and another one when it is free. ``on_done`` is called with each result as soon as it is ready.
        """
        ray, results, deaths = self._ray, {}, Counter[int]()
        waiting = {ask(self._actors[seat], jobs[seat]): (seat, seat) for seat in range(min(len(jobs), len(self)))}
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
