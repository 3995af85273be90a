"""The moving average of several default networks, packed into one pass over the rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.networks.interface import BN_EPS

Array = NDArray[Any]

ROWS = 512  # in flight in each thread: what they become stays in the cache
THREADS_FROM = 20_000  # rows below which threads are not worth starting


class NetworkAverage:
    """The weighted average of default networks in evaluation mode.

    First layers lie side by side, so that one product serves all networks; the scale of the features is part of
    them, and batch norm is part of the second layers.

    Parameters
    ----------
    states : sequence of dict
        What :meth:`NumpyNetwork.state` returned, one a network.
    weights : array (T,)
        Their weights, of sum one.
    centre, scale : arrays (d,)
        Rows are taken as (x - centre) / scale.
    """

    def __init__(self, states: Sequence[dict[str, Array]], weights: Array, centre: Array, scale: Array) -> None:
        self.weights = weights.astype(np.float32)
        names = sorted(
            {name.rsplit(".", 1)[0] for name in states[0] if name.startswith("encoder.")} - {"encoder.2"},
            key=lambda name: int(name.split(".")[1]),
        )
        first, *rest = (*names, "head")
        self.centre = centre
        W = [state[f"{first}.weight"].astype(np.float64) / scale for state in states]
        b = [state[f"{first}.bias"] for state in states]
        self.first = (np.concatenate(W).T.astype(np.float32).copy(), np.concatenate(b).astype(np.float32))
        self.rest: list[tuple[Array, Array]] = []  # (T, m_in, m_out) and (T, 1, m_out)
        for i, name in enumerate(rest):
            W = [state[f"{name}.weight"].astype(np.float64) for state in states]
            b = [state[f"{name}.bias"].astype(np.float64) for state in states]
            if i == 0:  # the layer that follows batch norm
                for t, state in enumerate(states):
                    factor = state["encoder.2.weight"] / np.sqrt(state["encoder.2.running_var"] + BN_EPS)
                    b[t] += W[t] @ (state["encoder.2.bias"] - state["encoder.2.running_mean"] * factor)
                    W[t] = W[t] * factor
            self.rest.append((np.stack([w.T for w in W]).astype(np.float32), np.stack(b)[:, None].astype(np.float32)))

    def predict_proba(self, X: Array) -> Array:
        """Return the average of the networks' probabilities, (n, c) of float64, in batches on all cores."""
        out = np.empty((len(X), self.rest[-1][0].shape[2]))
        batches = [slice(start, start + ROWS) for start in range(0, len(X), ROWS)]

        def work(batch: slice) -> None:
            out[batch] = self._batch(X[batch])

        if len(X) < THREADS_FROM:
            for batch in batches:
                work(batch)
        else:
            with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
                list(pool.map(work, batches))
        return out

    def _batch(self, x: Array) -> Array:
        W, b = self.first
        n, t = len(x), len(self.weights)
        x = x - self.centre.astype(x.dtype)  # before single precision: dates in seconds would lose their days
        h = x.astype(np.float32, copy=False) @ W
        h += b
        np.tanh(h, out=h)
        h = h.reshape(n, t, -1).transpose(1, 0, 2)
        for W, b in self.rest[:-1]:
            h = h @ W
            h += b
            np.tanh(h, out=h)
        W, b = self.rest[-1]
        z = W.transpose(0, 2, 1) @ h.transpose(0, 2, 1)  # (T, c, n): rows last, so that sums over classes are quick
        z += b.transpose(0, 2, 1)
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z *= self.weights[:, None, None] / z.sum(axis=1, keepdims=True)
        p = z.sum(axis=0, dtype=np.float64)
        return np.asarray((p / p.sum(axis=0)).T)
