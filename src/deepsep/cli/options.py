"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepsep.errors import ParameterError
from deepsep.table.reading_settings import AS_DETECTED, Reading

if TYPE_CHECKING:
    from deepsep.apps.sql import Query
    from deepsep.model.training_table import TrainingTable
    from deepsep.scoring.decisions import Decision
    from deepsep.table.locations import Place

LISTED_COLUMNS = "separated by commas"

TABLE_FILES = "CSV, TSV, Parquet, Feather, Excel or SPSS file; several files, a pattern, or a folder of Parquet parts"
TableFiles = Annotated[list[Path], typer.Argument(metavar="TABLE", help=f"{TABLE_FILES}.", show_default=False)]
MaybeTableFiles = Annotated[
    list[Path] | None, typer.Argument(metavar="TABLE", help=f"{TABLE_FILES}; or see --from.", show_default=False)
]
Database = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="DATABASE",
        help="Read a database in place of TABLE: postgresql://user@host/database without a password, or an SQLite or "
        "DuckDB file.",
        show_default=False,
    ),
]
Sql = Annotated[
    str | None,
    typer.Option(
        "--query", metavar="SQL", help='The rows of --from, such as "select * from customers".', show_default=False
    ),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="With --to: replace a table of predictions that another run has written.")
]
ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder that `deepsep fit` wrote.", show_default=False)
]
SegmentsFolder = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Folder `model` that `deepsep segments` wrote.", show_default=False),
]
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="Column of labels; empty for unlabelled rows.", show_default=False),
]
Labels = Annotated[
    list[Path] | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Another table with the labels, such as respondents.parquet of `deepsep segments`, or with more "
        "labels than TABLE has, such as a filled-in file of `deepsep next`. Its label column is --label, or 'segment'. "
        "May be repeated.",
        show_default=False,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="COLUMN",
        help="Column of identifiers by which --labels are joined; by default --id.",
        show_default=False,
    ),
]


class Prefer(StrEnum):
    """The label to use of two contradictory ones."""

    new = "new"
    old = "old"


Preferred = Annotated[
    Prefer | None,
    typer.Option(
        "--prefer",
        help="Which label to use where --labels contradict those of TABLE; by default an error.",
        show_default=False,
    ),
]
LabelWeight = Annotated[
    str | None,
    typer.Option(
        "--label-weight",
        metavar="COLUMN",
        help="Column of --labels with the weight of each label, such as 'probability'.",
        show_default=False,
    ),
]
LabelsDrawn = Annotated[
    str | None,
    typer.Option(
        "--labels-drawn",
        metavar="WORD|COLUMN",
        help="How the labels were drawn, on which the stated accuracy rests: random, quota or chosen, or a column that "
        "has one of these words for each label. By default the column 'labels_drawn', and without it a guess.",
        show_default=False,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option("--weight", metavar="COLUMN", help="Column with the weight of each row.", show_default=False),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column of identifiers: kept in the outputs, never a feature."),
]
Drop = Annotated[
    str, typer.Option("--drop", metavar="COLUMNS", help=f"Columns to leave out, {LISTED_COLUMNS}.", show_default=False)
]
Keep = Annotated[
    str,
    typer.Option(
        "--keep",
        metavar="COLUMNS",
        help=f"Columns to use even if they look useless, {LISTED_COLUMNS}.",
        show_default=False,
    ),
]
Priors = Annotated[
    Path | None,
    typer.Option(
        "--priors",
        metavar="FILE",
        help="The population's shares: a table with the columns class and share, or JSON {class: share}.",
        show_default=False,
    ),
]
Text = Annotated[
    str,
    typer.Option(
        "--text",
        metavar="COLUMNS",
        help=f"Columns of codes that only look like numbers, {LISTED_COLUMNS}.",
        show_default=False,
    ),
]
Unlabeled = Annotated[
    str | None,
    typer.Option(
        "--unlabelled",
        metavar="NUMBER",
        help="Unlabelled rows to learn from, drawn at random and read into memory, or 'all'. All are predicted anyway.",
        show_default="20,000, beyond which more did not help",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Encoding of a text file, such as cp1251; detected by default."),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHARACTER",
        help="Delimiter of a text file; detected by default.",
        callback=lambda value: "\t" if value == "\\t" else value,
    ),
]
Sheet = Annotated[
    str | None, typer.Option("--sheet", metavar="NAME", help="Sheet of an Excel file; by default the first.")
]
SkipRows = Annotated[
    int,
    typer.Option(
        "--skip-rows", metavar="NUMBER", help="Lines above the header, such as a title.", min=0, show_default=False
    ),
]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--dayfirst/--monthfirst",
        help="What comes first in dates such as 05/03/2025; by default as the column shows.",
        show_default=False,
    ),
]


