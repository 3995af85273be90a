"""Scoring on a Ray cluster: the same rows with any number of workers, and after deaths."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import deepsep_process
from typer.testing import CliRunner

from deepsep import for_table, method, save
from deepsep.apps.ray import MAX_WORKER_DEATHS, Workers, connected
from deepsep.cli import app
from deepsep.errors import DeepSepError, ParameterError
from deepsep.scoring import score_file

CLASSES = np.array(["a", "b", "c"])


def table(n=8_000, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n)
    X = rng.normal(size=(n, 6))
    X[:, :3] += 2.5 * np.eye(3)[codes]
    y = np.full(n, None)
    y[:60] = CLASSES[codes[:60]]
    return X, y


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # a busy machine would starve workers
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        yield ray
        ray.shutdown()


def mortal():
    """A kind of worker, defined in a function: workers cannot import this file."""

    class Mortal:
        """Dies of its first calls, as long as a file says so."""

        def __init__(self, lives):
            self.lives = lives

        def pid(self, number):
            return number, os.getpid()

        def die(self, number):
            left = len(list(self.lives.iterdir()))
            if left:
                next(self.lives.iterdir()).unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return number

        def fail(self, number):
            raise ParameterError(f"no {number}")

    return Mortal


def test_a_job_whose_worker_dies_is_done_again(ray, tmp_path):
    for life in range(3):
        (tmp_path / str(life)).touch()
    workers = Workers(ray, mortal(), (tmp_path,), 2)
    heard = []
    assert workers.map(lambda actor, job: actor.die.remote(job), range(5), heard.append) == list(range(5))
    assert sorted(heard) == list(range(5))
    assert not list(tmp_path.iterdir())
    with pytest.raises(ParameterError, match="no 0"):
        workers.map(lambda actor, job: actor.fail.remote(job), [0])
    for life in range(MAX_WORKER_DEATHS + 1):
        (tmp_path / str(life)).touch()
    with pytest.raises(DeepSepError, match="died one after the other"):
        workers.map(lambda actor, job: actor.die.remote(job), [0])
    workers.stop()


def test_scored_rows_are_the_same_with_any_number_of_workers_and_after_deaths(ray, tmp_path, monkeypatch):
    X, y = table(2_000)
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    model = for_table(method("logistic-regression")).fit(frame, y)
    (tmp_path / "parts").mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(X)), 8)):
        frame.iloc[rows].to_parquet(tmp_path / "parts" / f"{part}.parquet", index=False)
    score_file(model, tmp_path / "parts", tmp_path / "here")

    def check(name, workers):
        score_file(model, tmp_path / "parts", tmp_path / name, engine="ray", workers=workers)
        for part in (tmp_path / "here").iterdir():
            pd.testing.assert_frame_equal(pd.read_parquet(part), pd.read_parquet(tmp_path / name / part.name))

    for workers in (1, 2, 4):
        check(f"{workers} workers", workers)
    killed = []

    def kill_some(self, ask, jobs, on_done=None, ordinary=Workers.map):
        def kill(tally):
            on_done(tally)
            if len(killed) < 3:
                killed.append(ray.kill(self._actors[len(killed) % len(self._actors)]))

        return ordinary(self, ask, jobs, kill)

    monkeypatch.setattr(Workers, "map", kill_some)
    check("with deaths", 2)
    assert len(killed) == 3


def connect(address=None, workers=None):
    return connected(address, workers)


def test_without_ray_the_error_names_the_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r'engine="ray" needs ray. Install it with: pip install ray'), connect():
        pass


@pytest.mark.parametrize("value", [0, 1.5, "2"])
def test_workers_must_be_a_positive_number(value):
    with pytest.raises(ParameterError, match=r"workers=.*positive integer"), connect(workers=value):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense:port"])
def test_where_no_cluster_answers(address, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with (
        pytest.raises(ParameterError, match=rf"address='{address}': no Ray cluster answers.*ray start --head"),
        connect(address),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "variable", "asked"),
    [
        (None, None, {"address": "local", "num_cpus": 2}),
        (None, "", {"address": "local", "num_cpus": 2}),
        (None, "auto", {"address": "auto"}),
        ("auto", "127.0.0.1:1", {"address": "auto"}),
        ("local", "auto", {"address": "local", "num_cpus": 2}),
    ],
)
def test_which_cluster_is_joined(address, variable, asked, monkeypatch):
    """Never one that happens to run on this machine: it is asked for, with address or RAY_ADDRESS."""
    calls = []
    fake = SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **options: calls.append(options),
        cluster_resources=lambda: {"CPU": 2.0},
        shutdown=lambda: calls.append("shutdown"),
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    with connect(address, 2) as (ray, workers):
        assert (ray, workers) == (fake, 2)
    options, end = calls
    assert {name: options[name] for name in ("address", "num_cpus") if name in options} == asked
    assert end == "shutdown"


def test_a_cluster_of_the_environment_that_does_not_answer(monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ParameterError, match=r"^RAY_ADDRESS=127.0.0.1:1: no Ray cluster answers"), connect():
        pass


HEAD = """
import ray
from ray._private.utils import write_ray_address
address = ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR").address_info["address"]
write_ray_address(address)  # as `ray start --head` does, so that ray.init() without an address finds it
print(address, flush=True)
input()
"""


@pytest.fixture
def head(monkeypatch):
    """The address of a cluster of two CPUs that runs on this machine, in a process of its own."""
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    folder = tempfile.mkdtemp(prefix="deepsep-ray-")  # short, since it is part of the names of sockets
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with subprocess.Popen(
        [sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as own:
        yield own.stdout.readline().strip()
        own.communicate("\n")
    shutil.rmtree(folder, ignore_errors=True)


def test_a_cluster_on_this_machine_is_joined_if_it_is_named_and_not_disturbed_otherwise(head, tmp_path):
    X, y = table(400)
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    save(for_table(method("logistic-regression")).fit(frame, y), tmp_path / "model")
    (tmp_path / "parts").mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(X)), 3)):
        frame.iloc[rows].to_parquet(tmp_path / "parts" / f"{part}.parquet", index=False)

    def score(name, *options):
        where = ("-o", tmp_path / name, "--engine", "ray", *options)
        return deepsep_process("score", tmp_path / "model", tmp_path / "parts", *where)

    joined = score("joined", "--address", head, "--workers", 2)
    assert joined.returncode == 0, joined.stderr
    assert "Scored 400 rows" in joined.stdout
    crowded = score("crowded", "--address", head, "--workers", 3)
    assert crowded.returncode == 2
    assert "--workers 3, but the Ray cluster has 2 CPUs" in crowded.stderr
    started = score("started", "--workers", 3)
    assert started.returncode == 0, started.stderr
    for part in (tmp_path / "joined").glob("*.parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(part), pd.read_parquet(tmp_path / "started" / part.name))


def test_more_workers_than_the_cluster_has(ray):
    with pytest.raises(ParameterError, match=r"workers=5, but the Ray cluster has 4 CPUs"), connect(workers=5):
        pass


@pytest.mark.parametrize(("option", "value"), [("--workers", "2"), ("--address", "auto")])
def test_options_that_do_not_go_together(tmp_path, option, value):
    result = CliRunner().invoke(app, ["score", "model", "rows.parquet", "-o", str(tmp_path / "out"), option, value])
    assert result.exit_code == 2
    assert f"{option} needs --engine ray" in result.output
    assert not list(tmp_path.iterdir())
