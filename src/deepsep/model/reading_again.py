"""Settings of a training table that later tables are read with as well."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from deepsep.core.labels import folded
from deepsep.errors import DataError, Setting, warn
from deepsep.scoring.who_scores import label_of, schema_of
from deepsep.table.batches import OpenFiles, open_files
from deepsep.table.columns import key_text
from deepsep.table.locations import file_types, files_of, find_column, table_at
from deepsep.table.reading import read_table
from deepsep.table.reading_settings import AS_DETECTED, Reading
from deepsep.table.source import ExternalRows


def as_remembered(
    model: Any, source: Any, id: str | None = None, given: Mapping[str, Any] | None = None
) -> tuple[str | None, Reading]:
    """Return the column of identifiers and the settings to read a table with: those given, then those of the fit.

    ``given`` are fields of :class:`deepsep.table.Reading`, which win one by one. Without an ``id``, that of the fit
    counts, if the table has such a column.
    """
    origin = getattr(model, "origin_", None)
    opened, reading = open_again(model, _for_columns(source), given)
    if id is None and origin is not None and origin.id is not None and not isinstance(opened, ExternalRows):
        if origin.id in opened.names:
            return origin.id, reading
        warn(
            f"{opened} has no column {origin.id!r}, by which the rows of the training table are known, so its rows are "
            "numbered from 0. If another column tells them apart, name it with {id}.",
            id=Setting("id"),
        )
    return id or (origin and origin.id if isinstance(opened, ExternalRows) else None), reading


def read_again(
    model: Any,
    files: Sequence[Any],
    *,
    id: str | None,
    label: str | None,
    given: Mapping[str, Any],
    note: Callable[[str], object],
) -> tuple[pd.DataFrame, str | None, Reading]:
    """Return the rows of files with the types of the training table, its column of identifiers, and the settings.

    ``label`` need not be in it. None: that of the fit.
    """
    id, reading = as_remembered(model, list(files), id, given)
    table = open_files(list(files), reading)
    if id is not None:
        find_column(table.names, id, "id column")
    note(f"Reading {table} ...")
    types = {name: kind for name, kind in schema_of(model).items() if name in table.names}
    label = label or label_of(model) or "label"
    frame = read_table(table, label=label if label in table.names else None, id=id, types=types)
    no_label = {folded(word) for word in getattr(getattr(model, "origin_", None), "no_label", ())}
    if no_label and label in frame.columns:
        frame[label] = frame[label].map(lambda value: None if folded(key_text(value) or "") in no_label else value)
    return frame, id, reading


def open_again(
    model: Any, source: Any, given: Mapping[str, Any] | None = None
) -> tuple[OpenFiles | ExternalRows, Reading]:
    """Open a table as the training table was, and return it with its settings; those that are given win.

    Settings of a file of another format do not count.
    """
    origin, given = getattr(model, "origin_", None), dict(given or {})
    reading = replace(AS_DETECTED, **given)
    if isinstance(source, ExternalRows | OpenFiles):
        return source, reading
    place = table_at(source)
    if origin is None or file_types(files_of(place))[0].kind != origin.kind:
        return open_files(place, reading), reading
    usual, own = asdict(AS_DETECTED), asdict(origin.reading)
    remembered = [name for name in own if own[name] != usual[name] and name not in given]
    reading = replace(origin.reading, **given)
    return _opened(place, reading, remembered, model), reading


def _for_columns(source: Any) -> Any:
    """Return a source with the same columns: of several files, the first that is not damaged.

    A scoring leaves damaged ones out.
    """
    if isinstance(source, ExternalRows | OpenFiles):
        return source
    place = table_at(source)
    files = files_of(place)
    for file in files if len(files) > 1 else ():
        with contextlib.suppress(DataError):
            open_files(file)
            return file
    return place


def _opened(place: Any, reading: Reading, remembered: list[str], model: Any) -> OpenFiles:
    """Open files; if they do not fit the settings of the training table, raise an error that names both."""
    names = " and ".join(f"{{{name}}}" for name in remembered)
    settings = {name: Setting(name, getattr(reading, name)) for name in remembered}
    advice = f"It is read as the training table was, with {names}. Pass another value if it is written differently."
    try:
        source = open_files(place, reading)
    except DataError as error:
        raise error.followed_by(advice, **settings) if remembered else error from None
    columns = schema_of(model)
    if remembered and columns and not any(name in columns for name in source.names):
        has = ", ".join(map(repr, source.names[:10]))
        raise DataError(f"{source} has no column of the training table. It has {has}. {advice}", **settings)
    return source
