"""Scoring and fits on a local Ray cluster, beside the same without Ray, and what killed workers and programs leave.

    python benchmarks/ray_cluster.py same      # here and with 1, 2 and 4 workers
    python benchmarks/ray_cluster.py student --rows 20000       # the training of a student of so many rows alone
    python benchmarks/ray_cluster.py kills --victim scoring     # ten kills of workers; also TSVM, student, and program

Rows have 20 columns of numbers. Seconds are the clock's, since the work is done in other processes; ways take turns,
and the median counts. On one machine Ray can only cost: what is measured is how much, and that the results are the
same.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
os.environ.update(RAY_worker_niceness="0")  # Ray would let its workers wait for all other programs

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import ray
from deepsep_speed import survey
from killed_runs import differences, kill_after_lines

from deepsep import TSVM, Committee, for_table, save
from deepsep.cluster import on_ray
from deepsep.scoring import score_file

RESULTS = Path(__file__).parent / "results"
COLUMNS = [f"x{i}" for i in range(20)]
LABELLED, UNLABELLED = 200, 500  # rows of the committee that teaches the student
WORKERS = (0, 1, 2, 4)  # 0: without Ray
VICTIMS = {
    "scoring": "a worker that scores",
    "TSVM": "a worker of a TSVM",
    "student": "a worker that trains a student",
    "program": "the program that scores, then started again",
}
KILLED = """
import sys
from deepsep.scoring import score_file
score_file(sys.argv[1], sys.argv[2], sys.argv[3], id="id", fast=True, batch_rows=500, engine="ray", workers=2,
           progress=lambda rows, share: print(rows, flush=True))
"""


class TimedCommittee(Committee):
    """A committee that knows how long the training of its student took."""

    def _teach(self, *arguments):
        began = time.perf_counter()
        student = super()._teach(*arguments)
        self.student_seconds_ = time.perf_counter() - began
        return student


class Bench:
    """A model with a student, and rows to score in parts."""

    def __init__(self, folder: Path, rows: int, parts: int) -> None:
        self.folder, self.rows = folder, rows
        first = LABELLED + UNLABELLED
        self.X, codes = survey(first + rows, len(COLUMNS))
        frame = pd.DataFrame(self.X, columns=COLUMNS)
        self.y = np.where(np.arange(first) < LABELLED, codes[:first], -1)
        self.training = self.X[:first]
        model = for_table(self.committee()).fit(frame[:first], self.y)
        self.model = folder / "model"
        save(model, self.model)
        people = frame[first:].reset_index(drop=True)
        people.insert(0, "id", np.random.default_rng(0).permutation(rows))
        self.people = folder / "people"
        self.people.mkdir()
        for number, index in enumerate(np.array_split(np.arange(rows), parts)):
            people.iloc[index].to_parquet(self.people / f"part-{number:03d}.parquet", index=False)

    def committee(self):
        return Committee(members=["logistic-regression", "knn"], n_jobs=1, random_state=0)

    def score(self, workers: int, target: str, **options) -> pd.DataFrame:
        how = {"engine": "ray", "workers": workers} if workers else {}
        score_file(self.model, self.people, self.folder / target, id="id", fast=True, **how, **options)
        return read(self.folder / target)

    def tsvm(self, workers: int, n: int, **options):
        """Fit to so many rows, of which the first ones have labels."""
        model = TSVM()
        y = np.full(n, -1)
        y[:LABELLED] = self.y[:LABELLED]
        with on_ray(model, workers=workers, **options) if workers else nullcontext():
            return model.fit(self.X[:n], y)

    def student(self, workers: int):
        model = self.committee()
        with on_ray(model, workers=workers) if workers else nullcontext():
            return model.fit(self.training, self.y)


def read(folder: Path) -> pd.DataFrame:
    return pq.read_table(folder).to_pandas().sort_values("id", ignore_index=True)


def start(workers: int) -> float:
    """Start a local cluster, and return how long it took."""
    began = time.perf_counter()
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return time.perf_counter() - began


def same(a):
    """Time every way once per round, and compare the results with those without Ray."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), a.rows or 400_000, 8)
        ways = {
            "scoring": (lambda workers: bench.score(workers, "scored"), bench.rows),
            "TSVM": (lambda workers: bench.tsvm(workers, len(bench.X), shard_rows=a.shard_rows), len(bench.X)),
        }
        seconds, results, starts = {}, {}, {}
        for _ in range(a.repeats):
            for workers in WORKERS:
                if workers:
                    starts.setdefault(workers, []).append(start(workers))
                for name, (way, _) in ways.items():
                    began = time.perf_counter()
                    results[name, workers] = way(workers)
                    seconds.setdefault((name, workers), []).append(time.perf_counter() - began)
                    print(f"{name}, {workers} workers: {seconds[name, workers][-1]:.1f} s", flush=True)
                ray.shutdown()
            sizes = {name: rows for name, (_, rows) in ways.items()}
            lines = same_lines(sizes, seconds, results, bench.X)
            for workers, times in starts.items():
                lines.append({"part": "start of Ray", "workers": workers, "seconds": round(float(np.median(times)), 1)})
            write(lines, a.out / "ray.csv", lambda before: before["part"] == "student")


