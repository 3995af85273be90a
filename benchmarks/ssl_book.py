"""Methods on graphs and kernels of graphs on the sets of the book "Semi-Supervised Learning", with its official splits.

    python benchmarks/ssl_book.py --out benchmarks/results/ssl_book.csv                       # half an hour on one core
    python benchmarks/ssl_book.py --sets digit1 --methods cluster-kernel --splits 2 --out try.csv

A line is one setting of one method on one set: the mean test error in per cent over the splits, on the rows without
labels. Rows are not standardised, as in the book. Lines that the file has are not run again.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import sys
import warnings
from pathlib import Path

import numpy as np

from deepsep import method
from deepsep.datasets import load_ssl_book

SETS = ("digit1", "usps", "bci", "g241c", "g241d", "coil")
LABELS = (10, 100)
SETTINGS = {  # the defaults first
    "laplacian-svm": [{}, {"C": 1e4, "smoothness": 1e4}, {"smoothness": 0.0}],  # the last is the SVM
    "cluster-kernel": [{}, {"transfer": "step", "n_components": 10}],
    "spectral-transform": [{}, {"n_neighbors": 10}],
    "information-regularization": [{}, {"n_neighbors": 25}],
    "label-spreading": [{}],
    "null-category-gp": [{}, {"unlabeled_weight": 1.0, "balance": "labels"}],
    "deep-kernel": [{}, {"alpha": 0.0}],  # the last is supervised
}
COLUMNS = ["set", "labels", "method", "settings", "splits", "error"]


def shown(settings):
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "defaults"


def error_of(name, labels, which, settings, n_splits):
    """Return the mean test error in per cent, and the number of splits."""
    data = load_ssl_book(name, labels=labels)
    errors = []
    for labeled in data.splits[:n_splits]:
        y = np.full(len(data.target), -1)
        y[labeled] = data.target[labeled]
        model = method(which, standardize=False, random_state=0, **settings).fit(data.data, y)
        errors.append(100 * np.mean((model.transduction_ != data.target)[y < 0]))
    return float(np.mean(errors)), len(errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--methods", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--splits", type=int, default=12, help="only the first N")
    parser.add_argument("--out", type=Path, default=Path("ssl_book.csv"))
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    done = set()
    if a.out.exists():
        with open(a.out, newline="") as file:
            done = {tuple(line[name] for name in COLUMNS[:4]) for line in csv.DictReader(file)}
    else:
        a.out.write_text(",".join(COLUMNS) + "\n")
    for labels in LABELS:
        for name in a.sets:
            for which in a.methods:
                for settings in SETTINGS[which]:
                    key = (name, str(labels), which, shown(settings))
                    if key in done:
                        continue
                    error, splits = error_of(name, labels, which, settings, a.splits)
                    with open(a.out, "a", newline="") as file:
                        csv.writer(file, lineterminator="\n").writerow([*key, splits, f"{error:.2f}"])
                    print(*key, f"{error:.2f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
