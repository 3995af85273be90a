"""What killed runs leave behind: nothing that stays, and no process that goes on."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepsep import TSVM, for_table, save
from deepsep.core.threads import without_interrupts
from deepsep.files.atomic import hidden_name, remove_leftovers
from deepsep.scoring import score_file

PATIENCE = 600  # seconds: nothing waits so long but on a machine that is far too busy

pytestmark = pytest.mark.infra

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals and process numbers")


def left_by_another_process(target: Path, what: str) -> Path:
    """Return a file that a process which has ended was writing."""
    code = "import sys, pathlib; from deepsep.files.atomic import hidden_name; "
    code += "place = hidden_name(pathlib.Path(sys.argv[1]), sys.argv[2]); place.write_text('x'); print(place)"
    done = subprocess.run([sys.executable, "-c", code, str(target), what], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


@pytest.fixture
def model():
    x = np.linspace(0, 1, 40) ** 2
    return for_table(TSVM()).fit(pd.DataFrame({"x": x}), [*["low"] * 5, *[None] * 30, *["high"] * 5])


@posix
def test_a_later_run_removes_what_a_killed_one_has_left(tmp_path, model):
    table, target = tmp_path / "rows.csv", tmp_path / "out.parquet"
    pd.DataFrame({"x": [0.1, 0.9]}).to_csv(table, index=False)
    left = left_by_another_process(target, "new.parquet")
    alive = hidden_name(target, "new.parquet")  # of this process, as if another of its threads were writing
    alive.write_text("x")
    other = left_by_another_process(tmp_path / "other.parquet", "new.parquet")
    mine = tmp_path / ".out.parquet.notes"
    mine.write_text("x")
    score_file(model, table, target)
    assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted([table, target, target.with_name("out.drift.json"), alive, other, mine])


@posix
def test_a_saved_model_removes_them_too(tmp_path, model):
    left = left_by_another_process(tmp_path / "model", "new")
    save(model, tmp_path / "model")
    assert not left.exists()
    assert [item.name for item in tmp_path.iterdir()] == ["model"]


@posix
def test_an_earlier_result_that_was_being_replaced_stays_until_there_is_a_new_one(tmp_path):
    target = tmp_path / "model"
    old = left_by_another_process(target, "old")
    remove_leftovers(target)
    assert old.exists()
    target.mkdir()
    remove_leftovers(target)
    assert not old.exists()


WORKER = """
import os, signal, sys
from deepsep.core.threads import end_with
end_with(os.getppid())
os.write(int(sys.argv[1]), b"ready")
signal.pause()
"""
PARENT = """
import signal, subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], pass_fds=[int(sys.argv[1])])
signal.pause()
"""


def read(pipe: int) -> bytes:
    """Return what comes next through a pipe; nothing if no process holds its other end."""
    assert select.select([pipe], [], [], PATIENCE)[0], "the worker goes on"
    return os.read(pipe, 100)


@posix
def test_workers_end_with_the_process_that_started_them():
    ours, theirs = os.pipe()
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(theirs), WORKER], pass_fds=[theirs])
    os.close(theirs)
    assert read(ours) == b"ready"
    parent.kill()
    parent.wait()
    assert read(ours) == b""
    os.close(ours)


@posix
def test_workers_leave_ctrl_c_to_the_process_that_started_them():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('goes on')"
    with without_interrupts():
        worker = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (worker.returncode, worker.stdout, worker.stderr) == (0, "goes on\n", "")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
