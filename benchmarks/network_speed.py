"""Time a training step of every network back end: one table of µs per step, and ratios to torch eager.

    OMP_NUM_THREADS=1 python benchmarks/network_speed.py

A step is everything that a phase does, divided by the number of its steps: shuffling, gathering, dropout, both passes,
Adam, the penalty and the loss. What a phase sets up is left out: times are differences between a long phase and a short
one. Back ends take turns, and each phase counts with its best turn, so that a busy machine favours none of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product

import numpy as np
import torch

from deepsep.networks import NumpyNetwork, TorchNetwork

L2 = (1e-4, 3e-5, 1e-5)
EPOCHS = (1, 4)  # of the short and the long phase


def phases(options: argparse.Namespace) -> dict[str, Callable[[int, int], object]]:
    """Functions of (batch size, epochs) that run a phase, by name."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, options.features), dtype=np.float32)
    targets = rng.dirichlet(np.ones(options.classes), options.rows).astype(np.float32)
    shape = (options.features, options.classes)
    settings = {"loss": options.loss, "lr": 1e-3}

    def phase_of(net: NumpyNetwork | TorchNetwork) -> Callable[[int, int], object]:
        return lambda batch, epochs: net.train(X, targets, epochs=epochs, batch_size=batch, rng=rng, **settings)

    cells = {
        "torch eager, CPU": phase_of(TorchNetwork(*shape, l2=L2, rng=rng)),
        "NumPy": phase_of(NumpyNetwork(*shape, l2=L2, rng=rng)),
    }
    if torch.cuda.is_available():
        cells["torch, CUDA graph"] = phase_of(TorchNetwork(*shape, l2=L2, device="cuda", rng=rng))
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--loss", choices=["kl", "mse"], default="kl")
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()

    torch.set_num_threads(1)
    cells = phases(options)
    seconds: dict[tuple[str, int, int], float] = {}
    for _ in range(options.turns):
        for name, batch, epochs in product(cells, options.batch, EPOCHS):
            start = time.perf_counter()
            cells[name](batch, epochs)
            elapsed = time.perf_counter() - start
            seconds[name, batch, epochs] = min(elapsed, seconds.get((name, batch, epochs), elapsed))

    def cost(name: str, batch: int) -> float:
        short, long = EPOCHS
        steps = -(-options.rows // batch) * (long - short)
        return (seconds[name, batch, long] - seconds[name, batch, short]) / steps * 1e6

    print(f"{options.features} -> 128 -> 32 -> {options.classes}, {options.loss}; µs per step (ratio)")
    print(f"{'batch':>24}" + "".join(f"{batch:>18}" for batch in options.batch))
    for name in cells:
        line = f"{name:>24}"
        for batch in options.batch:
            value, reference = cost(name, batch), cost("torch eager, CPU", batch)
            line += f"{value:>10.1f} ({reference / value:4.1f}x)"
        print(line)


if __name__ == "__main__":
    main()
