"""Add labels from another table to those that a table has already."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from deepsep.core.notices import warn
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.table.column_types import labels_of
from deepsep.table.columns import as_frame, key_text
from deepsep.table.drawn import DRAWN_COLUMN
from deepsep.table.join import is_label, match, own_origins, some
from deepsep.table.locations import find_column


def add_labels(
    table: Any,
    labels: Any,
    *,
    on: str,
    label: str,
    weight: str | None = None,
    prefer: Literal["new", "old"] | None = None,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Add labels from another table to the column of labels of a table, and report what was new.

    Every label that the table has stays, unless another one is preferred to it. Empty cells among the new labels mean
    nothing. Identifiers are compared as in :func:`join_labels`, labels as text: 1, 1.0 and "1" are one class.

    Parameters
    ----------
    table : DataFrame
        All rows, some of them with a label; their order is kept.
    labels : DataFrame
        Identifiers and labels, such as a filled-in file of ``deepsep next``. A column ``labels_drawn`` says how each
        label was drawn, "random", "quota" or "chosen", and is added to the table; other columns are ignored.
    on : str
        The column of identifiers, in both tables.
    label : str
        The column of labels, in both tables.
    weight : str, optional
        A column of ``labels`` with a weight for each. It is added to the table, and is 1 for all other rows.
    prefer : {"new", "old"}, optional
        Which label to use where the two tables contradict each other. None: an error.

    Returns
    -------
    frame : pandas.DataFrame
        The table with all labels.
    summary : dict
        As of :func:`join_labels`, with the numbers of rows whose label is ``new``, the ``same``, or ``contradictory``.

    Raises
    ------
    DataError
        If labels contradict each other and ``prefer`` is None, no identifier matches, or an identifier has two labels.

    Warns
    -----
    DeepSepWarning
        If labels have no row, identifiers repeat, or new labels are of classes that the table did not have.

    Examples
    --------
    >>> people = pd.DataFrame({"user": [1, 2, 3, 4], "segment": ["young", None, None, "old"]})
    >>> more = pd.DataFrame({"user": [1, 3, 2], "segment": ["young", "old", ""]})
    >>> frame, summary = add_labels(people, more, on="user", label="segment")
    >>> frame["segment"].tolist()
    ['young', nan, 'old', 'old']
    >>> summary["new"], summary["same"]
    (1, 1)
    """
    if prefer not in (None, "new", "old"):
        raise ParameterError("{prefer}; pass 'new', 'old' or None.", prefer=Setting("prefer", prefer))
    frame, given = as_frame(table).copy(), as_frame(labels)
    find_column(frame.columns, label, "label column")
    find_column(given.columns, label, "labels: label column")
    if weight in frame.columns:
        raise DataError(f"the table already has a column {weight!r}. Rename or drop it before adding the labels.")
    found = match(frame, given, on=on, label=label, weight=weight)
    old = frame[label].astype(object).where(is_label(frame[label]), None)
    new = _spelled(labels_of(found.labels, typed=True), old)
    had, has = old.notna(), new.notna()
    same = had & has & (old.map(key_text) == new.map(key_text))
    contradictory = had & has & ~same
    if contradictory.any() and prefer is None:
        raise DataError(_contradiction(frame[on], old, new, contradictory), prefer=Setting("prefer", "new"))
    taken = has & (~had if prefer != "new" else ~same)
    _warn_of_new_classes(old, new[taken])
    frame[label] = labels_of(pd.Series(old.where(~taken, new).tolist(), frame.index, name=label), typed=True)
    if weight is not None:
        frame[weight] = found.weights.where(taken | same, 1.0)
    if found.drawn is not None or DRAWN_COLUMN in frame.columns:
        frame[DRAWN_COLUMN] = _origins(own_origins(frame), found.drawn, used=taken | same, replaced=taken & had)
    return frame, {
        "label": label,
        "weight": weight,
        "rows": len(frame),
        "labelled": int((had | has).sum()),
        "new": int((has & ~had).sum()),
        "same": int(same.sum()),
        "contradictory": int(contradictory.sum()),
        **found.summary,
    }


def _origins(own: pd.Series[Any], new: pd.Series[Any] | None, *, used: Any, replaced: Any) -> pd.Series[Any]:
    """Return the origin of each label: that of a label that stays is known already, or the other table has it."""
    new = pd.Series([None] * len(own), own.index, dtype=object) if new is None else new
    own = own.where(~replaced, None)
    return own.where(own.notna() | ~used, new)


def _spelled(new: pd.Series[Any], old: pd.Series[Any]) -> pd.Series[Any]:
    """Return the new labels as the table writes them: 1 for "1" or 1.0, if its labels are numbers, and the reverse."""
    known = {key_text(value): value for value in old.dropna().unique()}
    as_text = bool(known) and all(isinstance(value, str) for value in known.values())
    result = new.astype(object).where(new.notna(), None)
    return result.map(lambda value: known.get(key_text(value), key_text(value) if as_text else value))


def _contradiction(ids: pd.Series[Any], old: pd.Series[Any], new: pd.Series[Any], rows: pd.Series[Any]) -> str:
    examples = [
        f"{name} ({before!r}, now {after!r})"
        for name, before, after in zip(ids[rows][:5], old[rows][:5], new[rows][:5], strict=True)
    ]
    more = f" and {int(rows.sum()) - 5} more" if rows.sum() > 5 else ""
    some = "1 new label contradicts" if rows.sum() == 1 else f"{int(rows.sum())} new labels contradict"
    text = f"{some} those of the table: {ids.name} {', '.join(examples)}{more}."
    return f"{text} Correct them, or say which to use: {{prefer}}, or old."


def _warn_of_new_classes(old: pd.Series[Any], new: pd.Series[Any]) -> None:
    known = set(old.dropna().map(key_text))
    unknown = new[~new.map(key_text).isin(known)]
    if known and len(unknown):
        warn(
            f"{len(unknown)} new labels are of classes that the table did not have: {some(unknown.unique())}. If these "
            "are typing errors, correct them."
        )
