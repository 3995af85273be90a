"""Check what users pass in, and who calls, with messages that name the value, the place and the next step."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from numbers import Integral, Real
from types import FrameType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from deepsep.core.arrays import Array
from deepsep.core.labels import Labels, given_labels
from deepsep.errors import DataError, DeepSepWarning, LabelError, LabelWarning, ParameterError, shown, warn


def require(model: Any, name: str, holds: bool, wanted: str) -> None:
    """Raise an error that names the setting and its value, unless the condition holds."""
    if not holds:
        raise ParameterError(f"{type(model).__name__}: {name}={shown(getattr(model, name))}; pass {wanted}.")


def private_generator(random_state: Any) -> np.random.Generator:
    """Return a new random generator, which never uses NumPy's global state."""
    if random_state is None:
        return np.random.default_rng()
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def is_number(value: Any) -> bool:
    """Return whether a setting is a finite number and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))


def is_integer(value: Any, least: int) -> bool:
    """Return whether a setting is an integer of at least ``least``."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def check_finite(X: Any, names: Any = None) -> None:
    """Raise if X has NaN or infinity, with the place of the first one."""
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sparse.issparse(X):
        first = int(np.flatnonzero(bad)[0])
        row, column = int(np.searchsorted(X.indptr, first, side="right") - 1), int(X.indices[first])
        value = values[first]
    else:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = X[row, column]
    what = "NaN" if np.isnan(value) else "infinity"
    where = f"column {column}" if names is None else f"column {shown(names[column])}"
    raise DataError(
        f"Input X contains {what}: {int(bad.sum())} values are not finite, the first in row {row}, {where}. Fill them "
        "in first, for example with sklearn.impute.SimpleImputer, or wrap the estimator with deepsep.for_table."
    )


def check_not_constant(X: Any, names: Any = None, *, chunk: int = 4_096) -> None:
    """Raise if every feature is constant; warn if some are."""
    if sparse.issparse(X):
        constant = (X.max(axis=0).toarray() == X.min(axis=0).toarray()).ravel()
    else:
        constant = np.ones(X.shape[1], bool)
        for start in range(0, len(X), chunk):  # most columns already vary in the first rows
            block = X[start : start + chunk, constant]
            constant[constant] = (block == X[0, constant]).all(axis=0)
            if not constant.any():
                return
    if not constant.any():
        return
    where = np.flatnonzero(constant)
    listed = ", ".join(str(i) if names is None else shown(names[i]) for i in where[:5])
    listed += ", ..." if where.size > 5 else ""
    if constant.all():
        raise DataError(
            f"all {X.shape[1]} features are constant (column {listed}), so rows cannot be distinguished. Pass features "
            "that vary between rows."
        )
    warn(
        f"{where.size} of {X.shape[1]} features are constant (column {listed}) and have no influence; drop them.",
        DeepSepWarning,
    )


def check_priors(priors: Mapping[Any, float], classes: Array) -> Array:
    """Return the class shares in the order of the classes, or raise."""
    if not isinstance(priors, Mapping):
        raise ParameterError(f"priors={shown(priors)}; pass a dict {{class: share}}.")
    known = classes.tolist()
    unknown = [name for name in priors if name not in known]
    absent = [name for name in known if name not in priors]
    if unknown or absent:
        raise ParameterError(
            "priors must name every class once: "
            + (f"{shown(unknown)} not among the classes {shown(known)}" if unknown else f"{shown(absent)} missing")
            + (f", {shown(absent)} missing." if unknown and absent else ".")
        )
    shares = np.array([priors[name] for name in known], dtype=np.float64)
    if not (np.isfinite(shares).all() and (shares > 0).all() and (shares < 1).all()):
        wrong = known[int(np.argmax(~((shares > 0) & (shares < 1))))]
        raise ParameterError(f"priors[{shown(wrong)}]={shown(priors[wrong])}; pass a share between 0 and 1.")
    if abs(shares.sum() - 1) > 1e-6:
        raise ParameterError(f"priors sum to {shares.sum():.6g}, not to 1. Divide each share by their sum.")
    return np.asarray(shares / shares.sum())  # sum exactly 1: probabilities are later fitted to have this mean


