"""The demo ten times over: the committee beside single methods, on two tables that ship with deepsep.

    python benchmarks/demo.py run --jobs 2       # a few minutes for each draw on one core
    python benchmarks/demo.py summary

A draw takes 2,000 rows of the table at random, keeps the classes of 100 of them, at random too, and hides the others.
All methods see the same rows and labels; accuracy is that on the 1,900 hidden rows. ``foods`` is the table of ``deepsep
demo``. ``nhanes`` is the counterexample, segments of survey answers that the profile says little about; its committee
has the effort "fast", without the in-context network. A cell is one table, draw and method. Cells that the file has are
not run again, so that a run can be killed and resumed.
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
from scipy import stats

from deepsep import Committee, method
from deepsep.datasets import load_table
from deepsep.demo_example import N_LABELS, N_PRODUCTS
from deepsep.evaluation.intervals import scores
from deepsep.model import for_table

FILE = Path(__file__).parent / "results" / "demo_draws.csv"
FIELDS = ("table", "draw", "method", "accuracy", "ece", "log_loss", "expected", "seconds")
EFFORT = {"foods": "normal", "nhanes": "fast"}
MOST_FREQUENT = "most-frequent"  # of the labels
SUPERVISED = ("random-forest", "extra-trees", "lightgbm-few-labels", "logistic-regression")
METHODS = (MOST_FREQUENT, *SUPERVISED, "deepsep", "committee")


# -- running -------------------------------------------------------------------------------------------------


def draw_rows(table, draw):
    """Return the features, the labels that are known, and the truth."""
    bunch = load_table(table)
    rows = np.random.default_rng(draw).permutation(len(bunch.data))[:N_PRODUCTS]
    truth = bunch.target.iloc[rows].reset_index(drop=True)
    return bunch.data.iloc[rows].reset_index(drop=True), truth.where(truth.index < N_LABELS), truth


def run_cell(table, draw, name):
    """Return the lines of one cell: the method's, and for the committee its members' too."""
    warnings.simplefilter("ignore")
    X, y, truth = draw_rows(table, draw)
    if name == MOST_FREQUENT:
        right = truth[N_LABELS:] == y.mode()[0]
        return [{"table": table, "draw": draw, "method": name, "accuracy": f"{right.mean():.4f}"}]
    chosen = Committee(effort=EFFORT[table], n_jobs=1) if name == "committee" else method(name)
    start = time.perf_counter()
    model = for_table(chosen.set_params(random_state=draw)).fit(X, y)
    seconds = time.perf_counter() - start
    fitted = model[-1]
    codes = pd.Categorical(truth, categories=fitted.classes_).codes.astype(np.intp)
    hidden = slice(N_LABELS, None)
    found = {name: fitted.label_distributions_} if name == "committee" else {name: model.predict_proba(X)}
    expected = ""
    if name == "committee":
        found |= {f"committee/{member}": each.label_distributions_ for member, each in fitted.members_.items()}
        expected = f"{fitted.expected_accuracy_.value:.4f}"
    lines = []
    for which, p in found.items():
        figures = scores(p[hidden], codes[hidden])
        own = which == name
        lines.append(
            {"table": table, "draw": draw, "method": which, "seconds": f"{seconds:.1f}" if own else ""}
            | {figure: f"{figures[figure]:.4f}" for figure in ("accuracy", "ece", "log_loss")}
            | {"expected": expected if own else ""}
        )
    return lines


def run(a):
    done = set()
    if a.out.exists():
        done = set(map(tuple, pd.read_csv(a.out)[["table", "draw", "method"]].to_numpy().tolist()))
    else:
        a.out.write_text(",".join(FIELDS) + "\n", encoding="utf-8")
    cells = [(table, draw, name) for table in a.tables.split(",") for draw in range(a.draws) for name in METHODS]
    todo = [cell for cell in cells if cell not in done]
    print(f"{len(todo)} of {len(cells)} cells to do", file=sys.stderr)
    results = Parallel(n_jobs=a.jobs, return_as="generator_unordered")(delayed(run_cell)(*cell) for cell in todo)
    for lines in results:
        with a.out.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, FIELDS, lineterminator="\n").writerows(lines)


# -- reading -------------------------------------------------------------------------------------------------


def mean_with_interval(values):
    """Return a mean and the ends of its 95 % interval by Student's t."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean(), values.mean() - half, values.mean() + half


def summary(a):
    """Print the mean accuracy of every method, and the committee's lead over it with a 95 % interval."""
    frame = pd.read_csv(a.out)
    for table, rows in frame.groupby("table"):
        wide = rows.pivot(index="draw", columns="method", values="accuracy").dropna()
        print(f"{table}: {len(wide)} draws")
        for name in wide.mean().sort_values(ascending=False).index:
            lead = 100 * (wide["committee"] - wide[name])
            text = "" if name == "committee" else "{:+.1f} ({:+.1f} to {:+.1f})".format(*mean_with_interval(lead))
            print(f"  {name:<32} {100 * wide[name].mean():5.1f}  {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for command in (run, summary):
        sub = commands.add_parser(command.__name__)
        sub.add_argument("--out", type=Path, default=FILE)
        sub.set_defaults(command=command)
        if command is run:
            sub.add_argument("--tables", default="foods,nhanes")
            sub.add_argument("--draws", type=int, default=10)
            sub.add_argument("--jobs", type=int, default=2)
    a = parser.parse_args()
    a.command(a)


if __name__ == "__main__":
    main()
