"""What a committee costs: processor time and memory of each effort, as ratios to one random forest.

    python benchmarks/committee_cost.py --out benchmarks/results/committee_cost.csv

125 labels, 5,000 rows of 50 columns, five classes, one core. Each fit is a process of its own, for the peak of its
memory. Two cores take a little more than half of the processor time.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

from deepsep import Committee, method

WHAT = {
    "random forest": lambda: method("random-forest", random_state=0),
    "fast": lambda: Committee(effort="fast", n_jobs=1, random_state=0),
    "normal": lambda: Committee(n_jobs=1, random_state=0),
    "normal, with twins": lambda: Committee(twins=True, n_jobs=1, random_state=0),
    "best": lambda: Committee(effort="best", n_jobs=1, random_state=0),
}


def measure(what):
    """Print the seconds of processor time of a fit, and the peak of the process in megabytes."""
    warnings.simplefilter("ignore")
    X, classes = make_classification(5000, 50, n_informative=15, n_classes=5, n_clusters_per_class=2, random_state=0)
    y = np.full(len(X), -1)
    rows = np.random.default_rng(0).permutation(len(X))[:125]
    y[rows] = classes[rows]
    model = WHAT[what]()
    start = time.process_time()
    model.fit(X.astype(np.float32), y)
    seconds = time.process_time() - start
    print(f"{seconds:.2f},{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", choices=list(WHAT), help="measure this one here")
    a = parser.parse_args()
    if a.one:
        measure(a.one)
        return
    lines = []
    for what in WHAT:
        answer = subprocess.run([sys.executable, __file__, "--one", what], capture_output=True, text=True, check=True)
        seconds, megabytes = map(float, answer.stdout.split(","))
        first = lines[0] if lines else {"seconds": seconds, "megabytes": megabytes}
        lines.append({"what": what, "seconds": seconds, "megabytes": megabytes})
        lines[-1]["time / forest"] = round(seconds / first["seconds"], 1)
        lines[-1]["memory / forest"] = round(megabytes / first["megabytes"], 1)
        print(lines[-1], flush=True)
    if a.out:
        with a.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
