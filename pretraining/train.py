"""Trains the in-context network on synthetic tables, in one schedule over as many runs as it takes.

    python -m pretraining.train --minutes 9 --schedule 4e6 --out FOLDER      # the first run
    python -m pretraining.train --minutes 9 --resume FOLDER                  # the next; and again, until it is through

A schedule has one warm-up, a constant rate, and one decay, measured in synthetic tables. Every batch has a number and
its own seed, so that the tables do not depend on where one run ends and the next begins. `--start` takes weights alone
and begins a schedule of its own. A run writes its state and weights every minute, and a line of JSON to `log.jsonl`
every ten seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from deepsep.networks.in_context_network import (
    InContextNetwork,
    Prediction,
    Sizes,
    draw_identities,
    load_network,
    save_network,
)
from pretraining import checkpoint
from pretraining.evaluate import Protocol, evaluate, read_tables, report, summary
from pretraining.generator import PRIORS, Batch, draw_batch
from pretraining.muon import Muon
from pretraining.speed import Graphs, WorkingCopy, attend_explicitly, compile_blocks, interpret_blocks, profile

AVERAGE_DECAY = 0.999
WARM_UP_STEPS = 300
LOG_SECONDS, SAVE_SECONDS = 10, 60
# What a schedule keeps from its first run to its last, with defaults; and how far it has come.
SCHEDULE: dict[str, Any] = {
    "schedule": None,
    "seed": 0,
    "prior": "first",
    "lr": 7e-4,
    "decay_from": 1.0,
    "optimizer": "adamw",
    "batch": 1.0,
    "half": False,
    "wide": False,
    "tiny": False,
}
COUNTS = ("seen", "began", "step_number", "skipped")


class Shape(NamedTuple):
    """The size of a batch: about a million cells, and no more than 65,535 rows or a multiple thereof."""

    context: int
    asked: int
    columns: int
    tables: int
    weight: float = 1.0  # how often it is drawn


SHAPES = [
    Shape(128, 128, 6, 384, 1.5),
    Shape(128, 128, 12, 384, 1.5),
    Shape(256, 128, 20, 160, 1.5),
    Shape(256, 128, 72, 40, 1.5),
    Shape(640, 128, 16, 80, 1.5),
    Shape(640, 128, 40, 36, 1.5),
    Shape(1152, 128, 10, 48),
    Shape(1152, 128, 64, 14),
    Shape(1152, 128, 100, 8, 0.7),
    Shape(3072, 128, 12, 16, 0.7),
    Shape(3072, 128, 40, 8, 0.7),
]
WIDE_SHAPES = [Shape(256, 128, 160, 18, 0.7), Shape(384, 128, 250, 8, 0.5)]
TINY_SHAPES = [Shape(32, 16, 6, 8), Shape(48, 16, 3, 6), Shape(96, 16, 40, 4)]
TINY_SIZES = Sizes(width=16, inducing=8, column_blocks=1, row_blocks=2, context_blocks=2, context_heads=2)


class Loss(NamedTuple):
    """The loss, and its parts for the log."""

    total: Tensor
    rows: Tensor  # cross-entropy of the classes, in nats
    relative: Tensor  # the same, where guessing among the classes is 1
    accuracy: Tensor
    shares: Tensor  # divergence of the estimated shares
    interval: Tensor  # negative log likelihood of the shares, per class


def loss_of(prediction: Prediction, batch: Batch) -> Loss:
    """Score the rows without a label, in the context and asked, and the shares of the classes."""
    hidden = torch.ones_like(batch.classes, dtype=torch.float32)
    hidden[:, : batch.labels.shape[1]] = (batch.labels == prediction.logits.shape[2]).float()
    weight = hidden / hidden.sum(1, keepdim=True)
    logits = prediction.logits.transpose(1, 2)
    per_table = (F.cross_entropy(logits, batch.classes, reduction="none") * weight).sum(1)
    relative = (per_table / batch.n_classes.log()).mean()
    accuracy = ((prediction.logits.argmax(2) == batch.classes) * weight).sum(1).mean()

    valid = torch.arange(batch.shares.shape[1], device=batch.shares.device) < batch.n_classes[:, None]
    # No share is quite zero: the Dirichlet density has no value there.
    truth = torch.where(valid, batch.shares + 1e-3, 0)
    truth = truth / truth.sum(1, keepdim=True)
    log_truth = truth.clamp(min=1e-6).log()
    shares = (truth * (log_truth - prediction.log_shares) * valid).sum(1).mean()
    # The likelihood trains the concentration alone; the divergence above trains the shares.
    parts = prediction.concentration[:, None] * prediction.log_shares.detach().exp().clamp(min=1e-5)
    parts = torch.where(valid, parts, 0)
    likelihood = parts.sum(1).lgamma() + torch.where(
        valid, (parts - 1) * log_truth - torch.where(valid, parts, 1.0).lgamma(), 0
    ).sum(1)
    interval = -(likelihood / (batch.n_classes - 1)).mean()
    rows = per_table.mean()
    return Loss(rows + shares + 0.02 * interval, rows, relative, accuracy, shares, interval)


class Trainer:
    """The network, its moving average and its optimisers, on one device."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.settings = {name: getattr(options, name) for name in SCHEDULE}
        self.seed, self.prior = options.seed, options.prior
        self.generator = torch.Generator(self.device)
        torch.manual_seed(options.seed)
        self.network, self.seen = InContextNetwork(TINY_SIZES if options.tiny else None), 0
        average: InContextNetwork = self.network
        state = checkpoint.load(_state_in(options.resume)) if options.resume else None
        if state:
            self.network = average = InContextNetwork(Sizes(**state["sizes"]))
        elif options.start:
            self.network, self.seen = load_network(_in_folder(options.start, "weights.safetensors"))
            average, _ = load_network(_in_folder(options.start, "average.safetensors"))
        self.began = self.seen  # where the schedule began
        self.step_number = self.skipped = 0
        self.network = self.network.to(self.device).train()
        self.names = [name for name, _ in self.network.named_parameters()]
        self.parameters: list[Tensor] = list(self.network.parameters())
        self.average = [value.detach().clone().to(self.device) for value in average.parameters()]
        self.optimisers = _optimisers(self.network, options, fused=self.device.type == "cuda")
        if state:
            self._restore(state)
        self.copy = WorkingCopy(self.network, torch.bfloat16) if options.half else None
        # The network that passes run through.
        self.working = self.copy.network if self.copy else self.network
        self.low = options.half or self.device.type == "cuda"
        self.graphs = Graphs(self._passes, list(self.working.parameters())) if options.graphs else None

    def draw(self, shapes: list[Shape], number: int) -> Batch:
        """Draw batch `number` of the schedule, whichever run comes to it."""
        dice = random.Random(1_000_003 * self.seed + number)
        self.generator.manual_seed(dice.getrandbits(62))
        context, asked, columns, tables, _ = dice.choices(shapes, [shape.weight for shape in shapes])[0]
        while True:
            try:
                return draw_batch(
                    tables, context, asked, columns, generator=self.generator, choices=dice, prior=self.prior
                )
            except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
                # Principal components of one table in millions do not converge: other tables take their place.
                continue

    def backward(self, batch: Batch) -> Loss:
        """Forward and backward pass."""
        tables, _, columns = batch.values.shape
        identities = draw_identities(tables, columns, self.network.sizes, generator=self.generator)
        if self.graphs:
            loss = self.graphs(batch, identities)
        else:
            for parameter in self.working.parameters():
                parameter.grad = None
            loss = self._passes(batch, identities)
        if self.copy:
            self.copy.return_gradients()
        return loss

    def _passes(self, batch: Batch, identities: Tensor) -> Loss:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.low):
            prediction = self.working(batch.values, batch.labels, batch.n_classes, identities, batch.spectrum)
        loss = loss_of(prediction, batch)
        torch.autograd.backward(loss.total)
        return Loss(*(part.detach() for part in loss))

    def step(self, lr: float) -> None:
        """Move the weights, and their average after them."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = lr
            optimiser.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.average, self.parameters, 1 - AVERAGE_DECAY)
        if self.copy:
            self.copy.follow()

    def save(self, folder: Path) -> None:
        save_network(folder / "weights.safetensors", self.network, tables_seen=self.seen)
        average = dict(zip(self.names, self.average, strict=True))
        save_network(folder / "average.safetensors", self.network, tables_seen=self.seen, state=average)
        state = {
            "settings": self.settings,
            "sizes": asdict(self.network.sizes),
            **{name: getattr(self, name) for name in COUNTS},
            "weights": dict(self.network.state_dict()),
            "average": average,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
        }
        checkpoint.save(folder / "checkpoint", state)

    def _restore(self, state: checkpoint.State) -> None:
        for name in COUNTS:
            setattr(self, name, state[name])
        self.network.load_state_dict(state["weights"])
        for average, name in zip(self.average, self.names, strict=True):
            average.copy_(state["average"][name])
        for optimiser, each in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(each)

    def averaged(self) -> InContextNetwork:
        """Return a network of its own with the average, whose blocks are not compiled: evaluation has many shapes."""
        network = InContextNetwork(self.network.sizes)
        network.load_state_dict(dict(zip(self.names, self.average, strict=True)))
        return network


def _in_folder(start: Path, name: str) -> Path:
    return start / name if start.is_dir() else start


def _state_in(folder: Path) -> Path:
    return folder if (folder / checkpoint.MANIFEST).exists() else folder / "checkpoint"


def _optimisers(network: InContextNetwork, options: argparse.Namespace, *, fused: bool) -> list[torch.optim.Optimizer]:
    matrices, others, vectors = [], [], []
    for name, parameter in network.named_parameters():
        if parameter.dim() < 2:
            vectors.append(parameter)
        elif options.optimizer == "muon" and "block" in name and name.endswith("weight"):
            matrices.append(parameter)
        else:
            others.append(parameter)
    groups = [{"params": others, "weight_decay": 0.02}, {"params": vectors, "weight_decay": 0.0}]
    found: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.98), fused=fused)]
    if matrices:
        found.append(Muon(matrices, lr=options.lr))
    return found


def try_shapes(trainer: Trainer, shapes: list[Shape]) -> list[Shape]:
    """Run every shape once, so that what fails fails now; a shape too large for the memory is halved until it fits."""
    fitting = []
    for shape in shapes:
        begin = time.perf_counter()
        while True:
            try:
                trainer.backward(trainer.draw([shape], 0))
                break
            except torch.OutOfMemoryError:
                if shape.tables < 2:
                    raise
                shape = shape._replace(tables=shape.tables // 2)
            # Out of the except clause: the traceback held on to the tensors.
            torch.cuda.empty_cache()
            print(f"out of memory: trying {shape}", flush=True)
        if trainer.device.type == "cuda":
            torch.cuda.synchronize()
        fitting.append(shape)
        print(f"{_words(shape)}: ready after {time.perf_counter() - begin:.1f} s", flush=True)
    return fitting


def _words(shape: Shape) -> str:
    return f"{shape.tables} tables of {shape.context} + {shape.asked} rows and {shape.columns} columns"


def learning_rate(lr: float, step: int, progress: float, decay_from: float) -> float:
    """Warm up over the first steps, stay, then fall to zero from `decay_from` of the run on."""
    fall = (1 - progress) / (1 - decay_from) if decay_from < 1 else 1.0
    return lr * min(1.0, (step + 1) / WARM_UP_STEPS) * max(0.0, min(1.0, fall))


def train(options: argparse.Namespace) -> None:
    """Train until the minutes are over, which include everything from the first line on, or the schedule is."""
    begin = time.perf_counter()
    torch.set_float32_matmul_precision("high")
    trainer = Trainer(options)
    device = trainer.device
    shapes = TINY_SHAPES if options.tiny else SHAPES + WIDE_SHAPES * options.wide
    shapes = [shape._replace(tables=max(1, round(shape.tables * options.batch))) for shape in shapes]
    attend_explicitly(trainer.working, options.explicit)
    compile_blocks(trainer.working, options.compile if device.type == "cuda" else "none")
    if options.profile:
        return profile(trainer, shapes)

    options.out.mkdir(parents=True, exist_ok=True)
    log = (options.out / "log.jsonl").open("a")

    def write(line: dict[str, object]) -> None:
        log.write(json.dumps(line) + "\n")
        log.flush()

    settings = {name: str(value) for name, value in vars(options).items()}
    write({"event": "start", "seen": trainer.seen, **settings, "sizes": asdict(trainer.network.sizes)})
    tables = read_tables(options.tables) if options.tables else []
    protocol = Protocol(labels=(35,), members=1, most_asked=200) if options.tiny else Protocol()

    def measure(when: str) -> float:
        since = time.perf_counter()
        scores = evaluate(trainer.averaged(), tables, protocol, device)
        seconds = time.perf_counter() - since
        print(f"{when}, {trainer.seen:,} tables seen; measured in {seconds:.0f} s\n{report(scores)}", flush=True)
        write({"event": "evaluation", "when": when, "seen": trainer.seen, "labels": protocol.labels, **summary(scores)})
        return seconds

    # Time for the last evaluation and for saving must be left.
    reserve = (1.3 * measure("before") + 3 if options.evaluate_first else 40.0) if tables else 3.0
    if options.tiny:
        reserve = 0.0
    try:
        shapes = try_shapes(trainer, shapes)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        if options.compile == "none" and not trainer.graphs:
            raise
        print(f"compiling or recording failed, running the blocks as they are: {error!r}"[:2000], flush=True)
        interpret_blocks(trainer.working)
        trainer.graphs = None
        shapes = try_shapes(trainer, shapes)

    start = time.perf_counter()
    end = begin + 60 * options.minutes - reserve
    print(f"training from {start - begin:.0f} s to {end - begin:.0f} s", flush=True)
    on_host = torch.zeros((), pin_memory=device.type == "cuda")
    sums = torch.zeros(len(Loss._fields) + 1, device=device)
    steps_before, tables_since, steps_since = trainer.step_number, 0, 0
    logged = saved = start
    batch = trainer.draw(shapes, trainer.step_number + trainer.skipped)
    while (now := time.perf_counter()) < end:
        # A schedule goes by tables; without one, this run is all there is, and goes by the clock.
        passed = (
            (trainer.seen - trainer.began) / options.schedule if options.schedule else (now - start) / (end - start)
        )
        if passed >= 1:
            break
        lr = learning_rate(options.lr, trainer.step_number, passed, options.decay_from)
        loss = trainer.backward(batch)
        norm = torch.nn.utils.clip_grad_norm_(trainer.parameters, 1.0)
        # Whether the gradient is finite must be known here, before the weights move. The next batch is queued in the
        # meantime, so that the GPU has work while the host waits for the answer.
        on_host.copy_(norm, non_blocking=True)
        ready = torch.cuda.current_stream().record_event() if device.type == "cuda" else None
        tables_in_batch = len(batch.values)
        batch = trainer.draw(shapes, trainer.step_number + trainer.skipped + 1)
        if ready:
            ready.synchronize()
        if math.isfinite(on_host.item()):
            trainer.step(lr)
            sums += torch.stack([*loss, norm])
            trainer.step_number, trainer.seen = trainer.step_number + 1, trainer.seen + tables_in_batch
            steps_since, tables_since = steps_since + 1, tables_since + tables_in_batch
        else:
            trainer.skipped += 1
        if now - logged > LOG_SECONDS and steps_since:
            means = dict(zip([*Loss._fields, "norm"], (sums / steps_since).tolist(), strict=True))
            line = {
                "event": "training",
                "seconds": round(now - begin, 1),
                "step": trainer.step_number,
                "skipped": trainer.skipped,
                "seen": trainer.seen,
                "tables_per_second": round(tables_since / (now - logged), 1),
                "step_ms": round(1000 * (now - logged) / steps_since, 2),
                "lr": lr,
                **{name: round(value, 4) for name, value in means.items()},
            }
            write(line)
            speed = f"{line['step_ms']:.1f} ms  {line['tables_per_second']:.0f} tables/s"
            print(
                f"{now - begin:5.0f} s  step {trainer.step_number:6}  seen {trainer.seen:9,}  rows {means['rows']:.4f}"
                f"  relative {means['relative']:.4f}  accuracy {100 * means['accuracy']:.2f}"
                f"  shares {means['shares']:.4f}  interval {means['interval']:.2f}"
                f"  norm {means['norm']:.2f}  lr {lr:.1e}  {speed}"
                + (f"  skipped {trainer.skipped}" if trainer.skipped else ""),
                flush=True,
            )
            sums.zero_()
            logged, steps_since, tables_since = now, 0, 0
        if now - saved > SAVE_SECONDS:
            trainer.save(options.out)
            saved = now
    trainer.save(options.out)
    steps = trainer.step_number - steps_before
    write({"event": "end", "seen": trainer.seen, "steps": steps, "seconds": round(time.perf_counter() - begin, 1)})
    del batch
    if tables:
        measure("after")
    print(f"done after {time.perf_counter() - begin:.0f} s, {steps} steps, {trainer.seen:,} tables seen", flush=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; a run that resumes takes over what its schedule began with."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=9.0, help="of this run, evaluation included")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--start", type=Path, help="weights, or the folder of an earlier run: a new schedule from there")
    where.add_argument("--resume", type=Path, help="the folder of an earlier run: the next part of its schedule")
    parser.add_argument("--out", type=Path, help="results/pretraining, or the folder that is resumed")
    parser.add_argument("--tables", type=Path, help="folder of encoded tables to measure accuracy on")
    parser.add_argument("--schedule", type=float, help="synthetic tables in all runs; without it, one run by the clock")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--prior", choices=list(PRIORS), help="which mixture of families the tables come from")
    parser.add_argument("--lr", type=float)
    parser.add_argument("--decay-from", type=float, help="share of the schedule; 1: the rate stays")
    parser.add_argument("--optimizer", choices=["adamw", "muon"])
    parser.add_argument("--batch", type=float, help="multiplies the tables of every shape")
    parser.add_argument("--half", action="store_true", default=None, help="pass through a copy in half precision")
    parser.add_argument("--wide", action="store_true", default=None, help="tables of 160 and 250 columns as well")
    parser.add_argument("--tiny", action="store_true", default=None, help="a tiny network, to try the loop")
    parser.add_argument("--compile", choices=["dynamic", "static", "none"], default="dynamic")
    parser.add_argument("--eager", dest="compile", action="store_const", const="none", help="same as --compile none")
    parser.add_argument("--graphs", action="store_true", help="record the passes of each shape as a CUDA graph")
    parser.add_argument("--explicit", type=int, default=0, metavar="KEYS", help="write short attention in rows out")
    parser.add_argument("--evaluate-first", action="store_true", help="measure the start as well")
    parser.add_argument("--profile", action="store_true", help="time every shape, and stop")
    options = parser.parse_args(arguments)
    if options.graphs and not torch.cuda.is_available():
        parser.error("--graphs records CUDA graphs, and there is no GPU here: leave it out")
    options.out = options.out or options.resume or Path("results/pretraining")
    kept = SCHEDULE | (checkpoint.facts(_state_in(options.resume))["settings"] if options.resume else {})
    for name, value in kept.items():
        given = getattr(options, name)
        if given is None:
            setattr(options, name, value)
        elif options.resume and given != value and name != "schedule":
            parser.error(f"--{name.replace('_', '-')} is {value} in {options.resume}: leave it out, or use --start")
    if options.resume and not options.schedule:
        parser.error(f"{options.resume} was trained by the clock, without --schedule: give one, or use --start")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Train as the command line says."""
    train(parse(arguments))


if __name__ == "__main__":
    main()
