"""The base of every method, which reads rows, learns, predicts and can be saved.

A method is a class with ``_learn`` and ``_probabilities``, and, so that it can be saved, ``_parts`` and ``_restore``.
Everything else is here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from deepsep.classifiers.catalogue import uses_unlabeled
from deepsep.classifiers.declared_settings import Domain, check_settings
from deepsep.core.arrays import Array, checked_array, checked_codes
from deepsep.core.checks import check_not_constant, check_priors, check_wrappers, private_generator, row_weights
from deepsep.core.labels import codes_of, given_labels
from deepsep.core.probability import check_probabilities, prior_shift, shifted
from deepsep.core.scaling import divide, find_exponents
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import Context, TrainingRows, fingerprint, read_new_rows, read_training_rows
from deepsep.errors import DataError, LabelError, LabelWarning, ModelFileError, ParameterError, warn
from deepsep.files.saving import COMMON_ATTRIBUTES, save


class Classifier(ClassifierMixin, BaseEstimator):
    """A classifier of partly labelled rows.

    Subclasses define:

    - ``_check_parameters()``, if need be, raises a ParameterError for settings that make no sense together;
    - ``_learn(rows, rng)`` learns. Methods that are transductive by nature return the class distribution of every
      training row, since ``_probabilities`` would give them another one;
    - ``_probabilities(X)`` returns the class distributions of checked rows;
    - ``_parts()`` returns what a saved model holds, as (plain values, arrays), and ``_restore(state, arrays)`` reads
      it.

    A method for which weights make no sense is an :class:`UnweightedClassifier`. A subclass documents the settings and
    attributes that it adds; :func:`settings` adds the entries of its bases to its docstring.

    Attributes
    ----------
    classes_ : array (c,)
        The labels, sorted.
    transduction_ : array (n,)
        Labels of the training rows: those given, and predictions for the others.
    label_distributions_ : array (n, c)
        Class probabilities of the training rows.
    """

    method_name: str  # in the catalogue
    labels_its_rows_apart: ClassVar[bool] = False  # whether new rows are predicted differently from training rows
    _accept: ClassVar[dict[str, Any]] = {}  # for scikit-learn's validation, such as {"accept_sparse": "csr"}
    allowed_values: ClassVar[Mapping[str, Domain]] = {}  # values that settings may have, by name
    _exponents: Array | None = None  # powers of two by which columns of extreme size are divided
    _proportions_matter: ClassVar[bool] = False  # whether all columns must share one power

    random_state: Any
    classes_: Array
    transduction_: Any  # None after a fit for new rows alone
    prior_shift_: Array  # where probabilities were corrected for priors

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True  # a method that does not take sparse rows gets them dense
        return tags

    # -- fitting ---------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to partly labelled rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Numbers without NaN or infinity; :func:`deepsep.for_table` handles gaps, categories, dates and text.
            Sparse rows become dense single precision, up to 2 GB, except in methods that take them as they are.
        y : array-like of shape (n,)
            Labels (strings, integers or booleans); unlabelled rows are marked None, NaN, pd.NA, or -1 among
            integers. A list, an array, or a column of pandas, polars or pyarrow.
        sample_weight : array-like of shape (n,), optional
            Weight of each row: k counts as k copies of the row, 0 as its absence.

        Returns
        -------
        self
        """
        return self.fit_rows(self.training_rows(X, y, sample_weight))

    def training_rows(self, X: Any, y: Any, sample_weight: Any = None, labels_drawn: Any = None) -> TrainingRows:
        """Return checked rows for :meth:`fit_rows`; the arguments are those of ``fit``."""
        check_wrappers()
        self._check_settings()
        return read_training_rows(self, X, y, sample_weight, labels_drawn, **self._accept)

    def fit_rows(self, rows: TrainingRows, context: Context | None = None) -> Self:
        """Fit to rows checked by :meth:`training_rows`, or by a method that calls this one.

        Only what depends on the selection of rows is checked again: constant columns, and columns of extreme size.
        """
        self._check_settings()
        check_not_constant(rows.matrix, rows.columns)
        exponents = find_exponents(rows.matrix, rows.columns, together=self._proportions_matter)
        self._forget("_exponents", "feature_names_in_", "prior_shift_")
        if exponents is not None:
            self._exponents = exponents
        if rows.columns is not None:
            self.feature_names_in_ = rows.columns
        self.n_features_in_, self.classes_ = rows.X.shape[1], rows.classes
        X = divide(rows.matrix, exponents).reshape(rows.X.shape)
        rows = replace(rows, X=X, context=context or Context())
        self._check_with_classes()
        if uses_unlabeled(self) and not rows.unlabeled.size:
            warn(
                f"no unlabelled rows: {type(self).__name__} learns from the labelled ones alone. Pass the unlabelled "
                "rows in X as well, with None in y.",
                LabelWarning,
            )
        self.data_fingerprint_ = fingerprint(rows.matrix, rows.codes, rows.columns)
        with self._threads(rows):
            learned = self._learn(rows, private_generator(self.random_state))
            self._describe_training_rows(rows, learned)
        return self

    def _threads(self, rows: TrainingRows) -> AbstractContextManager[Any]:
        return one_blas_thread()

    def _check_settings(self) -> None:
        check_settings(self)
        self._check_parameters()

    def _describe_training_rows(self, rows: TrainingRows, learned: Array | None) -> None:
        """Set what is known of the training rows: nothing, in a fit for new rows that has not predicted them anyway."""
        if rows.context.for_new_rows and learned is None:
            self.transduction_ = None
            return
        self.label_distributions_ = check_probabilities(self._probabilities(rows.X) if learned is None else learned)
        self._set_transduction(np.where(rows.codes >= 0, rows.codes, self.label_distributions_.argmax(axis=1)))

    def _set_transduction(self, codes: Array) -> None:
        self.transduction_ = self.classes_[codes]

    def _forget(self, *names: str) -> None:
        """Remove attributes of an earlier fit."""
        for name in names:
            self.__dict__.pop(name, None)

    @property
    def _all_steps(self) -> int | None:
        """Maximum number of training steps; None if the fit is too fast for a progress bar."""
        return None

    # -- what a method is ------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Check what no single setting tells."""

    def _check_with_classes(self) -> None:
        """Check the settings that depend on the classes."""

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array | None:
        raise NotImplementedError

    def _probabilities(self, X: Any) -> Array:
        raise NotImplementedError

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        raise NotImplementedError

    # -- predicting ------------------------------------------------------------------------------------------

    def _read(self, X: Any) -> Any:
        check_is_fitted(self, "transduction_")
        return read_new_rows(self, X, **self._accept)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for every row, (n, c), columns as in ``classes_``."""
        rows = self._read(X)
        with one_blas_thread():
            return check_probabilities(self._probabilities(rows))

    def predict(self, X: Any) -> Array:
        """Return the most probable class of every row, labelled or not."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the labelled rows whose class is predicted; unlabelled rows do not count.

        For rows that the model was trained on this is too high: :func:`deepsep.out_of_fold` predicts them by models
        that have not seen their labels.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Their labels; unlabelled rows are marked as for ``fit``.
        sample_weight : array-like of shape (n,), optional
            Weight of each row.
        """
        labeled, labels = given_labels(y)
        if not labeled.any():
            raise LabelError(
                f"none of the {len(labeled)} rows of y has a label, so there is nothing to compare the predictions "
                "with. Pass rows with labels."
            )
        predicted = self.predict(X)
        if len(predicted) != len(labeled):
            raise ParameterError(f"X has {len(predicted)} rows and y has {len(labeled)} entries; they must match.")
        weight = row_weights(predicted, sample_weight)[labeled]
        if not weight.any():
            raise ParameterError("every labelled row has sample_weight 0. Give some of them a positive weight.")
        return float(accuracy_score(labels, predicted[labeled], sample_weight=weight))

    # -- saving ----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder: short for ``deepsep.save(model, path)``."""
        save(self, path)

    def _saved_settings(self) -> dict[str, Any]:
        """Return the settings that a saved model holds."""
        return dict(self.get_params(deep=False))

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a saved model holds in addition to settings, classes and columns: plain values, and arrays."""
        state, arrays = self._parts()
        codes = codes_of(self.classes_, self.transduction_).astype(np.int32)
        common = ("label_distributions_", "prior_shift_")
        arrays = {**arrays, **{name: getattr(self, name) for name in common if hasattr(self, name)}}
        if self._exponents is not None:
            arrays = {**arrays, "exponents": self._exponents}
        return state, {**arrays, "transduction_": codes}

    @classmethod
    def _from_parts(cls, params: dict[str, Any], state: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """Return the fitted model from the result of ``_to_parts``; ``state`` also has the classes and the columns."""
        model = cls(**params)
        model.__dict__.update({name: state.pop(name) for name in COMMON_ATTRIBUTES if name in state})
        if not (isinstance(model.n_features_in_, int) and 0 < model.n_features_in_ <= 1 << 24):
            raise ModelFileError(f"the model has {model.n_features_in_!r} features. Save it again.")
        c = len(model.classes_)
        codes = checked_codes(arrays, "transduction_", c)
        model._set_transduction(codes)
        if "label_distributions_" in arrays:
            model.label_distributions_ = checked_array(arrays, "label_distributions_", (len(codes), c), "f")
        if "prior_shift_" in arrays:
            model.prior_shift_ = checked_array(arrays, "prior_shift_", (c,), "f")
        if "exponents" in arrays:
            model._exponents = checked_array(arrays, "exponents", (None,), "i")
        model._restore(state, arrays)
        model._check_restored()
        return model

    def _check_restored(self) -> None:
        """Raise unless the restored model gives probabilities to a row."""
        message = f"the model gives a row no probabilities of its {len(self.classes_)} classes. Save it again."
        try:
            p = check_probabilities(self._probabilities(self._row_of_zeros()))
            check_probabilities(getattr(self, "label_distributions_", p))
        except DataError:
            raise ModelFileError(message) from None
        if p.shape != (1, len(self.classes_)):
            raise ModelFileError(message)

    def _row_of_zeros(self) -> Array:
        return np.zeros((1, self.n_features_in_))


class UnweightedClassifier(Classifier):
    """A classifier for which weights of rows make no sense."""

    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Fit to partly labelled rows, given as to :meth:`Classifier.fit`, but without weights."""
        return self.fit_rows(self.training_rows(X, y))


