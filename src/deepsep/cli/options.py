"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deepsep.errors import ParameterError
from deepsep.table.reading_settings import Reading

if TYPE_CHECKING:
    from deepsep.apps.sql import Query
    from deepsep.model.training_table import TrainingTable
    from deepsep.scoring.decisions import Decision
    from deepsep.table.locations import Place

LISTED_COLUMNS = "separated by commas"
TABLE_FILES = "CSV, TSV, Parquet, Feather, Excel or SPSS file; several files, a pattern, or a folder of Parquet parts"


def option(names: str, metavar: str, help: str, **settings: Any) -> Any:
    """Return an option with a value; it may have two names, such as "--output, -o"."""
    return typer.Option(*names.split(", "), metavar=metavar, help=help, **settings)


def argument(metavar: str, help: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


Engine = Literal["local", "ray"]

TableFiles = Annotated[list[Path], argument("TABLE", f"{TABLE_FILES}.")]
MaybeTableFiles = Annotated[list[Path] | None, argument("TABLE", f"{TABLE_FILES}; or see --from.")]
ModelFolder = Annotated[Path, argument("MODEL", "Folder that `deepsep fit` wrote.")]
SegmentsFolder = Annotated[Path, argument("MODEL", "Folder `model` that `deepsep segments` wrote.")]

Id = Annotated[str | None, option("--id", "COLUMN", "Column of identifiers: kept in the outputs, never a feature.")]
Weight = Annotated[str | None, option("--weight", "COLUMN", "Column with the weight of each row.")]
Drop = Annotated[str, option("--drop", "COLUMNS", f"Columns to leave out, {LISTED_COLUMNS}.")]
Keep = Annotated[str, option("--keep", "COLUMNS", f"Columns to use even if they look useless, {LISTED_COLUMNS}.")]
Text = Annotated[str, option("--text", "COLUMNS", f"Columns of codes that only look like numbers, {LISTED_COLUMNS}.")]
Database = Annotated[
    str | None,
    option(
        "--from",
        "DATABASE",
        "Read a database in place of TABLE: postgresql://user@host/database without a password, or an SQLite or "
        "DuckDB file.",
    ),
]
Sql = Annotated[str | None, option("--query", "SQL", 'The rows of --from, such as "select * from customers".')]
Replace = Annotated[
    bool, typer.Option("--replace", help="With --to: replace a table of predictions that another run has written.")
]

Label = Annotated[str | None, option("--label", "COLUMN", "Column of labels; empty for unlabelled rows.")]
Labels = Annotated[
    list[Path] | None,
    option(
        "--labels",
        "FILE",
        "Another table with the labels, such as respondents.parquet of `deepsep segments`, or with more labels than "
        "TABLE has, such as a filled-in file of `deepsep next`. Its label column is --label, or 'segment'. May be "
        "repeated.",
    ),
]
On = Annotated[
    str | None, option("--on", "COLUMN", "Column of identifiers by which --labels are joined; by default --id.")
]
Preferred = Annotated[
    Literal["new", "old"] | None,
    typer.Option("--prefer", help="Which label to use where --labels contradict those of TABLE; by default an error."),
]
LabelWeight = Annotated[
    str | None,
    option("--label-weight", "COLUMN", "Column of --labels with the weight of each label, such as 'probability'."),
]
LabelsDrawn = Annotated[
    str | None,
    option(
        "--labels-drawn",
        "WORD|COLUMN",
        "How the labels were drawn, on which the stated accuracy rests: random, quota or chosen, or a column that has "
        "one of these words for each label. By default the column 'labels_drawn', and without it a guess.",
    ),
]
Unlabeled = Annotated[
    str | None,
    option(
        "--unlabelled",
        "NUMBER",
        "Unlabelled rows to learn from, drawn at random and read into memory, or 'all'. All are predicted anyway.",
        show_default="20,000, beyond which more did not help",
    ),
]
MergeSpellings = Annotated[
    bool,
    typer.Option(
        "--merge-spellings",
        help="Labels that differ only in case, blanks and accents are one class; what was merged is listed.",
    ),
]
NoLabel = Annotated[
    list[str] | None,
    option("--no-label", "WORD", "A word in the column of labels that means no label, such as unknown; repeatable."),
]
Priors = Annotated[
    Path | None,
    option(
        "--priors", "FILE", "The population's shares: a table with the columns class and share, or JSON {class: share}."
    ),
]

Encoding = Annotated[
    str | None, option("--encoding", "NAME", "Encoding of a text file, such as cp1251; detected by default.")
]
Delimiter = Annotated[
    str | None,
    option(
        "--delimiter",
        "CHARACTER",
        "Delimiter of a text file; detected by default.",
        callback=lambda value: "\t" if value == "\\t" else value,
    ),
]
Sheet = Annotated[str | None, option("--sheet", "NAME", "Sheet of an Excel file; by default the first.")]
SkipRows = Annotated[int | None, option("--skip-rows", "NUMBER", "Lines above the header, such as a title.", min=0)]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--dayfirst/--monthfirst", help="What comes first in dates such as 05/03/2025; by default as the column shows."
    ),
]

