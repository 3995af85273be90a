"""The transductive SVMs side by side: test errors on public sets with their own splits, and growth of time and memory.

    python benchmarks/transductive_svms.py errors --data g50c.mat    # g50c and the sets of the SSL book
    python benchmarks/transductive_svms.py growth
    python benchmarks/transductive_svms.py summary

`errors`: g50c has a linear kernel, as it is, and six values of C; the book's sets have one setting, the same for all of
them: RBF, gamma = 1 / median distance², C = 10, rows divided by one number so that their mean squared distance from the
mean is 1. `growth`: five classes, 500 labels, 32 features, in a process of its own for each fit. A line that is in its
file is not measured again.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import make_blobs
from tsvm_accuracy import gamma_unit, read_rows, read_splits, scaled

from deepsep import method
from deepsep.datasets import load_ssl_book

HERE = Path(__file__).parent / "results"
ERRORS, GROWTH = HERE / "transductive_svms.csv", HERE / "transductive_svms_growth.csv"
METHODS = {
    "SVM": ("tsvm", {"C_star": 0.0, "balance": False}),
    "TSVM": ("tsvm", {}),
    "label switching": ("switching-tsvm", {}),
    "∇TSVM": ("gradient-tsvm", {}),
    "S4VM": ("s4vm", {"random_state": 0}),
}
G50C_COSTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
BOOK = ("digit1", "usps", "bci", "g241c", "g241d")
SIZES = (2_000, 20_000, 100_000)


def build(name, **settings):
    known, fixed = METHODS[name]
    return method(known, **fixed, **settings)


def cells(data, n_splits):
    """Yield (what names a cell, X, truth, labelled rows, settings); of the book, all sets before the next split."""
    if data is not None:
        X, truth = read_rows(data)
        for split, labeled in enumerate(read_splits(data)[:n_splits]):
            for C in G50C_COSTS:
                for name in METHODS:
                    at = {"set": "g50c", "labels": 50, "split": split, "C": C, "method": name}
                    yield at, X, truth, labeled, {"C": C}
    book = {}
    for split in range(n_splits):
        for name in BOOK:
            for labels in (10, 100):
                if (name, labels) not in book:
                    bunch = load_ssl_book(name, labels=labels)
                    X = scaled(bunch.data)
                    book[name, labels] = X, bunch.target, bunch.splits, gamma_unit(X)
                X, truth, splits, unit = book[name, labels]
                for known in METHODS:
                    at = {"set": name, "labels": labels, "split": split, "C": 10.0, "method": known}
                    yield at, X, truth, splits[split], {"C": 10.0, "kernel": "rbf", "gamma": unit}


def errors(data, n_splits, place):
    done = pd.read_csv(place) if place.exists() else pd.DataFrame(columns=["set", "labels", "split", "C", "method"])
    done = set(done[["set", "labels", "split", "C", "method"]].itertuples(index=False, name=None))
    for at, X, truth, labeled, settings in cells(data, n_splits):
        if tuple(at.values()) in done:
            continue
        y = np.full(len(truth), -1)
        y[labeled] = truth[labeled]
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = build(at["method"], probability=None, **settings).fit(X, y)
        seconds = time.process_time() - start
        wrong = 100 * np.mean((model.transduction_ != truth)[y == -1])
        line = at | {"error": f"{wrong:.2f}", "seconds": f"{seconds:.2f}"}
        pd.DataFrame([line]).to_csv(place, mode="a", header=not place.exists(), index=False)
        print(*line.values(), file=sys.stderr, flush=True)


def fit_once(name, u):
    """Print processor seconds of a fit, and the megabytes that another one holds at its peak beside the rows."""
    X, truth = make_blobs(500 + u, centers=5, n_features=32, cluster_std=8.0, random_state=0)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    y = np.where(np.arange(len(X)) < 500, truth, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        build(name).fit(X[:700], y[:700])
        start = time.process_time()
        build(name).fit(X, y)
        seconds = time.process_time() - start
        tracemalloc.start()
        build(name).fit(X, y)
    print(f"{seconds:.2f},{tracemalloc.get_traced_memory()[1] / 2**20:.0f}")


def growth(place):
    done = pd.read_csv(place) if place.exists() else pd.DataFrame(columns=["method", "unlabeled"])
    done = set(done[["method", "unlabeled"]].itertuples(index=False, name=None))
    for u in SIZES:
        for name in METHODS:
            if (name, u) in done or name == "SVM" or (name == "S4VM" and u > 20_000):  # half an hour
                continue
            command = [sys.executable, __file__, "fit", "--method", name, "--unlabelled", str(u)]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            seconds, megabytes = out.split()[-1].split(",")
            line = {"method": name, "unlabeled": u, "seconds": seconds, "megabytes": megabytes}
            pd.DataFrame([line]).to_csv(place, mode="a", header=not place.exists(), index=False)
            print(*line.values(), file=sys.stderr, flush=True)


def summary():
    frame = pd.read_csv(ERRORS)
    names = list(METHODS)
    g50c = frame[frame["set"] == "g50c"]
    print(g50c.pivot_table("error", "C", "method").reindex(columns=names).round(2).to_string())
    book = frame[frame["set"] != "g50c"]
    complete = book.groupby(["set", "labels", "split"]).filter(lambda part: set(part["method"]) == set(names))
    print(complete.pivot_table("error", ["set", "labels"], "method").reindex(columns=names).round(1).to_string())
    print(complete.groupby(["set", "labels"])["split"].nunique().to_string())
    print(frame.groupby(["set", "method"])["seconds"].median().unstack().reindex(columns=names).round(2).to_string())
    if GROWTH.exists():
        print(pd.read_csv(GROWTH).to_string(index=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["errors", "growth", "summary", "fit"])
    parser.add_argument("--data", type=Path, metavar="FILE", help="g50c.mat; without it, g50c is left out")
    parser.add_argument("--splits", type=int, default=10, help="the first so many splits")
    parser.add_argument("--method", choices=METHODS)
    parser.add_argument("--unlabelled", dest="unlabeled", type=int)
    a = parser.parse_args()
    if a.what == "errors":
        errors(a.data, a.splits, ERRORS)
    elif a.what == "growth":
        growth(GROWTH)
    elif a.what == "fit":
        fit_once(a.method, a.unlabeled)
    else:
        summary()


if __name__ == "__main__":
    main()
