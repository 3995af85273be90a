"""How far solvers of the transductive SVM end from its global minimum, on problems small enough to know it.

    python benchmarks/local_minima.py run                       # made-up rows and scikit-learn's digits
    python benchmarks/local_minima.py run --tables FOLDER       # and two tables; `tables.py` says how they are read
    python benchmarks/local_minima.py summary
    python benchmarks/local_minima.py figure

A problem has two classes, three labelled rows of each (or one), and 30 unlabelled rows (34), which every method labels.
The labels have a price: the lowest J, the objective of the TSVM with a fixed mean score, of any boundary that is asked
to agree with them, which is an SVM and solved as such. So all methods are measured by the same objective, whatever each
of them minimises. The exact TSVM has the lowest price of all labels, with a proof. What is in the file is not run
again.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from tables import load

from deepsep import TSVM
from deepsep.classifiers import S4VM, ContinuationTSVM, ExactTSVM, GradientTSVM, SwitchingTSVM
from deepsep.solvers.problem import Problem
from deepsep.solvers.spaces import open_space
from deepsep.zoo.transductive.fixed_signs import FixedSigns

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "local_minima.csv"
PICTURE = HERE.parent / "docs" / "images" / "local-minima.png"
COSTS = (1.0, 10.0)
UNLABELED = 30
LABELED = 3  # of each class
GAMMA = 2.0
MOST_NODES = 30_000
COLOURS = ("0.55", "#0072B2", "#56B4E9", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "black")
PROVEN = 2e-5  # relative distance to the lower bound
METHODS = {
    "SVM": partial(TSVM, C_star=0.0, balance=False),
    "CCCP": partial(TSVM, algorithm="cccp"),
    "single loop": partial(TSVM, algorithm="single-loop"),
    "label switching": SwitchingTSVM,
    "∇TSVM": GradientTSVM,
    "continuation": ContinuationTSVM,
    "S4VM": partial(S4VM, random_state=0),
    "exact": partial(ExactTSVM, max_nodes=MOST_NODES, tol=1e-5),
}


def gaussians(rng, m, distance):
    signs = np.tile([-1.0, 1.0], LABELED + UNLABELED // 2)
    return rng.normal(size=(len(signs), m)) + signs[:, None] * distance / 2 / np.sqrt(m), signs


def two_moons(rng):
    X, moon = make_moons(2 * LABELED + UNLABELED, noise=0.1, random_state=int(rng.integers(2**31)))
    return X, 2.0 * moon - 1


def two_classes(rng, X, codes):
    """Rows of two classes of a table, drawn at random; features in units of their mean length."""
    pair = rng.choice(codes.max() + 1, 2, replace=False)
    half = LABELED + UNLABELED // 2
    rows = np.concatenate([rng.choice(np.flatnonzero(codes == k), half, replace=False) for k in pair])
    X = X[rows] - X[rows].mean(axis=0)
    return X / np.sqrt(np.square(X).sum(axis=1).mean()), np.repeat([-1.0, 1.0], half)


def families(folder):
    """Return {name: function of a generator that draws rows and signs}."""
    digits, codes = load_digits(return_X_y=True)
    alike = np.isin(codes, (3, 5, 8, 9))
    digits, codes = digits[alike], np.unique(codes[alike], return_inverse=True)[1]
    made_up = {
        "gaussians, 2 features": partial(gaussians, m=2, distance=3.0),
        "gaussians, 10 features": partial(gaussians, m=10, distance=3.0),
        "two moons, RBF": two_moons,
        "two moons, RBF, one label each": two_moons,
        "digits 3, 5, 8, 9": partial(two_classes, X=digits, codes=codes),
    }
    tables = {name: load(name, folder) for name in ("satimage", "spotify_genre")} if folder else {}
    return made_up | {name: partial(two_classes, X=X, codes=codes) for name, (X, codes) in tables.items()}


def price(X, y, signs, C, kernel):
    """Return the lowest J of a boundary that gives these signs to the unlabelled rows (y = 0)."""
    known = y != 0
    u = int((~known).sum())
    space = open_space(X[known], X[~known], np.ones(u), kernel, np.random.default_rng(0))
    cost, cost_star = np.full(int(known.sum()), C), np.full(u, C * known.sum() / u)
    target = np.array([y[known].mean()])
    rows = FixedSigns.of(Problem(space.labeled, y[known][None], cost, space.unlabeled, cost_star, target))
    start = np.zeros((1, space.labeled.shape[1]))
    return float(rows.solve(y[known], signs[None], start, tol=1e-8, max_sweeps=1000).objective[0])


def measure(family, draw, C, seed, methods):
    """Yield one line for each of these methods."""
    X, truth = draw(np.random.default_rng(seed))
    rng = np.random.default_rng(1000 + seed)
    n = 1 if "one label" in family else LABELED
    known = np.concatenate([rng.choice(np.flatnonzero(truth == k), n, replace=False) for k in (-1, 1)])
    y = np.zeros(len(truth))
    y[known] = truth[known]
    unlabeled = y == 0
    rbf = "RBF" in family
    kernel = partial(rbf_kernel, gamma=GAMMA) if rbf else None
    shape = {"kernel": "rbf", "gamma": GAMMA} if rbf else {}
    labels = np.where(unlabeled, None, np.where(y > 0, "plus", "minus"))
    for name in methods:
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = METHODS[name](C=C, probability=None, **shape).fit(X, labels)
        seconds = time.process_time() - begun
        signs = np.where(model.transduction_ == "plus", 1.0, -1.0)[unlabeled]
        yield {
            "family": family,
            "C": C,
            "seed": seed,
            "method": name,
            "objective": f"{price(X, y, signs, C, kernel):.8g}",
            "error": f"{100 * np.mean(signs != truth[unlabeled]):.2f}",
            "gap": f"{model.duality_gap_[0]:.1e}" if name == "exact" else "",
            "nodes": model.n_iter_ if name == "exact" else "",
            "seconds": f"{seconds:.3f}",
        }


def run(folder, seeds, place):
    done = pd.read_csv(place) if place.exists() else pd.DataFrame(columns=["family", "C", "seed", "method"])
    done = set(done[["family", "C", "seed", "method"]].itertuples(index=False, name=None))
    for seed in range(seeds):
        for family, draw in families(folder).items():
            for C in COSTS if "one label" not in family else COSTS[1:]:  # with C = 1 the search does not end
                missing = [name for name in METHODS if (family, C, seed, name) not in done]
                if not missing:
                    continue
                lines = pd.DataFrame(list(measure(family, draw, C, seed, missing)))
                lines.to_csv(place, mode="a", header=not place.exists(), index=False)
                print(f"{family}, C = {C:g}, {seed}: {', '.join(missing)}", file=sys.stderr, flush=True)


def read(place):
    """Return the problems whose minimum is proven, with `excess`: % by which the price of the labels is above it."""
    frame = pd.read_csv(place)
    exact = frame.loc[(frame["method"] == "exact") & (frame["gap"] <= PROVEN), ["family", "C", "seed", "objective"]]
    frame = frame.merge(exact.rename(columns={"objective": "minimum"}), on=["family", "C", "seed"])
    frame["excess"] = 100 * (frame["objective"] / frame["minimum"] - 1).clip(lower=0)
    return frame


def summary(frame):
    print(f"{len(frame) // len(METHODS)} problems with a proof")
    rows = frame.groupby("method", sort=False).agg(
        found=("excess", lambda x: 100 * (x < 0.01).mean()),
        mean_excess=("excess", "mean"),
        error=("error", "mean"),
        seconds=("seconds", "median"),
    )
    print(rows.round(2).to_string())
    for C, part in frame.groupby("C"):
        print(f"\nC = {C:g}: mean error, and mean excess")
        for figure in ("error", "excess"):
            print(part.pivot_table(figure, "method", "family", sort=False).round(1).to_string())


def figure(frame, place):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colours = dict(zip(METHODS, COLOURS, strict=True))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    for name in list(METHODS)[:-2]:  # S4VM does not look for a minimum
        excess = np.sort(frame.loc[frame["method"] == name, "excess"])
        share = 100 * np.arange(1, len(excess) + 1) / len(excess)
        left.step(np.maximum(excess, 0.01), share, where="post", color=colours[name], lw=2)
    left.set(xscale="log", xlim=(0.01, 1000), ylim=(0, 100), xlabel="at most so many % above the global minimum")
    left.set_xticks([0.01, 0.1, 1, 10, 100, 1000], ["0", "0.1", "1", "10", "100", "1,000"])
    left.set_ylabel("% of the problems")
    left.set_title("Objective of the labels")
    errors = frame.pivot_table("error", "family", "method", sort=False)
    places = np.arange(len(errors))
    for offset, name in zip(np.linspace(-0.3, 0.3, len(METHODS)), METHODS, strict=True):
        marker = "D" if name == "exact" else "o"
        right.plot(errors[name], places + offset, marker, color=colours[name], label=name, ms=6)
    right.set_yticks(places, errors.index)
    right.hlines(places[:-1] + 0.5, 0, 1, color="0.9", transform=right.get_yaxis_transform())
    right.invert_yaxis()
    right.set(xlabel="mean % of the unlabelled rows", xlim=(0, None))
    right.set_title("Error of the labels")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(METHODS))
    figure.savefig(place, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["run", "summary", "figure"])
    parser.add_argument("--tables", help="folder of Parquet files")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    if a.what == "run":
        run(a.tables, a.seeds, a.out)
    elif a.what == "summary":
        summary(read(a.out))
    else:
        figure(read(a.out), PICTURE)


if __name__ == "__main__":
    main()
