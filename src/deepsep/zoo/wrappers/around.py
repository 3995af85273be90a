"""Base of the methods around another library's classifier: its copies, checks and saving."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.ensemble import RandomForestClassifier

from deepsep.classifiers.base import UnweightedClassifier
from deepsep.classifiers.building import classifier_named
from deepsep.classifiers.declared_settings import settings
from deepsep.classifiers.supervised import fit_labeled, seeded
from deepsep.core.arrays import Array
from deepsep.core.checks import require
from deepsep.zoo.scaled_method import ScaledMethod


@settings
class AroundClassifier(ScaledMethod, UnweightedClassifier):
    """A method that fits copies of a classifier, also to predicted labels of unlabelled rows.

    Subclasses get fitted copies from ``_fit_copy``.

    Parameters
    ----------
    estimator : classifier or str, optional
        A classifier with ``predict_proba``, or the name of a supervised method, such as
        ``"lightgbm-few-labels"``. By default a random forest of 100 trees.
    """

    estimator: Any = None

    def _check_parameters(self) -> None:
        one = self.estimator
        built = hasattr(one, "get_params") and not isinstance(one, type)
        usable = one is None or isinstance(one, str) or (built and is_classifier(one))
        holds = usable and hasattr(self._made(), "predict_proba")
        wanted = "a classifier with predict_proba such as LogisticRegression(), a name such as 'random-forest', or None"
        require(self, "estimator", holds, wanted)

    def _made(self) -> Any:
        if self.estimator is None:
            return RandomForestClassifier(100)
        return classifier_named(self.estimator) if isinstance(self.estimator, str) else self.estimator

    def _fit_copy(self, X: Array, codes: Array, rng: np.random.Generator) -> Any:
        """Return a new copy of the classifier, seeded and fitted."""
        return fit_labeled(seeded(clone(self._made()), rng), X, codes)
