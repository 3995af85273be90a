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
from deepsep.evaluation.out_of_fold import in_parallel
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
def test_workers_of_joblib_never_see_ctrl_c():
    """Where they are the first processes that a command starts, and in the middle of an import."""
    code = """
import signal
from deepsep.evaluation.out_of_fold import in_parallel
if __name__ == "__main__":
    for _, held_back in in_parallel([(signal.pthread_sigmask, (signal.SIG_BLOCK, ()))] * 2, 2):
        print(signal.SIGINT in held_back)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n" * 2, "")


@posix
def test_a_worker_that_is_killed_is_no_bug():
    with pytest.raises(MemoryError, match="ended from outside"):
        list(in_parallel([(os.kill, (0, 0)), (signal.raise_signal, (signal.SIGKILL,))], 2))


@posix
@pytest.mark.parametrize("module", ["typer", "deepsep.cli.console", "deepsep.model.fitting"])
def test_ctrl_c_while_a_command_imports_is_one_sentence(module, tmp_path):
    code = f"""
import signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["deepsep", "fit", "rows.csv", "-o", "model"]
from deepsep.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Error: Interrupted. Nothing was written.\n"


@posix
def test_workers_leave_ctrl_c_to_the_process_that_started_them():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('goes on')"
    with without_interrupts():
        worker = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (worker.returncode, worker.stdout, worker.stderr) == (0, "goes on\n", "")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
