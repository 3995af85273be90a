"""Default networks that have been trained: they embed and predict, and a row gets the same bits in any batch.

A matrix product adds up the terms of a row in an order that depends on the place of the row, on the number of rows and
on the processor, and each order rounds differently. Here no sum is rounded: both factors of a product lie on grids,
multiples of a power of two with so few digits that double precision holds every sum exactly.

- Rows and activations have at most 2**24 steps, as many as single precision has.
- The weights of a unit and its bias have at most 2**29 steps, all of them together.

The rest is done element by element in single precision.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from deepsep.networks.interface import BN_EPS, Array

ROW_BITS, WEIGHT_BITS = 24, 29  # together the 53 of double precision


class FrozenNetwork:
    """The default network in evaluation mode, made of a result of :meth:`NumpyNetwork.state`."""

    # Layers pass on u = 1 + 1 / (1 + exp(-2a)) instead of tanh(a) = 2u - 3: NumPy's exp is twice as fast as its tanh,
    # and between 1 and 2 single precision is a grid already, with steps of 2**-23.

    def __init__(self, state: dict[str, Array]) -> None:
        numbers = {int(name.split(".")[1]) for name in state if name.startswith("encoder.")} - {2}
        names = [*(f"encoder.{i}" for i in sorted(numbers)), "head"]
        self.last_norm: tuple[Array, Array] | None = None  # of a network whose only hidden layer is the embedding
        self.layers: list[Array] = []  # (n_in + 1, n_out), the bias last: from x or u to -2a, the head to the scores
        for i, name in enumerate(names):
            W, b = (state[f"{name}.{kind}"].astype(np.float64) for kind in ("weight", "bias"))
            if i == 1:  # batch norm is part of the layer that follows it
                factor = state["encoder.2.weight"] / np.sqrt(state["encoder.2.running_var"].astype(np.float64) + BN_EPS)
                shift = state["encoder.2.bias"] - state["encoder.2.running_mean"] * factor
                b += W @ shift
                W *= factor
                if name == "head":
                    self.last_norm = factor.astype(np.float32), shift.astype(np.float32)
            if name != "head":
                W, b = -2 * W, -2 * b
            if i == 0:
                self.first_exponents = _weight_exponents(np.column_stack([W, b])).ravel()  # the grid of each unit
            self.layers.append(_from_rows(W, b) if i == 0 else _from_u(W, b))

    def plain_layers(self) -> list[tuple[Array, Array]]:
        """Return weights (n_in, n_out) and biases of a = x W + b for each layer; the last one gives the scores.

        From layer to layer, x = tanh(a).
        """
        plain = []
        for i, layer in enumerate(self.layers):
            W, b = layer[:-1], layer[-1]
            if i > 0:
                W, b = W / 2, 1.5 * W.sum(axis=0) + 2 * b
            factor = 1 if layer is self.layers[-1] else -0.5
            plain.append((factor * W, factor * b))
        return plain

    @np.errstate(over="ignore")
    def embed(self, rows: Array) -> Array:
        """Return f(x) of rows from :func:`on_grid`: (n, width) of float32."""
        for W in self.layers[:-2]:
            rows = next_rows(rows, W)
        a = (rows @ self.layers[-2]).astype(np.float32)
        a *= np.float32(-0.5)
        np.tanh(a, out=a)
        if self.last_norm is not None:
            factor, shift = self.last_norm
            a = a * factor + shift
        return np.asarray(a)

    def predict_proba(self, rows: Array) -> Array:
        """Return g(f(x)) of rows from :func:`on_grid`: (c, n) of float32, rows last."""
        return self.from_second(next_rows(rows, self.layers[0]))

    @np.errstate(over="ignore")
    def from_second(self, rows: Array) -> Array:
        """Return the probabilities (c, n) from the output of the first layer."""
        for W in self.layers[1:-1]:
            rows = next_rows(rows, W)
        scores = self.layers[-1].T @ rows.T  # rows last, so that sums over classes are quick
        scores -= scores.max(axis=0)
        z: Array = scores.astype(np.float32)
        np.exp(z, out=z)
        z /= sum(z)  # the built-in sum: NumPy's own adds up the classes of a single row in another order
        return z


def evaluate(state: dict[str, Array], X: Array, *, head: bool) -> Array:
    """Return g(f(x)), or f(x) without the head, for every row by the network of this state, as float32."""
    network = FrozenNetwork(state)
    n_in, c = network.layers[-1].shape
    out = np.empty((len(X), c if head else n_in - 1), np.float32)
    for batch in batches(len(X)):
        rows = on_grid(X[batch])
        out[batch] = network.predict_proba(rows).T if head else network.embed(rows)
    return out


def batches(n: int, size: int = 512) -> list[slice]:
    """Return slices of n rows, so few at a time that their activations stay in the cache."""
    return [slice(start, start + size) for start in range(0, n, size)]


def on_grid(x: Array, centre: Array | float = 0.0, factor: Array | float = 1.0) -> Array:
    """Return (x - centre) * factor and a column of ones as float64, each row on a grid that fits its largest value."""
    rows = np.ones((len(x), x.shape[1] + 1))
    np.subtract(x, centre, out=rows[:, :-1])
    rows[:, :-1] *= factor
    _, exponents = np.frexp(np.maximum(rows.max(axis=1), -rows.min(axis=1)))
    return rounded(rows, exponents[:, None] - ROW_BITS)


def _from_rows(W: Array, b: Array) -> Array:
    """Return the layer W x + b for rows with a column of ones."""
    layer = np.column_stack([W, b])
    return np.ascontiguousarray(rounded(layer, _weight_exponents(layer)).T)


def _from_u(W: Array, b: Array) -> Array:
    """Return the layer W (2u - 3) + b for u with a column of twos."""
    exponents = _weight_exponents(np.column_stack([2 * W, (b - 3 * W.sum(axis=1)) / 2]))
    W = rounded(2 * W, exponents)
    b = (b - 1.5 * W.sum(axis=1)) / 2  # of the rounded weights, so that their rounding errors are multiplied by 2u - 3
    return np.ascontiguousarray(rounded(np.column_stack([W, b]), exponents).T)


def _weight_exponents(layer: Array) -> Array:
    """Return exponents of grids on which the absolute values in each row sum to at most 2**29 steps."""
    _, exponents = np.frexp(1.001 * np.abs(layer).sum(axis=1, keepdims=True))  # rounding may add a little
    return np.asarray(exponents - WEIGHT_BITS)


def rounded(values: Array, exponents: Array) -> Array:
    """Round to multiples of 2**exponent, in place, by adding a number so large that its last digit is 2**exponent."""
    large = np.ldexp(1.5, exponents + 52)
    values += large
    values -= large
    return values


def next_rows(rows: Array, W: Array) -> Array:
    """Return the u of all units after a layer, and 2 for the bias of the next layer."""
    return activated(rows @ W)


@np.errstate(over="ignore")  # far from 0, tanh is -1 or 1 anyway
def activated(a: Array) -> Array:
    """Return the u of units whose sum is -2a, and 2 for the bias of the next layer."""
    one = np.float32(1)
    u = a.astype(np.float32)
    np.exp(u, out=u)
    u += one
    np.divide(one, u, out=u)
    u += one
    out = np.full((len(u), u.shape[1] + 1), 2.0)
    out[:, :-1] = u
    return out


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
