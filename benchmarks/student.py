"""The student of a committee: how far it is from its committee on new rows, and how fast it predicts.

    python benchmarks/student.py committees FOLDER           # fits the committees: minutes for each table and draw
    python benchmarks/student.py tables FOLDER               # teaches their students: seconds for each
    python benchmarks/student.py speed                       # beside LightGBM, in the same run: two minutes
    python benchmarks/student.py summary

FOLDER holds Parquet files with a `label` column; `tables.py` says how they are split. New rows are those beyond the
3,000 unlabelled ones that a committee of effort "fast" is fitted to; tables with fewer than 200 of them are left out.
What the committees say is kept in `results/student/` of the current folder, and a cell that is done is not run again,
so that a run can be killed and resumed, and the students taught anew without their committees. Seconds are the
processor's, which other programs disturb less than the clock's, so that rates are those of one core.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from deepsep_speed import survey
from tables import load, split, table_names

from deepsep import Committee, for_table, method
from deepsep.classifiers.committee.student import Student
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import TrainingRows
from deepsep.scoring import score_file

RESULTS = Path(__file__).parent / "results"
KEPT = Path("results") / "student"
LABELS = (125, 500)
LEAST_NEW = 200


def cells(a):
    """Yield every table, number of labels and draw that has new rows, with its rows."""
    for seed in range(a.draws):
        for labels in LABELS:
            for table in table_names(a.folder):
                X, codes = load(table, a.folder)
                labeled, unlabeled = split(codes, labels, seed)
                new = np.setdiff1d(np.arange(len(codes)), np.concatenate([labeled, unlabeled]))
                if table != "digits" and len(new) >= LEAST_NEW:
                    yield table, labels, seed, X, codes, labeled, unlabeled, new


def place_of(table, labels, seed):
    return KEPT / f"{table}-{labels}-{seed}.npz"


def committees(a):
    """Fit the committees, and keep what they say of their own rows and of the new ones."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for table, labels, seed, X, codes, labeled, unlabeled, new in cells(a):
        place = place_of(table, labels, seed)
        if place.exists():
            continue
        y = np.concatenate([codes[labeled], np.full(len(unlabeled), -1)])
        model = Committee(effort="fast", student=False, n_jobs=1, random_state=seed)
        model.fit(X[np.concatenate([labeled, unlabeled])], y)
        np.savez_compressed(
            place.with_suffix(".part.npz"), own=model.label_distributions_, new=model.predict_proba(X[new])
        )
        place.with_suffix(".part.npz").replace(place)
        print(table, labels, seed, file=sys.stderr, flush=True)


def tables(a):
    """Teach the students, and compare them with their committees on the new rows."""
    lines = pd.read_csv(a.out).to_dict("records") if a.out.exists() else []
    done = {(line["table"], line["labels"], line["draw"]) for line in lines}
    for table, labels, seed, X, codes, labeled, unlabeled, new in cells(a):
        place = place_of(table, labels, seed)
        if (table, labels, seed) in done or not place.exists():
            continue
        with np.load(place) as kept:
            own, p = kept["own"], kept["new"]
        at = np.concatenate([labeled, unlabeled])
        known = np.concatenate([codes[labeled], np.full(len(unlabeled), -1)])
        rows = TrainingRows(X[at], known, np.ones(len(at)), np.arange(own.shape[1]))
        teacher = Committee()
        teacher.classes_, teacher.n_features_in_ = np.arange(own.shape[1]), X.shape[1]
        start = time.process_time()
        with one_blas_thread():
            student = Student.of(teacher, rows, own, np.random.default_rng(seed))
        seconds = time.process_time() - start
        said, truth = student.predict(X[new]), codes[new]
        lines.append(
            {
                "table": table,
                "labels": labels,
                "draw": seed,
                "new rows": len(new),
                "committee": round(100 * (p.argmax(axis=1) == truth).mean(), 2),
                "student": round(100 * (said == truth).mean(), 2),
                "agreement": round(100 * (said == p.argmax(axis=1)).mean(), 2),
                "agreement held out": round(100 * student.agreement_, 2),
                "loss held out": round(100 * student.accuracy_loss_, 2),
                "seconds": round(seconds, 2),
            }
        )
        pd.DataFrame(lines).to_csv(a.out, index=False)


def speed(a):
    """Time a student beside LightGBM and its committee on rows of 50 columns."""
    X, codes = survey(3_500 + 300_000, 50)
    y, new = np.where(np.arange(3_500) < 500, codes[:3_500], -1), X[3_500:]
    model = Committee(effort="fast", n_jobs=1, random_state=0).fit(X[:3_500], y)
    lightgbm = method("lightgbm", random_state=0).fit(X[:3_500], y)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(50)])
    table = for_table(Committee(effort="fast", n_jobs=1, random_state=0)).fit(frame[:3_500], y)
    with tempfile.TemporaryDirectory() as folder:

        def score(n, fast):
            source = Path(folder) / f"{n}.parquet"
            frame[3_500 : 3_500 + n].to_parquet(source)
            return n, lambda: score_file(table, source, Path(folder) / "scored.parquet", fast=fast)

        programs = {
            "student": (300_000, lambda: model.student_.predict_proba(new)),
            "LightGBM": (30_000, lambda: lightgbm.predict_proba(new[:30_000])),
            "committee": (10_000, lambda: model.predict_proba(new[:10_000])),
            "deepsep score --fast": score(300_000, True),
            "deepsep score --exact": score(10_000, False),
        }
        rates = {name: n / median_seconds(run, a.repeats) for name, (n, run) in programs.items()}
    lines = [
        {"program": name, "rows per second": round(rate), "times LightGBM": round(rate / rates["LightGBM"], 1)}
        for name, rate in rates.items()
    ]
    frame = pd.DataFrame(lines)
    frame.to_csv(a.out.with_stem(f"{a.out.stem}_speed"), index=False)
    print(frame.to_string(index=False))


def median_seconds(run, repeats):
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return np.median(seconds)


def summary(a):
    frame = pd.read_csv(a.out)
    frame["loss"] = frame["committee"] - frame["student"]
    print(frame.groupby("table")[["committee", "student", "loss", "agreement"]].mean().round(2).to_string())
    figures = ["committee", "student", "loss", "agreement", "agreement held out", "loss held out", "seconds"]
    print(frame.groupby("labels")[figures].mean().round(2).to_string())
    print(f"{len(frame)} cells; mean loss {frame['loss'].mean():.2f}, largest {frame['loss'].max():.2f} points")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("committees", "tables", "speed", "summary"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "student.csv")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    globals()[a.part](a)


if __name__ == "__main__":
    main()
