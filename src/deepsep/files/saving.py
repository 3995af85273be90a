"""Save fitted models to folders that are safe to open; :mod:`deepsep.models` loads them.

A saved model is a folder:

======================  =============================================================================================
manifest.json           versions, columns, classes, settings, fingerprint of the data, and a hash of every other file
arrays.safetensors      weights and everything else that is an array
steps/0.gz, ...         the steps of a pipeline before the last
parts/...               classifiers of other libraries, such as LightGBM's trees
profile.json            the distributions of the training table's columns and of the predictions, if the model has them
======================  =============================================================================================

Nothing in it is a pickle, and opening it never runs code from the folder: arrays are numbers, the manifest has plain
values, and the steps may only contain the scikit-learn and skrub types listed in ``steps.py``; for classifiers of
other libraries, see ``foreign.py``. The hashes reveal damage and careless edits. They are not a signature and do not
prove who wrote the model.
"""

from __future__ import annotations

import os
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any

from safetensors.numpy import save as write_tensors
from sklearn.utils.validation import check_is_fitted

from deepsep.core.model_parts import is_pipeline
from deepsep.drift.profile import dump_profile
from deepsep.errors import ModelFileError
from deepsep.files.atomic import install
from deepsep.files.foreign import describe_classifier, is_classifier
from deepsep.files.manifest import (
    ARRAYS_FILE,
    MANIFEST_FILE,
    MODEL_FORMAT,
    MODEL_FORMAT_VERSION,
    PARTS_FOLDER,
    PROFILE_FILE,
    STEPS_FOLDER,
    canonical,
    check_model_folder,
    sha256,
    versions,
)
from deepsep.files.packed import lay_out
from deepsep.files.plain import pack
from deepsep.files.steps import dump_step

# Files of an earlier model in the folder, to be replaced.
MODEL_FILES = (MANIFEST_FILE, ARRAYS_FILE, STEPS_FOLDER, PARTS_FOLDER, PROFILE_FILE)
COMMON_ATTRIBUTES = ("classes_", "n_features_in_", "feature_names_in_", "data_fingerprint_")  # of every estimator


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a folder.

    The folder is written completely or not at all. An earlier model in it is replaced; other files, such as
    predictions, stay.

    Parameters
    ----------
    model : estimator of deepsep, or Pipeline that ends in one
        A fitted model. The earlier steps of a pipeline may be transformers of scikit-learn and skrub without functions
        of your own.
    path : str or path
        A new or empty folder, or that of a saved model.

    Raises
    ------
    ModelFileError
        If the path holds something else, or the model holds something that only code could restore.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from deepsep import TSVM, load, save
    >>> X = np.array([[0.0, 1.0], [0.1, 0.8], [0.2, 0.9], [3.0, 0.2], [2.9, 0.1], [2.8, 0.3]])
    >>> model = TSVM().fit(X, ["low", "low", None, "high", "high", None])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model")
    ...     again = load(f"{folder}/model")
    >>> again.predict(X).tolist()
    ['low', 'low', 'low', 'high', 'high', 'high']
    """
    target = check_model_folder(path)
    install(model_files(model), target, own=MODEL_FILES)


def model_files(model: Any) -> dict[str, bytes]:
    """Return the files of a saved model: name → content."""
    steps: list[tuple[str, Any]] = model.steps if _has_steps(model) else [("", model)]
    final = steps[-1][1]
    _require_ours(final)
    check_is_fitted(model)
    section, arrays = take_apart(final)
    layout, tensors, parts = lay_out(arrays)
    files = {ARRAYS_FILE: write_tensors(tensors), **{f"{PARTS_FOLDER}/{name}": data for name, data in parts.items()}}
    pipeline = None
    if _has_steps(model):
        origin = getattr(model, "origin_", None)
        options = {name: getattr(model, name) for name in ("verbose", "transform_input")}
        pipeline = {
            "names": [name for name, _ in steps],
            "columns": _pack_or_raise("Pipeline", "feature_names_in_", getattr(model, "feature_names_in_", None)),
            "settings": {name: _pack_or_raise("Pipeline", name, value) for name, value in options.items()},
            "table": asdict(origin) if is_dataclass(origin) and not isinstance(origin, type) else origin,
        }
        for i, (name, step) in enumerate(steps[:-1]):
            files[f"{STEPS_FOLDER}/{i}.gz"] = dump_step(name, step)
    profile = getattr(model, "training_profile_", None)
    if profile is not None and profile.data == getattr(final, "data_fingerprint_", None):
        files[PROFILE_FILE] = dump_profile(profile)
    manifest = {
        "format": MODEL_FORMAT,
        "format_version": MODEL_FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "pipeline": pipeline,
        "estimator": section,
        "arrays": layout,
        "files": {name: {"size": len(data), "sha256": sha256(data)} for name, data in files.items()},
    }
    manifest["sha256"] = sha256(canonical(manifest))
    return {**files, MANIFEST_FILE: canonical(manifest)}


def _has_steps(model: Any) -> bool:
    """Return whether a model is a pipeline of scikit-learn or of deepsep, and not one of another library."""
    return is_pipeline(model) and type(model).__module__.partition(".")[0] in ("sklearn", "deepsep")


def take_apart(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts from which a fitted estimator can be rebuilt: a section of JSON, and arrays by name.

    The estimator has ``_saved_settings()`` and ``_to_parts() -> (state, arrays)``. The state holds plain values (text,
    numbers, true/false, None, lists, tuples, mappings, and 1-d arrays of labels); the arrays are numeric arrays or CSR
    matrices, or bytes, which become separate files of that name. Settings, classes and columns are added here.
    """
    _require_ours(model)
    kind = type(model).__name__
    settings = {name: _setting(kind, name, value) for name, value in model._saved_settings().items()}
    state, arrays = model._to_parts()
    common = {name: vars(model)[name] for name in COMMON_ATTRIBUTES if name in vars(model)}
    packed = {name: _pack_or_raise(kind, name, value) for name, value in {**common, **state}.items()}
    section = {"kind": kind, "settings": settings, **{name: packed.pop(name) for name in common}, "state": packed}
    return section, arrays


def _require_ours(model: Any) -> None:
    if type(model).__module__.partition(".")[0] != "deepsep" or not hasattr(model, "_to_parts"):
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved: deepsep.save takes deepsep's own estimators, and scikit-learn "
            "pipelines that end in one. For other estimators, see skops."
        )


def _pack_or_raise(owner: str, name: str, value: Any) -> Any:
    try:
        return pack(value)
    except TypeError as error:
        raise ModelFileError(
            f"{owner}: {name}={value!r} cannot be saved: a saved model holds plain values (text, numbers, True, False, "
            f"None, and lists or mappings of these) and no code, and this is {error}. If predictions do not depend on "
            f"it, like random_state, replace it with set_params({name}=...) and save again; otherwise fit with a plain "
            "value."
        ) from None


def _setting(owner: str, name: str, value: Any) -> Any:
    if name == "callback":
        return None  # only used while fitting
    if name == "encoder" and callable(value):
        return {"__code__": getattr(value, "__qualname__", type(value).__qualname__)}
    if is_classifier(value):
        return describe_classifier(value)
    return _pack_or_raise(owner, name, value)
