"""``deepsep explain``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from deepsep.cli.console import console
from deepsep.cli.options import (
    Debug,
    Json,
    ModelFolder,
    Quiet,
    Seed,
    TrainingOptions,
    takes_options,
)
from deepsep.errors import DataError, ParameterError


@takes_options(without=("id", "drop", "labels_drawn"))
def explain(
    model: ModelFolder,
    training: TrainingOptions,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show which columns drive each class.

    Also describes each class with a few rules. Some rows of the table need labels. By default --label is the column
    that the model learned from. For a committee, a random forest on the same labels shows which columns matter.

    Example: deepsep explain model customers.csv
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        from deepsep.classifiers.committee.committee import Committee
        from deepsep.cli.opening import open_classifier
        from deepsep.model.training_table import read_training
        from deepsep.report.explanation import explain as explain_model
        from deepsep.report.explanation import explanation_text

        fitted = open_classifier(model, "explain")
        if training.label is None and not training.labels:
            training = replace(training, label=_label_of(model))
        data = read_training(training.asked, note=out.note)
        X = _same_columns(fitted, data.X)
        _same_classes(fitted, data)
        fits = "five fits of a random forest" if isinstance(fitted[-1], Committee) else "five fits"
        out.note(f"Shuffling each of {X.shape[1]} columns on held-out labelled rows: {fits} ...")
        with out.steps("Explaining") as on_step:
            explanation = explain_model(fitted, X, data.labels, seed=seed, sample_weight=data.weight, on_step=on_step)
        out.result(explanation_text(explanation).rstrip(), explanation)


def _label_of(model: Path) -> str:
    """Return the name of the label column from the model's report."""
    import json

    from deepsep.model.model_folder import SUMMARY_FILE

    try:
        return str(json.loads((model / SUMMARY_FILE).read_text(encoding="utf-8"))["asked"]["label"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ParameterError("which column holds the labels? Name it with --label.") from None


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