class WithPriors(Classifier):
    """A classifier with the setting ``priors``: the shares of the classes, where they are known.

    Probabilities are multiplied by a factor for each class such that their means over the unlabelled rows are these
    shares.

    Attributes
    ----------
    prior_shift_ : array (c,)
        Logarithms of the factors of the classes, with ``priors`` only.
    """

    priors: Mapping[Any, float] | None

    def _check_with_classes(self) -> None:
        self._shares()

    def _shares(self) -> Array | None:
        """Return the known shares in the order of the classes, if there are any."""
        return None if self.priors is None else check_priors(self.priors, self.classes_)

    def _shift_to_priors(self, p: Array, rows: TrainingRows) -> Array:
        """Find the factors from the probabilities of the training rows; return these, corrected."""
        shares = self._shares()
        if shares is not None:
            self.prior_shift_ = shift_to_shares(shares, p, rows)
        return self._shifted(p)

    def _shifted(self, p: Array) -> Array:
        return shifted(p, self.prior_shift_) if hasattr(self, "prior_shift_") else p


def shift_to_shares(shares: Array, p: Array, rows: TrainingRows) -> Array:
    """Return the logarithms of factors for which mean probabilities of the unlabelled rows are the shares."""
    return shift_of_logs(shares, np.log(np.maximum(p[rows.unlabeled], 1e-30)), rows)


def shift_of_logs(shares: Array, log_p: Array, rows: TrainingRows) -> Array:
    """Return the same from the log probabilities of the unlabelled rows, up to a constant per row."""
    pool, labeled = rows.unlabeled, rows.labeled
    return prior_shift(shares, log_p, rows.weight[pool], rows.codes[labeled], rows.weight[labeled])
