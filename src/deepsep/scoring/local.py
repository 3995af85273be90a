"""Score files in this process, a batch at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.drift.counts import Counts
from deepsep.errors import DataError
from deepsep.evaluation.frames import prediction_names
from deepsep.scoring.decisions import Decisions, Tally
from deepsep.scoring.frame import Scored, label_name, score_batch, score_rows
from deepsep.scoring.leaving_out import LeavingOut
from deepsep.scoring.parts import Part, Report
from deepsep.scoring.writing import MARK, Writer
from deepsep.table.compiled import CompiledEncoding


def score_parts(model: Any, parts: Sequence[Part], options: Mapping[str, Any], report: Report) -> list[Tally]:
    """Score the parts in order and return what each holds."""
    id, decisions, leaving_out, tallies = options["id"], options["decisions"], options["leaving_out"], []
    types = label_type(model, decisions, leaving_out)
    for target, together in groupby(parts, key=lambda part: part.target):
        group = list(together)
        with Writer(target, types | _id_type(group, id), options["provenance"]) as writer:
            tallies += [score_part(model, part, writer, options, report) for part in group]
            if writer.empty:  # a table without rows gives a result without rows
                nothing = pd.DataFrame(columns=_columns(group[0], id))
                writer.write(score_rows(model, nothing, decisions, id=id, leaving_out=leaving_out)[0])
    return tallies


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


def _id_type(parts: Sequence[Part], id: str | None) -> dict[str, Any]:
    """Return the Arrow type of the column of identifiers."""
    types = {}
    if id is not None:
        schemas = [pa.schema({id: part.source.id_type(id)}) for part in parts]
        try:
            types[id] = pa.unify_schemas(schemas, promote_options="permissive").field(id).type
        except pa.ArrowException:
            kinds = sorted({str(schema.field(id).type) for schema in schemas})
            raise DataError(
                f"the id column {id!r} is {' in one part and '.join(kinds)} in another. Use one type in all parts."
            ) from None
    return types


def score_part(model: Any, part: Part, writer: Writer, options: Mapping[str, Any], report: Report) -> Tally:
    """Score one file, its batches on all cores, and return what it holds."""
    whole, row = Tally(), part.first_row
    drift = None if options["profile"] is None else Counts(options["profile"], options["every"])
    for scored, share in _scored(model, part, options):
        if drift is not None:
            scored.count(drift, row)
        writer.write(scored.frame)
        whole += scored.tally
        row += len(scored.frame)
        report(len(scored.frame), share)
    return replace(whole, drift=drift)


def _scored(model: Any, part: Part, options: Mapping[str, Any]) -> Iterator[tuple[Scored, float]]:
    """Yield the batches of a part with their predictions, in order, a few of them in work at a time."""
    id, row, workers = options["id"], part.first_row, options["workers"]
    leaving_out, predicting = options["leaving_out"], Lock()
    compiled = CompiledEncoding.of(model) if leaving_out is None else None
    dictionaries = [] if compiled is None else compiled.dictionaries
    batches = part.source.tables(options["batch_rows"], _columns(part, id), part.types, id, dictionaries)

    def work(batch: Any, first_row: int) -> Scored:
        return score_batch(
            model,
            batch,
            options["decisions"],
            id=id,
            first_row=first_row,
            leaving_out=leaving_out,
            compiled=compiled,
            predicting=predicting,
        )

    if workers == 1:
        for batch, share in batches:
            yield work(batch, row), share
            row += len(batch)
        return
    with ThreadPoolExecutor(workers) as pool:
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


def is_result(path: Path) -> bool:
    """Whether a file is a Parquet file that this module wrote."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return MARK.items() <= metadata.items()
