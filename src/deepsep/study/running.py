"""Run an experiment: list its cells, skip the finished ones, and fit the others in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from deepsep.core.column_kinds import kind_of
from deepsep.errors import DataError, DeepSepError
from deepsep.evaluation.out_of_fold import in_parallel
from deepsep.files.atomic import writing
from deepsep.study.cells import LABELED_SIZES, Cell, RowPlan, is_done, plan, run_cell
from deepsep.study.study_models import DEFAULT_METHODS, changed_defaults, parameters

TUNING_TRIALS = 10

# The ablation: settings that differ from the published ones. The published settings are the cell without a variant.
ABLATION_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "without autoencoder": {"pretrain": None},
    "without propensity epochs": {"propensity_epochs": 0},
    "without label epochs": {"label_epochs": 0},
    "all unlabelled rows in the TSVMs": {"n_unlabeled": None},
    "without balancing": {"balance": False},
    "softmax propensities": {"propensity": "softmax"},
    "hard propensities": {"propensity": "hard"},
    "defaults of deepsep": changed_defaults(),
}


@dataclass(frozen=True)
class Experiment:
    """A table on disk, the plan for its rows, and all cells."""

    table: Path
    cells_folder: Path
    plan: RowPlan
    cells: tuple[Cell, ...]

    @property
    def pending(self) -> list[Cell]:
        """The cells that are not finished."""
        return [cell for cell in self.cells if not is_done(cell, self.cells_folder)]


def prepare(
    name: str,  # of the table in the results
    frame: pd.DataFrame,  # the features and the column of classes; rows without a class are left out
    folder: Path,  # of the results
    *,
    label: str = "label",
    labels: Sequence[int] = LABELED_SIZES,  # sizes of the labelled sets
    shuffles: int = 5,
    methods: Sequence[str] = DEFAULT_METHODS,  # see :func:`deepsep.study.study_models.build_study_model`
    settings: Mapping[str, Mapping[str, Any]] | None = None,  # changed ones, by method
    trials: int = TUNING_TRIALS,  # fits for tuning every method on the validation rows; 0: no tuning
    validation: int = 100,
    test_per_class: int = 956,
    ablation: bool = False,  # whether to add variants of DeepSep, at 35, 50, 125 and 500 labels
) -> Experiment:
    """List the cells of an experiment, and write its table to the folder where the workers read it."""
    ablation_sizes = (35, 50, 125, 500)
    if label not in frame:
        raise DataError(f"the table has no column {label!r}; it has {', '.join(map(repr, frame.columns[:10]))}.")
    frame = frame[frame[label].notna()].reset_index(drop=True)
    frame[label] = frame[label].astype(str)
    counts = np.unique(frame[label].to_numpy(dtype=str), return_counts=True)[1]
    if len(counts) < 2:
        raise DataError(f"the table has {len(counts)} classes in {label!r}; an experiment takes two or more.")
    row_plan = plan(counts, sizes=labels, validation=validation, test_per_class=test_per_class)
    path, digest = _write_table(name, frame, folder)
    common: dict[str, Any] = {
        "table": name,
        "table_sha256": digest,
        "label": label,
        "largest": row_plan.sizes[-1],
        "validation": row_plan.validation,
        "test_per_class": row_plan.test_per_class,
        "trials": trials,
    }
    given = {method: dict((settings or {}).get(method, {})) for method in (*methods, "deepsep")}
    fits = {method: _configuration(method, given[method]) for method in methods}
    cells = [
        Cell(shuffle=shuffle, labels=size, **fits[method], **common)
        for shuffle in range(shuffles)
        for size in row_plan.sizes
        for method in methods
    ]
    if ablation:
        variants = {
            name: _configuration("deepsep", given["deepsep"] | dict(more)) for name, more in ABLATION_VARIANTS.items()
        }
        cells += [
            Cell(shuffle=shuffle, labels=size, variant=variant, **configuration, **common)
            for shuffle in range(shuffles)
            for size in row_plan.sizes
            if size in ablation_sizes
            for variant, configuration in variants.items()
        ]
    cells.sort(key=lambda cell: (cell.shuffle, cell.labels))  # cells of the same rows together: they are encoded once
    return Experiment(path, folder / "cells", row_plan, tuple(cells))


def _configuration(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"method": method, "settings": dict(settings), "parameters": parameters(method, settings)}


def run(experiment: Experiment, *, jobs: int = 1, on_cell: Callable[[], object] | None = None) -> None:
    """Fit every cell that is not finished, in ``jobs`` processes; raise if cells failed, after all others are finished.

    ``on_cell`` is called after each cell.
    """
    pending, failures = experiment.pending, []
    tasks = ((attempt, (cell, experiment.table, experiment.cells_folder)) for cell in pending)
    for _, failure in in_parallel(tasks, jobs):
        failures += [] if failure is None else [failure]
        if on_cell is not None:
            on_cell()
    if failures:
        raise DeepSepError(f"{len(failures)} of {len(pending)} cells failed. The first: {failures[0]}")


def attempt(cell: Cell, table: Path, folder: Path) -> str | None:
    """Run a cell unless another run has finished it; return the error, if any, so that the other cells still run."""
    if is_done(cell, folder):
        return None
    try:
        run_cell(cell, table, folder)
    except ImportError:
        raise  # a package is missing: every other cell of the method would fail too
    except Exception as error:
        return f"{cell.method} at {cell.labels} labels, shuffle {cell.shuffle + 1}: {type(error).__name__}: {error}"
    return None


def _write_table(name: str, frame: pd.DataFrame, folder: Path) -> tuple[Path, str]:
    """Write the table unless it is there, and return its path and the hash of its content."""
    digest = table_digest(frame)
    path = folder / "tables" / f"{name}-{digest[:12]}.parquet"
    if not path.exists():
        with writing(path) as place:
            frame.to_parquet(place, index=False)
    return path.resolve(), digest


def table_digest(frame: pd.DataFrame) -> str:
    """Return a hash of names, kinds and values; that of the file would depend on the version of pandas."""
    from pandas.util import hash_pandas_object

    content = sha256()
    for name, column in frame.items():
        content.update(repr((name, _kind(column))).encode())
        try:
            content.update(hash_pandas_object(column, index=False).to_numpy().tobytes())
        except TypeError:  # lists and the like
            content.update(repr(column.tolist()).encode())
    return content.hexdigest()


def _kind(column: pd.Series[Any]) -> str:
    return "category" if isinstance(column.dtype, pd.CategoricalDtype) else kind_of(column)
