"""The in-context network on real tables: accuracy, unlabelled rows, class shares and speed.

    python benchmarks/in_context.py tables FOLDER              # 35, 125 and 500 labels, three draws, beside the others
    python benchmarks/in_context.py unlabelled FOLDER          # 0, 100, 1,000 and 3,000 unlabelled rows in the context
    python benchmarks/in_context.py moons                      # two moons with six labels, by unlabelled rows
    python benchmarks/in_context.py book                       # the SSL-book sets with their official splits
    python benchmarks/in_context.py speed                      # seconds, and the ratio to a forest of 500 trees
    python benchmarks/in_context.py summary                    # print the tables of what was measured

FOLDER holds Parquet files with a `label` column; `tables.py` says how they are split, and `methods.py` has the other
methods on the same draws, whose results are in `results/methods.csv`. Finished cells are in `results/in_context.csv`
and are not run again, so that a run can be killed and resumed.

"both" and its two views come from one fit. Shares are measured by total variation from those among all unlabelled
rows: as the network estimates them, as they are among the labels, as the mean of the probabilities, and as EM finds
them from the probabilities and the labels' shares.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import hashlib
import io
import json
import resource
import sys
import time
import warnings
from pathlib import Path

import methods
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import make_moons
from tables import load, split, table_names

from deepsep import InContext, method
from deepsep.datasets import load_ssl_book
from deepsep.evaluation.intervals import scores
from deepsep.networks import WEIGHTS_SHA256

RESULTS = Path(__file__).parent / "results"
KEY = ["part", "table", "labels", "seed", "view", "unlabeled", "settings"]
FIGURES = ["accuracy", "balanced_accuracy", "ece", "log_loss"]
SHARES = ["shares_network", "shares_labels", "shares_mean", "shares_em"]
COLUMNS = [*KEY, *FIGURES, *SHARES, "covered", "weight", "seconds", "cpu_seconds", "megabytes", "error"]
LABELS, UNLABELED = (35, 125, 500), (0, 100, 1000, 3000)
BESIDE = ("random-forest", "lightgbm-few-labels", "mean-teacher", "deepsep", "logistic-regression")
BOOK = ("digit1", "usps", "coil", "bci", "g241c", "g241d")
# Test errors in percent, 10 / 100 labels, as commonly quoted from the SSL-book; not recomputed here.
PRINTED = {
    "TSVM": {"g241c": (24.71, 18.46), "digit1": (17.77, 6.15), "usps": (25.20, 9.77), "coil": (67.50, 25.80)},
    "LDS": {"g241c": (28.85, 18.04), "digit1": (15.63, 3.46), "usps": (17.57, 4.96), "coil": (61.90, 13.72)},
}


def settings():
    """Return a short name of the network and its settings, so that results with others are not taken for these."""
    chosen = {name: repr(value) for name, value in InContext().get_params().items()} | {"weights": WEIGHTS_SHA256}
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:8]


def distance(shares, truth):
    """Total variation, in percent."""
    return 50 * float(np.abs(shares - truth).sum())


def em_shares(p, start, steps=200):
    """Saerens, Latinne and Decaestecker (2002): shares from probabilities that hold for the shares at the start."""
    shares = start
    for _ in range(steps):
        q = p * (shares / start)
        shares = (q / q.sum(1, keepdims=True)).mean(0)
    return shares


def measure_shares(model, p, labels, truth):
    """Return how far four estimates of the shares are off, and how many intervals hold the truth."""
    c = p.shape[1]
    real, among = (np.bincount(codes, minlength=c) / len(codes) for codes in (truth, labels))
    low, high = model.estimated_shares_interval_.T
    estimates = (model.estimated_shares_, among, p.mean(0), em_shares(p, among))
    figures = {name: f"{distance(each, real):.4f}" for name, each in zip(SHARES, estimates, strict=True)}
    return figures | {"covered": f"{np.mean((low <= real) & (real <= high)):.4f}"}


def figures_of(p, truth):
    return {name: f"{value:.6f}" for name, value in scores(p, truth).items()}


def fit(X, codes, labeled, unlabeled, seed, **chosen):
    """Return the model, fitted to labelled rows and then unlabelled ones, and the seconds it took."""
    y = np.concatenate([codes[labeled], np.full(len(unlabeled), -1)])
    start = time.perf_counter()
    model = InContext(random_state=seed, **chosen).fit(X[np.concatenate([labeled, unlabeled])], y)
    return model, time.perf_counter() - start


def run_table(X, codes, labeled, unlabeled, seed):
    """Yield (view, figures) for both views and each alone."""
    model, seconds = fit(X, codes, labeled, unlabeled, seed)
    truth = codes[unlabeled]
    answers = {"both": model.label_distributions_, **model.view_distributions_}
    for view, p in answers.items():
        figures = figures_of(p[len(labeled) :], truth) | {"seconds": f"{seconds:.2f}"}
        if view == "both":
            figures |= measure_shares(model, p[len(labeled) :], codes[labeled], truth)
        yield view, figures | {"weight": f"{model.view_weights_.get(view, 1):.4f}"}


def tables(a):
    """Yield (keys of a cell, function that runs it)."""
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        for labels in LABELS:
            for table in a.only or [name for name in table_names(a.folder) if name != "digits"]:

                def cell(table=table, labels=labels, seed=seed):
                    X, codes = load(table, a.folder)
                    return run_table(X, codes, *split(codes, labels, seed), seed)

                yield {"table": table, "labels": labels, "seed": seed, "view": "both", "unlabeled": 3000}, cell


def unlabeled(a):
    """The view of columns with other numbers of unlabelled rows in the context; always the same 1,000 are scored."""
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        for labels in LABELS:
            for table in a.only or [name for name in table_names(a.folder) if name != "digits"]:
                for n in UNLABELED:

                    def cell(table=table, labels=labels, seed=seed, n=n):
                        X, codes = load(table, a.folder)
                        labeled, rest = split(codes, labels, seed)
                        size = len(labeled) + n
                        model, seconds = fit(
                            X, codes, labeled, rest[:n], seed, view="columns", context_size=max(size, 2)
                        )
                        p = model.predict_proba(X[rest[:1000]])
                        shares = measure_shares(model, p, codes[labeled], codes[rest])
                        yield "columns", figures_of(p, codes[rest[:1000]]) | shares | {"seconds": f"{seconds:.2f}"}

                    yield {"table": table, "labels": labels, "seed": seed, "view": "columns", "unlabeled": n}, cell


def moons(a):
    """Two moons, three labels each; 1,000 fresh rows are scored."""
    for seed in range(a.first_seed, a.first_seed + 10):
        for n in UNLABELED:

            def cell(seed=seed, n=n):
                X, codes = make_moons(6 + 3000 + 1000, noise=0.1, random_state=seed)
                labeled = np.concatenate([np.flatnonzero(codes == k)[:3] for k in (0, 1)])
                rest = np.setdiff1d(np.arange(len(codes)), labeled)
                model, seconds = fit(X, codes, labeled, rest[:n], seed, view="columns", context_size=6 + n)
                p = model.predict_proba(X[rest[3000:]])
                yield "columns", figures_of(p, codes[rest[3000:]]) | {"seconds": f"{seconds:.2f}"}

            yield {"table": "two moons", "labels": 6, "seed": seed, "view": "columns", "unlabeled": n}, cell


def book(a):
    """The official splits; all other rows are unlabelled, and scored."""
    for number in range(12):
        for labels in (10, 100):
            for name in a.only or BOOK:

                def cell(name=name, labels=labels, number=number):
                    data = load_ssl_book(name, labels=labels)
                    labeled = data.splits[number]
                    rest = np.setdiff1d(np.arange(len(data.target)), labeled)
                    return run_table(data.data, data.target, labeled, rest, number)

                yield {"table": name, "labels": labels, "seed": number, "view": "both", "unlabeled": 1500}, cell


def speed(a):
    """125 labels, 5,000 unlabelled rows, 50 columns: fit, which predicts all training rows, and predict them again."""
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=5125)
    X = rng.normal(size=(5125, 50)) + rng.normal(size=(5, 50))[codes]
    y = np.where(np.arange(5125) < 125, codes, -1)
    for name in ("in-context, columns", "random-forest"):

        def cell(name=name):
            if name == "random-forest":
                model = method("random-forest", n_jobs=a.threads)
            else:
                model = InContext(view="columns", random_state=0)
                InContext(view="columns", context_size=10).fit(X[:200], y[:200])  # reads the weights
            start, busy = time.perf_counter(), time.process_time()
            model.fit(X, y)
            middle = time.perf_counter()
            p = model.predict_proba(X)
            end = time.perf_counter()
            print(f"{name}: fit {middle - start:.1f} s, prediction {end - middle:.1f} s, {a.threads} threads")
            busy = time.process_time() - busy
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            cost = {"seconds": f"{end - start:.2f}", "cpu_seconds": f"{busy:.2f}", "megabytes": f"{memory:.0f}"}
            yield name, figures_of(p[125:], codes[125:]) | cost

        yield {"table": f"{a.threads} threads", "labels": 125, "seed": 0, "view": name, "unlabeled": 5000}, cell


def read(place):
    """Return the finished lines as a frame; of a cell that was run twice, the last."""
    frame = pd.DataFrame(columns=COLUMNS)
    if Path(place).exists():
        with open(place, newline="") as file:
            lines = [line for line in csv.DictReader(file) if None not in line.values() and None not in line]
        frame = pd.DataFrame(lines, columns=COLUMNS)
    numbers = [name for name in COLUMNS if name not in ("part", "table", "view", "settings", "error")]
    frame[numbers] = frame[numbers].apply(pd.to_numeric)
    return frame.drop_duplicates(KEY, keep="last")


def append(place, results):
    """Add the lines of a cell, whole and at once."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, COLUMNS, restval="", lineterminator="\n")
    if not place.exists():
        writer.writeheader()
    writer.writerows(results)
    with open(place, "a") as file:
        file.write(lines.getvalue())
        file.flush()
        os.fsync(file.fileno())


