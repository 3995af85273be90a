"""Settings that are given field by field."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any


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
