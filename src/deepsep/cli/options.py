"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

COLUMNS = "with commas between"

TableFile = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV, TSV, Parquet, Feather or Excel file, or a folder of Parquet parts.",
        show_default=False,
    ),
]
ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder that `deepsep fit` wrote.", show_default=False)
]
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="Column of labels; empty where a row has none.", show_default=False),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Another table with the labels, such as respondents.parquet of `deepsep segments`. "
        "Its label column is --label, or 'segment'.",
        show_default=False,
    ),
]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="COLUMN", help="Identifier by which --labels are joined.", show_default=False),
]
LabelWeight = Annotated[
    str | None,
    typer.Option(
        "--label-weight",
        metavar="COLUMN",
        help="Column of --labels by which a label counts, such as 'probability'.",
        show_default=False,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option("--weight", metavar="COLUMN", help="How much each row counts.", show_default=False),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Identifier: kept in the outputs, and never a feature."),
]
Drop = Annotated[
    str, typer.Option("--drop", metavar="COLUMNS", help=f"Columns to leave out, {COLUMNS}.", show_default=False)
]
Keep = Annotated[
    str,
    typer.Option(
        "--keep", metavar="COLUMNS", help=f"Columns to use even if they look useless, {COLUMNS}.", show_default=False
    ),
]
Text = Annotated[
    str,
    typer.Option(
        "--text",
        metavar="COLUMNS",
        help=f"Columns of codes that only look like numbers, {COLUMNS}.",
        show_default=False,
    ),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", metavar="NAME", help="Of a text file, if it is not found, such as cp1251.")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHARACTER", help="Of a text file, if it is not found.")
]
Sheet = Annotated[str | None, typer.Option("--sheet", metavar="NAME", help="Of an Excel file; otherwise the first.")]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@dataclass(frozen=True)
class TrainingOptions:
    """Where the rows and labels of a fit are, and how their files are read."""

    table: TableFile
    label: Label = None
    labels: Labels = None
    on: On = None
    weight: Weight = None
    label_weight: LabelWeight = None
    id: Id = None
    drop: Drop = ""
    text: Text = ""
    encoding: Encoding = None
    delimiter: Delimiter = None
    sheet: Sheet = None


def takes_training_options(*, without: Container[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that replaces a command's parameter of type TrainingOptions by an option for each field."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        fields = inspect.signature(TrainingOptions, eval_str=True).parameters
        shared = [field for field in fields.values() if field.name not in without]
        own = inspect.signature(command, eval_str=True).parameters.values()
        (place,) = (parameter.name for parameter in own if parameter.annotation is TrainingOptions)
        spread = [each for parameter in own for each in (shared if parameter.name == place else [parameter])]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in spread]

        @wraps(command)
        def with_fields(**given: Any) -> None:
            options = TrainingOptions(**{field.name: given.pop(field.name) for field in shared})
            command(**{place: options}, **given)

        # What typer reads:
        with_fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_fields.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_fields

    return decorate


def split_names(names: str) -> list[str]:
    """Return the columns in a list with commas."""
    return [name.strip() for name in names.split(",") if name.strip()]
