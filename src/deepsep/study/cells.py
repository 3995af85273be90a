"""One cell of an experiment is one fit: a configuration in, ``report.json`` and an empty ``DONE`` out.

A finished cell is a folder named after the hash of its configuration, so a changed setting makes a new cell. The folder
appears complete or not at all, so a run can be killed at any moment. Rows are split as in section 3 of the paper.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deepsep._version import __version__
from deepsep.core.arrays import Array
from deepsep.errors import DataError, DeepSepWarning
from deepsep.evaluation.intervals import scores
from deepsep.files.atomic import install
from deepsep.model import for_table
from deepsep.study.study_models import build_study_model, models_of, tune

LABELED_SIZES = (35, 50, 125, 250, 500, 1250, 2500)  # ℓ


@dataclass(frozen=True)
class RowPlan:
    """The sizes of labelled set that a table allows, and the number of test rows; the same in every shuffle."""

    sizes: tuple[int, ...]
    validation: int
    test_per_class: int
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """The rows of one shuffle. The labelled set of size ℓ is ``labelled[:ℓ]``."""

    labeled: Array
    validation: Array
    test: Array


def plan(
    counts: Array,  # (c,), number of rows per class
    *,
    # wanted numbers. A size is left out, with a notice, if it is below the number of classes, if a class has too few
    # rows for it, or if it would leave fewer than ``least_per_class`` test rows per class.
    sizes: Sequence[int] = LABELED_SIZES,
    validation: int = 100,
    test_per_class: int = 956,
    least_per_class: int = 30,
) -> RowPlan:
    """Return the plan that the class sizes allow.

    Raises
    ------
    DataError
        If every size is left out.
    """
    c = len(counts)
    kept, notices = [], []
    for size in sorted(set(sizes)):
        # Classes are filled in turn, in random order: any of them may have one row more than the others.
        left = int(counts.min()) - -(-(size + validation) // c)
        if size < c:
            notices.append(f"{size} labels are left out: there are {c} classes, and each needs a label.")
        elif left < least_per_class:
            notices.append(
                f"{size} labels are left out: the smallest class has {int(counts.min())} rows, which leaves "
                f"{max(left, 0)} for testing; at least {least_per_class} are needed."
            )
        else:
            kept.append(size)
    if not kept:
        raise DataError("the table is too small for every number of labels. " + " ".join(notices))
    most = int(counts.min()) - -(-(kept[-1] + validation) // c)
    return RowPlan(tuple(kept), validation, min(test_per_class, most), tuple(notices))


def shared_test_rows(counts: Array, plan: RowPlan) -> float:
    """Return the expected share of the test rows of a shuffle that are test rows of another one, too."""
    return float(np.mean(plan.test_per_class / counts))


def split_rows(codes: Array, plan: RowPlan, shuffle: int) -> Split:
    """Split the rows of a shuffle: labelled rows first, then validation, then test.

    Labelled and validation rows are taken from the classes in turn, in a random order, so the labelled sets are nested
    and their class sizes differ by at most one. Rows beyond these are not used.
    """
    rng = np.random.default_rng(shuffle)
    c = int(codes.max()) + 1
    order = rng.permutation(c)
    by_class = [rng.permutation(np.flatnonzero(codes == k)) for k in range(c)]
    n = plan.sizes[-1] + plan.validation
    chosen = np.array([by_class[order[i % c]][i // c] for i in range(n)])
    taken = np.bincount(codes[chosen], minlength=c)
    test = np.concatenate([rows[n : n + plan.test_per_class] for rows, n in zip(by_class, taken, strict=True)])
    return Split(chosen[: plan.sizes[-1]], chosen[plan.sizes[-1] :], np.sort(test))


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
    frame = pd.read_parquet(path)
    codes = np.unique(frame.pop(label).to_numpy(dtype=str), return_inverse=True)[1]
    return frame, codes
