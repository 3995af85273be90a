"""Classify a whole population from a handful of labelled examples.

Public names load on first use, so that ``import deepsep`` is instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names
from deepsep._version import __version__

if TYPE_CHECKING:
    from deepsep import datasets, errors
    from deepsep.classifiers.building import method
    from deepsep.classifiers.catalogue import methods
    from deepsep.classifiers.committee.committee import Committee
    from deepsep.classifiers.deep_separation.deepsep import DeepSep
    from deepsep.classifiers.in_context.in_context import InContext
    from deepsep.classifiers.tsvm.tsvm import TSVM
    from deepsep.evaluation.folds import LabeledFold
    from deepsep.evaluation.out_of_fold import out_of_fold
    from deepsep.evaluation.suspicious import suspicious_labels
    from deepsep.model.fitting import fit
    from deepsep.model.table_model import TableModel, for_table, load
    from deepsep.models import save
    from deepsep.survey import SurveySegments

__all__ = [
    "TSVM",
    "Committee",
    "DeepSep",
    "InContext",
    "LabeledFold",
    "SurveySegments",
    "TableModel",
    "__version__",
    "datasets",
    "errors",
    "fit",
    "for_table",
    "load",
    "method",
    "methods",
    "out_of_fold",
    "save",
    "suspicious_labels",
]

_HOME = {
    "DeepSep": "deepsep.classifiers.deep_separation.deepsep",
    "Committee": "deepsep.classifiers.committee.committee",
    "InContext": "deepsep.classifiers.in_context.in_context",
    "TSVM": "deepsep.classifiers.tsvm.tsvm",
    "LabeledFold": "deepsep.evaluation.folds",
    "TableModel": "deepsep.model.table_model",
    "fit": "deepsep.model.fitting",
    "for_table": "deepsep.model.table_model",
    "load": "deepsep.model.table_model",
    "method": "deepsep.classifiers.building",
    "methods": "deepsep.classifiers.catalogue",
    "out_of_fold": "deepsep.evaluation.out_of_fold",
    "save": "deepsep.models",
    "suspicious_labels": "deepsep.evaluation.suspicious",
    "SurveySegments": "deepsep.survey",
    "datasets": "deepsep.datasets",
    "errors": "deepsep.errors",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
