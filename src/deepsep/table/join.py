"""Join the labels of a few rows to the table of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from deepsep.core.notices import warn
from deepsep.errors import DataError, Setting, shown
from deepsep.table.column_types import labels_of
from deepsep.table.columns import as_frame, key_text
from deepsep.table.drawn import DRAWN_COLUMN, read_drawn
from deepsep.table.locations import find_column

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
    found = match(people, given, on=on, label=label, weight=weight)
    frame = people.copy()
    frame[label] = labels_of(found.labels, typed=True)
    if weight is not None:
        frame[weight] = found.weights.where(frame[label].notna(), 1.0)
    if found.drawn is not None:
        frame[DRAWN_COLUMN] = found.drawn.where(found.drawn.notna(), own_origins(frame))
    return frame, {
        "label": label,
        "weight": weight,
        "rows": len(frame),
        "labelled": int(frame[label].notna().sum()),
        **found.summary,
    }


@dataclass(frozen=True)
class Matched:
    """Labels of another table, found for the rows of this one.

    Attributes
    ----------
    labels : Series
        The label of each row; missing where there is none.
    weights : Series
        The weight of each label, 1 without weights; missing where there is no label.
    drawn : Series or None
        How each label was drawn, None where it is unknown; None if the other table does not say.
    summary : dict
        ``unmatched`` (labels without a row) with ``unmatched_examples``, and ``duplicate_ids``.
    """

    labels: pd.Series[Any]
    weights: pd.Series[Any]
    drawn: pd.Series[Any] | None
    summary: dict[str, Any]


def match(people: pd.DataFrame, given: pd.DataFrame, *, on: str, label: str, weight: str | None = None) -> Matched:
    """Find the labels of a table for the rows of another one by identifier, with notices of what did not match."""
    find_column(people.columns, on, "population: id column")
    find_column(given.columns, on, "labels: id column")
    if weight is not None:
        find_column(given.columns, weight, "labels: weight column")
    words = read_drawn(given, is_label(given[label]), "labels")
    given = given.assign(_drawn=words)
    given = given[is_label(given[label])]
    if not len(given):
        raise DataError(
            f"the labels table has no label in column {label!r}. Name another column, or fill in the labels."
        )
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
            f"{some(given[on])} in the labels and {some(people[on])} in the population. Is it the right column?"
        )
    unmatched = by_id.loc[~known, on].tolist()
    if unmatched:
        warn(f"{len(unmatched)} of {len(by_id)} labels have no row in the population, such as {on} {some(unmatched)}.")
    duplicates = int((left.duplicated() & left.notna()).sum())
    if duplicates:
        example = people.loc[left.duplicated() & left.notna(), on].iloc[0]
        warn(
            f"{duplicates} rows of the population repeat an identifier, such as {on} {shown(example)}; all of them get "
            "its label."
        )
    weights = pd.Series(1.0, by_id.index) if weight is None else _weights(by_id[weight])
    summary = {
        "unmatched": len(unmatched),
        "unmatched_examples": [_python_value(value) for value in unmatched[:5]],
        "duplicate_ids": duplicates,
    }
    drawn = None if words is None else _without_nan(left.map(by_id["_drawn"]))
    return Matched(left.map(by_id[label]), left.map(weights), drawn, summary)


def own_origins(frame: pd.DataFrame) -> pd.Series[Any]:
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
            f"{some(column[numbers.isna()])}. Fill them in."
        )
    return numbers


def _label_column(labels: pd.DataFrame, on: str, label: str | None, weight: str | None) -> str:
    if label is not None:
        return find_column(labels.columns, label, "labels: label column")
    others = [name for name in labels.columns if name not in (on, weight, DRAWN_COLUMN)]
    usual = [name for name in USUAL_LABEL_NAMES if name in others]
    if len(usual) == 1 or len(others) == 1:
        return (usual or others)[0]
    raise DataError(
        f"which column of the labels table holds the label? It has {', '.join(map(repr, others))}. "
        "Name it with {label}.",
        label=Setting("label"),
    )


def _keys(left: pd.Series[Any], right: pd.Series[Any]) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """Return the identifiers of both tables as comparable text."""
    keys = [
        pd.Series([key_text(v) for v in column], index=column.index, dtype="str").str.strip()
        for column in (left, right)
    ]
    numeric = [pd.api.types.is_numeric_dtype(column) for column in (left, right)]
    if numeric[0] != numeric[1]:  # 7 in one table, "007" in the other
        text = keys[numeric.index(False)].dropna()
        if len(text) and text.str.fullmatch(r"\d+").all():
            short = text.str.lstrip("0").replace("", "0")
            if short.nunique() == text.nunique():
                keys = [key.str.lstrip("0").mask(key.str.fullmatch("0+"), "0") for key in keys]
    return keys[0], keys[1]


def some(values: Any) -> str:
    """Return the first three values, for a message."""
    return ", ".join(repr(_python_value(value)) for value in list(values)[:3])


def _python_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
