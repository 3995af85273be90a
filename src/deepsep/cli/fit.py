"""``deepsep fit``."""

from __future__ import annotations

import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepsep.cli.console import Console, console
from deepsep.cli.options import (
    Abstain,
    Address,
    CostsFile,
    Debug,
    Effort,
    Engine,
    FitOptions,
    Format,
    Json,
    Keep,
    PerClass,
    Priors,
    Quiet,
    Replace,
    Seed,
    Sets,
    Workers,
    check_engine,
    split_names,
    takes_fit_options,
)
from deepsep.errors import DataError, InterruptWarning, ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from deepsep.cli.training import Training
    from deepsep.scoring.asked import Asked
    from deepsep.scoring.decisions import Decisions
    from deepsep.table.locations import Place
    from deepsep.table.queries import Query

WIDE = 1_000  # columns from which a report takes minutes
NOWHERE_ELSE: AbstractContextManager[None] = nullcontext()


def _method_names(start: str) -> list[str]:
    from deepsep.classifiers.catalogue import methods

    return [name for name in methods() if name.startswith(start)]


@takes_fit_options()
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
    sets: Sets = None,
    per_class: PerClass = False,
    abstain: Abstain = None,
    costs: CostsFile = None,
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
    engine: Annotated[
        Engine,
        typer.Option(help="ray: a TSVM, DeepSep's boundaries or a committee's student on a Ray cluster."),
    ] = Engine.local,
    address: Address = None,
    workers: Workers = None,
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

    With --engine ray, a part of the fit is done on a Ray cluster: the rows of a TSVM and of DeepSep's boundaries are
    divided among its workers, and the student of a committee is trained by all of them. The result is the same.

    Example: deepsep fit customers.csv --label segment --id customer -o model
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        from deepsep.cli.estimator import build, parse_settings, set_priors, with_effort
        from deepsep.cli.outputs import save_model
        from deepsep.cli.training import read_training
        from deepsep.files.manifest import check_model_folder, describe_earlier
        from deepsep.scoring.to_label import GUESS
        from deepsep.table.queries import Query
        from deepsep.workbook.book import save_workbook

        began = time.perf_counter()
        check_engine(engine, address, workers)
        target = check_model_folder(output)
        earlier = describe_earlier(target)
        if earlier is not None:
            out.note(f"{output} holds a model ({earlier}). The new one replaces it as soon as it is complete.")
        if comparison is not None and not report:
            raise ParameterError("--comparison is for the report: leave out --no-report.")
        if workbook is not None:
            _check_workbook(workbook, report)
        source = training.source
        _check_table(source, to, training.id, replace)
        weighted = bool(training.weight or training.label_weight)
        chosen = with_effort(parse_settings(settings or []), method, effort)
        estimator = build(method, chosen, seed, weighted=weighted)
        place = _on_ray(estimator, address, workers) if engine is Engine.ray else nullcontext()
        data = read_training(out, training, seed, in_memory=engine is Engine.ray)
        if data.large is not None and len(data.large.chosen.more):  # more rows than are in memory
            estimator.check_stream()
        if engine is Engine.ray:
            _note_few_rows(out, estimator, data)
        if priors is not None:
            set_priors(estimator, method, priors, data.labels.classes)
        asked = _asked(estimator, data, sets, per_class, abstain, costs)
        if workbook is not None and data.label in GUESS:
            raise DataError(f"the label column is named {data.label!r}, like a column of the workbook. Rename it.")
        if predictions is Format.xlsx:
            from deepsep.table.excel_cells import check_fits

            n_columns = len(data.labels.classes) + 4
            n_predicted = int((~data.labelled).sum()) if data.large is None else data.large.chosen.n_unlabelled
            check_fits(n_predicted, n_columns, "the file of predictions", "Choose --predictions csv.")
        with TemporaryDirectory() as scratch:
            fitted = fit_and_measure(
                out,
                estimator,
                data,
                method=method,
                keep=split_names(keep),
                seed=seed,
                report=report,
                predictions=predictions,
                asked=asked,
                command=None,
                comparison=None if comparison is None else _read_comparison(comparison, data),
                workbook=workbook is not None,
                scratch=Path(scratch),
                place=place,
            )
            save_model(fitted.model, fitted.files, target)
            if to is not None and isinstance(source, Query) and training.id is not None:
                from deepsep.models import load
                from deepsep.scoring.query_scores import write_scores

                written = write_scores(load(target), source, to, fitted.frames, asked, id=training.id, replace=replace)
                out.note(f"Wrote {written:,} rows to the table {to}.")
        if workbook is not None and fitted.workbook is not None:
            save_workbook(fitted.workbook, workbook)
        seconds = time.perf_counter() - began
        _print_result(out, fitted, data, output, method, earlier, costs, workbook, seconds)


