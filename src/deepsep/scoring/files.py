"""Score files of any size, batch by batch."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from deepsep.core.fields import with_fields
from deepsep.core.notices import warn
from deepsep.errors import DataError
from deepsep.files.atomic import replace_file, replace_folder
from deepsep.scoring import local
from deepsep.scoring.journal import Journal
from deepsep.scoring.local import is_result
from deepsep.scoring.parts import Part
from deepsep.scoring.run import Progress, Scoring, warn_of_drift
from deepsep.scoring.settings import ENGINE_APPS, MOST_PROBABLE_CLASS, THIS_MACHINE, Decision, Resources
from deepsep.scoring.who_scores import describe
from deepsep.scoring.writing import OTHER_FORMAT
from deepsep.table.batches import TableFile
from deepsep.table.excel_cells import check_fits
from deepsep.table.external import ExternalRows
from deepsep.table.locations import Named, Place, SeveralFiles, files_of, is_several, table_at
from deepsep.table.reading_settings import AS_DETECTED, Reading

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

    Memory use is constant, the order of the rows is kept, and the result does not depend on the batch size. Batches are
    scored on all cores. The target is written completely or not at all: it is written to a temporary place and moved at
    the end. If the process is killed, the next call with the same saved model, source, target and settings resumes
    where it stopped. Of several files, one that cannot be read is left out, with a warning; once it has been written
    again, the next call scores only what is missing.

    The rows are compared with the training table on the way, if the model has a profile of it, as those of ``deepsep
    fit`` have. The result is in what is returned and in a file next to the target, ``scored.drift.json`` for
    ``scored.parquet``, which also says which model scored. Parquet and Excel files say so in their metadata.

    Parameters
    ----------
    model : fitted classifier, or path
        The model, or the folder of a saved one.
    source : str, path, sequence of them, or Query
        CSV, TSV, Parquet, Feather, Excel or SPSS; a pattern such as ``"parts/*.csv"`` or a folder of Parquet parts,
        whose files come in the order of their names; or several of these, in the order given. Or a
        :class:`deepsep.apps.sql.Query` to a database, whose rows are sorted by ``id``. After a kill, a query is scored
        from its first row.
    target : str or path
        A file that ends in ``.parquet``, ``.csv``, ``.tsv`` or ``.xlsx``; an existing one is replaced. CSV is UTF-8
        with a byte order mark, from which Excel knows the encoding. For several files also a folder, which gets a
        Parquet file of the same name for each (``may.csv.parquet`` for ``may.csv``); parts of an earlier scoring in it
        are replaced, and it must hold nothing else. Source and target must not contain each other.
    id : str, optional
        The column of identifiers, kept in the result. None: the row number.
    fast : bool, optional
        Whether the student of a :class:`deepsep.Committee` scores, or the committee itself. None: the student if there
        is one, it is expected to cost at most two points of accuracy, and there are more than 100,000 rows. One of the
        two scores the whole source. With ``sets`` or ``abstain``, None means the committee: what they promise rests on
        its own predictions out of fold.
    reasons : int, optional
        Number of columns to add that contributed most to the label of each row; see :func:`deepsep.scoring.reasons`.
        Every row is predicted some eight times for each column; a warning says how long that takes, and a committee
        refuses what would take hours.
    reading : Reading, optional
        How the files are read, such as ``skip_rows``; see :class:`deepsep.table.Reading`.
    decision : Decision, optional
        How labels follow from probabilities, such as ``abstain``; see :class:`deepsep.scoring.Decision`.
    resources : Resources, optional
        What scores, such as ``batch_rows`` at a time; see :class:`deepsep.scoring.Resources`.
    progress : callable, optional
        Called as ``progress(rows, share)`` after each batch (Ray: each part): rows scored so far, and the share
        of the source read so far, from 0 to 1.
    **fields
        Fields of ``reading``, ``decision`` and ``resources`` by name, such as ``skip_rows=2, abstain=0.8``.

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
    reading, decision, resources = with_fields("score_file", fields, reading, decision, resources)
    scoring = Scoring(model, decision, id=id, resources=resources, fast=fast, reasons=reasons)
    place, goal = source if isinstance(source, ExternalRows) else table_at(source), Path(target)
    files = [] if isinstance(place, ExternalRows) else files_of(place)
    several = not isinstance(place, ExternalRows) and is_several(place)
    to_folder = several and goal.suffix.lower() not in SCORED_FORMATS
    if not to_folder and goal.suffix.lower() not in SCORED_FORMATS:
        raise DataError(
            f"the target {goal} must end in {', '.join(SCORED_FORMATS)}{', or be a folder' if several else ''}."
        )
    if not to_folder:
        resources.check_local()
    _check_target(place, goal, to_folder)
    drift_file = goal.with_name(f"{goal.name if to_folder else goal.stem}.drift.json")
    _check_drift_file(drift_file)
    goal.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        failed: dict[str, str] = {}
        if isinstance(place, ExternalRows):
            rows = stack.enter_context(place.open(id))
            n_files, parts = 1, [scoring.part(rows, "the query", target=Path(goal.name))]
        else:
            n_files = len(files)
            parts, failed = plan_parts(scoring, place, files, None if to_folder else Path(goal.name), reading)
        if goal.suffix.lower() == ".xlsx" and not to_folder:
            _check_sheet(parts, len(scoring.model.classes_))
        scoring.choose(parts)
        key = {
            "model": scoring.provenance,
            "scored_by": describe(scoring.model, scoring.scorer)["scored_by"],
            "options": repr([id, resources.batch_rows, decision, reasons, reading]),
        }
        # External rows may be others in the next run.
        resume = scoring.provenance["sha256"] is not None and not isinstance(place, ExternalRows)
        journal = Journal.open(goal, key, resume=resume)
        scoring.options["journal"] = journal.folder
        parts = [replace(part, target=journal.folder / "out" / part.target) for part in parts]
        try:
            engine: Any = local.score_parts
            if resources.engine == "ray":
                scoring.options["workers"] = 1
                app = import_module(ENGINE_APPS[resources.engine])
                engine = partial(app.score_parts, address=resources.address, workers=resources.workers)
            tallies = scoring.score(engine, parts, progress)
            failed |= {part.relative: tally.error for part, tally in zip(parts, tallies, strict=True) if tally.error}
            if len(failed) == n_files:
                raise DataError(f"no part of {place} can be read. {next(iter(failed.values()))}")
            shutil.rmtree(journal.folder / "out", ignore_errors=True)
            local.assemble_parts(scoring.scorer, parts, scoring.options)
            drift_file.unlink(missing_ok=True)  # it is about the earlier target
            if to_folder:
                replace_folder(journal.folder / "out", goal)
            else:
                os.replace(journal.folder / "out" / goal.name, goal)
            if failed:
                journal.keep()
        except BaseException:
            journal.remove()
            raise
    if not failed:
        journal.remove()
    done = {
        **scoring.result(tallies),
        "parts": n_files - len(failed),
        "failed": failed,
        "target": str(goal),
        "drift_file": str(drift_file),
    }
    _write_beside(drift_file, {"deepsep": "drift", "source": str(place), **done})
    warn_of_drift(done["drift"])
    warn_of_failed(failed, n_files)
    return done


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


def _write_beside(place: Path, content: dict[str, Any]) -> None:
    content["labels"] = {str(name): rows for name, rows in content["labels"].items()}
    replace_file(place, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _name(file: Path, first_row: int | None) -> str:
    """Return a name for the pieces of a part, which is another one if the file is written again."""
    about = file.stat()
    stamp = f"{file.resolve()}\n{about.st_size}\n{about.st_mtime_ns}\n{first_row}"
    return hashlib.sha256(stamp.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def plan_parts(
    scoring: Scoring, place: Place, files: list[Path], target: Path | None, reading: Reading
) -> tuple[list[Part], dict[str, str]]:
    """Return the parts to score and those that cannot be read; ``target`` is None if each goes to a file of its own."""
    id, alone = scoring.id, len(files) == 1
    parts, first = [], 0
    failed: dict[str, str] = {}
    base, goals = _folder(place), dict[Path, Path]()
    for file in files:
        relative = Path(os.path.relpath(file, base))
        goal = target or _as_parquet(relative)
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
        parts.append(
            scoring.part(
                table,
                file,
                target=goal,
                first_row=first,
                name=_name(file, first if id is None else None),
                relative=relative.as_posix(),
                alone=alone,
            )
        )
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


def _as_parquet(name: Path) -> Path:
    return name if name.suffix == ".parquet" else name.with_name(f"{name.name}.parquet")


def _check_sheet(parts: list[Part], n_classes: int) -> None:
    """Raise if the rows do not fit on an Excel sheet, before they are scored."""
    others = 50  # columns of a result besides the probabilities, at most
    sizes = [part.source.rows_at_most for part in parts]
    check_fits(sum(sizes), n_classes + others, "the result", OTHER_FORMAT)


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
    others = (
        [file for file in sorted(goal.rglob("*")) if not file.is_dir() and not is_result(file)] if to_folder else []
    )
    if others:
        raise DataError(
            f"the target {goal} holds files that are not parts of an earlier scoring, such as "
            f"{others[0].relative_to(goal)}. Name another folder, or empty it."
        )
