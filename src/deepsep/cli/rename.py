"""``deepsep rename``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import ReadingOptions, argument
from deepsep.cli.printed_lines import aligned


@command()
def rename(
    model: Annotated[Path, argument("MODEL", "Folder that `deepsep fit` or `deepsep segments` wrote.")],
    names: Annotated[Path, argument("NAMES", "Table with the columns old and new, CSV or Excel.")],
    *,
    reading: ReadingOptions,
    out: Console,
) -> None:
    """Rename classes or segments after a fit, everywhere they appear.

    In the model and all its members, and in the files next to it: predictions, labels, report; for segments, also in
    respondents, profiles and names. Probabilities stay the same to the last bit, and their columns keep their order.
    Names that the table does not have stay. The folder is changed completely or not at all.

    Example: deepsep rename segments/model names.csv
    """
    from deepsep.errors import DataError
    from deepsep.model.renamed_folder import rename_folder

    try:
        done = rename_folder(model, _read_names(names, reading), command=out.command)
    except DataError as error:
        raise DataError(f"{names}: {error}") from None
    pairs = {old: name for old, name in done.names.items() if old != name}
    lines = [f"Renamed {len(pairs)} of {len(done.names)} {done.what} in {done.folder}:"]
    lines += aligned({old: f"->  {name}" for old, name in pairs.items()})
    lines += [f"Also in {', '.join(done.files)}."] if done.files else []
    lines.append("Files elsewhere, such as tables of labels and scored files, keep the old names.")
    out.result(
        "\n".join(lines),
        {"renamed": pairs, "names": [*done.names.values()], "folder": done.folder, "files": done.files},
    )


def _read_names(file: Path, reading: ReadingOptions) -> dict[str, str]:
    """Return the old and new names in a table, as text: a class may be called "NA", or 1."""
    from deepsep.cli.answers import text_cells
    from deepsep.errors import DataError

    frame = text_cells(file, reading.settings)
    columns = {str(name).strip().lower(): name for name in frame.columns}
    if not {"old", "new"} <= columns.keys():
        raise DataError(f"it has the columns {', '.join(map(repr, frame.columns))}. Write the columns old and new.")
    names: dict[str, str] = {}
    for old, new in zip(frame[columns["old"]], frame[columns["new"]], strict=True):
        if old in names and (old or new):
            raise DataError(f"{old!r} is in the column old twice. Leave one of them.")
        if old or new:
            names[old] = new
    if not names:
        raise DataError("it has no names. Write a line for each name to change.")
    return names
