"""Scoring on a local Ray cluster, compared with the same without Ray, and what killed workers and programs leave.

    python benchmarks/ray_cluster.py same      # here and with 1, 2 and 4 workers
    python benchmarks/ray_cluster.py kills --victim scoring     # ten kills of workers; also program

Rows have 20 columns of numbers. Seconds are the clock's, since the work is done in other processes; numbers of workers
take turns, and the median counts. On one machine Ray can only cost: what is measured is how much, and that the results
are the same.
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
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import ray
from deepsep_speed import survey
from killed_runs import differences, kill_after_lines

from deepsep import Committee, for_table, save
from deepsep.scoring import score_file

RESULTS = Path(__file__).parent / "results"
COLUMNS = [f"x{i}" for i in range(20)]
LABELED, UNLABELED = 200, 500  # rows of the committee whose student scores
WORKERS = (0, 1, 2, 4)  # 0: without Ray
VICTIMS = {
    "scoring": "a worker that scores",
    "program": "the program that scores, then started again",
}
KILLED = """
import sys
from deepsep.scoring import score_file
score_file(sys.argv[1], sys.argv[2], sys.argv[3], id="id", fast=True, batch_rows=500, engine="ray", workers=2,
           progress=lambda rows, share: print(rows, flush=True))
"""


class Bench:
    """A model with a student, and rows to score in parts."""

    def __init__(self, folder: Path, rows: int, parts: int) -> None:
        self.folder, self.rows = folder, rows
        first = LABELED + UNLABELED
        X, codes = survey(first + rows, len(COLUMNS))
        frame = pd.DataFrame(X, columns=COLUMNS)
        committee = Committee(members=["logistic-regression", "knn"], n_jobs=1, random_state=0)
        model = for_table(committee).fit(frame[:first], np.where(np.arange(first) < LABELED, codes[:first], -1))
        self.model = folder / "model"
        save(model, self.model)
        people = frame[first:].reset_index(drop=True)
        people.insert(0, "id", np.random.default_rng(0).permutation(rows))
        self.people = folder / "people"
        self.people.mkdir()
        for number, index in enumerate(np.array_split(np.arange(rows), parts)):
            people.iloc[index].to_parquet(self.people / f"part-{number:03d}.parquet", index=False)

    def score(self, workers: int, target: str, **options) -> pd.DataFrame:
        how = {"engine": "ray", "workers": workers} if workers else {}
        score_file(self.model, self.people, self.folder / target, id="id", fast=True, **how, **options)
        return read(self.folder / target)


def read(folder: Path) -> pd.DataFrame:
    return pq.read_table(folder).to_pandas().sort_values("id", ignore_index=True)


def start(workers: int) -> float:
    """Start a local cluster, and return how long it took."""
    began = time.perf_counter()
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return time.perf_counter() - began


def same(a):
    """Time scoring once per round with every number of workers, and compare the rows with those without Ray."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), a.rows or 400_000, 8)
        seconds, results, starts = {}, {}, {}
        for _ in range(a.repeats):
            for workers in WORKERS:
                if workers:
                    starts.setdefault(workers, []).append(start(workers))
                began = time.perf_counter()
                results[workers] = bench.score(workers, "scored")
                seconds.setdefault(workers, []).append(time.perf_counter() - began)
                print(f"{workers} workers: {seconds[workers][-1]:.1f} s", flush=True)
                ray.shutdown()
        middle = {workers: float(np.median(times)) for workers, times in seconds.items()}
        lines = [
            {
                "part": "scoring",
                "workers": workers,
                "rows": bench.rows,
                "seconds": round(middle[workers], 1),
                "times": round(middle[workers] / middle[0], 1),
                "different": int((results[0] != scored).any(axis=1).sum()),
                "same bits": bool(scored.equals(results[1])),
            }
            for workers, scored in results.items()
        ]
        for workers, times in starts.items():
            lines.append({"part": "start of Ray", "workers": workers, "seconds": round(float(np.median(times)), 1)})
        frame = pd.DataFrame(lines).convert_dtypes()
        frame.to_csv(a.out / "ray.csv", index=False)
        print(frame.to_string(index=False))


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
    """Kills one worker at a random moment after the first of them has started."""

    def __init__(self, name: str, chance: random.Random, within: float) -> None:
        super().__init__(daemon=True)
        self.kind, self.chance, self.wait = name, chance, chance.random() * within
        self.killed, self.over, self.began = 0, False, 0.0

    def run(self) -> None:
        while not self.over and not workers_of(self.kind):
            time.sleep(0.01)
        self.began = time.perf_counter()
        time.sleep(self.wait)
        found = workers_of(self.kind)
        if found and not self.over:
            os.kill(self.chance.choice(found), signal.SIGKILL)
            self.killed = 1


def kill_workers(name, work, kills, chance, within=3.0):
    """Do the work again and again, each time with a worker killed at a random moment; yield the results."""
    killed = 0
    while killed < kills:
        killer = Killer(name, chance, within)
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
        ways = {"scoring": kill_scoring, "program": kill_program}
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("same", "kills"))
    parser.add_argument("--victim", choices=[*VICTIMS], default="scoring", help="of kills")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    globals()[a.part](a)


if __name__ == "__main__":
    main()
