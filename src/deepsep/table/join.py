"""Labels from another table, by identifier: joined to a table without labels, or added to those that it has.

A column may say how each label was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from deepsep.core.label_origins import LABEL_ORIGINS
from deepsep.errors import DataError, ParameterError, Setting, shown, warn
from deepsep.table.column_types import labels_of
from deepsep.table.columns import as_frame, key_text
from deepsep.table.locations import closest, find_column

DRAWN_COLUMN = "labels_drawn"  # the column in files of labels that deepsep writes
USUAL_LABEL_NAMES = ("segment", "label", "class")  # usual names of a column of labels


def join_labels(
    population: Any, labels: Any, *, on: str, label: str | None = None, weight: str | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Join labels to the table of a population by identifier, and report what did not match.

    Identifiers that are numbers in one table and text in the other are compared as text: 7, 7.0 and "7" are equal.
    "007" equals 7 only if all identifiers in the text column are digits that stay distinct without leading zeros.

    Parameters
    ----------
    population : DataFrame
        One row per person or other unit; the order of the rows is kept.
    labels : DataFrame
        Identifiers and labels, for example from a survey. If it has a column ``labels_drawn``, which says how each
        label was drawn ("random", "quota" or "chosen"), this is joined too.
    on : str
        The column of identifiers, in both tables.
    label : str, optional
        The column of labels. None: ``segment``, ``label`` or ``class``, or else the only other column.
    weight : str, optional
        A column of ``labels`` with a weight for each, such as the probability of the segment. It is joined too, and is
        1 for rows without a label.

    Returns
    -------
    frame : pandas.DataFrame
        The population with the column of labels, missing for unlabelled rows (and those of weights and origins).
    summary : dict
        ``label`` and ``weight`` (names of the new columns), ``rows``, ``labelled`` (rows with a label), ``unmatched``
        (labels without a row) with ``unmatched_examples``, and ``duplicate_ids`` (rows of the population that repeat
        an earlier identifier).

    Raises
    ------
    DataError
        If no identifier matches, an identifier has two labels, or a column is missing.

    Warns
    -----
    DeepSepWarning
        If labels have no row, or identifiers repeat.

    Examples
    --------
    >>> everyone = pd.DataFrame({"user": [1, 2, 3], "age": [20, 40, 60]})
    >>> survey = pd.DataFrame({"user": ["1", "3"], "segment": ["young", "old"]})
    >>> frame, summary = join_labels(everyone, survey, on="user")
    >>> frame["segment"].tolist()
    ['young', nan, 'old']
    >>> summary["labelled"]
    2
    """
    people, given = as_frame(population), as_frame(labels)
    label = _label_column(given, on, label, weight)
    for name in (label, weight):
        if name in people.columns:
            raise DataError(
                f"the population already has a column {name!r}. Rename or drop it before joining the labels, or add "
                "them to it with deepsep.table.add_labels."
            )
    found = _match(people, given, on=on, label=label, weight=weight)
    frame = people.copy()
    frame[label] = labels_of(found.labels, typed=True)
    if weight is not None:
        frame[weight] = found.weights.where(frame[label].notna(), 1.0)
    if found.drawn is not None:
        frame[DRAWN_COLUMN] = found.drawn.where(found.drawn.notna(), _own_origins(frame))
    return frame, {
        "label": label,
        "weight": weight,
        "rows": len(frame),
        "labelled": int(frame[label].notna().sum()),
        **found.summary,
    }


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
    found = _match(frame, given, on=on, label=label, weight=weight)
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
        own = _own_origins(frame).where(~(taken & had), None)  # those of the labels that stay
        frame[DRAWN_COLUMN] = own.where(own.notna() | ~(taken | same), found.drawn)
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


@dataclass(frozen=True)
class _Matched:
    """Labels of another table, found for the rows of this one."""

    labels: pd.Series[Any]  # the label of each row; missing where there is none
    weights: pd.Series[Any]  # the weight of each label, 1 without weights; missing where there is no label
    drawn: pd.Series[Any] | None  # how each label was drawn, None where unknown; None if the other table does not say
    summary: dict[str, Any]  # ``unmatched`` (labels without a row) with ``unmatched_examples``, and ``duplicate_ids``


