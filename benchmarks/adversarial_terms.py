"""What made-up rows add: the feature-matching GAN without them, on six tables and three draws of `methods.py`.

    python benchmarks/adversarial_terms.py --tables FOLDER --out benchmarks/results/adversarial_terms.csv

With `weight=0` the same network is trained on the labelled rows alone, with the same noise on features, the same steps
and the same average of weights. Cells that the file has are not run again.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from tables import load, split

from deepsep import method

TABLES = ("spotify_genre", "satimage", "splice", "nhanes_segments", "hotel_segments", "census_segments")


def accuracy(table, labels, seed, folder):
    X, codes = load(table, folder)
    labeled, unlabeled = split(codes, labels, seed)
    rows = np.concatenate([labeled, unlabeled])
    y = np.concatenate([codes[labeled], np.full(len(unlabeled), -1)])
    model = method("feature-matching-gan", weight=0.0, random_state=seed).fit(X[rows], y)
    return float((model.label_distributions_[len(labeled) :].argmax(axis=1) == codes[unlabeled]).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", required=True, help="folder of Parquet files with a `label` column")
    parser.add_argument("--out", type=Path, default=Path("adversarial_terms.csv"))
    parser.add_argument("--seeds", type=int, default=3)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    if not a.out.exists():
        a.out.write_text("table,labels,seed,accuracy\n")
    with open(a.out, newline="") as file:
        done = {(line["table"], int(line["labels"]), int(line["seed"])) for line in csv.DictReader(file)}
    for cell in product(TABLES, (35, 125, 500), range(a.seeds)):
        if cell not in done:
            line = [*cell, f"{accuracy(*cell, a.tables):.6f}"]
            with open(a.out, "a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(line)
            print(*line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
