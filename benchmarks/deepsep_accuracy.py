"""Does refinement help? DeepSep beside its own initial network, on real tables, paired over seeds.

    python benchmarks/deepsep_accuracy.py                            # sklearn's digits
    python benchmarks/deepsep_accuracy.py --tables FOLDER --jobs 2   # and every Parquet file with a `label` column

Prints accuracy on the unlabelled rows (in %), means over seeds: the initial network, the network and the moving
average after the last round, the gain of the moving average with its standard error over seeds, and how much accuracy
moves from round to round (mean absolute change over the last three), for the network and for the moving average. The
last column is a random forest of 500 trees on the labelled rows.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier
from tables import load, split, table_names

from deepsep import DeepSep
from deepsep.core.probability import round_weights
from deepsep.evaluation.intervals import calibration_error

PRESETS = {
    "published": DeepSep.as_published,
    "default": DeepSep,
    "pool": lambda **more: DeepSep.as_published(C_star="pool", **more),
    "softmax": lambda **more: DeepSep(propensity="softmax", **more),
    "hard": lambda **more: DeepSep(propensity="hard", **more),
    "balanced": lambda **more: DeepSep(balance=True, **more),
    "autoencoder": lambda **more: DeepSep(pretrain="autoencoder", **more),
}


def cell(name, folder, labels, seed, preset, settings, equal):
    warnings.simplefilter("ignore")
    X, codes = load(name, folder)
    labeled, unlabeled = split(codes, labels, seed, equal=equal)
    rows = np.concatenate([labeled, unlabeled])
    y = np.concatenate([codes[labeled], np.full(len(unlabeled), -1)])
    start = time.perf_counter()
    model = PRESETS[preset](random_state=seed, **settings).fit(X[rows], y)
    seconds = time.perf_counter() - start
    test, truth = X[unlabeled], codes[unlabeled]
    rounds = [model.round_proba(test, t) for t in range(model.n_rounds_ + 1)]
    averages = [rounds[0]] + [
        np.tensordot(round_weights(t, model.decay), rounds[1 : t + 1], 1) for t in range(1, len(rounds))
    ]
    network = np.array([(p.argmax(axis=1) == truth).mean() for p in rounds]) * 100
    average = np.array([(p.argmax(axis=1) == truth).mean() for p in averages]) * 100
    p = averages[-1]
    ece = calibration_error(p, truth) * 100
    steady = [np.abs(np.diff(path[-4:])).mean() for path in (network, average)]
    forest = RandomForestClassifier(500, random_state=seed).fit(X[labeled], codes[labeled])
    trees = (forest.predict(test) == truth).mean() * 100
    return [name, labels, seed, network[0], network[-1], average[-1], *steady, ece, seconds, trees]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", help="folder of Parquet files with a `label` column")
    parser.add_argument("--only", help="comma-separated names of tables")
    parser.add_argument("--labels", default="125,500")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--preset", default="published", choices=PRESETS)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    parser.add_argument("--equal", action="store_true", help="unlabelled classes of one size, as in the paper")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--brief", action="store_true", help="means over the tables alone")
    a = parser.parse_args()
    settings = {name: eval(value) for name, value in (item.split("=", 1) for item in a.set)}
    names = a.only.split(",") if a.only else table_names(a.tables)
    sizes = [int(size) for size in a.labels.split(",")]
    seeds = range(a.first_seed, a.first_seed + a.seeds)
    cells = Parallel(a.jobs)(
        delayed(cell)(n, a.tables, size, s, a.preset, settings, a.equal) for n in names for size in sizes for s in seeds
    )
    results = {(row[0], row[1], row[2]): np.array(row[3:]) for row in cells}
    changes = f" {', '.join(a.set)}" if a.set else ""
    sizes_note = ", unlabelled classes of one size" if a.equal else ""
    print(f"DeepSep, {a.preset} settings{changes}, {a.seeds} seeds{sizes_note}\n")
    head = "table, labels, initial, network, average, gain ± s.e., steps: network, average, ECE, seconds, forest"
    print("| " + head.replace(", ", " | ") + " |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for size in sizes:
        means = []
        for name in names:
            values = np.array([results[name, size, s] for s in seeds])
            gains = values[:, 2] - values[:, 0]
            m = values.mean(axis=0)
            means.append([*m, gains.mean()])
            if not a.brief:
                error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else float("nan")
                print(
                    f"| {name} | {size} | {m[0]:.2f} | {m[1]:.2f} | {m[2]:.2f} | {gains.mean():+.2f} ± {error:.2f} "
                    f"| {m[3]:.2f} | {m[4]:.2f} | {m[5]:.1f} | {m[6]:.1f} | {m[7]:.2f} |"
                )
        m = np.mean(means, axis=0)
        better = sum(row[-1] > 0 for row in means)
        print(
            f"| **mean of {len(names)}** | {size} | {m[0]:.2f} | {m[1]:.2f} | {m[2]:.2f} "
            f"| {m[8]:+.2f} ({better} better) | {m[3]:.2f} | {m[4]:.2f} | {m[5]:.1f} | {m[6]:.1f} | {m[7]:.2f} |",
            flush=True,
        )