class Format(StrEnum):
    """Formats of the predictions next to a model."""

    parquet = "parquet"
    csv = "csv"
    xlsx = "xlsx"


class Engine(StrEnum):
    """Machines that score."""

    local = "local"
    ray = "ray"


Address = Annotated[
    str | None,
    typer.Option(help="With --engine ray: address of the cluster; by default one is started here.", show_default=False),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        help="With --engine ray: processes with a CPU each; by default one for each CPU of the cluster.",
        min=1,
        show_default=False,
    ),
]


def check_engine(engine: Engine, address: str | None, workers: int | None) -> None:
    """Raise if an option for clusters is given without one."""
    for name, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine is not Engine.ray:
            raise ParameterError(f"{name} needs --engine ray.")


class Effort(StrEnum):
    """Amount of work of a committee."""

    fast = "fast"
    normal = "normal"
    best = "best"


Sets = Annotated[
    float | None,
    typer.Option(
        "--sets",
        metavar="COVERAGE",
        help="Add a column of sets of classes that hold the right one so often, such as 0.9. For a committee.",
        show_default=False,
    ),
]
PerClass = Annotated[
    bool,
    typer.Option(
        "--per-class",
        help="With --sets: so often in every class; it takes 15 labels of each.",
    ),
]
Abstain = Annotated[
    float | None,
    typer.Option(
        "--abstain",
        metavar="CONFIDENCE",
        help="Give no label to rows with a lower confidence, such as 0.8.",
        show_default=False,
    ),
]
CostsFile = Annotated[
    Path | None,
    typer.Option(
        "--costs",
        metavar="FILE",
        help="What mistakes cost: a table with a line for each true class and a column for each called one, or with "
        "the columns true, called and cost. Labels then have the lowest expected cost.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


READING_OPTIONS = {
    "encoding": Encoding,
    "delimiter": Delimiter,
    "sheet": Sheet,
    "skip_rows": SkipRows,
    "dayfirst": DayFirst,
}


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """Options for how labels follow from probabilities."""

    sets: Sets = None
    per_class: PerClass = False
    abstain: Abstain = None
    costs: CostsFile = None

    def decision(self, classes: Any) -> Decision:
        """Return the same for a scoring; costs are read from their file."""
        from deepsep.scoring.costs import read_costs
        from deepsep.scoring.decisions import Decision

        costs = None if self.costs is None else read_costs(self.costs, classes)
        return Decision(sets=self.sets, per_class=self.per_class, abstain=self.abstain, costs=costs)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Rows and labels of a fit, and how their files are read."""

    table: TableFiles
    label: Label = None
    labels: Labels = None
    on: On = None
    prefer: Preferred = None
    labels_drawn: LabelsDrawn = None
    weight: Weight = None
    label_weight: LabelWeight = None
    id: Id = None
    drop: Drop = ""
    text: Text = ""
    reading: Reading = AS_DETECTED

    @cached_property
    def source(self) -> Place | Query:
        """The rows."""
        return source_of(self.table, None, None)

    @cached_property
    def asked(self) -> TrainingTable:
        """The same for the library."""
        from deepsep.model.training_table import TrainingTable

        own = {name: getattr(self, name) for name in ("label", "on", "labels_drawn", "weight", "label_weight", "id")}
        return TrainingTable(
            source=self.source,
            labels=self.labels or (),
            prefer=None if self.prefer is None else self.prefer.value,
            drop=split_names(self.drop),
            text=split_names(self.text),
            unlabeled=self._most_unlabeled,
            reading=self.reading,
            **own,
        )

    @property
    def _most_unlabeled(self) -> Any:
        return "all"


@dataclass(frozen=True, kw_only=True)
class FitOptions(TrainingOptions):
    """The same, for rows in a file or in a database."""

    table: MaybeTableFiles = None  # type: ignore[assignment]
    database: Database = None
    query: Sql = None
    unlabeled: Unlabeled = None

    @cached_property
    def source(self) -> Place | Query:
        """The rows."""
        return source_of(self.table, self.database, self.query)

    @property
    def _most_unlabeled(self) -> Any:
        if self.unlabeled is None:
            return None
        text = self.unlabeled.strip().lower()
        digits = text.replace("_", "").replace(",", "")
        return int(digits) if digits.isascii() and digits.isdigit() else "all" if text == "all" else self.unlabeled


def source_of(table: Sequence[Path] | None, database: str | None, query: str | None) -> Place | Query:
    """Return the files or the query that was named, or raise if it is not one of the two."""
    if table and database is None and query is None:
        from deepsep.table.locations import table_at

        return table_at(table)
    if not table and database is not None and query is not None:
        from deepsep.apps.sql import Query

        return Query(database, query)
    if table:
        raise ParameterError("name either TABLE, or a database with --from and --query.")
    if database is None and query is None:
        raise ParameterError("which rows? Name a file as TABLE, or a database with --from and --query.")
    missing = (
        "--query needs a database: name it with --from."
        if database is None
        else ('--from needs the rows: name them with --query, such as --query "select * from customers".')
    )
    raise ParameterError(missing)


Decorator = Callable[[Callable[..., None]], Callable[..., None]]
GROUPS_OF_OPTIONS = (Reading, DecisionOptions, TrainingOptions, FitOptions)


def takes_options(*, without: Container[str] = ()) -> Decorator:
    """Return a decorator that replaces a command's parameters of these classes with one option per field."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        groups = {name: each.annotation for name, each in own.items() if each.annotation in GROUPS_OF_OPTIONS}
        options = {name: _options(kind, without) for name, kind in groups.items()}
        parameters = [each for name, parameter in own.items() for each in options.get(name, [parameter])]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]

        @wraps(command)
        def with_fields(**given: Any) -> None:
            fields = {name: {each.name: given.pop(each.name) for each in options[name]} for name in groups}
            command(**{name: _from_options(kind, fields[name]) for name, kind in groups.items()}, **given)

        # typer reads these two:
        with_fields.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_fields.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_fields

    return decorate


def _options(kind: type, without: Container[str]) -> list[inspect.Parameter]:
    """Return the options for the fields of a class; those about files come last in the help."""
    fields = inspect.signature(kind, eval_str=True).parameters
    if kind is Reading:
        first_sheet = {"sheet": fields["sheet"].replace(default=None)}
        return [(fields | first_sheet)[name].replace(annotation=option) for name, option in READING_OPTIONS.items()]
    own = [field for name, field in fields.items() if name not in ("reading",) and name not in without]
    return own + (_options(Reading, ()) if "reading" in fields else [])


def _from_options(kind: type, given: dict[str, Any]) -> Any:
    if kind is not Reading and given.keys() >= READING_OPTIONS.keys():
        given["reading"] = _from_options(Reading, {name: given.pop(name) for name in READING_OPTIONS})
    return kind(**{name: value for name, value in given.items() if value is not None})


def split_names(names: str) -> list[str]:
    """Return the names in a comma-separated list."""
    return [name.strip() for name in names.split(",") if name.strip()]
