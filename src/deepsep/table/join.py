"""The labels of a few, joined to the table of everyone."""

from __future__ import annotations

from typing import Any

import pandas as pd

from deepsep.core.notices import warn
from deepsep.errors import DataError, Setting
from deepsep.table.column_types import labels_of
from deepsep.table.columns import as_frame, key_text
from deepsep.table.locations import find_column

USUAL = ("segment", "label", "class")  # names that a column of labels has


def join_labels(
    population: Any, labels: Any, *, on: str, label: str | None = None, weight: str | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the population with the labels of those who have one, and what did not fit.

    Identifiers that are numbers in one table and text in the other are compared as text: 7, 7.0 and "7" are the same,
    "007" is another unless all of them are numbers with leading zeros.

    Parameters
    ----------
    population : DataFrame
        One row a unit; its order is kept.
    labels : DataFrame
        Who has which label, for example from a survey.
    on : str
        The column of identifiers, in both.
    label : str, optional
        The column of labels. None: ``segment``, ``label`` or ``class``, or else the only other column.
    weight : str, optional
        A column of ``labels`` with the weight of each, such as the certainty of the segment. It is joined too, and is
        1 for rows without a label.

    Returns
    -------
    frame : pandas.DataFrame
        The population and the column of labels, missing where there is none (and that of weights).
    summary : dict
        ``label`` and ``weight`` (names of the new columns), ``rows``, ``labelled`` (rows that have got a label),
        ``unmatched`` (labels without a row) with ``unmatched_examples``, and ``duplicate_ids`` (rows of the population
        that share their identifier with an earlier one).

    Raises
    ------
    DataError
        If no identifier matches, one has two labels, or a column is missing.

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
    find_column(people.columns, on, "population: id column")
    find_column(given.columns, on, "labels: id column")
    label = _label_column(given, on, label, weight)
    added = [label]
    if weight is not None:
        find_column(given.columns, weight, "labels: weight column")
        added.append(weight)
    for name in added:
        if name in people.columns:
            raise DataError(
                f"the population has a column {name!r} already. Rename or drop it before joining the labels."
            )
    given = given[_is_label(given[label])]
    if not len(given):
        raise DataError(f"the labels have no label in column {label!r}.")
    left, right = _keys(people[on], given[on])
    if right.isna().any():
        warn(f"{int(right.isna().sum())} labels have no {on!r} and are left out.")
        given, right = given[right.notna()], right.dropna()
    by_id = given.assign(_key=right.to_numpy())
    several = by_id.groupby("_key", sort=False)[label].nunique()
    if (several > 1).any():
        name = several.index[several > 1][0]
        has = by_id.loc[by_id["_key"] == name, label].unique().tolist()[:3]
        raise DataError(
            f"{int((several > 1).sum())} identifiers in the labels have more than one label: {on} {name!r} has {has}. "
            "Keep one row for each."
        )
    repeated = int(by_id["_key"].duplicated().sum())
    if repeated:
        warn(f"{repeated} rows of the labels repeat an identifier with the same label; the first is taken.")
    by_id = by_id.drop_duplicates("_key").set_index("_key")
    known = by_id.index.isin(left)
    if not known.any():
        raise DataError(
            f"none of the {len(by_id)} identifiers in the labels is in the population: {on!r} is "
            f"{_some(given[on])} there and {_some(people[on])} here. Is it the right column?"
        )
    lost = by_id.loc[~known, on].tolist()
    if lost:
        warn(f"{len(lost)} of {len(by_id)} labels have no row in the population, such as {on} {_some(lost)}.")
    frame = people.copy()
    frame[label] = labels_of(left.map(by_id[label]), typed=True)
    duplicates = int((left.duplicated() & left.notna()).sum())
    if duplicates:
        example = people.loc[left.duplicated() & left.notna(), on].iloc[0]
        warn(f"{duplicates} rows of the population repeat an identifier, such as {on} {example!r}; all get its label.")
    if weight is not None:
        frame[weight] = left.map(_weights(by_id[weight])).where(frame[label].notna(), 1.0)
    return frame, {
        "label": label,
        "weight": weight,
        "rows": len(frame),
        "labelled": int(frame[label].notna().sum()),
        "unmatched": len(lost),
        "unmatched_examples": [_plain(value) for value in lost[:5]],
        "duplicate_ids": duplicates,
    }


def _is_label(column: pd.Series[Any]) -> pd.Series[Any]:
    """Whether each cell holds a label: -1 among integers is the mark of none."""
    tidy = labels_of(column, typed=True)
    return tidy.notna() & (tidy != -1) if pd.api.types.is_integer_dtype(tidy) else tidy.notna()


def _weights(column: pd.Series[Any]) -> pd.Series[Any]:
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    if numbers.isna().any():
        raise DataError(
            f"column {column.name!r} of the labels must hold the weight of every label, but "
            f"{int(numbers.isna().sum())} of {len(numbers)} are no numbers, such as {_some(column[numbers.isna()])}. "
            "Fill them in."
        )
    return numbers


def _label_column(labels: pd.DataFrame, on: str, label: str | None, weight: str | None) -> str:
    if label is not None:
        return find_column(labels.columns, label, "labels: label column")
    others = [name for name in labels.columns if name not in (on, weight)]
    usual = [name for name in USUAL if name in others]
    if len(usual) == 1 or len(others) == 1:
        return (usual or others)[0]
    raise DataError(
        f"which column of the labels has the label? It has {', '.join(map(repr, others))}. Name it with {{label}}.",
        label=Setting("label"),
    )


def _keys(left: pd.Series[Any], right: pd.Series[Any]) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """Return identifiers of both tables as text that can be compared."""
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


def _some(values: Any) -> str:
    return ", ".join(repr(_plain(value)) for value in list(values)[:3])


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
