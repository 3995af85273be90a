"""What all rivals share: they read rows, learn, and speak as :class:`deepsep.DeepSep` does.

A rival is a class with ``_check_parameters``, ``_learn`` and ``_probabilities``, and, so that it can be saved,
``_parts`` and ``_restore``. Everything else is here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from deepsep.classifiers.catalogue import uses_unlabelled
from deepsep.core.arrays import take, take_codes
from deepsep.core.checks import private_generator, require
from deepsep.core.fingerprint import fingerprint
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import read_rows, read_training_rows
from deepsep.errors import LabelWarning
from deepsep.files.saving import COMMON

Array = NDArray[Any]


@dataclass(frozen=True)
class TrainingRows:
    """The rows of a fit, in the order of the user."""

    X: Any  # (n, d): finite numbers; sparse only where the rival accepts that
    codes: Array  # (n,): indices into the classes, -1 for an unlabelled row
    weight: Array  # (n,)
    n_classes: int

    @cached_property
    def labelled(self) -> Array:
        """Indices of the labelled rows whose weight is not 0."""
        return np.flatnonzero((self.codes >= 0) & (self.weight > 0))

    @cached_property
    def unlabelled(self) -> Array:
        """Indices of the unlabelled rows whose weight is not 0."""
        return np.flatnonzero((self.codes < 0) & (self.weight > 0))


class Rival(ClassifierMixin, BaseEstimator):
    """A classifier of partly labelled rows.

    Subclasses say what they learn, and from what:

    - ``_check_parameters()`` raises a ParameterError for settings that make no sense;
    - ``_learn(rows, rng)`` learns, and may return the class distribution of every training row where that is not what
      ``_probabilities`` says about them (methods that are transductive by nature);
    - ``_probabilities(X)`` returns the class distributions of checked rows;
    - ``_parts()`` returns what a saved model holds, as (plain values, arrays), and ``_restore(state, arrays)`` takes
      it back.

    A rival for which weights make no sense overrides ``fit`` with one that has no ``sample_weight``.
    """

    _accept: ClassVar[dict[str, Any]] = {}  # for scikit-learn's validation, such as {"accept_sparse": "csr"}
    method_name: str  # in the catalogue

    random_state: Any
    classes_: Array

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to partly labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Numbers without NaN or infinity; :func:`deepsep.for_table` takes care of gaps, categories, dates and text.
        y : array-like of shape (n,)
            Labels (strings, integers or booleans); unlabelled rows are marked None, NaN, pd.NA, or -1 among
            integers.
        sample_weight : array-like of shape (n,), optional
            How much each row counts; 0 is its absence.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self._check_switches()
        self._check_parameters()
        X, labels, weight = read_training_rows(self, X, y, sample_weight, stacklevel=5, **self._accept)
        rows = TrainingRows(X, labels.codes, weight, len(self.classes_))
        if uses_unlabelled(self) and not rows.unlabelled.size:
            warnings.warn(
                f"no unlabelled rows: {type(self).__name__} learns from the labelled ones alone. Pass the unlabelled "
                "rows in X as well, with None in y.",
                LabelWarning,
                stacklevel=3,
            )
        self.data_fingerprint_ = fingerprint(X, labels.codes, getattr(self, "feature_names_in_", None))
        with one_blas_thread():
            said = self._learn(rows, private_generator(self.random_state))
        self.label_distributions_ = self._probabilities(X) if said is None else said
        self._set_transduction(np.where(rows.codes >= 0, rows.codes, self.label_distributions_.argmax(axis=1)))
        return self

    def _check_switches(self) -> None:
        for name, parameter in signature(type(self)).parameters.items():
            if isinstance(parameter.default, bool):
                require(self, name, isinstance(getattr(self, name), bool | np.bool), "True or False")

    def _set_transduction(self, codes: Array) -> None:
        self.transduction_ = self.classes_[codes]

    # -- what a rival is -------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        raise NotImplementedError

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array | None:
        raise NotImplementedError

    def _probabilities(self, X: Any) -> Array:
        raise NotImplementedError

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        raise NotImplementedError

    # -- predicting ------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for every row."""
        check_is_fitted(self, "transduction_")
        with one_blas_thread():
            return self._probabilities(read_rows(self, X, reset=False, **self._accept))

    def predict(self, X: Any) -> Array:
        """Return the most probable class of every row, labelled or not."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    # -- saving ----------------------------------------------------------------------------------------------

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a saved model holds beside settings, classes and columns: plain values, and arrays."""
        state, arrays = self._parts()
        codes = np.searchsorted(self.classes_, self.transduction_).astype(np.int32)
        return state, {**arrays, "label_distributions_": self.label_distributions_, "transduction_": codes}

    @classmethod
    def _from_parts(cls, params: dict[str, Any], state: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """Return the fitted model that ``_to_parts`` took apart; ``state`` also has the classes and the columns."""
        model = cls(**params)
        model.__dict__.update({name: state.pop(name) for name in COMMON if name in state})
        c = len(model.classes_)
        codes = take_codes(arrays, "transduction_", c)
        model._set_transduction(codes)
        model.label_distributions_ = take(arrays, "label_distributions_", (len(codes), c), "f")
        model._restore(state, arrays)
        return model
