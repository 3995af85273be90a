"""How often the intervals of the sizes of segments hold: in simulated populations, and on real tables.

    python benchmarks/sizes.py simulate                 # results/sizes.csv
    python benchmarks/sizes.py tables FOLDER            # results/sizes_tables.csv

Labels are drawn at random, or fill quotas of equal size, with the number of people who were looked at until the quota
of a class was full. The populations are those of `promises.py`; the members are a logistic regression and extra trees,
so that a fit takes a second. Beside the sizes stand those from the labels alone, without a model. `group` is a half of
the rows, by the first column.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from promises import fit_members, population
from tables import load, table_names

from deepsep.core.labels import Labels
from deepsep.errors import LabelError
from deepsep.evaluation.class_sizes import class_sizes, screened_shares
from deepsep.evaluation.expected_accuracy import Evidence
from deepsep.evaluation.folds import deal_folds

RESULTS = Path(__file__).parent / "results"
LABELS, UNLABELED = (35, 125, 500), (100, 3000)
CELL = ("how", "labels", "unlabeled", "asked about", "seed")
COLUMNS = (*CELL, "holds", "width", "width by labels alone", "off", "off by labels alone")


def draw_labels(how, n, stream):
    """Return the labelled rows and, for quotas, the number looked at for each class; rows come in random order."""
    classes = np.unique(stream)
    if how == "random":
        return np.arange(n), None
    each = n // len(classes)
    places = [np.flatnonzero(stream == k)[:each] for k in classes]
    return np.concatenate(places), np.array([at[-1] + 1 for at in places])


def one_fit(how, X, stream, n_labels, n_unlabeled, seed):
    """Yield a line for all rows and one for a group; none if too few labels can be held out.

    Rows come in random order; the unlabelled ones are the last.
    """
    at, looked_at = draw_labels(how, n_labels, stream[:-n_unlabeled])
    if how == "quota" and np.bincount(stream[at]).min() < 3:
        return
    seen, codes = np.unique(stream[at], return_inverse=True)
    truth = stream[-n_unlabeled:]
    try:
        folds = deal_folds(Labels(codes, seen), n_splits=5, seed=seed, stratified=how == "quota")
    except LabelError:
        return
    unseen, everyone = fit_members(X[at], codes, X[-n_unlabeled:], folds, len(seen), seed)
    rows, q, p = np.concatenate(folds.tests), unseen.mean(0), everyone.mean(0)
    known = None if looked_at is None else screened_shares(np.bincount(codes), looked_at)
    middle = np.median(X[:, 0])
    groups = {"all rows": (slice(None), None), "a group": (X[-n_unlabeled:, 0] > middle, X[at][rows, 0] > middle)}
    for name, (free, labeled) in groups.items():
        if labeled is not None and len(np.unique(codes[rows][labeled])) < 2:
            continue
        true = np.array([(truth[free] == k).mean() for k in seen])
        lines = []
        for mine, others in ((p, q), (np.full_like(p, 0.5), np.full_like(q, 0.5))):
            held_out = Evidence(others, codes[rows], np.ones(len(rows)), 1)
            weight, nothing = np.ones(len(mine[free])), np.zeros(len(seen))
            found = np.array(class_sizes(mine[free], weight, nothing, held_out, in_group=labeled, known=known))
            inside = (found[:, 1] <= true) & (true <= found[:, 2])
            lines.append((inside.mean(), (found[:, 2] - found[:, 1]).mean(), np.abs(found[:, 0] - true).mean()))
        (holds, width, off), (_, other_width, other_off) = lines
        figures = (holds, width, other_width, off, other_off)
        yield how, n_labels, n_unlabeled, name, seed, *(round(v, 4) for v in figures)


def simulated(how, n_labels, n_unlabeled, seed):
    rng = np.random.default_rng([seed, n_labels, 5])
    shares, draw = population(rng)
    stream = rng.choice(len(shares), 40 * n_labels + n_unlabeled, p=shares)
    return one_fit(how, draw(stream), stream, n_labels, n_unlabeled, seed)


def from_table(how, X, codes, n_labels, n_unlabeled, seed):
    order = np.random.default_rng(seed).permutation(len(codes))
    X = np.nan_to_num((X - np.nanmean(X, 0)) / np.maximum(np.nanstd(X, 0), 1e-9))
    return one_fit(how, X[order], codes[order], n_labels, n_unlabeled, seed)


def write(place, cells, first=()):
    warnings.simplefilter("ignore")
    with place.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*first, *COLUMNS])
        for number, (start, lines) in enumerate(cells, 1):
            writer.writerows([*start, *line] for line in lines)
            file.flush()
            print(number, end="\r", flush=True)
    print(summary(place).to_string())


def summary(place):
    """Return means over fits: how often an interval holds, and errors and widths relative to the labels alone."""
    cells = pd.read_csv(place).groupby(["how", "labels", "unlabeled", "asked about"])
    means = cells[list(COLUMNS[5:])].mean()
    return pd.DataFrame(
        {
            "fits": cells.size(),
            "holds": means["holds"],
            "width, relative": means["width"] / means["width by labels alone"],
            "error, relative": means["off"] / means["off by labels alone"],
        }
    ).round(3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True, dest="command")
    one = commands.add_parser("simulate")
    one.add_argument("--fits", type=int, default=200)
    two = commands.add_parser("tables")
    two.add_argument("folder")
    two.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    a = parser.parse_args()
    if a.command == "simulate":
        cells = [(h, n, u, s) for h in ("random", "quota") for n in LABELS for u in UNLABELED for s in range(a.fits)]
        write(RESULTS / "sizes.csv", (((), simulated(*cell)) for cell in cells))
        return
    tables = ((name, *load(name, a.folder)) for name in table_names(a.folder) if name != "digits")
    cells = (
        ((name,), from_table(how, X, codes, n, 1000, seed))
        for name, X, codes in tables
        for how in ("random", "quota")
        for n in LABELS
        for seed in a.seeds
        if len(codes) >= 4 * n + 1000
    )
    write(RESULTS / "sizes_tables.csv", cells, ("table",))


if __name__ == "__main__":
    main()
