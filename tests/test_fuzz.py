"""Files damaged at random: each is read, or refused with an error of deepsep; none ends the process.

``DEEPSEP_FUZZ_SEEDS=20000 make slow`` tries more of them. To see one: ``damaged(data, f"{kind} {seed}")``.
"""

import bz2
import gzip
import json
import lzma
import os
import sqlite3
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from fuzzing import damaged, problems

from deepsep import for_table, method
from deepsep.apps.sql import Query
from deepsep.scoring import score_file
from deepsep.table import read_sample, read_table

DAMAGED = Path(__file__).parent / "data" / "damaged"
EDITED_MODELS = ("table-logistic-regression", "tsvm", "random-forest", "deepsep")
SEEDS = int(os.environ.get("DEEPSEP_FUZZ_SEEDS", "300"))


def people(n: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(n), "a": rng.normal(size=n).round(4), "b": rng.integers(0, 99, n)})
    frame.loc[::7, "a"] = np.nan
    frame["town"] = rng.choice(["Oslo", "Rome", "Bern", "Zürich"], n)
    frame["kind"] = pd.Categorical(rng.choice(["x", "yy", "zzz"], n))
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame["flag"] = rng.random(n) < 0.5
    frame["seg"] = np.where(np.arange(n) < 40, np.where(frame["b"] > 50, "hi", "lo"), None)
    return frame


def as_feather(compression: str) -> bytes:
    out = BytesIO()
    feather.write_feather(people(), out, compression=compression, chunksize=60)
    return out.getvalue()


def as_parquet(compression: str) -> bytes:
    out = BytesIO()
    pq.write_table(pa.Table.from_pandas(people()), out, compression=compression, row_group_size=60)
    return out.getvalue()


def as_text() -> bytes:
    return people().to_csv(index=False).encode()


def as_zip() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("people.csv", as_text())
    return out.getvalue()


def as_zstd() -> bytes:
    out = BytesIO()
    with pa.CompressedOutputStream(pa.PythonFile(out, "w"), "zstd") as stream:
        stream.write(as_text())
        stream.flush()
        return out.getvalue()


def as_excel() -> bytes:
    out = BytesIO()
    people(60).to_excel(out, index=False)
    return out.getvalue()


FILES = {
    "feather-lz4": lambda: as_feather("lz4"),
    "feather-plain": lambda: as_feather("uncompressed"),
    "parquet-snappy": lambda: as_parquet("snappy"),
    "parquet-plain": lambda: as_parquet("none"),
    "text": as_text,
    "text-gzip": lambda: gzip.compress(as_text()),
    "text-bz2": lambda: bz2.compress(as_text()),
    "text-xz": lambda: lzma.compress(as_text()),
    "text-zstd": as_zstd,
    "text-zip": as_zip,
    "excel": as_excel,
}


@pytest.fixture(scope="module")
def model():
    """A model for the table, fitted here once."""
    frame = people()
    return for_table(method("logistic-regression", random_state=0)).fit(frame.drop(columns=["id", "seg"]), frame["seg"])


def read_all(path: Path, model, *, whole: bool = True) -> None:
    """Read a table in every way that the commands do, touch all its cells, and score it."""
    for read in (
        lambda: read_table(path, label="seg", id="id", max_bytes=2 << 30),
        lambda: read_sample(path, label="seg", id="id", unlabeled=20, max_bytes=2 << 30),
        lambda: score_file(model, path, path.with_name("scored.csv"), id="id"),
    )[: 3 if whole else 1]:
        try:
            repr(read())
        except ValueError as error:
            if type(error).__module__ != "deepsep.errors":
                raise


@pytest.mark.parametrize("file", sorted(DAMAGED.iterdir()), ids=lambda file: file.name)
def test_files_that_once_ended_the_process_or_looked_like_a_bug(tmp_path: Path, model, file: Path) -> None:
    """Found at random: text beyond its buffer, codes beyond the categories, notes of pandas that are none."""
    if file.suffix == ".sav":
        pytest.importorskip("pyreadstat")
    path = tmp_path / file.name
    path.write_bytes(file.read_bytes())
    assert problems(lambda _: read_all(path, model), [0]) == []


