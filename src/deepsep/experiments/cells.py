"""One cell of an experiment is one fit: a config in, ``report.json`` and an empty ``DONE`` out.

A finished cell is a folder whose name is the hash of its config, so that a changed setting makes a new cell, and that
appears complete or not at all, so that a run can be killed at any moment.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep._version import __version__
from deepsep.errors import DeepSepWarning
from deepsep.evaluation.metrics import scores
from deepsep.experiments.splits import Plan, deal
from deepsep.experiments.study_models import build, models_of
from deepsep.experiments.tuning import tune
from deepsep.table import for_table

Array = NDArray[Any]

REPORT, DONE = "report.json", "DONE"


@dataclass(frozen=True)
class Cell:
    """What one fit depends on, and nothing else."""

    table: str
    table_sha256: str
    label: str  # the column
    shuffle: int
    labels: int
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    largest: int = 0  # of the labelled sets: the test rows come after it
    validation: int = 0
    test_per_class: int = 0
    trials: int = 0  # of tuning; 0: the settings as they are
    variant: str = ""  # stands before the names of its rows, such as in an ablation
    version: str = __version__

    @property
    def key(self) -> str:
        """The name of the cell's folder."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:20]

    @property
    def plan(self) -> Plan:
        """What :func:`deal` needs to know."""
        return Plan((self.largest,), self.validation, self.test_per_class, ())


def is_done(cell: Cell, folder: Path) -> bool:
    """Whether the cell was finished, by whichever run."""
    return (folder / cell.key / DONE).exists()


def read_report(cell: Cell, folder: Path) -> dict[str, Any]:
    """Return what a finished cell found."""
    report: dict[str, Any] = json.loads((folder / cell.key / REPORT).read_text(encoding="utf-8"))
    return report


def run_cell(cell: Cell, table: Path, folder: Path) -> None:
    """Fit, measure, and leave a finished folder behind."""
    report = {"config": asdict(cell), **measure(cell, table)}
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
    try:
        (unfinished / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        (unfinished / DONE).touch()
        os.replace(unfinished, folder / cell.key)
    except OSError:
        if not is_done(cell, folder):  # otherwise another run was faster
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def measure(cell: Cell, table: Path) -> dict[str, Any]:
    """Return scores on the test rows, one row for each model that the fit holds, and the seconds it took."""
    frame, codes = _read(table, cell.label)
    rows = deal(codes, cell.plan, cell.shuffle)
    labelled = rows.labelled[: cell.labels]
    y = np.concatenate([codes[labelled], np.full(len(rows.test), -1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)  # of few labels, which are the point
        start = time.perf_counter()
        train = frame.iloc[np.concatenate([labelled, rows.test])]
        held = frame.iloc[rows.validation], codes[rows.validation]
        settings = {**cell.settings}
        if cell.trials:
            settings |= tune(cell.method, settings, train, y, held, trials=cell.trials, seed=cell.shuffle)
        model = for_table(build(cell.method, random_state=cell.shuffle, **settings)).fit(train, y)
        seconds = time.perf_counter() - start
        test, truth = frame.iloc[rows.test], codes[rows.test]
        said, rounds = models_of(cell.method, model, train, y, test)
    prefix = f"{cell.variant}: " if cell.variant else ""
    return {
        "rows": [{"method": prefix + name, **scores(p, truth)} for name, p in said.items()],
        "rounds": [{kind: float((p.argmax(1) == truth).mean()) for kind, p in both.items()} for both in rounds],
        "seconds": seconds,
        "settings": settings,
    }


@lru_cache(maxsize=2)
def _read(path: Path, label: str) -> tuple[Any, Array]:
    """Return the features and the codes of a table that the experiment has written."""
    import pandas as pd

    frame = pd.read_parquet(path)
    codes = np.unique(frame.pop(label).to_numpy(dtype=str), return_inverse=True)[1]
    return frame, codes
