"""Fit to a table that is larger than memory, and predict all of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep.cli.options import Format
from deepsep.cli.training import ROW, LargeTable, Training, read_weights
from deepsep.core.mapped_rows import MappedRows
from deepsep.scoring.asked import Asked
from deepsep.scoring.others import read_frames, score_others
from deepsep.scoring.writing import Writer
from deepsep.table.compiled import CompiledEncoding
from deepsep.table.sampling import BATCH

if TYPE_CHECKING:
    from deepsep.cli.console import Console


@contextmanager
def learning_from_all(out: Console, model: Any, encoded: Any, data: Training) -> Iterator[None]:
    """Let a fit of the last step learn from the rows that are not in memory, in a ``with`` block.

    The other steps have been fitted to the rows in memory, which they have ``encoded``, and are applied to the others
    batch by batch.
    """
    large = data.large
    if large is None or not len(large.chosen.more):
        yield
        return
    first = np.asarray(encoded, np.float32)
    encoding = CompiledEncoding.of(model)
    assert encoding is not None
    shape = (len(first) + len(large.chosen.more), encoding.n_features)
    out.note(f"Encoding {len(large.chosen.more):,} more rows, in a file of {4 * shape[0] * shape[1] / 1e9:,.1f} GB ...")
    weight = None if data.weight is None else np.append(data.weight, np.ones(len(large.chosen.more)))
    with out.share("Encoding") as progress:
        rows = MappedRows.write(_encoded(large, encoding, first, weight, progress), shape, weight)
    estimator, tenth = model[-1], 0

    def on_rows(done: int, total: int) -> None:
        nonlocal tenth
        if 10 * done // total > tenth:
            tenth = 10 * done // total
            out.note(f"The committee has told its student about {done:,} of {total:,} rows.")

    estimator._more_rows, estimator._on_rows = rows, on_rows
    try:
        yield
    finally:
        del estimator._more_rows, estimator._on_rows


def _encoded(large: LargeTable, encoding: CompiledEncoding, first: Any, weight: Any, progress: Any) -> Iterator[Any]:
    """Yield the encoded rows, those in memory first; weights of the others are filled in."""
    yield first
    done, chosen = len(first), large.chosen
    others = np.ones(chosen.n_rows, bool)
    others[chosen.more] = False
    columns, types = [*encoding.names], encoding.useful.schema_
    if large.weight is not None:
        columns, types = [*columns, large.weight], {**types, large.weight: "number"}
    with large.without(np.flatnonzero(others)) as tables:
        for table in tables:
            for batch, share in table.tables(BATCH, list(dict.fromkeys(columns)), types, None, encoding.dictionaries):
                if large.weight is not None:
                    own = batch.select([large.weight]).to_pandas()
                    weight[done : done + len(batch)] = read_weights(own, large.weight)
                done += len(batch)
                progress(done, done / (len(first) + len(chosen.more)) if table.n_rows else share)
                if len(batch):
                    yield encoding.matrix(encoding.read(batch))


def predict_all(
    out: Console, model: Any, data: Training, asked: Asked, format: Format, folder: Path
) -> tuple[Path, Path, dict[str, Any]]:
    """Predict all unlabelled rows of a large table; return a Parquet file, one of the format, and what came of it."""
    large = data.large
    assert large is not None
    place, file = folder / "all.parquet", folder / format.file
    with large.unlabelled() as tables, out.share("Predicting") as progress:
        done = score_others(model, tables, place, asked, id=large.id, number=ROW, progress=progress)
    if format is Format.parquet:
        return place, place, done
    with Writer(file, {}) as writer:
        for frame in read_frames(place):
            writer.write(frame)
    return place, file, done