def _match(people: pd.DataFrame, given: pd.DataFrame, *, on: str, label: str, weight: str | None = None) -> _Matched:
    """Find the labels of a table for the rows of another one by identifier, with notices of what did not match."""
    find_column(people.columns, on, "population: id column")
    find_column(given.columns, on, "labels: id column")
    if weight is not None:
        find_column(given.columns, weight, "labels: weight column")
    words = read_drawn(given, is_label(given[label]), "labels")
    given = given.assign(_drawn=words)[is_label(given[label])]
    if not len(given):
        cure = "Name another column, or fill in the labels."
        raise DataError(f"the labels table has no label in column {label!r}. {cure}")
    left, right = _keys(people[on], given[on])
    if right.isna().any():
        warn(f"{int(right.isna().sum())} labels have no {on!r} and are left out.")
        given, right = given[right.notna()], right.dropna()
    by_id = given.assign(_key=right.to_numpy())
    several = by_id.groupby("_key", sort=False)[label].nunique()
    if (several > 1).any():
        name = several.index[several > 1][0]
        conflicting = by_id.loc[by_id["_key"] == name, label].unique().tolist()[:3]
        raise DataError(
            f"{int((several > 1).sum())} identifiers in the labels have more than one label, such as {on} {name!r} "
            f"with {conflicting}. Keep one row per identifier."
        )
    repeated = int(by_id["_key"].duplicated().sum())
    if repeated:
        warn(f"{repeated} rows of the labels repeat an identifier with the same label; the first is used.")
    by_id = by_id.drop_duplicates("_key").set_index("_key")
    known = by_id.index.isin(left)
    if not known.any():
        raise DataError(
            f"none of the {len(by_id)} identifiers in the labels is in the population: {on!r} holds "
            f"{_some(given[on])} in the labels and {_some(people[on])} in the population. Is it the right column?"
        )
    unmatched = by_id.loc[~known, on].tolist()
    if unmatched:
        warn(f"{len(unmatched)} of {len(by_id)} labels have no row in the population, such as {on} {_some(unmatched)}.")
    duplicates = people.loc[left.duplicated() & left.notna(), on]
    if len(duplicates):
        warn(
            f"{len(duplicates)} rows of the population repeat an identifier, such as {on} {shown(duplicates.iloc[0])}; "
            "all of them get its label."
        )
    weights = pd.Series(1.0, by_id.index) if weight is None else _weights(by_id[weight])
    summary = {
        "unmatched": len(unmatched),
        "unmatched_examples": [value.item() if hasattr(value, "item") else value for value in unmatched[:5]],
        "duplicate_ids": len(duplicates),
    }
    drawn = None if words is None else _without_nan(left.map(by_id["_drawn"]))
    return _Matched(left.map(by_id[label]), left.map(weights), drawn, summary)


def _own_origins(frame: pd.DataFrame) -> pd.Series[Any]:
    """Return how the labels of a table were drawn, None where it does not say."""
    return _without_nan(frame.get(DRAWN_COLUMN, pd.Series(None, frame.index, dtype=object)))


