"""Score the parts of a table on a Ray cluster: one model per actor, one part at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from deepsep.errors import missing_package
from deepsep.scoring.decisions import Tally
from deepsep.scoring.local import score_parts as score_here
from deepsep.scoring.parts import Part, Report


def score_parts(
    model: Any, parts: Sequence[Part], options: Mapping[str, Any], report: Report, *, address: str | None = None
) -> list[Tally]:
    """Score the parts on a cluster and return what each holds.

    Uses the cluster that this process is connected to, if any; otherwise joins the one at ``address``, or starts one
    here, and disconnects at the end.
    """
    try:
        ray: Any = import_module("ray")
        pool: Any = import_module("ray.util").ActorPool
    except ImportError as error:
        raise missing_package('engine="ray"', "ray") from error

    ours = not ray.is_initialized()
    if ours:
        ray.init(address=address, include_dashboard=False if address is None else None, log_to_driver=False)
    actors: list[Any] = []
    try:
        shared = ray.put(model)
        scorer = ray.remote(num_cpus=1)(Scorer)
        n_actors = max(1, min(len(parts), int(ray.cluster_resources().get("CPU", 1))))
        actors = [scorer.remote(shared, dict(options)) for _ in range(n_actors)]
        tallies: dict[int, Tally] = {}
        jobs = list(enumerate(parts))
        for i, tally in pool(actors).map_unordered(lambda actor, job: actor.score.remote(*job), jobs):
            tallies[i] = tally
            report(tally.rows, len(tallies) / len(parts))
        return [tallies[i] for i in range(len(parts))]
    finally:
        for actor in actors:
            ray.kill(actor)
        if ours:
            ray.shutdown()


class Scorer:
    """A Ray actor that holds one model and scores parts with it."""

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        self.model, self.options = model, options

    def score(self, number: int, part: Part) -> tuple[int, Tally]:
        """Score one part to its own pieces, and return its number too."""
        (tally,) = score_here(self.model, [part], self.options, lambda rows, share: None)
        return number, tally
