"""``deepsep next``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import Id, Label, ModelFolder, ReadingOptions, Seed, TableFiles, option
from deepsep.cli.printed_lines import aligned

if TYPE_CHECKING:
    import pandas as pd


@command()
def next_(
    model: ModelFolder,
    table: TableFiles,
    output: Annotated[Path, option("--output, -o", "FILE", "A .csv, .tsv or .xlsx file.")],
    n: Annotated[int, option("--number, -n", "ROWS", "How many rows to label.", min=1)] = 25,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Equally many rows of each class that the model predicts.")
    ] = False,
    id: Id = None,
    label: Label = None,
    seed: Seed = 0,
    *,
    reading: ReadingOptions,
    out: Console,
) -> None:
    """Choose the rows whose labels would help most.

    TABLE is the one that the model was fitted to, or any other with its columns; rows that have a label are never
    chosen. They are written with the model's guess and an empty column for the label: fill it in, in Excel from a list,
    and pass the file to `deepsep fit` as --labels. By default --id and --label are the columns of the fit.

    Every tenth row is drawn at random instead, to measure by: only rows drawn at random, or for quotas, tell the
    accuracy. The column labels_drawn says which they are, and `deepsep fit` reads it.

    Example: deepsep next model customers.csv -n 25 -o to_label.xlsx
    """
    from deepsep.cli.opening import open_classifier
    from deepsep.cli.printed_commands import fit_command, fit_options
    from deepsep.model.model_folder import LABELS_FILE, read_labels_used
    from deepsep.model.reading_again import read_again
    from deepsep.report.outcome import more_labels
    from deepsep.scoring.to_label import MAX_CONSIDERED_ROWS, rows_to_label, write_rows_to_label
    from deepsep.scoring.who_scores import label_of
    from deepsep.table.join import DRAWN_COLUMN

    fitted = open_classifier(model, "next")
    label = label or label_of(fitted) or "label"
    _check_target(output, label)
    known = read_labels_used(model)
    frame, id, how = read_again(fitted, table, id=id, label=label, given=reading.given, note=out.note)
    known_ids = _known_ids(known, id, fitted, len(frame))
    chosen = rows_to_label(
        fitted, frame, n, id=id, label=label, known=known_ids, per_class=per_class, random_state=seed
    )
    write_rows_to_label(chosen, output, label=label, classes=fitted.classes_)
    if len(chosen) < n:
        out.note(f"There are only {len(chosen)} unlabelled rows.")
    if len(frame) - len(known_ids) > MAX_CONSIDERED_ROWS:
        out.note(f"{MAX_CONSIDERED_ROWS:,} of the unlabelled rows, drawn at random, were considered.")
    guesses = chosen["model_guess"].value_counts().reindex(fitted.classes_, fill_value=0)
    n_random = int((chosen[DRAWN_COLUMN] == "random").sum())
    lines = [f"{len(chosen)} rows to label: {output}. The model's guesses:"]
    lines += aligned({name: str(count) for name, count in guesses.items()})
    if n_random:
        lines += [
            "",
            f"{_counted(n_random)} drawn at random, one in ten, to measure the accuracy by: see {DRAWN_COLUMN}.",
        ]
    more = more_labels(getattr(fitted[-1], "learning_curve_", None))
    if more is not None:
        lines += ["", more["sentence"]]
    more_known = len(known_ids) > (frame[label].notna().sum() if label in frame.columns else 0)  # from other files
    origins_known = known is not None and DRAWN_COLUMN in known and known[DRAWN_COLUMN].notna().any()
    labels = [model / LABELS_FILE] if more_known or (len(known_ids) and origins_known) else []
    options = {**fit_options(fitted), "--label": label, "--id": id, "--labels": [*labels, output]}
    again = fit_command(table, options, how, f"{model}-2")
    lines += ["", f"Fill in the column {label!r}, then: {again}"]
    out.result(
        "\n".join(lines),
        {
            "rows": len(chosen),
            "id": chosen.columns[0],
            "label": label,
            "ids": chosen.iloc[:, 0].tolist(),
            "labels_drawn": chosen[DRAWN_COLUMN].tolist(),
            "guesses": dict(guesses.items()),
            "more_labels": more and {name: more[name] for name in ("labels", "gain", "interval")},
            "target": output,
        },
    )


def _counted(n: int) -> str:
    return "1 of the rows is" if n == 1 else f"{n} of the rows are"


def _check_target(output: Path, label: str) -> None:
    """Raise if the file exists and has labels that someone filled in."""
    from deepsep.errors import DataError
    from deepsep.scoring.to_label import LABEL_FILE_FORMATS
    from deepsep.table import read_table
    from deepsep.table.batches import open_files
    from deepsep.table.join import is_label

    if output.suffix.lower() not in LABEL_FILE_FORMATS:
        raise DataError(
            f"the output {output} must end in {', '.join(LABEL_FILE_FORMATS[:-1])} or {LABEL_FILE_FORMATS[-1]}."
        )
    if not output.exists():
        return
    rows = open_files(output)
    earlier = read_table(rows)
    if label not in earlier.columns or "model_guess" not in earlier.columns:
        raise DataError(f"{output} is another file, not one of deepsep next. Name another output.")
    filled = int(is_label(read_table(rows, label=label)[label]).sum())
    if filled:
        raise DataError(f"{output} has {filled} labels that someone filled in. Name another output.")


def _known_ids(known: pd.DataFrame | None, id: str | None, fitted: Any, n_rows: int) -> Any:
    """Return the identifiers of the labels of the fit; row numbers only if the table has as many rows as then."""
    if known is None or known.columns[0] != (id or "row"):
        return ()
    if id is None and len(getattr(fitted[-1], "transduction_", ())) != n_rows:
        return ()
    return known.iloc[:, 0].tolist()
