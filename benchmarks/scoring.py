"""Scoring of a Parquet file, end to end, beside a bare pyarrow program and LightGBM with scikit-learn's encoding.

    python benchmarks/scoring.py speed --cores 2             # a few minutes; --cores 1 beside it
    python benchmarks/scoring.py stages                      # where the time of one core goes
    python benchmarks/scoring.py growth                      # memory and time from 1 to 20 million rows: 10 GB of disk
    python benchmarks/scoring.py kills                       # ten kills for each kind of target: ten minutes
    python benchmarks/scoring.py summary

The table has 50 columns of numbers, half of them whole, and 20 categories of 3 to 30 levels, all with gaps; the model
is the student of a committee, which scores files of this size. The bare program reads all columns and writes as many
columns as scoring does. Programs take turns, so that whatever else the machine does meets all of them; ratios are of
medians. Lines that are in the result file are not measured again: delete the file, or its lines, to do so.

`kills` runs the command `deepsep score` on a folder of parts. It is killed at a random moment of the work that is left,
and started again; once it has ended, its rows are compared with those of an undisturbed run, and it begins anew.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
NUMBERS, CATEGORIES = 50, 20
PIECE = 250_000  # rows made at a time
PROGRAMS = ("bare pyarrow", "deepsep score", "LightGBM")
PARTS, PART = 60, 20_000  # of the runs that are killed, and the rows of each
TARGETS = {"folder of Parquet files": "scores", "Parquet file": "scores.parquet", "CSV file": "scores.csv"}


def rows_of(n, seed):
    """Return some rows as an Arrow table, with their classes."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    columns = {}
    for j in range(NUMBERS):
        values = rng.normal(code * (j % 5 == 0), 1.0)
        values = values if j % 2 else np.round(np.exp(values + 3))
        columns[f"number {j}"] = pa.array(values, mask=rng.random(n) < 0.03)
    for j in range(CATEGORIES):
        size = 3 + 27 * j // (CATEGORIES - 1)
        names = pa.array([f"level {k} of {j}" for k in range(size)])
        level = ((rng.exponential(size / 4, n) + code * (j % 5 == 0)).astype(int)) % size
        columns[f"category {j}"] = names.take(pa.array(level, mask=rng.random(n) < 0.02))
    return pa.table(columns), code


