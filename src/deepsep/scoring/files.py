"""Score files of any size, batch by batch."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline

from deepsep.core.notices import warn
from deepsep.core.threads import available_cores
from deepsep.drift.comparison import compare
from deepsep.drift.counts import Counts, one_in
from deepsep.drift.profile import TrainingProfile
from deepsep.drift.sentences import notice
from deepsep.errors import DataError, DriftWarning, ParameterError, Setting
from deepsep.files.leftovers import hidden_name, remove_leftovers
from deepsep.models import load
from deepsep.scoring import local, ray_engine
from deepsep.scoring.costs import Costs
from deepsep.scoring.decisions import Decisions, Tally, evidence_of
from deepsep.scoring.frame import schema_of
from deepsep.scoring.journal import Journal
from deepsep.scoring.leaving_out import LeavingOut, values_in_training
from deepsep.scoring.local import is_result
from deepsep.scoring.parts import Part
from deepsep.scoring.remembered import profile_of, provenance_of
from deepsep.scoring.student import check_fast, choose, describe, have_more_rows
from deepsep.scoring.writing import INSTEAD
from deepsep.table.batches import TableFile
from deepsep.table.columns import check_names
from deepsep.table.excel_cells import ROWS, check_fits
from deepsep.table.locations import find_column, kind_of, part_files

FORMATS = (".parquet", ".csv", ".tsv", ".xlsx")
MOST_WORKERS = 16  # threads that score batches
OTHERS = 50  # columns of a result beside the probabilities, at most
Progress = Callable[[int, float], None]


def score_file(
    model: Any,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    id: str | None = None,
    engine: Literal["local", "ray"] = "local",
    address: str | None = None,
    batch_rows: int = 20_000,
    fast: bool | None = None,
    sets: float | None = None,
    per_class: bool = False,
    abstain: float | None = None,
    costs: Costs | None = None,
    reasons: int | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    sheet: str | int = 0,
    skip_rows: int = 0,
    dayfirst: bool | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Score a file of any size, batch by batch, or a folder of Parquet parts.

    Memory use is constant, the order of the rows is kept, and the result does not depend on the batch size. Batches are
    scored on all cores. The target is written completely or not at all: it is written to a temporary place and moved at
    the end. If the process is killed, the next call with the same saved model, source, target and settings goes on
    where it stopped. A part of a folder that cannot be read is left out, with a warning; once it has been written
    again, the next call scores only what is missing.

    The rows are compared with the training table on the way, if the model has a profile of it, as those of ``deepsep
    fit`` have. The result is in what is returned and in a file beside the target, ``scored.drift.json`` for
    ``scored.parquet``, which also says which model scored. Parquet and Excel files say so in their metadata.

    Parameters
    ----------
    model : fitted classifier, or path
        The model, or the folder of a saved one.
    source : str or path
        CSV, TSV, Parquet, Feather, Excel or SPSS, or a folder of Parquet parts.
    target : str or path
        A file that ends in ``.parquet``, ``.csv``, ``.tsv`` or ``.xlsx``; an existing one is replaced. CSV is UTF-8
        with a byte order mark, from which Excel knows the encoding. For a folder of parts also a folder, which gets a
        part of the same name for each; parts of an earlier scoring in it are replaced, and it must hold nothing else.
        Source and target must not contain each other.
    id : str, optional
        The column of identifiers, kept in the result. None: the row number.
    engine : {"local", "ray"}, default="local"
        "ray" scores the parts of a folder on a Ray cluster, one model per actor, for when one machine is not enough.
        All machines must reach source and target by the same paths.
    address : str, optional
        Address of the Ray cluster. None: one is started on this machine.
    batch_rows : int, default=20_000
        Number of rows in memory at a time.
    fast : bool, optional
        Whether the student of a :class:`deepsep.Committee` scores, or the committee itself. None: the student if there
        is one, it is expected to cost at most two points of accuracy, and there are more than 100,000 rows. One of the
        two scores the whole source. With ``sets`` or ``abstain``, None means the committee: what they promise rests on
        its own predictions out of fold.
    sets, per_class, abstain, costs
        As in :func:`score_frame`. The student makes no sets.
    reasons : int, optional
        Adds so many columns that spoke most for the label of each row; see :func:`deepsep.scoring.reasons`. Every row
        is predicted some eight times for each column; a warning says how long that takes, and a committee refuses what
        would take hours.
    encoding, delimiter : str, optional
        Encoding and delimiter of a text file. None: detected.
    sheet : str or int, default=0
        Sheet of an Excel file.
    skip_rows : int, default=0
        Lines above the header of a text or Excel file, such as a title.
    dayfirst : bool, optional
        Whether the day comes first in dates such as 05/03/2025. None: as the column shows.
    progress : callable, optional
        Called as ``progress(rows, share)`` after each batch (Ray: each part): rows scored so far, and the share
        of the source read so far, from 0 to 1.

    Returns
    -------
    dict
        ``rows``, ``parts``, ``labels`` (rows per class), ``ignored`` (columns that the model does not use), ``target``;
        ``failed``, the parts that could not be read, and why: the result lacks their rows;
        ``decisions``, what ``sets``, ``abstain`` and ``costs`` did, with the accuracy to expect of the rows that have a
        label; ``reasons``, None or a dict: ``number`` for each row, and ``passes`` over the rows;
        ``scored_by``, the name of the method, "student" if it was the student; and ``student``, None if the model has
        none, else a dict: ``agreement``, how often it agrees with its committee on rows that were held out from it, and
        ``accuracy_loss``, what the differences are expected to cost. ``model``: name, method, date, version, and hashes
        of the training data and of the model; ``drift``: what :func:`compare_with_training` returns, None if the model
        has no profile of its training table; ``drift_file``: where both were written.

    Warns
    -----
    DriftWarning
        If the rows differ from the training table.
    DeepSepWarning
        If some parts could not be read.

    Raises
    ------
    DataError
        If the source cannot be read, or its columns differ from those of the training table.
    """
    if not (isinstance(batch_rows, int) and batch_rows >= 1):
        raise ParameterError("{rows}; pass an integer of at least 1.", rows=Setting("batch_rows", batch_rows))
    if fast not in (None, True, False):
        raise ParameterError("{fast}; pass True, False or None.", fast=Setting("fast", fast))
    if engine not in ("local", "ray"):
        raise ParameterError("{engine}; pass 'local' or 'ray'.", engine=Setting("engine", engine))
    if isinstance(model, str | os.PathLike):
        model = load(model)
    place, goal = Path(source), Path(target)
    folder = kind_of(place) == "parts"
    to_folder = folder and goal.suffix.lower() not in FORMATS
    if not to_folder and goal.suffix.lower() not in FORMATS:
        raise DataError(f"the target {goal} must end in {', '.join(FORMATS)}{', or be a folder' if folder else ''}.")
    if engine == "ray" and not to_folder:
        raise ParameterError(
            "{ray} scores a folder of Parquet parts to a folder; use {local} for a file.",
            ray=Setting("engine", "ray"),
            local=Setting("engine", "local"),
        )
    _check_target(place, goal, to_folder)
    decisions = Decisions.of(model, sets=sets, per_class=per_class, abstain=abstain, costs=costs)
    check_fast(fast, sets)
    if fast is None and (sets is not None or abstain is not None):
        fast = False
    beside = goal.with_name(f"{goal.name if to_folder else goal.stem}.drift.json")
    _check_beside(beside)
    profile, provenance = profile_of(model), provenance_of(model)
    options: dict[str, Any] = {
        "id": id,
        "batch_rows": batch_rows,
        "decisions": decisions,
        "profile": profile,
        "provenance": provenance,
        "workers": 1 if engine == "ray" else min(available_cores(), MOST_WORKERS),
    }
    reading = {
        "encoding": encoding,
        "delimiter": delimiter,
        "sheet": sheet,
        "skip_rows": skip_rows,
        "dayfirst": dayfirst,
    }
    goal.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(beside)
    files = part_files(place) if folder else [place]
    parts, ignored, failed = _plan(
        model, place, files, Path(goal.name if not to_folder else ""), to_folder, id, reading
    )
    if goal.suffix.lower() == ".xlsx" and not to_folder:
        _check_sheet(parts, len(model.classes_))
    scorer = choose(model, parts, fast)
    key = {
        "model": provenance,
        "scored_by": describe(model, scorer)["scored_by"],
        "options": repr([id, batch_rows, sets, per_class, abstain, costs, reasons, reading]),
    }
    sizes = [part.n_rows for part in parts]
    n_rows = None if None in sizes else sum(size or 0 for size in sizes)
    options["every"] = one_in(n_rows)
    options["leaving_out"] = None
    if reasons is not None:
        options["leaving_out"] = LeavingOut(scorer, reasons, values_in_training(model))
        options["leaving_out"].check_cost(scorer, n_rows, lambda most: have_more_rows(parts, most))
    report = _Report(parts, progress)
    journal = Journal.open(goal, key, resume=provenance["sha256"] is not None)
    options["journal"] = journal.folder
    parts = [replace(part, target=journal.folder / "out" / part.target) for part in parts]
    try:
        if engine == "ray":
            tallies = ray_engine.score_parts(scorer, parts, options, report, address=address)
        else:
            tallies = local.score_parts(scorer, parts, options, report)
        failed |= {part.relative: tally.error for part, tally in zip(parts, tallies, strict=True) if tally.error}
        if len(failed) == len(files):
            raise DataError(f"no part of {place} can be read. {next(iter(failed.values()))}")
        shutil.rmtree(journal.folder / "out", ignore_errors=True)
        local.assemble_parts(scorer, parts, options, keep=bool(failed))
        beside.unlink(missing_ok=True)  # it is about the earlier target
        _move(journal.folder / "out" / ("" if to_folder else goal.name), goal, hidden_name(goal, "old"))
        if failed:
            journal.keep()
    except BaseException:
        journal.remove()
        raise
    if not failed:
        journal.remove()
    whole = sum(tallies, Tally())
    drift = _compare(profile, tallies, model, scorer)
    done = {
        "rows": whole.rows,
        "parts": len(files) - len(failed),
        "failed": failed,
        "labels": {name: whole.labels[name] for name in np.asarray(model.classes_).tolist()},
        "ignored": ignored,
        "target": str(goal),
        "decisions": decisions.describe(whole, evidence_of(scorer)),
        "reasons": reasons and {"number": reasons, "passes": options["leaving_out"].passes},
        **describe(model, scorer),
        "model": provenance,
        "drift": drift,
        "drift_file": str(beside),
    }
    _write_beside(beside, {"deepsep": "drift", "source": str(place), **done})
    if drift is not None and drift["drifted"]:
        warn(notice(drift), DriftWarning)
    if failed:
        reasons_why = "".join(f"\n  {name}: {why}" for name, why in failed.items())
        warn(
            f"{len(failed)} of {len(files)} parts could not be read, and the result lacks their rows:{reasons_why}\n"
            "Write them again and score again: only what is missing is then scored."
        )
    return done


