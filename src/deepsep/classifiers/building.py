"""Build a method by its name, with its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from deepsep.classifiers.catalogue import CATALOGUE, Method, find_method
from deepsep.errors import ParameterError, missing_package


def method(name: str, **settings: Any) -> Any:
    """Build a method by name.

    Parameters
    ----------
    name : str
        One of :func:`methods`.
    **settings
        Settings of the method's class, such as ``random_state``.

    Returns
    -------
    scikit-learn classifier
        It follows the conventions of :class:`deepsep.DeepSep`.

    Raises
    ------
    ParameterError
        If there is no such method, or it has no such setting.
    ImportError
        If it needs a package that is not installed.

    Examples
    --------
    >>> from deepsep import method
    >>> X = [[0.0, 1.0], [0.1, 0.8], [0.2, 0.9], [3.0, 0.2], [2.9, 0.1], [2.8, 0.3]]
    >>> y = ["low", "low", None, "high", "high", None]
    >>> method("label-spreading").fit(X, y).transduction_.tolist()
    ['low', 'low', 'low', 'high', 'high', 'high']
    """
    record = find_method(name)
    if not record.is_installed:
        raise missing_package(f"the method {name!r}", record.classifier.partition(":")[0])
    build = getattr(import_module(record.home), record.class_name)
    if record.classifier:
        return _build_supervised(record, build, settings)
    _check_settings(name, settings, build._get_param_names())
    return build(**settings)


def classifier_named(name: str) -> Any:
    """Return the unfitted classifier that a supervised method wraps, with the method's settings."""
    record = find_method(name)
    if not record.classifier:
        known = ", ".join(key for key, other in CATALOGUE.items() if other.classifier and not other.uses_unlabeled)
        raise ParameterError(f"estimator={name!r} does not learn from labelled rows alone; pass one of {known}.")
    if not record.is_installed:
        raise missing_package(f"the method {name!r}", record.classifier.partition(":")[0])
    module, _, class_name = record.classifier.partition(":")
    make = getattr(import_module(module), class_name)
    if "estimator" in record.settings:  # a classifier around another one
        inner, _, inner_class = str(record.settings["estimator"]).partition(":")
        return make(estimator=getattr(import_module(inner), inner_class)(max_iter=1000))
    return make(**record.settings)


def shipped_method(name: str, settings: Mapping[str, Any], seed: int) -> Any:
    """Build a method as ``deepsep fit`` does: calibrated, with probabilities, and with a seed unless it has one."""
    estimator = method(name, **{**find_method(name).shipped, **settings})
    own = estimator.get_params(deep=False)
    if "random_state" in own and "random_state" not in settings:
        estimator.set_params(random_state=seed)
    if own.get("probability", "") is None:
        raise ParameterError(f"{name}: probability=None, but its probabilities are needed. Leave this setting out.")
    return estimator


def setting_names(name: str) -> list[str]:
    """Return the names of a method's settings, as :func:`method` takes them."""
    estimator = method(name)
    own = list(estimator.get_params(deep=False))
    if not find_method(name).classifier:
        return own
    return ["standardize", "random_state", *(key for key in estimator.estimator.get_params() if key not in own)]


def _build_supervised(record: Method, build: Any, settings: dict[str, Any]) -> Any:
    """Wrap a classifier; ``standardize`` and ``random_state`` are the wrapper's settings, all others its own."""
    classifier = classifier_named(record.name)
    if isinstance(settings.get("estimator"), str):
        settings = {**settings, "estimator": classifier_named(settings["estimator"])}
    own = {key: settings[key] for key in ("standardize", "random_state") if key in settings}
    known = [key for key in classifier.get_params() if key != "random_state"]
    _check_settings(record.name, settings, ["standardize", "random_state", *known])
    classifier.set_params(**{key: value for key, value in settings.items() if key not in own})
    return build(classifier, **({"standardize": record.standardize, "method_name": record.name} | own))


def _check_settings(name: str, settings: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise ParameterError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}.")
