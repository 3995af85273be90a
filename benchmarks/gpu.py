"""What a GPU changes: a committee, DeepSep with many unlabelled rows; two CPU cores beside it.

    python benchmarks/gpu.py run --cores 2          # six minutes on a machine with a GPU
    python benchmarks/gpu.py summary

Every line is a fit in a process of its own, held to so many CPU cores: once with the GPU and once with it hidden.
`deepsep score` makes no use of a GPU: the student scores on the CPU, where a row gets the same bits on a machine with
a GPU and without, and its network is about half of the time (`scoring.py stages`). Lines that are in the result file
are not measured again, so that a run can be killed and resumed.
"""

import argparse
import csv
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "gpu.csv"
NAMES = ("job", "unlabeled", "device", "seconds", "accuracy")
JOBS = (  # name, rows, devices
    ("committee", 5_000, ("GPU", "CPU")),
    ("deepsep", 30_000, ("GPU", "CPU")),
    ("deepsep", 1_000_000, ("GPU",)),
)
LABELS, COLUMNS, BATCH = 500, 50, 4096
LONGEST = 400  # seconds for one line


def fit(job, n):
    """Fit a committee of the usual effort, or DeepSep in batches of a size that suits a GPU."""
    import numpy as np
    import torch
    from deepsep_speed import survey

    from deepsep import Committee, DeepSep

    labels = 125 if job == "committee" else LABELS
    X, truth = survey(labels + n, COLUMNS)
    y = np.where(np.arange(len(X)) < labels, truth, -1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    torch.zeros(1, device=device)  # makes the context of CUDA, which is not what is measured
    many = DeepSep(device=device, batch_size=BATCH, propensity_rows=None, random_state=0)
    model = Committee(random_state=0) if job == "committee" else many
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    return name, seconds, (model.transduction_[labels:] == truth[labels:]).mean()


def measure(job, n, cores):
    """Print a line, in the process that measures it."""
    warnings.simplefilter("ignore")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    name, seconds, accuracy = fit(job, n)
    print(f"{name}|{seconds:.1f}|{accuracy:.4f}")


def run(a):
    done = set()
    if a.out.exists():
        with a.out.open(encoding="utf-8") as file:
            done = {(line["job"], line["unlabeled"], line["device"] == "CPU") for line in csv.DictReader(file)}
    for job, n, devices in JOBS:
        for device in devices:
            if (job, str(n), device == "CPU") in done:
                continue
            hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "CPU" else {}
            command = [sys.executable, __file__, "line", "--job", job, "--rows", str(n), "--cores", str(a.cores)]
            try:
                child = subprocess.run(
                    command, env=os.environ | hidden, capture_output=True, text=True, timeout=LONGEST
                )
            except subprocess.TimeoutExpired:
                print(f"{job}, {n:,} rows, {device}: longer than {LONGEST} seconds", file=sys.stderr)
                continue
            if child.returncode:
                print(child.stderr[-2000:], file=sys.stderr)
                continue
            name, seconds, accuracy = child.stdout.strip().splitlines()[-1].split("|")
            new = not a.out.exists()
            with a.out.open("a", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if new:
                    writer.writerow(NAMES)
                writer.writerow((job, n, name, seconds, accuracy))


def summary(a):
    print(a.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("part", choices=("run", "line", "summary"))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--job", choices=("committee", "deepsep"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    if a.part == "line":
        measure(a.job, a.rows, a.cores)
    else:
        {"run": run, "summary": summary}[a.part](a)