def _compare(profile: TrainingProfile | None, tallies: list[Tally], model: Any, scorer: Any) -> dict[str, Any] | None:
    """Return how all scored rows differ from the training table."""
    if profile is None:
        return None
    counts = Counts(profile)
    for tally in tallies:
        if tally.drift is not None:
            counts += tally.drift
    agreement = None if scorer is model else describe(model, scorer)["student"]["agreement"]
    return compare(profile, counts, np.asarray(model.classes_).tolist(), agreement=agreement)


def _check_beside(place: Path) -> None:
    """Raise if the file about the scoring would replace something else."""
    if not os.path.lexists(place):
        return
    try:
        ours = json.loads(place.read_bytes())["deepsep"] == "drift"
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        ours = False
    if not ours:
        raise DataError(f"{place} would be replaced, and deepsep did not write it. Rename it, or name another target.")


def _write_beside(place: Path, content: dict[str, Any]) -> None:
    content["labels"] = {str(name): rows for name, rows in content["labels"].items()}
    scratch = hidden_name(place, "new.json")
    try:
        scratch.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(scratch, place)
    finally:
        scratch.unlink(missing_ok=True)


def _name(file: Path, first_row: int | None) -> str:
    """Return a name for the pieces of a part, which is another one if the file is written again."""
    about = file.stat()
    stamp = f"{file.resolve()}\n{about.st_size}\n{about.st_mtime_ns}\n{first_row}"
    return hashlib.sha256(stamp.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _plan(
    model: Any,
    place: Path,
    files: list[Path],
    target: Path,
    to_folder: bool,
    id: str | None,
    reading: dict[str, Any],
) -> tuple[list[Part], list[str], dict[str, str]]:
    """Return the parts to score, the ignored columns, and the parts that cannot be read; all columns are checked."""
    schema = schema_of(model)
    left_out = getattr(model[0], "left_out_", {}) if isinstance(model, Pipeline) else {}
    parts, first, ignored = [], 0, []
    failed: dict[str, str] = {}
    for file in files:
        relative = file.relative_to(place) if file != place else Path(file.name)
        try:
            table = TableFile(file, id=id, **reading)
        except DataError as error:
            if len(files) == 1:
                raise
            failed[relative.as_posix()] = str(error)
            continue
        try:
            check_names(schema, left_out, table.names if id in schema else _others(table.names, id))
        except DataError as error:
            raise DataError(f"{file}: {error}") from None
        if id is not None:
            find_column(table.names, id, "id column")
        ignored = [name for name in table.names if schema and name not in schema and name != id]
        types = schema or dict.fromkeys(_others(table.names, id), "number")
        name = _name(file, first if id is None else None)
        to = relative if to_folder else target
        parts.append(Part(name, relative.as_posix(), table, to, first, table.n_rows, types, len(files) == 1))
        first += table.n_rows or 0
    if not parts:
        raise DataError(f"no part of {place} can be read. {next(iter(failed.values()))}")
    return parts, ignored, failed


def _check_sheet(parts: list[Part], n_classes: int) -> None:
    """Raise if the rows do not fit on an Excel sheet, before they are scored."""
    sizes = [part.n_rows or (ROWS + 1) * part.source.has_more_rows(ROWS) for part in parts]
    check_fits(sum(sizes), n_classes + OTHERS, "the result", INSTEAD)


def _others(names: Iterable[str], id: str | None) -> list[str]:
    return [name for name in names if name != id]


def _check_target(source: Path, goal: Path, to_folder: bool) -> None:
    """Raise if the result would overwrite anything but an earlier result."""
    here, there = source.resolve(), goal.resolve()
    if here == there:
        raise DataError(f"source and target are both {goal}. Name another target.")
    if here in there.parents or there in here.parents:
        raise DataError(f"the source {source} and the target {goal} contain one another. Name a target elsewhere.")
    if not goal.exists():
        return
    if goal.is_dir() is not to_folder:
        raise DataError(f"the target {goal} is a {'folder' if goal.is_dir() else 'file'}. Name another target.")
    others = (
        [file for file in sorted(goal.rglob("*")) if not file.is_dir() and not is_result(file)] if to_folder else []
    )
    if others:
        raise DataError(
            f"the target {goal} holds files that are not parts of an earlier scoring, such as "
            f"{others[0].relative_to(goal)}. Name another folder, or empty it."
        )


def _move(scratch: Path, goal: Path, old: Path) -> None:
    """Move the result into place, replacing the folder of an earlier run."""
    if not scratch.is_dir():
        os.replace(scratch, goal)
        return
    if goal.exists():
        os.rename(goal, old)
    try:
        os.rename(scratch, goal)
    except BaseException:
        if old.exists():
            os.rename(old, goal)
        raise
    shutil.rmtree(old, ignore_errors=True)


class _Report:
    """Sums the progress over all parts."""

    def __init__(self, parts: list[Part], progress: Progress | None) -> None:
        self.rows, self.progress = 0, progress
        self.total = sum(part.n_rows or 0 for part in parts)

    def __call__(self, rows: int, share: float) -> None:
        self.rows += rows
        if self.progress is not None:
            self.progress(self.rows, self.rows / self.total if self.total else share)
