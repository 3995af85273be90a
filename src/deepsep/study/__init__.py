"""The paper's study on any labelled table, and a comparison of methods on the labels at hand.

:func:`prepare` lists the fits of an experiment, :func:`run` runs those that are not finished, :func:`gather` collects
their results, and :func:`write` writes them to a folder. :func:`compare` cross-validates methods on a few labels.
"""

from deepsep.study.comparison import Comparison, CrossValidation, compare
from deepsep.study.running import prepare, run
from deepsep.study.study_page import gather, write

__all__ = ["Comparison", "CrossValidation", "compare", "gather", "prepare", "run", "write"]
