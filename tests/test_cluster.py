"""Fits on a Ray cluster: the solution of one machine, the same bits with any number of workers, and after deaths."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import deepsep_process
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from typer.testing import CliRunner

from deepsep import TSVM, Committee, DeepSep, for_table, load, method, save
from deepsep.cli import app
from deepsep.cluster import on_ray
from deepsep.cluster.connection import connected
from deepsep.cluster.sharded_rows import ShardedRows, ShardedRowsMaker
from deepsep.cluster.workers import MOST_DEATHS, Workers
from deepsep.errors import DeepSepError, ParameterError
from deepsep.networks import NumpyNetwork, TorchNetwork, TrainingPhase, streams, train_together
from deepsep.scoring import score_file
from deepsep.solvers.rows import Rows

SHARD = 1_500
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


def fit_on_ray(model, X, y, workers):
    with on_ray(model, workers=workers, shard_rows=SHARD):
        return model.fit(X, y)


def objective(model):
    return sum(path[-1] for path in model.objective_path_)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, np.float64),
        ({"tol": 1e-4}, np.float32),
        ({"algorithm": "cccp", "s": -0.3}, np.float64),
        ({"balance": False}, np.float64),
    ],
)
def test_the_solution_is_that_of_one_machine_with_any_number_of_workers(ray, settings, kind):
    X, y = table()
    X = X.astype(kind)
    here = TSVM(**settings).fit(X, y)
    models = [fit_on_ray(TSVM(**settings), X, y, workers) for workers in (1, 2, 4)]
    for model in models:
        assert objective(model) == pytest.approx(objective(here), rel=1e-6)
        assert_array_equal(model.predict(X), here.predict(X))
        assert_array_equal(model.coef_, models[0].coef_)
        assert_array_equal(model.label_distributions_, models[0].label_distributions_)


def passes(ray, X, y, free_bias, centre=None):
    """The same pass, here and on the cluster."""
    labelled = y != None  # noqa: E711
    signs = np.where(y[labelled] == CLASSES[:, None], 1.0, -1.0)
    cost = np.ones(labelled.sum()), np.full((~labelled).sum(), 0.01)
    arguments = X[labelled], signs, cost[0], X[~labelled], cost[1]
    settings = {"offset": np.zeros(3), "free_bias": free_bias, "s": 0.0, "centre": centre}
    maker = ShardedRowsMaker(ray, 2, shard_rows=SHARD)
    return Rows(*arguments, **settings), maker(*arguments, **settings), maker


@pytest.mark.slow
@pytest.mark.parametrize(("width", "is_sparse"), [(6, False), (300, False), (300, True)])
def test_every_answer_is_that_of_rows_in_memory(ray, width, is_sparse):
    X, y = table(4_000)
    rng = np.random.default_rng(1)
    X = np.hstack([X, rng.normal(size=(len(X), width - X.shape[1]))])
    centre = None
    if is_sparse:
        X[:, 6:] *= rng.random(X[:, 6:].shape) < 0.05
        X, centre = sparse.csr_matrix(X), X.mean(axis=0)
    here, there, maker = passes(ray, X, y, free_bias=True, centre=centre)
    assert isinstance(there, ShardedRows)
    assert there.n_features == here.n_features == width + 1
    every, kappa = np.arange(3), np.full(3, 4.0)
    for step, commit in enumerate((None, kappa, None)):
        w = rng.normal(size=(3, width + 1)) / width
        one, two = here.sweep(w, kappa, every, commit), there.sweep(w, kappa, every, commit)
        for name in ("pull", "slack", "envelope", "loss"):
            assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-10, err_msg=f"{name} in step {step}")
        v = rng.normal(size=width + 1)
        for a, b in zip(one.curvature, two.curvature, strict=True):
            a, b = (x @ v if isinstance(x, np.ndarray) else x.transposed(x.times(v)) for x in (a, b))
            assert_allclose(a, b, rtol=1e-8, atol=1e-10)
        assert_allclose(here.certificate(w[1], 4.0, 1), there.certificate(w[1], 4.0, 1), rtol=1e-10)
        assert_allclose(here.transductive_loss(w, every), there.transductive_loss(w, every), rtol=1e-12)
        assert_array_equal(here.decide(w, every), there.decide(w, every))
        for labelled in (True, False):
            assert_allclose(here.scores(w, labelled=labelled), there.scores(w, labelled=labelled), rtol=1e-10)
    maker.stop()


def test_few_rows_stay_here():
    X, y = table(1_000)
    here, there, _ = passes(None, X, y, free_bias=False)
    assert type(there) is type(here) is Rows


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


@pytest.mark.slow
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
    for life in range(MOST_DEATHS + 1):
        (tmp_path / str(life)).touch()
    with pytest.raises(DeepSepError, match="died one after the other"):
        workers.map(lambda actor, job: actor.die.remote(job), [0])
    workers.stop()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"algorithm": "cccp"}])
def test_workers_killed_in_the_middle_change_no_bit(ray, settings, monkeypatch):
    X, y = table(4_000)
    undisturbed = fit_on_ray(TSVM(**settings), X, y, workers=2)
    killed = []

    def kill_one(self, ask, jobs, on_done=None, ordinary=Workers.map):
        kill_one.calls += 1
        if kill_one.calls in (3, 8, 9, 14):
            ray.kill(self._actors[kill_one.calls % len(self)])
            killed.append(kill_one.calls)
        return ordinary(self, ask, jobs, on_done)

    kill_one.calls = 0
    monkeypatch.setattr(Workers, "map", kill_one)
    disturbed = fit_on_ray(TSVM(**settings), X, y, workers=2)
    assert killed == [3, 8, 9, 14]
    assert_array_equal(disturbed.coef_, undisturbed.coef_)
    assert_array_equal(disturbed.intercept_, undisturbed.intercept_)
    assert objective(disturbed) == objective(undisturbed)


@pytest.mark.slow
def test_the_boundaries_of_deepsep(ray):
    X, y = table(4_000)
    settings = {
        "rounds": 1,
        "n_networks": 1,
        "n_unlabeled": None,
        "initial_epochs": 20,
        "label_epochs": 2,
        "propensity_epochs": 1,
        "random_state": 0,
    }
    here = DeepSep(**settings).fit(X, y)
    there = fit_on_ray(DeepSep(**settings), X, y, workers=2)
    assert (here.predict(X) == there.predict(X)).mean() > 0.99


@pytest.mark.slow
def test_the_student_of_a_committee(ray):
    X, y = table(1_000)
    settings = {"members": ["logistic-regression", "knn"], "n_jobs": 1, "random_state": 0}
    here = Committee(**settings).fit(X, y)
    there = fit_on_ray(Committee(**settings), X, y, workers=2)
    assert_array_equal(here.label_distributions_, there.label_distributions_)
    assert_allclose(here.student_.predict_proba(X), there.student_.predict_proba(X), atol=0.01)
    assert there.student_agreement_ == pytest.approx(here.student_agreement_, abs=0.01)


def processes(kind):
    """Return the processes of Ray workers of one kind that belong to this one."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if (place / "cmdline").read_bytes().startswith(f"ray::{kind}".encode()):
                raylet = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                if int(Path(f"/proc/{raylet}/stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.add(int(place.name))
    return found


class KillInTraining(threading.Thread):
    """Kills a worker that trains, once it has used some seconds of its processor, and sees who comes after it."""

    def __init__(self, seconds):
        super().__init__(daemon=True)
        self.seconds, self.killed, self.seen, self.over = seconds, None, set(), False

    def run(self):
        began = {}
        while not self.over:
            self.seen |= processes("RayTrainWorker")
            for pid in processes("RayTrainWorker.run_train_fn"):
                began.setdefault(pid, self.used(pid))
            for pid, before in began.items():
                if self.killed is None and self.used(pid) > before + self.seconds:
                    os.kill(pid, signal.SIGKILL)
                    self.killed = pid
            time.sleep(0.002)

    @staticmethod
    def used(pid):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_worker_killed_in_the_training_of_a_student_changes_no_bit(ray):
    X, y = table(1_000)
    settings = {"members": ["logistic-regression"], "n_jobs": 1, "random_state": 0}
    whole = fit_on_ray(Committee(**settings), X, y, workers=2).student_
    killer = KillInTraining(seconds=3)
    killer.start()
    after = fit_on_ray(Committee(**settings), X, y, workers=2).student_
    killer.over = True
    killer.join()
    assert killer.killed in killer.seen
    assert len(killer.seen) >= 4, "both workers start again"
    for name, value in whole.network_weights_.items():
        assert_array_equal(after.network_weights_[name], value, err_msg=name)


def test_training_together_is_training(tmp_path):
    """In a group of one process, the steps of NumpyNetwork, also with weights and a last batch of one row."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(129, 5)).astype(np.float32), rng.random(129).astype(np.float32)
    targets = rng.dirichlet(np.ones(3), 129).astype(np.float32)
    shape, how = {"hidden": (16, 4), "dropout": 0.0, "l2": 1e-3}, {"loss": "kl", "epochs": 3, "lr": 1e-3}
    here = NumpyNetwork(5, 3, rng=np.random.default_rng(1), **shape)
    there = TorchNetwork(5, 3, rng=np.random.default_rng(2), **shape)
    there.load_state(here.state())
    here.train(X, targets, **how, batch_size=64, rng=np.random.default_rng(3), weight=weight)
    order, _ = streams(np.random.default_rng(3))
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        train_together(there, [TrainingPhase(X, targets, weight, **how, batch_size=64, order=order)])
    finally:
        torch.distributed.destroy_process_group()
    for name, value in here.state().items():
        assert_allclose(there.state()[name], value, atol=2e-5, err_msg=name)


@pytest.mark.slow
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
                killed.append(ray.kill(self._actors[len(killed) % len(self)]))

        return ordinary(self, ask, jobs, kill)

    monkeypatch.setattr(Workers, "map", kill_some)
    check("with deaths", 2)
    assert len(killed) == 3


@pytest.mark.parametrize("model", ["random-forest", "label-spreading"])
def test_methods_that_cannot_be_distributed(model):
    pattern = rf"{model} cannot be fitted on a Ray cluster.*tsvm, deepsep .its boundaries. and committee .its student."
    with pytest.raises(ParameterError, match=pattern), on_ray(for_table(method(model))):
        pass


def test_a_committee_without_a_student():
    with pytest.raises(ParameterError, match="student=False"), on_ray(Committee(student=False)):
        pass


def test_without_ray_the_error_names_the_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r"a fit on Ray needs ray. Install it with: pip install ray"), on_ray(TSVM()):
        pass


@pytest.mark.parametrize("name", ["workers", "shard_rows"])
@pytest.mark.parametrize("value", [0, 1.5, "2"])
def test_workers_and_rows_must_be_positive_numbers(name, value):
    with pytest.raises(ParameterError, match=rf"{name}=.*positive integer"), on_ray(TSVM(), **{name: value}):
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense:port"])
def test_where_no_cluster_answers(address, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with (
        pytest.raises(ParameterError, match=rf"address='{address}': no Ray cluster answers.*ray start --head"),
        on_ray(TSVM(), address=address),
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
    with connected("a test", address, 2) as (ray, workers):
        assert (ray, workers) == (fake, 2)
    options, end = calls
    assert {name: options[name] for name in ("address", "num_cpus") if name in options} == asked
    assert end == "shutdown"


def test_a_cluster_of_the_environment_that_does_not_answer(monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ParameterError, match=r"^RAY_ADDRESS=127.0.0.1:1: no Ray cluster answers"), on_ray(TSVM()):
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_more_workers_than_the_cluster_has(ray):
    model = TSVM()
    with (
        pytest.raises(ParameterError, match=r"workers=5, but the Ray cluster has 4 CPUs"),
        on_ray(model, workers=5),
    ):
        pass
    assert model._cluster is None


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("fit", ("--workers", "2"), "--workers needs --engine ray"),
        ("fit", ("--address", "auto"), "--address needs --engine ray"),
        ("fit", ("--engine", "ray", "--method", "random-forest"), "random-forest cannot be fitted on a Ray cluster"),
        ("fit", ("--engine", "ray", "--set", "student=False"), "student=False"),
        ("score", ("--workers", "2"), "--workers needs --engine ray"),
    ],
)
def test_options_that_do_not_go_together(tmp_path, command, options, message):
    own = ("--label", "segment") if command == "fit" else ("rows.parquet",)
    result = CliRunner().invoke(app, [command, "table.csv", *own, "-o", str(tmp_path / "out"), *options])
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("shard", "few"), [(None, True), (1_000, False)])
@pytest.mark.parametrize("unlabelled", [(), ("--unlabelled", "1500"), ("--unlabelled", "all")])
def test_too_few_rows_for_a_cluster_are_noted_and_all_are_read(tmp_path, monkeypatch, shard, few, unlabelled):
    monkeypatch.setattr("deepsep.cluster.ray_fit.on_ray", lambda *_, **__: nullcontext())
    monkeypatch.setattr("deepsep.cli.training.IN_MEMORY", 500)
    if shard:
        monkeypatch.setattr("deepsep.cluster.sharded_rows.SHARD_ROWS", shard)
    X, y = table(2_000)
    pd.DataFrame(X, columns=list("uvwxyz")).assign(segment=y).to_parquet(tmp_path / "table.parquet", index=False)
    options = ["--label", "segment", "--method", "tsvm", "--no-report", "--engine", "ray", *unlabelled]
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "table.parquet"), *options, "-o", str(tmp_path / "model")])
    assert result.exit_code == 0, result.output
    n = 1_500 if "1500" in unlabelled else 1_940
    assert (f"A cluster cannot help with {n:,} unlabelled rows" in result.stderr) == few
    assert load(tmp_path / "model")[-1].n_unlabeled_ == n


@pytest.mark.slow
def test_deepsep_fit_on_ray(ray, tmp_path, monkeypatch):
    monkeypatch.setitem(on_ray.__wrapped__.__kwdefaults__, "shard_rows", SHARD)
    X, y = table(4_000)
    pd.DataFrame(X, columns=list("uvwxyz")).assign(segment=y).to_parquet(tmp_path / "table.parquet", index=False)
    fit = ["fit", str(tmp_path / "table.parquet"), "--label", "segment", "--method", "tsvm", "--no-report", "-o"]
    found = []
    for name, options in (("here", ()), ("there", ("--engine", "ray", "--workers", "2"))):
        result = CliRunner().invoke(app, [*fit, str(tmp_path / name), *options])
        assert result.exit_code == 0, result.output
        found.append(pd.read_parquet(tmp_path / name / "predictions.parquet"))
    pd.testing.assert_frame_equal(*found, atol=1e-5)
