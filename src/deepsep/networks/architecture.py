"""The architecture of a network, from which networks in NumPy or torch are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.networks.interface import Network, choose_device
from deepsep.networks.network_committee import NetworkCommittee
from deepsep.networks.numpy_network import NumpyNetwork


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
