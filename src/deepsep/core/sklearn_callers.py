"""Recognise parts of scikit-learn that would treat unlabelled rows as a class."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

import numpy as np

from deepsep.core.labels import given_labels
from deepsep.errors import LabelError


def check_wrappers() -> None:
    """Raise if this fit is part of a scikit-learn wrapper that treats the mark of unlabelled rows as a class.

    VotingClassifier, StackingClassifier, CalibratedClassifierCV, BaggingClassifier and OneVsRestClassifier note the
    classes of ``y`` before they fit their parts, so the mark is among them.
    """
    for frame in _sklearn_frames():
        wrapper = frame.f_locals.get("self")
        classes = getattr(wrapper, "__dict__", {}).get("classes_")
        if isinstance(classes, np.ndarray) and classes.ndim == 1 and not given_labels(classes)[0].all():
            raise LabelError(
                f"{type(wrapper).__name__} treats the mark of unlabelled rows as a class, so its predictions "
                "would be wrong. It cannot be fitted to partly labelled rows. Fit the models themselves, and average "
                "their predict_proba; for probabilities of labelled rows that a model has not seen, use "
                "deepsep.out_of_fold(model, X, y)."
            )


def called_from(function: str) -> bool:
    """Return whether a function of scikit-learn is among the callers."""
    return any(frame.f_code.co_name == function for frame in _sklearn_frames())


def _sklearn_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn."):
            yield frame
        frame = frame.f_back
