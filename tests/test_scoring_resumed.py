"""Scoring that was killed goes on where it stopped, and parts that cannot be read are left out until they can."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_line import run

from deepsep import TSVM, for_table, load, save
from deepsep.errors import DataError, DeepSepWarning
from deepsep.scoring import remember_training, score_file
from deepsep.scoring.frame import RowScorer

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals and process numbers")

# Scores with a piece for every batch, and kills itself before it has written the batch with this number.
KILLED = """
import os, signal, sys
import deepsep.scoring.local as local
from deepsep.scoring import score_file
left = [int(sys.argv[4])]
real = local.Writer.write
def write(self, frame):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, frame)
local.Writer.write = write
local.PIECE_SECONDS = -1.0
score_file(sys.argv[1], sys.argv[2], sys.argv[3], batch_rows=50, id=sys.argv[5] or None)
"""


# Kills itself when it has placed this many files of the target.
KILLED_AT_THE_END = """
import os, signal, sys
from deepsep.scoring import score_file
left, real = [int(sys.argv[4])], os.link
def link(*places):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*places)
os.link = link
score_file(sys.argv[1], sys.argv[2], sys.argv[3], id="key")
"""


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    plan = rng.choice(["free", "pro", "team"], n)
    return pd.DataFrame({"age": rng.normal(40 + 10 * (plan == "pro"), 9), "plan": plan, "key": np.arange(n) * 3})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    frame = rows(200, seed=1)
    y = np.where(np.arange(200) < 60, np.where(frame["plan"] == "pro", "b", "a"), None)
    fitted = for_table(TSVM()).fit(frame[["age", "plan"]], y)
    remember_training(fitted, frame[["age", "plan"]], y)
    place = tmp_path_factory.mktemp("saved") / "model"
    save(fitted, place)
    return place


def write_source(place: Path) -> Path:
    frame = rows()
    if place.name == "*.csv":
        place.parent.mkdir()
        for i in range(3):
            frame[200 * i : 200 * i + 200].to_csv(place.with_name(f"{i}.csv"), index=False)
    elif place.suffix == ".csv":
        frame.to_csv(place, index=False)
    elif place.suffix == ".parquet":
        frame.to_parquet(place, row_group_size=200)
    else:
        place.mkdir()
        for i in range(3):
            frame[200 * i : 200 * i + 200].to_parquet(place / f"{i}.parquet")
    return place


def content(target: Path) -> bytes:
    files = sorted(target.rglob("*.parquet")) if target.is_dir() else [target]
    if target.suffix == ".csv":
        return target.read_bytes()
    return b"".join(pq.read_table(file).to_pandas().to_csv().encode() for file in files)


def summary(done):
    return {name: value for name, value in done.items() if name not in ("target", "drift_file")}


@pytest.mark.infra
@posix
@pytest.mark.parametrize(
    ("source", "target", "before", "id"),
    [
        ("t.parquet", "out.parquet", 5, ""),
        ("t.csv", "out.csv", 1, "key"),
        ("parts", "out", 11, "key"),
        pytest.param("parts", "out", 4, "", marks=pytest.mark.slow),
        pytest.param("parts", "out.parquet", 0, "key", marks=pytest.mark.slow),
        ("parts", "out.parquet", 7, ""),
        pytest.param("texts/*.csv", "out.csv", 5, "", marks=pytest.mark.slow),
        ("texts/*.csv", "out", 6, "key"),
    ],
)
def test_no_row_is_lost_or_repeated(model, tmp_path, monkeypatch, source, target, before, id):
    place, goal = write_source(tmp_path / source), tmp_path / target
    command = [sys.executable, "-c", KILLED, model, place, goal, str(before), id]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not goal.exists()
    real, scored = RowScorer.__call__, []

    def counting(self, batch, *args):
        scored.append(len(batch))
        return real(self, batch, *args)

    monkeypatch.setattr(RowScorer, "__call__", counting)
    resumed = score_file(model, place, goal, batch_rows=50, id=id or None)
    assert sum(scored) == 600 - 50 * before  # no row twice
    at_once = score_file(model, place, tmp_path / f"whole{goal.suffix}", batch_rows=50, id=id or None)
    assert content(goal) == content(tmp_path / f"whole{goal.suffix}")
    assert summary(resumed) == summary(at_once)
    assert not [item for item in tmp_path.iterdir() if item.name.startswith(".")]


@pytest.mark.infra
@posix
def test_no_part_is_lost_if_the_kill_comes_while_files_are_put_in_place(model, tmp_path):
    place, goal = write_source(tmp_path / "parts"), tmp_path / "out"
    command = [sys.executable, "-c", KILLED_AT_THE_END, model, place, goal, "2"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert score_file(model, place, goal, id="key")["rows"] == 600
    score_file(model, place, tmp_path / "whole", id="key")
    assert content(goal) == content(tmp_path / "whole")


@pytest.mark.infra
@posix
@pytest.mark.parametrize("change", ["model", "source", "batch"])
def test_pieces_of_another_run_are_not_taken(model, tmp_path, change):
    place, goal = write_source(tmp_path / "t.parquet"), tmp_path / "out.parquet"
    subprocess.run([sys.executable, "-c", KILLED, model, place, goal, "5", "key"], check=False)
    batch, other = 50, model
    if change == "source":
        rows(seed=7).to_parquet(place)
    elif change == "batch":
        batch = 100
    else:
        fitted = load(model)
        save(fitted, tmp_path / "again")  # with another date
        other = tmp_path / "again"
    score_file(other, place, goal, batch_rows=batch, id="key")
    score_file(other, place, tmp_path / "whole.parquet", batch_rows=batch, id="key")
    assert content(goal) == content(tmp_path / "whole.parquet")
    assert not [item for item in tmp_path.iterdir() if item.name.startswith(".")]


def spoil(place: Path, where: str) -> bytes:
    """Damage a file, and return what it was."""
    data = place.read_bytes()
    if where == "end":
        place.write_bytes(data[:-200])
    elif where == "start":
        place.write_bytes(b"x" * len(data))
    elif where == "everything":
        place.write_bytes(b"")
    else:
        place.write_bytes(data[:4] + b"\xff" * 900 + data[904:])
    return data


@pytest.mark.parametrize("where", ["start", "middle", "end", "everything"])
@pytest.mark.parametrize("target", ["out", "out.parquet"])
def test_a_damaged_part_is_left_out_until_it_is_written_again(model, tmp_path, monkeypatch, where, target):
    place = write_source(tmp_path / "parts")
    goal, whole = tmp_path / target, tmp_path / f"whole{Path(target).suffix}"
    score_file(model, place, whole, id="key")
    data = spoil(place / "1.parquet", where)
    with pytest.warns(DeepSepWarning, match="1 of 3 parts could not be read"):
        done = score_file(model, place, goal, id="key")
    assert (done["rows"], done["parts"], list(done["failed"])) == (400, 2, ["1.parquet"])
    keys = pq.read_table(goal)["key"].to_pylist()
    assert keys == rows()["key"].drop(range(200, 400)).tolist()
    (place / "1.parquet").write_bytes(data)
    real, scored = RowScorer.__call__, []

    def counting(self, batch, *args):
        scored.append(len(batch))
        return real(self, batch, *args)

    monkeypatch.setattr(RowScorer, "__call__", counting)
    done = score_file(model, place, goal, id="key")
    assert (done["rows"], done["failed"], sum(scored)) == (600, {}, 200)
    assert content(goal) == content(whole)
    assert not [item for item in tmp_path.iterdir() if item.name.startswith(".")]


def test_a_damaged_file_alone_is_an_error(model, tmp_path):
    place = write_source(tmp_path / "t.parquet")
    spoil(place, "middle")
    with pytest.raises(DataError, match=r"damaged|cannot be read"):
        score_file(model, place, tmp_path / "out.parquet")
    parts = write_source(tmp_path / "parts")
    for part in parts.iterdir():
        spoil(part, "end")
    with pytest.raises(DataError, match="no part of"):
        score_file(model, parts, tmp_path / "out.parquet")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["parts", "t.parquet"]


def test_the_command_line_names_the_part_and_ends_with_code_4(model, tmp_path):
    place = write_source(tmp_path / "parts")
    spoil(place / "2.parquet", "end")
    result = run("score", model, place, "--id", "key", "-o", tmp_path / "out", "--json")
    assert result.exit_code == 4, result.output
    assert list(json.loads(result.stdout)["failed"]) == ["2.parquet"]
    assert "2.parquet is damaged" in result.stderr
