"""Tell labelled from unlabelled rows (None, NaN, pd.NA, or -1 among integers), and encode the labels."""

from __future__ import annotations

import unicodedata
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from deepsep.core.arrays import Array
from deepsep.errors import LabelError, LabelWarning, shown, warn

DISGUISED_MARKS = {
    *("", "-1", "?", "nan", "none", "null", "na", "n/a", "<na>"),
    *("missing", "unlabelled", "unlabeled", "unknown"),
}
MIN_IDENTIFIERS = 100  # this many labels, all different, look like identifiers


@dataclass(frozen=True)
class Labels:
    """Labels as codes."""

    codes: Array  # (n,): index into ``classes``; -1 for an unlabelled row
    classes: Array  # (c,): the distinct labels, sorted

    @property
    def labeled(self) -> Array:
        """Mask (n,) of the rows that have a label."""
        return self.codes >= 0


def read_labels(y: Any) -> Labels:
    """Tell labelled from unlabelled rows and encode the labels.

    None, NaN and pd.NA mark an unlabelled row. So does -1 among integers (or whole-number floats), unless one of these
    occurs too. Strings are always labels, even "" and "nan".

    Examples
    --------
    >>> read_labels(["gold", None, "blue", "gold"]).codes
    array([ 1, -1,  0,  1])
    >>> read_labels([0, 1, -1, 1]).codes
    array([ 0,  1, -1,  1])
    """
    values = _as_array(y)
    _warn_of_unused_categories(y)
    missing = _missing(values)
    given = _one_type(values[~missing])
    marked = _is_mark(given)
    if marked.any():
        if missing.any():
            raise LabelError(
                f"y marks {int(missing.sum())} unlabelled rows with None or NaN, and also has the value -1 in "
                f"{int(marked.sum())} rows (the first is row {_first(~missing, marked)}). If -1 is a "
                "class, rename it (for example to a string); if it means unlabelled, use the same mark for all."
            )
        if np.isin(given, (-1, 1)).all() and (given == 1).any():
            raise LabelError(
                "y has the values -1 and 1 only. -1 marks unlabelled rows, so the class -1 would vanish. For two "
                "classes, rename them (for example 0 and 1, or strings); for one class and unlabelled rows, there is "
                "nothing to distinguish: add labels of a second class."
            )
        missing, given = marked, given[~marked]
    if not given.size:
        raise LabelError(
            f"none of the {len(values)} rows has a label: every entry is {shown(values[0])}. Give a label to at least "
            "one row of each class."
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
            f"the labels {', '.join(map(repr, names))} differ only in case, blanks or accents, and are treated as "
            "different classes. If they are one class, write them alike.",
            LabelWarning,
        )
    return Labels(codes, classes)


def given_labels(y: Any) -> tuple[Array, Array]:
    """Return a mask of the labelled rows, and their labels, by the marks of :func:`read_labels`.

    For labels to compare predictions with: there may be none, or of one class only.
    """
    values = _as_array(y)
    missing = _missing(values)
    given = _one_type(values[~missing])
    marked = _is_mark(given)
    missing[~missing] = marked
    return ~missing, given[~marked]


def codes_of(classes: Array, labels: Array) -> Array:
    """Return the indices of labels among the classes, in any order: those of a renamed model are not sorted.

    Examples
    --------
    >>> codes_of(np.array(["low", "high"]), np.array(["high", "low", "low"]))
    array([1, 0, 0])
    """
    order = np.argsort(classes, kind="stable")
    return np.asarray(order[np.searchsorted(classes, labels, sorter=order)])


def as_labels(y: Any) -> Labels:
    """Return ``y`` if it is Labels already, otherwise read it."""
    return y if isinstance(y, Labels) else read_labels(y)


def _warn_of_disguised_marks(classes: Array, inverse: Array) -> None:
    """Warn of a class whose name usually means "no label"."""
    if classes.dtype.kind not in "OU":
        return
    for k, name in enumerate(classes):
        if str(name).strip().lower() in DISGUISED_MARKS:
            warn(
                f"{int((inverse == k).sum())} rows have the label {shown(name)}, which is treated as a class like any "
                "other. If it means that there is no label, use None instead.",
                LabelWarning,
            )