def student(a):
    """Time the training of a student once, without the fits of its committee."""
    rows, seconds, results = a.rows or UNLABELLED, {}, {}
    X, codes = survey(LABELLED + rows, len(COLUMNS))
    y = np.where(np.arange(len(X)) < LABELLED, codes, -1)
    for workers in a.workers:
        model = TimedCommittee(members=["logistic-regression"], n_jobs=1, random_state=0)
        if workers:
            start(workers)
        with on_ray(model, workers=workers) if workers else nullcontext():
            model.fit(X, y)
        ray.shutdown()
        results["student", workers], seconds["student", workers] = model.student_, [model.student_seconds_]
        print(f"student of {rows} rows, {workers} workers: {model.student_seconds_:.1f} s", flush=True)
        if workers:  # one after the other, since it takes long
            lines = same_lines({"student": rows}, seconds, results, X)
            others = lambda before: (before["part"] != "student") | (before["rows"] != rows)  # noqa: E731
            write(lines, a.out / "ray.csv", others)


def same_lines(sizes, seconds, results, X) -> list[dict]:
    lines = []
    for name, rows in sizes.items():
        for workers in [workers for part, workers in seconds if part == name]:
            median = float(np.median(seconds[name, workers]))
            lines.append(
                {
                    "part": name,
                    "workers": workers,
                    "rows": rows,
                    "seconds": round(median, 1),
                    "times": round(median / float(np.median(seconds[name, 0])), 1),
                    **compare(name, results[name, 0], results[name, 1], results[name, workers], X),
                }
            )
    return lines


def compare(name, here, one, there, X) -> dict:
    """How far a result differs from the one without Ray, and whether its bits are those of one worker."""
    if name == "scoring":
        return {"other labels": int((here != there).any(axis=1).sum()), "same bits": bool(there.equals(one))}
    rows = X[-20_000:]
    found = {
        "other labels": int((here.predict(rows) != there.predict(rows)).sum()),
        "largest difference": float(f"{abs(here.predict_proba(rows) - there.predict_proba(rows)).max():.1e}"),
    }
    if name == "student":
        return {**found, "agreement": round(there.agreement_, 4)}
    objective = [sum(path[-1] for path in model.objective_path_) for model in (here, there)]
    return {
        **found,
        "objective, relative": float(f"{abs(objective[1] / objective[0] - 1):.1e}"),
        "same bits": bool(np.array_equal(there.coef_, one.coef_)),
    }


