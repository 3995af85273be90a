"""Score files of any size, batch by batch."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from deepsep.core.checks import with_fields
from deepsep.errors import DataError, warn
from deepsep.files.atomic import replace_file, replace_folder
from deepsep.scoring.decisions import MOST_PROBABLE_CLASS, Decision
from deepsep.scoring.job import (
    ENGINE_APPS,
    THIS_MACHINE,
    Part,
    Progress,
    Resources,
    Scoring,
    failed_parts,
    reporting,
    warn_of_drift,
)
from deepsep.scoring.journal import Journal
from deepsep.scoring.local import result_types, score_parts, scored_batches
from deepsep.scoring.writer import OTHER_FORMAT, Writer, is_result
from deepsep.table.batches import TableFile
from deepsep.table.excel_cells import check_fits
from deepsep.table.locations import Named, Place, SeveralFiles, files_of, is_several, table_at
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.source import NUMBER_COLUMN, ExternalRows, Source

SCORED_FORMATS = (".parquet", ".csv", ".tsv", ".xlsx")


def score_file(
    model: Any,
    source: Named | ExternalRows,
    target: str | os.PathLike[str],
    *,
    id: str | None = None,
    fast: bool | None = None,
    reasons: int | None = None,
    reading: Reading = AS_DETECTED,
    decision: Decision = MOST_PROBABLE_CLASS,
    resources: Resources = THIS_MACHINE,
    progress: Progress | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Score a file of any size, or several of them, batch by batch.

    Memory use is constant, and the order of the rows is kept. The target is written completely or not at all. If the
    process is killed, the next call with the same saved model, source, target and settings resumes where it stopped. Of
    several files, one that cannot be read is left out, with a warning; once it has been written again, the next call
    scores only what is missing.

    The rows are compared with the training table, if the model has a profile of it. The result is in what is returned
    and in a file next to the target, ``scored.drift.json`` for ``scored.parquet``, which also says which model scored.

    Parameters
    ----------
    model : fitted classifier, or path
        The model, or the folder of a saved one.
    source : str, path, sequence of them, or Query
        CSV, TSV, Parquet, Feather, Excel or SPSS; a pattern such as ``"parts/*.csv"`` or a folder of Parquet parts,
        whose files come in the order of their names; or several of these, in the order given. Or a
        :class:`deepsep.apps.sql.Query` to a database, whose rows are sorted by ``id``.
    target : str or path
        A file that ends in ``.parquet``, ``.csv``, ``.tsv`` or ``.xlsx``; an existing one is replaced. For several
        files also a folder, which gets a Parquet file for each (``may.csv.parquet`` for ``may.csv``) and must hold
        nothing else.
    id : str, optional
        The column of identifiers, kept in the result. None: the row number.
    fast : bool, optional
        Whether the student of a :class:`deepsep.Committee` scores, or the committee itself. None: the student if it is
        expected to cost at most two points of accuracy, and there are more than 100,000 rows; with ``sets`` or
        ``abstain`` the committee.
    reasons : int, optional
        Number of columns to add that contributed most to the label of each row; see :func:`deepsep.scoring.reasons`.
    reading : Reading, optional
        How the files are read, such as ``skip_rows``; see :class:`deepsep.table.Reading`.
    decision : Decision, optional
        How labels follow from probabilities, such as ``abstain``; see :class:`deepsep.scoring.Decision`.
    resources : Resources, optional
        What scores, such as ``batch_rows`` at a time; see :class:`deepsep.scoring.Resources`.
    progress : callable, optional
        Called as ``progress(rows, share)`` with the rows scored and the share of the source read so far.
    **fields
        Fields of ``reading``, ``decision`` and ``resources`` by name, such as ``skip_rows=2, abstain=0.8``.

    Returns
    -------
    dict
        ``rows``, ``parts``, ``labels`` (rows per class), ``ignored`` (columns that the model does not use), ``target``;
        ``failed``, the parts that could not be read, and why; ``decisions``, what ``sets``, ``abstain`` and ``costs``
        did; ``reasons``, their ``number`` and the ``passes`` over the rows; ``scored_by``, the method or "student";
        ``student``, its ``agreement`` with the committee on rows held out, and ``accuracy_loss``; ``model``, where it
        comes from; ``drift``, as :func:`compare_with_training`; and ``drift_file``. None where there is nothing to say.

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
    reading, decision, resources = with_fields("score_file", fields, reading, decision, resources)
    scoring = Scoring(model, decision, id=id, resources=resources, fast=fast, reasons=reasons)
    place, goal = source if isinstance(source, ExternalRows) else table_at(source), Path(target)
    files = [] if isinstance(place, ExternalRows) else files_of(place)
    several = not isinstance(place, ExternalRows) and is_several(place)
    is_file = goal.suffix.lower() in SCORED_FORMATS
    if not (several or is_file):
        raise DataError(f"the target {goal} must end in {', '.join(SCORED_FORMATS)}.")
    if is_file:
        resources.check_local()
    _check_target(place, goal, to_folder=not is_file)
    drift_file = goal.with_name(f"{goal.stem if is_file else goal.name}.drift.json")
    _check_drift_file(drift_file)
    goal.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if isinstance(place, ExternalRows):
            rows = stack.enter_context(place.open(id))
            parts, failed = [scoring.part(rows, "the query", target=Path(goal.name))], dict[str, str]()
        else:
            parts, failed = plan_parts(scoring, place, files, Path(goal.name) if is_file else None, reading)
        if goal.suffix.lower() == ".xlsx":
            n_columns = len(scoring.decisions.classes) + 50  # at most 50 besides the probabilities
            check_fits(sum(part.source.rows_at_most for part in parts), n_columns, "the result", OTHER_FORMAT)
        n_files, job = len(parts) + len(failed), scoring.job(parts)
        key = {
            "model": job.provenance,
            "scored_by": job.scored_by,
            "options": repr([id, resources.batch_rows, decision, reasons, reading]),
        }
        # External rows may be others in the next run.
        resume = job.provenance["sha256"] is not None and not isinstance(place, ExternalRows)
        journal = Journal.open(goal, key, scoring.decisions.classes.tolist(), resume=resume)
        job = replace(job, journal=journal)
        parts = [replace(part, target=journal.out / part.target) for part in parts]
        try:
            if resources.engine == "local":
                tallies = score_parts(job, parts, reporting(parts, progress))
            else:
                cluster = {"address": resources.address, "workers": resources.workers}
                app = import_module(ENGINE_APPS[resources.engine])
                tallies = app.score_on_cluster(job, parts, reporting(parts, progress), **cluster)
            failed |= failed_parts(parts, tallies)
            if len(failed) == n_files:
                raise DataError(f"no part of {place} can be read. {next(iter(failed.values()))}")
            shutil.rmtree(journal.out, ignore_errors=True)
            for part_target, together in groupby(parts, key=lambda part: part.target):
                names = [part.name for part in together if part.relative not in failed]
                if names:
                    journal.assemble(names, part_target, job.provenance)
            drift_file.unlink(missing_ok=True)  # it is about the earlier target
            if is_file:
                os.replace(journal.out / goal.name, goal)
            else:
                replace_folder(journal.out, goal)
            if failed:
                journal.keep()
        except BaseException:
            journal.remove()
            raise
    if not failed:
        journal.remove()
    own = {"parts": n_files - len(failed), "failed": failed, "target": str(goal), "drift_file": str(drift_file)}
    done = {**scoring.result(job, tallies), **own}
    written = {"deepsep": "drift", "source": str(place), **done}
    written["labels"] = {str(name): rows for name, rows in done["labels"].items()}
    replace_file(drift_file, json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    warn_of_drift(done["drift"])
    warn_of_failed(failed, n_files)
    return done


def score_others(
    model: Any,
    rows: Sequence[Source],
    target: Path,
    decision: Decision,
    *,
    id: str | None,
    number: str,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predict the unlabelled rows of a table that is too large for memory, and return what ``score_file`` does.

    ``number`` is the name of the column of row numbers, where there is no ``id``.
    """
    scoring = Scoring(model, decision, id=id or NUMBER_COLUMN)
    scoring.profile = None  # the model was made for this table
    parts = [scoring.part(part, "the table") for part in rows]
    job, report, tallies = scoring.job(parts), reporting(parts, progress), []
    types = result_types(job, parts)
    if id is None:
        types[number] = types[NUMBER_COLUMN]
    with Writer(target, types) as writer:
        for part in parts:
            for scored, share in scored_batches(job, part):
                writer.write(scored.frame.rename(columns={NUMBER_COLUMN: number}))
                tallies.append(scored.tally)
                report(len(scored.frame), share)
    return scoring.result(job, tallies)


