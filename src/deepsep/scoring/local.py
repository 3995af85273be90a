"""Score files in this process, a batch at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.drift.counts import Counts
from deepsep.errors import DataError
from deepsep.evaluation.frames import prediction_names
from deepsep.scoring.decisions import Decisions, Tally
from deepsep.scoring.frame import label_name, score_rows
from deepsep.scoring.leaving_out import LeavingOut
from deepsep.scoring.parts import Part, Report, Target
from deepsep.scoring.scores_tables import TableWriter
from deepsep.scoring.writing import MARK, Writer

AnyWriter = Writer | TableWriter


def score_parts(model: Any, parts: Sequence[Part], options: Mapping[str, Any], report: Report) -> list[Tally]:
    """Score the parts in order and return what each holds."""
    id, decisions, leaving_out, tallies = options["id"], options["decisions"], options["leaving_out"], []
    types = label_type(model, decisions, leaving_out)
    for target, together in groupby(parts, key=lambda part: part.target):
        group = list(together)
        with open_writer(target, types | _id_type(group, id), options["provenance"]) as writer:
            tallies += [score_part(model, part, writer, options, report) for part in group]
            if writer.empty:  # a table without rows gives a result without rows
                nothing = pd.DataFrame(columns=_columns(group[0], id))
                writer.write(score_rows(model, nothing, decisions, id=id, leaving_out=leaving_out)[0])
    return tallies


def open_writer(target: Target, types: Mapping[str, Any], provenance: Mapping[str, Any]) -> AnyWriter:
    """Return what writes predictions to a file, or to a table of a database."""
    return Writer(target, types, provenance) if isinstance(target, Path) else TableWriter(target, types)


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


def score_part(model: Any, part: Part, writer: AnyWriter, options: Mapping[str, Any], report: Report) -> Tally:
    """Score one file and return what it holds."""
    id, whole, row = options["id"], Tally(), part.first_row
    drift = None if options["profile"] is None else Counts(options["profile"], options["every"])
    for frame, share in part.source.batches(options["batch_rows"], _columns(part, id), part.types, id):
        scored, tally = score_rows(
            model,
            frame,
            options["decisions"],
            id=id,
            first_row=row,
            counts=drift,
            leaving_out=options["leaving_out"],
        )
        writer.write(scored)
        whole += tally
        row += len(scored)
        report(len(scored), share)
    return replace(whole, drift=drift)


def is_result(path: Path) -> bool:
    """Whether a file is a Parquet file that this module wrote."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return MARK.items() <= metadata.items()
