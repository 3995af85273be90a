"""Every method on real tables: accuracy, calibration error and time, at several numbers of labels.

    python benchmarks/methods.py --only digits --methods knn,random-forest          # sklearn's digits
    python benchmarks/methods.py --tables FOLDER --all --jobs 2 --out results.csv   # and every Parquet file
    python benchmarks/methods.py --methods self-training:estimator=random-forest    # a method with other settings
    python benchmarks/methods.py --summary here.csv there.csv --per-table           # tables of what was measured

A cell is one method on one split of one table (`tables.py` says how they are split): it is fitted to the labelled and
the unlabelled rows, on one thread, and asked for the labels of the unlabelled ones. Finished cells are in the CSV file
and are not run again, so that a run can be killed and resumed; cells that failed are tried again. The tables give means
over seeds, then over tables (without digits, unless there is nothing else), in percent, and the median of the seconds
of a fit, over the cells that have them. "–" is where a cell failed; a note says why.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import hashlib
import io
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from tables import load, split, table_names

from deepsep import method, methods
from deepsep.evaluation.intervals import scores

MAIN = "deepsep,tsvm,mean-teacher,lightgbm,lightgbm-few-labels,random-forest,extra-trees"
KEY = ["table", "labels", "seed", "method", "settings"]
FIGURES = ["accuracy", "balanced_accuracy", "ece", "log_loss", "seconds"]
COLUMNS = [*KEY, *FIGURES, "error"]


def build(name, **given):
    """Return a method by its name in the catalogue; settings that are strings may follow it."""
    name, *others = name.split(":")
    return method(name, **dict(other.split("=") for other in others), **given)


def settings_of(name):
    """Return a short name of all settings of a method, so that results with others are not taken for these."""
    given = {key: repr(value) for key, value in build(name).get_params().items() if "random_state" not in key}
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:8]


def measure(cell, folder):
    """Return the cell with what was measured, or with its error."""
    warnings.simplefilter("ignore")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    try:
        X, codes = load(cell["table"], folder)
        labeled, unlabeled = split(codes, cell["labels"], cell["seed"])
        rows = np.concatenate([labeled, unlabeled])
        y = np.concatenate([codes[labeled], np.full(len(unlabeled), -1)])
        model = build(cell["method"], random_state=cell["seed"])
        start = time.perf_counter()
        model.fit(X[rows], y)
        seconds = time.perf_counter() - start
        p = getattr(model, "label_distributions_", None)
        p = model.predict_proba(X[unlabeled]) if p is None else p[len(labeled) :]
        if not np.isfinite(p).all():
            raise ValueError("probabilities are not finite")
        figures = {name: f"{value:.6f}" for name, value in scores(p, codes[unlabeled]).items()}
        return {**cell, **figures, "seconds": f"{seconds:.3f}", "error": ""}
    except Exception as error:
        return {**cell, "error": f"{type(error).__name__}: {error}".replace("\n", " ")}


def read(place):
    """Return the finished lines of a results file as a frame; of a cell that was run twice, the last."""
    frame = pd.DataFrame(columns=COLUMNS)
    if Path(place).exists():
        with open(place, newline="") as file:
            lines = [line for line in csv.DictReader(file) if None not in line.values() and None not in line]
        frame = pd.DataFrame(lines, columns=COLUMNS)
    frame[FIGURES] = frame[FIGURES].apply(pd.to_numeric)
    frame[["labels", "seed"]] = frame[["labels", "seed"]].astype(int)
    return frame.drop_duplicates(KEY, keep="last")


def append(place, result):
    """Add a line, whole and at once: a killed run loses the cells that it was at and no other."""
    line = io.StringIO()
    writer = csv.DictWriter(line, COLUMNS, restval="", lineterminator="\n")
    before = place.read_bytes()[-1:] if place.exists() else b""
    if not before:
        writer.writeheader()
    writer.writerow(result)
    torn = before not in (b"", b"\n")
    with open(place, "ab") as file:
        file.write(("\n" * torn + line.getvalue()).encode())
        file.flush()
        os.fsync(file.fileno())


def run(cells, folder, place, jobs):
    """Measure the cells that the file does not have yet."""
    known = read(place)
    done = set(known.loc[known["error"] == "", KEY].itertuples(index=False, name=None))
    todo = [cell for cell in cells if tuple(cell[name] for name in KEY) not in done]
    print(f"{len(todo)} of {len(cells)} cells to do", file=sys.stderr, flush=True)
    for i, result in enumerate(
        Parallel(jobs, return_as="generator_unordered")(delayed(measure)(cell, folder) for cell in todo), 1
    ):
        append(place, result)
        what = result["error"] or f"{100 * float(result['accuracy']):.1f} % in {result['seconds']} s"
        at = " ".join(str(result[name]) for name in KEY[:4])
        print(f"{i}/{len(todo)} {at}: {what}", file=sys.stderr, flush=True)


def summarize(frame):
    """Print one row for each method: accuracy and calibration error at each number of labels, and seconds."""
    tables = [name for name in sorted(frame["table"].unique()) if name != "digits"] or ["digits"]
    frame = frame[frame["table"].isin(tables)]
    sizes, n_seeds = sorted(frame["labels"].unique()), frame["seed"].nunique()
    notes, lines = [], []
    for name, mine in frame.groupby("method"):
        for number, (settings, cells) in enumerate(mine.groupby("settings", sort=False)):
            label = name if not number else f"{name} [{settings}]"
            lines.append(row(label, cells, sizes, tables, n_seeds, notes))
    lines.sort(key=lambda line: -line[0])
    print(f"\n{len(tables)} {'table' if len(tables) == 1 else 'tables'}, {n_seeds} seeds\n")
    head = ["method", *map(str, sizes), "mean", *(f"ECE {size}" for size in sizes), "seconds"]
    print_table(head, [line[1] for line in lines], notes)


def row(label, cells, sizes, tables, n_seeds, notes):
    """Return (what to sort by, the row) for one method; marks what is not a mean over all tables and seeds."""
    accuracy, error, partly = [], [], []
    for size in sizes:
        here = cells[cells["labels"] == size]
        failed = here[here["error"] != ""]
        absent = len(tables) - here["table"].nunique()
        means = here.groupby("table")[["accuracy", "ece"]].mean().mean() * 100
        accuracy.append(np.nan if len(failed) else means["accuracy"])
        error.append(np.nan if len(failed) else means["ece"])
        if len(failed):
            first = failed.iloc[0]
            at = f"{first['table']}, seed {first['seed']}: {first['error']}"
            notes.append(f"{label}, {size} labels: {len(failed)} of {len(here)} cells failed, the first on {at}")
        elif absent:
            partly.append(f"{len(tables) - absent} at {size}")
    if partly:
        notes.append(f"{label}: of {len(tables)} tables only {', '.join(partly)} labels")
    if cells["seed"].nunique() < n_seeds:
        partly.append("seeds")
        notes.append(f"{label}: of {n_seeds} seeds only {cells['seed'].nunique()}")
    mean = np.mean(accuracy)
    figures = [*(f"{value:.1f}" for value in (*accuracy, mean)), *(f"{value:.0f}" for value in error)]
    seconds = cells["seconds"].median()
    figures = ["–" if value == "nan" else value for value in [*figures, f"{seconds:.2g}"]]
    return np.nan_to_num(mean, nan=-1), [label + "*" * bool(partly), *figures]


def per_table(frame):
    """Print accuracy on each table, a row for each method."""
    tables = sorted(frame["table"].unique())
    for size, here in frame.groupby("labels"):
        failed = set(here.loc[here["error"] != "", ["method", "table"]].itertuples(index=False, name=None))
        means = here.groupby(["method", "table"])["accuracy"].mean().unstack().reindex(columns=tables) * 100
        best = means.max()
        lines = []
        for name, values in means.iterrows():
            cells = ["" if np.isnan(v) else f"**{v:.1f}**" if v == best[t] else f"{v:.1f}" for t, v in values.items()]
            lines.append([name, *("–" if (name, t) in failed else v for t, v in zip(tables, cells, strict=True))])
        print(f"\nAccuracy at {size} labels\n")
        print_table(["method", *tables], lines, [])


def print_table(head, lines, notes):
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for line in lines:
        print("| " + " | ".join(line) + " |")
    for note in notes:
        print(f"\n\\* {note}")


def wanted_methods(parser, a):
    """Return the names of the methods, or end with a message if one cannot be built here."""
    names = list(methods()) if a.all else a.methods.split(",")
    for name in names:
        try:
            build(name)
        except (ImportError, ValueError) as error:
            parser.error(str(error))
    return names


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", help="folder of Parquet files with a `label` column")
    parser.add_argument("--only", help="comma-separated names of tables")
    parser.add_argument("--methods", default=MAIN, help="comma-separated names of methods")
    parser.add_argument("--all", action="store_true", help="all methods")
    parser.add_argument("--labels", default="35,125,500")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results.csv"), help="where finished cells are kept")
    parser.add_argument("--per-table", action="store_true", help="print accuracy on each table as well")
    parser.add_argument("--summary", nargs="+", metavar="CSV", help="run nothing: print the tables of these files")
    a = parser.parse_args(arguments)
    if a.summary:
        results = pd.concat([read(place) for place in a.summary]).drop_duplicates(KEY, keep="first")
        if a.only:
            results = results[results["table"].isin(a.only.split(","))]
    else:
        chosen = {name: settings_of(name) for name in wanted_methods(parser, a)}
        tables = a.only.split(",") if a.only else table_names(a.tables)
        sizes, seeds = [int(size) for size in a.labels.split(",")], range(a.first_seed, a.first_seed + a.seeds)
        cells = [
            {"table": table, "labels": size, "seed": seed, "method": name, "settings": settings}
            for table in tables
            for size in sizes
            for seed in seeds
            for name, settings in chosen.items()
        ]
        run(cells, a.tables, a.out, a.jobs)
        asked = {tuple(cell[name] for name in KEY) for cell in cells}
        results = read(a.out)
        results = results[[key in asked for key in results[KEY].itertuples(index=False, name=None)]]
    if a.per_table:
        per_table(results)
    summarize(results)


if __name__ == "__main__":
    main()
