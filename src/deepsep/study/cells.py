"""One cell of an experiment is one fit: a configuration in, ``report.json`` and an empty ``DONE`` out.

A finished cell is a folder named after the hash of its configuration, so a changed setting makes a new cell. The folder
appears complete or not at all, so a run can be killed at any moment.
"""

from __future__ import annotations

import json
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
from deepsep.files.atomic import install
from deepsep.model import for_table
from deepsep.study.splits import RowPlan, shared_test_rows, split_rows
from deepsep.study.study_models import build_study_model, models_of
from deepsep.study.tuning import tune

Array = NDArray[Any]


@dataclass(frozen=True)
class Cell:
    """Everything that one fit depends on."""

    table: str
    table_sha256: str
    label: str  # the column of classes
    shuffle: int
    labels: int
    method: str
    settings: dict[str, Any] = field(default_factory=dict)  # those that were asked for
    parameters: dict[str, str] = field(default_factory=dict)  # all, as text: a changed default makes a new cell
    largest: int = 0  # the largest labelled set, which decides where the test rows begin
    validation: int = 0
    test_per_class: int = 0
    trials: int = 0  # fits for tuning; 0: no tuning
    variant: str = ""  # of an ablation; prefixed to the names of its models
    version: str = __version__

    @property
    def key(self) -> str:
        """The name of the cell's folder."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:20]

    @property
    def plan(self) -> RowPlan:
        """The plan from which :func:`split_rows` makes the rows of this cell."""
        return RowPlan((self.largest,), self.validation, self.test_per_class, ())


def is_done(cell: Cell, folder: Path) -> bool:
    """Return whether the cell is finished, by this run or another."""
    return (folder / cell.key / "DONE").exists()


def read_report(cell: Cell, folder: Path) -> dict[str, Any]:
    """Return the report of a finished cell."""
    report: dict[str, Any] = json.loads((folder / cell.key / "report.json").read_text(encoding="utf-8"))
    return report


def run_cell(cell: Cell, table: Path, folder: Path) -> None:
    """Fit and measure one cell, and write its folder."""
    report = {"config": asdict(cell), **measure(cell, table)}
    files = {"report.json": f"{json.dumps(report, indent=1)}\n".encode(), "DONE": b""}
    try:
        install(files, folder / cell.key, own=files)
    except OSError:
        if not is_done(cell, folder):  # otherwise another run finished it first
            raise


def measure(cell: Cell, table: Path) -> dict[str, Any]:
    """Return the scores on the test rows of every model that the fit yields, and the seconds it took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)  # about few labels, which are intended here
        rows = _encode(table, cell.label, cell.plan, cell.shuffle, cell.labels)
        start = time.perf_counter()
        settings = {**cell.settings}
        if cell.trials:
            settings |= tune(
                cell.method, settings, rows.X, rows.y, rows.validation, trials=cell.trials, seed=cell.shuffle
            )
        model = build_study_model(cell.method, random_state=cell.shuffle, **settings).fit(rows.X, rows.y)
        seconds = time.perf_counter() - start
        X_test, y_test = rows.test
        probabilities, rounds = models_of(cell.method, model, rows.X, rows.y, X_test)
    prefix = f"{cell.variant}: " if cell.variant else ""
    shared = shared_test_rows(np.bincount(_read(table, cell.label)[1]), cell.plan)
    return {
        "rows": [
            {"method": prefix + name, **scores(p, y_test), "shared_test_rows": shared}
            for name, p in probabilities.items()
        ],
        "rounds": [{kind: float((p.argmax(1) == y_test).mean()) for kind, p in both.items()} for both in rounds],
        "seconds": seconds,
        "settings": settings,
    }


@dataclass(frozen=True)
class CellRows:
    """Rows of a cell as a method gets them: encoded features and class codes."""

    X: Any  # the training rows: labelled, then unlabelled, whose code is -1
    y: Array
    validation: tuple[Any, Array]  # (X, y)
    test: tuple[Any, Array]  # the unlabelled rows with their true classes


@lru_cache(maxsize=1)
def _encode(table: Path, label: str, plan: RowPlan, shuffle: int, labels: int) -> CellRows:
    """Return the rows of a cell; they are the same for all methods."""
    frame, codes = _read(table, label)
    rows = split_rows(codes, plan, shuffle)
    labeled, test, validation = rows.labeled[:labels], rows.test, rows.validation
    encoder = for_table(build_study_model("deepsep-defaults"))[:-1]
    X = encoder.fit_transform(frame.iloc[np.concatenate([labeled, test])])
    return CellRows(
        X,
        np.concatenate([codes[labeled], np.full(len(test), -1)]),
        (encoder.transform(frame.iloc[validation]) if len(validation) else X[:0], codes[validation]),
        (X[labels:], codes[test]),
    )


@lru_cache(maxsize=1)
def _read(path: Path, label: str) -> tuple[Any, Array]:
    """Return the features and the class codes of a table written by :func:`prepare`."""
    import pandas as pd

    frame = pd.read_parquet(path)
    codes = np.unique(frame.pop(label).to_numpy(dtype=str), return_inverse=True)[1]
    return frame, codes
