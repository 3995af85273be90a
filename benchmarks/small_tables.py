"""The committee and the in-context network on small tables, beside stored scores of other models.

    python benchmarks/small_tables.py run FOLDER --jobs 2                   # all labels of the training folds
    python benchmarks/small_tables.py run FOLDER --labels 35 --seed 1       # 35 of them, drawn at random
    python benchmarks/small_tables.py summary FOLDER

FOLDER holds Parquet files with a column `label`, and `scores.csv` (table, model, fold, score) of other models. Four
stratified folds, shuffled by the seed; the score is the average precision, weighted over classes; with two classes,
that of the second. The stored scores are of seed 0. Each model is fitted with the rows of the test fold as unlabelled
rows or, with `--without-unlabelled`, to the training rows alone. Cells that are done are not run again.

The committee's members are measured as well. Where a table has at most 72 columns, the committee is that of the version
before; on the others that was run with the version before and `--version before`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import StratifiedKFold

RESULTS = Path(__file__).parent / "results" / "small_tables.csv"
COLUMNS = (
    "version",
    "table",
    "labels",
    "seed",
    "fold",
    "unlabelled",
    "model",
    "score",
    "accuracy",
    "log_loss",
    "seconds",
)
KEY = list(COLUMNS[:6])
MODELS = ("committee",)
FOREST, COMMITTEE, BEFORE = "random_forest", "committee", "before"
FIGURES = ("mean", "low", "high", "median", "mean without hills", "median without hills")
HILLS = ("hill-valley-with-noise", "hill-valley-without-noise")


def split(codes, labels, seed, fold):
    """Return (labelled rows, test rows); `labels` is "all" or a number, drawn at random with a row of each class."""
    folds = StratifiedKFold(4, shuffle=True, random_state=seed).split(codes, codes)
    train, test = list(folds)[fold]
    if labels != "all":
        rng = np.random.default_rng([seed, fold])
        train = rng.permutation(train)
        first = np.unique(codes[train], return_index=True)[1]
        others = np.setdiff1d(np.arange(len(train)), first)
        train = train[np.concatenate([first, others])[: int(labels)]]
    return train, test


def measure(p, truth, n_classes):
    """Return the score, accuracy in per cent and log loss of probabilities."""
    if n_classes == 2:
        score = average_precision_score(truth, p[:, 1])
    else:
        score = average_precision_score(np.eye(n_classes)[truth], p, average="weighted")
    loss = log_loss(truth, p, labels=np.arange(n_classes))
    return round(float(score), 5), round(100 * float(np.mean(p.argmax(1) == truth)), 3), round(float(loss), 5)


def run_cell(folder, version, table, labels, seed, fold, unlabeled, models):
    """Fit all models to one training fold; return lines of the results."""
    warnings.simplefilter("ignore")
    import torch

    from deepsep import for_table, method

    torch.set_num_threads(1)
    frame = pd.read_parquet(Path(folder) / f"{table}.parquet")
    classes, codes = np.unique(frame.pop("label").astype(str), return_inverse=True)
    train, test = split(codes, labels, seed, fold)
    rows = np.concatenate([train, test]) if unlabeled else train
    y = np.full(len(rows), None, dtype=object)
    y[: len(train)] = classes[codes[train]]
    lines = []

    def add(name, p, known, seconds=0.0):
        whole = np.zeros((len(test), len(classes)))
        whole[:, np.searchsorted(classes, known)] = p[-len(test) :]
        whole = np.clip(whole, 1e-6, None)
        figures = measure(whole / whole.sum(1, keepdims=True), codes[test], len(classes))
        lines.append((version, table, labels, seed, fold, unlabeled, name, *figures, round(seconds, 1)))

    for name in models:
        settings = {"student": False, "n_jobs": 1} if name == COMMITTEE else {}
        begin = time.process_time()
        model = for_table(method(name, random_state=0, **settings)).fit(frame.iloc[rows], y)
        fitted = model[-1]
        p = fitted.label_distributions_ if unlabeled else model.predict_proba(frame.iloc[test])
        add(name, p, fitted.classes_, time.process_time() - begin)
        if name == COMMITTEE:
            X = None if unlabeled else model[:-1].transform(frame.iloc[test])
            for member, each in fitted.members_.items():
                add(f"committee: {member}", each.label_distributions_ if unlabeled else each.predict_proba(X), classes)
    return lines


def run(a):
    names = a.tables.split(",") if a.tables else sorted(path.stem for path in Path(a.folder).glob("*.parquet"))
    done = set()
    if a.out.exists():
        done = set(pd.read_csv(a.out, dtype=str)[KEY].itertuples(index=False, name=None))
    else:
        a.out.write_text(",".join(COLUMNS) + "\n")
    cells = [
        (a.version, name, labels, seed, fold, not a.without_unlabelled)
        for seed in range(a.seed, a.seed + a.seeds)
        for labels in a.labels.split(",")
        for fold in range(a.folds)
        for name in names
    ]
    todo = [cell for cell in cells if tuple(map(str, cell)) not in done]
    print(f"{len(todo)} of {len(cells)} cells to do", file=sys.stderr, flush=True)
    jobs = (delayed(run_cell)(a.folder, *cell, a.models.split(",")) for cell in todo)
    for i, lines in enumerate(Parallel(a.jobs, return_as="generator_unordered")(jobs), 1):
        with a.out.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
        print(f"{i}/{len(todo)} {lines[0][1]} {lines[0][-1]}", file=sys.stderr, flush=True)


def by_table(frame):
    """Return the scores of the rows of a frame by table and fold, in points."""
    return 100 * frame.set_index(["table", "fold"])["score"]


def gains(scores, forest, tables=None):
    """Return how many points scores are above those of a forest, for each table: the mean over the folds of both."""
    each = (scores - forest).dropna().groupby("table").mean()
    return each if tables is None else each[each.index.isin(tables)]


def interval(values, draws=10_000):
    """Return an interval of 90 % of a mean, by drawing tables."""
    rng = np.random.default_rng(0)
    return np.quantile(rng.choice(values, (draws, len(values))).mean(axis=1), [0.05, 0.95])


def our_scores(frame, unlabeled=True, labels="all", seed=0):
    """Return the scores of our models by name; the committee of the version before is called so."""
    mine = frame[(frame["unlabelled"] == unlabeled) & (frame["labels"] == labels) & (frame["seed"] == seed)]
    now = mine[mine["version"] == "now"]
    found = {name: by_table(part) for name, part in now.groupby("model")}
    before = mine[(mine["version"] == BEFORE) & (mine["model"] == COMMITTEE)]
    same = now[(now["model"] == COMMITTEE) & ~now["table"].isin(before["table"])]
    return found | {f"{COMMITTEE}, {BEFORE}": by_table(pd.concat([before, same]))}


def summarize(a):
    """Print and write the gains over the stored forest, and those of the committee over the one before."""
    stored = {name: by_table(part) for name, part in pd.read_csv(Path(a.folder) / "scores.csv").groupby("model")}
    forest = stored.pop(FOREST)
    frame = pd.read_csv(a.out, dtype={"labels": str, "unlabelled": bool})
    ours = our_scores(frame)
    shared = sorted(gains(ours[COMMITTEE], forest).index)
    folds = ours[COMMITTEE].index
    lines = []

    def add(name, each):
        low, high = interval(each.to_numpy())
        flat = each[~each.index.isin(HILLS)]
        figures = (each.mean(), low, high, each.median(), flat.mean(), flat.median())
        lines.append((name, len(each), *(f"{value:.3f}" for value in figures)))

    for name, scores in (ours | stored).items():
        add(name, gains(scores[scores.index.isin(folds)], forest, shared))
    for name in (f"{COMMITTEE}, {BEFORE}", "tabicl"):
        add(f"{COMMITTEE} minus {name}", gains(ours[COMMITTEE], (ours | stored)[name]))
    lines = pd.DataFrame(lines, columns=["model", "tables", *FIGURES])
    lines.to_csv(a.out.with_name(a.out.stem + "_gains.csv"), index=False)
    print(f"{len(shared)} tables, {len(folds)} folds; points above the stored forest\n")
    print(lines.sort_values("mean", key=pd.to_numeric, ascending=False).to_string(index=False))
    print("\nby table:\n")
    columns = {name: gains(each[each.index.isin(folds)], forest) for name, each in (ours | stored).items()}
    some = [COMMITTEE, f"{COMMITTEE}, {BEFORE}", "tabicl", "tabpfn3", "catboost"]
    print(pd.DataFrame(columns)[some].round(1).to_string())


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("verb", choices=["run", "summary"])
    parser.add_argument("folder")
    parser.add_argument("--labels", default="all", help="all, or numbers, such as 35,125")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folds", type=int, default=4, help="first folds, of four")
    parser.add_argument("--tables")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--without-unlabelled", action="store_true")
    parser.add_argument("--version", default="now", help="now, or before")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    run(a) if a.verb == "run" else summarize(a)


if __name__ == "__main__":
    main()