def _without_nan(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(object).where(column.notna(), None)


def is_label(column: pd.Series[Any]) -> pd.Series[Any]:
    """Whether each cell holds a label; -1 among integers means unlabelled."""
    tidy = labels_of(column, typed=True)
    return tidy.notna() & (tidy != -1) if pd.api.types.is_integer_dtype(tidy) else tidy.notna()


def _weights(column: pd.Series[Any]) -> pd.Series[Any]:
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    if numbers.isna().any():
        raise DataError(
            f"column {column.name!r} of the labels must hold a weight for every label, but "
            f"{int(numbers.isna().sum())} of {len(numbers)} are not numbers, such as "
            f"{_some(column[numbers.isna()])}. Fill them in."
        )
    return numbers


def _label_column(labels: pd.DataFrame, on: str, label: str | None, weight: str | None) -> str:
    if label is not None:
        return find_column(labels.columns, label, "labels: label column")
    others = [name for name in labels.columns if name not in (on, weight, DRAWN_COLUMN)]
    usual = [name for name in USUAL_LABEL_NAMES if name in others]
    if len(usual) == 1 or len(others) == 1:
        return (usual or others)[0]
    has = ", ".join(map(repr, others))
    raise DataError(
        f"which column of the labels table holds the label? It has {has}. Name it with {{label}}.",
        label=Setting("label"),
    )


def _keys(left: pd.Series[Any], right: pd.Series[Any]) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """Return the identifiers of both tables as comparable text."""
    both = (left, right)
    keys = [pd.Series([key_text(v) for v in each], index=each.index, dtype="str").str.strip() for each in both]
    numeric = [pd.api.types.is_numeric_dtype(each) for each in both]
    if numeric[0] != numeric[1]:  # 7 in one table, "007" in the other
        text = keys[numeric.index(False)].dropna()
        if len(text) and text.str.fullmatch(r"\d+").all():
            short = text.str.lstrip("0").replace("", "0")
            if short.nunique() == text.nunique():
                keys = [key.str.lstrip("0").mask(key.str.fullmatch("0+"), "0") for key in keys]
    return keys[0], keys[1]


def _some(values: Any) -> str:
    """Return the first three values, for a message."""
    return ", ".join(map(shown, list(values)[:3]))


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
    many = "1 new label contradicts" if rows.sum() == 1 else f"{int(rows.sum())} new labels contradict"
    text = f"{many} those of the table: {ids.name} {', '.join(examples)}{more}."
    return f"{text} Correct them, or say which to use: {{prefer}}, or old."


def _warn_of_new_classes(old: pd.Series[Any], new: pd.Series[Any]) -> None:
    known = set(old.dropna().map(key_text))
    unknown = new[~new.map(key_text).isin(known)]
    if known and len(unknown):
        warn(
            f"{len(unknown)} new labels are of classes that the table did not have: {_some(unknown.unique())}. If "
            "these are typing errors, correct them."
        )


# -- how labels were drawn -----------------------------------------------------------------------------------------


def word_or_column(given: str, names: Sequence[str], where: str) -> tuple[str | None, str | None]:
    """Return an origin for all labels, or the column of these tables that has that of each, or raise if it is neither.

    Examples
    --------
    >>> word_or_column("quota", ["age", "how"], "people.csv"), word_or_column("how", ["age", "how"], "people.csv")
    (('quota', None), (None, 'how'))
    """
    if given.strip().lower() in LABEL_ORIGINS:
        return given.strip().lower(), None
    if given in names:
        return None, given
    similar = closest(given, [*LABEL_ORIGINS, *names])
    hint = "" if similar is None else f"; did you mean {similar!r}?"
    raise ParameterError(
        f"{{drawn}}: this is neither an origin of all labels, which is {_listed()}, nor a column of {where}{hint}",
        drawn=Setting(DRAWN_COLUMN, given),
    )


def read_drawn(table: pd.DataFrame, labeled: Any, where: str, *, named: str | None = None) -> pd.Series[Any] | None:
    """Return the origin of each label as a word, None where it is unknown; None without a column for it.

    The origins are in the column ``named``; where it is empty, ``labels_drawn`` counts. Those of unlabelled rows are
    not checked.

    Examples
    --------
    >>> read_drawn(pd.DataFrame({"labels_drawn": ["random", "", "Chosen"]}), [True] * 3, "people").tolist()
    ['random', None, 'chosen']
    """
    columns = {name: table[name].map(_word).astype(object) for name in (named, DRAWN_COLUMN) if name in table.columns}
    if not columns:
        return None
    words = pd.Series([None] * len(table), table.index, dtype=object)
    for name, own in columns.items():
        bad = np.asarray(labeled, bool) & (own.notna() & ~own.isin(LABEL_ORIGINS)).to_numpy()
        if bad.any():
            row = int(bad.argmax())
            raise DataError(
                f"{where}: column {name!r}: row {row + 1} has {table[name].iloc[row]!r}, which is not an origin of "
                f"labels. Write {_listed()}; leave the cell empty if you do not know."
            )
        words = words.where(words.notna(), own)
    return words.where(words.isin(LABEL_ORIGINS), None)


def _word(cell: Any) -> str | None:
    """Return a cell as a word; None if it is empty."""
    return None if pd.isna(cell) else str(cell).strip().lower() or None


def _listed() -> str:
    return "'random' (rows drawn at random), 'quota' (a fixed number of each class) or 'chosen' (for any other reason)"