def run(part, cells, place):
    """Run the cells that the file does not have yet."""
    mine = settings()
    known = read(place)
    done = set(known.loc[known["error"] == "", KEY].itertuples(index=False, name=None))
    todo = []
    for keys, cell in cells:
        keys = {"part": part, **keys, "settings": mine}
        if tuple(keys[name] for name in KEY) not in done:
            todo.append((keys, cell))
    print(f"{len(todo)} cells to do", file=sys.stderr, flush=True)
    for i, (keys, cell) in enumerate(todo, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                results = [{**keys, "view": view, **figures} for view, figures in cell()]
            except Exception as error:
                results = [{**keys, "error": f"{type(error).__name__}: {error}".replace("\n", " ")}]
        append(place, results)
        at = " ".join(str(keys[name]) for name in KEY[:6])
        what = " ".join(f"{r['view']} {r.get('accuracy', r.get('error'))}" for r in results)
        print(f"{i}/{len(todo)} {at}: {what}", file=sys.stderr, flush=True)


# -- tables of what was measured -----------------------------------------------------------------------------


def means(frame, figure, scale):
    """Return the mean over draws, then over tables, at each number of labels."""
    each = frame.groupby(["labels", "table"])[figure].mean().groupby("labels").mean() * scale
    return [each.get(labels, np.nan) for labels in LABELS]


def cells_of(values, digits):
    return " / ".join("–" if np.isnan(value) else f"{value:.{digits}f}" for value in values)


def print_tables(frame, others):
    frame = frame[(frame["part"] == "tables") & (frame["error"] == "")]
    if frame.empty:
        return
    draws = frame[["table", "labels", "seed"]].drop_duplicates()
    others = others[others["method"].isin(BESIDE) & (others["error"] == "")].merge(draws)
    counts = ", ".join(f"{n} at {labels} labels" for labels, n in draws.groupby("labels").size().items())
    print(f"\nTables: {draws['table'].nunique()}; draws of them: {counts}\n")
    rows = [(f"in-context, {view}", mine) for view, mine in frame.groupby("view")]
    rows += list(others.groupby("method"))
    rows.sort(key=lambda row: -np.nanmean(means(row[1], "accuracy", 100)))
    head = ["method", "accuracy at 35 / 125 / 500", "mean", "calibration error", "log loss"]
    lines = []
    for name, mine in rows:
        accuracy = means(mine, "accuracy", 100)
        calibration, loss = means(mine, "ece", 100), means(mine, "log_loss", 1)
        lines.append(
            [name, cells_of(accuracy, 1), f"{np.nanmean(accuracy):.1f}", cells_of(calibration, 1), cells_of(loss, 2)]
        )
    methods.print_table(head, lines, [])
    both = frame[frame["view"] == "both"]
    forest = others[others["method"] == "random-forest"]
    keys = ["table", "labels", "seed"]
    pairs = both.merge(forest, on=keys, suffixes=("", "_forest"))
    pairs["gain"] = 100 * (pairs["accuracy"] - pairs["accuracy_forest"])
    print("\nBoth views less the forest, points of accuracy, 90 % interval over tables:")
    for labels, here in pairs.groupby("labels"):
        gain = here.groupby("table")["gain"].mean()
        low, high = bootstrap(gain.to_numpy())
        better = f"better on {(gain > 0).sum()} of {len(gain)} tables"
        print(f"  {labels:4} labels: {gain.mean():+.2f} ({low:+.2f} to {high:+.2f}), {better}")
    print("\nAccuracy on each table, both views and the forest:\n")
    by_table = pairs.groupby(["table", "labels"])[["accuracy", "accuracy_forest"]].mean() * 100
    lines = []
    for table in sorted(pairs["table"].unique()):
        here = by_table.loc[table].reindex(LABELS)
        lines.append([table, cells_of(here["accuracy"], 1), cells_of(here["accuracy_forest"], 1)])
    methods.print_table(["table", "in-context, both", "random forest"], lines, [])
    print("\nError of the class shares, total variation in percent:\n")
    names = {"shares_network": "the network's estimate", "shares_labels": "shares among the labels"}
    names |= {"shares_mean": "mean of the probabilities", "shares_em": "EM on the probabilities"}
    methods.print_table(
        ["estimate", "35 / 125 / 500"], [[name, cells_of(means(both, key, 1), 1)] for key, name in names.items()], []
    )
    print(f"\nIntervals of 90 % that hold the share: {cells_of(means(both, 'covered', 100), 0)} %")
    print(f"Median seconds of a fit: {both['seconds'].median():.0f}")


def bootstrap(values, draws=10_000):
    """Return an interval of 90 % for the mean over tables."""
    picked = np.random.default_rng(0).integers(len(values), size=(draws, len(values)))
    return np.quantile(values[picked].mean(1), [0.05, 0.95])


def print_unlabeled(frame):
    for part, title in (("unlabeled", "tables, view of columns"), ("moons", "two moons, six labels")):
        here = frame[(frame["part"] == part) & (frame["error"] == "")]
        if here.empty:
            continue
        whole = here.groupby(["table", "labels", "seed"])["unlabeled"].transform("nunique") == len(UNLABELED)
        here = here[whole]
        wide = here.pivot_table(index=["table", "labels"], columns="unlabeled", values="accuracy") * 100
        print(f"\nAccuracy by unlabelled rows in the context: {title}\n")
        lines = [
            [str(labels), *(f"{value:.1f}" for value in row)]
            for labels, row in wide.groupby("labels").mean().iterrows()
        ]
        methods.print_table(["labels", *map(str, wide.columns)], lines, [])
        if part == "unlabeled":
            gain = (wide[1000] - wide[0]).groupby("table").mean().sort_values()
            hurt = ", ".join(f"{table} {value:+.1f}" for table, value in gain[gain < 0].items())
            print(f"\n1,000 unlabelled rows rather than none hurt on: {hurt or 'no table'}")


def print_book(frame):
    here = frame[(frame["part"] == "book") & (frame["error"] == "") & (frame["view"] == "both")]
    if here.empty:
        return
    error = 100 - 100 * here.pivot_table(index="table", columns="labels", values="accuracy")
    splits = here.groupby("labels")["seed"].nunique().to_dict()
    print(f"\nSSL-book, test error at 10 / 100 labels, official splits ({splits}), both views\n")
    printed = {name: {key: cells_of(pair, 1) for key, pair in values.items()} for name, values in PRINTED.items()}
    lines = [
        [name, cells_of(row.reindex([10, 100]), 1), *(each.get(name, "") for each in printed.values())]
        for name, row in error.iterrows()
    ]
    methods.print_table(["set", "in-context", *printed], lines, [])


def print_speed(frame):
    here = frame[(frame["part"] == "speed") & (frame["error"] == "")]
    for threads, mine in here.groupby("table"):
        seconds = mine.set_index("view")["seconds"]
        print(f"\nSpeed, {threads}: " + ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items()))
        if len(seconds) == 2:
            busy = mine.set_index("view")["cpu_seconds"]
            ratios = (each["in-context, columns"] / each["random-forest"] for each in (seconds, busy))
            print("  ratio {:.1f}; of CPU seconds {:.1f}".format(*ratios))


PARTS = {"tables": tables, "unlabeled": unlabeled, "moons": moons, "book": book, "speed": speed}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("part", choices=[*PARTS, "summary"])
    parser.add_argument("folder", nargs="?", help="of Parquet files with a `label` column")
    parser.add_argument("--only", type=lambda text: text.split(","), help="comma-separated names of tables or sets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="1, and 2 to measure speed")
    parser.add_argument("--out", type=Path, default=RESULTS / "in_context.csv", help="where finished cells are kept")
    a = parser.parse_args(arguments)
    if a.part in ("tables", "unlabeled") and not a.folder:
        parser.error(f"{a.part} needs the folder of tables")
    a.threads = a.threads or (2 if a.part == "speed" else 1)
    torch.set_num_threads(a.threads)
    if a.part != "summary":
        run(a.part, PARTS[a.part](a), a.out)
    frame = read(a.out)
    frame = frame[frame["settings"] == frame.groupby("part")["settings"].transform("last")]
    print_tables(frame, methods.read(RESULTS / "methods.csv"))
    print_unlabeled(frame)
    print_book(frame)
    print_speed(frame)


if __name__ == "__main__":
    main()
