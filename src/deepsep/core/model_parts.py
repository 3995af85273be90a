"""Parts of a model, which is an estimator or a pipeline that ends in one."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def is_pipeline(model: Any) -> bool:
    """Return whether a model has steps before its estimator."""
    return isinstance(model, Pipeline)


def estimator_of(model: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself."""
    return model[-1] if is_pipeline(model) else model


def first_step(model: Any) -> Any:
    """Return the first step of a pipeline, or the estimator itself."""
    return model[0] if is_pipeline(model) else model


def split_model(model: Any) -> tuple[Any, Any]:
    """Return the steps before the estimator (None if there are none), and the estimator."""
    return (model[:-1] if is_pipeline(model) and len(model.steps) > 1 else None), estimator_of(model)
