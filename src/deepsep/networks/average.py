"""The weighted average of several default networks, such as those of the rounds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from deepsep.networks.frozen import FrozenNetwork, batches, on_grid
from deepsep.networks.interface import Array


class NetworkAverage:
    """The weighted average of default networks in evaluation mode; a row gets the same bits in any batch.

    The networks are given by their states. Their weights sum to one, and rows x become (x - centre) / scale.
    """

    def __init__(self, states: Sequence[dict[str, Array]], weights: Array, centre: Array, scale: Array) -> None:
        self.networks = [(weight, FrozenNetwork(state)) for weight, state in zip(weights, states, strict=True)]
        self.centre = centre.astype(np.float64)
        self.factor = 1 / scale.astype(np.float64)

    def predict_proba(self, X: Array) -> Array:
        """Return the average of the networks' probabilities, (n, c) of float64, in batches on all cores."""
        _, first = self.networks[0]
        out = np.empty((len(X), first.layers[-1].shape[1]))

        def work(batch: slice) -> None:
            rows = on_grid(X[batch], self.centre, self.factor)
            p = sum(weight * network.predict_proba(rows) for weight, network in self.networks)
            out[batch] = (p / sum(p)).T

        if len(X) < 20_000:  # threads are not worth starting
            for batch in batches(len(X)):
                work(batch)
        else:
            with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
                list(pool.map(work, batches(len(X))))
        return out
