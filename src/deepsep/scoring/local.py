"""Score files and external rows in this process, a batch at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from itertools import count, groupby
from time import monotonic
from typing import Any

import pandas as pd
import pyarrow as pa

from deepsep.classifiers.base import Classifier
from deepsep.core.model_parts import estimator_of
from deepsep.core.threads import one_blas_thread
from deepsep.errors import DataError
from deepsep.scoring.decisions import Tally, total
from deepsep.scoring.frame import RowScorer, Scored, label_type
from deepsep.scoring.job import Part, Report, ScoringJob, UnreadablePart
from deepsep.scoring.writer import Writer
from deepsep.table.arrow_frames import cells_of
from deepsep.table.batches import TableFile, same_identifiers

PIECE_SECONDS = 20.0  # seconds of work that a killed run may lose


def score_parts(job: ScoringJob, parts: Sequence[Part], report: Report) -> list[Tally]:
    """Score the parts in order, to pieces in the journal, and return what each holds."""
    tallies = []
    for _, together in groupby(parts, key=lambda part: part.target):
        group = list(together)
        types = result_types(job, group)
        tallies += [_score_part(job, part, types, report) for part in group]
    return tallies


def result_types(job: ScoringJob, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the Arrow types of the columns of a result that its first rows do not determine."""
    types = label_type(job.model, job.decisions, job.leaving_out)
    return types if job.id is None else {**types, job.id: id_type(parts, job.id)}


def id_type(parts: Sequence[Part], id: str) -> Any:
    """Return the Arrow type of the column of identifiers."""
    if len(parts) > 1:
        sources = [getattr(part.source, "table", part.source) for part in parts]
        same_identifiers([source for source in sources if isinstance(source, TableFile)], id)
    schemas = [pa.schema({id: part.source.id_type(id)}) for part in parts]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(id).type
    except pa.ArrowException:
        kinds = sorted({str(schema.field(id).type) for schema in schemas})
        raise DataError(
            f"the id column {id!r} is {' in one part and '.join(kinds)} in another. Use one type in all parts."
        ) from None


def _score_part(job: ScoringJob, part: Part, types: dict[str, Any], report: Report) -> Tally:
    """Score one file, its batches on all cores, and return what it holds; what a killed run has done stays."""
    journal = job.journal
    assert journal is not None
    pieces = journal.pieces(part.name, job.new_counts())
    tallies = [piece.tally for piece in pieces]
    done = sum(tally.rows for tally in tallies)
    if done:
        report(done, done / part.n_rows if part.n_rows else 0.0)
    if journal.is_complete(part.name):
        return total(tallies, job.new_counts())
    batches = scored_batches(job, part, done)
    try:
        for number in count(len(pieces)):
            path, piece, began = journal.new_piece(part.name, number), [], monotonic()
            drift, row = job.new_counts(), part.first_row + done
            with Writer(path, types, job.provenance) as writer:
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
                    writer.write(no_rows(job, part))
                    piece.append(Tally())
            if not piece:
                break
            tallies.append(replace(sum(piece, Tally()), drift=drift))
            done += tallies[-1].rows
            journal.add(path, tallies[-1])
    except UnreadablePart as error:
        journal.drop(part.name)
        return Tally(error=str(error))
    journal.complete(part.name)
    return total(tallies, job.new_counts())


def no_rows(job: ScoringJob, part: Part) -> pd.DataFrame:
    """Return the result of a table without rows."""
    return _scorer(job)(pd.DataFrame(columns=_columns(job, part))).frame


def _scorer(job: ScoringJob) -> RowScorer:
    return RowScorer(job.model, job.decisions, id=job.id, leaving_out=job.leaving_out, compiled=True)


def _columns(job: ScoringJob, part: Part) -> list[str]:
    return list(dict.fromkeys([*part.types, *([] if job.id is None else [job.id])]))


def _batches(job: ScoringJob, part: Part, dictionaries: Sequence[str], skip: int) -> Iterator[Any]:
    """Yield the batches of a part beyond the first rows, with the share read so far."""
    columns = _columns(job, part)
    try:
        for batch, share in part.source.tables(job.batch_rows, columns, part.types, job.id, dictionaries):
            if skip <= 0:
                yield batch, share
            skip -= len(batch)
    except DataError as error:
        if part.alone:
            raise
        raise UnreadablePart(str(error)) from error


def scored_batches(job: ScoringJob, part: Part, skip: int = 0) -> Iterator[tuple[Scored, float]]:
    """Yield the batches of a part with their predictions, in order, a few of them in work at a time."""
    score, row = _scorer(job), part.first_row + skip
    batches = _batches(job, part, score.dictionaries, skip)

    def work(batch: Any, first_row: int) -> Scored:
        try:
            return score(batch, first_row)
        except DataError as error:
            if job.id is None:
                raise
            keys = cells_of(_failing(score, batch), job.id).to_pylist()
            rows = (
                f"row with the key {keys[0]!r}" if len(keys) == 1 else f"rows from the key {keys[0]!r} to {keys[-1]!r}"
            )
            raise error.followed_by(f"First in the {rows}. Correct such rows, or leave them out.") from error

    if job.workers == 1:
        for batch, share in batches:
            yield work(batch, row), share
            row += len(batch)
        return
    # Held here, since other threads than the first may not change the limit, and must not disagree about it.
    ours = isinstance(estimator_of(job.model), Classifier)
    with one_blas_thread() if ours else nullcontext(), ThreadPoolExecutor(job.workers) as pool:
        waiting: deque[tuple[Future[Scored], float]] = deque()
        try:
            for batch, share in batches:
                waiting.append((pool.submit(work, batch, row), share))
                row += len(batch)
                if len(waiting) > job.workers:
                    scored, share = waiting.popleft()
                    yield scored.result(), share
            while waiting:
                scored, share = waiting.popleft()
                yield scored.result(), share
        finally:
            for scored, _ in waiting:
                scored.cancel()


def _failing(score: Callable[[Any], Scored], batch: Any) -> Any:
    """Return the first of the rows of a batch that cannot be scored, or the fewest that cannot together."""
    while len(batch) > 1:
        half = len(batch) // 2
        for part in (batch[:half], batch[half:]):
            try:
                score(part)
            except DataError:
                batch = part
                break
        else:
            break
    return batch
