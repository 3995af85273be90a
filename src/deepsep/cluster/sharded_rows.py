"""The TSVM's pass over rows in shards, which workers on a Ray cluster hold.

Every sum over the rows is one over shards, and these are added in their order. Where shards begin depends on the number
of rows alone, so the result has the same bits with any number of workers. What a shard remembers from call to call are
its multipliers, and they follow from the calls before: a worker that replaces a dead one repeats those that changed
them, and goes on with the same bits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from itertools import chain, count, pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepsep.cluster.workers import Workers
from deepsep.core.threads import one_blas_thread
from deepsep.solvers.rows import Rows, Sums

Array = NDArray[Any]

SHARD_ROWS = 131_072


class Call(NamedTuple):
    """A method of ``Rows`` to call on every shard."""

    name: str
    offset: Array
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class Shard(NamedTuple):
    """A part of the rows, as ``Rows`` takes it."""

    place: slice  # of its unlabelled rows among all
    labelled: tuple[Any, Array, Any]  # rows, signs and costs; none but in the first shard
    unlabelled: Any  # a reference to the rows in Ray's object store
    cost_unlabelled: Any
    settings: dict[str, Any]


class ShardKeeper:
    """A worker: keeps some of the shards of each pass, and answers for them."""

    def __init__(self) -> None:
        self._passes: dict[int, list[tuple[slice, Rows]]] = {}

    def ask(self, key: int, shards: Sequence[Any], past: Sequence[Any], call: Call) -> list[Any]:
        """Return what the call gives for each shard; whoever is new loads them and repeats the past first.

        Shards and past calls are references to Ray's object store.
        """
        with one_blas_thread():
            if key not in self._passes:
                get = import_module("ray").get
                self._passes[key] = [_open(get(shard), get) for shard in shards]
                for earlier in past:
                    self._call(key, get(earlier))
            return self._call(key, call)

    def forget(self, key: int) -> None:
        """Drop the shards of a pass."""
        self._passes.pop(key, None)

    def _call(self, key: int, call: Call) -> list[Any]:
        answers = []
        for place, rows in self._passes[key]:
            arguments = call.arguments
            if call.name == "linearise":
                sigma, problems = arguments
                arguments = (sigma[:, place], problems)
            rows.offset = call.offset
            answers.append(getattr(rows, call.name)(*arguments, **call.options))
        return answers


def _open(shard: Shard, get: Callable[[Any], Any]) -> tuple[slice, Rows]:
    return shard.place, Rows(*shard.labelled, get(shard.unlabelled), shard.cost_unlabelled, **shard.settings)


class ShardedRows:
    """Labelled and unlabelled rows on a cluster: what the TSVM asks of :class:`deepsep.solvers.rows.Rows`."""

    def __init__(
        self, ray: Any, workers: Workers, shards: list[Any], key: int, n_features: int, double: bool, **settings: Any
    ) -> None:
        self.offset, self.free_bias = settings["offset"], settings["free_bias"]
        self.n_features = n_features + self.free_bias
        self.double = double
        self._ray, self._workers, self._key = ray, workers, key
        bounds = [len(shards) * seat // len(workers) for seat in range(len(workers) + 1)]
        self._held = [shards[start:stop] for start, stop in pairwise(bounds)]
        self._past: list[Any] = []  # references to the calls that changed multipliers
        weakref.finalize(self, workers.tell, lambda actor: actor.forget.remote(key)).atexit = False

    def sweep(
        self, w: Array, kappa: Array, problems: Array, commit: Array | None = None, curvature: bool = True
    ) -> Sums:
        """Pass over all rows once; see :class:`deepsep.solvers.rows.RowPass`."""
        sums: Sums = reduce(add, self._ask("sweep", w, kappa, problems, commit, curvature))
        if commit is not None:
            self._remember("sweep", w, kappa, problems, commit, False)
        return sums

    def certificate(self, w: Array, kappa: float, problem: int) -> tuple[float, float]:
        """Return the duality gap and the loss of one problem, in double precision."""
        gap: tuple[float, float] = reduce(add, self._ask("certificate_sums", w, kappa, problem)).gap(
            w, free_bias=self.free_bias
        )
        return gap

    def promote(self) -> None:
        """Sweep in double precision from now on."""
        self._ask("promote")
        self._remember("promote")
        self.double = True

    def scores(self, w: Array, *, labelled: bool) -> Array:
        """Return f of the labelled or of the unlabelled rows."""
        return np.concatenate(self._ask("scores", w, labelled=labelled), axis=1)

    def decide(self, w: Array, problems: Array) -> Array:
        """Return the signs of the unlabelled rows."""
        return np.concatenate(self._ask("decide", w, problems), axis=1)

    def transductive_loss(self, w: Array, problems: Array) -> Array:
        """Return the loss of the TSVM itself."""
        return np.asarray(reduce(add, self._ask("transductive_loss", w, problems)))

    def linearise(self, sigma: Array, problems: Array) -> None:
        """Fix the signs of the unlabelled rows, as Collobert's step does."""
        self._ask("linearise", sigma, problems)
        self._remember("linearise", sigma, problems)

    def _ask(self, name: str, *arguments: Any, **options: Any) -> list[Any]:
        """Return the answers of all shards, in their order."""
        call = Call(name, self.offset, arguments, options)
        answers = self._workers.map(
            lambda actor, shards: actor.ask.remote(self._key, shards, self._past, call), self._held
        )
        return list(chain.from_iterable(answers))

    def _remember(self, name: str, *arguments: Any) -> None:
        self._past.append(self._ray.put(Call(name, self.offset, arguments, {})))