def _on_ray(estimator: Any, address: str | None, workers: int | None) -> AbstractContextManager[None]:
    """Return the context of a fit on a cluster, or raise before a long reading if there is none for this method."""
    from deepsep.cluster.ray_fit import check_distributed, on_ray

    check_distributed(estimator)
    return on_ray(estimator, address=address, workers=workers)


def _note_few_rows(out: Console, estimator: Any, data: Training) -> None:
    """Say so if the rows are too few for a cluster."""
    from deepsep.cluster.sharded_rows import SHARD_ROWS

    n = int((~data.labelled).sum())
    n = min(n, getattr(estimator, "n_unlabeled", None) or n)
    if n <= SHARD_ROWS:
        out.note(f"A cluster cannot help with {n:,} unlabelled rows: up to {SHARD_ROWS:,} are quicker without it.")


def _check_table(source: Place | Query, to: str | None, id: str | None, replace: bool) -> None:
    """Raise before a long fit if the predictions cannot go to the table."""
    if to is None:
        if replace:
            raise ParameterError("--replace belongs to --to.")
        return
    from deepsep.databases.opening import open_writer
    from deepsep.scoring.scores_tables import ScoresTable
    from deepsep.table.queries import Query

    if not isinstance(source, Query):
        raise ParameterError("--to names a table of the database in --from. Leave it out: there is a file in --output.")
    if id is None:
        raise ParameterError("--to needs --id: the column that tells the rows apart.")

    with open_writer(source.database) as connection:
        if ScoresTable(connection, to, id).record is not None and not replace:
            raise DataError(f"the table {to} has predictions of another model. Name another table, or pass --replace.")


def _check_workbook(target: Path, report: bool) -> None:
    """Raise before a long fit if the workbook cannot be written, or would replace something else."""
    from deepsep.scoring.to_label import GUESS, SHEET
    from deepsep.table.excel import sheet_names
    from deepsep.table.join import is_label
    from deepsep.table.reading import read_table
    from deepsep.workbook.book import GUIDE, check_target

    if not report:
        raise ParameterError("--workbook shows what the report measures: leave out --no-report.")
    if not check_target(target).exists():
        return
    names = sheet_names(target)
    if GUIDE not in names:
        raise DataError(f"--workbook {target} is another file, not a workbook of deepsep. Name another one.")
    if SHEET in names:
        rows = read_table(target, label=None, sheet=SHEET)
        column = rows.columns[list(rows.columns).index(GUESS[-1]) + 1]
        filled = int(is_label(read_table(target, label=column, sheet=SHEET)[column]).sum())
        if filled:
            raise DataError(f"--workbook {target} has {filled} labels that someone filled in. Name another file.")


def _asked(
    estimator: Any, data: Training, sets: float | None, per_class: bool, abstain: float | None, costs: Path | None
) -> Asked:
    """Return what is asked of the labels, or raise before a long fit if that is impossible."""
    import numpy as np

    from deepsep.evaluation.conformal import check_coverage, check_labels
    from deepsep.scoring.asked import Asked
    from deepsep.scoring.costs import read_costs

    labels = data.labels
    table = None if costs is None else read_costs(costs, labels.classes)
    asked = Asked(sets=sets, per_class=per_class, abstain=abstain, costs=table)
    asked.check(estimator)
    if sets is not None:
        check_coverage(sets)
        counts = np.bincount(labels.codes[labels.labelled], minlength=len(labels.classes))
        check_labels(counts, sets, per_class=per_class, classes=labels.classes)
    return asked


def _read_comparison(file: Path, data: Training) -> dict[str, Any]:
    """Return the comparison in a file, or raise if it is missing or of another table."""
    import json

    from deepsep.report.ranking import check_comparison

    try:
        comparison: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"--comparison {file}: there is no such file. Make it with deepsep compare -o {file}."
        ) from None
    except (ValueError, OSError) as error:
        raise DataError(f"--comparison {file} cannot be read as JSON: {error}") from None
    try:
        check_comparison(comparison, data.labels, list(data.X))
    except DataError as error:
        raise DataError(f"--comparison {file}: {error}") from None
    return comparison


