"""Figures 4 and 5 of the paper as self-contained SVG files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from deepsep.report.figures import tag, ticks
from deepsep.study.study_models import ENSEMBLE_NN, in_order

Scale = Callable[[float], float]


def figure_4(results: pd.DataFrame) -> str:
    """Draw mean accuracy against the number of labels, with one standard deviation over the shuffles either way."""
    sizes = sorted(results["labels"].unique().tolist())
    names = in_order(results["method"].unique())
    groups = results.groupby(["method", "labels"])["accuracy"]
    mean, sd = groups.mean() * 100, groups.std().fillna(0) * 100
    left, right, top, bottom = 56.0, 560.0, 20.0, 360.0
    across = _scale([math.log(size) for size in sizes], left + 20, right - 20)
    marks = ticks(float((mean - sd).min()), float((mean + sd).max()), 8)
    up = _scale(marks, bottom, top)
    parts = [_gridline(up(mark), left, right, f"{mark:g}") for mark in marks]
    parts += [_text(f"{size:g}", across(math.log(size)), bottom + 18, "middle") for size in sizes]
    parts.append(_text("labelled rows (logarithmic)", (left + right) / 2, bottom + 38, "middle"))
    parts.append(_text("accuracy (%), mean and standard deviation over the shuffles", left, top - 6))
    for j, name in enumerate(names):
        style = _style(j, 2.6 if name == ENSEMBLE_NN else 1.6)
        present = [size for size in sizes if (name, size) in mean.index]
        shift = 2.4 * (j - (len(names) - 1) / 2)
        at = [(across(math.log(size)) + shift, size) for size in present]
        for x, size in at:
            low, high = (up(mean[name, size] + sign * sd[name, size]) for sign in (-1, 1))
            parts.append(tag("line", x1=x, x2=x, y1=low, y2=high, stroke=style["stroke"], stroke_width=0.9))
        parts.append(_path([(x, up(mean[name, size])) for x, size in at], **style))
        parts += [tag("circle", cx=x, cy=up(mean[name, size]), r=2.6, fill=style["stroke"]) for x, size in at]
        y = top + 16 + 20 * j
        parts.append(_path([(right + 14, y), (right + 40, y)], **style))
        parts.append(_text(name, right + 46, y + 4))
    best = mean.groupby("labels").idxmax()
    leaders = ", ".join(f"{best[size][0]} with {size}" for size in dict.fromkeys((sizes[0], sizes[-1])))
    alt = f"Accuracy against labelled rows. Best on average: {leaders}."
    return _file(right + 230, max(bottom + 52, top + 40 + 20 * len(names)), alt, parts)


def figure_5(rounds: pd.DataFrame) -> str:
    """Draw accuracy round by round: one panel per number of labels, one colour per shuffle."""
    sizes = sorted(rounds["labels"].unique().tolist())
    shuffles = sorted(rounds["shuffle"].unique().tolist())
    last = int(rounds["round"].max())
    columns, wide, high = min(4, len(sizes)), 200.0, 190.0
    parts = []
    for i, size in enumerate(sizes):
        panel = rounds[rounds["labels"] == size]
        left, top = 44 + (i % columns) * wide, 78 + (i // columns) * high
        right, bottom = left + wide - 56, top + high - 56
        values = panel[["network", "average"]].to_numpy() * 100
        marks = ticks(float(values.min()), float(values.max()), 5)
        across, up = _scale([0, last], left + 4, right - 4), _scale(marks, bottom, top)
        parts += [_gridline(up(mark), left, right, f"{mark:g}") for mark in marks]
        parts += [_text(str(t), across(t), bottom + 15, "middle") for t in range(0, last + 1, max(1, last // 6))]
        parts.append(_text(f"{size} labels", left, top - 8))
        for j, shuffle in enumerate(shuffles):
            one = panel[panel["shuffle"] == shuffle].sort_values("round")
            for kind, width, dashes in (("network", 1.2, "3 3"), ("average", 2.0, "")):
                line = [(across(t), up(100 * v)) for t, v in zip(one["round"], one[kind], strict=True)]
                parts.append(_path(line, stroke=_style(j, 1)["stroke"], stroke_width=width, stroke_dasharray=dashes))
    parts.append(_text("accuracy (%) after each round; round 0 is the initial network", 10, 18))
    x = 10.0
    for name, dashes in (("network", "3 3"), ("moving average", "")):
        parts.append(_path([(x, 36), (x + 26, 36)], stroke="#333333", stroke_width=1.8, stroke_dasharray=dashes))
        parts.append(_text(name, x + 32, 40))
        x += 60 + 6.5 * len(name)
    for j, shuffle in enumerate(shuffles):
        parts.append(_path([(x, 36), (x + 18, 36)], **_style(j, 3)))
        parts.append(_text(f"shuffle {shuffle}", x + 24, 40))
        x += 92
    rows = -(-len(sizes) // columns)
    alt = f"Accuracy of network and moving average in rounds 0 to {last}, for {len(sizes)} numbers of labels."
    return _file(max(30 + columns * wide, x + 10), 70 + rows * high, alt, parts)


def _scale(values: Sequence[float], first: float, last: float) -> Scale:
    low, high = min(values), max(values)
    slope = (last - first) / (high - low) if high > low else 0.0
    return lambda value: first + (value - low) * slope if slope else (first + last) / 2


def _style(j: int, width: float) -> dict[str, Any]:
    """Return the style of line j; lines beyond the number of colours are dashed."""
    # Distinguishable with most kinds of colour blindness (Okabe and Ito).
    colours = ("#7f7f7f", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
    dashes = ("", "6 3", "2 3")[j // len(colours) % 3]
    return {"stroke": colours[j % len(colours)], "stroke_width": width, "stroke_dasharray": dashes}


def _path(points: Sequence[tuple[float, float]], **style: Any) -> Markup:
    style["stroke_dasharray"] = style.get("stroke_dasharray") or None
    return tag("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), fill="none", **style)


def _gridline(y: float, left: float, right: float, text: str) -> Markup:
    return tag("line", x1=left, x2=right, y1=y, y2=y, stroke="#d9d9d9") + _text(text, left - 6, y + 4, "end")


def _text(text: str, x: float, y: float, anchor: str | None = None) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, fill="#333333")


def _file(width: float, height: float, alt: str, parts: Sequence[Markup]) -> str:
    background = tag("rect", width="100%", height="100%", fill="#ffffff")
    size = {"width": round(width), "height": round(height), "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    font = {"font_family": "system-ui, sans-serif", "font_size": 12}
    content = (tag("title", alt), background, *parts)
    return str(tag("svg", *content, xmlns="http://www.w3.org/2000/svg", **size, **font, role="img")) + "\n"
