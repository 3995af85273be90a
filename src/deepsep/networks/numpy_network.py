"""The default network in NumPy alone: forward, backward and Adam by hand.

A network of 17,000 weights spends its time in overheads, not in arithmetic; this file exists to have few of them.

- The parameters are views into one flat array, so that Adam is ten calls for any number of layers.
- Every array of a step is allocated once per phase. Rows are gathered, and dropout bits drawn, for many steps at once.
- The bias of the first layer is a column of ones in the rows, which makes it and its gradient part of one product.
- Batch norm is folded into one scale and one shift; the scale of its gradient is applied to the batch or to
  the gradient of the first weights, whichever is smaller.
- Class scores are kept as (c, batch), where a softmax is a few long loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from deepsep.errors import DataError
from deepsep.networks.frozen import evaluate
from deepsep.networks.interface import (
    ADAM_EPS,
    BETA1,
    BETA2,
    BN_EPS,
    BN_MOMENTUM,
    Array,
    Loss,
    OnEpoch,
    check_state,
    glorot_normal,
    per_layer,
    present_rows,
    streams,
)

F32 = np.float32
LINE = 16  # floats in a cache line: matrix products are up to a third faster on rows that start on one


class NumpyNetwork:
    """The default network on the CPU; ``rng`` draws its initial weights."""

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        hidden: Sequence[int] = (128, 32),  # widths, each followed by tanh; batch norm and dropout follow the first
        dropout: float = 0.5,  # exact to 1/65536; 0.5 costs one random bit an activation
        noise: float = 0.0,  # standard deviation on every feature in training, drawn again each time a row is used
        l2: float | Sequence[float] = 0.0,  # coefficient of the squared weights of each layer
        rng: np.random.Generator,
    ) -> None:
        self.widths = (n_features, *hidden, n_classes)
        self.dropout, self.noise = dropout, noise
        self.l2 = per_layer(l2, len(self.widths) - 1)
        self.parameters = FlatParameters(self.widths)
        self._decay = FlatParameters(self.widths)
        for W, decay, value in zip(self.parameters.W, self._decay.W, self.l2, strict=True):
            W[...] = glorot_normal(rng, *W.shape).T
            decay[...] = 2 * value
        self.parameters.gamma[...] = 1
        # Rows: the mean and the variance of each first-layer activation.
        self.running = np.stack([np.zeros(hidden[0], F32), np.ones(hidden[0], F32)])
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
        kept, weight = present_rows(weight)
        if kept is not None and weight is not None:
            X, targets, weight = X[kept], targets[kept], weight[kept]
        n = len(X)
        mass = n if weight is None else weight.sum(dtype=np.float64)
        batch_size = min(batch_size, n)

        order_rng, noise_seed = streams(rng)
        dropout = Dropout(self.dropout, self.widths[1], noise_seed)
        noise = _Noise(self.noise, noise_seed) if self.noise else None
        chunk = Chunk(X, targets, weight, batch_size=batch_size, dropout=dropout, noise=noise)
        sizes = {batch_size, n % batch_size} - {0}
        steps = {size: Step(size, self.widths, loss=loss, scale=dropout.scale) for size in sizes}
        adam = Adam(self.parameters, self._decay, lr)

        history = []
        for epoch in range(epochs):
            order = order_rng.permutation(n)
            total = 0.0
            for start in range(0, n, chunk.capacity):
                chunk.fill(order[start : start + chunk.capacity])
                lone = [batch for batch in chunk.batches if len(batch.rows) == 1]
                crowd = chunk.batches[: len(chunk.batches) - len(lone)]
                for batch in crowd:
                    steps[len(batch.rows)].gradient(self.parameters, adam.gradient, batch)
                    adam.step()
                self._update_running(crowd, chunk)
                for batch in lone:
                    steps[1].gradient(self.parameters, adam.gradient, batch, self.running)
                    adam.step()
                total += chunk.loss(loss)
            history.append(total / mass)
            if on_epoch is not None and on_epoch(epoch, history[-1]):
                break
        return history

    def _update_running(self, batches: list[BatchViews], chunk: Chunk) -> None:
        """Let the running statistics follow the first batches of the chunk, as if one by one."""
        # The variance is that of a sample, as in torch. Rounding may leave it below zero.
        n = len(batches)
        size = np.array([len(batch.rows) for batch in batches], F32)
        share = F32(BN_MOMENTUM) * F32(1 - BN_MOMENTUM) ** np.arange(n - 1, -1, -1, dtype=F32)
        self.running *= F32((1 - BN_MOMENTUM) ** n)
        self.running[0] += share @ chunk.mean[:n]
        self.running[1] += (share * size / (size - 1)) @ np.maximum(chunk.var[:n], 0)
        self._n_batches += n

    def embed(self, X: Array) -> Array:
        """Return f(x) for every row, in evaluation mode."""
        return evaluate(self.state(), self._rows(X), head=False)

    def predict_proba(self, X: Array) -> Array:
        """Return g(f(x)) for every row, in evaluation mode."""
        return evaluate(self.state(), self._rows(X), head=True)

    def state(self) -> dict[str, Array]:
        """Return a copy of every parameter and running statistic, under torch's names and in torch's shapes."""
        p = self.parameters
        state = {}
        for name, W, b in zip(self.layer_names(), p.W, p.b, strict=True):
            state[f"{name}.weight"] = W.T.copy()
            state[f"{name}.bias"] = b.copy()
        state["encoder.2.weight"] = p.gamma.copy()
        state["encoder.2.bias"] = p.beta.copy()
        state["encoder.2.running_mean"] = self.running[0].copy()
        state["encoder.2.running_var"] = self.running[1].copy()
        state["encoder.2.num_batches_tracked"] = np.array(self._n_batches, np.int64)
        return state

    def load_state(self, state: dict[str, Array]) -> None:
        """Take over what :meth:`state` returned, be it another back end's."""
        check_state(state, self.state())
        p = self.parameters
        for name, W, b in zip(self.layer_names(), p.W, p.b, strict=True):
            W[...] = state[f"{name}.weight"].T
            b[...] = state[f"{name}.bias"]
        p.gamma[...] = state["encoder.2.weight"]
        p.beta[...] = state["encoder.2.bias"]
        self.running[0] = state["encoder.2.running_mean"]
        self.running[1] = state["encoder.2.running_var"]
        self._n_batches = int(state["encoder.2.num_batches_tracked"])

    def layer_names(self) -> list[str]:
        """Return the names of the linear layers in :meth:`state`, from the first to the head."""
        # Linear, tanh, batch norm, dropout, then pairs of Linear and tanh: the places in torch's Sequential.
        n_hidden = len(self.widths) - 2
        return ["encoder.0", *(f"encoder.{4 + 2 * i}" for i in range(n_hidden - 1)), "head"]

    def _rows(self, X: Any) -> Any:
        if not hasattr(X, "rows_on_demand"):
            X = np.asarray(X, dtype=F32)
        if X.ndim != 2 or X.shape[1] != self.widths[0]:
            raise DataError(f"X has shape {X.shape}, but the network takes rows of {self.widths[0]} features")
        return X


