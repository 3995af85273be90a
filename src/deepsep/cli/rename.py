"""``deepsep rename``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from deepsep.cli.console import console
from deepsep.cli.options import Debug, Json, Quiet, takes_options
from deepsep.table.reading_settings import Reading

OLD_COLUMN, NEW_COLUMN = "old", "new"


@takes_options()
def rename(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="Folder that `deepsep fit` or `deepsep segments` wrote.", show_default=False
        ),
    ],
    names: Annotated[
        Path,
        typer.Argument(metavar="NAMES", help="Table with the columns old and new, CSV or Excel.", show_default=False),
    ],
    *,
    reading: Reading,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Rename classes or segments after a fit, everywhere they appear.

    In the model and all its members, and in the files next to it: predictions, labels, report; for segments, also in
    respondents, profiles and names. Probabilities stay the same to the last bit, and their columns keep their order.
    Names that the table does not have stay. The folder is changed completely or not at all.

    Example: deepsep rename segments/model names.csv
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        from deepsep.classifiers.renaming import new_names
        from deepsep.cli.renamed_files import classifier_files, segment_files
        from deepsep.errors import DataError
        from deepsep.files.atomic import install
        from deepsep.files.manifest import read_folder
        from deepsep.files.saving import MODEL_FILES, model_files
        from deepsep.models import load, rename_classes
        from deepsep.survey import SurveySegments
        from deepsep.survey.segment_files import MODEL_FOLDER, read_summary

        around = model.resolve()
        if around.name == MODEL_FOLDER and read_summary(around.parent) is not None:
            around = around.parent
        root = around / MODEL_FOLDER if around.is_dir() and read_summary(around) is not None else around
        fitted = load(root)
        segments = isinstance(fitted, SurveySegments)
        try:
            new = new_names(fitted.segment_names_ if segments else fitted.classes_, _read_names(names, reading))
        except DataError as error:
            raise DataError(f"{names}: {error}") from None
        as_text = {str(old): name for old, name in new.items()}
        fitted = fitted.rename([*new.values()]) if segments else rename_classes(fitted, new)
        files = model_files(fitted)
        others = {} if segments else classifier_files(around, as_text)
        if root != around:
            others = segment_files(around, as_text, shlex.join(["deepsep", *sys.argv[1:]]))
            files = {f"{MODEL_FOLDER}/{name}": content for name, content in (read_folder(root) | files).items()}
        install(files | others, around, own={*others, *((MODEL_FOLDER,) if root != around else MODEL_FILES)})
        pairs = {old: name for old, name in as_text.items() if old != name}
        width = max(map(len, pairs), default=0)
        lines = [f"Renamed {len(pairs)} of {len(as_text)} {'segments' if segments else 'classes'} in {around}:"]
        lines += [f"  {old:<{width}}  ->  {name}" for old, name in pairs.items()]
        lines += [f"Also in {', '.join(sorted(others))}."] if others else []
        lines.append("Files elsewhere, such as tables of labels and scored files, keep the old names.")
        out.result(
            "\n".join(lines),
            {"renamed": pairs, "names": [*as_text.values()], "folder": around, "files": sorted(others)},
        )


def _read_names(file: Path, reading: Reading) -> dict[str, str]:
    """Return the old and new names in a table, as text: a class may be called "NA", or 1."""
    from deepsep.cli.answers import text_cells
    from deepsep.errors import DataError

    frame = text_cells(file, reading)
    by_name = {str(name).strip().lower(): name for name in frame.columns}
    if not {OLD_COLUMN, NEW_COLUMN} <= by_name.keys():
        raise DataError(f"it has the columns {', '.join(map(repr, frame.columns))}. Write the columns old and new.")
    names: dict[str, str] = {}
    for old, new in zip(frame[by_name[OLD_COLUMN]], frame[by_name[NEW_COLUMN]], strict=True):
        if not old and not new:
            continue
        if old in names:
            raise DataError(f"{old!r} is in the column old twice. Leave one of them.")
        names[old] = new
    if not names:
        raise DataError("it has no names. Write a line for each name to change.")
    return names