@dataclass(frozen=True)
class Fitted:
    """A fitted model, its predictions, and the other files of its folder."""

    model: Any
    predictions: pd.DataFrame  # of the unlabelled rows in memory
    decisions: dict[str, Any]
    findings: list[dict[str, Any]]
    summary: dict[str, Any] | None
    files: dict[str, bytes | Path]
    seconds: float
    frames: Iterable[pd.DataFrame]  # the predictions of all unlabelled rows
    counts: dict[Any, int]  # how often each class is predicted for them
    n_predicted: int
    scored: dict[str, Any] | None  # how rows beside those in memory were predicted
    workbook: Any = None


def fit_and_measure(
    out: Console,
    estimator: Any,
    data: Training,
    *,
    method: str,
    keep: list[str],
    seed: int,
    report: bool,
    command: str | None,
    predictions: Format = Format.parquet,
    asked: Asked | None = None,
    comparison: dict[str, Any] | None = None,
    workbook: bool = False,
    scratch: Path | None = None,
    place: AbstractContextManager[Any] = NOWHERE_ELSE,
) -> Fitted:
    """Fit a model, predict the unlabelled rows, and evaluate the model by cross-validation.

    ``scratch`` is a folder for the predictions of a large table; inside ``place``, the model is fitted.
    """
    import json

    import pandas as pd

    from deepsep.classifiers.committee import Committee
    from deepsep.cli.outputs import REPORT, SUMMARY, as_file, label_files
    from deepsep.cli.progress import watching, watching_committee
    from deepsep.evaluation.frames import check_id_name, prediction_names
    from deepsep.report.findings import check_fit
    from deepsep.scoring.asked import Asked
    from deepsep.scoring.decisions import evidence_of
    from deepsep.scoring.local import label_type
    from deepsep.scoring.others import read_frames
    from deepsep.scoring.training_profile import remember_columns
    from deepsep.table import for_table

    labelled, asked = data.labelled, asked or Asked()
    check_id_name(data.ids.name, prediction_names(data.labels.classes, data.label, sets=asked.sets is not None))
    together = isinstance(estimator, Committee)
    if together:
        estimator.set_params(twins=report)
    out.note(_announcement(estimator, method, data))
    if data.X.shape[1] > WIDE and report:
        out.note(f"All {data.X.shape[1]:,} columns are used, which makes the report slow; --no-report leaves it out.")
    began = time.perf_counter()
    model = for_table(estimator, keep=keep)
    weights = {} if data.weight is None else {"sample_weight": data.weight}
    columns = model[0].fit_transform(data.X, data.labels)
    findings = check_fit(columns, data.labels, estimator, data.weight, model[0].left_out_)
    if data.large is not None:
        findings.append(_part_of(data))
    on_step: Callable[[int, int, str], object] | None = None
    with ExitStack() as stack:
        stack.enter_context(_silent_workers())
        encoded = model[1:-1].fit_transform(columns, data.labels)
        if data.large is not None:
            from deepsep.cli.many_rows import learning_from_all, predict_all

            stack.enter_context(learning_from_all(out, model, encoded, data))
        if together:
            on_step = stack.enter_context(watching_committee(out, model[-1], report=report))
            with place:
                _fit_committee(out, model[-1], encoded, data.labels, weights)
        else:
            with place, watching(out, model[-1], method):
                model[-1].fit(encoded, data.labels, **weights)
            if report:
                out.note("Evaluating it by cross-validation, next to other methods ...")
                on_step = stack.enter_context(out.steps("Report"))
        remember_columns(model, columns, data.labels, data.weight)
        model[0].label_ = data.label  # the predictions of ``deepsep score`` are written under this name too
        seconds = time.perf_counter() - began
        proba = model[-1].label_distributions_
        decisions = _decide(out, model, asked)
        predicted, tally = decisions.columns(proba[~labelled], data.label)
        frame = pd.DataFrame({data.ids.name: data.ids.to_numpy()[~labelled], **predicted})
        frames: Iterable[Any] = [frame]
        counts, n_predicted, scored = frame.iloc[:, 1].value_counts().to_dict(), len(frame), None
        files: dict[str, Any] = {}
        if data.large is None or scratch is None:
            files[predictions.file] = as_file(frame, predictions, label_type(model, decisions))
        else:
            place, files[predictions.file], scored = predict_all(out, model, data, asked, predictions, scratch)
            frames, counts, n_predicted = read_frames(place), scored["labels"], scored["rows"]
        summary = None
        if report:
            from joblib import cpu_count

            from deepsep.report import render, summarize
            from deepsep.report.held_out import FOLDS

            summary = summarize(
                model,
                data.X,
                data.labels,
                ids=data.ids,
                proba=proba,
                label=data.label,
                command=command or shlex.join(["deepsep", *sys.argv[1:]]),
                comparison=comparison,
                findings=findings,
                seed=seed,
                sample_weight=data.weight,
                n_jobs=min(FOLDS, cpu_count()),
                on_step=on_step,
            )
            files[REPORT] = render(summary, data_file=SUMMARY).encode()
            files[SUMMARY] = json.dumps(summary, ensure_ascii=False, indent=1).encode()
    files |= label_files(model, data, summary)
    described = decisions.describe(tally, evidence_of(model)) if scored is None else scored["decisions"]
    book = None
    if workbook:
        from deepsep.workbook import make_workbook

        book = make_workbook(
            model,
            data.X,
            data.labels,
            ids=data.ids,
            proba=proba,
            label=data.label,
            summary=summary,
            seed=seed,
            sample_weight=data.weight,
        )
    return Fitted(model, frame, described, findings, summary, files, seconds, frames, counts, n_predicted, scored, book)


