"""Check a table for what would go wrong if a model were fitted to it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from deepsep.core.column_kinds import kind_of
from deepsep.core.labels import DISGUISED_MARKS, MIN_IDENTIFIERS, Labels, alike, read_labels
from deepsep.drift.labeled_rows import compare_labeled
from deepsep.errors import DataError, LabelError, listed
from deepsep.table.columns import as_frame, decide
from deepsep.table.dates import OTHER_DATE
from deepsep.table.leaks import leaks, one_sided
from deepsep.table.locations import find_column
from deepsep.table.spellings import Merged

Severity = Literal["error", "warning", "note"]

ONE_SIDED = {
    "given for labelled rows only": "the rows to predict have no values there, so accuracy would be overestimated",
    "given for unlabelled rows only": "the labelled rows have no values to learn from",
    "the same for all unlabelled rows": "it cannot help to predict them, so accuracy would be overestimated",
}
LEFT_OUT_COLUMNS: dict[str, tuple[Severity, str, str]] = {  # reason: severity, code and words of the finding
    "identifier": ("note", "identifier", "left out as identifiers"),
    "constant": ("note", "constant", "left out, since they have only one value"),
    "empty": ("note", "empty", "left out, since they are empty"),
    "lists or other objects": ("warning", "objects", "left out, since a model cannot use lists or other objects"),
}


def check_table(
    frame: Any, label: str, *, id: str | None = None, max_rows: int = 50_000, merged: Merged | None = None
) -> dict[str, Any]:
    """Describe a table, and list what would go wrong if a model were fitted to it.

    Parameters
    ----------
    frame : DataFrame
        Labelled and unlabelled rows.
    label : str
        The column of labels.
    id : str, optional
        The column of identifiers, which is not a feature.
    max_rows : int, default=50_000
        In a larger table, columns are examined on the labelled rows and a sample of the others.
    merged : dict {class: spellings}, optional
        Spellings of the classes that were merged when the table was read.

    Returns
    -------
    dict
        Plain values only:

        * ``rows``, and ``sampled``, the number of rows examined, or None for all;
        * ``columns``: for each its ``name``, ``type``, share of ``missing`` values, number of ``distinct`` values, and
          why it is ``left_out`` ("" if it is used);
        * ``labels``: ``column``, ``labelled``, ``unlabelled``, and ``classes`` with their counts;
        * ``findings``: each with ``severity`` ("error", "warning" or "note"), ``code``, ``columns``, a ``message``, and
          the ``next`` step; the most severe first. "drift" also has a ``distance``: the largest difference between the
          distributions of a column among labelled and unlabelled rows, from 0 to 1;
        * ``fit_would_work``: whether there are no errors.

    Examples
    --------
    >>> table = pd.DataFrame({"age": [20.0, 30, 60, 70] * 5, "segment": ["young", "young", "old", "old"] + [None] * 16})
    >>> check = check_table(table, "segmnt")
    >>> check["fit_would_work"], check["findings"][0]["message"]
    (False, "label column 'segmnt' not found; did you mean 'segment'?")
    >>> check = check_table(table, "segment")
    >>> check["labels"]["classes"]
    {'old': 2, 'young': 2}
    >>> [finding["code"] for finding in check["findings"]]
    ['rare-class', 'duplicate-rows']
    """
    table, findings = as_frame(frame), Findings()
    given = _read_labels(table, label, findings)
    _note_merged(merged or {}, label, findings)
    labels = given if given is not None and _check_labels(given, label, findings) else None
    if id is not None:
        try:
            _check_ids(table[find_column(table.columns, id, "id column")], findings)
        except DataError as error:
            findings.add("error", "id-column", str(error), "Name the column of identifiers as it is in the table.")
    features = table.drop(columns=[name for name in (label, id) if name in table.columns])
    sampled = None
    if len(table) > max_rows:
        keep = np.random.default_rng(0).permutation(len(table)) < max_rows
        if labels is not None:
            keep |= labels.labeled & (np.cumsum(labels.labeled) <= max_rows)
        features, sampled = features[keep], int(keep.sum())
        labels = labels and Labels(labels.codes[keep], labels.classes)
    columns, values = _describe(features, None if labels is None else labels.labeled, findings)
    if not values:
        text = "no column can be used as a feature."
        findings.add("error", "no-columns", text, "Add columns that differ between rows.")
    elif labels is not None:
        _check_duplicates(pd.DataFrame(values), labels, findings)
        _check_leaks(values, labels, findings)
        _check_drift(values, labels, None, findings)
    return {
        "rows": len(table),
        "sampled": sampled,
        "columns": columns,
        "labels": _count(table, label, given),
        "findings": findings.sorted(),
        "fit_would_work": all(finding["severity"] != "error" for finding in findings),
    }


def rows_to_check(labels: Labels, max_rows: int = 10_000) -> np.ndarray[Any, Any]:
    """Return the rows of a large table that a fit checks: ``max_rows`` of each kind at most, at random."""
    rng = np.random.default_rng(0)
    sides = (np.flatnonzero(side) for side in (labels.labeled, ~labels.labeled))
    some = [side if len(side) <= max_rows else rng.permutation(side)[:max_rows] for side in sides]
    return np.sort(np.concatenate(some))


def check_columns(
    columns: pd.DataFrame,
    labels: Labels,
    *,
    left_out: Mapping[str, str] | None = None,
    weight: Any = None,
    label: str | None = None,
    ids: pd.Series[Any] | None = None,
    merged: Merged | None = None,
) -> list[dict[str, Any]]:
    """Return what would make a model or its accuracy misleading: the part of :func:`check_table` that a fit runs.

    The columns are those that a model uses, as the first step of :func:`deepsep.for_table` returns them; ``left_out``
    are the others, with the reason. Labelled rows that represent all rows by their weights do not differ from these.
    Without the name of the column of labels, nothing is said about the classes.
    """
    findings = Findings()
    if label is not None:
        _note_merged(merged or {}, label, findings)
        _check_classes(labels, label, findings)
    if ids is not None:
        _check_ids(ids, findings)
    _check_one_sided(left_out or {}, findings)
    rows = rows_to_check(labels)
    if len(rows) < len(columns):
        columns, labels = columns.iloc[rows], Labels(labels.codes[rows], labels.classes)
        weight = None if weight is None else weight[rows]
    values = {name: columns[name] for name in columns.columns}
    _check_leaks(values, labels, findings)
    _check_drift(values, labels, weight, findings)
    for name, cells in values.items():
        if kind_of(cells) == "text":
            _check_dates(name, cells, findings)
    return findings


class Findings(list[dict[str, Any]]):
    """List of problems, in the order in which they were found."""

    def add(self, severity: Severity, code: str, message: str, next: str, *columns: str, **details: float) -> None:
        """Add a finding."""
        finding = {"severity": severity, "code": code, "columns": list(columns), "message": message, "next": next}
        self.append(finding | details)

    def sorted(self) -> list[dict[str, Any]]:
        """Return the findings, the most severe first."""
        return sorted(self, key=lambda finding: ("error", "warning", "note").index(finding["severity"]))


# -- labels ----------------------------------------------------------------------------------------------------


def _read_labels(table: pd.DataFrame, label: str, findings: Findings) -> Labels | None:
    try:
        find_column(table.columns, label, "label column")
    except DataError as error:
        findings.add("error", "label-column", str(error), "Name the column of labels as it is in the table.")
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read_labels(table[label])
        except LabelError as error:
            findings.add("error", "labels", str(error), "Fix the column of labels.", label)
        except ValueError as error:
            text = f"the labels cannot be used: {str(error).splitlines()[0]}"
            findings.add("error", "labels", text, "Use text or integers as labels.", label)
    return None


def _check_labels(labels: Labels, label: str, findings: Findings) -> bool:
    """Add what is wrong with labels, and return whether a fit accepts them."""
    names = [str(name) for name in labels.classes]
    n = int(labels.labeled.sum())
    if len(names) < 2:
        text = f"all {n} labelled rows belong to one class, {names[0]!r}."
        findings.add("error", "one-class", text, "Label rows of at least two classes.", label)
        return False
    if len(names) == n >= MIN_IDENTIFIERS:
        text = f"all {n} labels differ: {label!r} looks like an identifier, not like classes."
        findings.add("warning", "label-identifier", text, "Name the column of classes.", label)
    _check_classes(labels, label, findings)
    if labels.labeled.all():
        text = "every row has a label. A fit works, but there are no other rows to learn from or to predict."
        findings.add("note", "all-labelled", text, "Add the unlabelled rows to the table.", label)
    return True


def _note_merged(merged: Merged, label: str, findings: Findings) -> None:
    if merged:
        each = [f"{name!r} for {listed(map(repr, others))}" for name, others in merged.items()]
        text = f"spellings that differ only in case, blanks or accents are one class: {'; '.join(each)}."
        findings.add("note", "merged-spellings", text, "If they are different classes, leave out the merging.", label)


def check_classes(labels: Labels, label: str, merged: Merged | None = None) -> list[dict[str, Any]]:
    """Return what is wrong with the classes: the part of :func:`check_table` that needs no other column."""
    findings = Findings()
    _note_merged(merged or {}, label, findings)
    _check_classes(labels, label, findings)
    return findings


def _check_classes(labels: Labels, label: str, findings: Findings) -> None:
    """Add what is wrong with the classes: few labels, names that differ in case or spaces, names for no label."""
    rare_class_labels = 5  # labels below which a class is rare
    counts = np.bincount(labels.codes[labels.labeled], minlength=len(labels.classes))
    names = [str(name) for name in labels.classes]
    if (counts < rare_class_labels).any() and not len(names) == int(labels.labeled.sum()) >= MIN_IDENTIFIERS:
        rare = [f"{name!r} ({count})" for name, count in zip(names, counts, strict=True) if count < rare_class_labels]
        text = f"{len(rare)} of {len(names)} classes have fewer than {rare_class_labels} labelled rows: {listed(rare)}."
        findings.add("warning", "rare-class", text, "Label more rows of them, or merge them with others.", label)
    for twins in alike(labels.classes):
        text = (
            f"the labels {listed(map(repr, twins))} differ only in case, blanks or accents, but are different classes."
        )
        next = "If they are one class, write them alike, or merge them with merge_spellings."
        findings.add("warning", "alike-classes", text, next, label)
    for name in names:
        if name.strip().lower() in DISGUISED_MARKS:
            text = f"the class {name!r} has a name that usually means 'no label'. It is treated as a class."
            next = "If it means unlabelled, leave these cells empty, or name the word in no_label."
            findings.add("warning", "missing-class", text, next, label)


def _count(table: pd.DataFrame, label: str, labels: Labels | None) -> dict[str, Any]:
    if labels is not None:
        counts = pd.Series(np.bincount(labels.codes[labels.labeled], minlength=len(labels.classes)), labels.classes)
        given = int(labels.labeled.sum())
    else:  # no labels that a fit accepts
        cells = table[label] if label in table.columns else pd.Series(dtype=object)
        counts, given = cells.value_counts().head(50), int(cells.notna().sum())
    classes = {str(name): int(count) for name, count in counts.items()}
    return {"column": label, "labelled": given, "unlabelled": len(table) - given, "classes": classes}


# -- columns ---------------------------------------------------------------------------------------------------


def _describe(
    features: pd.DataFrame, labeled: Any, findings: Findings
) -> tuple[list[dict[str, Any]], dict[str, pd.Series[Any]]]:
    """Return a description of every column, and the values of those that a model would use."""
    mostly_missing = 0.5
    described, values = [], {}
    for name in features.columns:
        column = features[name]
        kind, cells, reason = decide(column, labeled)
        distinct = 0 if kind is None else int(cells.nunique())
        missing = round(float(cells.isna().mean()), 4)
        own = {"name": name, "type": kind or "object", "missing": missing, "distinct": distinct, "left_out": reason}
        described.append(own)
        if kind == "text":
            _check_dates(name, cells, findings)
        if reason or kind is None:
            continue
        values[name] = cells
        if kind == "number" and pd.api.types.is_float_dtype(column) and np.isinf(column.astype(float)).any():
            text = f"column {name!r} has infinite values, which are taken as missing."
            findings.add("warning", "infinite", text, "Replace them with numbers, or leave them empty.", name)
        if kind == "text":
            _check_text(name, cells, distinct, findings)
    left_out = {column["name"]: column["left_out"] for column in described}
    for reason, (severity, code, text) in LEFT_OUT_COLUMNS.items():
        if names := [name for name, why in left_out.items() if why == reason]:
            next = "Nothing, unless a model should use them; then name them in keep."
            text = f"{text}: {listed(map(repr, names))}."
            findings.add(severity, code, text, next if code == "identifier" else "Nothing.", *names)
    _check_one_sided(left_out, findings)
    gaps = {c["name"]: c["missing"] for c in described if not c["left_out"] and c["missing"] > mostly_missing}
    if gaps:
        text = (
            f"missing in more than half of the rows: {listed(f'{name!r} ({gap:.0%})' for name, gap in gaps.items())}."
        )
        findings.add("note", "mostly-missing", text, "Check that they are missing for all kinds of rows alike.", *gaps)
    return described, values


def _check_one_sided(left_out: Mapping[str, str], findings: Findings) -> None:
    keep = "Nothing, unless a model should use it all the same; then name it as a column to keep."
    for reason, why in ONE_SIDED.items():
        names = [name for name, own in left_out.items() if own == reason]
        if names:
            what = f"column {names[0]!r} is" if len(names) == 1 else f"columns {listed(map(repr, names))} are"
            findings.add("warning", "one-sided", f"{what} {reason}, and left out: {why}.", keep, *names)


def _check_dates(name: str, cells: pd.Series[Any], findings: Findings) -> None:
    nearly_all = 0.95
    levels = cells.dropna().unique()[:1_000]
    if np.mean([OTHER_DATE.match(str(level)) is not None for level in levels] or [False]) > nearly_all:
        text = (
            f"column {name!r} holds dates such as {levels[0]!r} in a form that is not understood, or in which day and "
            "month could be swapped; it is read as text."
        )
        next = "Say whether the day or the month comes first, or write dates as 2025-12-31."
        findings.add("warning", "dates", text, next, name)


def _check_text(name: str, cells: pd.Series[Any], distinct: int, findings: Findings) -> None:
    mixed = 0.5  # share of numbers from which a column of text is suspicious
    many_levels = 100
    levels = pd.Series(cells.dropna().unique()[:5_000])
    numbers = pd.to_numeric(levels, errors="coerce").notna().mean()
    if mixed <= numbers < 1 and distinct > 10:
        word = levels[pd.to_numeric(levels, errors="coerce").isna()].iloc[0]
        text = f"column {name!r} mixes numbers with text such as {word!r}, and is read as text."
        findings.add("warning", "mixed-types", text, "If it is a quantity, empty the cells that are not numbers.", name)
    if distinct > many_levels:
        text = f"column {name!r} has {distinct:,} different values, and is encoded by their letters."
        findings.add("note", "many-levels", text, "Group them, if there are meaningful groups.", name)


def _check_ids(ids: pd.Series[Any], findings: Findings) -> None:
    name = str(ids.name)
    if ids.isna().any():
        text = f"{int(ids.isna().sum())} rows have no {name!r}."
        findings.add("warning", "missing-ids", text, "Give every row an identifier.", name)
    twice = ids[ids.duplicated() & ids.notna()]
    if len(twice):
        text = f"{len(twice):,} rows repeat an identifier in {name!r}, such as {listed(map(str, twice.unique()))}."
        findings.add("warning", "duplicate-ids", text, "Keep one row per identifier, or name another column.", name)


def _check_duplicates(features: pd.DataFrame, labels: Labels, findings: Findings) -> None:
    key = pd.util.hash_pandas_object(features, index=False)
    repeated = int(key.duplicated().sum())
    if repeated:
        text = f"{repeated:,} of {len(key):,} rows have the same values as an earlier one."
        severity: Severity = "warning" if repeated > 0.01 * len(key) else "note"
        findings.add(severity, "duplicate-rows", text, "Drop them, unless they are different people.")
    known = pd.Series(labels.codes[labels.labeled]).groupby(key.to_numpy()[labels.labeled]).nunique()
    if (known > 1).any():
        text = f"{int((known > 1).sum()):,} groups of labelled rows have the same values but different labels."
        findings.add("warning", "contradictions", text, "Check these labels; no model can tell such rows apart.")


# -- evidence --------------------------------------------------------------------------------------------------


def _check_leaks(values: Mapping[str, pd.Series[Any]], labels: Labels, findings: Findings) -> None:
    for leak in leaks(values, labels):
        whose = "the label" if leak.code is None else f"the class {str(labels.classes[leak.code])!r}"
        text = f"column {leak.column!r} alone gives {whose} away ({leak.share:.0%} right on held-out rows)."
        next = "If it is only known once the label is, drop it: the model would learn nothing else."
        findings.add("warning", "leak", text, next, leak.column)


def _check_drift(values: dict[str, pd.Series[Any]], labels: Labels, weight: Any, findings: Findings) -> None:
    drifts = []
    for one in compare_labeled(values, labels.labeled, weight):
        reason = one_sided(values[one.column], labels.labeled)
        if reason:  # a model uses it because it was named in keep
            text = f"column {one.column!r} is {reason}: {ONE_SIDED[reason]}."
            findings.add("warning", "one-sided", text, "Leave it out.", one.column, distance=one.distance)
        else:
            drifts.append(one)
    if drifts:
        shown = [f"{one.column!r} ({one.how})" for one in drifts]
        text = (
            f"labelled and unlabelled rows differ in {len(drifts)} of {len(values)} columns, most in {listed(shown)}."
        )
        next = (
            "Accuracy on labelled rows may not hold for unlabelled ones. Label rows drawn at random, or weight the "
            "labelled rows so that they represent all rows."
        )
        findings.add("warning", "drift", text, next, *(one.column for one in drifts), distance=drifts[0].distance)
