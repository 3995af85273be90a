"""Help of a command with its options under headings; those that few people need are behind --help-all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

HEADING_OF_OPTION: Mapping[str, str] = {
    **dict.fromkeys(("id", "drop", "text", "keep", "database", "query", "weight", "by", "screened"), "Data"),
    **dict.fromkeys(("encoding", "delimiter", "sheet", "skip_rows", "dayfirst"), "Reading files"),
    **dict.fromkeys(("label", "labels", "on", "prefer", "labels_drawn", "label_weight", "unlabeled"), "Labels"),
    **dict.fromkeys(("merge_spellings", "no_label"), "Labels"),
    **dict.fromkeys(("method", "methods", "effort", "settings", "priors", "seed", "folds", "repeats"), "Method"),
    **dict.fromkeys(("sets", "per_class", "abstain", "costs", "reasons"), "Decisions"),
    **dict.fromkeys(("output", "predictions", "report", "workbook", "comparison", "to", "replace"), "Output"),
    **dict.fromkeys(("target_database", "json", "quiet", "debug"), "Output"),
    **dict.fromkeys(("fail_on_drift", "open", "browser", "port"), "Output"),
    **dict.fromkeys(("engine", "address", "workers", "jobs", "batch_size", "fast", "exact"), "Machine"),
    **dict.fromkeys(("help", "help_all"), "Help"),
}
RARELY_NEEDED = frozenset(
    (
        *("encoding", "delimiter", "dayfirst", "prefer", "label_weight", "text", "unlabeled", "comparison", "replace"),
        *("merge_spellings", "no_label"),
        *("per_class", "costs", "target_database", "engine", "address", "workers", "batch_size", "exact", "debug"),
        "escape_formulas",
    )
)

MANY_OPTIONS = 15  # a command with more has --help-all
SHOWS_ALL = "deepsep.help_all"  # in the context of a command


class GroupedCommand(TyperCommand):
    """A command whose help groups its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under their headings."""
        hidden = RARELY_NEEDED if has_rare_options(self) and not ctx.meta.get(SHOWS_ALL) else ()
        headings = ("Arguments", "Options", *dict.fromkeys(HEADING_OF_OPTION.values()))
        parts: dict[str, list[tuple[str, str]]] = {heading: [] for heading in headings}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.name not in hidden:
                is_argument = parameter.param_type_name == "argument"
                parts["Arguments" if is_argument else HEADING_OF_OPTION.get(parameter.name, "Options")].append(record)
        for heading, records in parts.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def has_rare_options(command: Any) -> bool:
    """Return whether a command has --help-all, as those with many options do."""
    return any(parameter.name == "help_all" for parameter in command.params)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[SHOWS_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show this help with all options.", is_eager=True, callback=_show_all)
]
