"""Save fitted models to folders that are safe to open, and load them.

A saved model is a folder:

======================  =============================================================================================
manifest.json           versions, columns, classes, settings, fingerprint of the data, and a hash of every other file
arrays.safetensors      weights and everything else that is an array
steps/0.skops, ...      the steps of a pipeline before its last
parts/...               what a model holds in a format of its own, such as LightGBM's trees
======================  =============================================================================================

Nothing in it is a pickle, and opening it runs no code of its author's: arrays are numbers, the manifest is plain
values, and of the steps only types on the list of ``_steps.py`` are built, from scikit-learn and skrub; for classifiers
of other libraries, see ``_classifiers.py``. The hashes find damage and careless edits; they are no signature, so they
do not say who wrote the model.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from deepsep import rivals
from deepsep._classifiers import describe_classifier, is_classifier, is_described, new_classifier
from deepsep._folder import install, read_checked, read_file, sha256
from deepsep._plain import pack, unpack
from deepsep._steps import dump_step, load_step
from deepsep._version import __version__
from deepsep.errors import DeepSepError, DeepSepWarning, ModelFileError, ParameterError, VersionError

__all__ = [
    *("check_model_folder", "load", "save"),
    *("decode_classes", "encode_classes", "put_together", "take", "take_apart", "take_codes"),  # for estimators
]

Array = NDArray[Any]

FORMAT = "deepsep-model"
FORMAT_VERSION = 1
MANIFEST, ARRAYS, STEPS, PARTS = "manifest.json", "arrays.safetensors", "steps", "parts"
KINDS = {
    "TSVM": "deepsep._tsvm:TSVM",
    "DeepSep": "deepsep._deepsep:DeepSep",
    "SurveySegments": "deepsep.survey._segments:SurveySegments",
    **{name: f"deepsep.rivals.{module}:{name}" for name, module in rivals._HOME.items()},
}
COMMON = ("classes_", "n_features_in_", "feature_names_in_", "data_fingerprint_")  # of every estimator


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a folder.

    The folder appears complete or not at all. A model that was there before is replaced; other files in its folder,
    such as predictions, stay.

    Parameters
    ----------
    model : estimator of deepsep, or Pipeline that ends in one
        Fitted. The earlier steps of a pipeline may be transformers of scikit-learn and skrub that hold no functions
        of yours.
    path : str or path
        The folder: new, empty, or a saved model.

    Raises
    ------
    ModelFileError
        If the path holds something else, or the model something that only code could restore.

    Examples
    --------
    >>> import tempfile
    >>> from deepsep import TSVM
    >>> from deepsep.persist import load, save
    >>> X = np.array([[0.0, 1.0], [0.1, 0.8], [0.2, 0.9], [3.0, 0.2], [2.9, 0.1], [2.8, 0.3]])
    >>> model = TSVM().fit(X, ["low", "low", None, "high", "high", None])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model")
    ...     again = load(f"{folder}/model")
    >>> again.predict(X).tolist()
    ['low', 'low', 'low', 'high', 'high', 'high']
    """
    steps: list[tuple[str, Any]] = model.steps if type(model) is Pipeline else [("", model)]
    final = steps[-1][1]
    _kind(final)
    check_is_fitted(model)
    target = check_model_folder(path)
    section, arrays = take_apart(final)
    layout, tensors, parts = _lay_out(arrays)
    files = {ARRAYS: write_tensors(tensors), **{f"{PARTS}/{name}": data for name, data in parts.items()}}
    pipeline = None
    if type(model) is Pipeline:
        options = {name: getattr(model, name) for name in ("memory", "verbose", "transform_input")}
        pipeline = {
            "names": [name for name, _ in steps],
            "columns": _plain("Pipeline", "feature_names_in_", getattr(model, "feature_names_in_", None)),
            "settings": {name: _plain("Pipeline", name, value) for name, value in options.items()},
        }
        for i, (name, step) in enumerate(steps[:-1]):
            files[f"{STEPS}/{i}.skops"] = dump_step(name, step)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "pipeline": pipeline,
        "estimator": section,
        "arrays": layout,
        "files": {name: {"size": len(data), "sha256": sha256(data)} for name, data in files.items()},
    }
    manifest["sha256"] = sha256(_canonical(manifest))
    install({**files, MANIFEST: _canonical(manifest)}, target, own=(MANIFEST, ARRAYS, STEPS, PARTS))


