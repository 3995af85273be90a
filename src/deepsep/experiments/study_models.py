"""The models of the paper's Table 1: their names, and the fits that yield them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from deepsep.classifiers.catalogue import CATALOGUE, find_method, method
from deepsep.classifiers.deepsep import DeepSep
from deepsep.classifiers.tsvm import TSVM
from deepsep.core.probability import moving_averages
from deepsep.evaluation.population import all_rounds

Array = NDArray[Any]

RAW = "TSVM (raw features)"
DEFAULTS, DEFAULTS_NAME = "deepsep-defaults", "DeepSep (defaults)"  # with the defaults of this library
FIRST_EMBEDDING, INITIAL, LAST, ENSEMBLE = "TSVM (first embedding)", "Initial NN", "DeepSep-NN", "DeepSep-Ensemble"
METHODS = tuple(name for name, record in CATALOGUE.items() if record.in_study)
ORDER = (
    *(find_method("lightgbm").title, find_method("lightgbm-few-labels").title, RAW, FIRST_EMBEDDING),
    *(find_method("mean-teacher").title, INITIAL, LAST, ENSEMBLE, DEFAULTS_NAME),
)


# The paper's TSVM. It does not say on how many rows: all are used, the reading that is better for the TSVM.
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


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of models in the order of the paper's table; others follow alphabetically."""
    ranks = {name: i for i, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))


def build(name: str, **settings: Any) -> Any:
    """Return an estimator: "deepsep" and "tsvm" with the published settings, every other method with its defaults."""
    if name == "tsvm":
        settings = TSVM_AS_PUBLISHED | settings
    model = method("deepsep" if name == DEFAULTS else name, **settings)  # raises if there is no such setting
    return DeepSep.as_published(**settings) if name == "deepsep" else model


def parameters(name: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return every parameter of a method as text."""
    values = build(name, **settings).get_params()
    return {key: repr(values[key]) for key in sorted(values) if not hasattr(values[key], "get_params")}


def changed_defaults() -> dict[str, Any]:
    """Return the defaults of DeepSep that differ from the published settings."""
    defaults, published = DeepSep().get_params(), DeepSep.as_published().get_params()
    return {name: value for name, value in defaults.items() if value != published[name]}


def models_of(name: str, model: Any, X: Any, y: Array, X_test: Any) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """Return the probabilities of every model that a fit yields, and those of DeepSep after every round.

    Parameters
    ----------
    name : str
        Name of the method.
    model : estimator
        Fitted.
    X, y
        The training rows and their class codes, -1 for unlabelled rows.
    X_test
        The rows to predict.
    """
    if name != "deepsep":
        title = DEFAULTS_NAME if name == DEFAULTS else RAW if name == "tsvm" else find_method(name).title
        return {title: model.predict_proba(X_test)}, []
    networks = all_rounds(model, X_test)
    averages = moving_averages(networks, model.decay)
    models = {
        FIRST_EMBEDDING: _first_tsvm(model, X, y, X_test),
        INITIAL: networks[0],
        LAST: networks[-1],
        ENSEMBLE: model.predict_proba(X_test),
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
