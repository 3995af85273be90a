"""Apps are on top of the library: without the folder of one, everything but its own command works."""

import subprocess
import sys
from pathlib import Path

import pytest

import deepsep

ROOT = Path(deepsep.__file__).parent
APPS = sorted(path.stem for path in (ROOT / "apps").iterdir() if path.name[0] != "_")

# Hides an app as if its folder were deleted, imports every other module, and fits and scores from the command line.
WITHOUT = """
import importlib, pkgutil, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1] or name.startswith(sys.argv[1] + "."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import deepsep
for module in pkgutil.walk_packages(deepsep.__path__, "deepsep.", onerror=lambda name: None):
    if not module.name.startswith(sys.argv[1]) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)

from deepsep.cli import app

def run(*arguments):
    assert not app(arguments, standalone_mode=False), arguments

run("fit", "table.csv", "--label", "kind", "--method", "logistic-regression", "--no-report", "-o", "model", "--quiet")
run("score", "model", "table.csv", "-o", "scored.csv", "--quiet")
"""


@pytest.mark.parametrize("app", APPS)
def test_without_an_app_everything_else_works(app, tmp_path):
    rows = "\n".join(f"{i % 7},{i % 5},{['a', 'b', ''][i % 3]}" for i in range(60))
    (tmp_path / "table.csv").write_text(f"x,y,kind\n{rows}\n")
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, f"deepsep.apps.{app}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert (tmp_path / "scored.csv").exists()
