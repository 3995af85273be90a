"""How many unlabelled rows are worth learning from, and what a fit to very many of them takes.

    python benchmarks/unlabelled_rows.py curve FOLDER          # accuracy against unlabelled rows: an hour on one core
    python benchmarks/unlabelled_rows.py growth                # time and memory of deepsep fit: an hour on two cores
    python benchmarks/unlabelled_rows.py summary

FOLDER holds Parquet files with a `label` column; `tables.py` says how they become matrices. Of each population, a draw
takes 125 labelled rows, the same number of each class, 5,000 other rows to measure the accuracy on, which no fit sees,
and unlabelled rows from the rest. Both files grow line by line, and a cell that is done is not run again, so that a run
can be killed and resumed.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import sys
import time
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from deepsep_speed import survey
from tables import load

from deepsep import method

RESULTS = Path(__file__).parent / "results"
LABELS, TEST = 125, 5_000
REAL = ("adult", "hotel_segments", "cces2016_ideology", "census_segments", "letter")
SIZES = (0, 1_000, 10_000, 100_000, 1_000_000)
METHODS = {
    "tsvm": lambda draw: method("tsvm", random_state=draw),
    "deepsep": lambda draw: method("deepsep", random_state=draw),
    "committee": lambda draw: method("committee", effort="fast", n_jobs=1, random_state=draw),
}


def clusters(n, d=20, c=5, each=3, seed=0):
    """Rows of c classes, each made of several clusters with few rows between them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(c, each, d)) * 0.9
    y = rng.integers(c, size=n)
    return (centres[y, rng.integers(each, size=n)] + rng.normal(size=(n, d))).astype(np.float32), y


MADE = {"overlapping": lambda n, seed: survey(n, 50, seed=seed), "clusters": lambda n, seed: clusters(n, seed=seed)}


def draw_rows(codes, draw):
    """Return labelled rows, test rows, and all others, in random order."""
    rng = np.random.default_rng(draw)
    order = rng.permutation(len(codes))
    each = LABELS // (codes.max() + 1)
    labelled = np.concatenate([order[codes[order] == k][: max(each, 1)] for k in range(codes.max() + 1)])
    rest = order[~np.isin(order, labelled)]
    return labelled, rest[:TEST], rest[TEST:]


@lru_cache(maxsize=2)
def population(name, folder, draw):
    """Return rows and classes; of a made population always as many, so that all sizes draw from the same one."""
    return MADE[name](SIZES[-1] + 2 * TEST, draw) if name in MADE else load(name, folder, 100_000)


def cells(a):
    """Yield population, size, method and draw, what is cheap first."""
    for size in SIZES:
        for draw in range(a.draws if size <= 100_000 else 1):
            for name in (*MADE, *REAL):
                for which in METHODS:
                    if not (size > 100_000 and which == "committee"):
                        yield name, size, which, draw


def curve(a):
    """Measure the accuracy on new rows against the number of unlabelled rows."""
    out = a.out / "unlabelled_curve.csv"
    lines = pd.read_csv(out).to_dict("records") if out.exists() else []
    done = {(line["population"], line["asked"], line["method"], line["draw"]) for line in lines}
    for name, size, which, draw in cells(a):
        if (name, size, which, draw) in done:
            continue
        X, codes = population(name, a.folder, draw)
        labelled, test, rest = draw_rows(codes, draw)
        if len(rest) < size / 10:  # the table has no more rows than at the size before
            continue
        rows = np.concatenate([labelled, rest[:size]])
        y = np.where(np.arange(len(rows)) < len(labelled), codes[rows], -1)
        start = time.process_time()
        model = METHODS[which](draw).fit(X[rows], y)
        line = {
            "population": name,
            "made": name in MADE,
            "asked": size,
            "unlabelled": len(rows) - len(labelled),
            "method": which,
            "draw": draw,
            "accuracy": round(100 * (model.predict(X[test]) == codes[test]).mean(), 2),
            "student": None,
            "seconds": round(time.process_time() - start, 1),
        }
        if getattr(model, "student_", None) is not None:
            line["student"] = round(100 * (model.student_.predict(X[test]) == codes[test]).mean(), 2)
        lines.append(line)
        pd.DataFrame(lines).to_csv(out, index=False, lineterminator="\n")
        print(line, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("curve",))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    globals()[a.part](a)


if __name__ == "__main__":
    main()
