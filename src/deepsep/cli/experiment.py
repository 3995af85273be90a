"""``deepsep experiment``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepsep.classifiers.catalogue import CATALOGUE
from deepsep.cli.command import command
from deepsep.cli.console import Console, ExitCode
from deepsep.cli.options import Drop, option, split_names
from deepsep.errors import DataError, DeepSepError, ParameterError, missing_package

if TYPE_CHECKING:
    import pandas as pd

# The paper's values, written out so that --help need not import the library; a test compares them with it.
DEFAULT_SIZES = "35,50,125,250,500,1250,2500"
DEFAULT_METHODS = ",".join([*(name for name, record in CATALOGUE.items() if record.in_study), "tsvm-250", "linear-svm"])


@command()
def experiment(
    output: Annotated[Path, option("--output, -o", "FOLDER", "Folder for the results.")],
    table: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="nhanes, foods, hotel, spotify, satimage, optdigits, penbased, letter, texture, segment, splice, "
            "nursery, fars, or a file in which every row has a class.",
        ),
    ] = "nhanes",
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of classes in a file; not needed for named tables.")
    ] = "label",
    labels: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Numbers of labelled rows, separated by commas.")
    ] = DEFAULT_SIZES,
    shuffles: Annotated[int, typer.Option(help="Number of random splits of the rows.", min=1)] = 5,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="See `deepsep methods`; separated by commas. deepsep and tsvm are as published, tsvm-250 has 250 "
            "unlabelled rows, linear-svm none; deepsep-defaults is as in fit.",
        ),
    ] = DEFAULT_METHODS,
    no_tune: Annotated[bool, typer.Option("--no-tune", help="Use every method with its default settings.")] = False,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Fits for tuning each method on validation rows; by default 10, or none without Optuna.", min=1
        ),
    ] = None,
    validation: Annotated[int, typer.Option(help="Rows to tune on.", min=0)] = 100,
    test_per_class: Annotated[int, typer.Option(help="Most test rows of each class.", min=30)] = 956,
    ablation: Annotated[
        bool,
        typer.Option("--ablation", help="Also run DeepSep without each of its parts, at 35, 50, 125 and 500 labels."),
    ] = False,
    published: Annotated[bool, typer.Option("--published", help="Show the paper's averages next to ours.")] = False,
    drop: Drop = "",
    set_: Annotated[
        list[str] | None, option("--set", "METHOD.NAME=VALUE", "A setting, such as deepsep.rounds=3.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Fits to run in parallel; by default one per core.", min=1)] = None,
    *,
    out: Console,
) -> None:
    """Run the paper's study on a table, and print its Table 1.

    Every option's default is the paper's value. Run the same command again to continue a run that was stopped or
    killed: finished fits are not repeated. Tables that do not ship with deepsep are downloaded once.

    Example: deepsep experiment --labels 35,50 --shuffles 2 --no-tune -o results
    """
    names = split_names(methods)
    chosen = _settings(set_ or [], names, ablation)
    if output.is_file():
        raise DataError(f"{output} is a file, which deepsep does not overwrite. Name another folder with -o.")
    n_trials = _trials(out, no_tune, trials)

    from deepsep.study import gather, prepare, write
    from deepsep.study.results import table_1_text
    from deepsep.study.study_page import as_json, published_table

    name, frame, label, about = _read(out, table, label, split_names(drop))
    what = prepare(
        name,
        frame,
        output,
        label=label,
        labels=_numbers(labels),
        shuffles=shuffles,
        methods=names,
        settings=chosen,
        trials=n_trials,
        validation=validation,
        test_per_class=test_per_class,
        ablation=ablation,
    )
    for notice in what.plan.notices:
        out.warn(notice)
    failure, seconds = _run(out, what, jobs)
    results = gather(what)
    if results is None:
        raise failure or DataError("no fit is finished. Run the same command again.")
    files = write(results, what, output, about=about, command=out.command, published=published)
    if failure is not None:
        out.note(f"{output} holds the finished fits. Run the same command to try the others again.")
        raise failure
    lines = [f"Accuracy in %, {what.plan.test_per_class} test rows of each class.", "", table_1_text(results.table_1)]
    if published:
        lines += ["The paper's averages, on its own data:", "", published_table(results), ""]
    lines += [*results.sentences, ""] if results.sentences else []
    lines += [f"{files['summary.md']} explains the results; {files['table.csv']} has every figure."]
    out.result(
        "\n".join(lines),
        {
            "table": name,
            "sizes": what.plan.sizes,
            "test_per_class": what.plan.test_per_class,
            "cells": len(what.cells),
            "run_seconds": round(seconds, 1),
            **as_json(results),
            "files": files,
        },
    )


def _trials(out: Console, no_tune: bool, trials: int | None) -> int:
    """Return the fits for tuning; without Optuna none, unless they were asked for."""
    from deepsep.study.running import TUNING_TRIALS
    from deepsep.study.study_models import is_installed

    if no_tune:
        return 0
    if is_installed():
        return trials or TUNING_TRIALS
    if trials is not None:
        raise missing_package("--trials", "optuna")
    out.warn("Optuna is not installed, so no method is tuned. To tune them: pip install optuna")
    return 0


def _numbers(text: str) -> list[int]:
    parts = split_names(text)
    wrong = next((part for part in parts if not part.isdecimal() or not int(part)), None)
    if wrong is not None or not parts:
        raise ParameterError(f"--labels {text}: write numbers separated by commas, such as 35,50,125.")
    return [int(part) for part in parts]


def _settings(given: list[str], names: list[str], ablation: bool) -> dict[str, dict[str, Any]]:
    """Return the settings by method, or raise if methods and settings are inconsistent, before anything is read."""
    from deepsep.cli.estimator import parse_settings
    from deepsep.study.study_models import build_study_model

    if not names:
        raise ParameterError("--methods is empty: name at least one, such as --methods deepsep.")
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ParameterError(f"--methods names {twice} twice. Name it once.")
    for name in names:
        build_study_model(name)  # raises if there is no such method, or its package is missing
    if ablation and "deepsep" not in names:
        raise ParameterError("--ablation removes parts of deepsep: add deepsep to --methods.")
    settings: dict[str, dict[str, Any]] = {}
    for key, value in parse_settings(given).items():
        name, _, setting = key.partition(".")
        if name not in names or not setting:
            raise ParameterError(f"--set {key}: write METHOD.NAME=VALUE, with a method of --methods.")
        settings.setdefault(name, {})[setting] = value
    for name, some in settings.items():
        build_study_model(name, **some)  # raises if there is no such setting
    return settings


def _read(out: Console, table: str, label: str, drop: list[str]) -> tuple[str, pd.DataFrame, str, str]:
    """Return the name of the table, its rows, the column of classes, and a description."""
    from deepsep.datasets import list_tables
    from deepsep.table import read_table
    from deepsep.table.batches import open_files
    from deepsep.table.locations import find_column

    if table in list_tables():
        from deepsep.datasets import load_table

        out.note(f"Loading {table} ...")
        known = load_table(table)
        name, frame, label = table, known.data.assign(**{known.label: known.target}), known.label
        about = known.DESCR
        out.note(f"{len(frame):,} rows. Source: {known.source}. Licence: {known.licence}.")
    else:
        file = Path(table)
        if not file.exists():
            raise DataError(f"{table} is neither a file nor a table that deepsep knows: {', '.join(list_tables())}.")
        out.note(f"Reading {table} ...")
        rows = open_files(file)
        label = find_column(rows.names, label, "label column")
        name, frame, about = file.stem, read_table(rows, label=label), ""
    without = int(frame[label].isna().sum())
    if without:
        out.warn(f"{without:,} of {len(frame):,} rows have no class in {label!r} and are left out.")
    apart = [find_column(frame.columns, column, "--drop: column") for column in drop]
    if label in apart:
        raise ParameterError(f"--drop {label}: this is the column of classes, which cannot be dropped.")
    return name, frame.drop(columns=apart), label, about


def _run(out: Console, what: Any, jobs: int | None) -> tuple[DeepSepError | None, float]:
    """Run the unfinished fits with a progress bar; return the error, if any, and the seconds."""
    from joblib import cpu_count

    from deepsep.study import run

    pending, began = len(what.pending), time.perf_counter()
    done = len(what.cells) - pending
    out.note(f"{len(what.cells)} fits" + (f", {done} of them already finished." if done else "."))
    try:
        with out.bar("Fits", total=pending) as bar:
            run(what, jobs=jobs or cpu_count(), on_cell=bar.update)
    except KeyboardInterrupt:
        typer.echo("Interrupted. Finished fits are kept: run the same command to continue.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except DeepSepError as error:
        return error, time.perf_counter() - began
    return None, time.perf_counter() - began
