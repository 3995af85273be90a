"""Scoring from a database into a table of it: speed beside `COPY` alone, memory, and what killed runs leave.

    python benchmarks/databases.py speed      # a million rows: two minutes on two busy cores
    python benchmarks/databases.py memory     # two minutes
    python benchmarks/databases.py kills      # ten kills for each system: ten minutes

The PostgreSQL server is Debian's, started as the tests start theirs, in a temporary folder, but with the default of
`fsync`: commits wait for the disk. Rows have 20 columns of numbers and an integer key, and the student of a committee
scores them. Seconds are the clock's, since the server works in processes of its own; programs take turns, and the
median counts.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import adbc_driver_postgresql.dbapi as postgresql_driver
import adbc_driver_sqlite.dbapi as sqlite_driver
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from deepsep_speed import survey
from killed_runs import differences, kill_after_lines

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import postgres

from deepsep import Committee, for_table, load, save
from deepsep.apps.sql import Query, score_query
from deepsep.scoring import score_file

RESULTS = Path(__file__).parent / "results"
COLUMNS = [f"x{i}" for i in range(20)]
PEOPLE = "select * from people"
MEMORY = r"""
import re, sys
from deepsep import load
from deepsep.apps.sql import Query, score_query
query = f"select * from people where id < {sys.argv[3]}"
score_query(load(sys.argv[1]), Query(sys.argv[2], query), "memory", id="id", fast=True, replace=True)
print(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
"""
KILLED = """
import sys
from deepsep.apps.sql import Query, score_query
score_query(sys.argv[1], Query(sys.argv[2], "select * from people"), "scores", id="id", fast=True,
            batch_rows=int(sys.argv[3]), progress=lambda rows, share: print(rows, flush=True))
"""
BATCH = 500  # rows, of the runs that are killed


class Bench:
    """A server, files of the other systems, and a model, for rows in all of them."""

    def __init__(self, folder: Path, server: postgres.Server, rows: int) -> None:
        self.folder, self.rows = folder, rows
        X, codes = survey(3_500 + rows, len(COLUMNS))
        frame = pd.DataFrame(X, columns=COLUMNS)
        y = np.where(np.arange(3_500) < 500, codes[:3_500], -1)
        committee = Committee(effort="fast", n_jobs=1, random_state=0)
        save(for_table(committee).fit(frame[:3_500], y), folder / "model")
        self.model = load(folder / "model")
        people = frame[3_500:].reset_index(drop=True)
        people.insert(0, "id", np.random.default_rng(0).permutation(rows))
        incoming = pa.Table.from_pandas(people, preserve_index=False)
        pq.write_table(incoming, folder / "people.parquet")
        self.places = {
            "PostgreSQL": server.url,
            "SQLite": str(folder / "people.sqlite"),
            "DuckDB": str(folder / "people.duckdb"),
        }
        for name in ("PostgreSQL", "SQLite"):
            with self.connect(name) as connection, connection.cursor() as cursor:
                cursor.adbc_ingest("people", incoming, mode="create")
                connection.commit()
        with duckdb.connect(self.places["DuckDB"]) as connection:
            connection.execute("create table people as select * from incoming")

    def connect(self, name: str):
        driver = postgresql_driver if name == "PostgreSQL" else sqlite_driver
        return driver.connect(self.places[name])

    def get(self, name: str, sql: str) -> pd.DataFrame:
        if name == "DuckDB":
            with duckdb.connect(self.places[name]) as connection:
                return connection.sql(sql).df()
        with self.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table().to_pandas()

    def score(self, name: str, to: str) -> None:
        query = Query(self.places[name], PEOPLE)
        score_query(self.model, query, to, id="id", fast=True, replace=True)


def speed(a, bench, server):
    """Time every way once per round, and write medians."""
    bench.score("PostgreSQL", "scores")
    psql = [postgres.programs() / "psql", server.url, "-q", "-v", "ON_ERROR_STOP=1", "-c"]
    like = "create table copied (like scores including all)"
    kept = bench.folder / "copy.bin"

    def do(*statements):
        for statement in statements:
            subprocess.run([*psql, statement], check=True)

    def copy(scores):
        do(f"\\copy ({PEOPLE} order by id) to '/dev/null' (format binary)")
        do(
            "drop table copied",
            like,
            f"\\copy copied from '{scores}' (format binary)",
        )

    do("create table copied ()")
    do(f"\\copy scores to '{kept}' (format binary)")
    programs = {
        "COPY out and COPY in": lambda: copy(kept),
        "PostgreSQL to a table": lambda: bench.score("PostgreSQL", "scores"),
        "SQLite to a table": lambda: bench.score("SQLite", "scores"),
        "DuckDB to a table": lambda: bench.score("DuckDB", "scores"),
        "Parquet to Parquet": lambda: score_file(
            bench.model, bench.folder / "people.parquet", bench.folder / "scored.parquet", id="id", fast=True
        ),
    }
    seconds = {name: [] for name in programs}
    for _ in range(a.repeats):
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            seconds[name].append(time.perf_counter() - start)
            print(f"{name}: {seconds[name][-1]:.1f} s", flush=True)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    lines = [
        {
            "program": name,
            "rows": bench.rows,
            "rows per second": round(bench.rows / value),
            "times COPY": round(value / medians["COPY out and COPY in"], 2),
        }
        for name, value in medians.items()
    ]
    write(lines, a.out / "databases.csv")


def memory(a, bench, server):
    """Measure the peak memory of a process that scores a tenth of the rows, or all."""
    lines = []
    for name, place in bench.places.items():
        for rows in (bench.rows // 10, bench.rows):
            command = [sys.executable, "-c", MEMORY, bench.folder / "model", place, rows]
            done = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
            lines.append({"system": name, "rows": rows, "peak memory, MB": round(int(done.stdout) / 1000)})
    write(lines, a.out / "databases_memory.csv")


def kills(a, bench, server):
    """Kill a scoring ten times, each time after some batches and a moment, then let it end."""
    chance, lines = random.Random(0), []
    for name, place in bench.places.items():
        bench.score(name, "whole")
        command = [*map(str, (sys.executable, "-c", KILLED, bench.folder / "model", place, BATCH))]
        killed = written = 0
        while killed < a.kills:
            batches = chance.randrange(max((bench.rows - written) // BATCH // 4, 1))
            kill_after_lines(command, batches, chance.random() * 0.03)
            killed += 1
            written = int(bench.get(name, "select count(*) as n from scores")["n"][0])
            print(f"{name}: killed with {written:,} rows in the table", flush=True)
            assert written % BATCH == 0, "half a batch"
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        whole = bench.get(name, "select * from whole order by id")
        found = bench.get(name, "select * from scores order by id")
        lines.append({"system": name, "rows": bench.rows, "kills": killed, **differences(whole, found)})
    write(lines, a.out / "databases_kills.csv")


def write(lines, place):
    frame = pd.DataFrame(lines)
    frame.to_csv(place, index=False)
    print(frame.to_string(index=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("speed", "memory", "kills"))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    server = postgres.Server(fsync=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder), server, a.rows or (100_000 if a.part == "kills" else 1_000_000))
            globals()[a.part](a, bench, server)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
