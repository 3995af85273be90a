"""``deepsep explain``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepsep.cli.command import command
from deepsep.cli.console import Console
from deepsep.cli.options import ModelFolder, Seed, TrainingOptions
from deepsep.errors import DataError, ParameterError

if TYPE_CHECKING:
    from deepsep.model.training_table import Training


@command(without=("id", "drop", "labels_drawn"))
def explain(model: ModelFolder, training: TrainingOptions, seed: Seed = 0, *, out: Console) -> None:
    """Show which columns drive each class.

    Also describes each class with a few rules. Some rows of the table need labels. By default --label is the column
    that the model learned from. For a committee, a random forest on the same labels shows which columns matter.

    Example: deepsep explain model customers.csv
    """
    from deepsep.classifiers.committee.committee import Committee
    from deepsep.cli.opening import open_classifier
    from deepsep.report.explanation import explain as explain_model
    from deepsep.report.explanation import explanation_text

    fitted = open_classifier(model, "explain")
    data = _read(out, fitted, training)
    X = _same_columns(fitted, data.X)
    _same_classes(fitted, data)
    fits = "five fits of a random forest" if isinstance(fitted[-1], Committee) else "five fits"
    out.note(f"Shuffling each of {X.shape[1]} columns on held-out labelled rows: {fits} ...")
    with out.steps("Explaining") as on_step:
        explanation = explain_model(fitted, X, data.labels, seed=seed, sample_weight=data.weight, on_step=on_step)
    out.result(explanation_text(explanation).rstrip(), explanation)


def _read(out: Console, model: Any, training: TrainingOptions) -> Training:
    """Read a table as that of the fit was read, with the column that the model learned from as its labels."""
    from deepsep.model.reading_again import open_again
    from deepsep.model.training_table import read_training
    from deepsep.scoring.who_scores import label_of

    source, reading = open_again(model, training.source, training.reading.given)
    asked, origin = replace(training.asked, reading=reading), getattr(model, "origin_", None)
    if asked.label is None and not asked.labels:
        asked = replace(asked, label=label_of(model))
    if origin is not None and not asked.text:
        asked = replace(asked, text=origin.text)
    return read_training(asked, source=source, note=out.note)


def _same_columns(model: Any, X: Any) -> Any:
    """Return the columns of the training table, or raise an error that lists the differences."""
    from deepsep.core.model_parts import is_pipeline

    if not is_pipeline(model):
        raise ParameterError(
            "the model takes a matrix, not a table. Explain it from Python with deepsep.report.explain."
        )
    model[0].transform(X.head())
    return X[[name for name in model[0].feature_names_in_ if name in X.columns]]


def _same_classes(model: Any, data: Any) -> None:
    given, known = data.labels.classes.tolist(), model.classes_.tolist()
    if set(given) != set(known):
        raise DataError(
            f"the labels in {data.label!r} are {given[:10]}, but the model's classes are {known[:10]}. Pass the "
            "table that it was fitted to, or another with labels of the same classes."
        )
