"""Training on labelled and unlabelled rows together: a number of steps, each on a batch of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from deepsep.networks.interface import Array, streams
from deepsep.networks.loop import adam, one_thread, private_seed, run_epochs

OnStep = Callable[[int, float], object]


class Batch(NamedTuple):
    """The batch of one step: indices of rows, on the device, and the progress of the training."""

    labeled: Tensor  # (b,)
    unlabeled: Tensor  # (m,); empty without unlabelled rows
    step: Tensor  # 0, 1, ... as a number on the device, so that schedules made from it work in a CUDA graph
    progress: Tensor  # step / steps, from 0 to below 1

    @property
    def both(self) -> Tensor:
        """The labelled rows, then the unlabelled ones."""
        return torch.cat([self.labeled, self.unlabeled])


class StepSettings(NamedTuple):
    """Settings of a training in steps."""

    steps: int
    lr: float  # of Adam
    batch_size: int  # labelled rows in a batch, or all if there are fewer
    unlabeled_batch: int  # and unlabelled ones


def train_steps(
    module: nn.Module,  # in training mode during the steps, in evaluation mode afterwards
    loss_of: Callable[[Batch], Tensor],  # on a GPU it is captured once and replayed
    settings: StepSettings,
    *,
    decays: Sequence[tuple[Tensor, float]],  # parameters to train, each with the coefficient of its squared norm
    labeled: Array,  # indices of rows
    unlabeled: Array,
    rng: np.random.Generator,
    weight: Array | None = None,  # (n,), of all rows
    after_step: Callable[[Batch], object] | None = None,
    on_step: OnStep | None = None,
) -> list[float]:
    """Minimise a loss with Adam over batches of labelled and unlabelled rows.

    Labelled and unlabelled rows come in random order, in separate passes: a few labelled rows come often. A row of
    weight k comes k times as often as one of weight 1, so that losses need not know about weights.

    ``rng`` gives the order of the rows, and the seed of torch's global generators, from which modules and ``loss_of``
    draw. ``on_step`` is called with the number of steps since the last call, 50 or fewer, and their mean loss; the list
    of these means is returned.
    """
    steps, report_every, device = settings.steps, 50, decays[0][0].device
    order_rng, noise_seed = streams(rng)
    sizes = [min(settings.batch_size, len(labeled)), min(settings.unlabeled_batch, len(unlabeled))]
    if sum(sizes) == 1:
        sizes[0] = 2  # batch norm needs two rows
    sources = [_Endless(index, None if weight is None else weight[index], order_rng) for index in (labeled, unlabeled)]
    optimiser = adam(decays, lr=settings.lr)
    count = torch.zeros((), dtype=torch.float32, device=device)

    def step(at: Tensor) -> Tensor:
        batch = Batch(at[: sizes[0]], at[sizes[0] :], count, count / steps)
        optimiser.zero_grad()
        loss = loss_of(batch)
        torch.autograd.backward(loss)
        optimiser.step()
        if after_step is not None:
            with torch.no_grad():
                after_step(batch)
        count.add_(1)
        return loss.detach()

    history: list[float] = []

    def run(n_reports: int, n_steps: int) -> None:
        def draw_order() -> Array:
            parts = [
                source.take(n_steps * size).reshape(n_steps, size) for source, size in zip(sources, sizes, strict=True)
            ]
            return np.concatenate(parts, axis=1).ravel()

        def record(_: int, total: Array) -> None:
            history.append(float(total) / n_steps)
            if on_step is not None:
                on_step(n_steps, history[-1])

        size = sum(sizes)
        run_epochs(step, draw_order, record, n=n_steps * size, epochs=n_reports, batch_size=size, device=device)

    module.train()
    try:
        with private_seed(noise_seed, device), one_thread():
            for n_reports, n_steps in ((steps // report_every, report_every), (1, steps % report_every)):
                if n_reports and n_steps:
                    run(n_reports, n_steps)
    finally:
        module.eval()
    return history


class _Endless:
    """Endless rows: pass after pass, each in a new order, in proportion to the weights."""

    def __init__(self, index: Array, weight: Array | None, rng: np.random.Generator) -> None:
        self._index, self._rng = index, rng
        even = weight is None or (weight == weight[:1]).all()
        self._edges = None if even or weight is None else np.cumsum(weight) / weight.sum()
        self._left = index[:0]

    def take(self, size: int) -> Array:
        """Return the next ``size`` rows."""
        parts = [self._left]
        while size > 0 and sum(map(len, parts)) < size:
            parts.append(self._next_pass())
        rows = np.concatenate(parts)
        self._left = rows[size:]
        return rows[:size]

    def _next_pass(self) -> Array:
        n = len(self._index)
        if self._edges is None:
            return np.asarray(self._index[self._rng.permutation(n)])
        # Systematic sampling: in n draws a row of share p comes floor(n p) or ceil(n p) times.
        drawn = np.searchsorted(self._edges, (np.arange(n) + self._rng.random()) / n).clip(max=n - 1)
        return np.asarray(self._index[self._rng.permutation(drawn)])
