"""Training rows in the form in which every method gets them: checked, with a class code and a weight for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from deepsep.core.arrays import Array
from deepsep.core.checks import check_finite, check_numeric, check_weights
from deepsep.core.label_origins import LabelOrigins, read_origins
from deepsep.core.labels import Labels, as_labels, need_two_classes
from deepsep.core.scaling import bound, divide
from deepsep.errors import DataError, ParameterError


@dataclass(frozen=True)
class Context:
    """The context of a fit."""

    # Called with (steps since the last call, loss) by a method that trains a network
    on_step: Callable[[int, float], object] | None = None
    # Called with (seconds of work done, seconds in all, description) by a method that fits others
    on_work: Callable[[float, float, str], object] | None = None
    folds: Any = None  # folds to use in place of a committee's own, such as those of a comparison
    is_part: bool = False  # whether the fit is part of a larger piece of work, which Ctrl-C must end as a whole
    # Whether only other rows will be predicted, as after a fit in a fold: the training rows then are not
    for_new_rows: bool = False


MAX_DENSE_BYTES = 2_000_000_000  # of sparse rows once they are dense


@dataclass(frozen=True)
class TrainingRows:
    """The training rows, in the user's order."""

    # (n, ...): finite numbers of ordinary size; sparse, or of more dimensions, only where the method accepts that
    X: Any
    codes: Array  # (n,): indices into the classes, -1 for an unlabelled row
    weight: Array  # (n,): a row of weight 0 counts as absent
    classes: Array  # (c,): the labels
    weighted: bool = False  # whether weights were given
    labels_drawn: LabelOrigins | None = None  # the origin of every label; None for a subset of other training rows
    columns: Array | None = None  # names of the columns; None without names, and for a subset of other training rows
    context: Context = field(default_factory=Context)  # of the fit to these rows

    @property
    def n_classes(self) -> int:
        """Number of classes, c."""
        return len(self.classes)

    @property
    def labels(self) -> Labels:
        """The codes with the classes."""
        return Labels(self.codes, self.classes)

    @property
    def matrix(self) -> Any:
        """X with all values of a row in one dimension."""
        return _as_matrix(self.X)

    @cached_property
    def labeled(self) -> Array:
        """Indices of the labelled rows with positive weight."""
        return np.flatnonzero((self.codes >= 0) & (self.weight > 0))

    @cached_property
    def unlabeled(self) -> Array:
        """Indices of the unlabelled rows with positive weight."""
        return np.flatnonzero((self.codes < 0) & (self.weight > 0))


def read_training_rows(
    model: Any, X: Any, y: Any, sample_weight: Any, labels_drawn: Any = None, **accept: Any
) -> TrainingRows:
    """Check rows, labels and weights for a model, and return them.

    ``accept`` goes to scikit-learn's validation: ``accept_sparse`` or ``allow_nd``.
    """
    X = _read_rows(model, X, ensure_min_samples=2, **accept)
    labels = as_labels(y)
    if len(labels.codes) != X.shape[0]:
        raise ParameterError(f"X has {X.shape[0]} rows and y has {len(labels.codes)} entries; they must match.")
    need_two_classes(labels)
    weight = check_weights(X, sample_weight, labels)
    origins = read_origins(labels_drawn, labels, known_shares=getattr(model, "priors", None) is not None)
    columns = getattr(model, "feature_names_in_", None)
    return TrainingRows(X, labels.codes, weight, labels.classes, sample_weight is not None, origins, columns)


def _read_rows(model: Any, X: Any, **accept: Any) -> Any:
    """Return the rows as a finite matrix of float64 or float32, or raise an error that names the column.

    Sparse rows become dense, in single precision where it holds them, unless ``accept`` has ``accept_sparse``.
    """
    if sparse.issparse(X) and not accept.get("accept_sparse"):
        X = _dense(model, X)
    try:
        rows = validate_data(model, X, dtype=[np.float64, np.float32], ensure_all_finite=False, **accept)
    except (TypeError, ValueError):
        check_numeric(X, "deepsep.for_table")  # names the columns, if they are the problem
        raise
    check_finite(_as_matrix(rows), getattr(model, "feature_names_in_", None))
    return rows


def _dense(model: Any, X: Any) -> Array:
    n, d = X.shape
    if 4 * n * d > MAX_DENSE_BYTES:
        raise DataError(
            f"X is sparse, and {type(model).__name__} needs it dense: {n:,} rows and {d:,} columns would take "
            f"{4 * n * d / 1e9:,.1f} GB, more than the {MAX_DENSE_BYTES / 1e9:g} GB that are allowed. Reduce the "
            "columns first, for example with sklearn.decomposition.TruncatedSVD(100), pass fewer rows at a time, or "
            "use a method that takes sparse rows as they are, such as TSVM."
        )
    size = np.abs(X.tocsr().data)
    holds = size.max(initial=0) < 1e30 and size.min(initial=1, where=size > 0) > 1e-30
    return np.asarray(X.astype(np.float32 if holds else np.float64).toarray())


def read_new_rows(model: Any, X: Any, **accept: Any) -> Any:
    """Return rows to predict as a finite matrix, in the units of the training rows, and none too large."""
    rows = _read_rows(model, X, reset=False, **accept)
    return bound(divide(_as_matrix(rows), model._exponents).reshape(rows.shape))


def _as_matrix(X: Any) -> Any:
    return X if sparse.issparse(X) or X.ndim == 2 else X.reshape(len(X), -1)


def fingerprint(X: Any, codes: Array, columns: Any = None) -> str:
    """Hash the shape, the type, the column names, every label and a sample of the values of a training set.

    The sample is at most 1,000 evenly spaced rows by 1,000 evenly spaced columns, so that it takes only
    milliseconds. The same data in another order has a different fingerprint of 32 hexadecimal digits.
    """
    n, m = X.shape
    names = None if columns is None else [str(name) for name in columns]
    digest = hashlib.sha256(repr((n, m, str(X.dtype), names)).encode("utf-8", "backslashreplace"))
    digest.update(codes.astype("<i8").tobytes())
    rows, some = _spaced(n), _spaced(m)
    sample = X[rows][:, some] if sparse.issparse(X) else X[np.ix_(rows, some)]
    sample = sample.toarray() if sparse.issparse(sample) else sample
    digest.update(sample.astype("<f8").tobytes())
    return digest.hexdigest()[:32]


def _spaced(n: int, most: int = 1_000) -> Array:
    return np.linspace(0, n - 1, min(n, most)).astype(int)
