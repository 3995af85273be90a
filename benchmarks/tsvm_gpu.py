"""Time the TSVM with its pass over the rows on a GPU beside the same TSVM on one core, in one run.

Five one-vs-rest problems on rows that look like a network's embedding: 32 features in (-1, 1), single precision, and
on the GPU from the start, as a network leaves them. 500 labels, C = 0.1, C* = (l/u) C, balancing constraint, single
loop to a relative duality gap of 1e-6, the supervised start included.

    python benchmarks/tsvm_gpu.py                  # about a minute; --quick stops at 100,000 rows

Seconds depend on the machine; compare the columns of one run.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from deepsep.networks import TorchArrays, rows_by_size
from deepsep.solvers.problem import Problem
from deepsep.solvers.rows import Rows
from deepsep.solvers.single_loop import single_loop
from deepsep.solvers.supervised_svm import supervised_svm

C = 0.1
CLASSES = 5
FEATURES = 32
LABELS = 500
CPU_UP_TO = 1_000_000


def problem_on(device, u, seed=0):
    """Five overlapping classes after a tanh, centred on the unlabelled rows."""
    generator = torch.Generator(device).manual_seed(seed)
    centres = 0.42 * torch.randn(CLASSES, FEATURES, device=device, generator=generator)
    y = torch.randint(CLASSES, (LABELS + u,), device=device, generator=generator)
    X = torch.randn(LABELS + u, FEATURES, device=device, generator=generator)
    X = torch.tanh_(X.mul_(0.6).add_(centres[y]))
    X -= X[LABELS:].mean(dim=0, dtype=torch.float64).float()
    positive = y[:LABELS].cpu().numpy() == np.arange(CLASSES)[:, None]
    return Problem(
        labeled=X[:LABELS],
        signs=np.where(positive, 1.0, -1.0),
        cost_labeled=np.full(LABELS, C),
        unlabeled=X[LABELS:],
        cost_unlabeled=torch.full((u,), C * LABELS / u, device=device),
        target=2 * positive.mean(axis=1) - 1,
    )


def on_the_host(problem):
    rows = {name: getattr(problem, name).cpu().numpy() for name in ("labeled", "unlabeled", "cost_unlabeled")}
    return replace(problem, make_rows=Rows, **rows)


def solve(problem):
    start = supervised_svm(problem, tol=1e-3, max_iter=1000)
    return single_loop(problem, start, tol=1e-6, max_iter=1000)


def timed(problem, repeats):
    """Return the median time, and the last result; the first run is not counted where there are several."""
    seconds = []
    for _ in range(repeats + (repeats > 1)):
        began = time.perf_counter()
        result = solve(problem)  # ends with numbers on the host, so there is nothing left to wait for
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[-repeats:])), result


def main(sizes, repeats):
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; CPU: one thread")
    print(f"Whole TSVM, five classes, seconds, medians of {repeats} on the GPU and up to 3 on the CPU;")
    print("start on CPU: the supervised SVM and, where it is small enough, the sample of the two-level start\n")
    print("| u | all on GPU | start on CPU | CPU | CPU / best | passes GPU, CPU | worst gap | objectives, ratio - 1 |")
    print("|---|---|---|---|---|---|---|---|")
    on_gpu = partial(Rows, library=TorchArrays("cuda"))
    solve(replace(problem_on("cuda", 20_000), make_rows=on_gpu))  # loads the kernels
    for u in sizes:
        problem = problem_on("cuda", u)
        whole, _ = timed(replace(problem, make_rows=on_gpu), repeats)
        mixed, result = timed(replace(problem, make_rows=rows_by_size(Rows)), repeats)
        objective = sum(path[-1] for path in result.objective_path)
        cells = [f"{u:,}", f"{whole:.3f}", f"{mixed:.3f}"]
        worst = result.gap.max()
        if u <= CPU_UP_TO:
            host, other = timed(on_the_host(problem), 1 if u >= CPU_UP_TO else 3)
            apart = objective / sum(path[-1] for path in other.objective_path) - 1
            cells += [f"{host:.3f}", f"{host / min(whole, mixed):.1f}×", f"{result.n_iter}, {other.n_iter}"]
            cells += [f"{max(worst, other.gap.max()):.1e}", f"{apart:+.1e}"]
        else:
            cells += ["–", "–", f"{result.n_iter}, –", f"{worst:.1e}", "–"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="up to 100,000 rows only")
    main([10_000, 100_000] if parser.parse_args().quick else [10_000, 100_000, 1_000_000, 10_000_000], repeats=5)