def make(place, n):
    """Write a table of so many rows, in row groups of 250,000; every fifth group is like the first."""
    import pyarrow.parquet as pq

    if place.exists():
        return
    part = place.with_suffix(".part")
    first = rows_of(1, 0)[0]
    with pq.ParquetWriter(part, first.schema) as writer:
        pieces = [rows_of(min(PIECE, n), 1 + i)[0] for i in range(min(4, -(-n // PIECE)))]
        for i, start in enumerate(range(0, n, PIECE)):
            writer.write_table(pieces[i % 4][: n - start])
    part.replace(place)


def models(folder):
    """Return the folder of a committee with a student, and the file of a pipeline with LightGBM, fitted if need be."""
    import joblib
    import numpy as np
    from lightgbm import LGBMClassifier
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    from deepsep import Committee, for_table, save
    from deepsep.scoring import remember_training

    ours, theirs = folder / "model", folder / "lightgbm.joblib"
    table, code = rows_of(4_000, 0)
    frame = table.to_pandas()
    if not ours.exists():
        y = np.where(np.arange(4_000) < 500, code, -1)
        model = for_table(Committee(members=["logistic-regression", "lightgbm"], n_jobs=1, random_state=0)).fit(
            frame, y
        )
        remember_training(model, frame, y)
        save(model, ours)
    if not theirs.exists():
        numbers = [name for name in frame if name.startswith("number")]
        encoding = make_column_transformer(
            ("passthrough", numbers),
            (OneHotEncoder(handle_unknown="ignore", sparse_output=False), [n for n in frame if n not in numbers]),
        )
        classifier = LGBMClassifier(n_jobs=1, random_state=0, verbosity=-1)
        joblib.dump(make_pipeline(encoding, classifier).fit(frame[:500], code[:500]), theirs)
    return ours, theirs


# -- programs ------------------------------------------------------------------------------------------------------


def bare(source, target, cores):
    """Read all columns and write as many as scoring does."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(cores)
    writer, done = None, 0
    with pq.ParquetFile(source, pre_buffer=False) as file:
        for batch in file.iter_batches(20_000, use_threads=cores > 1):
            n, numbers = batch.num_rows, [batch.column(j) for j in range(1, 9, 2)]
            row = pa.array(np.arange(done, done + n))
            columns = [row, batch.column(NUMBERS), *numbers]
            table = pa.table(columns, ["row", "label", "a", "b", "c", "confidence"])
            writer = writer or pq.ParquetWriter(target, table.schema)
            writer.write_table(table)
            done += n
    writer.close()
    return done


def lightgbm(model, source, target, cores):
    """Score with scikit-learn's encoding and LightGBM, batch by batch."""
    import joblib
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(cores)
    pipeline = joblib.load(model)
    pipeline[-1].set_params(n_jobs=cores)
    writer, done = None, 0
    with pq.ParquetFile(source, pre_buffer=False) as file:
        for batch in file.iter_batches(20_000, use_threads=cores > 1):
            p = pipeline.predict_proba(batch.to_pandas())
            columns = [np.arange(done, done + len(p)), p.argmax(axis=1), *p.T, p.max(axis=1)]
            table = pa.table([pa.array(column) for column in columns], ["row", "label", "a", "b", "c", "confidence"])
            writer = writer or pq.ParquetWriter(target, table.schema)
            writer.write_table(table)
            done += len(p)
    writer.close()
    return done


def one(a):
    """Run one program, and print its seconds by the clock and of the processor, and its peak memory in MB."""
    import json

    import pyarrow as pa

    warnings.simplefilter("ignore")
    source, target, ours, theirs = a.files
    if a.program == "deepsep score":
        from deepsep import load
        from deepsep.scoring import score_file

        model = load(ours)
        pa.set_cpu_count(a.cores)

        def run():
            return score_file(model, source, target, fast=True)["rows"]
    elif a.program == "LightGBM":
        import lightgbm as _  # noqa: F401  importing is not scoring
        import sklearn.compose  # noqa: F401

        def run():
            return lightgbm(theirs, source, target, a.cores)
    else:
        import numpy as _np  # noqa: F401
        import pyarrow.parquet  # noqa: F401

        def run():
            return bare(source, target, a.cores)

    wall, processor = time.perf_counter(), time.process_time()
    rows = run()
    seconds = time.perf_counter() - wall, time.process_time() - processor
    # Not by getrusage, whose peak a process inherits from the one that started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps([rows, *seconds, int(peak.split()[1]) / 1024]))


def measure(program, cores, source, target, ours, theirs):
    """Return rows, seconds, processor seconds and peak memory of a program in a process of its own."""
    import json

    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    if program == "LightGBM":
        threads["OMP_NUM_THREADS"] = str(cores)
    files = [str(file) for file in (source, target, ours, theirs)]
    command = [sys.executable, __file__, "one", "--program", program, "--cores", str(cores), "--files", *files]
    command = ["taskset", "-c", ",".join(map(str, range(cores))), *command]
    done = subprocess.run(command, env=os.environ | threads, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def speed(a):
    """Time the three programs in turns, pinned to so many cores."""
    import pandas as pd

    source = a.folder / f"{a.rows}.parquet"
    a.folder.mkdir(exist_ok=True)
    make(source, a.rows)
    ours, theirs = models(a.folder)
    if any(line["part"] == "speed" and line["cores"] == a.cores for line in lines_of(a.out)):
        return
    runs = {program: [] for program in PROGRAMS}
    for _ in range(a.repeats):
        for program in PROGRAMS:
            runs[program].append(measure(program, a.cores, source, a.folder / "scored.parquet", ours, theirs))
            print(a.cores, program, *runs[program][-1], file=sys.stderr, flush=True)
    lines = lines_of(a.out)
    median = {program: pd.DataFrame(runs[program]).median().tolist() for program in PROGRAMS}
    for program in PROGRAMS:
        rows, wall, processor, memory = median[program]
        lines.append(
            {
                "part": "speed",
                "program": program,
                "cores": a.cores,
                "rows": int(rows),
                "repeats": a.repeats,
                "seconds": round(wall, 2),
                "processor_seconds": round(processor, 2),
                "times_bare": round(wall / median["bare pyarrow"][1], 2),
                "times_bare_processor": round(processor / median["bare pyarrow"][2], 2),
                "peak_mb": round(memory),
            }
        )
    keep(a.out, lines)


def growth(a):
    """Measure memory and time of `deepsep score` by the number of rows."""
    a.folder.mkdir(exist_ok=True)
    ours, theirs = models(a.folder)
    for rows in (1_000_000, 5_000_000, 20_000_000):
        source = a.folder / f"{rows}.parquet"
        if any(line["part"] == "growth" and line["rows"] == rows for line in lines_of(a.out)):
            continue
        make(source, rows)
        found = measure("deepsep score", a.cores, source, a.folder / "scored.parquet", ours, theirs)
        done, wall, processor, memory = found
        print(*found, file=sys.stderr, flush=True)
        line = {
            "part": "growth",
            "program": "deepsep score",
            "cores": a.cores,
            "rows": done,
            "repeats": 1,
            "seconds": round(wall, 1),
            "processor_seconds": round(processor, 1),
            "peak_mb": round(memory),
            "microseconds_per_row": round(1e6 * processor / done, 2),
        }
        keep(a.out, [*lines_of(a.out), line])
        source.unlink()


def stages(a):
    """Add up the processor's time in each stage, on one core, with the compiled encoding and without."""
    import pandas as pd
    import pyarrow as pa

    import deepsep.scoring.local as local
    from deepsep import load
    from deepsep.classifiers.committee.student import Student
    from deepsep.scoring import frame, job, score_file
    from deepsep.scoring.decisions import Decisions
    from deepsep.table.batches import TableFile
    from deepsep.table.columns import UsefulColumns
    from deepsep.table.compiled import CompiledEncoding
    from deepsep.table.encoder import TableEncoder

    warnings.simplefilter("ignore")
    pa.set_cpu_count(1)
    source = a.folder / f"{a.rows}.parquet"
    a.folder.mkdir(exist_ok=True)
    make(source, a.rows)
    model = load(models(a.folder)[0])
    seconds = {}

    def timed(owner, name, stage):
        method = getattr(owner, name)

        def wrapped(*args, **kwargs):
            start = time.process_time()
            try:
                return method(*args, **kwargs)
            finally:
                seconds[stage] = seconds.get(stage, 0.0) + time.process_time() - start

        setattr(owner, name, wrapped)

    batches = TableFile._slices

    def reading(*args):
        slices = batches(*args)
        while True:
            start = time.process_time()
            batch = next(slices, None)
            seconds["read"] = seconds.get("read", 0.0) + time.process_time() - start
            if batch is None:
                return
            yield batch

    TableFile._slices = reading
    job.available_cores = lambda: 1
    for name in ("read", "split", "matrix"):
        timed(CompiledEncoding, name, "columns" if name == "read" else "matrix")
    timed(frame, "to_frame", "columns")
    timed(UsefulColumns, "transform", "columns")
    timed(TableEncoder, "transform", "matrix")
    timed(type(model[2]), "transform", "matrix")
    in_parts = Student.in_parts

    def timed_parts(*args):
        holder = type("Holder", (), {"predict": staticmethod(in_parts(*args))})
        timed(holder, "predict", "network")
        return holder.predict

    Student.in_parts = timed_parts
    for name in ("predict_proba", "predict_bounded"):
        timed(Student, name, "network")
    timed(Decisions, "columns", "labels")
    timed(frame.Scored, "count", "drift")
    timed(local.Writer, "write", "write")
    compiled, lines = CompiledEncoding.of, [line for line in lines_of(a.out) if line["part"] != "stages"]
    for way in ("ordinary", "compiled"):
        CompiledEncoding.of = compiled if way == "compiled" else lambda model: None
        found = []
        for _ in range(a.repeats):
            seconds.clear()
            start = time.process_time()
            score_file(model, source, a.folder / "scored.parquet", fast=True)
            whole = time.process_time() - start
            found.append(dict(seconds) | {"rest": whole - sum(seconds.values()), "all": whole})
        for stage, value in pd.DataFrame(found).median().items():
            lines.append(
                {
                    "part": "stages",
                    "program": way,
                    "stage": stage,
                    "cores": 1,
                    "rows": a.rows,
                    "repeats": a.repeats,
                    "processor_seconds": round(value, 3),
                    "microseconds_per_row": round(1e6 * value / a.rows, 2),
                }
            )
            print(way, stage, round(1e6 * value / a.rows, 2), "microseconds per row", file=sys.stderr)
    keep(a.out, lines)


class KilledScoring:
    """The command `deepsep score` from a folder of parts to a target, and what it has left."""

    def __init__(self, model, parts, target):
        command = [sys.executable, "-m", "deepsep", "score", model, parts, "--id", "id", "--fast"]
        self.command = [*map(str, [*command, "--batch-size", PART // 4, "-o", target])]
        self.target = target

    def has_begun(self, process):
        return any(self.target.parent.glob(f".{self.target.name}.{process}-*.new"))

    def parts_done(self):
        return len(list(self.target.parent.glob(f".{self.target.name}.*.new/pieces/*-all.parquet")))

    def take(self):
        """Return the rows of the target, and remove it."""
        import shutil

        import pandas as pd

        rows = (pd.read_csv if self.target.suffix == ".csv" else pd.read_parquet)(self.target)
        shutil.rmtree(self.target) if self.target.is_dir() else self.target.unlink()
        return rows


def kills(a):
    """Kill `deepsep score` at random moments, and compare what it has written in the end with an undisturbed run."""
    import random

    import pandas as pd
    from killed_runs import differences, kill_after_seconds

    chance, lines = random.Random(0), []
    a.folder.mkdir(exist_ok=True)
    model, _ = models(a.folder)
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        parts = Path(folder) / "parts"
        make_parts(parts)
        for kind, name in TARGETS.items():
            run = KilledScoring(model, parts, Path(folder) / name)
            _, whole_seconds = kill_after_seconds(run.command, None, run.has_begun)
            whole, killed, resumed, found = run.take(), 0, 0, []
            while True:
                left = whole_seconds * max(1 - run.parts_done() / PARTS, 0.1)
                wait = chance.random() * left if killed < a.kills else None
                if kill_after_seconds(run.command, wait, run.has_begun)[0]:
                    killed, resumed = killed + 1, resumed + (run.parts_done() > 0)
                    print(f"{kind}: killed with {run.parts_done()} parts done", file=sys.stderr, flush=True)
                    continue
                found.append(differences(whole, run.take()))
                print(f"{kind}: ended, {found[-1]}", file=sys.stderr, flush=True)
                if wait is None:
                    break
            counts = pd.DataFrame(found).sum().to_dict()
            lines.append({"target": kind, "rows": len(whole), "kills": killed, "went on": resumed, **counts})
    pd.DataFrame(lines).to_csv(a.out.with_name("scoring_kills.csv"), index=False)
    print(pd.DataFrame(lines).to_string(index=False))


def make_parts(folder):
    """Write a folder of parts, with an identifier for every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for number in range(PARTS):
        table, _ = rows_of(PART, 1 + number)
        ids = pa.array(range(number * PART, (number + 1) * PART))
        pq.write_table(table.append_column("id", ids), folder / f"part-{number:02d}.parquet")


def lines_of(path):
    import pandas as pd

    return pd.read_csv(path).to_dict("records") if path.exists() else []


def keep(path, lines):
    import pandas as pd

    names = ["part", "program", "stage", "cores", "rows", "repeats", "seconds", "processor_seconds", "times_bare"]
    names += ["times_bare_processor", "peak_mb", "microseconds_per_row"]
    frame = pd.DataFrame(lines, columns=names)
    for name in ("cores", "rows", "repeats", "peak_mb"):
        frame[name] = frame[name].astype("Int64")
    frame.to_csv(path.with_suffix(".part"), index=False)
    path.with_suffix(".part").replace(path)


def summary(a):
    import pandas as pd

    print(pd.read_csv(a.out).to_string(index=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "stages", "growth", "kills", "summary", "one"))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "deepsep-scoring")
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--program", choices=PROGRAMS)
    parser.add_argument("--files", nargs=4)
    parser.add_argument("--out", type=Path, default=RESULTS / "scoring.csv")
    a = parser.parse_args()
    globals()[a.part](a)


if __name__ == "__main__":
    main()
