"""Docstrings of methods: a class documents the settings and attributes that it adds, and its bases the others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from inspect import cleandoc

_TITLE = re.compile(r"^(\w+)\n-{3,}\n", re.M)
_ENTRY = re.compile(r"\n(?=\S)")


def full_docstring(cls: type, settings: Collection[str]) -> str:
    """Return the docstring of a class with the entries that its bases have for these settings, and for attributes.

    An entry of the class, or of a nearer base, replaces that of another base.
    """
    intro, own = _sections(cls)
    sections = {"Parameters": "", "Attributes": "", **own}
    for title, wanted in (("Parameters", settings), ("Attributes", None)):
        entries, known = [], set[str]()
        for each in cls.__mro__[:-1]:
            for names, rest in _entries(_sections(each)[1].get(title, "")):
                new = [name for name in names if name not in known and (wanted is None or name in wanted)]
                known.update(new)
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
