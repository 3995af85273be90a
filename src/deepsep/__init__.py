"""Classify a whole population from a handful of labelled examples.

Public names load on first use, so that ``import deepsep`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names
from deepsep._version import __version__

if TYPE_CHECKING:
    from deepsep import datasets, errors
    from deepsep._deepsep import DeepSep
    from deepsep._methods import method, methods
    from deepsep._tsvm import TSVM
    from deepsep.model_selection import LabelledFold
    from deepsep.persist import load, save
    from deepsep.survey import SurveySegments
    from deepsep.table import for_table

__all__ = [
    "TSVM",
    "DeepSep",
    "LabelledFold",
    "SurveySegments",
    "__version__",
    "datasets",
    "errors",
    "for_table",
    "load",
    "method",
    "methods",
    "save",
]

_HOME = {
    "DeepSep": "deepsep._deepsep",
    "TSVM": "deepsep._tsvm",
    "LabelledFold": "deepsep.model_selection",
    "for_table": "deepsep.table",
    "load": "deepsep.persist",
    "method": "deepsep._methods",
    "methods": "deepsep._methods",
    "save": "deepsep.persist",
    "SurveySegments": "deepsep.survey",
    "datasets": "deepsep.datasets",
    "errors": "deepsep.errors",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
