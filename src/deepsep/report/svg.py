"""Helpers for SVG. Colours and fonts come from the page's style sheet, which has a light and a dark scheme."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape


def tag(name: str, *inside: Any, **attributes: Any) -> Markup:
    """Return an element; text and attributes are escaped, and a trailing underscore is dropped from names.

    Examples
    --------
    >>> str(tag("text", "a < b", x=1.25, class_="axis", text_anchor="end"))
    '<text x="1.25" class="axis" text-anchor="end">a &lt; b</text>'
    """
    pairs = (
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{''.join(pairs)}>{Markup('').join(inside)}</{name}>")


def _short(value: Any) -> Any:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def picture(width: float, height: float, alt: str, parts: Iterable[Any], kind: str = "") -> Markup:
    """Return a figure with an alternative text."""
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {_short(float(width))} {_short(float(height))}",
        class_=f"figure {kind}".strip(),
        style=f"--width: {round(width)}px",
        role="img",
        aria_label=alt,
    )


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from at most ``low`` to at least ``high``.

    Examples
    --------
    >>> ticks(0.33, 0.46, 4)
    [0.3, 0.35, 0.4, 0.45, 0.5]
    """
    span = max(high - low, 1e-9)
    rough = span / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def marker(k: int, x: float, y: float, r: float, **attributes: Any) -> Markup:
    """Return the marker of class k: one of eight colours, c0 to c7 in the style sheet, and of four shapes."""
    attributes["class_"] = f"c{k % 8} {attributes.pop('class_', '')}".strip()
    match k // 8 % 4:
        case 0:
            return tag("circle", cx=x, cy=y, r=r, **attributes)
        case 1:
            side = 1.75 * r
            return tag("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, **attributes)
        case 2:
            h = 1.25 * r
            path = f"M{x:.2f} {y - h:.2f}L{x + h:.2f} {y + 0.8 * h:.2f}L{x - h:.2f} {y + 0.8 * h:.2f}Z"
        case _:
            h = 1.3 * r
            path = f"M{x:.2f} {y - h:.2f}L{x + h:.2f} {y:.2f}L{x:.2f} {y + h:.2f}L{x - h:.2f} {y:.2f}Z"
    return tag("path", d=path, **attributes)
