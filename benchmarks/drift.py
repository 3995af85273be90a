"""Drift: alarms about tables of the same population, what is detected, and what the comparison costs.

    python benchmarks/drift.py columns FOLDER      # columns of random halves, as they are and changed: minutes
    python benchmarks/drift.py answers FOLDER      # answers of models about other halves: half an hour on one core
    python benchmarks/drift.py cost FOLDER         # processor time of scoring with the comparison and without
    python benchmarks/drift.py summary

FOLDER holds Parquet files with a `label` column. One random half of a table, or 300 rows of it, is the training table;
of the other half 100 rows, 1,000 rows or all are compared with it. Changes are made to one random column of these rows.
All rows are counted, of large files too. A cell that is done is not run again. Seconds are the processor's.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import subprocess
import sys
import tempfile
import warnings
from itertools import product
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import numpy as np
import pandas as pd

from deepsep import for_table, method, save
from deepsep.drift.counts import Counts
from deepsep.drift.differences import find_drift
from deepsep.drift.profile import profile_table
from deepsep.scoring import compare_with_training, remember_training, score_file
from deepsep.table.columns import UsefulColumns

RESULTS = Path(__file__).parent / "results"
SIZES = (100, 1_000, 0)  # rows compared; 0: all of the other half
DRAWS, MODELS = 12, ("logistic-regression", "random-forest", "tsvm")
ROWS = 8_000  # of a table that a model is fitted to
LABELS = 125


def read(folder, table):
    frame = pd.read_parquet(Path(folder) / f"{table}.parquet")
    return frame.drop(columns="label"), frame["label"].to_numpy()


def halves(n, draw, table):
    rng = np.random.default_rng([draw, *table.encode()])
    order = rng.permutation(n)
    return order[: n // 2], order[n // 2 :], rng


def columns(a):
    """Compare columns only, which takes no model."""
    out = Lines(RESULTS / "drift.csv")
    for table in tables(a.folder):
        X, label = read(a.folder, table)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X = UsefulColumns().fit_transform(X)
        for draw in range(DRAWS):
            train, other, rng = halves(len(X), draw, table)
            for few in (False, True):
                if out.has(part="columns", table=table, draw=draw, training_rows=300 if few else len(train)):
                    continue
                known = X.iloc[train[:300] if few else train]
                lines, usual = [], profiled(known)
                for size in SIZES:
                    rows = X.iloc[other[: size or None]]
                    if size and len(rows) < size:
                        continue
                    of_rows = label[other[: size or None]]
                    for change, then, now, where in changes(known, rows, of_rows, rng):
                        profile = usual if then is known else profiled(then)
                        counts = Counts(profile)
                        counts.add_columns(now)
                        found = find_drift(profile, counts, ["a", "b"])
                        drifted = [name for name, column in found["columns"].items() if column["drifted"]]
                        lines.append(
                            {
                                "part": "columns",
                                "table": table,
                                "draw": draw,
                                "training_rows": len(known),
                                "rows": len(now),
                                "sample": size,
                                "change": change,
                                "columns": X.shape[1],
                                "drifted": len(drifted),
                                "detected": int(any(name in drifted for name in where) if where else bool(drifted)),
                            }
                        )
                out.add(lines)


def profiled(frame):
    return profile_table(frame, None)


def changes(known, rows, labels, rng):
    """Yield each change with the training table, the rows to compare and the columns that changed; at first none."""
    yield "none", known, rows, []
    numbers = [name for name in rows if pd.api.types.is_numeric_dtype(rows[name]) and known[name].nunique() > 10]
    texts = [name for name in rows if not pd.api.types.is_numeric_dtype(rows[name])]
    if numbers:
        name = rng.choice(numbers)
        yield "x 1,000", known, rows.assign(**{name: rows[name] * 1_000}), [name]
        yield "+ 0.5 sd", known, rows.assign(**{name: rows[name] + known[name].std() / 2}), [name]
        yield "gaps 5 to 30 %", with_gaps(known, name, 0.05, rng), with_gaps(rows, name, 0.3, rng), [name]
    if len(numbers) > 1:
        one, other = rng.choice(numbers, 2, replace=False)
        yield "two swapped", known, rows.assign(**{one: rows[other], other: rows[one]}), [one, other]
    if texts:
        name = rng.choice(texts)
        new = rows[name].mask(rng.random(len(rows)) < 0.05, "a new level")
        yield "new level, 5 %", known, rows.assign(**{name: new}), [name]
    at = tilted(labels, rng)
    yield "one class x 4", known, rows.iloc[at], []


def tilted(labels, rng):
    """Return rows drawn again, those of one class four times as often."""
    weight = np.where(labels == rng.choice(np.unique(labels)), 4.0, 1.0)
    return rng.choice(len(labels), len(labels), p=weight / weight.sum())


def with_gaps(frame, name, share, rng):
    gap = rng.random(len(frame)) < share
    return frame.assign(**{name: frame[name].mask(gap)})


def answers(a):
    """Fit models to one half, and compare the other with it, columns and answers."""
    out = Lines(RESULTS / "drift_answers.csv")
    for draw in range(a.draws):
        for name in MODELS if draw == 0 else MODELS[:1]:
            for table in tables(a.folder):
                if out.has(part=name, table=table, draw=draw):
                    continue
                X, label = read(a.folder, table)
                at = np.random.default_rng(0).permutation(len(X))[:ROWS]
                X, label = X.iloc[at], label[at]
                train, other, rng = halves(len(X), draw, table)
                y = np.where(np.arange(len(train)) < LABELS, label[train], None)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = for_table(method(name, random_state=0)).fit(X.iloc[train], y)
                    remember_training(model, X.iloc[train], y)
                lines = []
                for size in SIZES:
                    rows = other[: size or None]
                    if size and len(rows) < size:
                        continue
                    for change, chosen in (("none", rows), ("one class x 4", rows[tilted(label[rows], rng)])):
                        found = compare_with_training(model, X.iloc[chosen])
                        confidence = found["answers"].get("confidence", {})
                        lines.append(
                            {
                                "part": name,
                                "table": table,
                                "draw": draw,
                                "training_rows": len(train),
                                "rows": len(chosen),
                                "sample": size,
                                "change": change,
                                "columns": len(found["columns"]),
                                "drifted": sum(bool(column["drifted"]) for column in found["columns"].values()),
                                "detected": int(found["drifted"]),
                                "classes": int("classes" in found["answers"]["drifted"]),
                                "confidence": int("confidence" in found["answers"]["drifted"]),
                                "confidence_distance": confidence.get("distance"),
                            }
                        )
                out.add(lines)


def cost(a):
    """Time score_file, and the whole command, with the comparison and without, in turns."""
    lines = []
    for name in ("logistic-regression", "lightgbm"):
        for table in ("adult", "nhanes_segments", "hotel_segments", "kaggle2021_segments", "letter"):
            X, label = read(a.folder, table)
            y = np.where(np.arange(len(X)) < 500, label, None)
            some = np.arange(len(X)) < 3_000
            with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place:
                warnings.simplefilter("ignore")
                rows, target = Path(place, "rows.parquet"), Path(place, "scored.parquet")
                X.to_parquet(rows)
                model = for_table(method(name, random_state=0)).fit(X[some], y[some])
                save(model, Path(place, "without"))
                remember_training(model, X[some], y[some])
                save(model, Path(place, "with"))
                profile = model.training_profile_
                seconds = {key: [] for key in product(("function", "command"), ("without", "with"))}
                for turn, (what, how) in product(range(6), seconds):
                    if what == "command" and turn > 2:
                        continue
                    model.training_profile_ = profile if how == "with" else None
                    began = processor_seconds()
                    if what == "function":
                        score_file(model, rows, target)
                    else:
                        command = [sys.executable, "-m", "deepsep", "score", Path(place, how), rows, "-o", target]
                        subprocess.run(command, check=True, capture_output=True)
                    seconds[what, how].append(processor_seconds() - began)
            line = [table, name, len(X), X.shape[1]]
            for what in ("function", "command"):
                without, with_it = (min(seconds[what, how]) for how in ("without", "with"))
                line += [f"{without:.3f}", f"{with_it:.3f}", f"{100 * (with_it / without - 1):.1f} %"]
            lines.append(line)
            print(*lines[-1], file=sys.stderr, flush=True)
    names = ["table", "method", "rows", "columns", "seconds_without", "seconds_with", "of score_file"]
    names += ["command_without", "command_with", "of deepsep score"]
    pd.DataFrame(lines, columns=names).to_csv(RESULTS / "drift_cost.csv", index=False)


def processor_seconds():
    """Return the processor time of this process and of the children that have ended."""
    return sum(each.ru_utime + each.ru_stime for each in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


class Lines:
    """The lines of the result file, to which those of a cell are added together."""

    def __init__(self, path):
        self.path = path
        self.frame = pd.read_csv(path) if path.exists() else pd.DataFrame()

    def has(self, **cell):
        found = pd.Series(True, self.frame.index)
        for column, value in cell.items():
            found &= self.frame[column] == value if len(self.frame) else False
        return found.any()

    def add(self, lines):
        self.frame = pd.concat([self.frame, pd.DataFrame(lines)], ignore_index=True)
        for name in ("classes", "confidence"):
            if name in self.frame:
                self.frame[name] = self.frame[name].astype("Int64")
        self.frame.to_csv(self.path.with_suffix(".part"), index=False, float_format="%.4f")
        self.path.with_suffix(".part").replace(self.path)
        print(*list(lines[0].values())[:4], file=sys.stderr, flush=True)


def tables(folder):
    return sorted(path.stem for path in Path(folder).glob("*.parquet"))


def summary(a):
    """Print the share of the files with an alarm, by change and number of rows."""
    frame = pd.read_csv(RESULTS / "drift.csv")
    groups = frame.assign(few=frame["training_rows"] == 300).groupby(["change", "few", "sample"])["detected"]
    print(groups.agg(["mean", "sum", "size"]).round(3).to_string())
    frame = pd.read_csv(RESULTS / "drift_answers.csv")
    groups = frame.groupby(["part", "change", "sample"])[["detected", "classes", "confidence"]]
    print(groups.mean().round(3).join(groups.size().rename("files")).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["columns", "answers", "cost", "summary"])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--draws", type=int, default=DRAWS, help="halves of each table, for the answers")
    arguments = parser.parse_args()
    globals()[arguments.what](arguments)
