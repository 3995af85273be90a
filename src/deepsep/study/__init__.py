"""The paper's study on any labelled table, and a comparison of methods on the labels at hand.

:func:`prepare` lists the fits of an experiment, :func:`run` runs those that are not finished, :func:`gather` collects
their results, and :func:`write` writes them to a folder. :func:`compare` cross-validates methods on a few labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.study.comparison import Comparison, compare
    from deepsep.study.results_folder import gather, write
    from deepsep.study.running import prepare, run

__all__ = ["Comparison", "compare", "gather", "prepare", "run", "write"]

_HOME = {
    "Comparison": "deepsep.study.comparison",
    "compare": "deepsep.study.comparison",
    "gather": "deepsep.study.results_folder",
    "prepare": "deepsep.study.running",
    "run": "deepsep.study.running",
    "write": "deepsep.study.results_folder",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
