"""Methods on two moons: 400 rows, two labels for each moon, five draws.

    python benchmarks/moons.py --out benchmarks/results/moons.csv

The moons are scikit-learn's, with noise of 0.08. "tuned" are settings for such rows: fewer neighbours and narrower
kernels than the defaults for tables.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons
from sklearn.neighbors import KNeighborsClassifier

from deepsep import method

ROWS, LABELS, DRAWS = 400, 2, 5
TUNED = {
    "svm": {"gamma": 5.0, "C": 10.0},
    "label-spreading": {"alpha": 0.99, "n_neighbors": 10},
    "laplacian-svm": {"gamma": 5.0, "C": 1e4, "smoothness": 1e5},
    "cluster-kernel": {"transfer": "step", "n_components": 5, "n_neighbors": 10},
    "spectral-transform": {"n_neighbors": 10},
    "information-regularization": {"n_neighbors": 6},
    "tri-training": {"estimator": KNeighborsClassifier(1)},
    "co-training": {"estimator": "logistic-regression"},
    "null-category-gp": {"gamma": 5.0, "unlabeled_weight": 1.0, "balance": "labels"},
    "deep-kernel": {"dropout": 0.0, "l2": 0.0, "alpha": 10.0},
    "virtual-adversarial": {"epsilon": 0.2, "dropout": 0.0, "l2": 0.0},
}
FIRST = list(TUNED)  # those of moons.csv
ADVERSARIAL = ("feature-matching-gan", "complement-gan", "triple-gan")
TUNED |= {name: {"noise": 0.1, "dropout": 0.0, "l2": 1e-5, "learning_rate": 1e-2} for name in ADVERSARIAL}


def accuracy(name, settings, draw):
    X, truth = make_moons(ROWS, noise=0.08, random_state=draw)
    rng = np.random.default_rng(draw)
    y = np.full(ROWS, -1)
    for k in range(2):
        y[rng.choice(np.flatnonzero(truth == k), LABELS, replace=False)] = k
    model = method(name, random_state=draw, **settings).fit(X, y)
    return float((model.transduction_ == truth)[y < 0].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--methods", nargs="+", choices=list(TUNED), default=FIRST)
    parser.add_argument("--out", type=Path, default=Path("moons.csv"))
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    if not a.out.exists():
        a.out.write_text("method,settings,accuracy,least\n")
    for name in a.methods:
        for words, settings in (("defaults", {}), ("tuned", TUNED[name])):
            found = [100 * accuracy(name, settings, draw) for draw in range(DRAWS)]
            with open(a.out, "a", newline="") as file:
                line = [name, words, f"{np.mean(found):.1f}", f"{min(found):.1f}"]
                csv.writer(file, lineterminator="\n").writerow(line)
            print(*line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
