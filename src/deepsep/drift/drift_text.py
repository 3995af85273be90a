"""Differences between scored rows and the training table in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def sentence(column: str | None, what: str, values: Mapping[str, Any]) -> str:
    """Return a difference in words; the values are those of its finding."""
    text = _words(what, values)
    return text if column is None else f"{column}: {text}"


def notice(drift: Mapping[str, Any], shown: int = 5) -> str:
    """Return the notice about a table that differs from the training table."""
    lines = drift["notices"]
    more = len(lines) - shown
    head = "the rows differ from the training table, so their labels may be wrong:"
    tail = [f"and {more} more; the .drift.json file has them all"] if more > 0 else []
    return "\n  ".join([head, *lines[:shown], *tail])


def _words(what: str, values: Mapping[str, Any]) -> str:
    if what in ("above", "below"):
        return _outside(what, values)
    here, there = share(values["here"]), share(values["training"])
    match what:
        case "gaps":
            return f"{here} of the rows have no value; {there} in the training table."
        case "values":
            return _value_words(values["kind"], here, there, values["value"])
        case "levels":
            return f"{here} of the values are {values['level']!r}; {there} in the training table."
        case "classes":
            return f"{here} of the rows are predicted as {values['level']!r}; {there} in the training table."
        case "confidence":
            return f"the mean confidence is {here}; {there} in the training table."
    such = "" if values["example"] is None else f", such as {values['example']!r}"
    if values["certain"]:
        return f"{here} of the values do not occur in the training table{such}."
    return f"{here} of the values are new or rare{such}; {there} in the training table."


def _outside(what: str, values: Mapping[str, Any]) -> str:
    edge = values["edges"][-1 if what == "above" else 0]
    if values["kind"] == "date":
        place = "after the last" if what == "above" else "before the first"
        return f"{share(values['here'])} of the dates are {place} of the training table ({_value(edge, 'date')})."
    place = "above the largest" if what == "above" else "below the smallest"
    text = f"{share(values['here'])} of the values are {place} value of the training table ({_value(edge)})"
    typical, center = values["typical"], values["center"]
    if values["here"] > 0.5 and typical and center and typical / center > 0:
        power = math.log10(typical / center)
        if abs(power) > 0.5:
            power = round(power) if abs(power - round(power)) < 0.15 else power
            text += f"; they are about {10 ** abs(power):,.0f} times {'as large' if power > 0 else 'smaller'}"
        return f"{text}: was it rescaled?"
    return f"{text}."


def _value_words(kind: str, here: str, there: str, edge: float) -> str:
    if kind == "text":
        return f"{here} of the texts have at most {edge:.0f} letters; {there} in the training table."
    if kind == "date":
        return f"{here} of the dates are up to {_value(edge, 'date')}; {there} in the training table."
    return f"{here} of the values are {_value(edge)} or less; {there} in the training table."


def share(value: float) -> str:
    """Return a share in per cent: 97 %, 0.4 %.

    Examples
    --------
    >>> share(0.97), share(0.004), share(0.0), share(1.0), share(0.9999)
    ('97 %', '0.4 %', '0 %', '100 %', '99.99 %')
    """
    for digits in range(6):
        text = f"{100 * value:.{digits}f}"
        if value in (0, 1) or 0 < float(text) < 100:
            break
    return f"{text} %"


def _value(number: float, kind: str = "number") -> str:
    if kind == "date":
        return str(np.datetime64(int(number), "s").astype("datetime64[D]"))
    return f"{number:,.0f}" if abs(number) >= 1_000 and number == round(number) else f"{number:g}"
