"""Faster passes through the network in training, and where the time of a step goes.

Everything here leaves the weights' names and shapes alone: what is trained so is read by the package as ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from deepsep.networks.in_context_network import Block, InContextNetwork
from deepsep.networks.products import attend

if TYPE_CHECKING:
    from pretraining.generator import Batch
    from pretraining.train import Loss, Shape, Trainer


def _blocks(network: InContextNetwork) -> list[nn.Module]:
    return [*network.column_blocks, *network.row_blocks, *network.context_blocks]


def compile_blocks(network: InContextNetwork, mode: str) -> None:
    """Compile the blocks: all of one kind share their code, so this is much faster than compiling the network."""
    if mode == "none":
        return
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.accumulated_recompile_limit = 1024
    for block in _blocks(network):
        block.compile(dynamic=mode == "dynamic")


def interpret_blocks(network: InContextNetwork) -> None:
    """Undo `compile_blocks`."""
    for block in _blocks(network):
        block._compiled_call_impl = None


def attend_explicitly(network: InContextNetwork, most_keys: int) -> None:
    """Write the attention among the cells of a row out as two matrix products, where there are few cells.

    A batch has about 100,000 rows of some 10 cells. Fused kernels give a whole thread block, made for 128 queries, to
    each of them.
    """

    def attend_few(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        if keys.shape[-2] > most_keys:
            return attend(queries, keys, values)
        scores = queries @ keys.transpose(-1, -2)
        weights: Tensor = scores.softmax(-1, dtype=torch.float32).to(values.dtype)
        return (weights @ values).transpose(1, 2).flatten(2)

    for block in network.row_blocks:
        assert isinstance(block, Block)
        block.attention.attend = attend_few


class PlainNorm(nn.LayerNorm):
    """Layer norm in the precision of its input; its kernel sums in single precision anyway.

    Autocast would turn the input into single precision, and the next layer turn it back.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the input, normed."""
        with torch.autocast(x.device.type, enabled=False):
            return F.layer_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


class WorkingCopy:
    """A copy of the network in lower precision, which passes run through; the weights move in single precision.

    Autocast casts every weight in every pass, and its gradient back: some hundred launches each. Here it is one.
    """

    def __init__(self, network: InContextNetwork, dtype: torch.dtype) -> None:
        self.network = deepcopy(network).to(dtype)
        for module in self.network.modules():
            if isinstance(module, nn.LayerNorm):
                module.__class__ = PlainNorm
        self._weights: list[Tensor] = list(network.parameters())
        self._copies: list[Tensor] = list(self.network.parameters())
        self._gradients: list[Tensor] = [torch.zeros_like(weight) for weight in self._weights]

    @torch.no_grad()
    def return_gradients(self) -> None:
        """Hand the gradients on to the weights."""
        places, gradients = [], []
        for weight, copy, place in zip(self._weights, self._copies, self._gradients, strict=True):
            weight.grad = None
            if copy.grad is not None:
                weight.grad = place
                places.append(place)
                gradients.append(copy.grad)
        torch._foreach_copy_(places, gradients)

    @torch.no_grad()
    def follow(self) -> None:
        """Take the weights over after they have moved."""
        torch._foreach_copy_(self._copies, self._weights)


class Recorded(NamedTuple):
    """A CUDA graph, where it reads and where it writes."""

    graph: Any
    inputs: list[Tensor]
    loss: Loss


class Graphs:
    """The passes of each shape as one CUDA graph: one launch instead of thousands."""

    def __init__(self, passes: Callable[[Batch, Tensor], Loss], parameters: list[Tensor]) -> None:
        self._passes, self._parameters = passes, parameters
        self._recorded: dict[object, Recorded] = {}
        self._pool = torch.cuda.graph_pool_handle()
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)

    def __call__(self, batch: Batch, identities: Tensor) -> Loss:
        """Do what the passes do; gradients add to zeros."""
        inputs = [*(part for part in batch if part is not None), identities]
        key = tuple(part.shape for part in inputs)
        if key not in self._recorded:
            self._recorded[key] = self._record(batch, identities)
        recorded = self._recorded[key]
        for place, part in zip(recorded.inputs, inputs, strict=True):
            place.copy_(part)
        recorded.graph.replay()
        return recorded.loss

    def _record(self, batch: Batch, identities: Tensor) -> Recorded:
        batch = deepcopy(batch)
        identities = identities.clone()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self._passes(batch, identities)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            torch._foreach_zero_([p.grad for p in self._parameters if p.grad is not None])
            loss = self._passes(batch, identities)
        return Recorded(graph, [*(part for part in batch if part is not None), identities], loss)


def profile(trainer: Trainer, shapes: list[Shape]) -> None:
    """Print milliseconds of every part of a step of every shape, launches, and tables per second."""
    print("context asked columns tables  generator  launches  network  launches  busy  optimiser    step  tables/s")
    spent = made = 0.0
    for shape in shapes:
        begin = time.perf_counter()
        batch = trainer.draw([shape], 0)
        trainer.backward(batch)
        _wait(trainer.device)
        first = time.perf_counter() - begin
        parts: list[Callable[[], object]] = [
            partial(trainer.draw, [shape], 0),
            partial(trainer.backward, batch),
            partial(trainer.step, 0.0),
            partial(_whole_step, trainer, shape),
        ]
        draw, network, optimiser, step = (_milliseconds(trainer.device, part) for part in parts)
        draw_launches, _ = launches(trainer.device, parts[0])
        network_launches, busy = launches(trainer.device, parts[1])
        spent, made = spent + shape.weight * step / 1000, made + shape.weight * shape.tables
        memory = torch.cuda.max_memory_allocated() / 2**30 if trainer.device.type == "cuda" else 0
        print(
            f"{shape.context:7} {shape.asked:5} {shape.columns:7} {shape.tables:6} {draw:7.1f} ms {draw_launches:9}"
            f" {network:5.1f} ms {network_launches:9} {busy:5.1f} {optimiser:7.1f} ms {step:4.1f} ms"
            f" {1000 * shape.tables / step:9.0f}   (first {first:.1f} s, {memory:.1f} GiB at most so far)",
            flush=True,
        )
    steps = sum(shape.weight for shape in shapes)
    print(f"in all: {1000 * spent / steps:.1f} ms per step, {made / spent:.0f} tables per second", flush=True)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that compute or move something; on a GPU, nearly each is a launch."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs or {})
        schema = func._schema
        looks = not schema.is_mutable and any(part.alias_info for part in schema.returns)
        if not looks and "empty" not in schema.name and out is not None:
            self.count += 1
        return out


def launches(device: torch.device, call: Callable[[], object]) -> tuple[int, float]:
    """Return the number of kernels that a call launches, and the milliseconds in which one is running.

    On a CPU there are no launches: operations are counted, and the time is that of the whole call.
    """
    if device.type != "cuda":
        begin = time.perf_counter()
        with _Operations() as seen:  # type: ignore[no-untyped-call]
            call()
        return seen.count, 1000 * (time.perf_counter() - begin)
    with torch.profiler.profile() as watched:
        call()
        _wait(device)
    kernels = [event for event in watched.events() if event.device_type.name == "CUDA"]
    return len(kernels), sum(event.self_device_time_total for event in kernels) / 1000


def _whole_step(trainer: Trainer, shape: Shape) -> None:
    trainer.backward(trainer.draw([shape], 0))
    torch.nn.utils.clip_grad_norm_(trainer.parameters, 1.0)
    trainer.step(0.0)


def _milliseconds(device: torch.device, call: Callable[[], object], repeats: int = 4) -> float:
    call()
    _wait(device)
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    _wait(device)
    return 1000 * (time.perf_counter() - begin) / repeats


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
