"""Several networks that are trained alike and predict together, and the architecture from which they are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.networks.interface import Array, Network, check_state, choose_device
from deepsep.networks.numpy_network import NumpyNetwork


class NetworkCommittee:
    """Networks of one shape that start from different weights: embeddings are concatenated, probabilities averaged."""

    def __init__(self, members: Sequence[Network]) -> None:
        self.members = tuple(members)
        self._begun = 0

    def in_turn(self) -> Iterator[Network]:
        """Yield the members one after the other, to train them."""
        for i, member in enumerate(self.members):
            self._begun = max(self._begun, i + 1)
            yield member

    def begun(self) -> Network:
        """Return the members whose training has begun, to keep after an interruption."""
        part = self.members[: max(self._begun, 1)]
        return part[0] if len(part) == 1 else NetworkCommittee(part)

    def train(self, X: Array, targets: Array, **settings: Any) -> list[float]:
        """Run one phase of every member, each in its own order of the rows; return their mean loss of each epoch.

        The settings are those of :meth:`deepsep.networks.Network.train`.
        """
        losses = [member.train(X, targets, **settings) for member in self.in_turn()]
        return [float(loss) for loss in np.mean(losses, axis=0)]

    def embed(self, X: Array) -> Array:
        """Return the concatenated embeddings of all members for every row."""
        return np.hstack([member.embed(X) for member in self.members])

    def predict_proba(self, X: Array) -> Array:
        """Return the mean of the members' probabilities for every row."""
        first, *others = (member.predict_proba(X) for member in self.members)
        for other in others:
            first += other
        first /= np.float32(len(self.members))
        return first

    def state(self) -> dict[str, Array]:
        """Return the states of all members, each name prefixed with the number of its member."""
        return {f"{i}/{name}": value for i, own in enumerate(self.members) for name, value in own.state().items()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Load a result of :meth:`state`."""
        check_state(state, self.state())
        for member, own in zip(self.members, member_states(state), strict=True):
            member.load_state(own)


def members_of(network: Network) -> tuple[Network, ...]:
    """Return the members of a committee; a single network is its own member."""
    return network.members if isinstance(network, NetworkCommittee) else (network,)


def member_states(state: dict[str, Array]) -> list[dict[str, Array]]:
    """Return the state of each member of a committee, or that of a single network."""
    if not all("/" in name for name in state):
        return [state]
    states: dict[int, dict[str, Array]] = {}
    for name, value in state.items():
        i, _, own = name.partition("/")
        states.setdefault(int(i), {})[own] = value
    return [states[i] for i in sorted(states)]


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
        from deepsep.networks.torch_network import TorchNetwork

        return TorchNetwork(shape, self.n_classes, encoder=self.encoder, device=device, **shared)

    def _penalties(self) -> float | tuple[float, ...]:
        if not isinstance(self.l2, Sequence):
            return float(self.l2)
        if self.encoder is not None or len(self.l2) == 1:
            return float(self.l2[0])
        layers = len(self.hidden) + 1
        return tuple(np.interp(np.linspace(0, 1, layers), np.linspace(0, 1, len(self.l2)), self.l2).tolist())
