"""``deepsep fit``."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import (
    DecisionOptions,
    EscapeFormulas,
    FitOptions,
    Keep,
    Priors,
    Replace,
    Seed,
    option,
    split_names,
)
from deepsep.errors import DataError, ParameterError

if TYPE_CHECKING:
    from deepsep.apps.sql import Query
    from deepsep.scoring.decisions import Decision


def _method_names(start: str) -> list[str]:
    from deepsep.classifiers.catalogue import methods

    return [name for name in methods() if name.startswith(start)]


@command()
def fit(
    output: Annotated[Path, option("--output, -o", "FOLDER", "Where the model goes.")],
    training: FitOptions,
    to: Annotated[
        str | None,
        option(
            "--to", "TABLE", "With --from: also write the predictions to a table of the same database, or schema.table."
        ),
    ] = None,
    replace: Replace = False,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="One of `deepsep methods`.", autocompletion=_method_names)
    ] = "committee",
    effort: Annotated[
        Literal["fast", "normal", "best"] | None,
        typer.Option(help="How much the committee computes: fast, normal or best.", show_default="normal"),
    ] = None,
    settings: Annotated[
        list[str] | None, option("--set", "NAME=VALUE", "A setting of the method; may be repeated.")
    ] = None,
    priors: Priors = None,
    keep: Keep = "",
    seed: Seed = 0,
    predictions: Annotated[
        Literal["parquet", "csv", "xlsx"] | None,
        typer.Option(help="Format of the predictions.", show_default="xlsx or csv if TABLE is, and else parquet"),
    ] = None,
    escape_formulas: EscapeFormulas = False,
    *,
    deciding: DecisionOptions,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Whether to write report.html.")] = True,
    workbook: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An .xlsx file for the results: predictions (if TABLE is an Excel file, in a copy of it), sizes and "
            "profiles of the segments, tests, rows to label next.",
        ),
    ] = None,
    comparison: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .json file from deepsep compare, to show in the report.")
    ] = None,
    out: Console,
) -> None:
    """Fit a model to a table of which some rows have labels.

    It learns from the unlabelled rows too, and predicts them: of a large table it learns from 20,000, drawn at random,
    beyond which more did not help (see --unlabelled), and predicts all. The folder holds the model, the predictions of
    every unlabelled row (in an Excel or CSV file if TABLE is one; see --predictions), report.html, labels_used.csv, and
    suspicious.csv (labels that may be wrong); an earlier model in it is replaced once the new one is complete.
    By default several methods decide together (see `deepsep methods`, committee), weighted by what each says about
    labels held out, which is also the accuracy to expect; --effort fast takes a fraction of the time. Ctrl-C ends the
    folds early, once all members are fitted. Columns that are given for labelled rows only are not used, unless named
    in --keep.

    TABLE may be several files, a pattern in quotes such as 'parts/*.csv', or a folder of Parquet parts: they are one
    table, in the order in which they are named, and sorted by name in a pattern or a folder. All need the same columns.

    Example: deepsep fit customers.csv --label segment --id customer -o model
    """
    from deepsep.cli.estimator import parse_settings, read_priors, with_effort
    from deepsep.cli.fit_checks import check_decision, check_scores_table, check_workbook, read_comparison
    from deepsep.cli.fit_result import print_result
    from deepsep.cli.watched_fit import fit_and_measure
    from deepsep.files.manifest import check_model_folder, describe_earlier
    from deepsep.model.fitting import build, check_takes_priors
    from deepsep.model.model_folder import write_folder
    from deepsep.model.training_table import read_training
    from deepsep.scoring.to_label import GUESS_COLUMNS
    from deepsep.table.source import ExternalRows

    began = time.perf_counter()
    target = check_model_folder(output)
    earlier = describe_earlier(target)
    if earlier is not None:
        out.note(f"{output} holds a model ({earlier}). The new one replaces it as soon as it is complete.")
    if comparison is not None and not report:
        raise ParameterError("--comparison is for the report: leave out --no-report.")
    if workbook is not None:
        check_workbook(workbook, report, training.source)
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
    decision = check_decision(estimator, data, deciding)
    if workbook is not None and data.label in GUESS_COLUMNS:
        raise DataError(f"the label column is named {data.label!r}, like a column of the workbook. Rename it.")
    if predictions == "xlsx":
        from deepsep.table.excel_cells import check_fits

        n_columns = len(data.labels.classes) + 4
        check_fits(data.n_unlabeled, n_columns, "the file of predictions", "Choose --predictions csv.")
    with TemporaryDirectory() as scratch:
        fitted = fit_and_measure(
            out,
            estimator,
            data,
            Path(scratch),
            method=method,
            keep=split_names(keep),
            report=report,
            decision=decision,
            comparison=None if comparison is None else read_comparison(comparison, data),
        )
        book = None
        if workbook is not None:
            from deepsep.apps.workbook import make_workbook
            from deepsep.apps.workbook.own_file import copy_with_predictions, prediction_rows

            own, rows = None, prediction_rows(fitted.predictions)
            if rows is not None and isinstance(source, Path) and data.origin and data.origin.kind == "excel":
                own = copy_with_predictions(source, data, rows, data.origin.reading)
            if rows is None:
                out.note(f"The workbook lacks the predictions, since they are {fitted.predictions.n_rows:,} rows.")
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
                predictions=rows if own is None else None,
                book=own,
            )
        files = write_folder(
            fitted.model,
            target,
            fitted.predictions,
            predictions,
            summary=fitted.summary,
            escape_formulas=escape_formulas,
        )
        out.if_interrupted = f"Interrupted. The model is in {output}; what would come after it is not written."
        if to is not None and isinstance(source, ExternalRows) and training.id is not None:
            from deepsep.apps.sql.into_tables import write_scores
            from deepsep.model.table_model import load

            written = write_scores(
                load(target),
                source,
                to,
                fitted.predictions.frames(),
                fitted.decision,
                id=training.id,
                fast=fitted.predictions.by_student,
                replace=replace,
                go_on=_go_on(output, source, training.id, to, fitted.decision, deciding.costs),
            )
            out.note(f"Wrote {written:,} rows to the table {to}.")
    if workbook is not None and book is not None:
        from deepsep.apps.workbook.book import save_workbook

        save_workbook(book, workbook)
    seconds = time.perf_counter() - began
    print_result(
        out,
        fitted,
        output,
        files,
        method=method,
        earlier=earlier,
        costs=deciding.costs,
        workbook=workbook,
        total_seconds=seconds,
    )


def _go_on(output: Path, source: Query, id: str, to: str, decision: Decision, costs: Path | None) -> str:
    """Return how the table of predictions can be completed if its writing fails."""
    from deepsep.cli.printed_commands import option_words

    options: dict[str, Any] = {
        "--from": source.database,
        "--query": source.sql,
        "--id": id,
        "--to": to,
        "--sets": decision.sets,
        "--per-class": decision.per_class,
        "--abstain": decision.abstain,
        "--costs": costs,
    }
    return (
        f"The model is in {output}. To write the rest, score the query, or the rows of it without a label:\n"
        f"{shlex.join(['deepsep', 'score', str(output), *option_words(options)])}"
    )
