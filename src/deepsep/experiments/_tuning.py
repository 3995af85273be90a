"""Tuning on the validation rows alone, with the same small budget for every method."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepsep._metrics import log_loss

Array = NDArray[Any]

TIE = 1e-4  # what one unit of log loss weighs against accuracy: it decides between equals


class Range(NamedTuple):
    """Where the values of a setting are sought."""

    low: float
    high: float
    whole: bool = False
    log: bool = True


# Setting → range. A method is tuned in those that it has; what is named estimator__ belongs to the supervised ones.
RANGES: Mapping[str, Range] = {
    "learning_rate": Range(3e-4, 1e-2),
    "dropout": Range(0.0, 0.7, log=False),
    "C": Range(1e-2, 10),
    "consistency": Range(0.3, 100),
    "entropy": Range(0.03, 3),
    "k": Range(3, 50, whole=True),
    "alpha": Range(0.3, 0.995, log=False),
    "estimator__learning_rate": Range(1e-2, 0.3),
    "estimator__num_leaves": Range(3, 63, whole=True),
    "estimator__min_child_samples": Range(1, 30, whole=True),
    "estimator__max_features": Range(0.05, 1.0),
    "estimator__C": Range(1e-2, 100),
    "estimator__n_neighbors": Range(1, 30, whole=True),
    "estimator__max_depth": Range(1, 10, whole=True),
}


def tune(
    name: str,
    settings: Mapping[str, Any],
    train: Any,
    y: Array,
    held: tuple[Any, Array],
    *,
    trials: int,
    seed: int,
) -> dict[str, Any]:
    """Return the settings that are most accurate on the validation rows; the method's own are the first trial.

    Parameters
    ----------
    name, settings
        The method, and what is not to be tuned.
    train, y
        The rows that the method is given: a table, and codes of which -1 marks the unlabelled rows.
    held : (table, codes)
        The validation rows.
    trials, seed : int
        Number of fits, and the seed of the search and of every fit.
    """
    from deepsep.experiments._models import build
    from deepsep.table import for_table

    try:
        optuna: Any = import_module("optuna")
    except ModuleNotFoundError as error:
        raise ImportError(
            'tuning needs optuna. Install it with: pip install "deepsep[tune]", or use the settings as they are '
            "(--no-tune)."
        ) from error

    own = build(name, **settings).get_params()
    ranges = {
        setting: r
        for setting, r in RANGES.items()
        if setting in own and setting not in settings and setting.partition("__")[2] not in settings
    }
    if not ranges:
        return {}

    def value(trial: Any, setting: str, r: Range) -> Any:
        if r.whole:
            return trial.suggest_int(setting, int(r.low), int(r.high), log=r.log)
        return trial.suggest_float(setting, r.low, r.high, log=r.log)

    def objective(trial: Any) -> float:
        changes = {setting: value(trial, setting, r) for setting, r in ranges.items()}
        model = build(name, random_state=seed, **settings).set_params(**changes)
        p = for_table(model).fit(train, y).predict_proba(held[0])
        return float((p.argmax(axis=1) == held[1]).mean() - TIE * log_loss(p, held[1]))

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial({setting: _inside(own[setting], r) for setting, r in ranges.items()})
    study.optimize(objective, n_trials=trials)
    return {setting.partition("__")[2] or setting: best for setting, best in study.best_params.items()}


def _inside(value: Any, r: Range) -> float | int:
    """Return a setting's own value, moved into its range; text and None, which mean a rule, become its middle."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        value = np.sqrt(r.low * r.high) if r.log else (r.low + r.high) / 2
    moved = min(max(float(value), r.low), r.high)
    return round(moved) if r.whole else moved
