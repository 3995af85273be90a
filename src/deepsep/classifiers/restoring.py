"""Rebuild fitted estimators from the parts that a saved model holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from deepsep.classifiers.catalogue import CATALOGUE
from deepsep.errors import ModelFileError
from deepsep.files.foreign import is_described, new_classifier
from deepsep.files.plain import unpack
from deepsep.files.saving import COMMON_ATTRIBUTES


def put_together(
    section: Mapping[str, Any], arrays: dict[str, Any], *, encoder: Any = None, others: Iterable[type] = ()
) -> Any:
    """Rebuild an estimator from the result of ``take_apart``, with ``_from_parts(params, state, arrays)`` of its class.

    The state passed to it also has ``classes_``, ``n_features_in_``, ``feature_names_in_`` and ``data_fingerprint_``,
    if the estimator had them, and the settings include the encoder. ``others`` are classes that are not methods.
    """
    kind = _class_of(section["kind"], {other.__name__: other for other in others})
    settings = {name: _restore_setting(name, value, encoder) for name, value in section["settings"].items()}
    state = {name: unpack(section[name]) for name in COMMON_ATTRIBUTES if name in section}
    state |= {name: unpack(value) for name, value in section["state"].items()}
    return kind._from_parts(settings, state, arrays)


def _class_of(kind: Any, others: Mapping[str, type]) -> Any:
    homes = {record.class_name: record.home for record in CATALOGUE.values()}
    if kind in others:
        return others[kind]
    if kind not in homes:
        known = ", ".join([*homes, *others])
        raise ModelFileError(f"the model has the unknown type {kind!r}; the known types are {known}.")
    return getattr(import_module(homes[kind]), kind)


def _restore_setting(name: str, value: Any, encoder: Any) -> Any:
    if name == "encoder" and needs_code(value):
        return encoder
    return new_classifier(value) if is_described(value) else unpack(value)


def needs_code(value: Any) -> bool:
    """Return whether a setting is the user's own encoder, of which a model holds only the weights."""
    return isinstance(value, dict) and "__code__" in value
