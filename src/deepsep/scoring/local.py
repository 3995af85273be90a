"""Score files in this process, a batch at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from deepsep.errors import DataError
from deepsep.scoring.frame import score_frame
from deepsep.scoring.parts import Part, Report

MARK = {b"deepsep": b"scores"}  # metadata of our Parquet files, which the next scoring may replace


def score_parts(model: Any, parts: Sequence[Part], options: Mapping[str, Any], report: Report) -> list[Counter[Any]]:
    """Score the parts in order and return the number of rows per label in each."""
    id, counts = options["id"], []
    for target, together in groupby(parts, key=lambda part: part.target):
        group = list(together)
        with Writer(target, _types(model, group, id)) as writer:
            counts += [score_part(model, part, writer, options, report) for part in group]
            if writer.empty:  # a table without rows gives a result without rows
                writer.write(score_frame(model, pd.DataFrame(columns=_columns(group[0], id)), id=id))
    return counts


def _columns(part: Part, id: str | None) -> list[str]:
    return [*part.types, *([id] if id is not None and id not in part.types else [])]


def _types(model: Any, parts: Sequence[Part], id: str | None) -> dict[str, Any]:
    """Return the Arrow types of the columns that the first rows do not determine."""
    types = {"label": pa.array(np.asarray(model.classes_).tolist()).type}
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


def score_part(model: Any, part: Part, writer: Writer, options: Mapping[str, Any], report: Report) -> Counter[Any]:
    """Score one file and return the number of rows per label."""
    id, counts, row = options["id"], Counter[Any](), part.first_row
    for frame, share in part.source.batches(options["batch_rows"], _columns(part, id), part.types, id):
        scored = score_frame(model, frame, id=id, first_row=row)
        writer.write(scored)
        counts.update(scored["label"].tolist())
        row += len(scored)
        report(len(scored), share)
    return counts


class Writer:
    """Writes frames to one Parquet, CSV or TSV file."""

    def __init__(self, path: Path, types: Mapping[str, Any]) -> None:
        self.path, self.types = path, types
        self._writer: Any = None

    @property
    def empty(self) -> bool:
        """Whether nothing has been written."""
        return self._writer is None

    def __enter__(self) -> Self:
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append rows; the first ones set the types of columns for which none is given."""
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self._writer is None:
            self._schema = pa.schema(
                [field.with_type(self.types.get(field.name, field.type)) for field in table.schema],
                (table.schema.metadata or {}) | MARK,
            )
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.suffix.lower() == ".parquet":
                self._writer = pq.ParquetWriter(self.path, self._schema)
            else:
                style = pacsv.WriteOptions(
                    delimiter="\t" if self.path.suffix.lower() == ".tsv" else ",", quoting_style="needed"
                )
                self._writer = pacsv.CSVWriter(self.path, self._schema, write_options=style)
        self._writer.write_table(table.cast(self._schema))

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def is_result(path: Path) -> bool:
    """Whether a file is a Parquet file that this module wrote."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return MARK.items() <= metadata.items()
