"""The student's network, trained by Ray Train."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep import networks
from deepsep.errors import missing_package
from deepsep.networks import Loss, NumpyNetwork

Array = NDArray[Any]

RESTARTS = 5  # of the training, if workers die


class RayNetwork:
    """The default network without dropout, trained in phases by all workers of a cluster.

    The steps are those of :class:`deepsep.networks.NumpyNetwork`, apart from rounding: every batch is divided among the
    workers. Phases are kept until the weights are asked for, so that the workers start once.

    Parameters
    ----------
    ray : module
        Connected to a cluster.
    n_workers : int
        Processes that train together.
    n_features, n_classes, hidden, l2, rng
        As in :class:`deepsep.networks.NumpyNetwork`.
    """

    def __init__(
        self,
        ray: Any,
        n_workers: int,
        n_features: int,
        n_classes: int,
        *,
        hidden: Sequence[int],
        dropout: float = 0.0,
        l2: float,
        rng: np.random.Generator,
    ) -> None:
        assert dropout == 0, "dropout would differ from worker to worker"
        self._ray, self._n_workers = ray, n_workers
        self._shape = {"n_features": n_features, "n_classes": n_classes, "hidden": tuple(hidden), "l2": l2}
        self._state = NumpyNetwork(n_features, n_classes, hidden=hidden, dropout=0.0, l2=l2, rng=rng).state()
        self._phases: list[Any] = []

    def train(
        self,
        X: Any,
        targets: Array,
        *,
        loss: Loss,
        epochs: int,
        lr: float,
        batch_size: int,
        rng: np.random.Generator,
        weight: Array,
    ) -> None:
        """Add a phase; see :class:`deepsep.networks.Network`."""
        order, _ = networks.streams(rng)
        kept = np.flatnonzero(weight)
        phase = (X[kept], targets[kept], weight[kept], loss, epochs, lr, min(batch_size, len(kept)), order)
        self._phases.append(self._ray.put(phase))

    def state(self) -> dict[str, Array]:
        """Train, if there is anything left to do, and return the weights under torch's names."""
        if self._phases:
            self._state = _train(self._ray, self._n_workers, self._shape, self._state, self._phases)
            self._phases = []
        return self._state


class Keeper:
    """An actor that keeps the result: Ray Train itself would write it to a disk that all machines share."""

    def __init__(self) -> None:
        self.state: dict[str, Array] = {}

    def put(self, state: dict[str, Array]) -> None:
        """Take the result."""
        self.state = state

    def get(self) -> dict[str, Array]:
        """Return the result."""
        return self.state


def _train(
    ray: Any, n_workers: int, shape: dict[str, Any], state: dict[str, Array], phases: list[Any]
) -> dict[str, Array]:
    try:
        train: Any = import_module("ray.train")
        torch_train: Any = import_module("ray.train.torch")
    except ImportError as error:
        raise missing_package("training on Ray", "ray[train]") from error
    keeper = ray.remote(num_cpus=0)(Keeper).remote()
    try:
        with tempfile.TemporaryDirectory() as folder:
            torch_train.TorchTrainer(
                _work,
                train_loop_config={"shape": shape, "state": state, "phases": phases, "keeper": keeper},
                scaling_config=train.ScalingConfig(num_workers=n_workers, use_gpu=False),
                torch_config=torch_train.TorchConfig(backend="gloo"),
                run_config=train.RunConfig(
                    storage_path=folder, failure_config=train.FailureConfig(max_failures=RESTARTS)
                ),
            ).fit()
        trained: dict[str, Array] = ray.get(keeper.get.remote())
        return trained
    finally:
        ray.kill(keeper)


def _work(config: dict[str, Any]) -> None:
    """Train in one of the worker processes."""
    ray: Any = import_module("ray")
    shape = dict(config["shape"])
    sizes = (shape.pop("n_features"), shape.pop("n_classes"))
    network = networks.TorchNetwork(*sizes, dropout=0.0, rng=np.random.default_rng(0), **shape)
    network.load_state(config["state"])
    networks.train_together(network, [networks.TrainingPhase(*ray.get(phase)) for phase in config["phases"]])
    if import_module("ray.train").get_context().get_world_rank() == 0:
        ray.get(config["keeper"].put.remote(network.state()))
