"""How many unlabelled rows are worth learning from, and what a fit to a table with very many of them takes.

    python benchmarks/unlabelled_rows.py curve FOLDER          # accuracy against unlabelled rows: an hour on one core
    python benchmarks/unlabelled_rows.py growth                # time and memory of deepsep fit: a quarter of an hour
    python benchmarks/unlabelled_rows.py choosing              # memory to choose rows of a hundred million: minutes
    python benchmarks/unlabelled_rows.py summary

FOLDER holds Parquet files with a `label` column; `tables.py` says how they become matrices. Of each population, a draw
takes 125 labelled rows, the same number of each class, 5,000 other rows to measure the accuracy on, which no fit sees,
and unlabelled rows from the rest. Both files grow line by line, and a cell that is done is not run again, so that a run
can be killed and resumed.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from deepsep_speed import survey
from tables import load

from deepsep import method

RESULTS = Path(__file__).parent / "results"
LABELS, TEST = 125, 5_000
PART = 200_000
REAL = ("adult", "hotel_segments", "cces2016_ideology", "census_segments", "letter")
SIZES = (0, 1_000, 10_000, 100_000, 1_000_000)
METHODS = {
    "tsvm": lambda draw: method("tsvm", random_state=draw),
    "deepsep": lambda draw: method("deepsep", random_state=draw),
    "deepsep, all rows": lambda draw: method("deepsep", propensity_rows=None, random_state=draw),
    "committee": lambda draw: method("committee", effort="fast", n_jobs=1, random_state=draw),
}


def clusters(n, d=20, c=5, each=3, seed=0):
    """Rows of c classes, each made of several clusters with few rows between them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(c, each, d)) * 0.9
    y = rng.integers(c, size=n)
    return (centres[y, rng.integers(each, size=n)] + rng.normal(size=(n, d))).astype(np.float32), y


MADE = {"overlapping": lambda n, seed: survey(n, 50, seed=seed), "clusters": lambda n, seed: clusters(n, seed=seed)}


def draw_rows(codes, draw):
    """Return labelled rows, test rows, and all others, in random order."""
    rng = np.random.default_rng(draw)
    order = rng.permutation(len(codes))
    each = LABELS // (codes.max() + 1)
    labeled = np.concatenate([order[codes[order] == k][: max(each, 1)] for k in range(codes.max() + 1)])
    rest = order[~np.isin(order, labeled)]
    return labeled, rest[:TEST], rest[TEST:]


@lru_cache(maxsize=2)
def population(name, folder, draw):
    """Return rows and classes; of a made population always as many, so that all sizes draw from the same one."""
    return MADE[name](SIZES[-1] + 2 * TEST, draw) if name in MADE else load(name, folder, 100_000)


def cells(a):
    """Yield population, size, method and draw, what is cheap first; a million rows once, without the slow ones."""
    steps = [(size, draw) for size in SIZES[:-2] for draw in range(a.draws)]
    steps += [(SIZES[-2], 0), (SIZES[-1], 0), *((SIZES[-2], draw) for draw in range(1, a.draws))]
    for size, draw in steps:
        for name in (*MADE, *REAL):
            for which in METHODS:
                if not (size == SIZES[-1] and which in ("committee", "deepsep, all rows")):
                    yield name, size, which, draw


def curve(a):
    """Measure the accuracy on new rows against the number of unlabelled rows."""
    out = a.out / "unlabelled_curve.csv"
    lines = pd.read_csv(out).to_dict("records") if out.exists() else []
    done = {(line["population"], line["asked"], line["method"], line["draw"]) for line in lines}
    for name, size, which, draw in cells(a):
        if (name, size, which, draw) in done:
            continue
        X, codes = population(name, a.folder, draw)
        labeled, test, rest = draw_rows(codes, draw)
        if len(rest) <= size / 10:  # the table has no more rows than at the size before
            continue
        rows = np.concatenate([labeled, rest[:size]])
        y = np.where(np.arange(len(rows)) < len(labeled), codes[rows], -1)
        start = time.process_time()
        model = METHODS[which](draw).fit(X[rows], y)
        line = {
            "population": name,
            "made": name in MADE,
            "asked": size,
            "unlabeled": len(rows) - len(labeled),
            "method": which,
            "draw": draw,
            "accuracy": round(100 * (model.predict(X[test]) == codes[test]).mean(), 2),
            "student": None,
            "seconds": round(time.process_time() - start, 1),
        }
        if getattr(model, "student_", None) is not None:
            line["student"] = round(100 * (model.student_.predict(X[test]) == codes[test]).mean(), 2)
        lines.append(line)
        pd.DataFrame(lines).to_csv(out, index=False, lineterminator="\n")
        print(line, file=sys.stderr, flush=True)


FITS = {"committee": ["--effort", "fast"]}


