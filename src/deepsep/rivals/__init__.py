"""The methods that the paper names, and the supervised ones that every result needs beside it: one contract.

Each is a scikit-learn classifier with the conventions of :class:`deepsep.DeepSep`: the same marks for unlabelled rows,
the same labels, errors and attributes. :func:`deepsep.method` builds them by name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepsep.rivals._consistency import MeanTeacher, PiModel, TemporalEnsembling
    from deepsep.rivals._deep_propagation import DeepLabelPropagation
    from deepsep.rivals._entropy import EntropyNetwork
    from deepsep.rivals._entropy_logistic import EntropyLogistic
    from deepsep.rivals._ladder import LadderNetwork
    from deepsep.rivals._local_propagation import LocalLabelPropagation
    from deepsep.rivals._mincut import GraphMinCut
    from deepsep.rivals._pseudo_label import PseudoLabel
    from deepsep.rivals._random_walk import MarkovRandomWalk
    from deepsep.rivals._semiboost import SemiBoost
    from deepsep.rivals._spreading import LabelPropagation, LabelSpreading
    from deepsep.rivals._supervised import Supervised
    from deepsep.rivals._svm_network import SVMNetwork
    from deepsep.rivals._vae import VariationalM1, VariationalM2

__all__ = [
    "DeepLabelPropagation",
    "EntropyLogistic",
    "EntropyNetwork",
    "GraphMinCut",
    "LabelPropagation",
    "LabelSpreading",
    "LadderNetwork",
    "LocalLabelPropagation",
    "MarkovRandomWalk",
    "MeanTeacher",
    "PiModel",
    "PseudoLabel",
    "SVMNetwork",
    "SemiBoost",
    "Supervised",
    "TemporalEnsembling",
    "VariationalM1",
    "VariationalM2",
]

_HOME = {
    "DeepLabelPropagation": "_deep_propagation",
    "EntropyLogistic": "_entropy_logistic",
    "EntropyNetwork": "_entropy",
    "GraphMinCut": "_mincut",
    "LabelPropagation": "_spreading",
    "LabelSpreading": "_spreading",
    "LadderNetwork": "_ladder",
    "LocalLabelPropagation": "_local_propagation",
    "MarkovRandomWalk": "_random_walk",
    "MeanTeacher": "_consistency",
    "PiModel": "_consistency",
    "PseudoLabel": "_pseudo_label",
    "SVMNetwork": "_svm_network",
    "SemiBoost": "_semiboost",
    "Supervised": "_supervised",
    "TemporalEnsembling": "_consistency",
    "VariationalM1": "_vae",
    "VariationalM2": "_vae",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
