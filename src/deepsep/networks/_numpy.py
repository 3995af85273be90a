"""The default network in NumPy alone: forward, backward and Adam by hand.

A network of 17,000 weights spends its time in overheads, not in arithmetic; this file exists to have few of them.

- The parameters are views into one flat array, so that Adam is ten calls, whatever the number of layers.
- Every array of a step is allocated once per phase. Rows are gathered, and dropout bits drawn, for many steps at once.
- The bias of the first layer is a column of ones in the rows, which makes it and its gradient part of one product.
- Batch norm is folded into one scale and one shift; the scale of its gradient is applied to the gradient of the first
  weights, which is smaller than the batch. Class scores are kept as (c, batch), where a softmax is a few long loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from deepsep.networks._protocol import (
    ADAM_EPS,
    BETA1,
    BETA2,
    BN_EPS,
    BN_MOMENTUM,
    EVALUATE_ROWS,
    Array,
    Loss,
    OnEpoch,
    check_phase,
    glorot_normal,
    per_layer,
    present_rows,
    streams,
)

F32 = np.float32
LINE = 16  # floats in a cache line: matrix products are up to a third faster on rows that start on one
CHUNK_ROWS = 4096  # rows gathered at a time: few calls, and the chunk stays in cache


class NumpyNetwork:
    """The default network on the CPU.

    Parameters
    ----------
    n_features, n_classes : int
        Width of the rows and number of classes.
    hidden : sequence of int
        Widths of the hidden layers, each followed by tanh. Batch norm and dropout follow the first.
    dropout : float
        Probability with which an activation is dropped: exact to 1/65536; 0.5 costs one random bit an activation.
    l2 : float or sequence of float
        Coefficient of the squared weights of each layer, from the first to the head.
    rng : numpy.random.Generator
        Source of the initial weights.
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        hidden: Sequence[int] = (128, 32),
        dropout: float = 0.5,
        l2: float | Sequence[float] = 0.0,
        rng: np.random.Generator,
    ) -> None:
        if not hidden:
            raise ValueError("hidden must name at least one layer")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        self.widths = (n_features, *hidden, n_classes)
        self.dropout = dropout
        self.l2 = per_layer(l2, len(self.widths) - 1)
        self._parameters = _Flat(self.widths)
        self._decay = _Flat(self.widths)
        for W, decay, value in zip(self._parameters.W, self._decay.W, self.l2, strict=True):
            W[...] = glorot_normal(rng, *W.shape).T
            decay[...] = 2 * value
        self._parameters.gamma[...] = 1
        # Rows: the mean and the variance of each first-layer activation.
        self._running = np.stack([np.zeros(hidden[0], F32), np.ones(hidden[0], F32)])
        self._n_batches = 0

    def train(
        self,
        X: Array,
        targets: Array,
        *,
        loss: Loss,
        epochs: int,
        lr: float,
        batch_size: int,
        rng: np.random.Generator,
        weight: Array | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> list[float]:
        """Run one phase; see :class:`deepsep.networks.Network`."""
        X = self._rows(X)
        targets = np.asarray(targets, dtype=F32)
        check_phase(len(X), targets.shape, n_classes=self.widths[-1], loss=loss, batch_size=batch_size)
        rows, weight = present_rows(len(X), weight)
        n = len(X) if rows is None else len(rows)
        batch_size = min(batch_size, n)

        order_rng, noise_seed = streams(rng)
        noise = _Dropout(self.dropout, self.widths[1], noise_seed)
        adam = _Adam(self._parameters, self._decay, lr)
        chunk = _Chunk(min(n, max(1, CHUNK_ROWS // batch_size) * batch_size), self.widths)
        steps = {size: _Step(size, self.widths, loss) for size in {batch_size, n % batch_size} - {0}}

        history = []
        for epoch in range(epochs):
            order = order_rng.permutation(n)
            total = 0.0
            for begin in range(0, n, chunk.capacity):
                picked = order[begin : begin + chunk.capacity]
                at = picked if rows is None else rows[picked]
                chunk.fill(X, targets, at, None if weight is None else weight[picked], batch_size)
                mask = noise.draw(len(picked))
                for start in range(0, len(picked), batch_size):
                    stop = min(start + batch_size, len(picked))
                    step = steps[stop - start]
                    step.gradient(self._parameters, adam.gradient, self._running, chunk, mask, start, noise.scale)
                    if stop - start > 1:
                        self._update_running(step, chunk.mass[start // batch_size])
                    adam.step()
                total += chunk.loss(loss)
            history.append(total / (n if weight is None else float(weight.sum(dtype=np.float64))))
            if on_epoch is not None:
                on_epoch(epoch, history[-1])
        return history

    def _update_running(self, step: _Step, mass: float) -> None:
        # The variance is that of a sample, as in torch. Its factor n / (n - 1) is held at its value for two rows,
        # which only weights of less than 1 can exceed.
        step.moments[1] *= F32(mass / max(mass - 1, mass / 2))
        step.moments -= self._running
        step.moments *= F32(BN_MOMENTUM)
        self._running += step.moments
        self._n_batches += 1

    def embed(self, X: Array) -> Array:
        """Return f(x) for every row, in evaluation mode."""
        X = self._rows(X)
        out = np.empty((len(X), self.widths[-2]), F32)
        for at, H in self._evaluate(X):
            out[at] = H
        return out

    def predict_proba(self, X: Array) -> Array:
        """Return g(f(x)) for every row, in evaluation mode."""
        X = self._rows(X)
        out = np.empty((len(X), self.widths[-1]), F32)
        for at, H in self._evaluate(X):
            Z = H @ self._parameters.W[-1]
            Z += self._parameters.b[-1]
            Z -= Z.max(axis=1, keepdims=True)
            np.exp(Z, Z)
            np.divide(Z, Z.sum(axis=1, keepdims=True), out[at])
        return out

    def state(self) -> dict[str, Array]:
        """Return a copy of every parameter and running statistic, under torch's names and in torch's shapes."""
        p = self._parameters
        state = {}
        for name, W, b in zip(self._layer_names(), p.W, p.b, strict=True):
            state[f"{name}.weight"] = W.T.copy()
            state[f"{name}.bias"] = b.copy()
        state["encoder.2.weight"] = p.gamma.copy()
        state["encoder.2.bias"] = p.beta.copy()
        state["encoder.2.running_mean"] = self._running[0].copy()
        state["encoder.2.running_var"] = self._running[1].copy()
        state["encoder.2.num_batches_tracked"] = np.array(self._n_batches, np.int64)
        return state

    def load_state(self, state: dict[str, Array]) -> None:
        """Take over what :meth:`state` returned, be it another back end's."""
        check_names(state, self.state())
        p = self._parameters
        for name, W, b in zip(self._layer_names(), p.W, p.b, strict=True):
            W[...] = state[f"{name}.weight"].T
            b[...] = state[f"{name}.bias"]
        p.gamma[...] = state["encoder.2.weight"]
        p.beta[...] = state["encoder.2.bias"]
        self._running[0] = state["encoder.2.running_mean"]
        self._running[1] = state["encoder.2.running_var"]
        self._n_batches = int(state["encoder.2.num_batches_tracked"])