def overlapping(n, seed, d=50, c=5):
    """Rows of the same kind as those of ``survey``, of one population whatever the seed."""
    centres = np.zeros((c, d))
    centres[:, : d // 4] = np.random.default_rng(0).normal(size=(c, d // 4)) * 0.5
    rng = np.random.default_rng([1, seed])
    y = rng.integers(c, size=n)
    X = centres[y] + rng.normal(size=(n, d))
    X[:, ::7] = np.exp(X[:, ::7] / 2)
    return X.astype(np.float32), y


def make_table(rows, folder):
    """Write rows of 50 numbers, 500 of them labelled, to a Parquet file, part by part."""
    place = folder / f"{rows}.parquet"
    if place.exists():
        return place
    rng, writer, scratch = np.random.default_rng(0), None, place.with_suffix(".part")
    known = np.sort(rng.choice(rows, 500, replace=False))
    classes = np.array([f"class {k}" for k in range(5)], dtype=object)
    for start in range(0, rows, PART):
        X, codes = overlapping(min(PART, rows - start), start)
        label = np.where(np.isin(np.arange(start, start + len(X)), known), classes[codes], None)
        columns = {"id": np.arange(start, start + len(X)), **{f"x{i}": X[:, i] for i in range(50)}}
        table = pa.table({**columns, "label": pa.array(label, pa.string()), "truth": codes.astype(np.int8)})
        writer = pq.ParquetWriter(scratch, table.schema, compression="none") if writer is None else writer
        writer.write_table(table, row_group_size=PART)
    writer.close()
    scratch.replace(place)
    return place


def run_fit(source, options, folder):
    """Fit in a process of its own; return seconds of the clock and of the processor, and the peak memory in MB."""
    code = "from deepsep.cli import app; app()"
    command = [sys.executable, "-c", code, "fit", str(source), "--label", "label", "--id", "id", "--drop", "truth"]
    command += [*options, "--no-report", "-o", str(folder / "model"), "--quiet"]
    before, start, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    process = subprocess.Popen(command)
    while process.poll() is None:
        peak = max(peak, memory_of(process.pid))
        time.sleep(2)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, processor, peak / 1e6


def memory_of(process):
    """Return the bytes that a process and those it started hold, shared ones divided among them; Linux only."""
    try:
        size = int(re.search(r"Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text())[1]) * 1024
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, TypeError):  # it has just ended
        return 0
    return size + sum(memory_of(int(child)) for child in children)


def accuracy_of(source, folder):
    """Return how many of the unlabelled rows were predicted right, in per cent."""
    right = total = 0
    predictions = pq.ParquetFile(folder / "model" / "predictions.parquet").iter_batches(PART, columns=["id", "label"])
    truth = pq.read_table(source, columns=["truth"])["truth"].to_numpy()
    for batch in predictions:
        told = batch["label"].to_numpy(zero_copy_only=False)
        right += (told == np.array([f"class {k}" for k in range(5)], dtype=object)[truth[batch["id"].to_numpy()]]).sum()
        total += len(batch)
    assert total == len(truth) - 500, "every unlabelled row is predicted once"
    return 100 * right / total


def growth(a):
    """Measure time, memory and accuracy of ``deepsep fit`` against the number of unlabelled rows."""
    out, folder = a.out / "unlabelled_growth.csv", a.folder or Path("results") / "unlabeled"
    folder.mkdir(parents=True, exist_ok=True)
    lines = pd.read_csv(out).to_dict("records") if out.exists() else []
    for rows in map(int, a.rows.split(",")):
        for which in a.fits.split(","):
            if any((line["fit"], line["rows"]) == (which, rows) for line in lines):
                continue
            source = make_table(rows, folder)
            seconds, processor, peak = run_fit(source, FITS[which], folder)
            line = {
                "fit": which,
                "rows": rows,
                "seconds": round(seconds, 1),
                "processor_seconds": round(processor, 1),
                "peak_mb": round(peak),
                "accuracy": round(accuracy_of(source, folder), 2),
            }
            print(line, file=sys.stderr, flush=True)
            lines.append(line)
            pd.DataFrame(lines).to_csv(out, index=False, lineterminator="\n")


CHOOSING = r"""
import pathlib, re, sys, time
from deepsep.table.sampling import MAX_USEFUL_UNLABELED, choose_rows, open_tables
def peak():
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) * 1024
with open_tables(pathlib.Path(sys.argv[1])) as tables:
    before, start = peak(), time.process_time()
    choose_rows(tables, label="label", n=MAX_USEFUL_UNLABELED, seed=0)
    print(peak() - before, time.process_time() - start)
"""


def choosing(a):
    """Measure what it takes to choose the rows to learn from, which holds arrays of the length of the table."""
    lines, text = [], pa.string()
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        for rows in (10_000_000, 100_000_000):
            place = Path(folder) / f"{rows}.parquet"
            with pq.ParquetWriter(place, pa.schema({"label": text})) as writer:
                for _ in range(0, rows, 1_000_000):
                    label = pa.array(["gold", "blue"] * 25 + [None] * 999_950, text)
                    writer.write_table(pa.table({"label": label}))
            command = [sys.executable, "-c", CHOOSING, str(place)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            memory, seconds = map(float, done.stdout.split())
            line = {"unlabeled": 20_000, "rows": rows, "bytes_per_row": round(memory / rows, 1)}
            lines.append(line | {"processor_seconds": round(seconds, 1)})
            print(lines[-1], file=sys.stderr, flush=True)
    pd.DataFrame(lines).to_csv(a.out / "choosing_rows.csv", index=False, lineterminator="\n")


def summary(a):
    """Print the mean accuracies, and time and memory with their exponents from one size to the next."""
    frame = pd.read_csv(a.out / "unlabelled_curve.csv")
    for which, part in frame.groupby("method"):
        print(which, part.pivot_table(index="population", columns="asked", values="accuracy").round(2), sep="\n")
    frame = pd.read_csv(a.out / "unlabelled_growth.csv").sort_values(["fit", "rows"])
    for figure in ("processor_seconds", "peak_mb"):
        steps = np.log(frame[["rows", figure]]).groupby(frame["fit"]).diff()
        frame[f"{figure} exponent"] = (steps[figure] / steps["rows"]).round(2)
    print(frame.to_string(index=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("curve", "growth", "choosing", "summary"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rows", default="10000,100000,1000000,10000000")
    parser.add_argument("--fits", default=",".join(FITS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    globals()[a.part](a)


if __name__ == "__main__":
    main()