def workers_of(name: str) -> list[int]:
    """Return the processes of Ray workers of one kind that belong to this program."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                raylet = parent(int(place.name))
                if parent(raylet) == os.getpid():
                    found.append(int(place.name))
        except OSError:
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Killer(threading.Thread):
    """Kills one worker at a random moment after the first of them has started, or what ``begun`` names."""

    def __init__(self, name: str, chance: random.Random, within: float, begun: str) -> None:
        super().__init__(daemon=True)
        self.kind, self.chance, self.wait, self.begun = name, chance, chance.random() * within, begun
        self.killed, self.over, self.began = 0, False, 0.0

    def run(self) -> None:
        while not self.over and not workers_of(self.begun):
            time.sleep(0.01)
        self.began = time.perf_counter()
        time.sleep(self.wait)
        found = workers_of(self.kind)
        if found and not self.over:
            os.kill(self.chance.choice(found), signal.SIGKILL)
            self.killed = 1


def kill_workers(name, work, kills, chance, within=3.0, begun=None):
    """Do the work again and again, each time with a worker killed at a random moment; yield the results."""
    killed = 0
    while killed < kills:
        killer = Killer(name, chance, within, begun or name)
        killer.start()
        result = work()
        killer.over = True
        if not killer.killed:
            within = time.perf_counter() - killer.began
        killer.join()
        killed += killer.killed
        print(f"{name}: {killed} killed", flush=True)
        if killer.killed:
            yield result


def kills(a):
    """Kill workers or the program at random moments, and compare what comes of it with undisturbed runs."""
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), a.rows or 100_000, 120 if a.victim == "program" else 40)
        ways = {"scoring": kill_scoring, "TSVM": kill_tsvm, "student": kill_student, "program": kill_program}
        found = ways[a.victim](bench, a.kills, chance)
    frame = pd.DataFrame([{"killed": VICTIMS[a.victim], "rows": bench.rows, "kills": a.kills, **found}])
    place = a.out / "ray_kills.csv"
    if place.exists():
        before = pd.read_csv(place)
        frame = pd.concat([before[before["killed"] != VICTIMS[a.victim]], frame])
    frame = frame.sort_values("killed", key=lambda names: names.map([*VICTIMS.values()].index)).convert_dtypes()
    frame = frame[["killed", "rows", "kills", *(name for name in ("lost", "twice", "different") if name in frame)]]
    place.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(place, index=False)
    print(frame.to_string(index=False))


def kill_scoring(bench, kills, chance):
    whole = bench.score(0, "whole")
    start(2)
    work = partial(bench.score, 2, "scored", batch_rows=500)
    found = [differences(whole, result) for result in kill_workers("Scorer", work, kills, chance)]
    ray.shutdown()
    return pd.DataFrame(found).sum().to_dict()


def kill_tsvm(bench, kills, chance):
    start(2)
    work = partial(bench.tsvm, 2, bench.rows, shard_rows=10_000)
    whole = work()
    found = [int((model.coef_ != whole.coef_).sum()) for model in kill_workers("ShardKeeper", work, kills, chance)]
    ray.shutdown()
    return {"different": sum(found)}


def kill_student(bench, kills, chance):
    """Compare weights of the network."""
    start(2)
    work = partial(bench.student, 2)
    whole = work().student_.network_weights_
    after_kills = kill_workers("RayTrainWorker", work, kills, chance, 15.0, "RayTrainWorker.run_train_fn")
    found = [
        sum(int((value != whole[name]).sum()) for name, value in model.student_.network_weights_.items())
        for model in after_kills
    ]
    ray.shutdown()
    return {"rows": UNLABELLED, "different": sum(found)}


def kill_program(bench, kills, chance):
    whole, target = bench.score(0, "whole"), bench.folder / "scored"
    command = [*map(str, (sys.executable, "-c", KILLED, bench.model, bench.people, target))]
    for killed in range(1, kills + 1):
        parts = chance.randrange(4) + done_before(bench.folder)
        rows = kill_after_lines(command, parts, chance.random() * 0.2)
        print(f"program: {killed} killed with {rows} rows scored", flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return differences(whole, read(target))


def done_before(folder: Path) -> int:
    """How many parts the killed runs have completed: they are reported at once."""
    return len(list(folder.glob(".scored.*/pieces/*-all.parquet")))


def write(lines, place, kept=None):
    """Write lines, beside those of the file that are kept."""
    frame = pd.DataFrame(lines).convert_dtypes()
    place.parent.mkdir(parents=True, exist_ok=True)
    if kept is not None and place.exists():
        before = pd.read_csv(place).convert_dtypes()
        frame = pd.concat([before[kept(before)], frame])
        order = {"scoring": 0, "TSVM": 1, "student": 2, "start of Ray": 3}
        frame = frame.sort_values(["part", "rows"], key=lambda part: part.map(order) if part.name == "part" else part)
        frame = frame.convert_dtypes()
    frame.to_csv(place, index=False)
    print(frame.to_string(index=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("same", "student", "kills"))
    parser.add_argument("--victim", choices=[*VICTIMS], default="scoring", help="of kills")
    parser.add_argument("--rows", type=int)
    parser.add_argument(
        "--workers", type=int, nargs="+", default=WORKERS, help="of student; 0, without Ray, and 1 first"
    )
    parser.add_argument("--shard-rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    globals()[a.part](a)


if __name__ == "__main__":
    main()