def load(path: str | os.PathLike[str], *, encoder: Any = None) -> Any:
    """Open a saved model.

    Every hash is checked before anything is built, and nothing in the folder is run.

    Parameters
    ----------
    path : str or path
        The folder that ``save`` wrote.
    encoder : callable or torch.nn.Module, optional
        For a model with an encoder of your own, of which the folder holds only the weights: the module itself, or a
        function that makes it.

    Returns
    -------
    estimator or Pipeline
        As it was saved: it predicts the same, to the last bit.

    Raises
    ------
    ModelFileError
        If the folder is no model, is damaged or edited, or names types that no model needs.
    VersionError
        If it was written in a newer format.

    Warns
    -----
    DeepSepWarning
        If deepsep, or scikit-learn in a pipeline, has another version than the one that wrote the model.
    """
    root = Path(path)
    manifest = _read_manifest(root)
    try:
        _check_versions(root, manifest)
        _check_encoder(root, manifest["estimator"], encoder)
        names = manifest["pipeline"] and manifest["pipeline"]["names"]
        step_files = [f"{STEPS}/{i}.skops" for i in range(len(names or []) - 1)]
        parts = _part_names(manifest["arrays"])
        wanted = [ARRAYS, *step_files, *(f"{PARTS}/{name}" for name in parts)]
        if sorted(manifest["files"]) != sorted(wanted):
            raise ModelFileError(f"{root}: its manifest lists other files than a model has. Save the model again.")
        files = {name: read_checked(root, name, manifest["files"][name]) for name in wanted}
        arrays = _restore_arrays(read_tensors(files[ARRAYS]), manifest["arrays"])
        arrays |= {name: files[f"{PARTS}/{name}"] for name in parts}
        model = put_together(manifest["estimator"], arrays, encoder=encoder)
        if names is None:
            return model
        steps = [load_step(f"{root / name}", files[name]) for name in step_files]
        options = {name: unpack(value) for name, value in manifest["pipeline"]["settings"].items()}
        return Pipeline(list(zip(names, [*steps, model], strict=True)), **options)
    except (DeepSepError, DeepSepWarning):  # a warning, where the user made it an error
        raise
    except ImportError as error:
        raise ModelFileError(
            f"{root}: this model needs the package {error.name!r}, or another version of it ({error}). Install it."
        ) from error
    except SafetensorError as error:
        raise ModelFileError(f"{root / ARRAYS} is no safetensors file ({error}). Save the model again.") from error
    except Exception as error:  # the hashes are right, but not what they vouch for
        raise ModelFileError(
            f"{root}: the parts of the model do not fit together ({type(error).__name__}: {error}). Save it again."
        ) from error


# -- an estimator and its parts ------------------------------------------------------------------------------


