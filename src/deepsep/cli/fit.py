"""``deepsep fit``."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from deepsep.cli.console import console
from deepsep.cli.options import (
    Debug,
    DecisionOptions,
    Effort,
    FitOptions,
    Format,
    Json,
    Keep,
    Priors,
    Quiet,
    Replace,
    Seed,
    split_names,
    takes_options,
)
from deepsep.errors import DataError, ParameterError

if TYPE_CHECKING:
    from deepsep.apps.sql import Query
    from deepsep.scoring.decisions import Decision


def _method_names(start: str) -> list[str]:
    from deepsep.classifiers.catalogue import methods

    return [name for name in methods() if name.startswith(start)]


@takes_options()
def fit(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the model goes.", show_default=False)
    ],
    training: FitOptions,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TABLE",
            help="With --from: also write the predictions to a table of the same database, or schema.table.",
            show_default=False,
        ),
    ] = None,
    replace: Replace = False,
    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="One of `deepsep methods`.", autocompletion=_method_names),
    ] = "committee",
    effort: Annotated[
        Effort | None,
        typer.Option(help="How much the committee computes: fast, normal or best.", show_default="normal"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated."),
    ] = None,
    priors: Priors = None,
    keep: Keep = "",
    seed: Seed = 0,
    predictions: Annotated[
        Format, typer.Option(help="Format of the predictions; Excel opens csv and xlsx.")
    ] = Format.parquet,
    *,
    deciding: DecisionOptions,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Whether to write report.html.")] = True,
    workbook: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An .xlsx file for the results: sizes and profiles of the segments, tests, rows to label next.",
            show_default=False,
        ),
    ] = None,
    comparison: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .json file from deepsep compare, to show in the report.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table of which some rows have labels.

    It learns from the unlabelled rows too, and predicts them: of a large table it learns from 20,000, drawn at random,
    beyond which more did not help (see --unlabelled), and predicts all. The folder holds the model, predictions.parquet
    (every unlabelled row; see --predictions), report.html, labels_used.csv, and suspicious.csv (labels that may be
    wrong); an earlier model in it is replaced once the new one is complete.
    By default several methods decide together (see `deepsep methods`, committee), weighted by what each says about
    labels held out, which is also the accuracy to expect; --effort fast takes a fraction of the time. Ctrl-C ends the
    folds early, once all members are fitted. Columns that are given for labelled rows only are not used, unless named
    in --keep.

    TABLE may be several files, a pattern in quotes such as 'parts/*.csv', or a folder of Parquet parts: they are one
    table, in the order in which they are named, and sorted by name in a pattern or a folder. All need the same columns.

    Example: deepsep fit customers.csv --label segment --id customer -o model
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        from deepsep.cli.estimator import parse_settings, read_priors, with_effort
        from deepsep.cli.fit_checks import check_decision, check_scores_table, check_workbook, read_comparison
        from deepsep.cli.fit_pipeline import fit_and_measure
        from deepsep.cli.fit_result import print_result
        from deepsep.files.manifest import check_model_folder, describe_earlier
        from deepsep.model.fitting import build, check_takes_priors
        from deepsep.model.model_folder import install_folder
        from deepsep.model.training_table import read_training
        from deepsep.scoring.to_label import GUESS_COLUMNS
        from deepsep.table.external import ExternalRows

        began = time.perf_counter()
        target = check_model_folder(output)
        earlier = describe_earlier(target)
        if earlier is not None:
            out.note(f"{output} holds a model ({earlier}). The new one replaces it as soon as it is complete.")
        if comparison is not None and not report:
            raise ParameterError("--comparison is for the report: leave out --no-report.")
        if workbook is not None:
            check_workbook(workbook, report)
        source = training.source
        check_scores_table(source, to, training.id, replace)
        weighted = bool(training.weight or training.label_weight)
        chosen = with_effort(parse_settings(settings or []), effort)
        estimator = build(method, chosen, seed, weighted=weighted)
        if priors is not None:
            check_takes_priors(estimator)
        data = read_training(training.asked, seed, note=out.note)
        if priors is not None:
            estimator.set_params(priors=read_priors(priors, data.labels.classes))
        asked = check_decision(estimator, data, deciding)
        if workbook is not None and data.label in GUESS_COLUMNS:
            raise DataError(f"the label column is named {data.label!r}, like a column of the workbook. Rename it.")
        if predictions is Format.xlsx:
            from deepsep.table.excel_cells import check_fits

            n_columns = len(data.labels.classes) + 4
            n_predicted = int((~data.labeled).sum()) if data.large is None else data.large.chosen.n_unlabeled
            check_fits(n_predicted, n_columns, "the file of predictions", "Choose --predictions csv.")
        with TemporaryDirectory() as scratch:
            fitted = fit_and_measure(
                out,
                estimator,
                data,
                Path(scratch),
                method=method,
                keep=split_names(keep),
                seed=seed,
                report=report,
                format=predictions.value,
                asked=asked,
                comparison=None if comparison is None else read_comparison(comparison, data),
            )
            book = None
            if workbook is not None:
                from deepsep.apps.workbook import make_workbook

                book = make_workbook(
                    fitted.model,
                    data.X,
                    data.labels,
                    ids=data.ids,
                    proba=fitted.model[-1].label_distributions_,
                    label=data.label,
                    summary=fitted.summary,
                    seed=seed,
                    sample_weight=data.weight,
                )
            install_folder(fitted.model, fitted.files, target)
            if to is not None and isinstance(source, ExternalRows) and training.id is not None:
                from deepsep.apps.sql.query_scores import write_scores
                from deepsep.model.loading import load

                written = write_scores(
                    load(target),
                    source,
                    to,
                    fitted.predictions.frames(),
                    fitted.asked,
                    id=training.id,
                    fast=fitted.predictions.by_student,
                    replace=replace,
                    go_on=_go_on(output, source, training.id, to, fitted.asked, deciding.costs),
                )
                out.note(f"Wrote {written:,} rows to the table {to}.")
        if workbook is not None and book is not None:
            from deepsep.apps.workbook.book import save_workbook

            save_workbook(book, workbook)
        seconds = time.perf_counter() - began
        print_result(out, fitted, data, output, method, earlier, deciding.costs, workbook, seconds)


def _go_on(output: Path, source: Query, id: str, to: str, asked: Decision, costs: Path | None) -> str:
    """Return how the table of predictions can be completed if its writing fails."""
    command: list[object] = ["deepsep", "score", output, "--from", source.database, "--query", source.sql, "--id", id]
    command += ["--to", to, *(["--sets", asked.sets] if asked.sets is not None else [])]
    command += ["--per-class"] if asked.per_class else []
    command += ["--abstain", asked.abstain] if asked.abstain is not None else []
    command += ["--costs", costs] if costs is not None else []
    return (
        f"The model is in {output}. To write the rest, score the query, or the rows of it without a label:\n"
        f"{shlex.join(map(str, command))}"
    )