def _part_of(data: Training) -> dict[str, Any]:
    """Return the finding that a report is about a part of a large table."""
    assert data.large is not None
    chosen, n, n_labelled = data.large.chosen, len(data.X), int(data.labelled.sum())
    return {
        "severity": "note",
        "code": "part",
        "columns": [],
        "message": f"this is about {n:,} rows: the {n_labelled:,} with a label, and {n - n_labelled:,} of the "
        f"{chosen.n_unlabelled:,} without one, drawn at random. All of them are predicted.",
        "next": "Nothing.",
    }


def _decide(out: Console, model: Any, asked: Asked) -> Decisions:
    """Return how labels follow from probabilities; a fit without predictions out of fold keeps its other results."""
    from deepsep.scoring.decisions import Decisions, evidence_of

    if asked.sets is not None and evidence_of(model) is None:
        out.warn("no sets: no predictions out of fold are known, from which they are made.")
        asked = replace(asked, sets=None, per_class=False)
    return Decisions.of(model, asked)


def _fit_committee(out: Console, committee: Any, X: Any, labels: Any, weights: dict[str, Any]) -> None:
    """Fit a committee; if Ctrl-C ends the folds, it is kept with what is known by then."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", InterruptWarning)
        committee.fit(X, labels, **weights)
    if any(text.startswith("interrupted") for text in out.warnings):
        out.note("The model is written with what is known; Ctrl-C again ends without one.")


def _announcement(estimator: Any, method: str, data: Training) -> str:
    """Return what is going to be fitted, and about how long it takes."""
    from deepsep.classifiers.catalogue import find_method
    from deepsep.classifiers.committee import Committee
    from deepsep.cli.progress import duration

    what = f"Fitting {method} to {data.n_used:,} rows, {int(data.labelled.sum()):,} of them labelled"
    if not isinstance(estimator, Committee):
        return f"{what} ({find_method(method).cost}) ..."
    plan = estimator.plan(len(data.X), data.labels)
    width = max(map(len, plan.members))
    in_folds = f", and to the other rows in each of {plan.n_folds} folds" if plan.n_folds else ""
    lines = [f"{what}. It has {len(plan.members)} members, each fitted to all rows{in_folds}:"]
    lines += [f"  {name:<{width}}  {why}" for name, why in plan.members.items()]
    if plan.left_out:
        lines.append(f"Not in it: {'; '.join(f'{name} ({why})' for name, why in plan.left_out.items())}.")
    cores = estimator.n_jobs or os.cpu_count() or 1
    lines.append(f"In all {plan.n_fits} fits: {duration(plan.seconds, cores)} ...")
    return "\n".join(lines)


@contextmanager
def _silent_workers() -> Iterator[None]:
    """Keep the worker processes from printing warnings, also after Ctrl-C."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def _print_result(
    out: Console,
    fitted: Fitted,
    data: Training,
    output: Path,
    method: str,
    earlier: str | None,
    costs: Path | None,
    workbook: Path | None,
    total_seconds: float,
) -> None:
    from deepsep.cli.check import finding_lines
    from deepsep.cli.decisions import decision_lines
    from deepsep.cli.outputs import REPORT, SUSPICIOUS
    from deepsep.report.more_labels import more_labels
    from deepsep.report.provenance import rows_in_model

    (predictions,) = (format.file for format in Format if format.file in fitted.files)
    summary, n, n_labelled = fitted.summary, data.n_used, int(data.labelled.sum())
    n_predicted = fitted.n_predicted
    shares = {name: fitted.counts.get(name, 0) / max(n_predicted, 1) for name in fitted.model.classes_.tolist()}
    lines = [line for finding in fitted.findings for line in (*finding_lines(finding), "")]
    lines.append(f"Fitted {method} to {n:,} rows, {n_labelled:,} of them labelled, in {fitted.seconds:.1f} s.")
    if summary is not None:
        lines.append(f"With its evaluation, the report and the files, it took {total_seconds:.1f} s.")
        lines += ["", *summary["verdict"]]
        if summary["members"] is not None and summary["accuracy"] is not None:
            lines += ["", *_member_lines(summary)]
    else:
        more = more_labels(getattr(fitted.model[-1], "learning_curve_", None))
        lines += [] if more is None else [more["sentence"]]
    if n_predicted:
        lines += ["", f"Predicted for the {n_predicted:,} unlabelled rows{_by_whom(fitted)}:"]
        width = max(len(str(name)) for name in shares)
        lines += [f"  {name!s:<{width}}  {share:6.1%}" for name, share in shares.items()]
        lines += decision_lines(fitted.decisions, n_predicted, costs)
    kept = rows_in_model(fitted.model)
    files = {
        f"{output}": "the model: deepsep.load opens it"
        + (f" (replaces {earlier})" if earlier else "")
        + (f"; it contains {kept:,} rows of this table, with their labels" if kept else ""),
        f"{output / predictions}": f"label, probabilities and confidence of {n_predicted:,} rows",
    }
    if SUSPICIOUS in fitted.files:
        files[f"{output / SUSPICIOUS}"] = "labels to check: predictions of held-out rows contradict them"
    if summary is not None:
        files[f"{output / REPORT}"] = "the report: open it in a browser"
    if workbook is not None:
        files[f"{workbook}"] = "the workbook: sizes and profiles of the segments, and rows to label, for Excel"
    width = max(map(len, files))
    lines += ["", *(f"{file:<{width}}  {what}" for file, what in files.items())]
    lines += ["", f"Next: deepsep score {shlex.quote(str(output))} MORE_ROWS.csv -o scored{Path(predictions).suffix}"]
    out.result(
        "\n".join(lines),
        {
            "method": method,
            "rows": n,
            "labelled": n_labelled,
            "unlabelled": n_predicted,
            "unlabelled_used": n - n_labelled,
            "scored_by": None if fitted.scored is None else fitted.scored["scored_by"],
            "classes": fitted.model.classes_,
            "predicted_shares": shares,
            "decisions": fitted.decisions,
            "findings": fitted.findings,
            "outcome": None if summary is None else summary["outcome"],
            "verdict": None if summary is None else summary["verdict"],
            "members": None if summary is None else summary["members"],
            "accuracy": None if summary is None else summary["accuracy"],
            "seconds": round(fitted.seconds, 2),
            "total_seconds": round(total_seconds, 2),
            "model": output,
            "replaced": earlier,
            "rows_in_model": kept,
            "predictions": output / predictions,
            "report": None if summary is None else output / REPORT,
            "workbook": workbook,
        },
    )


