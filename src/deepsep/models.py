"""Load any saved model, and tell where a model comes from and to which table it was fitted."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from sklearn.pipeline import Pipeline

from deepsep._version import __version__
from deepsep.classifiers.renaming import rename_classes
from deepsep.classifiers.restoring import needs_code, put_together
from deepsep.core.model_parts import estimator_of, is_pipeline
from deepsep.drift.profile import TrainingProfile, read_profile
from deepsep.errors import DeepSepError, DeepSepWarning, ModelFileError, ParameterError
from deepsep.files.manifest import (
    ARRAYS_FILE,
    PARTS_FOLDER,
    PROFILE_FILE,
    STEPS_FOLDER,
    check_versions,
    read_checked,
    read_manifest,
)
from deepsep.files.packed import part_names, restore_arrays
from deepsep.files.plain import unpack
from deepsep.files.saving import save
from deepsep.files.steps import load_step
from deepsep.survey import SurveySegments

__all__ = ["fingerprint_of", "load", "profile_of", "provenance_of", "rename_classes", "save"]


def load(path: str | os.PathLike[str], *, encoder: Any = None) -> Any:
    """Open a saved model: an estimator, or a scikit-learn pipeline that ends in one; see :func:`deepsep.load`."""
    root = Path(path)
    manifest = read_manifest(root)
    try:
        check_versions(root, manifest)
        _check_encoder(root, manifest["estimator"], encoder)
        names = manifest["pipeline"] and manifest["pipeline"]["names"]
        step_files = [f"{STEPS_FOLDER}/{i}.gz" for i in range(len(names or []) - 1)]
        parts = part_names(manifest["arrays"])
        wanted = [ARRAYS_FILE, *step_files, *(f"{PARTS_FOLDER}/{name}" for name in parts)]
        wanted += [PROFILE_FILE] if PROFILE_FILE in manifest["files"] else []
        if sorted(manifest["files"]) != sorted(wanted):
            raise ModelFileError(f"{root}: its manifest lists files that a model does not have. Save the model again.")
        files = {name: read_checked(root, name, manifest["files"][name]) for name in wanted}
        arrays = restore_arrays(read_tensors(files[ARRAYS_FILE]), manifest["arrays"])
        arrays |= {name: files[f"{PARTS_FOLDER}/{name}"] for name in parts}
        model = put_together(manifest["estimator"], arrays, encoder=encoder, others=(SurveySegments,))
        if names is not None:
            steps = [load_step(f"{root / name}", files[name]) for name in step_files]
            options = {name: unpack(value) for name, value in manifest["pipeline"]["settings"].items()}
            options["memory"] = None  # a folder of pickles, which the next fit would open
            _check_table_steps(dict(zip(names, steps, strict=False)), model.n_features_in_)
            model = Pipeline(list(zip(names, [*steps, model], strict=True)), **options)
        if PROFILE_FILE in files:
            model.training_profile_ = read_profile(files[PROFILE_FILE], _kinds(model), len(model.classes_))
        if names is not None:
            model.origin_ = manifest["pipeline"].get("table")
        model.provenance_ = _provenance(root, manifest)
        return model
    except (DeepSepError, DeepSepWarning):  # a warning, if the user turned warnings into errors
        raise
    except ImportError as error:
        raise ModelFileError(
            f"{root}: this model needs the package {error.name!r}, or another version of it ({error}). Install it."
        ) from error
    except SafetensorError as error:
        raise ModelFileError(
            f"{root / ARRAYS_FILE} is not a safetensors file ({error}). Save the model again."
        ) from error
    except Exception as error:  # the hashes match, but the content is inconsistent
        raise ModelFileError(
            f"{root}: the parts of the model do not fit together ({type(error).__name__}: {error}). Save it again."
        ) from error


def _check_table_steps(steps: Mapping[str, Any], n_features: int) -> None:
    """Raise unless the steps that encode a table make the features of the model from one row."""
    cells = {"number": 0.5, "boolean": False, "date": pd.Timestamp("2000-01-01"), "text": "a"}
    kinds = getattr(next(iter(steps.values()), None), "schema_", {})
    if not kinds:
        return
    row: Any = pd.DataFrame({name: [cells[kind]] for name, kind in kinds.items()})
    for name, step in steps.items():
        if step in (None, "passthrough"):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of words that the training table did not have
                row = step.transform(row)
        except Exception as error:
            raise ModelFileError(
                f"the step {name!r} of the model fails with a row of a table ({type(error).__name__}: {error}). Save "
                "the model again."
            ) from error
    if row.shape[1] != n_features:
        raise ModelFileError(
            f"the steps of the model make {row.shape[1]} features of a table, and its classifier takes {n_features}. "
            "Save the model again."
        )


def profile_of(model: Any) -> TrainingProfile | None:
    """Return the profile of a model's training table; None if it has none, or was fitted to another table since."""
    profile = getattr(model, "training_profile_", None)
    return profile if isinstance(profile, TrainingProfile) and profile.data == fingerprint_of(model) else None


def provenance_of(model: Any) -> dict[str, Any]:
    """Return what scored files say of the model; a model that was not loaded has neither name nor date."""
    saved, data = getattr(model, "provenance_", None), fingerprint_of(model)
    if saved is not None and saved["training_data"] == data:
        return dict(saved)
    method = type(estimator_of(model)).__name__
    own = {"name": None, "method": method, "created": None, "deepsep": __version__}
    return {**own, "training_data": data, "sha256": None}


def fingerprint_of(model: Any) -> str | None:
    """Return the fingerprint of the data that a model was fitted to; None if it has none."""
    return getattr(estimator_of(model), "data_fingerprint_", None)


def _kinds(model: Any) -> Mapping[str, str]:
    """Return the columns that a pipeline takes from a table, with their types."""
    return getattr(model[0], "schema_", {}) if is_pipeline(model) else {}


def _provenance(root: Path, manifest: Mapping[str, Any]) -> dict[str, str | None]:
    """Return what scored files say of the model that scored them."""
    return {
        "name": root.resolve().name,
        "method": str(manifest["estimator"]["kind"]),
        "created": str(manifest["created"]),
        "deepsep": str(manifest["versions"]["deepsep"]),
        "training_data": manifest["estimator"].get("data_fingerprint_"),
        "sha256": str(manifest["sha256"]),
    }


def _check_encoder(root: Path, section: Mapping[str, Any], encoder: Any) -> None:
    stored = section["settings"].get("encoder")
    if needs_code(stored) and encoder is None:
        raise ModelFileError(
            f"{root}: the model has an encoder of your own ({stored['__code__']}); the folder holds its weights but "
            "not its code. Pass the code: deepsep.load(path, encoder=factory), where factory() returns such a module."
        )
    if encoder is not None and not needs_code(stored):
        raise ParameterError(f"load: {root} has no encoder of your own. Leave out encoder={encoder!r}.")
