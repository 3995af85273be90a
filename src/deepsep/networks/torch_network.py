"""Any torch encoder under a linear head, on the CPU or on a GPU."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from deepsep.errors import DataError
from deepsep.networks.frozen import evaluate
from deepsep.networks.interface import (
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
from deepsep.networks.loop import adam, one_thread, private_seed, row_losses, run_epochs, tensor


def default_encoder(
    n_features: int,
    *,
    hidden: Sequence[int] = (128, 32),
    dropout: float = 0.5,
    rng: np.random.Generator | None = None,
) -> nn.Sequential:
    """Return the paper's encoder f: Linear, tanh, batch norm, dropout, then Linear and tanh for each further width.

    A generator in the same state gives :class:`deepsep.networks.NumpyNetwork` the same encoder.
    """
    rng = np.random.default_rng() if rng is None else rng
    layers: list[nn.Module] = []
    for n_in, n_out in zip((n_features, *hidden), hidden, strict=False):
        layers += [linear_layer(rng, n_in, n_out), nn.Tanh()]
        if len(layers) == 2:
            layers += [
                nn.BatchNorm1d(n_out, eps=BN_EPS, momentum=BN_MOMENTUM, dtype=torch.float32),
                nn.Dropout(dropout),
            ]
    return nn.Sequential(*layers)


def linear_layer(rng: np.random.Generator, n_in: int, n_out: int) -> nn.Linear:
    """Return a linear layer with weights from our generator."""
    # Made on the meta device: elsewhere torch would draw weights from the global generator.
    layer = nn.Linear(n_in, n_out, device="meta", dtype=torch.float32).to_empty(device="cpu")
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(glorot_normal(rng, n_in, n_out)))
        layer.bias.zero_()
    return layer


class TorchNetwork:
    """An encoder in torch, under a linear head.

    ``encoder``, by default that of :class:`deepsep.networks.NumpyNetwork`, is a module, which is copied, or a function
    without arguments that makes one. It maps ``(batch, *input_shape)`` to ``(batch, width)``. Rows may be given flat.
    ``l2`` has a coefficient for each parameter of two dimensions or more, in the order in which the encoder lists them,
    then one for the head; a single number applies to all.
    """

    def __init__(
        self,
        input_shape: int | tuple[int, ...],  # of one row as the encoder takes it, such as (1, 8, 8) for an image
        n_classes: int,
        *,
        encoder: nn.Module | Callable[[], nn.Module] | None = None,
        hidden: Sequence[int] = (128, 32),
        dropout: float = 0.5,
        noise: float = 0.0,  # standard deviation on every feature in training
        l2: float | Sequence[float] = 0.0,
        device: str | torch.device = "cpu",
        rng: np.random.Generator,
    ) -> None:
        self.input_shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
        self.n_classes = n_classes
        self.noise = noise
        self.device = torch.device(device)
        self._default = encoder is None
        if encoder is None:
            encoder = default_encoder(math.prod(self.input_shape), hidden=hidden, dropout=dropout, rng=rng)
        elif isinstance(encoder, nn.Module):
            encoder = copy.deepcopy(encoder)
        else:
            with private_seed(int(rng.integers(2**63)), torch.device("cpu")):
                encoder = encoder()
        encoder = encoder.to(self.device, torch.float32).eval()
        one_row = torch.zeros((1, *self.input_shape), dtype=torch.float32, device=self.device)
        with torch.inference_mode(), FlopCounterMode(display=False) as counted:
            width = encoder(one_row).shape[-1]
        self._operations = counted.get_total_flops()  # in matrix products and convolutions, for one row
        self.module = nn.ModuleDict({"encoder": encoder, "head": linear_layer(rng, width, n_classes).to(self.device)})
        weights = [parameter for parameter in self.module.parameters() if parameter.ndim > 1]
        self.l2 = per_layer(l2, len(weights))

    def train(
        self,
        X: Array | Tensor,
        targets: Array | Tensor,
        *,
        loss: Loss,
        epochs: int,
        lr: float,
        batch_size: int,
        rng: np.random.Generator,
        weight: Array | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> list[float]:
        """Run one phase; see :class:`deepsep.networks.Network`.

        Rows and targets go to the device once; tensors that are there already are used as they are.
        """
        kept, weight = present_rows(weight)
        rows, goals = self._rows(X), tensor(targets, self.device)
        weights = None if weight is None else tensor(weight, self.device)
        n = len(X) if kept is None else len(kept)
        mass = n if weight is None else float(weight.sum(dtype=np.float64))
        order_rng, noise_seed = streams(rng)
        encoder, head = self.module["encoder"], self.module["head"]
        norms = [module for module in encoder.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
        optimiser = adam(self.decays(), lr=lr)

        def draw_order() -> Array:
            order = order_rng.permutation(n)
            return order if kept is None else kept[order]

        def step(at: Tensor) -> Tensor:
            w = None if weights is None else weights[at]
            for norm in norms:
                norm.train(len(at) > 1)
            optimiser.zero_grad()
            x = rows[at] + self.noise * torch.randn_like(rows[at]) if self.noise else rows[at]
            losses = row_losses(head(encoder(x)), goals[at], loss)
            total = losses.sum() if w is None else losses @ w
            torch.autograd.backward(total / (len(at) if w is None else w.sum()))
            optimiser.step()
            return total.detach()

        history: list[float] = []

        def record(epoch: int, total: Array) -> bool | None:
            history.append(float(total) / mass)
            return None if on_epoch is None else on_epoch(epoch, history[-1])

        self.module.train()
        try:
            size = min(batch_size, n)
            with private_seed(noise_seed, self.device), self._threads(size):
                run_epochs(step, draw_order, record, n=n, epochs=epochs, batch_size=size, device=self.device)
        finally:
            self.module.eval()
        return history

    def decays(self) -> list[tuple[Tensor, float]]:
        """Return every parameter with the coefficient of its squared norm in the loss."""
        coefficients = iter(self.l2)
        return [(p, next(coefficients) if p.ndim > 1 else 0.0) for p in self.module.parameters()]

    def scores(self, rows: Tensor) -> Tensor:
        """Return the class scores of rows on the device before the softmax, in the module's present mode."""
        scores: Tensor = self.module["head"](self.module["encoder"](rows))
        return scores

    def embed(self, X: Array | Tensor) -> Array:
        """Return f(x) for every row, in evaluation mode; on the CPU a row gets the same bits in any batch."""
        return self._evaluate(X, head=False)

    def predict_proba(self, X: Array | Tensor) -> Array:
        """Return g(f(x)) for every row, in evaluation mode; on the CPU a row gets the same bits in any batch."""
        return self._evaluate(X, head=True)

    def _evaluate(self, X: Array | Tensor, *, head: bool, batch_size: int = 4096) -> Array:
        on_cpu = self.device.type == "cpu"
        if self._default and on_cpu:
            return evaluate(self.state(), self._rows(X).flatten(1).numpy(), head=head)
        steps = [self.module["encoder"], *([self.module["head"], nn.Softmax(-1)] if head else [])]
        function = nn.Sequential(*steps).eval()
        size = min(len(X), batch_size)
        exact = _double_products(function) if on_cpu else contextlib.nullcontext()
        with torch.inference_mode(), exact, self._threads(size):
            # One batch at a time goes to the device, since there may be many more rows than fit.
            parts = [
                function(self._rows(X[start : start + batch_size])).cpu().numpy()
                for start in range(0, max(len(X), 1), batch_size)
            ]
        return np.concatenate(parts)

    def _threads(self, n_rows: int) -> contextlib.AbstractContextManager[None]:
        """Limit torch to one thread if a batch of ``n_rows`` rows is little work."""
        small = self.device.type == "cpu" and n_rows * self._operations < 100_000_000
        return one_thread() if small else contextlib.nullcontext()

    def state(self) -> dict[str, Array]:
        """Return a copy of every parameter and buffer, under torch's names."""
        return {name: value.cpu().numpy().copy() for name, value in self.module.state_dict().items()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Load a result of :meth:`state`, which may come from another back end."""
        check_state(state, self.state())
        self.module.load_state_dict({name: torch.as_tensor(np.array(value)) for name, value in state.items()})

    def _rows(self, X: Array | Tensor) -> Tensor:
        if math.prod(X.shape[1:]) != math.prod(self.input_shape):
            raise DataError(f"X has shape {tuple(X.shape)}, but the encoder takes rows of shape {self.input_shape}")
        return tensor(X, self.device).reshape(len(X), *self.input_shape)


@contextlib.contextmanager
def _double_products(module: nn.Module) -> Iterator[None]:
    """Let linear layers compute in double precision and round their output, inside a ``with`` block.

    In single precision the last digits of a row depend on its place in the batch.
    """

    def forward(layer: nn.Linear, x: Tensor) -> Tensor:
        bias = None if layer.bias is None else layer.bias.double()
        return nn.functional.linear(x.double(), layer.weight.double(), bias).to(x.dtype)

    layers = [layer for layer in module.modules() if type(layer) is nn.Linear]
    for layer in layers:
        layer.forward = partial(forward, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
