"""The trained networks of all rounds, which average their predictions and embed rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep import networks
from deepsep.core.scaling import Scaling
from deepsep.errors import ParameterError
from deepsep.networks import Network, NetworkAverage, NetworkCommittee, NumpyNetwork, choose_device, member_states

Array = NDArray[Any]


@dataclass(frozen=True)
class Architecture:
    """Architecture of a network: its shape, its penalties, and its device."""

    row_shape: tuple[int, ...]
    n_classes: int
    hidden: tuple[int, ...]
    dropout: float
    l2: float | Sequence[float]
    encoder: Any
    device: str  # "cpu" or "cuda"

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(np.prod(self.row_shape))

    @property
    def uses_torch(self) -> bool:
        """True if torch trains it; the default network does not need torch on a CPU."""
        return self.encoder is not None or self.device == "cuda"

    def make(self, n: int, rng: np.random.Generator, noise: float = 0.0) -> Network:
        """Return a network, or a committee of ``n``; noise is for training only."""
        members = [self._make_member(rng, noise) for _ in range(n)]
        return members[0] if n == 1 else NetworkCommittee(members)

    def _make_member(self, rng: np.random.Generator, noise: float) -> Network:
        shared: dict[str, Any] = {"hidden": self.hidden, "dropout": self.dropout, "noise": noise, "rng": rng}
        shared["l2"] = self._penalties()
        if not self.uses_torch:
            return NumpyNetwork(self.n_features, self.n_classes, **shared)
        shape = self.n_features if self.encoder is None else self.row_shape
        # A model that was fitted on a GPU also predicts on machines without one.
        device = choose_device("auto") if self.device == "cuda" else "cpu"
        return networks.TorchNetwork(shape, self.n_classes, encoder=self.encoder, device=device, **shared)

    def _penalties(self) -> float | tuple[float, ...]:
        if not isinstance(self.l2, Sequence):
            return float(self.l2)
        if self.encoder is not None or len(self.l2) == 1:
            return float(self.l2[0])
        layers = len(self.hidden) + 1
        return tuple(np.interp(np.linspace(0, 1, layers), np.linspace(0, 1, len(self.l2)), self.l2).tolist())


@dataclass(frozen=True)
class TrainedRounds:
    """The networks of rounds 0 (the initial one) to T.

    Attributes
    ----------
    architecture : Architecture
        Architecture of every network.
    scaling : Scaling
        Scaling of the rows.
    states : list of dict
        Weights of each round's network, from the initial one on.
    weights : array (max(T, 1),)
        Weights of rounds 1 to T in the moving average; with T = 0, of the initial network.
    """

    architecture: Architecture
    scaling: Scaling
    states: list[dict[str, Array]]
    weights: Array

    @property
    def averaged(self) -> list[dict[str, Array]]:
        """The networks in the moving average."""
        return self.states[1:] or self.states

    @cached_property
    def packed(self) -> NetworkAverage:
        """The default networks in the moving average, as they predict together."""
        members = [(weight, member_states(state)) for weight, state in zip(self.weights, self.averaged, strict=True)]
        states = [state for _, group in members for state in group]
        weights = [weight / len(group) for weight, group in members for _ in group]
        return NetworkAverage(states, np.array(weights), self.scaling.centre, self.scaling.scale)

    def predict_proba(self, rows: Array) -> Array:
        """Return the moving average over the rounds' networks."""
        if self.architecture.encoder is None:
            return self.packed.predict_proba(rows)
        scaled, p = self.scaling.apply(rows), np.zeros((len(rows), self.architecture.n_classes))
        for weight, state in zip(self.weights, self.averaged, strict=True):
            p += weight * self._network(state).predict_proba(scaled)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def round_proba(self, rows: Array, round: int) -> Array:
        """Return the probabilities of one round's network alone."""
        p = self.network(round).predict_proba(self.scaling.apply(rows)).astype(np.float64)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def embed(self, rows: Array, round: int) -> Array:
        """Return the embedding by one round's network."""
        return self.network(round).embed(self.scaling.apply(rows))

    def network(self, round: int) -> Network:
        """Return the network of a round: 0 is the initial one, -1 the last."""
        if not -len(self.states) <= round < len(self.states):
            last = len(self.states) - 1
            raise ParameterError(f"round={round}: the model has rounds 0 (the initial network) to {last}.")
        return self._network(self.states[round])

    def _network(self, state: dict[str, Array]) -> Network:
        # As many members as the state has, since the setting may have been changed after the fit.
        network = self.architecture.make(len(member_states(state)), np.random.default_rng(0))
        network.load_state(state)
        return network

    def check(self) -> None:
        """Raise if weights do not fit the architecture."""
        for state in self.states:
            self._network(state)

    @property
    def width(self) -> int:
        """Width of the embedding; those of several networks are concatenated."""
        return sum(state["head.weight"].shape[1] for state in member_states(self.states[-1]))
