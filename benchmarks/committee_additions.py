"""What 128 columns a member add to the committee, and what the spectral view would, with its usual weights.

    python benchmarks/committee_additions.py run FOLDER --how quota --seed 12
    python benchmarks/committee_additions.py run FOLDER --how random --seed 212
    python benchmarks/committee_additions.py summary

FOLDER holds Parquet files with a `label` column; `tables.py` says how they are split. The members are fitted to all
rows, not in folds, and pooled with their usual weights, which give nearly all of the accuracy; DeepSep, whose usual
weight is zero, is left out. The first 600 unlabelled rows are scored. "Before" is the committee whose members see 72
columns, drawn evenly. The spectral view would have one member and a weight of 0.05. Cells that are done are not run
again.
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
from committee_members import Cell, build, draw
from tables import load, table_names

from deepsep import method, networks
from deepsep.classifiers.committee.members import USUAL_MEMBERS
from deepsep.core.labels import as_labels
from deepsep.evaluation.intervals import scores
from deepsep.evaluation.out_of_fold import fit_copy
from deepsep.evaluation.pooling import Mixture

RESULTS = Path(__file__).parent / "results" / "committee_additions.csv"
KEY = ["how", "table", "labels", "seed"]
COLUMNS = [*KEY, "columns", "variant", "accuracy", "ece", "log_loss", "seconds"]
NETWORK, SPECTRAL, OLD = "in-context", "in-context-spectral", "in-context, 72 columns"
USUAL = {seat.name: seat.weight for seat in USUAL_MEMBERS if seat.weight}
WEIGHTS = USUAL | {SPECTRAL: 0.05}
VARIANTS = {
    "committee, before": {name: name for name in USUAL} | {NETWORK: OLD},
    "committee": {name: name for name in USUAL},
    "committee with the spectral view": {name: name for name in WEIGHTS},
}


def draw_evenly(candidates, n_members, rng, **_):
    """Draw 72 columns for each member from those that fewest members before saw."""
    return networks.context_view.draw_columns(candidates, n_members, rng, most=72)


def fit_members(X, labels, seed, n_scored):
    """Return the probabilities of the first unlabelled rows by each member, and the processor time that each took."""
    n = int(labels.labeled.sum())
    p, seconds = {}, {}
    for name in (*WEIGHTS, OLD):
        old = name == OLD
        if old and X.shape[1] <= 72:
            p[OLD], seconds[OLD] = p[NETWORK], seconds[NETWORK]
            continue
        usual = networks.draw_columns
        networks.draw_columns = draw_evenly if old else usual
        begin = time.process_time()
        try:
            member = (
                method(NETWORK, view="spectral", n_members=1) if name == SPECTRAL else build(NETWORK if old else name)
            )
            model = fit_copy(member, X, labels, None, seed, for_new_rows=True)
            p[name] = model.predict_proba(X[n : n + n_scored])
        finally:
            networks.draw_columns = usual
        seconds[name] = time.process_time() - begin
    return p, seconds


def run_cell(folder, cell, n_scored):
    """Return lines of the results."""
    X, codes = load(cell.table, folder)
    labeled, unlabeled = draw(codes, cell)
    X = X[np.concatenate([labeled, unlabeled])]
    labels = as_labels(np.concatenate([codes[labeled], np.full(len(unlabeled), -1)]))
    truth = codes[unlabeled][:n_scored]
    known = np.isin(truth, labels.classes)  # rows of classes without labels cannot be right
    truth = np.searchsorted(labels.classes, truth[known])
    p, seconds = fit_members(X, labels, cell.seed, n_scored)
    answers = {name: (p[name], seconds[name]) for name in (NETWORK, OLD, SPECTRAL)}
    for variant, members in VARIANTS.items():
        weights = np.array([WEIGHTS[name] for name in members])
        mixed = Mixture(weights / weights.sum())(np.stack([p[name] for name in members.values()]))
        answers[variant] = mixed, sum(seconds[name] for name in members.values())
    for variant, (each, cost) in answers.items():
        figures = scores(each[known], truth)
        line = {"accuracy": figures["accuracy"] * known.mean(), "ece": figures["ece"], "log_loss": figures["log_loss"]}
        key = {"how": cell.how, "table": cell.table, "labels": cell.labels, "seed": cell.seed, "columns": X.shape[1]}
        yield {
            **key,
            "variant": variant,
            **{name: f"{value:.5f}" for name, value in line.items()},
            "seconds": f"{cost:.1f}",
        }


def run(a):
    if not a.out.exists():
        a.out.write_text(",".join(COLUMNS) + "\n")
    done = set(pd.read_csv(a.out)[KEY].itertuples(index=False, name=None))
    names = a.tables.split(",") if a.tables else [name for name in table_names(a.folder) if name != "digits"]
    for labels in map(int, a.labels.split(",")):
        for table in names:
            if (a.how, table, labels, a.seed) in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lines = list(run_cell(a.folder, Cell(table, labels, a.seed, a.how), a.rows))
            with a.out.open("a", newline="") as file:
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(lines)
            what = " ".join(f"{line['accuracy']} ({line['seconds']} s)" for line in lines)
            print(f"{a.how} {table} {labels}: {what}", file=sys.stderr, flush=True)


def summary(a):
    frame = pd.read_csv(a.out)
    for figure, digits in (("accuracy", 2), ("log_loss", 3), ("ece", 2), ("seconds", 1)):
        wide = frame.pivot_table(index=[*KEY, "columns"], columns="variant", values=figure)
        wide *= 1 if figure in ("log_loss", "seconds") else 100
        print(f"\n{figure}\n{wide.groupby(['how', 'labels']).mean().round(digits).to_string()}")
        for mine, other in (
            ("committee", "committee, before"),
            ("committee with the spectral view", "committee"),
            (NETWORK, OLD),
        ):
            gain = wide[mine] - wide[other]
            gain = gain[gain.index.get_level_values("columns") > 72] if other == OLD else gain
            each = gain.groupby("table").mean()
            draws = np.random.default_rng(0).choice(each, (10_000, len(each))).mean(axis=1)
            low, high = np.quantile(draws, [0.05, 0.95])
            parts = gain.groupby(["how", "labels"]).mean().round(digits).to_dict()
            print(f"{mine} minus {other}: {each.mean():+.3f} ({low:+.3f} to {high:+.3f}), {parts}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run")
    runs.add_argument("folder")
    runs.add_argument("--tables", help="default: all")
    runs.add_argument("--how", choices=["quota", "random"], default="quota")
    runs.add_argument("--labels", default="35,125,500")
    runs.add_argument("--seed", type=int, default=12)
    runs.add_argument("--rows", type=int, default=600, help="unlabelled rows that are scored")
    runs.set_defaults(do=run)
    commands.add_parser("summary").set_defaults(do=summary)
    for command in commands.choices.values():
        command.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    a.do(a)


if __name__ == "__main__":
    main()
