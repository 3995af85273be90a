"""``deepsep label``."""

from __future__ import annotations

import html
import warnings
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import Seed, TrainingOptions, option, split_names
from deepsep.errors import DataError, LabelError, LabelWarning, ParameterError

if TYPE_CHECKING:
    from deepsep.model.training_table import Training


@command(without=("on", "prefer", "weight", "label_weight", "json", "quiet"))
def label(
    output: Annotated[Path, option("--output, -o", "FILE", "A .csv file of labels; continued if it exists.")],
    training: TrainingOptions,
    classes: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Classes to choose from, separated by commas, in addition to those of the labels. More can be typed "
            "on the page.",
        ),
    ] = "",
    seed: Seed = 0,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Whether to fit in the background, and choose rows by it.")
    ] = True,
    port: Annotated[int, typer.Option(metavar="NUMBER", help="Port of the page; 0: a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")] = True,
    *,
    out: Console,
) -> None:
    """Label rows on a page in the browser, one after the other.

    The page is on this machine only, and nobody else can open it. Every answer is saved at once; Ctrl-C ends, and the
    same command resumes later. One row in four is drawn at random, the others are chosen as `deepsep next` does, by a
    quick model that is fitted again now and then. Labels that TABLE or --labels have count. The output goes
    straight to `deepsep fit` as --labels.

    Example: deepsep label customers.csv --label segment --id customer -o labels.csv
    """
    from deepsep.apps.label.answer_file import Answers
    from deepsep.apps.label.refit import Background
    from deepsep.apps.label.server import Server
    from deepsep.apps.label.session import Session
    from deepsep.cli.printed_commands import fit_command, training_options
    from deepsep.table.locations import files_of, table_at

    if output.exists() and any(output.samefile(file) for file in files_of(table_at(training.table))):
        raise DataError(f"the output {output} is the table. Name another file.")
    if output in (training.labels or ()):
        raise ParameterError(f"--labels {output}: the labels in the output count anyway. Leave out --labels.")
    data = _read(out, training)
    answers = Answers(output, str(data.ids.name), data.label)
    background = Background() if refit else None
    try:
        session = Session(
            data.X,
            data.y,
            data.ids,
            answers,
            classes=split_names(classes),
            seed=seed,
            refits=background,
            labels_drawn=data.labels_drawn,
        )
        server = Server(session, port)
        out.note(f"The labelling page, for you alone: {server.address}\nEnd with Ctrl-C. Answers are in {output}.")
        with _opened(server.address, browser):
            server.run()
    finally:
        if background is not None:
            background.stop()
    labeled = sum(answer.label is not None for answer in answers.given.values())
    lines = [f"{labeled} labels and {len(answers.given) - labeled} times “not sure” are in {output}."]
    if labeled:
        files = [*(training.labels or ()), output]
        options = {**training_options(training), "--label": data.label, "--labels": files}
        lines += ["", f"Next: {fit_command(training.table, options, training.reading.settings)}"]
    out.result("\n".join(lines) if answers.given else "No row was answered.", {})


def _read(out: Console, options: TrainingOptions) -> Training:
    """Read the table, which need not have labels yet."""
    import pandas as pd

    from deepsep.cli.printed_lines import finding_lines
    from deepsep.model.training_table import ROW_COLUMN, Training, names_of, number_rows, read_training
    from deepsep.table import read_table
    from deepsep.table.batches import OpenFiles
    from deepsep.table.join import DRAWN_COLUMN
    from deepsep.table.locations import closest, find_column
    from deepsep.table.quality import check_classes

    asked = options.asked
    rows = asked.open()
    names = names_of(rows)
    if options.id is None and ROW_COLUMN in names:
        raise ParameterError(
            f"the table has a column {ROW_COLUMN!r}, which row numbers need. Name the identifier with --id."
        )
    if options.labels or (options.label is not None and options.label in names):
        data = read_training(asked, source=rows, note=out.note)
        y = data.y.reset_index(drop=True)
        with suppress(LabelError), warnings.catch_warnings():  # there may be no labels yet
            warnings.simplefilter("ignore", LabelWarning)  # the findings say the same
            for finding in check_classes(data.labels, data.label, data.merged):
                out.note("\n".join(finding_lines(finding)))
        return Training(data.X, y, None, data.ids, data.label, labels_drawn=data.labels_drawn)
    if options.label is None:
        raise ParameterError("which column will hold the labels? Name it with --label; the table need not have it.")
    if options.labels_drawn is not None:
        raise ParameterError(
            "--labels-drawn is about labels that TABLE or --labels have, and there are none. The page itself keeps how "
            "its rows are drawn."
        )
    out.note(f"Reading {options.source} ...")
    alike = closest(options.label, names)
    if alike is not None:
        out.warn(
            f"the table has no column {options.label!r}, but {alike!r}. If its labels are there, end and use that."
        )
    assert isinstance(rows, OpenFiles)
    frame = read_table(rows, id=options.id, types=dict.fromkeys(asked.text, "text"))
    ids = number_rows(len(frame)) if options.id is None else frame[find_column(frame.columns, options.id, "id column")]
    dropped = [find_column(frame.columns, name, "--drop: column") for name in split_names(options.drop)]
    X = frame.drop(columns=[name for name in (*dropped, options.id, DRAWN_COLUMN) if name in frame.columns])
    return Training(X, pd.Series([None] * len(X), dtype=object), None, ids, options.label)


@contextmanager
def _opened(address: str, browser: bool) -> Iterator[None]:
    """Open the page by a file that only this user can read: other users see the arguments of programs."""
    if not browser:
        yield
        return
    with TemporaryDirectory(prefix="deepsep-", ignore_cleanup_errors=True) as folder:
        file = Path(folder, "open.html")
        target = html.escape(address)
        file.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={target}"><a href="{target}">Open</a>'
        )
        webbrowser.open(file.as_uri())
        yield
