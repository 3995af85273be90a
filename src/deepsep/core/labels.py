"""Tell labelled from unlabelled rows (None, NaN, pd.NA, or -1 among integers), and encode the labels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from deepsep.core.notices import warn
from deepsep.errors import LabelError, LabelWarning

Array = NDArray[Any]

DISGUISED = {"", "-1", "?", "nan", "none", "null", "na", "n/a", "<na>", "missing", "unlabelled", "unlabeled", "unknown"}
IDENTIFIERS = 100  # number of labels from which "all different" means identifiers


@dataclass(frozen=True)
class Labels:
    """Labels as codes.

    Attributes
    ----------
    codes : array (n,) of int
        Index into ``classes``; -1 for an unlabelled row.
    classes : array (c,)
        The distinct labels, sorted.
    """

    codes: Array
    classes: Array

    @property
    def labelled(self) -> Array:
        """Which rows have a label."""
        return self.codes >= 0


def read_labels(y: Any) -> Labels:
    """Tell labelled from unlabelled rows and encode the labels.

    None, NaN and pd.NA mark an unlabelled row. So does -1 among integers (or whole-number floats), unless one of these
    occurs too. Strings are always labels, even "" and "nan".

    Parameters
    ----------
    y : array-like of shape (n,)
        Strings, integers, whole-number floats or booleans.

    Returns
    -------
    Labels
        Codes and classes; at least one row has a label.

    Examples
    --------
    >>> read_labels(["gold", None, "blue", "gold"]).codes
    array([ 1, -1,  0,  1])
    >>> read_labels([0, 1, -1, 1]).codes
    array([ 0,  1, -1,  1])
    """
    values = _as_array(y)
    missing = _missing(values)
    given = _one_type(values[~missing])
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool(np.all(given == np.floor(given))))
    if whole and given.size and (given == -1).any():
        if missing.any():
            raise LabelError(
                f"y marks {int(missing.sum())} unlabelled rows with None or NaN, and also has the value -1 in "
                f"{int((given == -1).sum())} rows (the first is row {_first(~missing, given == -1)}). If -1 is a "
                "class, rename it (for example to a string); if it means unlabelled, use the same mark for all."
            )
        if np.isin(given, (-1, 1)).all() and (given == 1).any():
            raise LabelError(
                "y has the values -1 and 1 only. -1 marks unlabelled rows, so the class -1 would vanish. For two "
                "classes, rename them (for example 0 and 1, or strings); for one class and unlabelled rows, there is "
                "nothing to distinguish: add labels of a second class."
            )
        missing = values == -1
        given = given[given != -1]
    if not given.size:
        raise LabelError(
            f"none of the {len(values)} rows has a label: every entry is {values[0]!r}. Give a label to at least one "
            "row of each class."
            if len(values)
            else "y is empty. Pass one entry per row of X."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # expected with few labels
        check_classification_targets(given)
    classes, inverse = np.unique(given, return_inverse=True)
    codes = np.full(len(values), -1)
    codes[~missing] = inverse
    _warn_of_disguised_marks(classes, inverse)
    for names in alike(classes):
        warn(
            f"the labels {', '.join(map(repr, names))} differ only in case or spaces, and are treated as different "
            "classes. If they are one class, write them alike.",
            LabelWarning,
        )
    return Labels(codes, classes)


def as_labels(y: Any) -> Labels:
    """Return ``y`` if it is Labels already, otherwise read it."""
    return y if isinstance(y, Labels) else read_labels(y)


def _warn_of_disguised_marks(classes: Array, inverse: Array) -> None:
    """Warn of a class whose name usually means "no label"."""
    if classes.dtype.kind not in "OU":
        return
    for k, name in enumerate(classes):
        if str(name).strip().lower() in DISGUISED:
            warn(
                f"{int((inverse == k).sum())} rows have the label {name!r}, which is treated as a class like any "
                "other. If it means that there is no label, use None instead.",
                LabelWarning,
            )


def alike(classes: Array) -> list[list[str]]:
    """Return groups of labels that differ only in case or spaces.

    Examples
    --------
    >>> alike(np.array(["Gold", "blue", "gold "]))
    [['Gold', 'gold ']]
    """
    groups: dict[str, list[str]] = {}
    for name in classes.tolist():
        if isinstance(name, str):
            groups.setdefault("".join(name.split()).casefold(), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def need_two_classes(labels: Labels) -> None:
    """Raise if the labels have only one class; warn if every labelled row has its own."""
    if len(labels.classes) < 2:
        raise LabelError(
            f"all {int(labels.labelled.sum())} labelled rows belong to one class, {labels.classes[0]!r}. "
            "A classifier needs labels of at least two classes."
        )
    n = int(labels.labelled.sum())
    if len(labels.classes) == n >= IDENTIFIERS:
        warn(
            f"all {n} labels differ ({labels.classes.tolist()[:2]} ...): that looks like an identifier, "
            "not a class. Pass the column of classes, or label several rows of each.",
            LabelWarning,
        )


def _as_array(y: Any) -> Array:
    """Return y as a 1-d array; pandas' nullable and categorical columns become objects."""
    if y is None:
        raise LabelError("This estimator requires y to be passed, but the target y is None.")
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    if categories is not None:
        unseen = [name for name in categories if not (y == name).any()]
        if unseen:
            warn(
                f"no row is labelled {', '.join(map(repr, unseen[:5]))}, which y has as a category: it will never "
                "be predicted. Label some rows of it, or drop it with y.cat.remove_unused_categories().",
                LabelWarning,
            )
    if hasattr(y, "dtype") and not isinstance(y.dtype, np.dtype) and hasattr(y, "to_numpy"):
        y = y.to_numpy(dtype=object)
    elif isinstance(y, list | tuple) and any(not isinstance(v, int | float | np.number) for v in y):
        y = np.array([*y, None], dtype=object)[:-1]  # keep the types: NumPy would turn [1, "a", None] into strings
    values = np.asarray(y)
    if values.dtype.kind in "Mm":
        raise LabelError(
            "Unknown label type: y holds dates or durations. Labels must be strings, integers or booleans."
        )
    return np.asarray(column_or_1d(values, warn=True))


