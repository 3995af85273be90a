"""Write the files of a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deepsep.cli.options import Format
from deepsep.files.folder import install
from deepsep.files.saving import OWN, model_files

REPORT, SUMMARY = "report.html", "report.json"


def save_model(model: Any, extra: Mapping[str, bytes], target: Path) -> None:
    """Write a model and the files that go with it to a folder; if anything fails, the folder is unchanged.

    The folder is new or was returned by ``check_model_folder``. Predictions and reports of an earlier model in it are
    removed; other files stay.
    """
    install({**model_files(model), **extra}, target, own=(*OWN, *(format.file for format in Format), REPORT, SUMMARY))


def read_folder(root: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def as_file(frame: Any, format: Format, types: Mapping[str, Any]) -> bytes:
    """Return a DataFrame as a file of predictions; ``types`` are those of columns that may be empty."""
    from deepsep.scoring.writing import Writer

    with TemporaryDirectory() as folder:
        place = Path(folder, format.file)
        with Writer(place, types) as writer:
            writer.write(frame)
        return place.read_bytes()
