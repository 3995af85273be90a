"""Rename the classes of a fitted model without changing its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from deepsep.classifiers.restoring import put_together
from deepsep.core.arrays import Array
from deepsep.core.model_parts import is_pipeline
from deepsep.errors import DataError
from deepsep.files.plain import pack, unpack
from deepsep.files.saving import take_apart


def rename_classes(model: Any, names: Mapping[Any, str]) -> Any:
    """Return a copy of a fitted model with renamed classes, also in its members and its student.

    Probabilities stay the same to the last bit, and their columns keep their order: ``classes_`` is no longer sorted.
    All names are text in the new model, which holds only what a saved model holds.

    Parameters
    ----------
    model : estimator of deepsep, or Pipeline that ends in one
        A fitted model; it is not changed.
    names : dict {old name: new name}
        Old names may be given as text. Other classes keep their names.

    Raises
    ------
    DataError
        If a class does not exist, a new name is empty, or two classes would get the same name.

    Examples
    --------
    >>> from deepsep import TSVM
    >>> from deepsep.models import rename_classes
    >>> model = TSVM().fit([[0.0], [0.1], [3.0], [2.9]], ["a", None, "b", None])
    >>> rename_classes(model, {"a": "low", "b": "high"}).predict([[0.2], [2.8]]).tolist()
    ['low', 'high']
    """
    if is_pipeline(model):
        twin, (name, last) = copy(model), model.steps[-1]
        twin.steps = [*model.steps[:-1], (name, rename_classes(last, names))]
        return twin
    section, arrays = take_apart(model)
    _rename(section, new_names(model.classes_, names))
    return put_together(section, arrays, encoder=getattr(model, "encoder", None))


def new_names(known: Array, names: Mapping[Any, str]) -> dict[Any, str]:
    """Return the new name of every class, or raise if names are unknown, empty or repeated.

    Examples
    --------
    >>> new_names(np.array(["a", "b"]), {"a": "b", "b": "a"})
    {'a': 'b', 'b': 'a'}
    """
    given, as_text = {str(old): new for old, new in names.items()}, {str(name): name for name in known.tolist()}
    unknown = [name for name in given if name not in as_text]
    if unknown:
        raise DataError(
            f"there is no {unknown[0]!r} among {', '.join(map(repr, list(as_text)[:20]))}. Check the names."
        )
    result = {name: given.get(text, text).strip() for text, name in as_text.items()}
    for name, new in result.items():
        if not new:
            raise DataError(f"the new name of {name!r} is empty. Write some text.")
        others = [other for other, same in result.items() if same == new and other != name]
        if others:
            raise DataError(f"{name!r} and {others[0]!r} would both be called {new!r}. Give each its own name.")
    return result


def _rename(value: Any, names: Mapping[Any, str]) -> bool:
    """Rename the classes in the saved parts of all estimators; return whether there are any."""
    if isinstance(value, list):
        return sum([_rename(part, names) for part in value]) > 0
    if not isinstance(value, dict):
        return False
    if not {"kind", "settings", "state", "classes_"} <= value.keys():
        return sum([_rename(part, names) for part in value.values()]) > 0
    labels = unpack(value["classes_"])
    new = [names[name] for name in labels.tolist()]
    value["classes_"] = pack(np.array(new, dtype=object if labels.dtype == object else str))
    priors = unpack(value["settings"].get("priors"))
    if priors is not None:
        value["settings"]["priors"] = pack({names[name]: share for name, share in priors.items()})
    for key, packed in value["state"].items():
        parts = unpack(packed)
        if _rename(parts, names):
            value["state"][key] = pack(parts)
    return True