Sets = Annotated[
    float | None,
    option(
        "--sets",
        "COVERAGE",
        "Add a column of sets of classes that hold the right one so often, such as 0.9. For a committee.",
    ),
]
PerClass = Annotated[
    bool, typer.Option("--per-class", help="With --sets: so often in every class; it takes 15 labels of each.")
]
Abstain = Annotated[
    float | None, option("--abstain", "CONFIDENCE", "Give no label to rows with a lower confidence, such as 0.8.")
]
CostsFile = Annotated[
    Path | None,
    option(
        "--costs",
        "FILE",
        "What mistakes cost: a table with a line for each true class and a column for each called one, or with the "
        "columns true, called and cost. Labels then have the lowest expected cost.",
    ),
]

Address = Annotated[
    str | None, typer.Option(help="With --engine ray: address of the cluster; by default one is started here.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        help="With --engine ray: processes with a CPU each; by default one for each CPU of the cluster.",
        min=1,
    ),
]
EscapeFormulas = Annotated[
    bool,
    typer.Option(
        "--escape-formulas",
        help="In CSV and TSV, put an apostrophe before cells that a spreadsheet would take for formulas: those that "
        "begin with =, +, - or @. Identifiers are found with it and without.",
    ),
]
Seed = Annotated[int, option("--seed", "NUMBER", "The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Options for how files are read."""

    encoding: Encoding = None
    delimiter: Delimiter = None
    sheet: Sheet = None
    skip_rows: SkipRows = None
    dayfirst: DayFirst = None

    @property
    def given(self) -> dict[str, Any]:
        """The settings that were given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def settings(self) -> Reading:
        """The same for the library, the others as they are by default."""
        return Reading(**self.given)


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """Options for how labels follow from probabilities."""

    sets: Sets = None
    per_class: PerClass = False
    abstain: Abstain = None
    costs: CostsFile = None

    def decision(self, classes: Any) -> Decision:
        """Return the same for a scoring; costs are read from their file."""
        from deepsep.scoring.decisions import Decision, read_costs

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
    merge_spellings: MergeSpellings = False
    no_label: NoLabel = None
    weight: Weight = None
    label_weight: LabelWeight = None
    id: Id = None
    drop: Drop = ""
    text: Text = ""
    reading: ReadingOptions = ReadingOptions()

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
            prefer=self.prefer,
            drop=split_names(self.drop),
            text=split_names(self.text),
            unlabeled=self._most_unlabeled,
            merge_spellings=self.merge_spellings,
            no_label=self.no_label or (),
            reading=self.reading.settings,
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


def check_engine(engine: Engine, address: str | None, workers: int | None) -> None:
    """Raise if an option for clusters is given without one."""
    for name, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine != "ray":
            raise ParameterError(f"{name} needs --engine ray.")


def source_of(table: Sequence[Path] | None, database: str | None, query: str | None) -> Place | Query:
    """Return the files or the query that was named, or raise if it is not one of the two."""
    if table:
        if database is not None or query is not None:
            raise ParameterError("name either TABLE, or a database with --from and --query.")
        from deepsep.table.locations import table_at

        return table_at(table)
    if database is None:
        raise ParameterError(
            "which rows? Name a file as TABLE, or a database with --from and --query."
            if query is None
            else "--query needs a database: name it with --from."
        )
    if query is None:
        raise ParameterError(
            '--from needs the rows: name them with --query, such as --query "select * from customers".'
        )
    from deepsep.apps.sql import Query

    return Query(database, query)


def split_names(names: str) -> list[str]:
    """Return the names in a comma-separated list."""
    return [name.strip() for name in names.split(",") if name.strip()]