def _missing(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), bool)
    # None and pd.NA by name, NaN as the value that differs from itself (and without importing pandas).
    return np.fromiter(
        (
            v is None or type(v).__name__ in ("NAType", "NaTType") or (isinstance(v, float | np.floating) and v != v)
            for v in values
        ),
        dtype=bool,
        count=len(values),
    )


def _one_type(given: Array) -> Array:
    """Return labels as an array of strings, booleans or numbers, or raise if they mix types."""
    if given.dtype.kind != "O":
        if given.dtype.kind == "f" and np.isinf(given).any():
            raise LabelError("Input y contains infinity. Labels must be strings, integers or booleans.")
        return given
    kinds = {
        "text" if isinstance(v, str) else "true/false" if isinstance(v, bool | np.bool) else "number" for v in given
    }
    if len(kinds) > 1:
        raise LabelError(
            f"y mixes labels of different types ({' and '.join(sorted(kinds))}), for example "
            f"{' and '.join(repr(next(v for v in given if type(v) is t)) for t in dict.fromkeys(map(type, given)))}. "
            "Use one type for the labels, and None for unlabelled rows."
        )
    if kinds == {"text"} or not kinds:
        return given
    plain = np.array(list(given))
    if plain.dtype.kind not in "biuf":
        raise LabelError(
            f"Unknown label type: {type(given[0]).__name__} (for example {given[0]!r}). "
            "Labels must be strings, integers or booleans."
        )
    return plain


def _first(mask: Array, inner: Array) -> int:
    return int(np.flatnonzero(mask)[np.flatnonzero(inner)[0]])
