"""Docstrings of methods: a class documents the settings and attributes that it adds, and its bases the others."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterator, Mapping
from inspect import Parameter, cleandoc
from typing import Any

_TITLE = re.compile(r"^(\w+)\n-{3,}\n", re.M)
_ENTRY = re.compile(r"\n(?=\S)")


def full_docstring(cls: type, settings: Mapping[str, Parameter]) -> str:
    """Return the docstring of a class with the entries that its bases have for these settings, and for attributes.

    An entry of the class, or of a nearer base, replaces that of another base. Defaults are those of the class.
    """
    intro, own = _sections(cls)
    sections = {"Parameters": "", "Attributes": "", **own}
    for title, wanted in (("Parameters", settings), ("Attributes", None)):
        entries, known = [], set[str]()
        for each in cls.__mro__[:-1]:
            for names, rest in _entries(_sections(each)[1].get(title, "")):
                new = [name for name in names if name not in known and (wanted is None or name in wanted)]
                known.update(new)
                if len(new) == 1 and title == "Parameters":
                    rest = _with_default(rest, settings[new[0]].default)
                if new:
                    entries.append(", ".join(new) + rest)
        sections[title] = "\n".join(entries)
    return "\n\n".join([intro, *(f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text)])


def _sections(cls: type) -> tuple[str, dict[str, str]]:
    """Return what comes before the first section of a class's own docstring, and the sections by title."""
    intro, *parts = _TITLE.split(cleandoc(vars(cls).get("__doc__") or ""))
    return intro.strip(), {title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


def _entries(section: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names of each entry of a section, and the rest of the entry."""
    for entry in _ENTRY.split(section) if section else ():
        names = re.split(" :|\n", entry, maxsplit=1)[0]
        yield names.split(", "), entry[len(names) :]


def _with_default(rest: str, default: Any) -> str:
    """Return the rest of an entry with another default, if it states one."""
    kind, stated, value = rest.partition("\n")[0].partition("default=")
    if not stated or literal_eval(value) == default:
        return rest
    return f"{kind}default={default!r}{rest[len(kind + stated + value) :]}"
