"""The models of the paper's table: which fit each comes from, and what they are called."""

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
DEFAULTS, DEFAULTS_NAME = "deepsep-defaults", "DeepSep (defaults)"  # not the paper's, but this library's
FIRST_EMBEDDING, INITIAL, LAST, ENSEMBLE = "TSVM (first embedding)", "Initial NN", "DeepSep-NN", "DeepSep-Ensemble"
METHODS = tuple(name for name, record in CATALOGUE.items() if record.in_study)
ORDER = (
    *(find_method("lightgbm").title, find_method("lightgbm-few-labels").title, RAW, FIRST_EMBEDDING),
    *(find_method("mean-teacher").title, INITIAL, LAST, ENSEMBLE, DEFAULTS_NAME),
)


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of models as the paper's table has them; others follow, by the alphabet."""
    ranks = {name: i for i, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (ranks.get(name, len(ranks)), name))


def build(name: str, **settings: Any) -> Any:
    """Return an estimator: DeepSep with the published settings, or its defaults; every other method with its own."""
    model = method("deepsep" if name == DEFAULTS else name, **settings)  # raises if there is no such setting
    return DeepSep.as_published(**settings) if name == "deepsep" else model


def departures() -> dict[str, Any]:
    """Return the defaults of DeepSep that are not the published settings."""
    own, published = DeepSep().get_params(), DeepSep.as_published().get_params()
    return {name: value for name, value in own.items() if value != published[name]}


def models_of(
    name: str, pipeline: Any, train: Any, y: Array, test: Any
) -> tuple[dict[str, Array], list[dict[str, Array]]]:
    """Return the probabilities of every model that a fit holds, and those of DeepSep's rounds (from the initial one).

    Parameters
    ----------
    name : str
        Of the method.
    pipeline : Pipeline
        Fitted; its last step is the method.
    train, y
        What it was fitted to: a table, and codes of which -1 marks the unlabelled rows.
    test : table
        The rows to classify.
    """
    if name != "deepsep":
        shown = DEFAULTS_NAME if name == DEFAULTS else RAW if name == "tsvm" else find_method(name).title
        return {shown: pipeline.predict_proba(test)}, []
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
    """Return what TSVMs say in the embedding of the initial network, from as many unlabelled rows as a round takes."""
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
