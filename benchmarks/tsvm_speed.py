"""Time the TSVM against the same procedure with other solvers inside, in one run, on one core.

Five one-vs-rest problems on rows that look like a network's embedding: 32 features in (-1, 1). Every program gets the
same rows, the same costs (C = 0.1, C* = (l/u) C) and the same balancing constraint, and starts from the supervised SVM.

    python benchmarks/tsvm_speed.py                # a few minutes; --quick leaves out the dense QP and 1,000,000 rows

Seconds depend on the machine; compare the columns of one run.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from deepsep import TSVM

C = 0.1
CLASSES = 5
FEATURES = 32


def embedding(n_labeled, n_unlabeled, seed=0):
    """Rows of five overlapping classes after a tanh, single precision; the unlabelled ones come last."""
    rng = np.random.default_rng(seed)
    n = n_labeled + n_unlabeled
    centres = rng.normal(size=(CLASSES, FEATURES)) * 0.42
    y = rng.integers(CLASSES, size=n)
    y[:CLASSES] = np.arange(CLASSES)
    X = np.empty((n, FEATURES), np.float32)
    for start in range(0, n, 100_000):
        rows = slice(start, start + 100_000)
        X[rows] = np.tanh(centres[y[rows]] + 0.6 * rng.normal(size=X[rows].shape))
    y[n_labeled:] = -1
    return X, y


def timed(run):
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


# -- the other solvers ---------------------------------------------------------------------------------------


def objective(w, r, X, sign, n_labeled, C_star):
    f = X @ w + r
    hinge = np.maximum(0, 1 - sign * f[:n_labeled]).sum()
    return 0.5 * w @ w + C * hinge + C_star * np.maximum(0, 1 - np.abs(f[n_labeled:])).sum()


def cccp_with(step, X, y, classes):
    """CCCP with fixed signs in each step; returns the sum of the objectives and the number of convex problems."""
    n_labeled = int((y >= 0).sum())
    u = len(y) - n_labeled
    C_star = C * n_labeled / u
    X = X.astype(np.float64)
    X = X - X[n_labeled:].mean(axis=0)
    cost = np.concatenate([np.full(n_labeled, C), np.full(u, C_star)])
    total, solved = 0.0, 0
    for k in classes:
        sign = np.where(y[:n_labeled] == k, 1.0, -1.0)
        r = 2 * float((sign > 0).mean()) - 1
        start = LinearSVC(C=C, loss="hinge", intercept_scaling=10.0).fit(X[:n_labeled], sign)
        guess = np.sign(start.decision_function(X[n_labeled:]))
        while True:
            signs = np.concatenate([sign, guess])
            w = step(X, signs, cost, r)
            solved += 1
            new = np.sign(X[n_labeled:] @ w + r)
            if np.array_equal(new, guess) or solved > 200:
                break
            guess = new
        total += objective(w, r, X, sign, n_labeled, C_star)
    return total, solved


def linear_svc_step(X, signs, cost, r):
    """Margins 1 - sign r as a rescaling of the rows, so that LinearSVC, at its default tolerance, solves the step."""
    margin = 1 - signs * r
    model = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, max_iter=100_000, random_state=0)
    return model.fit(X / margin[:, None], signs, sample_weight=cost * margin).coef_[0]


def quadprog_step(X, signs, cost, r):
    """The dense dual: one variable a row, an n x n matrix."""
    import quadprog

    n = len(signs)
    rows = signs[:, None] * X
    matrix = rows @ rows.T + 1e-8 * np.eye(n)
    alpha = quadprog.solve_qp(
        matrix, 1 - signs * r, np.hstack([np.eye(n), -np.eye(n)]), np.concatenate([np.zeros(n), -cost])
    )[0]
    return alpha @ rows


def ours(X, y, **settings):
    model = TSVM(C=C, probability=None, random_state=0, **settings).fit(X, y)
    return sum(path[-1] for path in model.objective_path_), model


# -- the tables ----------------------------------------------------------------------------------------------


def table_of_solvers(quick, repeats):
    print(
        f"Whole TSVM, five classes, seconds (sum of the objectives), medians of {repeats} turns in which every program"
    )
    print("runs once; ratios to the single loop, which solves to a relative duality gap of 1e-6\n")
    print("| l, u | single loop | cccp | CCCP + LinearSVC | ratio | dense QP (quadprog), one class | ratio per class |")
    print("|---|---|---|---|---|---|---|")
    for n_labeled, u, dense in ((35, 250, True), (500, 250, True), (2500, 4780, False), (500, 20_000, False)):
        X, y = embedding(n_labeled, u)
        programs = {
            "loop": lambda X=X, y=y: ours(X, y)[0],
            "steps": lambda X=X, y=y: ours(X, y, algorithm="cccp")[0],
            "svc": lambda X=X, y=y: cccp_with(linear_svc_step, X, y, range(CLASSES))[0],
        }
        programs["loop"]()
        turns = [{name: timed(run) for name, run in programs.items()} for _ in range(repeats)]
        seconds = {name: float(np.median([turn[name][0] for turn in turns])) for name in programs}
        ratio = float(np.median([turn["svc"][0] / turn["loop"][0] for turn in turns]))
        cells = [f"{n_labeled}, {u:,}"]
        cells += [f"{seconds[name]:.3f} ({turns[0][name][1]:.3f})" for name in programs] + [f"{ratio:.0f}×"]
        if dense and not quick:
            qp, _ = timed(lambda X=X, y=y: cccp_with(quadprog_step, X, y, [0]))
            cells += [f"{qp:.2f}", f"{qp / (seconds['loop'] / CLASSES):,.0f}×"]
        else:
            cells += ["–", "–"]
        print("| " + " | ".join(cells) + " |", flush=True)


def peak_memory(u):
    """Fit in a fresh process and return (seconds, peak memory over that of the imports, both over the rows' size)."""
    code = f"""
import resource, sys, time
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import tsvm_speed as t
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
t.ours(*t.embedding(50, 500))
before = peak()
X, y = t.embedding(500, {u})
start = time.perf_counter()
_, model = t.ours(X, y)
print(time.perf_counter() - start, (peak() - before) / X.nbytes, model.n_iter_, model.duality_gap_.max())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    return float(out[0]), float(out[1]), int(out[2]), float(out[3])


def table_of_growth(sizes):
    print("\nGrowth, single loop, 500 labels, single precision; memory includes the rows themselves\n")
    print("| u | seconds | passes | worst gap | peak memory / rows | exponent from u = 20,000 |")
    print("|---|---|---|---|---|---|")
    first = None
    for u in sizes:
        runs = sorted(peak_memory(u) for _ in range(3))
        seconds, memory, passes, gap = runs[1]
        first = first or (u, seconds)
        slope = "" if u == first[0] else f"{np.log(seconds / first[1]) / np.log(u / first[0]):.2f}"
        print(f"| {u:,} | {seconds:.2f} | {passes} | {gap:.1e} | {memory:.1f}× | {slope} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="without the dense QP and without 1,000,000 rows")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table_of_solvers(arguments.quick, repeats=5)
    table_of_growth([20_000, 200_000] if arguments.quick else [20_000, 200_000, 1_000_000])
