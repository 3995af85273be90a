"""Warnings that point at the user's own line, however deep in a pipeline they arise."""

from __future__ import annotations

import sys
import warnings

from deepsep.errors import DeepSepWarning

INSIDE = ("deepsep", "sklearn", "skrub", "joblib", "contextlib")


def notice(message: str) -> None:
    """Warn at the first line of the stack that is in none of the libraries."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DeepSepWarning, stacklevel=level)