def take_apart(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what rebuilds a fitted estimator: a JSON-able section, and arrays by name.

    The estimator has ``_to_parts() -> (state, arrays)``, with plain values (text, numbers, true/false, None, lists,
    tuples, mappings, and 1-d arrays of labels) in the state, and numeric arrays or CSR matrices in the other; bytes
    there become a file of their own, under their name. Settings, classes and columns are added here.
    """
    kind = _kind(model)
    settings = {name: _setting(kind, name, value) for name, value in model.get_params(deep=False).items()}
    state, arrays = model._to_parts()
    common = {name: vars(model)[name] for name in COMMON if name in vars(model)}
    packed = {name: _plain(kind, name, value) for name, value in {**common, **state}.items()}
    section = {"kind": kind, "settings": settings, **{name: packed.pop(name) for name in common}, "state": packed}
    return section, arrays


def put_together(section: Mapping[str, Any], arrays: dict[str, Any], *, encoder: Any = None) -> Any:
    """Rebuild what ``take_apart`` took apart, with ``_from_parts(params, state, arrays)`` of its class.

    There the state also has ``classes_``, ``n_features_in_``, ``feature_names_in_`` and ``data_fingerprint_``, where
    the estimator had them, and the settings have the encoder.
    """
    if section["kind"] not in KINDS:
        raise ModelFileError(f"the model is of the unknown kind {section['kind']!r}; known are {', '.join(KINDS)}.")
    module, _, class_name = KINDS[section["kind"]].partition(":")
    settings = {name: _restore_setting(name, value, encoder) for name, value in section["settings"].items()}
    state = {name: unpack(section[name]) for name in COMMON if name in section}
    state |= {name: unpack(value) for name, value in section["state"].items()}
    return getattr(import_module(module), class_name)._from_parts(settings, state, arrays)


def take(arrays: Mapping[str, Any], name: str, shape: tuple[int | None, ...], kinds: str) -> Any:
    """Return an array after a check of its shape (None: any length) and of the kind of its numbers ("f", "i", "b")."""
    if name not in arrays:
        raise ModelFileError(f"the model lacks the array {name!r}. Save it again.")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
    if not fits or array.dtype.kind not in kinds:
        raise ModelFileError(
            f"array {name!r} has the shape {array.shape} and the type {array.dtype} where {shape} and {kinds!r} "
            "belong. Save the model again."
        )
    return array


def take_codes(arrays: Mapping[str, Any], name: str, n_classes: int) -> Array:
    """Return an array of indices into the classes, after a check that they are."""
    codes: Array = take(arrays, name, (None,), "i")
    if codes.size and not (codes.min() >= 0 and codes.max() < n_classes):
        raise ModelFileError(f"array {name!r} points beyond the {n_classes} classes. Save the model again.")
    return codes


def _kind(model: Any) -> str:
    home = f"{type(model).__module__}:{type(model).__qualname__}"
    for kind, place in KINDS.items():
        if place == home:
            return kind
    raise ModelFileError(
        f"{type(model).__name__} cannot be saved: deepsep.save takes {', '.join(KINDS)}, and scikit-learn pipelines "
        "whose last step is one of these. For other estimators, see skops."
    )


def _plain(owner: str, name: str, value: Any) -> Any:
    try:
        return pack(value)
    except TypeError as error:
        raise ModelFileError(
            f"{owner}: {name}={value!r} cannot be saved: a saved model holds plain values (text, numbers, True, False, "
            f"None, and lists or mappings of these) and no code, and this is {error}. If it has no part in predicting, "
            f"like random_state, replace it with set_params({name}=...) and save again; otherwise fit with a plain "
            "value."
        ) from None


def _setting(owner: str, name: str, value: Any) -> Any:
    if name == "callback":
        return None  # it listens while the model is fitted, and has nothing to hear later
    if name == "encoder" and callable(value):
        return {"__code__": getattr(value, "__qualname__", type(value).__qualname__)}
    if is_classifier(value):
        return describe_classifier(value)
    return _plain(owner, name, value)


def _restore_setting(name: str, value: Any, encoder: Any) -> Any:
    if name == "encoder" and _needs_code(value):
        return encoder
    return new_classifier(value) if is_described(value) else unpack(value)


def _needs_code(value: Any) -> bool:
    return isinstance(value, dict) and "__code__" in value


def _check_encoder(root: Path, section: Mapping[str, Any], encoder: Any) -> None:
    stored = section["settings"].get("encoder")
    if _needs_code(stored) and encoder is None:
        raise ModelFileError(
            f"{root}: the model has an encoder of your own ({stored['__code__']}), of which the folder holds the "
            "weights but not the code. Pass the code: deepsep.load(path, encoder=factory), where factory() returns "
            "such a module."
        )
    if encoder is not None and not _needs_code(stored):
        raise ParameterError(f"load: {root} has no encoder of your own. Leave out encoder={encoder!r}.")


# -- arrays --------------------------------------------------------------------------------------------------


def _lay_out(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Array], dict[str, bytes]]:
    """Return the layout of every array, contiguous tensors (safetensors would write others wrongly), and the bytes.

    The order in memory is kept: products of matrices round differently in another.
    """
    layout: dict[str, Any] = {}
    tensors: dict[str, Array] = {}
    files = {name: value for name, value in arrays.items() if isinstance(value, bytes)}
    for name, array in arrays.items():
        if name in files:
            layout[name] = {"file": name}
            continue
        if sparse.issparse(array):
            layout[name] = {"csr": isinstance(array, sparse.sparray), "shape": list(array.shape)}
            parts = {f"{name}.{part}": getattr(array, part) for part in ("data", "indices", "indptr")}
        else:
            column_major = array.flags.f_contiguous and not array.flags.c_contiguous
            layout[name] = {"order": "F" if column_major else "C", "shape": list(array.shape)}
            parts = {name: array.T if column_major else array}
        tensors |= {part: np.ascontiguousarray(value).reshape(value.shape) for part, value in parts.items()}
    return layout, tensors, files


def _part_names(layout: Mapping[str, Any]) -> list[str]:
    names = [name for name, entry in layout.items() if "file" in entry]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z_]*(\.[a-z]+)*", name):  # a file in the folder, and no path out of it
            raise ModelFileError(f"{name!r} is no name for a part of a model. Save it again.")
    return names


def _restore_arrays(tensors: Mapping[str, Array], layout: Mapping[str, Any]) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for name, entry in layout.items():
        if "file" in entry:
            continue
        if "csr" in entry:
            make = sparse.csr_array if entry["csr"] else sparse.csr_matrix
            parts = tuple(take(tensors, f"{name}.{part}", (None,), "fi") for part in ("data", "indices", "indptr"))
            arrays[name] = make(parts, shape=tuple(entry["shape"]), copy=True)
            arrays[name].check_format(full_check=True)  # compiled code trusts these indices
        else:
            array = take(tensors, name, tuple(entry["shape"][:: -1 if entry["order"] == "F" else 1]), "biuf").copy()
            arrays[name] = array.T if entry["order"] == "F" else array
    return arrays


# -- the manifest --------------------------------------------------------------------------------------------


def _canonical(manifest: Mapping[str, Any]) -> bytes:
    """Return the one way to write a manifest, in every format version: whatever else a file holds was edited."""
    return (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode("ascii")


def _versions() -> dict[str, str]:
    used = {name: name for name in ("numpy", "scipy", "torch", "skops", "skrub", "lightgbm")}
    used["sklearn"] = "scikit-learn"
    packages = {package: metadata.version(package) for name, package in used.items() if name in sys.modules}
    return {"deepsep": __version__, "python": platform.python_version(), **packages}


def _read_manifest(root: Path) -> dict[str, Any]:
    if not os.path.lexists(root):
        aside = [place.name for place in root.parent.glob(f".{root.name}.*.old")] if root.parent.is_dir() else []
        hint = f" An interrupted save left the earlier model in {aside[0]}; rename it." if aside else ""
        raise ModelFileError(f"{root} does not exist.{hint}")
    if not root.is_dir():
        raise ModelFileError(f"{root} is a file; a model saved by deepsep is a folder with a {MANIFEST} in it.")
    if not os.path.lexists(root / MANIFEST):
        raise ModelFileError(f"{root} is no model saved by deepsep: it has no {MANIFEST}.")
    raw = read_file(root, MANIFEST)
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{root / MANIFEST} is damaged: {error}. Save the model again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{root / MANIFEST} belongs to something else: it does not say {FORMAT!r}.")
    try:
        content = {key: value for key, value in manifest.items() if key != "sha256"}
        intact = _canonical(manifest) == raw and sha256(_canonical(content)) == manifest["sha256"]
    except (ValueError, KeyError, RecursionError):
        intact = False
    if not intact:
        raise ModelFileError(
            f"{root / MANIFEST} was edited or damaged: its hash does not fit. Restore it, or save the model again."
        )
    return manifest


def _check_versions(root: Path, manifest: Mapping[str, Any]) -> None:
    versions, version = manifest["versions"], manifest["format_version"]
    if version > FORMAT_VERSION:
        raise VersionError(
            f"{root} was written by deepsep {versions['deepsep']} in format {version}; this is deepsep {__version__}, "
            f"which reads formats up to {FORMAT_VERSION}. Upgrade with: pip install -U deepsep"
        )
    if version != FORMAT_VERSION:
        raise VersionError(f"{root} has format {version!r}, which no deepsep has written. Save the model again.")
    holds_steps = any(".skops" in name for name in manifest["files"])
    for package in ("deepsep", "scikit-learn") if holds_steps else ("deepsep",):
        here = _versions()[package]
        if here.split(".")[:2] != versions[package].split(".")[:2]:
            warnings.warn(
                f"{root} was written with {package} {versions[package]}, and this is {package} {here}: predictions may "
                "differ. Use the version that wrote it, or fit and save the model again.",
                DeepSepWarning,
                stacklevel=3,
            )


def check_model_folder(path: str | os.PathLike[str]) -> Path:
    """Return the resolved path, if a model may be written there."""
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        raise ModelFileError(f"{target} is a file, which deepsep does not overwrite. Save to another path.")
    if target.is_dir() and any(target.iterdir()):
        try:
            ours = json.loads(read_file(target, MANIFEST)).get("format") == FORMAT
        except (ModelFileError, ValueError, AttributeError, RecursionError):
            ours = False
        if not ours:
            raise ModelFileError(
                f"{target} holds files that are no model of deepsep, which does not overwrite them. Save to another "
                "path, or empty the folder."
            )
    return target