def row_weights(X: Any, sample_weight: Any) -> Array:
    """Return the weights of the rows, 1 each if none are given, or raise if they are not numbers of at least 0."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def check_weights(X: Any, sample_weight: Any, labels: Labels) -> Array:
    """Return the weights of the rows, or raise if a class has weight 0; warn if a class has one labelled row."""
    weight = row_weights(X, sample_weight)
    per_class = np.bincount(labels.codes[labels.labeled], weights=weight[labels.labeled])
    if (per_class == 0).any():
        absent = shown(labels.classes[per_class.argmin()])
        raise ParameterError(
            f"every labelled row of class {absent} has sample_weight 0, as if the rows were absent. Give them a "
            "positive weight, or remove their labels."
        )
    single = np.bincount(labels.codes[labels.labeled & (weight > 0)]) == 1
    if single.any():
        names = ", ".join(map(shown, labels.classes[single]))
        warn(
            f"only one labelled row for class {names}: its boundary rests on that row alone. Label a few more.",
            LabelWarning,
        )
    return weight


def check_numeric(X: Any, cure: str) -> None:
    """Raise if a table has columns that are not numeric, naming them and the cure."""
    dtypes = getattr(X, "dtypes", None)
    columns = getattr(X, "columns", None)
    if dtypes is None or columns is None:
        return
    kinds = {str(name): getattr(dtype, "kind", None) for name, dtype in zip(columns, list(dtypes), strict=False)}
    other = [name for name, kind in kinds.items() if kind is not None and kind not in "biuf"]
    if other:
        listed = ", ".join(map(shown, other[:5])) + (", ..." if len(other) > 5 else "")
        raise DataError(
            f"could not convert {len(other)} of {len(columns)} columns to numbers: {listed}. Wrap the estimator with "
            f"{cure}, which encodes categories, dates and text."
        )


def check_wrappers() -> None:
    """Raise if this fit is part of a scikit-learn wrapper that treats the mark of unlabelled rows as a class.

    VotingClassifier, StackingClassifier, CalibratedClassifierCV, BaggingClassifier and OneVsRestClassifier note the
    classes of ``y`` before they fit their parts, so the mark is among them.
    """
    for frame in _sklearn_frames():
        wrapper = frame.f_locals.get("self")
        classes = getattr(wrapper, "__dict__", {}).get("classes_")
        if isinstance(classes, np.ndarray) and classes.ndim == 1 and not given_labels(classes)[0].all():
            raise LabelError(
                f"{type(wrapper).__name__} treats the mark of unlabelled rows as a class, so its predictions "
                "would be wrong. It cannot be fitted to partly labelled rows. Fit the models themselves, and average "
                "their predict_proba; for probabilities of labelled rows that a model has not seen, use "
                "deepsep.out_of_fold(model, X, y)."
            )


def called_from(function: str) -> bool:
    """Return whether a function of scikit-learn is among the callers."""
    return any(frame.f_code.co_name == function for frame in _sklearn_frames())


def _sklearn_frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn."):
            yield frame
        frame = frame.f_back


def with_fields(function: str, given: Mapping[str, Any], *settings: Any) -> tuple[Any, ...]:
    """Return instances of dataclasses with the fields that were given by name, or raise if none has such a field.

    Examples
    --------
    >>> from deepsep.table.reading_settings import Reading
    >>> with_fields("read_table", {"skip_rows": 2}, Reading(delimiter=";"))[0].skip_rows
    2
    >>> with_fields("read_table", {"skip_row": 2}, Reading())
    Traceback (most recent call last):
    ...
    TypeError: read_table() has no argument 'skip_row'; did you mean 'skip_rows'?
    """
    names = [{field.name for field in fields(each)} for each in settings]
    known = set().union(*names)
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), 1)
            raise TypeError(f"{function}() has no argument {name!r}{f'; did you mean {close[0]!r}?' if close else ''}")
    return tuple(
        replace(each, **{name: value for name, value in given.items() if name in own})
        for each, own in zip(settings, names, strict=True)
    )
