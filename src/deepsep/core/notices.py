"""Issue warnings that point at the user's own line, however deep inside deepsep they arise."""

from __future__ import annotations

import sys
import warnings

from deepsep.errors import DeepSepWarning, Setting


def warn(message: str, category: type[Warning] = DeepSepWarning, **settings: Setting) -> None:
    """Issue a warning at the innermost line outside deepsep and the libraries it builds on."""
    inner = ("deepsep", "sklearn", "skrub", "joblib", "threadpoolctl", "contextlib")
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
        frame, level = frame.f_back, level + 1
    warnings.warn(category(message, **settings), stacklevel=level)
