"""The interface of all network back ends, and the conventions they share.

A network is ``g ∘ f``: an encoder f (rows → embedding) and a linear head g with a softmax (embedding →
probabilities). The default one is, in the paper's order,

    f = Linear(d, 128), tanh, batch norm, dropout, Linear(128, 32), tanh        g = Linear(32, c), softmax

with Glorot normal weights, zero biases, and an L2 penalty ``sum_layers l2[layer] * |W|^2`` on the weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from deepsep.errors import ParameterError

Array = NDArray[Any]
Loss = Literal["kl", "mse"]
OnEpoch = Callable[[int, float], bool | None]  # True: the phase ends here

# Adam, with the constants of its authors.
BETA1, BETA2, ADAM_EPS = 0.9, 0.999, 1e-8
# Batch norm, with torch's constants: running = (1 - momentum) * running + momentum * batch.
BN_EPS, BN_MOMENTUM = 1e-5, 0.1


class Network(Protocol):
    """A classifier that is trained in phases, as Algorithm 1 requires."""

    def train(
        self,
        X: Array,
        targets: Array,
        *,
        loss: Loss,  # "kl": KL(target ‖ prediction); "mse": squared difference, mean over the classes
        epochs: int,
        lr: float,
        batch_size: int,
        rng: np.random.Generator,  # draws the order of the rows, the same for every back end, and the dropout
        weight: Array | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> list[float]:
        """Run one phase: shuffled mini-batches, a fresh Adam.

        Rows are arrays or, on the CPU, any object with a length, a shape, ``rows_on_demand`` and rows by slice or
        index, so that rows can be made when they are needed. Targets are a probability vector for every row. The loss
        of a batch is ``sum_i w_i loss_i / sum_i w_i``, to which the L2 penalty is added.

        A weight of k stands for k copies of a row in the loss, 0 for its absence. Batch norm ignores weights: with
        unequal ones its moments would be those of a few rows, and change from batch to batch. A batch of a single row
        is normalised with the running statistics of the batch norm and does not change them.

        ``on_epoch(epoch, loss)`` is called after each epoch, from 0 on, and ends the phase by returning True. Returns
        the mean loss of each epoch over its rows during training (with dropout, while the weights change), without the
        penalty.
        """

    def embed(self, X: Array) -> Array:
        """Return f(x) for every row, in evaluation mode, as float32."""

    def predict_proba(self, X: Array) -> Array:
        """Return g(f(x)) for every row, in evaluation mode, as float32; rows sum to 1."""

    def state(self) -> dict[str, Array]:
        """Return a copy of every parameter and running statistic, under torch's names."""

    def load_state(self, state: dict[str, Array]) -> None:
        """Load a result of :meth:`state`, which may come from another back end."""


def per_layer(l2: float | Sequence[float], n_layers: int) -> tuple[float, ...]:
    """Return one L2 coefficient for each layer; a single number applies to all."""
    return tuple(map(float, l2)) if isinstance(l2, Sequence) else (float(l2),) * n_layers


def glorot_normal(rng: np.random.Generator, n_in: int, n_out: int) -> Array:
    """Draw the weights of a linear layer, of shape (n_out, n_in)."""
    return rng.standard_normal((n_out, n_in), dtype=np.float32) * np.float32((2.0 / (n_in + n_out)) ** 0.5)


def streams(rng: np.random.Generator) -> tuple[np.random.Generator, int]:
    """Draw a generator for the order of the rows, and a seed for the dropout.

    They are separate so that back ends that draw their dropout differently still see the same batches.
    """
    order, noise = rng.integers(0, 2**63, size=2)
    return np.random.default_rng(order), int(noise)


def present_rows(weight: Array | None) -> tuple[Array | None, Array | None]:
    """Return the indices of the rows whose weight is not 0 (None: all of them), and the weights as float32."""
    if weight is None:
        return None, None
    weight = np.asarray(weight, dtype=np.float32)
    return (None if weight.all() else np.flatnonzero(weight)), weight


def check_state(state: dict[str, Array], own: dict[str, Array]) -> None:
    """Raise an error unless a state has the names and shapes of the network's own state."""
    if state.keys() != own.keys():
        odd = sorted(state.keys() ^ own.keys())
        raise ParameterError(f"the state is that of another network: names {odd} are in one of the two only")
    for name, value in own.items():
        if np.shape(state[name]) != value.shape:
            raise ParameterError(f"{name} has shape {np.shape(state[name])}, but the network's has {value.shape}")


def choose_device(device: str) -> str:
    """Return "cuda" or "cpu" for a setting of "auto", "cpu" or "cuda", or raise if there is not a GPU for "cuda"."""
    if device == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise ParameterError('device="cuda": torch finds no GPU here. Use device="cpu" or "auto".')
    return "cpu"
