"""Score files in this process, a batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.drift.counts import Counts
from deepsep.errors import DataError
from deepsep.evaluation.frames import prediction_names
from deepsep.scoring.frame import label_of, score_counted, score_frame
from deepsep.scoring.parts import Part, Report, Tally
from deepsep.scoring.writing import MARK, Writer


def score_parts(model: Any, parts: Sequence[Part], options: Mapping[str, Any], report: Report) -> list[Tally]:
    """Score the parts in order and return what each holds."""
    id, tallies = options["id"], []
    for target, together in groupby(parts, key=lambda part: part.target):
        group = list(together)
        with Writer(target, _types(model, group, id), options["provenance"]) as writer:
            tallies += [score_part(model, part, writer, options, report) for part in group]
            if writer.empty:  # a table without rows gives a result without rows
                writer.write(score_frame(model, pd.DataFrame(columns=_columns(group[0], id)), id=id))
    return tallies


def _columns(part: Part, id: str | None) -> list[str]:
    return [*part.types, *([id] if id is not None and id not in part.types else [])]


def _types(model: Any, parts: Sequence[Part], id: str | None) -> dict[str, Any]:
    """Return the Arrow types of the columns that the first rows do not determine."""
    name = prediction_names(model.classes_, label_of(model))[0]
    types = {name: pa.array(np.asarray(model.classes_).tolist()).type}
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
    """Score one file and return what it holds."""
    id, labels, row = options["id"], Counter[Any](), part.first_row
    drift = None if options["profile"] is None else Counts(options["profile"], options["every"])
    label = prediction_names(model.classes_, label_of(model))[0]
    for frame, share in part.source.batches(options["batch_rows"], _columns(part, id), part.types, id):
        scored = score_counted(model, frame, drift, id=id, first_row=row)
        writer.write(scored)
        labels.update(scored[label].tolist())
        row += len(scored)
        report(len(scored), share)
    return Tally(labels, drift)


def is_result(path: Path) -> bool:
    """Whether a file is a Parquet file that this module wrote."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return MARK.items() <= metadata.items()