def _by_whom(fitted: Fitted) -> str:
    """Return who predicted the rows of a large table, if it was not the model itself."""
    if fitted.scored is None or fitted.scored["scored_by"] != "student":
        return ""
    return f", by the student, which agrees with its committee in {fitted.scored['student']['agreement']:.1%} of rows"


def _member_lines(summary: dict[str, Any]) -> list[str]:
    """Return a table of the members: weight, accuracy with its interval, and log loss on held-out rows."""
    from deepsep.report.wording import percent, span

    scores = {line["key"]: line for line in summary["accuracy"]["methods"]}
    weights = {line["key"]: f"{line['weight']:.2f}" for line in summary["members"]["lines"]}
    rows = [
        (
            scores[key]["name"],
            weights.get(key, ""),
            f"{percent(scores[key]['accuracy']['value'])} ({span(scores[key]['accuracy']['interval'])})",
            f"{scores[key]['log_loss']['value']:.2f}",
        )
        for key in ("model", *sorted(weights, key=lambda key: -float(weights[key])), "majority")
    ]
    head = ("On held-out rows", "weight", "right", "log loss")
    first, *others = (max(len(cell) for cell in column) for column in zip(head, *rows, strict=True))
    return [
        "  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others, strict=True))])
        for name, *cells in (head, *rows)
    ]
