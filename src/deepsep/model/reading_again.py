"""Settings of a training table that later tables are read with as well."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from deepsep.core.notices import warn
from deepsep.errors import Setting
from deepsep.table.batches import OpenFiles, open_files
from deepsep.table.external import ExternalRows
from deepsep.table.locations import file_types, files_of, table_at
from deepsep.table.reading_settings import AS_DETECTED, Reading


def as_remembered(
    model: Any, source: Any, id: str | None = None, reading: Reading | None = None
) -> tuple[str | None, Reading]:
    """Return the column of identifiers and the settings to read a table with: those given, or those of the fit.

    Settings of a file of another format do not count.
    """
    origin, given = getattr(model, "origin_", None), reading or AS_DETECTED
    if origin is None or isinstance(source, ExternalRows):
        return id or (origin and origin.id), given
    if not isinstance(source, OpenFiles):
        place = table_at(source)
        if file_types(files_of(place))[0].kind == origin.kind:
            own = {field.name: getattr(given, field.name) for field in fields(Reading)}
            usual = {field.name: field.default for field in fields(Reading)}
            given = replace(origin.reading, **{name: value for name, value in own.items() if value != usual[name]})
        source = open_files(place, given)
    if id is None and origin.id is not None:
        if origin.id in source.names:
            return origin.id, given
        warn(
            f"{source} has no column {origin.id!r}, by which the rows of the training table are known, so its rows are "
            "numbered from 0. If another column tells them apart, name it with {id}.",
            id=Setting("id"),
        )
    return id, given
