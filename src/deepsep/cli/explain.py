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
    takes_training_options,
)
from deepsep.errors import DataError, ParameterError


@takes_training_options(without=("id", "drop"))
def explain(
    model: ModelFolder,
    training: TrainingOptions,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say which columns drive each class.

    And describe each class with a few rules. The table needs labels on some rows. Without --label, the column that the
    model learned from.

    Example: deepsep explain model customers.csv
    """
    with console(as_json=json, quiet=quiet, debug=debug) as out:
        from deepsep.cli.training import read_training
        from deepsep.models import load
        from deepsep.report.explanation import as_text
        from deepsep.report.explanation import explain as find_reasons

        fitted = load(model)
        if training.label is None and training.labels is None:
            training = replace(training, label=_label_of(model))
        data = read_training(out, training)
        X = _same_columns(fitted, data.X)
        _same_classes(fitted, data)
        out.note(f"Shuffling each of {X.shape[1]} columns on labelled rows that the model has not seen: five fits ...")
        with out.steps("Explaining") as on_step:
            found = find_reasons(fitted, X, data.labels, seed=seed, sample_weight=data.weight, on_step=on_step)
        out.result(as_text(found).rstrip(), found)


def _label_of(model: Path) -> str:
    """Return the column of labels that the report beside the model names."""
    import json

    from deepsep.cli.outputs import SUMMARY

    try:
        return str(json.loads((model / SUMMARY).read_text(encoding="utf-8"))["asked"]["label"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ParameterError("which column holds the labels? Name it with --label.") from None


def _same_columns(model: Any, X: Any) -> Any:
    """Return the columns of the training table, or raise with the differences."""
    from sklearn.pipeline import Pipeline

    if not isinstance(model, Pipeline):
        raise ParameterError(
            "the model takes a matrix, not a table. Explain it from Python with deepsep.report.explain."
        )
    model[0].transform(X.head())
    return X[[name for name in model[0].feature_names_in_ if name in X.columns]]


def _same_classes(model: Any, data: Any) -> None:
    given, known = data.labels.classes.tolist(), model.classes_.tolist()
    if given != known:
        raise DataError(
            f"the labels in {data.label!r} are {given[:10]}, and the model knows {known[:10]}. Pass the table that it "
            "was fitted to, or another one with labels of the same classes."
        )
