"""Several networks that are trained alike and predict together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from deepsep.networks.interface import Array, Network, check_state


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
