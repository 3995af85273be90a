"""Pieces of a scoring on the disk, from which a new run resumes where a killed one stopped.

A hidden folder next to the target has a Parquet file for every piece, some seconds of work, and a JSON file with what
was decided about its rows. A piece counts once its JSON file is there, which comes last and at once.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from deepsep.drift.counts import Counts
from deepsep.files.atomic import hidden_name, leftovers, remove_leftovers, replace_file
from deepsep.scoring.decisions import Tally
from deepsep.scoring.writer import Writer

KEPT_FILE = "kept"


class Piece(NamedTuple):
    """Consecutive rows of a part that have been scored."""

    path: Path
    tally: Tally


class Journal:
    """The folder of pieces of one target, with the key of the run; the target is put together in ``out``."""

    def __init__(self, folder: Path, classes: Sequence[Any]) -> None:
        self.folder, self.classes, self.out = folder, classes, folder / "out"

    @classmethod
    def open(cls, goal: Path, key: dict[str, Any], classes: Sequence[Any], *, resume: bool) -> Journal:
        """Return the journal of a target: that of a killed run with the same key if there is one, or else a new one."""
        mine = hidden_name(goal, "new")
        for left in [*leftovers(goal), *(place.parent for place in _kept(goal))] if resume else []:
            if _key_of(left) == key:
                try:
                    os.rename(left, mine)  # of two runs at a time, one gets it
                except OSError:
                    continue
                (mine / KEPT_FILE).unlink(missing_ok=True)
                break
        for place in _kept(goal):
            shutil.rmtree(place.parent, ignore_errors=True)
        remove_leftovers(goal)
        if not mine.exists():
            mine.mkdir(parents=True)
            replace_file(mine / "key.json", json.dumps(key))
        return cls(mine, classes)

    def keep(self) -> None:
        """Leave the pieces for the next run, though this one has ended."""
        (self.folder / KEPT_FILE).touch()

    def remove(self) -> None:
        """Remove all pieces."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- pieces ----------------------------------------------------------------------------------------------

    def pieces(self, name: str, counts: Counts | None = None) -> list[Piece]:
        """Return the pieces of a part, in order; with ``counts``, empty ones of a profile, also what was counted."""
        found: list[Piece] = []
        while True:
            path = self._place(name, len(found))
            try:
                content = json.loads(path.with_suffix(".json").read_bytes())
                with pq.ParquetFile(path) as file:
                    if file.metadata.num_rows != content["rows"]:
                        return found
            except (OSError, ValueError, pa.ArrowException):
                return found
            found.append(Piece(path, Tally.from_plain(content, self.classes, counts)))

    def is_complete(self, name: str) -> bool:
        """Whether all rows of a part are in its pieces."""
        return self._place(name, "all").exists()

    def complete(self, name: str) -> None:
        """Note that all rows of a part are in its pieces."""
        self._place(name, "all").touch()

    def new_piece(self, name: str, number: int) -> Path:
        """Return where to write the next piece."""
        path = self._place(name, number)
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)  # a worker that outlives a killed run may still write to it
        return path

    def add(self, path: Path, tally: Tally) -> None:
        """Add a piece that has been written."""
        replace_file(path.with_suffix(".json"), json.dumps({"rows": tally.rows, **tally.to_plain(self.classes)}))

    def drop(self, name: str) -> None:
        """Remove the pieces of a part."""
        for path in (self.folder / "pieces").glob(f"{name}-*"):
            path.unlink(missing_ok=True)

    def assemble(self, names: Iterable[str], target: Path, provenance: Mapping[str, Any]) -> None:
        """Write the pieces of parts to their target, and leave them as they are: a run that is killed here resumes."""
        all_pieces = [piece for name in names for piece in self.pieces(name)]
        pieces = [piece for piece in all_pieces if piece.tally.rows] or all_pieces[:1]
        target.parent.mkdir(parents=True, exist_ok=True)
        if len(pieces) == 1 and target.suffix.lower() == ".parquet":
            try:
                os.link(pieces[0].path, target)
            except OSError:  # not on this file system
                shutil.copyfile(pieces[0].path, target)
            return
        with Writer(target, {}, provenance) as writer:
            for piece in pieces:
                with pq.ParquetFile(piece.path, pre_buffer=False) as file:
                    for batch in file.iter_batches():
                        writer.write_table(pa.Table.from_batches([batch]))
                    if not piece.tally.rows:
                        writer.write_table(file.schema_arrow.empty_table())

    def _place(self, name: str, number: int | str) -> Path:
        return self.folder / "pieces" / f"{name}-{number}.parquet"


def _kept(goal: Path) -> Iterator[Path]:
    for folder in list(goal.parent.iterdir()):
        if folder.name.startswith(f".{goal.name}.") and folder.suffix == ".new" and (folder / KEPT_FILE).exists():
            yield folder / KEPT_FILE


def _key_of(folder: Path) -> Any:
    try:
        return json.loads((folder / "key.json").read_bytes())
    except (OSError, ValueError):
        return None
