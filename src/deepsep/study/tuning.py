"""Tune a method on the validation rows, with the same number of fits for every method."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.classifiers.catalogue import find_method
from deepsep.classifiers.record import Range
from deepsep.errors import missing_package
from deepsep.evaluation.metrics import log_loss
from deepsep.study.study_models import build_study_model, method_of

Array = NDArray[Any]


def is_installed() -> bool:
    """Return whether Optuna, which does the tuning, is installed."""
    return find_spec("optuna") is not None


def tune(
    name: str,
    settings: Mapping[str, Any],  # that are fixed
    X: Any,
    y: Array,  # codes of the classes, -1 for unlabelled rows
    validation: tuple[Any, Array],  # rows and their classes
    *,
    trials: int,
    seed: int,
) -> dict[str, Any]:
    """Return the settings that are most accurate on the validation rows; the first trial is the method's defaults."""
    if not is_installed():
        raise missing_package("tuning", "optuna")
    optuna: Any = import_module("optuna")
    record = find_method(method_of(name))
    defaults = build_study_model(name, **settings).get_params()
    inner = "estimator__" if record.classifier else ""  # a supervised method wraps the classifier to tune
    ranges = {f"{inner}{setting}": r for setting, r in record.tuning.items() if setting not in settings}
    if not ranges:
        return {}

    def value(trial: Any, setting: str, r: Range) -> Any:
        if r.whole:
            return trial.suggest_int(setting, int(r.low), int(r.high), log=r.log)
        return trial.suggest_float(setting, r.low, r.high, log=r.log)

    def objective(trial: Any) -> float:
        changes = {setting: value(trial, setting, r) for setting, r in ranges.items()}
        model = build_study_model(name, random_state=seed, **settings).set_params(**changes)
        p = model.fit(X, y).predict_proba(validation[0])
        # The log loss decides between equally accurate settings.
        return float((p.argmax(axis=1) == validation[1]).mean() - 1e-4 * log_loss(p, validation[1]))

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial({setting: _inside(defaults[setting], r) for setting, r in ranges.items()})
    study.optimize(objective, n_trials=trials)
    return {setting.partition("__")[2] or setting: best for setting, best in study.best_params.items()}


def _inside(value: Any, r: Range) -> float | int:
    """Return a default clipped to its range; the middle of the range for a default that is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        value = np.sqrt(r.low * r.high) if r.log else (r.low + r.high) / 2
    clipped = min(max(float(value), r.low), r.high)
    return round(clipped) if r.whole else clipped
