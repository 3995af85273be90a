"""Score files and rows of a database in this process, a batch at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import count, groupby
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.classifiers.base import Classifier
from deepsep.core.model_parts import estimator_of
from deepsep.core.threads import one_blas_thread
from deepsep.drift.counts import Counts
from deepsep.errors import DataError
from deepsep.evaluation.frames import prediction_names
from deepsep.scoring.decisions import Decisions, Tally
from deepsep.scoring.frame import Scored, label_name, score_batch, score_rows
from deepsep.scoring.journal import Journal, assemble, total
from deepsep.scoring.leaving_out import LeavingOut
from deepsep.scoring.parts import Part, Report, UnreadablePart
from deepsep.scoring.writing import PARQUET_MARK, Writer
from deepsep.table.arrow_frames import cells_of
from deepsep.table.batches import TableFile, same_identifiers
from deepsep.table.compiled import CompiledEncoding

PIECE_SECONDS = 20.0  # seconds of work that a killed run may lose


def score_parts(model: Any, parts: Sequence[Part], options: Mapping[str, Any], report: Report) -> list[Tally]:
    """Score the parts in order, to pieces in the journal, and return what each holds."""
    types = label_type(model, options["decisions"], options["leaving_out"])
    tallies = []
    for _, together in groupby(parts, key=lambda part: part.target):
        group = list(together)
        of_group = types | id_type(group, options["id"])
        tallies += [score_part(model, part, of_group, options, report) for part in group]
    return tallies


def assemble_parts(model: Any, parts: Sequence[Part], options: Mapping[str, Any]) -> None:
    """Write the pieces of all parts that could be read to their targets."""
    journal, classes = Journal(options["journal"]), options["decisions"].classes.tolist()
    for target, together in groupby(parts, key=lambda part: part.target):
        pieces = [piece for part in together for piece in journal.pieces(part.name, classes, None)]
        if pieces:
            assemble(pieces, target, Writer(target, {}, options["provenance"]))


def _columns(part: Part, id: str | None) -> list[str]:
    return [*part.types, *([id] if id is not None and id not in part.types else [])]


def label_type(model: Any, decisions: Decisions, leaving_out: LeavingOut | None = None) -> dict[str, Any]:
    """Return the Arrow types of the columns of labels and of reasons, which rows without a label do not determine."""
    label = label_name(model, leaving_out)
    name = prediction_names(decisions.classes, label, sets=decisions.sets is not None)[0]
    reasons = leaving_out.column_names if leaving_out else []
    return {
        name: pa.array(decisions.classes.tolist()).type,
        **{reason: pa.float64() if reason.endswith("odds") else pa.string() for reason in reasons},
    }


def id_type(parts: Sequence[Part], id: str | None) -> dict[str, Any]:
    """Return the Arrow type of the column of identifiers."""
    types = {}
    if id is not None:
        if len(parts) > 1:
            sources = [getattr(part.source, "table", part.source) for part in parts]
            same_identifiers([source for source in sources if isinstance(source, TableFile)], id)
        schemas = [pa.schema({id: part.source.id_type(id)}) for part in parts]
        try:
            types[id] = pa.unify_schemas(schemas, promote_options="permissive").field(id).type
        except pa.ArrowException:
            kinds = sorted({str(schema.field(id).type) for schema in schemas})
            raise DataError(
                f"the id column {id!r} is {' in one part and '.join(kinds)} in another. Use one type in all parts."
            ) from None
    return types


def score_part(model: Any, part: Part, types: dict[str, Any], options: Mapping[str, Any], report: Report) -> Tally:
    """Score one file, its batches on all cores, and return what it holds; what a killed run has done stays."""
    profile, decisions, journal = options["profile"], options["decisions"], Journal(options["journal"])

    def counts() -> Counts | None:
        return None if profile is None else Counts(profile, options["every"])

    classes = decisions.classes.tolist()
    pieces = journal.pieces(part.name, classes, counts())
    tallies = [piece.tally for piece in pieces]
    done = sum(tally.rows for tally in tallies)
    if done:
        report(done, done / part.n_rows if part.n_rows else 0.0)
    if journal.is_complete(part.name):
        return total(tallies, counts())
    batches = scored_batches(model, part, options, done)
    try:
        for number in count(len(pieces)):
            path, piece, began = journal.new_piece(part.name, number), [], monotonic()
            drift, row = counts(), part.first_row + done
            with Writer(path, types, options["provenance"]) as writer:
                for scored, share in batches:
                    if drift is not None:
                        scored.count(drift, row)
                    writer.write(scored.frame)
                    piece.append(scored.tally)
                    row += len(scored.frame)
                    report(len(scored.frame), share)
                    if monotonic() - began > PIECE_SECONDS:
                        break
                if not (piece or tallies):
                    writer.write(no_rows(model, part, options))
                    piece.append(Tally())
            if not piece:
                break
            tallies.append(replace(sum(piece, Tally()), drift=drift))
            done += tallies[-1].rows
            journal.add(path, tallies[-1], classes)
    except UnreadablePart as error:
        journal.drop(part.name)
        return Tally(error=str(error))
    journal.complete(part.name)
    return total(tallies, counts())


def no_rows(model: Any, part: Part, options: Mapping[str, Any]) -> pd.DataFrame:
    """Return the result of a table without rows, which has none."""
    id, nothing = options["id"], pd.DataFrame(columns=_columns(part, options["id"]))
    return score_rows(model, nothing, options["decisions"], id=id, leaving_out=options["leaving_out"])[0]


def _batches(part: Part, options: Mapping[str, Any], dictionaries: Sequence[str], skip: int) -> Iterator[Any]:
    """Yield the batches of a part beyond the first rows, with the share read so far."""
    id = options["id"]
    try:
        for batch, share in part.source.tables(options["batch_rows"], _columns(part, id), part.types, id, dictionaries):
            if skip <= 0:
                yield batch, share
            skip -= len(batch)
    except DataError as error:
        if part.alone:
            raise
        raise UnreadablePart(str(error)) from error


def scored_batches(model: Any, part: Part, options: Mapping[str, Any], skip: int) -> Iterator[tuple[Scored, float]]:
    """Yield the batches of a part with their predictions, in order, a few of them in work at a time."""
    id, row, workers = options["id"], part.first_row + skip, options["workers"]
    leaving_out, predicting = options["leaving_out"], Lock()
    compiled = CompiledEncoding.of(model) if leaving_out is None else None
    in_parts = None
    if compiled is not None and compiled.groups and compiled.is_bounded and hasattr(model[-1], "in_parts"):
        in_parts = model[-1].in_parts(compiled.plain, compiled.groups)
    dictionaries = [] if compiled is None else compiled.dictionaries
    batches = _batches(part, options, dictionaries, skip)

    def score(batch: Any, first_row: int) -> Scored:
        return score_batch(
            model,
            batch,
            options["decisions"],
            id=id,
            first_row=first_row,
            leaving_out=leaving_out,
            compiled=compiled,
            in_parts=in_parts,
            predicting=predicting,
        )

    def work(batch: Any, first_row: int) -> Scored:
        try:
            return score(batch, first_row)
        except DataError as error:
            if id is None:
                raise
            keys = cells_of(_failing(score, batch), id).to_pylist()
            rows = (
                f"row with the key {keys[0]!r}" if len(keys) == 1 else f"rows from the key {keys[0]!r} to {keys[-1]!r}"
            )
            raise error.followed_by(f"First in the {rows}. Correct such rows, or leave them out.") from error

    if workers == 1:
        for batch, share in batches:
            yield work(batch, row), share
            row += len(batch)
        return
    # Held here, since other threads than the first may not change the limit, and must not disagree about it.
    ours = isinstance(estimator_of(model), Classifier)
    with one_blas_thread() if ours else nullcontext(), ThreadPoolExecutor(workers) as pool:
        waiting: deque[tuple[Future[Scored], float]] = deque()
        try:
            for batch, share in batches:
                waiting.append((pool.submit(work, batch, row), share))
                row += len(batch)
                if len(waiting) > workers:
                    scored, share = waiting.popleft()
                    yield scored.result(), share
            while waiting:
                scored, share = waiting.popleft()
                yield scored.result(), share
        finally:
            for scored, _ in waiting:
                scored.cancel()


def _failing(score: Callable[[Any, int], Scored], batch: Any) -> Any:
    """Return the first of the rows of a batch that cannot be scored, or the fewest that cannot together."""
    while len(batch) > 1:
        half = len(batch) // 2
        for part in (batch[:half], batch[half:]):
            try:
                score(part, 0)
            except DataError:
                batch = part
                break
        else:
            break
    return batch


def is_result(path: Path) -> bool:
    """Whether a file is a Parquet file that this module wrote."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return PARQUET_MARK.items() <= metadata.items()
