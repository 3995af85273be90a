"""The command line: ``deepsep COMMAND ...``.

Each command is a function in its own file. It imports slow packages only when called, so that ``--help`` and shell
completion respond at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deepsep._version import __version__
from deepsep.cli.assign import assign
from deepsep.cli.check import check
from deepsep.cli.compare import compare
from deepsep.cli.demo import demo
from deepsep.cli.experiment import experiment
from deepsep.cli.explain import explain
from deepsep.cli.export import export
from deepsep.cli.fit import fit
from deepsep.cli.grouped_help import GroupedCommand, with_help_all
from deepsep.cli.label import label
from deepsep.cli.methods import methods
from deepsep.cli.next import next_
from deepsep.cli.rename import rename
from deepsep.cli.score import score
from deepsep.cli.segments import segments
from deepsep.cli.sizes import sizes
from deepsep.cli.typing import typing

app = typer.Typer(
    name="deepsep",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo,
    check,
    segments,
    assign,
    typing,
    fit,
    next_,
    label,
    score,
    sizes,
    export,
    explain,
    rename,
    compare,
    methods,
    experiment,
):
    app.command(command.__name__.rstrip("_"), cls=GroupedCommand)(with_help_all(command))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"deepsep {__version__}")
        raise typer.Exit


@app.callback()
def deepsep(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Classify a whole population from a handful of labelled rows.

    Begin with: deepsep demo
    """
