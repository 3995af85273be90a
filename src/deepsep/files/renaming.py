"""Rename the classes of a saved model in its manifest; its arrays, and so its numbers, stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.errors import DataError, ModelFileError
from deepsep.files.folder import read_checked, sha256
from deepsep.files.manifest import MANIFEST, canonical, read_manifest
from deepsep.files.plain import pack, unpack

Array = NDArray[Any]

SEGMENTS = "segment_names_"  # the names in the state of SurveySegments


def names_in(manifest: Mapping[str, Any]) -> Array:
    """Return the classes, or the names of the segments, of a saved model."""
    section = manifest["estimator"]
    return np.asarray(unpack(section["state"].get(SEGMENTS) or section["classes_"]))


def new_names(known: Array, names: Mapping[str, str]) -> dict[Any, str]:
    """Return the new name of every class, or raise if they make no sense.

    Parameters
    ----------
    known : array (c,)
        The classes.
    names : dict {str: str}
        Old name, as text, to new name; the others stay.

    Examples
    --------
    >>> new_names(np.array(["a", "b"]), {"a": "b", "b": "a"})
    {'a': 'b', 'b': 'a'}
    """
    as_text = {str(name): name for name in known.tolist()}
    unknown = [name for name in names if name not in as_text]
    if unknown:
        raise DataError(
            f"there is no {unknown[0]!r} among {', '.join(map(repr, list(as_text)[:20]))}. Check the names."
        )
    result = {name: names.get(text, text).strip() for text, name in as_text.items()}
    for name, new in result.items():
        if not new:
            raise DataError(f"the new name of {name!r} is empty. Write some text.")
        others = [other for other, same in result.items() if same == new and other != name]
        if others:
            raise DataError(f"{name!r} and {others[0]!r} would both be called {new!r}. Give each its own name.")
    return result


def renamed_model(root: Path, names: Mapping[Any, str]) -> dict[str, bytes]:
    """Return the files of a saved model with new names for all its classes, or for its segments.

    Arrays are copied byte for byte. The classes keep their order, so that the columns of probabilities do as well; they
    are text from then on.
    """
    manifest = read_manifest(root)
    files = {name: read_checked(root, name, entry) for name, entry in manifest["files"].items()}
    section = manifest["estimator"]
    if SEGMENTS in section["state"]:
        section["state"][SEGMENTS] = _renamed(section["state"][SEGMENTS], names)
        given = unpack(section["settings"]["names"])
        if given is not None:
            pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
            section["settings"]["names"] = pack({k: names.get(name, name) for k, name in pairs})
    else:
        _rename_section(section, unpack(section["classes_"]).tolist(), names)
    manifest["sha256"] = sha256(canonical({key: value for key, value in manifest.items() if key != "sha256"}))
    return {**files, MANIFEST: canonical(manifest)}


def _rename_section(section: dict[str, Any], classes: list[Any], names: Mapping[Any, str]) -> None:
    """Rename the classes of an estimator, those in its known shares, and those of its parts."""
    if unpack(section["classes_"]).tolist() != classes:
        raise ModelFileError("a part of the model has other classes. Save the model again.")
    section["classes_"] = _renamed(section["classes_"], names)
    priors = unpack(section["settings"].get("priors"))
    if priors is not None:
        section["settings"]["priors"] = pack({names[name]: share for name, share in priors.items()})
    for key, value in section["state"].items():
        parts = unpack(value)
        if _rename_parts(parts, classes, names):
            section["state"][key] = pack(parts)


def _rename_parts(value: Any, classes: list[Any], names: Mapping[Any, str]) -> bool:
    """Rename the classes of all estimators in a value; return whether there are any."""
    if isinstance(value, list):
        return sum(_rename_parts(part, classes, names) for part in value) > 0
    if not isinstance(value, dict):
        return False
    if {"kind", "settings", "state", "classes_"} <= value.keys():
        _rename_section(value, classes, names)
        return True
    return sum(_rename_parts(part, classes, names) for part in value.values()) > 0


def _renamed(packed: Any, names: Mapping[Any, str]) -> Any:
    labels = unpack(packed)
    new = [names[name] for name in labels.tolist()]
    return pack(np.array(new, dtype=object if labels.dtype == object else str))
