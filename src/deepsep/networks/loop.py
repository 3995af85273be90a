"""Parts shared by all training in torch: losses of rows, Adam, private random states, and the loop over epochs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from deepsep.networks.interface import ADAM_EPS, BETA1, BETA2, Array, Loss


def tensor(values: Array | Tensor, device: torch.device | str) -> Tensor:
    """Return float32 values on the device, without copying if they are there already."""
    if not isinstance(values, Tensor):
        # torch warns of arrays that are not writable, such as those of a memory map or in a worker process.
        values = torch.from_numpy(np.require(values, np.float32, ["C", "W"]))
    return values.to(device, torch.float32)


def row_losses(scores: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """Return the loss of each row, from the class scores before the softmax."""
    if loss == "mse":
        return (torch.softmax(scores, -1) - targets).square().mean(-1)
    return (torch.xlogy(targets, targets) - targets * torch.log_softmax(scores, -1)).sum(-1)


def adam(decays: Sequence[tuple[Tensor, float]], *, lr: float) -> torch.optim.Adam:
    """Return Adam over these parameters, each with the coefficient of its squared norm in the loss."""
    groups: dict[float, list[Tensor]] = {}
    for parameter, decay in decays:
        groups.setdefault(2 * decay, []).append(parameter)
    return torch.optim.Adam(
        [{"params": parameters, "weight_decay": decay} for decay, parameters in groups.items()],
        lr=lr,
        betas=(BETA1, BETA2),
        eps=ADAM_EPS,
        fused=True,
        capturable=decays[0][0].is_cuda,
    )


@contextlib.contextmanager
def private_seed(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators that modules such as dropout draw from, and restore them afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if device.type != "cuda":
            yield
            return
        # The generator gets another state instead of a seed, because a capture marks the state that it finds.
        generator = _cuda_generator(device)
        own = generator.graphsafe_get_state()
        generator.graphsafe_set_state(torch.Generator(device).manual_seed(seed).graphsafe_get_state())
        try:
            yield
        finally:
            generator.graphsafe_set_state(own)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: for small networks, handing work to a second one costs more than it saves.

    On a busy machine, every operation may wait for the second thread, and a step takes many times as long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cuda_generator(device: torch.device) -> torch.Generator:
    torch.cuda.init()  # type: ignore[no-untyped-call]
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


def run_epochs(
    step: Callable[[Tensor], Tensor],  # trains on the rows of these indices, and returns the sum of weighted losses
    draw_order: Callable[[], Array],  # returns the indices of the ``n`` rows of an epoch
    record: Callable[[int, Array], bool | None],  # gets epoch and sum of the steps' results; True ends the training
    *,
    n: int,
    epochs: int,
    batch_size: int,
    device: torch.device,
) -> None:
    """Train on every batch of every epoch.

    On a GPU a step of a small network is hundreds of launches and little arithmetic. There, the step on a full batch is
    one CUDA graph, which finds its rows itself: the next ``batch_size`` of the order, from a position kept on the
    device. A step that cannot be captured is run as it is.
    """
    order = torch.empty(n, dtype=torch.int64, device=device)
    total = torch.zeros((), dtype=torch.float64, device=device)
    position = torch.zeros((), dtype=torch.int64, device=device)
    ahead = torch.arange(batch_size, device=device)

    def next_step() -> None:
        total.add_(step(order.index_select(0, position + ahead)))
        position.add_(batch_size)

    graph = None
    n_eager = 0
    with _side_stream(device):
        for epoch in range(epochs):
            order.copy_(torch.from_numpy(draw_order()))
            total.zero_()
            position.zero_()
            for start in range(0, n, batch_size):
                if graph is not None and start + batch_size <= n:
                    graph.replay()
                    continue
                total.add_(step(order[start : start + batch_size]))
                n_eager += 1
                if n_eager == 3 and device.type == "cuda":  # torch needs some steps before a capture to initialise
                    graph = capture(next_step, device)
                    position.fill_(start + batch_size)
            if record(epoch, total.cpu().numpy()):
                break


@contextlib.contextmanager
def _side_stream(device: torch.device) -> Iterator[None]:
    """Work on a separate stream if the device has streams: a capture refuses the default one."""
    if device.type != "cuda":
        yield
        return
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream(device).wait_stream(side)


def capture(step: Callable[[], None], device: torch.device) -> torch.cuda.CUDAGraph | None:
    """Return a graph of the step, which is not run; None if it does something that a graph cannot hold."""
    generator = _cuda_generator(device)
    state = generator.clone_state()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(device)):
            step()
    except RuntimeError:
        # A capture that fails leaves the generator's state marked as captured, which makes it useless.
        generator.graphsafe_set_state(state.graphsafe_get_state())
        torch.cuda.synchronize(device)
        return None
    return graph