class ShardedRowsMaker:
    """Makes passes over rows: on the cluster for many rows, and here for few.

    Parameters
    ----------
    ray : module
        Connected to a cluster.
    n_workers : int
        How many workers hold the shards; they start with the first pass that needs them.
    shard_rows : int
        Unlabelled rows of a shard; up to so many stay here.
    """

    def __init__(self, ray: Any, n_workers: int, *, shard_rows: int = SHARD_ROWS) -> None:
        self._ray, self._n_workers, self.shard_rows = ray, n_workers, shard_rows
        self._keys = count()
        self._workers: Workers | None = None
        self._rows: Any = None  # those of the last pass,
        self._stored: list[Any] = []  # and the references to their shards: the next pass often has the same

    def __call__(
        self, labelled: Any, signs: Array, cost_labelled: Any, unlabelled: Any, cost_unlabelled: Any, **settings: Any
    ) -> Rows | ShardedRows:
        """Return the pass over these rows."""
        u = unlabelled.shape[0]
        if u <= self.shard_rows:
            return Rows(labelled, signs, cost_labelled, unlabelled, cost_unlabelled, **settings)
        if self._workers is None:
            self._workers = Workers(self._ray, ShardKeeper, (), self._n_workers)
        places = [slice(start, min(start + self.shard_rows, u)) for start in range(0, u, self.shard_rows)]
        if self._rows is not unlabelled:
            self._stored = [self._ray.put(unlabelled[place]) for place in places]
            self._rows = unlabelled
        shards = []
        for place, stored in zip(places, self._stored, strict=True):
            known = slice(None if place.start == 0 else 0)
            few = (labelled[known], signs[:, known], cost_labelled[known])
            shards.append(self._ray.put(Shard(place, few, stored, cost_unlabelled[place], settings)))
        double = labelled.dtype == np.float64
        return ShardedRows(self._ray, self._workers, shards, next(self._keys), labelled.shape[1], double, **settings)

    def stop(self) -> None:
        """End the workers."""
        if self._workers is not None:
            self._workers.stop()
            self._workers, self._rows, self._stored = None, None, []
