"""The models of the paper's Table 1: their names, the fits that yield them, and the tuning of their settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from deepsep.classifiers.building import method
from deepsep.classifiers.catalogue import CATALOGUE, Range, find_method
from deepsep.classifiers.deep_separation.deepsep import DeepSep
from deepsep.classifiers.tsvm.tsvm import TSVM
from deepsep.core.arrays import Array
from deepsep.core.probability import moving_averages
from deepsep.errors import missing_package
from deepsep.evaluation.intervals import log_loss
from deepsep.evaluation.population import all_rounds

ALL_ROWS, FEW_ROWS = "TSVM (raw features, all rows)", "TSVM (raw features, 250 rows)"
LINEAR_SVM, FIRST_EMBEDDING = "linear SVM (raw features)", "TSVM (first embedding)"
INITIAL_NN, LAST_NN, ENSEMBLE_NN = "Initial NN", "DeepSep-NN", "DeepSep-Ensemble"
DEFAULTS_NAME = "DeepSep (defaults)"  # of this library
MODEL_ORDER = (
    *(find_method("lightgbm").title, find_method("lightgbm-few-labels").title),
    *(LINEAR_SVM, FEW_ROWS, ALL_ROWS, FIRST_EMBEDDING),
    *(find_method("mean-teacher").title, INITIAL_NN, LAST_NN, ENSEMBLE_NN, DEFAULTS_NAME),
)

# The paper's TSVM. The paper does not give the number of unlabelled rows: the study has a row with all of them, and one
# with 250, as in DeepSep.
TSVM_AS_PUBLISHED: dict[str, Any] = {
    "C": 0.1,
    "C_star": None,
    "s": 0.0,
    "kernel": "linear",
    "balance": True,
    "priors": None,
    "n_unlabeled": None,
    "probability": "platt",
    "algorithm": "cccp",
    "max_iter": 1000,
    "tol": 1e-6,
}


@dataclass(frozen=True)
class StudyMethod:
    """A row of the study that is a method of the catalogue with other settings."""

    method: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)


# Without unlabelled rows and balancing, the TSVM is the linear SVM from which it starts, one class against the rest.
STUDY_METHODS: Mapping[str, StudyMethod] = {
    "tsvm": StudyMethod("tsvm", ALL_ROWS, TSVM_AS_PUBLISHED),
    "tsvm-250": StudyMethod("tsvm", FEW_ROWS, TSVM_AS_PUBLISHED | {"n_unlabeled": 250}),
    "linear-svm": StudyMethod("tsvm", LINEAR_SVM, TSVM_AS_PUBLISHED | {"C_star": 0.0, "balance": False}),
    "deepsep-defaults": StudyMethod("deepsep", DEFAULTS_NAME),
}
DEFAULT_METHODS = (*(name for name, record in CATALOGUE.items() if record.in_study), "tsvm-250", "linear-svm")


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of models in the order of the paper's table; others follow alphabetically."""
    ranks = {name: i for i, name in enumerate(MODEL_ORDER)}
    return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))


def build_study_model(name: str, **settings: Any) -> Any:
    """Return an estimator: "deepsep" and "tsvm" with the published settings, every other method with its defaults.

    The names are those of the catalogue, and "tsvm-250", with 250 unlabelled rows as in DeepSep, "linear-svm", with
    none, and "deepsep-defaults", with the defaults of this library.
    """
    if name in STUDY_METHODS:
        settings = {**STUDY_METHODS[name].settings, **settings}
    model = method(method_of(name), **settings)  # raises if there is no such setting
    return DeepSep.as_published(**settings) if name == "deepsep" else model


def method_of(name: str) -> str:
    """Return the catalogue's name of a method of the study."""
    return STUDY_METHODS[name].method if name in STUDY_METHODS else name


def parameters(name: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return every parameter of a method as text."""
    values = build_study_model(name, **settings).get_params()
    return {key: repr(values[key]) for key in sorted(values) if not hasattr(values[key], "get_params")}


def changed_defaults() -> dict[str, Any]:
    """Return the defaults of DeepSep that differ from the published settings."""
    defaults, published = DeepSep().get_params(), DeepSep.as_published().get_params()
    return {name: value for name, value in defaults.items() if value != published[name]}


def models_of(name: str, model: Any, X: Any, y: Array, X_test: Any) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """Return the probabilities of every model that a fit yields, and those of DeepSep after every round."""
    if name != "deepsep":
        title = STUDY_METHODS[name].title if name in STUDY_METHODS else find_method(name).title
        return {title: model.predict_proba(X_test)}, []
    networks = all_rounds(model, X_test)
    averages = moving_averages(networks, model.decay)
    models = {
        FIRST_EMBEDDING: _first_tsvm(model, X, y, X_test),
        INITIAL_NN: networks[0],
        LAST_NN: networks[-1],
        ENSEMBLE_NN: model.predict_proba(X_test),
    }
    return models, [{"network": p, "average": q} for p, q in zip(networks, averages, strict=True)]


def _first_tsvm(model: DeepSep, X: Any, y: Array, X_test: Any) -> Array:
    """Return the probabilities of TSVMs in the embedding of the initial network, with DeepSep's own settings."""
    tsvm = TSVM(
        C=model.C,
        C_star=model.C_star,
        s=model.s,
        algorithm=model.algorithm,
        balance=bool(model.balance),
        priors=model.priors,
        n_unlabeled=model.n_unlabeled,
        random_state=model.random_state,
    )
    tsvm.fit(model.round_embedding(X, 0), y)
    p: Array = tsvm.predict_proba(model.round_embedding(X_test, 0))
    return p


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
