"""What 50 more labels would buy: the gain that a learning curve promises against the true one.

    python benchmarks/learning_curve.py run FOLDER --first-seed 100 --seeds 2 --how random --jobs 14    # to calibrate
    python benchmarks/learning_curve.py run FOLDER --first-seed 0 --seeds 2 --how random --jobs 14      # to measure
    python benchmarks/learning_curve.py calibrate       # how likely the truth is, by two errors of the library
    python benchmarks/learning_curve.py summary

FOLDER holds Parquet files with a `label` column; `tables.py` says how they are split. A cell is one table, number of
labels and draw. The committee of effort "fast" is fitted to the labels and 1,000 unlabelled rows, and again with about
50 more labels of the same kind: drawn at random or, with `--how quota`, equally many of each class. The true gain is
the difference of its accuracies on all other rows of the table. The file of a cell in `results/learning_curve/` (which
is not kept in the repository) has what every promise is made from, so that `summary` makes it anew, and writes
`results/learning_curve.csv`. The spread was chosen on draws from 100 on; the others measure. Cells whose file exists
are not run again, so that a run can be killed and resumed.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from tables import load, split, table_names

from deepsep import Committee, method
from deepsep.core.labels import as_labels
from deepsep.evaluation.expected_accuracy import ExpectedAccuracy
from deepsep.evaluation.learning_curve import MORE_LABELS, Subsets, fit_subsets, learning_curve

RESULTS = Path(__file__).parent / "results"
LABELS = (35, 125, 500)
N_UNLABELED, FEWEST_UNLABELED = 1000, 500
STAND_INS = ("random-forest", "extra-trees")
TREES = 100
FIRST_TO_CALIBRATE = 100  # draws from here on chose the prior and the spread; those before it measure


@dataclass(frozen=True)
class Cell:
    """A table, and how its labels are drawn."""

    table: str
    labels: int
    seed: int
    how: str

    def place(self, kept):
        """Return the file of what is kept of the cell."""
        return kept / f"{self.how}-{self.table}-{self.labels}-{self.seed}.npz"


def draw(codes, cell):
    """Return (labelled rows, further labelled rows, unlabelled rows, all others)."""
    if cell.how == "quota":
        first, both = (split(codes, labels, cell.seed, 0)[0] for labels in (cell.labels, cell.labels + MORE_LABELS))
        further = np.setdiff1d(both, first)
    else:
        rows = np.random.default_rng(cell.seed).permutation(len(codes))
        first, further = rows[: cell.labels], rows[cell.labels : cell.labels + MORE_LABELS]
    rest = np.setdiff1d(np.arange(len(codes)), np.concatenate([first, further]))
    rest = np.random.default_rng([cell.seed, 1]).permutation(rest)
    return first, further, rest[:N_UNLABELED], rest[N_UNLABELED:]


def fit(X, codes, labeled, unlabeled, seed):
    """Return the committee, and the rows and labels that it was fitted to."""
    rows = np.concatenate([labeled, unlabeled])
    y = np.concatenate([codes[labeled], np.full(len(unlabeled), -1)])
    model = Committee(effort="fast", student=False, n_jobs=1, random_state=seed).fit(X[rows], y)
    return model, X[rows], as_labels(y)


def predict(model, X):
    """Return the classes of the rows."""
    return np.concatenate([model.predict(part) for part in np.array_split(X, max(1, len(X) // 2000))])


def run_cell(folder, cell, kept):
    """Fit the committee with fewer and with more labels, and keep the promise's parts and the truth."""
    warnings.simplefilter("ignore")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    X, codes = load(cell.table, folder)
    first, further, unlabeled, others = draw(codes, cell)
    began = time.perf_counter()
    # The further rows are unlabelled rows of the first fit, so that it sees the same rows.
    model, rows, labels = fit(X, codes, first, np.concatenate([further, unlabeled]), cell.seed)
    fitted = time.perf_counter()
    result = {"n": len(first), "more": len(further), "seconds": fitted - began}
    evidence = model.evidence_
    if evidence is not None:
        result |= {"expected": np.array(model.expected_accuracy_), "weight": evidence.weight}
        result |= {"repeats": evidence.repeats, "unseen": evidence.p.astype(np.float16), "codes": evidence.codes}
        pool = model.label_distributions_[len(first) :]
        for name in STAND_INS:
            began = time.perf_counter()
            forest = method(name, n_estimators=TREES, random_state=cell.seed)
            subsets = fit_subsets(forest, forest.training_rows(rows, labels), model.out_of_fold_.folds)
            result |= {f"{name}.labels": subsets.labels, f"{name}.right": subsets.right}
            result[f"{name}.seconds"] = time.perf_counter() - began
            result[f"{name}.agrees"] = agreement(forest, rows, labels, pool, subsets.labels, cell.seed)
    truth = codes[others]
    after = fit(X, codes, np.concatenate([first, further]), unlabeled, cell.seed)[0]
    right = [predict(each, X[others]) == truth for each in (model, after)]
    result |= {"before": right[0].mean(), "after": right[1].mean(), "test": len(truth)}
    result["changed"] = (right[0] != right[1]).mean()
    result["classes"] = codes.max() + 1
    for name in STAND_INS:
        forest = method(name, n_estimators=TREES, random_state=cell.seed)
        both = (first, np.concatenate([first, further]))
        result[f"{name}.true"] = [(forest.fit(X[at], codes[at]).predict(X[others]) == truth).mean() for at in both]
    place = cell.place(kept)
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as file:
        np.savez_compressed(file, **result)
    part.replace(place)


