"""Settings of a method: annotated attributes with a default, and with the values that they may have.

    @settings
    class MyMethod(Classifier):
        strength: float = real(1.0, above=0)
        kind: Literal["hard", "soft"] = "soft"
        rounds: int = integer(10, 1)

A :class:`deepsep.classifiers.base.Classifier` checks them before it is fitted. Those of type bool or Literal need no
declaration of their values. A class documents the settings and attributes that it adds; its docstring gets the others
from its bases.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import Parameter, cleandoc, signature
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np

from deepsep.core.checks import is_integer, is_number, require

Kind = TypeVar("Kind")


class Domain(NamedTuple):
    """Values that a setting may have, as a condition and in words."""

    holds: Callable[[Any], bool]
    wanted: str


@dataclass_transform(kw_only_default=True, eq_default=False)
def settings(cls: type[Kind]) -> type[Kind]:
    """Add a constructor that stores the annotated attributes of a class and its bases, and complete its docstring.

    A class that gives an inherited setting another default keeps the values that it may have.
    """
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    own = {each.name: _domain_of(str(each.type), each.metadata) for each in fields(made)}  # type: ignore[arg-type]
    inherited = getattr(made, "allowed_values", {})
    made.allowed_values = inherited | {name: domain for name, domain in own.items() if domain}  # type: ignore[attr-defined]
    made.__doc__ = full_docstring(made, signature(made).parameters)
    return made


def check_settings(model: Any) -> None:
    """Raise unless the settings of a method have values that they may have."""
    for name, parameter in signature(type(model)).parameters.items():
        if isinstance(parameter.default, bool):
            require(model, name, isinstance(getattr(model, name), bool | np.bool), "True or False")
        elif name in model.allowed_values:
            holds, wanted = model.allowed_values[name]
            require(model, name, holds(getattr(model, name)), wanted)


def setting(default: Any, holds: Callable[[Any], bool], wanted: str) -> Any:
    """Declare a setting whose values fulfil a condition."""
    return _declared(default, Domain(holds, wanted))


def integer(default: Any, least: int, *, or_none: bool = False) -> Any:
    """Declare a setting that is an integer of at least ``least``, or perhaps None."""
    domain = Domain(lambda value: is_integer(value, least), f"an integer of at least {least}")
    return _declared(default, domain, (None,) if or_none else ())


def real(
    default: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    or_else: tuple[Any, ...] = (),
) -> Any:
    """Declare a setting that is a number between limits, or one of a few other values."""

    def holds(value: Any) -> bool:
        return is_number(value) and not (
            (at_least is not None and value < at_least)
            or (above is not None and value <= above)
            or (at_most is not None and value > at_most)
            or (below is not None and value >= below)
        )

    if at_most is None and below is None:
        wanted = "a positive number" if above == 0 else f"a number of at least {at_least:g}"
    elif above is not None:
        limits = f"between {above:g} and {below:g}" if at_most is None else f"above {above:g} and at most {at_most:g}"
        wanted = f"a number {limits}"
    else:
        wanted = f"a number from {at_least:g} to " + (f"below {below:g}" if at_most is None else f"{at_most:g}")
    return _declared(default, Domain(holds, wanted), or_else)


def widths(default: Sequence[int]) -> Any:
    """Declare a setting that is a sequence of widths of layers."""

    def holds(value: Any) -> bool:
        return isinstance(value, Sequence) and bool(value) and all(is_integer(width, 1) for width in value)

    return setting(default, holds, "one or more positive integers, such as (128, 32)")


def _declared(default: Any, domain: Domain, others: tuple[Any, ...] = ()) -> Any:
    return field(default=default, metadata={"domain": _either([domain, *map(_exactly, others)])})


def _domain_of(annotation: str, metadata: Mapping[str, Any]) -> Domain | None:
    """Return the values that a setting may have, as declared, or as its type names them."""
    match = re.fullmatch(r"Literal\[(.*?)\]( \| None)?", annotation)
    if "domain" in metadata or match is None:
        return metadata.get("domain")
    return _either([_exactly(value) for value in literal_eval(f"[{match[1]}{', None' if match[2] else ''}]")])


def _exactly(value: Any) -> Domain:
    if value is None:
        return Domain(lambda given: given is None, "None")
    return Domain(lambda given: isinstance(given, str) and given == value, f'"{value}"')


def _either(domains: Sequence[Domain]) -> Domain:
    *first, last = (domain.wanted for domain in domains)
    listed = f"{', '.join(first)}{',' * (len(first) == 1 and ' ' in first[0])} or {last}" if first else last
    return Domain(lambda value: any(domain.holds(value) for domain in domains), listed)


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
    intro, *parts = re.split(r"(?m)^(\w+)\n-{3,}\n", cleandoc(vars(cls).get("__doc__") or ""))
    return intro.strip(), {title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


def _entries(section: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names of each entry of a section, and the rest of the entry."""
    for entry in re.split(r"\n(?=\S)", section) if section else ():
        names = re.split(" :|\n", entry, maxsplit=1)[0]
        yield names.split(", "), entry[len(names) :]


def _with_default(rest: str, default: Any) -> str:
    """Return the rest of an entry with another default, if it states one."""
    kind, stated, value = rest.partition("\n")[0].partition("default=")
    if not stated or literal_eval(value) == default:
        return rest
    return f"{kind}default={default!r}{rest[len(kind + stated + value) :]}"
