"""``deepsep compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import Keep, Priors, Seed, TrainingOptions, option, split_names
from deepsep.errors import DataError, ParameterError

if TYPE_CHECKING:
    from deepsep.study import Comparison


@command()
def compare(
    training: TrainingOptions,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Comma-separated names from `deepsep methods`; by default nine.")
    ] = "",
    all_: Annotated[bool, typer.Option("--all", help="All methods: takes minutes to hours.")] = False,
    settings: Annotated[
        list[str] | None,
        option(
            "--set",
            "METHOD.NAME=VALUE",
            "A setting of a method, such as committee.effort=fast; may be repeated. "
            "NAME=VALUE where only one method has it.",
        ),
    ] = None,
    priors: Priors = None,
    folds: Annotated[
        int | None,
        typer.Option(help="Parts of the labelled rows, held out in turn.", min=2, show_default="5, those of a fit"),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Number of times the rows are split.", min=1, show_default="1")
    ] = None,
    output: Annotated[Path | None, option("--output, -o", "FILE", "A .csv, .json or .html file.")] = None,
    keep: Keep = "",
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(help="Fits at the same time; by default one per core.", min=1)] = None,
    *,
    out: Console,
) -> None:
    """Compare methods on the labels you have, and show whether any is ahead of the default by more than noise.

    Each method is fitted as `deepsep fit` would fit it, without some of the labels, and then predicts these rows. The
    committee is fitted once: its predictions of the rows that it held out are compared. It is recommended unless
    another method is ahead of it by more than noise.

    Write the result to a .json file to show it in a report with deepsep fit --comparison.

    Example: deepsep compare customers.csv --label segment -o comparison.json
    """
    kinds = (".csv", ".json", ".html")
    if methods and all_:
        raise ParameterError("--methods or --all: give one of them.")
    if output is not None and output.suffix.lower() not in kinds:
        raise ParameterError(f"-o {output}: the name must end with {', '.join(kinds[:-1])} or {kinds[-1]}.")
    if output is not None and not output.parent.is_dir():
        raise DataError(f"the folder {output.parent} does not exist.")

    from joblib import cpu_count

    from deepsep.classifiers.catalogue import find_method
    from deepsep.classifiers.catalogue import methods as available
    from deepsep.cli.estimator import read_priors, settings_by_method
    from deepsep.cli.printed_lines import finding_lines
    from deepsep.cli.watched_fit import duration
    from deepsep.model.training_table import read_training
    from deepsep.study import compare as compare_methods
    from deepsep.study.comparison import COMPARED_METHODS

    names = split_names(methods) or list(available() if all_ else COMPARED_METHODS)
    names = [find_method(name).name for name in names]
    chosen = settings_by_method(settings or [], names)
    data = read_training(training.asked, note=out.note)
    cores = jobs or cpu_count()

    def announce(n_fits: int, seconds: float) -> None:
        what = f"{len(names)} method{'s' * (len(names) > 1)} on {int(data.labeled.sum()):,} labelled rows"
        times = f", {repeats} times" if repeats and repeats > 1 else ""
        how = "" if folds is None else f", in {folds} folds{times}"
        out.note(f"Comparing {what}{how}: {n_fits} fits, {duration(seconds, cores)} ...")

    with out.share_bar("Comparing") as bar:

        def on_step(done: float, total: float, what: str) -> None:
            bar.set_postfix_str(what, refresh=False)
            bar.update(done / total - bar.n)

        comparison = compare_methods(
            data.X,
            data.labels,
            methods=names,
            settings=chosen,
            priors=None if priors is None else read_priors(priors, data.labels.classes),
            folds=folds,
            repeats=repeats,
            seed=seed,
            keep=split_names(keep),
            sample_weight=data.weight,
            labels_drawn=data.labels_drawn,
            n_jobs=cores,
            on_cost=announce,
            on_step=on_step,
        )
    for note in comparison.notes:
        out.warn(note)
    lines = [line for finding in comparison.findings for line in (*finding_lines(finding), "")]
    lines += [comparison.text, ""]
    if output is not None:
        _write(comparison, output, out.command)
        lines.append(f"Written: {output}")
    same = {"--priors": priors, "--keep": keep, "--seed": seed or None}
    lines += _next(training, comparison, chosen, same, output)
    out.result("\n".join(lines), {**comparison, "file": output})


def _next(
    training: TrainingOptions,
    comparison: Comparison,
    settings: dict[str, dict[str, Any]],
    same: dict[str, Any],
    output: Path | None,
) -> list[str]:
    """Return the command that fits the best method to the same table, read in the same way, with the same columns."""
    from deepsep.classifiers.building import setting_names
    from deepsep.cli.printed_commands import fit_command, training_options
    from deepsep.model.fitting import DEFAULT_METHOD

    ranked, lines = comparison.table["method"].tolist(), []
    able = [name for name in ranked if same["--priors"] is None or "priors" in setting_names(name)]
    best = able[0] if able else DEFAULT_METHOD
    if best != ranked[0]:
        lines.append(f"{ranked[0]} has no setting for the shares of --priors. The best that has: {best}.")
    given = {
        **training_options(training),
        **same,
        "--method": best if best != DEFAULT_METHOD else None,
        "--comparison": output if output is not None and output.suffix.lower() == ".json" else None,
        "--set": [f"{name}={value}" for name, value in settings.get(best, {}).items()],
    }
    return [*lines, f"Next: {fit_command(training.table, given, training.reading.settings)}"]


def _write(comparison: Comparison, output: Path, command: str) -> None:
    """Write the comparison in the format of the file's suffix, completely or not at all."""
    import json

    from deepsep.files.atomic import replace_file
    from deepsep.report import render_comparison

    kind = output.suffix.lower()
    if kind == ".csv":
        content = comparison.table.to_csv(index=False)
    elif kind == ".json":
        content = json.dumps(comparison, indent=1, ensure_ascii=False) + "\n"
    else:
        content = render_comparison(comparison, command=command)
    replace_file(output, content)
