"""Progress bars: on a terminal, within its width, and nowhere else."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import open_terminal, read_terminal, run

import deepsep
from deepsep.cli.console import Console
from deepsep.cli.watched_fit import watching, watching_committee
from deepsep.core.training_rows import Context
from deepsep.survey import SurveySegments
from deepsep.zoo.network_method import NetworkMethod

BAR = re.compile(r"\d%\|")
NETWORKS = [name for name in deepsep.methods() if isinstance(deepsep.method(name), NetworkMethod)]


def on_terminal(command: list[str], columns: int) -> str:
    """Return what a command writes to a terminal of so many columns."""
    ours, theirs = open_terminal(columns)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = read_terminal(ours)
    os.close(ours)
    assert process.returncode == 0, shown.decode()
    return shown.decode()


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars that show up at once, on what the tests take for a terminal."""
    monkeypatch.setattr(Console, "shows_progress", property(lambda self: not self.quiet))
    clock = time.time
    monkeypatch.setattr("tqdm.std.time", lambda: 1000 * clock())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_report_all_their_steps_and_fit_the_same_if_nobody_listens(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(np.arange(60) < 30, (X[:, 0] > 0).astype(int), -1)
    model = deepsep.method(name, steps=120, hidden=(16, 8), random_state=0)
    heard: list[int] = []
    model.fit_rows(model.training_rows(X, y), Context(on_step=lambda steps, loss: heard.append(steps)))
    assert sum(heard) == model._all_steps
    assert max(heard) <= 50
    alone = deepsep.method(name, steps=120, hidden=(16, 8), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))


def test_one_bar_shows_the_fits_of_a_committee_and_its_report(
    slow_clock: None, capsys: pytest.CaptureFixture[str]
) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 30, (X[:, 0] > 0).astype(int), -1)
    model = deepsep.Committee(members=["tsvm", "knn"], effort="fast", n_jobs=1, random_state=0)
    with watching_committee(Console(as_json=False, quiet=False), report=True) as (context, on_step):
        model.fit_rows(model.training_rows(X, y), context)
        shown = capsys.readouterr().err
        on_step(1, 2, "the map")
        on_step(2, 2, "done")
    shown += capsys.readouterr().err
    parts = [re.search(rf"(\d+)%\|[^%]*{what}", shown) for what in (r"\d of 8 fits", "the map", "done")]
    shares = [int(part[1]) for part in parts if part]
    assert shares == sorted(set(shares))
    assert (len(shares), shares[-1]) == (3, 100)


def test_a_network_has_a_bar_unless_quiet(slow_clock: None, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(np.arange(60) < 30, (X[:, 0] > 0).astype(int), -1)
    for name, setting in (("mean-teacher", {"steps": 100}), ("deepsep", {"initial_epochs": 5, "rounds": 1})):
        model = deepsep.method(name, **setting)
        for quiet in (True, False):
            with watching(Console(as_json=False, quiet=quiet), model, name) as context:
                model.fit_rows(model.training_rows(X, y), context)
            assert bool(BAR.search(capsys.readouterr().err)) is not quiet


def test_the_search_for_a_number_of_segments_reports_its_steps() -> None:
    rng = np.random.default_rng(0)
    answers = pd.DataFrame({f"q{i}": rng.choice(list("abc"), 60) for i in range(5)})
    heard: list[tuple[int, int, str]] = []
    model = SurveySegments(n_segments="auto", k_range=(2, 3), n_init=1, random_state=0)
    model.fit(answers, on_step=lambda *step: heard.append(step))
    assert [what for *_, what in heard] == [*["k = 1"] * 4, *["k = 2"] * 4, *["k = 3"] * 4, "done"]
    assert [done for done, *_ in heard] == [0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 24]
    assert {total for _, total, _ in heard} == {24}


def test_no_bar_without_a_terminal_nor_when_quiet(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (
        "--label",
        "segment",
        "-o",
        tmp_path / "m",
        "--no-report",
        "--method",
        "mean-teacher",
        "--set",
        "steps=60",
    )
    result = run("fit", people, *options, "--json")
    assert not BAR.search(result.stderr)
    assert json.loads(result.stdout)["method"] == "mean-teacher"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    shown = {(a, b): Console(as_json=a, quiet=b).shows_progress for a in (False, True) for b in (False, True)}
    assert [options for options, shows in shown.items() if shows] == [(False, False)]


def test_without_a_report_there_is_no_bar_of_it(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, bar = [], Console.bar
    monkeypatch.setattr(Console, "shows_progress", True)
    monkeypatch.setattr(
        Console, "bar", lambda self, doing, **settings: opened.append(doing) or bar(self, doing, **settings)
    )
    options = ("--no-report", "--method", "mean-teacher", "--set", "steps=60", "-o", people.parent / "m")
    assert run("fit", people, "--label", "segment", *options).exit_code == 0
    assert opened == ["mean-teacher", "Predicting"]


@pytest.mark.infra
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="terminals of POSIX")
@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("method", ["deepsep", "mean-teacher"])
def test_bars_fit_the_terminal_and_leave_one_line(people: Path, tmp_path: Path, method: str, columns: int) -> None:
    long = "initial_epochs=2000" if method == "deepsep" else "steps=800"
    fit = [sys.executable, "-m", "deepsep", "fit", str(people), "--label", "segment", "-o", str(tmp_path / "m")]
    shown = on_terminal([*fit, "--no-report", "--method", method, "--set", long], columns)
    lines = [line.removesuffix("\r") for line in shown.split("\n")]
    bars = [line.split("\r") for line in lines if BAR.search(line)]
    assert len(bars) == 1  # each state replaces the one before
    assert len(bars[0]) > 3
    assert max(map(len, bars[0])) <= columns
    assert "100%" in bars[0][-1]
    assert re.search(r"\d\d:\d\d<\d\d:\d\d", bars[0][-1])