def folded(name: str) -> str:
    """Return a name without case, blanks and accents.

    Examples
    --------
    >>> folded("Café Crème ")
    'cafecreme'
    """
    accents = range(0x300, 0x370)
    plain = (mark for mark in unicodedata.normalize("NFD", name.casefold()) if ord(mark) not in accents)
    return "".join("".join(plain).split())


def alike(classes: Array) -> list[list[str]]:
    """Return groups of labels that differ only in case, blanks or accents.

    Examples
    --------
    >>> alike(np.array(["Gold", "blue", "gold "]))
    [['Gold', 'gold ']]
    """
    groups: dict[str, list[str]] = {}
    for name in classes.tolist():
        if isinstance(name, str):
            groups.setdefault(folded(name), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def need_two_classes(labels: Labels) -> None:
    """Raise if the labels have only one class; warn if every labelled row has its own."""
    n = int(labels.labeled.sum())
    if len(labels.classes) < 2:
        one = shown(labels.classes[0])
        rows = f"all {n} labelled rows belong to one class, {one}" if n > 1 else f"there is one labelled row, of {one}"
        raise LabelError(f"{rows}. A classifier needs labels of at least two classes.")
    if len(labels.classes) == n >= MIN_IDENTIFIERS:
        warn(
            f"all {n} labels differ ({', '.join(map(shown, labels.classes[:2]))} ...): that looks like an identifier, "
            "not a class. Pass the column of classes, or label several rows of each.",
            LabelWarning,
        )


def _as_array(y: Any) -> Array:
    """Return y as a 1-d array; columns of other libraries' types become objects where values are missing."""
    if y is None:
        raise LabelError("This estimator requires y to be passed, but the target y is None.")
    if hasattr(y, "to_pylist"):  # pyarrow
        y = y.to_pylist()
    elif hasattr(y, "dtype") and not isinstance(y.dtype, np.dtype):  # polars, or a nullable or categorical column
        y = list(y)
    if isinstance(y, list | tuple) and any(not isinstance(v, int | float | np.number) for v in y):
        y = np.array([*y, None], dtype=object)[:-1]  # keep the types: NumPy would turn [1, "a", None] into strings
    values = np.asarray(y)
    if values.dtype.kind in "Mm":
        raise LabelError(
            "Unknown label type: y holds dates or durations. Labels must be strings, integers or booleans."
        )
    return np.asarray(column_or_1d(values, warn=True))


def _warn_of_unused_categories(y: Any) -> None:
    """Warn of categories of a pandas column that no row has."""
    if type(getattr(y, "dtype", None)).__name__ != "CategoricalDtype":
        return
    unseen = [name for name in y.dtype.categories if not (y == name).any()]
    if unseen:
        warn(
            f"no row is labelled {', '.join(map(shown, unseen[:5]))}, which y has as a category: it will never "
            "be predicted. Label some rows of it, or drop it with y.cat.remove_unused_categories().",
            LabelWarning,
        )


def _is_mark(given: Array) -> Array:
    """Return a mask of the labels that are -1 among whole numbers, the mark of an unlabelled row."""
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool(np.all(given == np.floor(given))))
    return np.asarray(given == -1) if whole else np.zeros(len(given), bool)


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
            f"{' and '.join(shown(next(v for v in given if type(v) is t)) for t in dict.fromkeys(map(type, given)))}. "
            "Use one type for the labels, and None for unlabelled rows."
        )
    if kinds == {"text"} or not kinds:
        return given
    plain = np.array(list(given))
    if plain.dtype.kind not in "biuf":
        raise LabelError(
            f"Unknown label type: {type(given[0]).__name__} (for example {shown(given[0])}). "
            "Labels must be strings, integers or booleans."
        )
    return plain


def _first(mask: Array, inner: Array) -> int:
    return int(np.flatnonzero(mask)[np.flatnonzero(inner)[0]])
