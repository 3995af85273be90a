"""Predict all unlabelled rows of a large table, of which a fit has read a part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsep.cli.options import Format
from deepsep.cli.training import ROW, Training
from deepsep.scoring.others import read_frames, score_others
from deepsep.scoring.settings import Decision
from deepsep.scoring.writing import Writer

if TYPE_CHECKING:
    from deepsep.cli.console import Console


def predict_all(
    out: Console, model: Any, data: Training, asked: Decision, format: Format, folder: Path
) -> tuple[Path, Path, dict[str, Any]]:
    """Predict all unlabelled rows of a large table; return a Parquet file, one of the format, and what came of it."""
    large = data.large
    assert large is not None
    place, file = folder / "all.parquet", folder / format.file
    with large.unlabeled() as tables, out.share("Predicting") as progress:
        done = score_others(model, tables, place, asked, id=large.id, number=ROW, progress=progress)
    if format is Format.parquet:
        return place, place, done
    with Writer(file, {}) as writer:
        for frame in read_frames(place):
            writer.write(frame)
    return place, file, done
