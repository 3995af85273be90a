"""``deepsep compare``."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deepsep.cli.console import console
from deepsep.cli.options import (
    Debug,
    Json,
    Keep,
    Quiet,
    Seed,
    TrainingOptions,
    split_names,
    takes_training_options,
)
from deepsep.errors import DataError, ParameterError

if TYPE_CHECKING:
    from deepsep.experiments import Comparison

KINDS = (".csv", ".json", ".html")


@takes_training_options()
def compare(
    training: TrainingOptions,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Comma-separated names from `deepsep methods`; by default seven.", show_default=False
        ),
    ] = "",
    all_: Annotated[bool, typer.Option("--all", help="All methods: takes minutes to hours.")] = False,
    folds: Annotated[int, typer.Option(help="Parts of the labelled rows, held out in turn.", min=2)] = 5,
    repeats: Annotated[int, typer.Option(help="How often they are split anew.", min=1)] = 2,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A .csv, .json or .html file.", show_default=False),
    ] = None,
    keep: Keep = "",
    seed: Seed = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Folds to fit in parallel; by default one per core.", min=1, show_default=False)
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare methods on the labels you have, and show whether the best one is ahead by more than noise.

    Methods are cross-validated: each is fitted without some of the labels and then predicts these rows.

    Write the result to a .json file to show it in a report with deepsep fit --comparison.

    Example: deepsep compare customers.csv --label segment -o comparison.json
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        if methods and all_:
            raise ParameterError("--methods or --all: give one of them.")
        if output is not None and output.suffix.lower() not in KINDS:
            raise ParameterError(f"-o {output}: the name must end with {', '.join(KINDS[:-1])} or {KINDS[-1]}.")
        if output is not None and not output.parent.is_dir():
            raise DataError(f"the folder {output.parent} does not exist.")

        from joblib import cpu_count

        from deepsep.classifiers.catalogue import methods as available
        from deepsep.cli.check import finding_lines
        from deepsep.cli.training import read_training
        from deepsep.experiments import compare as compare_methods
        from deepsep.experiments.comparison import METHODS
        from deepsep.table.columns import UsefulColumns
        from deepsep.table.quality import check_columns

        data = read_training(out, training)
        useful = UsefulColumns(keep=split_names(keep))
        columns = useful.fit_transform(data.X, data.labels)
        findings = check_columns(columns, data.labels, left_out=useful.left_out_, weight=data.weight)
        names = split_names(methods) or list(available() if all_ else METHODS)
        out.note(f"Comparing {len(names)} methods on {int(data.labelled.sum()):,} labelled rows ...")
        with out.steps("Comparing") as on_step:
            comparison = compare_methods(
                data.X,
                data.labels,
                methods=names,
                folds=folds,
                repeats=repeats,
                seed=seed,
                keep=split_names(keep),
                sample_weight=data.weight,
                n_jobs=jobs or cpu_count(),
                on_step=on_step,
            )
        comparison["findings"] = findings
        for note in comparison.notes:
            out.warn(note)
        best = comparison.table.loc[0, "method"]
        # The suggested command reads the same table in the same way, with the same columns.
        options = asdict(training)
        table = options.pop("table")
        same = {
            **{f"--{name.replace('_', '-')}": value for name, value in options.items()},
            "--keep": keep,
            "--seed": seed,
            "--method": best,
            "--comparison": output if output is not None and output.suffix.lower() == ".json" else None,
        }
        given = [word for option, value in same.items() if value for word in (option, str(value))]
        lines = [line for finding in findings for line in (*finding_lines(finding), "")]
        lines += [str(comparison), ""]
        if output is not None:
            _write(comparison, output)
            lines.append(f"Written: {output}")
        lines.append(f"Next: {shlex.join(['deepsep', 'fit', str(table), *given, '-o', 'model'])}")
        out.result("\n".join(lines), {**comparison, "file": output})


def _write(comparison: Comparison, output: Path) -> None:
    """Write the comparison in the format of the file's suffix, completely or not at all."""
    import json

    from deepsep.report import render_comparison

    kind = output.suffix.lower()
    if kind == ".csv":
        content = comparison.table.to_csv(index=False)
    elif kind == ".json":
        content = json.dumps(comparison, indent=1, ensure_ascii=False) + "\n"
    else:
        content = render_comparison(comparison, command=shlex.join(["deepsep", *sys.argv[1:]]))
    part = output.with_name(f".{output.name}.part")
    part.write_text(content, encoding="utf-8", newline="\n")
    part.replace(output)
