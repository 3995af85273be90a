"""How often the accuracy that a committee promises holds: in simulated populations, and on real tables.

    python benchmarks/promises.py simulate --jobs 2     # 400 fits for each way to draw labels, and number of labels
    python benchmarks/promises.py tables FOLDER         # the committee of `deepsep fit` on real tables
    python benchmarks/promises.py summary               # results/promises.csv from what the first kept

Labels are drawn at random, or fill quotas of equal size while the shares of the population are given. A simulated
population has two to six classes in 4 to 15 dimensions, which overlap little or much. A committee of logistic
regression and extra trees is pooled and judged by the functions that `deepsep.Committee` calls, with 20, 100 and 3,000
unlabelled rows. Both commands skip what is done, so that a run can be killed and resumed. Seeds below 10,000 were used
to choose the constants of `expected_accuracy.py`.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from tables import load, split, table_names

from deepsep import Committee
from deepsep.core.labels import Labels
from deepsep.core.probability import log_shift_to_shares, shifted
from deepsep.errors import LabelError
from deepsep.evaluation.expected_accuracy import Evidence, expected_accuracy, jackknife_error, unseen_classes
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.intervals import scores
from deepsep.evaluation.pooling import HeldOutLabels, fit_pool

RESULTS = Path(__file__).parent / "results"
KEPT = Path("results") / "promises"
LABELS = (35, 125, 500, 2500)
UNLABELED = (20, 100, 3000)
FIRST_SEED, N_FITS = 10_000, 400
COLUMNS = ("how", "labels", "unlabeled", "seed", "expected", "low", "high", "accuracy")


# -- simulated populations -----------------------------------------------------------------------------------


def population(rng):
    """Return the shares of the classes, and a function that draws rows of given classes."""
    c, d = int(rng.integers(2, 7)), int(rng.integers(4, 16))
    shares = rng.dirichlet(np.full(c, 4.0))
    centres = rng.normal(size=(c, d)) * rng.uniform(0.3, 0.85)
    scale, mix = np.exp(0.3 * rng.normal(size=(c, d))), rng.normal(size=(d, d)) / np.sqrt(d)

    def draw(codes):
        z = centres[codes] + scale[codes] * rng.normal(size=(len(codes), d))
        return z + 0.5 * np.tanh(z @ mix) ** 2

    return shares, draw


def simulate_fit(how, n_labels, seed):
    """Yield a line for each number of unlabelled rows; none if too few labels can be held out."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng([seed, n_labels])
    shares, draw = population(rng)
    c = len(shares)
    codes = rng.choice(c, n_labels, p=shares) if how == "random" else np.repeat(np.arange(c), n_labels // c)
    truth = rng.choice(c, max(UNLABELED), p=shares)
    X, others = draw(codes), draw(truth)
    seen, codes = np.unique(codes, return_inverse=True)
    truth = np.where(np.isin(truth, seen), np.searchsorted(seen, truth), -1)
    try:
        folds = deal_folds(Labels(codes, seen), n_splits=5, seed=seed, stratified=how == "quota")
    except LabelError:
        return
    unseen, everyone = fit_members(X, codes, others, folds, len(seen), seed)
    for n in UNLABELED:
        expected, p = _promise(unseen, everyone[:, :n], codes, folds, shares if how == "quota" else None)
        accuracy = (p.argmax(axis=1) == truth[:n]).mean()
        yield how, n_labels, n, seed, *(round(v, 4) for v in (expected.value, expected.low, expected.high, accuracy))


def fit_members(X, codes, others, folds, c, seed):
    """Return probabilities by each member: of the labelled rows out of fold, and of the others."""
    members = (LogisticRegression(C=0.3, max_iter=60), ExtraTreesClassifier(20, random_state=seed))
    unseen, everyone = [], []
    for member in members:
        parts = [_ask(member.fit(np.delete(X, t, 0), np.delete(codes, t)), X[t], c) for t in folds.tests]
        unseen.append(np.concatenate(parts))
        everyone.append(_ask(member.fit(X, codes), others, c))
    return np.stack(unseen), np.stack(everyone)


def _ask(member, X, c):
    p = np.zeros((len(X), c))
    p[:, member.classes_] = member.predict_proba(X)
    return p


def _promise(unseen, everyone, codes, folds, shares):
    """Return the accuracy to expect, and the probabilities, as `deepsep.Committee` makes them."""
    rows, k = np.concatenate(folds.tests), len(unseen)
    fold = np.repeat(np.arange(len(folds.tests)), [len(test) for test in folds.tests])
    if shares is not None:
        pairs = [_adjusted(own, (own, other), shares) for own, other in zip(everyone, unseen, strict=True)]
        everyone, unseen = (np.stack(each) for each in zip(*pairs, strict=True))
    labels = HeldOutLabels(codes[rows], rows, fold, np.ones(len(rows)), np.ones(len(rows), bool))
    pool = fit_pool(unseen, labels, usual=np.full(k, 1 / k), shares=shares)
    p = pool.mixture(everyone)
    mixed = (p, pool.held_out, *(mixture(everyone) for mixture in pool.without_folds))
    p, held_out, *others = mixed if shares is None else _adjusted(p, mixed, shares)
    expected = expected_accuracy(
        p,
        np.ones(len(p)),
        Evidence(held_out, codes[rows], pool.weight, 1),
        confidence_error=jackknife_error([each.max(axis=1).mean() for each in others]),
        unseen=unseen_classes(np.bincount(codes)) if shares is None else None,
    )
    return expected, p


def _adjusted(p, several, shares):
    """Return probabilities multiplied by the factors with which the mean of the first ones is the shares."""
    shift = log_shift_to_shares(np.log(np.maximum(p, 1e-30)), shares, np.ones(len(p)))
    return [shifted(each, shift) for each in several]


def simulate(a):
    KEPT.mkdir(parents=True, exist_ok=True)
    place = KEPT / "simulated.csv"
    done = set() if not place.exists() else set(pd.read_csv(place).groupby(["how", "labels", "seed"]).groups)
    seeds = range(FIRST_SEED, FIRST_SEED + N_FITS)
    todo = [(how, n, s) for s in seeds for n in LABELS for how in ("random", "quota") if (how, n, s) not in done]
    _append(place, COLUMNS, todo, lambda cell: list(simulate_fit(*cell)), a.jobs)


def _append(place, columns, todo, run, jobs):
    """Run cells and append their lines to a file as they come."""
    new = not place.exists()
    with place.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(columns)
        for number, lines in enumerate(
            Parallel(jobs, return_as="generator_unordered")(delayed(run)(cell) for cell in todo), 1
        ):
            writer.writerows(lines)
            file.flush()
            print(f"{number}/{len(todo)}", end="\r", flush=True)


# -- real tables ---------------------------------------------------------------------------------------------


def fit_table(folder, effort, how, table, n_labels, seed, n_unlabeled):
    """Return a line for the committee of `deepsep fit`; none if classes have too few rows or labels."""
    warnings.simplefilter("ignore")
    X, codes = load(table, folder)
    if len(codes) < n_labels + 1000:
        return []
    if how == "quota":
        labeled, others = split(codes, n_labels, seed, n_unlabeled)
    else:
        rows = np.random.default_rng(seed).permutation(len(codes))
        labeled, others = rows[:n_labels], rows[n_labels : n_labels + n_unlabeled]
    truth, seen = codes[others], np.unique(codes[labeled])
    y = np.concatenate([codes[labeled], np.full(len(others), -1)])
    share = np.bincount(truth, minlength=codes.max() + 1) + 1e-3
    priors = {int(k): float(share[k] / share[seen].sum()) for k in seen} if how == "quota" else None
    committee = Committee(effort=effort, student=False, n_jobs=1, random_state=seed, priors=priors)
    committee.fit(X[np.concatenate([labeled, others])], y, labels_drawn=how)
    expected, p = committee.expected_accuracy_, committee.label_distributions_[len(labeled) :]
    accuracy = (committee.classes_[p.argmax(axis=1)] == truth).mean()
    known = np.isin(truth, committee.classes_)
    figures = scores(p[known], np.searchsorted(committee.classes_, truth[known]))
    promise = ("", "", "") if expected is None else (expected.value, expected.low, expected.high)
    numbers = (*promise, accuracy, figures["ece"], figures["log_loss"])
    return [(effort, how, table, n_labels, len(others), seed, *(v if v == "" else round(float(v), 4) for v in numbers))]


def tables(a):
    place = RESULTS / "promises_tables.csv"
    done = set()
    if place.exists():
        done = set(pd.read_csv(place).groupby(["effort", "how", "table", "labels", "seed"]).groups)
    names = [name for name in table_names(a.folder) if name != "digits"]
    cells = [(a.effort, how, t, n, s) for s in a.seeds for how in a.how for n in a.labels for t in names]
    columns = ("effort", "how", "table", *COLUMNS[1:], "ece", "log_loss")
    todo = [cell for cell in cells if cell not in done]
    _append(place, columns, todo, lambda cell: fit_table(a.folder, *cell, a.unlabeled), a.jobs)


# -- showing -------------------------------------------------------------------------------------------------


def coverage(frame):
    """Return how often the interval holds, and how far the promise is off, by cell."""
    inside = (frame.low <= frame.accuracy) & (frame.accuracy <= frame.high)
    off = 100 * (frame.expected - frame.accuracy)
    both = frame.assign(holds=inside, off=off, width=100 * (frame.high - frame.low))
    means = both.groupby(["how", "labels", "unlabeled"])[["holds", "off", "width", "accuracy"]].mean()
    return means.assign(fits=both.groupby(["how", "labels", "unlabeled"]).size())


def summary(a):
    cells = coverage(pd.read_csv(KEPT / "simulated.csv"))
    cells.round(4).to_csv(RESULTS / "promises.csv", lineterminator="\n")
    print(cells.round(3).to_string())
    place = RESULTS / "promises_tables.csv"
    if place.exists():
        for effort, part in pd.read_csv(place).dropna().groupby("effort"):
            print(f"\n{effort}\n{coverage(part).round(3).to_string()}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("simulate")
    one.set_defaults(do=simulate)
    two = commands.add_parser("tables")
    two.add_argument("folder")
    two.add_argument("--effort", choices=["fast", "normal"], default="normal")
    two.add_argument("--how", nargs="+", default=["random", "quota"])
    two.add_argument("--labels", nargs="+", type=int, default=LABELS)
    two.add_argument("--seeds", nargs="+", type=int, default=[0])
    two.add_argument("--unlabelled", dest="unlabeled", type=int, default=3000)
    two.set_defaults(do=tables)
    for each in (one, two):
        each.add_argument("--jobs", type=int, default=1)
    commands.add_parser("summary").set_defaults(do=summary)
    a = parser.parse_args(arguments)
    a.do(a)


if __name__ == "__main__":
    main()