@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_notes_of_pandas_are_hints(tmp_path: Path, model, format: str) -> None:
    """Whatever they hold, they change no name and no prediction."""
    frame, path = people().set_index("town").reset_index(), tmp_path / f"people.{format}"
    table = pa.Table.from_pandas(frame.set_index("town"))  # a named index is a column
    notes = json.loads(table.schema.metadata[b"pandas"])
    expected = model.predict_proba(frame.drop(columns=["id", "seg"]))

    def trial(seed: int) -> None:
        own, rng = json.loads(json.dumps(notes)), Random(f"notes {seed}")
        edit_json(own, rng)
        text = json.dumps(own).encode() if seed % 4 else damaged(json.dumps(own).encode(), seed)
        (pq.write_table if format == "parquet" else feather.write_feather)(
            table.replace_schema_metadata({b"pandas": text}), path
        )
        assert sorted(read_table(path)) == sorted(frame)
        score_file(model, path, path.with_name("scored.parquet"), id="id")
        scored = pd.read_parquet(path.with_name("scored.parquet"))
        np.testing.assert_allclose(scored[["probability_hi", "probability_lo"]], expected, atol=1e-6)

    assert problems(trial, range(60), allowed=()) == []


def edit_json(tree: object, rng: Random) -> None:
    """Change or remove one value."""
    while True:
        key = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        if not isinstance(tree[key], dict | list) or not tree[key] or rng.random() < 0.2:
            break
        tree = tree[key]
    if rng.random() < 0.2:
        del tree[key]
    else:
        tree[key] = rng.choice(
            [None, True, "", "town", "when", [], {}, [[]], 10**30, -1, "category", "period[D]", "i8"]
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_damaged_tables(tmp_path: Path, model, kind: str) -> None:
    data, path = FILES[kind](), tmp_path / "people"

    def trial(seed: int) -> None:
        path.write_bytes(damaged(data, f"{kind} {seed}"))
        read_all(path, model)

    assert problems(trial, range(SEEDS if kind != "excel" else SEEDS // 3)) == []


@pytest.mark.slow
def test_damaged_spss_files(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / "people.sav"
    pyreadstat.write_sav(people().astype({"kind": str}), path, variable_value_labels={"flag": {0.0: "no", 1.0: "yes"}})
    data = path.read_bytes()

    def trial(seed: int) -> None:
        path.write_bytes(damaged(data, f"spss {seed}"))
        repr(read_table(path, label="seg", id="id"))  # takes a second, in a process of its own

    assert problems(trial, range(SEEDS // 10)) == []


@pytest.mark.slow
def test_damaged_sqlite_files(tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    path = tmp_path / "people.sqlite"
    with sqlite3.connect(path) as connection:
        people().astype({"kind": str, "when": str}).to_sql("people", connection, index=False)
    connection.close()
    data, query = path.read_bytes(), Query(str(path), "select * from people")

    def trial(seed: int) -> None:
        path.write_bytes(damaged(data, f"sqlite {seed}"))
        repr(read_table(query, label="seg", id="id"))

    assert problems(trial, range(SEEDS)) == []


@pytest.mark.slow
def test_damaged_duckdb_files(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path, frame = tmp_path / "people.duckdb", people().astype({"kind": str})
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", pa.Table.from_pandas(frame))
        connection.execute("create table people as select * from frame")
    data, query = path.read_bytes(), Query(str(path), "select * from people")

    def trial(seed: int) -> None:
        path.write_bytes(damaged(data, f"duckdb {seed}"))
        repr(read_table(query, label="seg", id="id"))

    assert problems(trial, range(SEEDS)) == []


@pytest.mark.slow
def test_edited_models_are_refused_or_give_probabilities(tmp_path: Path) -> None:
    tool = Path(__file__).parents[1] / "tools" / "fuzz_models.py"
    command = [sys.executable, str(tool), str(max(SEEDS // 10, 1)), "--only", *EDITED_MODELS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "error when predicting" not in done.stdout, done.stdout + done.stderr