class FlatParameters:
    """Arrays of the shapes of the parameters, all views into one flat array.

    Layer k is a block of ``(n_in + 1, n_out)``: weights (transposed with respect to torch), then the bias.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = tuple(widths)
        shapes = [(n_in + 1, n_out) for n_in, n_out in pairwise(widths)] + [(1, widths[1])] * 2
        sizes = [-(-rows * columns // LINE) * LINE for rows, columns in shapes]
        self.flat = _aligned((sum(sizes),))
        ends = np.cumsum(sizes)
        self.blocks = [
            self.flat[end - size :][: rows * columns].reshape(rows, columns)
            for end, size, (rows, columns) in zip(ends, sizes, shapes, strict=True)
        ]
        *layers, gamma, beta = self.blocks
        self.W = [block[:-1] for block in layers]
        self.b = [block[-1] for block in layers]
        self.gamma, self.beta = gamma[0], beta[0]

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy or a pickle of the views would no longer share the flat array.
        return FlatParameters, (self.widths,), self.flat.copy()

    def __setstate__(self, flat: Array) -> None:
        self.flat[...] = flat


def _aligned(shape: tuple[int, ...]) -> Array:
    """Zeros that start on a cache line."""
    size = int(np.prod(shape))
    buffer = np.zeros(size + LINE, F32)
    offset = -(buffer.ctypes.data // 4) % LINE
    return buffer[offset : offset + size].reshape(shape)


class Adam:
    """Adam on all parameters at once.

    It keeps m / (1 - β1) and v / (1 - β2), whose updates need no product with the gradient; the two factors and the
    bias corrections go into the learning rate and ε, which are numbers.
    """

    def __init__(self, parameters: FlatParameters, decay: FlatParameters, lr: float) -> None:
        self.lr = lr
        self.t = 0
        self.parameters = parameters.flat
        self.decay = decay.flat if decay.flat.any() else None
        self.gradient = FlatParameters(parameters.widths)
        self.beta1, self.beta2 = np.array(BETA1, F32), np.array(BETA2, F32)  # NumPy takes arrays faster than numbers
        self.m, self.v, self.work = (_aligned(self.parameters.shape) for _ in range(3))

    def step(self) -> None:
        """Move the parameters by one step of Adam down the gradient."""
        self.t += 1
        root = ((1 - BETA2) / (1 - BETA2**self.t)) ** 0.5
        rate = self.lr * (1 - BETA1) / (1 - BETA1**self.t) / root
        p, m, v, g, work = self.parameters, self.m, self.v, self.gradient.flat, self.work
        if self.decay is not None:
            np.multiply(p, self.decay, work)
            np.add(g, work, g)
        np.multiply(m, self.beta1, m)
        np.add(m, g, m)
        np.multiply(g, g, g)
        np.multiply(v, self.beta2, v)
        np.add(v, g, v)
        np.sqrt(v, work)
        np.add(work, F32(ADAM_EPS / root), work)
        np.divide(m, work, work)
        np.multiply(work, F32(rate), work)
        np.subtract(p, work, p)


class Dropout:
    """Dropout factors of the activations, drawn for many rows at once."""

    def __init__(self, rate: float, width: int, seed: int) -> None:
        self.width = width
        self.threshold = round(rate * 65536)
        self.scale = 65536 / (65536 - self.threshold)
        self.source = np.random.SFC64(seed)

    def draw(self, out: Array) -> None:
        """Fill ``out``, of shape (rows, width) and type uint8, with 0 or 1."""
        if self.threshold == 32768:
            bits = self.source.random_raw(-(-out.size // 64)).view(np.uint8)
            out[...] = np.unpackbits(bits, count=out.size).reshape(out.shape)
        else:
            words = self.source.random_raw(-(-out.size // 4)).view(np.uint16)[: out.size]
            np.greater_equal(words.reshape(out.shape), self.threshold, out.view(np.bool_))


class _Noise:
    """Normal noise on the features."""

    def __init__(self, deviation: float, seed: int) -> None:
        # Another stream than the dropout's, which has the same seed.
        self.rng = np.random.Generator(np.random.SFC64([seed, 1]))
        self.deviation = F32(deviation)

    def add(self, rows: Array) -> None:
        """Add noise to the rows in place."""
        noise = self.rng.standard_normal(rows.shape, dtype=F32)
        noise *= self.deviation
        rows += noise


class BatchViews(NamedTuple):
    """One batch: views into a chunk, the last three of which the step writes."""

    rows: Array  # (batch, d + 1), the last column of ones
    targets: Array  # (c, batch)
    share: Array  # (batch,)  w_i / sum of w, in the loss
    kept: Array | None  # (batch, width)  0 or 1; None without dropout
    proba: Array  # (c, batch)
    mean: Array  # (width,)
    var: Array  # (width,)


class Chunk:
    """The rows of several batches, gathered in the order of the epoch, and what the steps leave behind."""

    def __init__(
        self,
        X: Array,
        targets: Array,
        weight: Array | None,
        *,
        batch_size: int,
        dropout: Dropout,
        noise: _Noise | None = None,
    ) -> None:
        chunk_rows = 512  # rows gathered at a time: few calls, and the chunk stays in cache
        n, d = X.shape
        self.capacity = min(n, max(1, chunk_rows // batch_size) * batch_size)
        self.batch_size, self.dropout, self.noise, self.d = batch_size, dropout, noise, d
        # Where rows are taken from, and where they are put: each on a cache line, with a one for the bias behind it.
        self.source, self.source_targets, self.source_weight = X, targets, weight
        self.rows = _aligned((self.capacity, -(-(d + 1) // LINE) * LINE))
        self.rows[:, d] = 1
        self.targets, self.proba = np.empty((2, targets.shape[1], self.capacity), F32)
        self.weight, self.share = np.ones((2, self.capacity), F32)
        self.kept = np.empty((self.capacity, dropout.width), np.uint8)
        n_batches = -(-self.capacity // batch_size)
        self.mean, self.var = np.empty((2, n_batches, dropout.width), F32)
        self.n = 0
        self.batches: list[BatchViews] = []

    def fill(self, at: Array) -> None:
        """Gather these rows, and draw their dropout."""
        if len(at) != self.n:
            self._divide(len(at))
        n = self.n
        self.rows[:n, : self.d] = self.source[at]
        if self.noise is not None:
            self.noise.add(self.rows[:n, : self.d])
        self.targets[:, :n] = np.take(self.source_targets, at, axis=0, mode="clip").T
        if self.source_weight is not None:
            np.take(self.source_weight, at, out=self.weight[:n], mode="clip")
            self._share()
        if self.dropout.threshold:
            self.dropout.draw(self.kept[:n])

    def _divide(self, n: int) -> None:
        """Make the views of the batches that ``n`` rows give."""
        self.n = n
        self.batches = []
        for k, start in enumerate(range(0, n, self.batch_size)):
            at = slice(start, min(start + self.batch_size, n))
            self.batches.append(
                BatchViews(
                    self.rows[at, : self.d + 1],
                    self.targets[:, at],
                    self.share[at],
                    self.kept[at] if self.dropout.threshold else None,
                    self.proba[:, at],
                    self.mean[k],
                    self.var[k],
                )
            )
        self._share()

    def _share(self) -> None:
        """Divide each weight by the sum over its batch."""
        starts = np.arange(0, self.n, self.batch_size)
        mass = np.add.reduceat(self.weight[: self.n], starts)
        np.divide(self.weight[: self.n], np.repeat(mass, np.diff(starts, append=self.n)), self.share[: self.n])

    def loss(self, loss: Loss) -> float:
        """Return the sum over the rows of w_i loss_i."""
        P, T = self.proba[:, : self.n], self.targets[:, : self.n]
        if loss == "kl":
            tiny = np.finfo(F32).tiny
            each = (T * np.log(np.maximum(T, tiny) / np.maximum(P, tiny))).sum(axis=0)
        else:
            each = np.square(P - T).mean(axis=0)
        return float(np.dot(each.astype(np.float64), self.weight[: self.n]))


class Step:
    """The gradient of the loss on one batch, in arrays that every step of the phase overwrites."""

    def __init__(self, size: int, widths: Sequence[int], *, loss: Loss, scale: float) -> None:
        self.loss = loss
        # Activations are (batch, width), class scores (c, batch).
        # ``D`` and ``mask`` serve twice: four arrays of 512 rows stay in cache where six do not.
        self.A, self.AA, self.D, self.mask = (_aligned((size, widths[1])) for _ in range(4))
        self.H, self.dH = ([_aligned((size, width)) for width in widths[2:-1]] for _ in range(2))
        self.Z, self.dZ = (_aligned((widths[-1], size)) for _ in range(2))
        self.per_row = np.empty(size, F32)
        self.ones = np.ones(size, F32)
        # NumPy takes arrays faster than numbers.
        self.one, self.eps, self.one_over_size = (np.array(value, F32) for value in (1, BN_EPS, 1 / size))
        self.even = np.full(size, self.one_over_size)
        self.scale = np.array(scale, F32)
        self.two_over_c = np.array(2 / widths[-1], F32)

    def gradient(self, p: FlatParameters, g: FlatParameters, batch: BatchViews, running: Array | None = None) -> None:
        """Write the gradient with respect to the parameters ``p`` into ``g``.

        The batch is normalised with ``running`` (mean, variance) where that is given, else with its own moments.
        """
        X, T, share, kept, P, mean, var = batch
        A, AA, D, mask = self.A, self.AA, self.D, self.mask

        # First layer.
        np.dot(X, p.blocks[0], A)
        np.tanh(A, A)
        np.multiply(A, A, AA)

        # Batch norm and the factor of dropout, as A * scale + shift; then the mask.
        if running is None:
            np.dot(self.even, A, mean)
            np.dot(self.even, AA, var)
            np.subtract(var, mean * mean, var)
        else:
            mean, var = running
        std = np.sqrt(var + self.eps)
        scale, shift = p.gamma * self.scale, p.beta * self.scale
        scale /= std
        shift -= mean * scale
        np.multiply(A, scale, D)
        np.add(D, shift, D)
        if kept is not None:
            np.copyto(mask, kept)
            np.multiply(D, mask, D)

        # Further hidden layers.
        below = D
        for W, b, H in zip(p.W[1:-1], p.b[1:-1], self.H, strict=True):
            np.dot(below, W, H)
            np.add(H, b, H)
            np.tanh(H, H)
            below = H

        # Head and softmax.
        Z, dZ, per_row = self.Z, self.dZ, self.per_row
        np.dot(p.W[-1].T, below.T, Z)
        np.add(Z, p.b[-1][:, None], Z)
        np.maximum.reduce(Z, axis=0, out=per_row)
        np.subtract(Z, per_row, Z)
        np.exp(Z, Z)
        np.add.reduce(Z, axis=0, out=per_row)
        np.divide(Z, per_row, P)

        # The loss, with respect to the class scores.
        np.subtract(P, T, dZ)
        if self.loss == "mse":
            np.multiply(dZ, self.two_over_c, dZ)
            np.multiply(dZ, P, Z)
            np.add.reduce(Z, axis=0, out=per_row)
            np.subtract(dZ, per_row, dZ)
            np.multiply(dZ, P, dZ)
        np.multiply(dZ, share, dZ)

        # Head and further layers. ``up`` is the gradient with respect to what a layer gives before its tanh.
        np.dot(below.T, dZ.T, g.W[-1])
        np.dot(dZ, self.ones, g.b[-1])
        up, W = dZ.T, p.W[-1]
        for i in range(len(self.H) - 1, -1, -1):
            H, dH, below = self.H[i], self.dH[i], self.H[i - 1] if i else D
            np.dot(up, W.T, dH)
            np.multiply(H, H, H)
            np.subtract(self.one, H, H)
            np.multiply(dH, H, dH)
            np.dot(below.T, dH, g.W[i + 1])
            np.dot(self.ones, dH, g.b[i + 1])
            up, W = dH, p.W[i + 1]

        # Dropout and batch norm, all but the factor ``scale``:
        # dA - 1/batch * (sum dA + x̂ * sum(dA * x̂)), where x̂ = (A - mean) / std.
        dA, work = D, mask
        np.dot(up, W.T, dA)
        if kept is not None:
            np.multiply(dA, mask, dA)
        np.dot(self.ones, dA, g.beta)
        np.multiply(dA, A, work)
        np.dot(self.ones, work, g.gamma)
        np.subtract(g.gamma, mean * g.beta, g.gamma)
        np.divide(g.gamma, std, g.gamma)
        if running is None:
            slope = g.gamma / std
            offset = g.beta - mean * slope
            slope *= self.one_over_size
            offset *= self.one_over_size
            np.multiply(A, slope, work)
            np.add(work, offset, work)
            np.subtract(dA, work, dA)

        np.multiply(g.beta, self.scale, g.beta)
        np.multiply(g.gamma, self.scale, g.gamma)

        # First layer. The factor ``scale`` goes to whichever of the two is smaller: dA, or the gradient made of it.
        np.subtract(self.one, AA, AA)
        np.multiply(dA, AA, dA)
        if len(dA) < X.shape[1]:
            np.multiply(dA, scale, dA)
            np.dot(X.T, dA, g.blocks[0])
        else:
            np.dot(X.T, dA, g.blocks[0])
            np.multiply(g.blocks[0], scale, g.blocks[0])
