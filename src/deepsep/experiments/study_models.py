"""The models of the paper's Table 1: their names, and the fits that yield them."""

from __future__ import annotations

from collections.abc import Iterable
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


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of models in the order of the paper's table; others follow alphabetically."""
    ranks = {name: i for i, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))


def build(name: str, **settings: Any) -> Any:
    """Return an estimator: "deepsep" with the published settings, every other method with its defaults."""
    model = method("deepsep" if name == DEFAULTS else name, **settings)  # raises if there is no such setting
    return DeepSep.as_published(**settings) if name == "deepsep" else model


def changed_defaults() -> dict[str, Any]:
    """Return the defaults of DeepSep that differ from the published settings."""
    defaults, published = DeepSep().get_params(), DeepSep.as_published().get_params()
    return {name: value for name, value in defaults.items() if value != published[name]}


def models_of(
    name: str, pipeline: Any, train: Any, y: Array, test: Any
) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """Return the probabilities of every model that a fit yields, and those of DeepSep after every round.

    Parameters
    ----------
    name : str
        Name of the method.
    pipeline : Pipeline
        Fitted; its last step is the method.
    train, y
        The training table and its class codes, -1 for unlabelled rows.
    test : table
        The rows to predict.
    """
    if name != "deepsep":
        title = DEFAULTS_NAME if name == DEFAULTS else RAW if name == "tsvm" else find_method(name).title
        return {title: pipeline.predict_proba(test)}, []
    model, rows = pipeline[-1], pipeline[:-1].transform(test)
    networks = all_rounds(model, rows)
    averages = moving_averages(networks, model.decay)
    models = {
        FIRST_EMBEDDING: _first_tsvm(model, pipeline[:-1].transform(train), y, rows),
        INITIAL: networks[0],
        LAST: networks[-1],
        ENSEMBLE: pipeline.predict_proba(test),
    }
    return models, [{"network": p, "average": q} for p, q in zip(networks, averages, strict=True)]


def _first_tsvm(model: DeepSep, train: Any, y: Array, test: Any) -> Array:
    """Return the probabilities of TSVMs in the embedding of the initial network, with DeepSep's own settings."""
    tsvm = TSVM(
        C=model.C,
        C_star=None if model.C_star == "pool" else model.C_star,
        s=model.s,
        balance=bool(model.balance),
        priors=model.priors,
        n_unlabeled=model.n_unlabeled,
        random_state=model.random_state,
    )
    tsvm.fit(model.round_embedding(train, 0), y)
    p: Array = tsvm.predict_proba(model.round_embedding(test, 0))
    return p