def warn_of_failed(failed: Mapping[str, str], n_files: int) -> None:
    """Warn if parts could not be read."""
    if failed:
        reasons_why = "".join(f"\n  {name}: {why}" for name, why in failed.items())
        warn(
            f"{len(failed)} of {n_files} parts could not be read, and the result lacks their rows:{reasons_why}\n"
            "Write them again and score again: only what is missing is then scored."
        )


def _check_drift_file(place: Path) -> None:
    """Raise if the file about the scoring would replace something else."""
    if not os.path.lexists(place):
        return
    try:
        ours = json.loads(place.read_bytes())["deepsep"] == "drift"
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        ours = False
    if not ours:
        raise DataError(f"{place} would be replaced, and deepsep did not write it. Rename it, or name another target.")


def plan_parts(
    scoring: Scoring, place: Place, files: list[Path], target: Path | None, reading: Reading
) -> tuple[list[Part], dict[str, str]]:
    """Return the parts to score and those that cannot be read; ``target`` is None if each goes to a file of its own."""
    alone, parts, first = len(files) == 1, [], 0
    failed: dict[str, str] = {}
    base, goals = _folder(place), dict[Path, Path]()
    for file in files:
        relative = Path(os.path.relpath(file, base))
        goal = target or (relative if relative.suffix == ".parquet" else Path(f"{relative}.parquet"))
        if target is None and goals.setdefault(goal, file) != file:
            raise DataError(
                f"{file} and {goals[goal]} would both become {goal}. Rename one, or name a file as the target."
            )
        try:
            table = TableFile(file, reading)
            if not alone:
                table.count_rows()
        except DataError as error:
            if alone:
                raise
            failed[relative.as_posix()] = str(error)
            continue
        about = file.stat()  # another name for the pieces if the file is written again
        stamp = f"{file.resolve()}\n{about.st_size}\n{about.st_mtime_ns}\n{first if scoring.id is None else None}"
        name = hashlib.sha256(stamp.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        place_in = {"target": goal, "first_row": first, "name": name, "relative": relative.as_posix()}
        parts.append(scoring.part(table, file, alone=alone, **place_in))
        first += table.n_rows or 0
    if not parts:
        raise DataError(f"no part of {place} can be read. {next(iter(failed.values()))}")
    return parts, failed


def _folder(place: Place) -> Path:
    """Return the folder that all files of a table are in."""
    if isinstance(place, SeveralFiles):
        try:
            return Path(os.path.commonpath([file.absolute().parent for file in place.files]))
        except ValueError:
            raise DataError(f"the files of {place} are on several drives. Score those of each drive alone.") from None
    return place if place.is_dir() else place.parent


def _check_target(source: Place | ExternalRows, goal: Path, to_folder: bool) -> None:
    """Raise if the result would overwrite anything but an earlier result."""
    there = goal.resolve()
    if isinstance(source, SeveralFiles):
        sources = list(source.files)
    else:
        sources = [Path(source.place) if isinstance(source, ExternalRows) else source]
    for here in (each.resolve() for each in sources):
        if here == there and len(sources) == 1:
            raise DataError(f"source and target are both {goal}. Name another target.")
        if here == there:
            raise DataError(f"the target {goal} is one of the files of {source}. Name another target, elsewhere.")
        if here in there.parents or there in here.parents:
            raise DataError(f"the source {source} and the target {goal} contain one another. Name a target elsewhere.")
    if not goal.exists():
        return
    if goal.is_dir() is not to_folder:
        raise DataError(f"the target {goal} is a {'folder' if goal.is_dir() else 'file'}. Name another target.")
    others = [file for file in sorted(goal.rglob("*")) if not (file.is_dir() or is_result(file))] if to_folder else []
    if others:
        raise DataError(
            f"the target {goal} holds files that are not parts of an earlier scoring, such as "
            f"{others[0].relative_to(goal)}. Name another folder, or empty it."
        )
