"""The paper's study on any labelled table, and the same question about one's own labels.

:func:`prepare` lists the fits of an experiment, :func:`run` does those that are not done, :func:`find` gathers what
they say and :func:`write` leaves it in a folder. :func:`compare` holds methods against each other on few labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsep._lazy import lazy_names

if TYPE_CHECKING:
    from deepsep.experiments.comparison import compare
    from deepsep.experiments.results_folder import find, write
    from deepsep.experiments.running import prepare, run

__all__ = ["compare", "find", "prepare", "run", "write"]

_HOME = {
    "compare": "deepsep.experiments.comparison",
    "find": "deepsep.experiments.results_folder",
    "prepare": "deepsep.experiments.running",
    "run": "deepsep.experiments.running",
    "write": "deepsep.experiments.results_folder",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