def agreement(forest, rows, labels, p, sizes, seed):
    """Return the committee's probability of the classes that forests with fewer labels predict, on unlabelled rows."""
    at = np.flatnonzero(labels.labeled)
    order = np.random.default_rng([seed, 2]).permutation(at)
    pool = rows[~labels.labeled]
    result = []
    for size in (*sizes, len(at)):
        some = order[: int(size)]
        predicted = forest.fit(rows[some], labels.codes[some]).predict(pool)
        result.append(p[np.arange(len(p)), predicted].mean())
    return result


def run_or_say(folder, cell, kept):
    """Run a cell; return what went wrong, if anything did."""
    try:
        return run_cell(folder, cell, kept)
    except Exception:
        return f"{cell}: {traceback.format_exc()}"


def has_rows(folder, table, labels):
    """Whether enough rows are left to learn from and to measure on."""
    return len(load(table, folder)[1]) - labels - MORE_LABELS - N_UNLABELED >= FEWEST_UNLABELED


def run(a):
    names = a.tables.split(",") if a.tables else [name for name in table_names(a.folder) if name != "digits"]
    tasks = [
        Cell(table, int(labels), seed, a.how)
        for seed in range(a.first_seed, a.first_seed + a.seeds)
        for table in names
        for labels in a.labels.split(",")
        if has_rows(a.folder, table, int(labels))
    ]
    todo = [cell for cell in tasks if not cell.place(a.kept).exists()]
    print(f"{len(todo)} of {len(tasks)} cells to do", file=sys.stderr, flush=True)
    jobs = (delayed(run_or_say)(a.folder, cell, a.kept) for cell in todo)
    for i, problem in enumerate(Parallel(a.jobs, return_as="generator_unordered")(jobs), 1):
        print(problem or f"{i}/{len(todo)}", file=sys.stderr, flush=True)


def promised(kept, stand_in, luck=0.15, **errors):
    """Return the gain that the learning curve promises, from what is kept of a cell."""
    subsets = Subsets(kept[f"{stand_in}.labels"], kept[f"{stand_in}.right"])
    today = ExpectedAccuracy(*kept["expected"].tolist())
    curve = learning_curve(subsets, kept["weight"], int(kept["n"]), today, repeats=int(kept["repeats"]), **errors)
    return curve.gain(int(kept["more"]), luck=luck)


def read(folder):
    """Yield the name of each cell and what is kept of it."""
    for file in sorted(folder.glob("*.npz")):
        how, table, labels, seed = file.stem.split("-")
        with np.load(file) as archive:
            yield Cell(table, int(labels), int(seed), how), dict(archive)


def calibrate(a):
    """Print how likely the true gains are, and how often the band holds, by the spread of the library."""
    kept = [kept for cell, kept in read(a.kept) if cell.seed >= FIRST_TO_CALIBRATE and "expected" in kept]
    true = np.array([each["after"] - each["before"] for each in kept])
    for subset_error in (0.02, 0.035, 0.05, 0.07, 0.1):
        for luck in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4):
            gains = [promised(each, a.stand_in, luck, subset_error=subset_error) for each in kept]
            value, error = np.transpose(gains)
            likely = stats.t.logpdf(true, 4, value, error).mean()
            holds = np.mean([gain.low <= own <= gain.high for gain, own in zip(gains, true, strict=True)])
            print(f"subset_error {subset_error:5} luck {luck:4}: {likely:.3f}, holds in {100 * holds:.0f} %")


def summary(a):
    """Write the promise and the truth of each cell, and print how often the band holds."""
    lines = []
    for cell, kept in read(a.kept):
        line = {"how": cell.how, "table": cell.table, "labels": cell.labels, "draw": cell.seed}
        line |= {"more": int(kept["more"])}
        line |= {"before": float(kept["before"]), "after": float(kept["after"])}
        if "expected" in kept:
            gain = promised(kept, a.stand_in)
            line |= {"seconds": float(kept["seconds"]), "curve_seconds": float(kept[f"{a.stand_in}.seconds"])}
            line |= {"expected": float(kept["expected"][0]), "promised": gain.value, "low": gain.low, "high": gain.high}
        lines.append(line)
    frame = pd.DataFrame(lines)
    frame["gain"] = frame["after"] - frame["before"]
    frame.round(5).to_csv(a.out, index=False, lineterminator="\n")
    frame["holds"] = (frame["low"] <= frame["gain"]) & (frame["gain"] <= frame["high"])
    frame["width"] = frame["high"] - frame["low"]
    known = frame.dropna(subset=["promised"])
    print(f"{len(known)} cells; {len(frame) - len(known)} without a promise: too few labels to hold any out")
    for to_calibrate, group in known.groupby(known["draw"] >= FIRST_TO_CALIBRATE):
        print("\ndraws to calibrate on" if to_calibrate else "\ndraws to measure on")
        for name, part in [("all", group), *group.groupby("how"), *group.groupby("labels")]:
            off = part["promised"] - part["gain"]
            print(
                f"  {name!s:<7} {len(part):4} cells: promised {100 * part['promised'].mean():+.2f}, true "
                f"{100 * part['gain'].mean():+.2f}; off by {100 * (off**2).mean() ** 0.5:.2f}; band "
                f"{100 * part['width'].mean():.1f} wide, holds in {100 * part['holds'].mean():.0f} %"
            )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("part", choices=("run", "calibrate", "summary"))
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--tables", help="default: all")
    parser.add_argument("--labels", default=",".join(map(str, LABELS)))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--how", choices=["random", "quota"], default="random")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=RESULTS / "learning_curve", help="folder of the cells' files")
    parser.add_argument("--stand-in", choices=STAND_INS, default=STAND_INS[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "learning_curve.csv")
    a = parser.parse_args(arguments)
    {"run": run, "calibrate": calibrate, "summary": summary}[a.part](a)


if __name__ == "__main__":
    main()
