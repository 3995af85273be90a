"""Profile of the training table, and provenance, of a model."""

from __future__ import annotations

from typing import Any

from deepsep._version import __version__
from deepsep.core.model_parts import estimator_of
from deepsep.drift.profile import TrainingProfile


def profile_of(model: Any) -> TrainingProfile | None:
    """Return the profile of a model's training table; None if it has none, or was fitted to another table since."""
    profile = getattr(model, "training_profile_", None)
    return profile if isinstance(profile, TrainingProfile) and profile.data == fingerprint_of(model) else None


def provenance_of(model: Any) -> dict[str, Any]:
    """Return what scored files say of the model; a model that was not loaded has neither name nor date."""
    saved = getattr(model, "provenance_", None)
    if saved is not None and saved["training_data"] == fingerprint_of(model):
        return dict(saved)
    return {
        "name": None,
        "method": type(estimator_of(model)).__name__,
        "created": None,
        "deepsep": __version__,
        "training_data": fingerprint_of(model),
        "sha256": None,
    }


def fingerprint_of(model: Any) -> str | None:
    """Return the fingerprint of the data that a model was fitted to; None if it has none."""
    return getattr(estimator_of(model), "data_fingerprint_", None)
