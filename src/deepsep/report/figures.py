"""The second step of the report: functions that each draw one kind of figure from a part of the summary.

Colours and fonts come from the page's style sheet, which has a light and a dark scheme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import east_asian_width

from markupsafe import Markup, escape

from deepsep.report.wording import number, percent, shorten, with_span, wrap


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


FIGURE_WIDTH = 372.0
FIGURE_MARGIN = 12.0
LINES_HEIGHT = 300.0  # of a line chart


def draw_shares(lines: Sequence[dict[str, Any]]) -> Markup:
    """Draw the share of each class among the labels and among the predictions."""
    left, right, row = 2.0, 44.0, 54.0
    both = lines[0]["predicted"] is not None
    most = max(max(line["labelled"], line["predicted"] or 0) for line in lines)
    wide = FIGURE_WIDTH - left - right
    parts = []
    for i, line in enumerate(lines):
        y = i * row + 20
        parts.append(_name(line["class"], left, y - 6, 56))
        for j, key in enumerate(("labelled", "predicted") if both else ("labelled",)):
            length = max(wide * line[key] / most, 1)
            parts.append(tag("rect", x=left, y=y + 15 * j, width=length, height=12, rx=2, class_=f"bar s{j}"))
            parts.append(tag("text", percent(line[key]), x=left + length + 5, y=y + 15 * j + 10, class_="value"))
    alt = "Share of each class among labels and predictions: " + "; ".join(
        f"{line['class']} {percent(line['labelled'])}" + (f" and {percent(line['predicted'])}" if both else "")
        for line in lines
    )
    return picture(FIGURE_WIDTH, len(lines) * row + 2, alt, parts)


def draw_intervals(methods: Sequence[dict[str, Any]]) -> Markup:
    """Draw the accuracy of each method as a dot on its interval."""
    row, top = 42.0, 4.0
    low = min(line["accuracy"]["interval"][0] for line in methods)
    high = max(line["accuracy"]["interval"][1] for line in methods)
    marks = [tick for tick in ticks(low, high) if 0 <= tick <= 1]
    scale = _Scale(marks[0], marks[-1], FIGURE_MARGIN, FIGURE_WIDTH - FIGURE_MARGIN - 8)
    bottom = top + len(methods) * row + 4
    parts = [_vertical(scale(tick), top, bottom, percent(tick)) for tick in marks]
    parts.append(_title("accuracy", FIGURE_WIDTH / 2, bottom + 33, middle=True))
    alt = []
    for i, line in enumerate(methods):
        y, own = top + i * row + 28, line["accuracy"]
        score, is_model = with_span(own["value"], own["interval"]), line["key"] == "model"
        kind = "s0" if is_model else "s1"
        text = f"{line['name']}: {score}"
        parts.append(tag("text", text, x=FIGURE_MARGIN, y=y - 12, class_="name strong" if is_model else "name"))
        parts.append(_whisker(scale(own["interval"][0]), scale(own["interval"][1]), y, kind))
        parts.append(tag("circle", cx=scale(own["value"]), cy=y, r=5, class_=f"dot {kind}"))
        alt.append(f"{line['name']} {score}")
    return picture(FIGURE_WIDTH, bottom + 38, f"Accuracy with 90 % interval: {'; '.join(alt)}", parts)


def draw_lines(
    x: Sequence[float],
    series: Sequence[dict[str, Any]],
    *,
    x_title: str,
    y_title: str,
    alt: str,
    dodge: float = 0.0,
) -> Markup:
    """Draw a line chart of shares, one line per series (name, values, interval)."""
    ends = [end for one in series for interval in one["interval"] for end in interval]
    across, up, parts = _axes(x, x[0], ends, 38.0 + 18.0 * len(series), x_title, y_title)
    for j, one in reversed(list(enumerate(series))):
        shift = dodge * (j - (len(series) - 1) / 2)
        at = [(across(value) + shift, up(height_)) for value, height_ in zip(x, one["values"], strict=True)]
        for (px, _), (bottom, upper) in zip(at, one["interval"], strict=True):
            parts.append(tag("line", x1=px, x2=px, y1=up(bottom), y2=up(upper), class_=f"whisker s{j}"))
        parts.append(tag("path", d=_path(at), class_=f"line s{j}"))
        parts += [tag("circle", cx=px, cy=py, r=3.5, class_=f"dot s{j}") for px, py in at]
    for j, one in enumerate(series):
        parts += _legend(j, shorten(one["name"], 42))
    return picture(FIGURE_WIDTH, LINES_HEIGHT, alt, parts)


def draw_more_labels(curve: dict[str, Any]) -> Markup:
    """Draw the accuracy of a forest with fewer labels, and that expected of the model with more, with its band."""
    past, today, ahead = curve["forest"], curve["today"], curve["ahead"]
    future = [{**today, "interval": [today["accuracy"]] * 2}, *ahead]
    ends = [end for point in future for end in point["interval"]] + [point["accuracy"] for point in past]
    first = min(point["labels"] for point in [*past, today])
    marked = dict.fromkeys(point["labels"] for point in (*past[:1], today, *ahead[1::2]))
    across, up, parts = _axes([*marked], first, ends, 74.0, "labels", "accuracy")
    edge = [(across(point["labels"]), up(point["interval"][1])) for point in future]
    edge += [(across(point["labels"]), up(point["interval"][0])) for point in reversed(future)]
    parts.append(tag("path", d=_path(edge) + "Z", class_="bar s0", style="opacity: 0.18"))
    for j, series in enumerate((future, past)):
        at = [(across(point["labels"]), up(point["accuracy"])) for point in series]
        if at:
            parts.append(tag("path", d=_path(at), class_=f"line s{j}"))
        parts += [tag("circle", cx=x, cy=y, r=3.5, class_=f"dot s{j}") for x, y in at]
        parts += _legend(j, ("expected of the model, with a 90 % band", "random forest on held-out rows")[j])
    alt = f"Accuracy expected with more labels: {percent(today['accuracy'])} with {today['labels']}; " + "; ".join(
        f"{with_span(point['accuracy'], point['interval'])} with {point['labels']}" for point in ahead
    )
    return picture(FIGURE_WIDTH, LINES_HEIGHT, alt, parts)


def _axes(
    marked: Sequence[float], first: float, ends: Sequence[float], top: float, x_title: str, y_title: str
) -> tuple[_Scale, _Scale, list[Any]]:
    """Return the scales of a line chart of shares, from ``first`` to the last of the marked numbers, and its axes."""
    left, right = 44.0, FIGURE_WIDTH - FIGURE_MARGIN
    marks = [tick for tick in ticks(min(ends), max(ends)) if 0 <= tick <= 1]
    across = _Scale(first, marked[-1], left + 14, right - 10)
    up = _Scale(marks[0], marks[-1], LINES_HEIGHT - 44, top)
    where = {"y": LINES_HEIGHT - 26, "class_": "axis", "text_anchor": "middle"}
    parts: list[Any] = [_horizontal(up(tick), left, right, percent(tick)) for tick in marks]
    parts += [tag("text", number(round(value)), x=across(value), **where) for value in marked]
    parts += [_title(x_title, (left + right) / 2, LINES_HEIGHT - 6, middle=True), _title(y_title, 2, top - 12)]
    return across, up, parts


def _legend(j: int, name: str) -> list[Markup]:
    """Return the entry of line j."""
    y = 10 + 18.0 * j
    line = tag("line", x1=46.0, x2=68.0, y1=y, y2=y, class_=f"line s{j}")
    return [line, tag("text", name, x=74.0, y=y + 4, class_="name")]


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def draw_confusion(table: Sequence[Sequence[int]], classes: Sequence[str]) -> Markup:
    """Draw the confusion matrix of the held-out rows, shaded by the share of each true class."""
    c = len(classes)
    cell = 46.0 if c <= 5 else 36.0 if c <= 10 else 26.0
    room = max(_width(line) for name in classes for line in wrap(name, 20)) + 12
    left, top = max(room, 80.0), max(room, 44.0)
    parts = [_title("predicted →", 0, top - 24), _title("true class ↓", 0, top - 8)]
    for i, name in enumerate(classes):
        middle = i * cell + cell / 2 - 1
        parts += _lines(name, left - 8, top + middle, end=True)
        parts += _lines(name, left + middle, top - 8, turned=True)
        total = max(sum(table[i]), 1)
        for j, count in enumerate(table[i]):
            share = count / total
            words = f"{name} predicted as {classes[j]}: {count} of {sum(table[i])}"
            x, y = left + j * cell, top + i * cell
            kind = "cell right" if i == j else "cell wrong"
            box = {"x": x, "y": y, "width": cell - 2, "height": cell - 2, "rx": 3}
            parts.append(tag("rect", **box, class_="cell empty"))
            parts.append(tag("rect", tag("title", words), **box, class_=kind, style=f"opacity: {_depth(share):.2f}"))
            if count:
                dark = "count on-dark" if _depth(share) > 0.55 else "count"
                where = {"x": x + cell / 2 - 1, "y": y + cell / 2 + 3.5}
                parts.append(tag("text", count, **where, class_=dark, text_anchor="middle"))
    right = sum(table[i][i] for i in range(c))
    alt = f"Confusion matrix of {sum(map(sum, table))} held-out rows in {c} classes; {right} on the diagonal are right."
    return picture(max(left + c * cell + 4, 300), top + c * cell + 4, alt, parts)


def draw_reliability(groups: Sequence[dict[str, Any]]) -> Markup:
    """Draw accuracy against confidence (a reliability diagram)."""
    height, left, top = 346.0, 46.0, 26.0
    across = _Scale(0, 1, left, FIGURE_WIDTH - FIGURE_MARGIN - 20)
    up = _Scale(0, 1, height - 46, top)
    marks = (0, 0.25, 0.5, 0.75, 1)
    parts = [_horizontal(up(tick), left, across(1), percent(tick)) for tick in marks]
    parts += [
        tag("text", percent(tick), x=across(tick), y=height - 28, class_="axis", text_anchor="middle") for tick in marks
    ]
    parts.append(tag("line", x1=across(0), y1=up(0), x2=across(1), y2=up(1), class_="guide"))
    parts.append(_title("confidence of the model", across(0.5), height - 8, middle=True))
    parts.append(_title("share predicted correctly", 2, top - 12))
    for group in groups:
        x, (low, high) = across(group["confidence"]), group["interval"]
        words = f"confidence {percent(group['confidence'])}, {percent(group['accuracy'])} of {group['n']} rows right"
        parts.append(tag("line", x1=x, x2=x, y1=up(low), y2=up(high), class_="whisker s0"))
        parts.append(tag("circle", tag("title", words), cx=x, cy=up(group["accuracy"]), r=5, class_="dot s0"))
    alt = "Reliability: " + "; ".join(
        f"confidence {percent(group['confidence'])}, {percent(group['accuracy'])} right" for group in groups
    )
    return picture(FIGURE_WIDTH, height, alt, parts)


def draw_map(drawn: dict[str, Any], classes: Sequence[str]) -> Markup:
    """Draw the map of rows, the labelled ones ringed and on top; data attributes have the text shown on hover."""
    width, height, edge = 760.0, 520.0, 16.0
    parts = []
    for row in sorted(drawn["rows"], key=lambda row: row["label"] is not None):
        x, y = edge + row["x"] * (width - 2 * edge), edge + (1 - row["y"]) * (height - 2 * edge)
        known = row["label"] is not None
        data = {"data_id": row["id"], "data_p": percent(row["probability"]), "data_k": row["predicted"]}
        if known:
            data["data_label"] = row["label"]
        k = row["label"] if known else row["predicted"]
        parts.append(marker(k, x, y, 6.5 if known else 4.0, class_="row known" if known else "row", **data))
    parts.append(tag("circle", id="map-focus", r=10, cx=-50, cy=-50))
    labeled = sum(row["label"] is not None for row in drawn["rows"])
    alt = f"Map of {len(drawn['rows'])} rows in {len(classes)} classes, {labeled} of them labelled."
    return picture(width, height, alt, parts, "map")


def draw_key(k: int) -> Markup:
    """Draw the marker of a class, for a legend or a heading."""
    return tag("svg", marker(k, 8, 8, 6), viewBox="0 0 16 16", class_="key", aria_hidden="true")


def draw_importance(columns: Sequence[dict[str, Any]]) -> Markup:
    """Draw the increase in log loss when each column is shuffled."""
    row, left = 40.0, FIGURE_MARGIN
    marks = ticks(0, max(line["interval"][1] for line in columns), most=5)
    scale = _Scale(0, marks[-1], left, FIGURE_WIDTH - 52)
    bottom = len(columns) * row + 2
    parts: list[Any] = [_vertical(scale(tick), 4, bottom, number(tick)) for tick in marks]
    parts.append(_title("increase in log loss", (left + scale(marks[-1])) / 2, bottom + 33, middle=True))
    for i, line in enumerate(columns):
        y = i * row
        kind = "s0" if line["clear"] else "s1"
        low, high = (max(end, 0.0) for end in line["interval"])
        parts.append(_name(line["column"], left, y + 13, 48))
        length = max(scale(max(line["loss"], 0)) - left, 1)
        parts.append(tag("rect", x=left, y=y + 19, width=length, height=11, rx=2, class_=f"bar {kind}"))
        parts.append(_whisker(scale(low), scale(high), y + 24.5, "ink"))
        parts.append(tag("text", f"+{line['loss']:.3f}", x=scale(high) + 6, y=y + 29, class_="value"))
    alt = "Increase in log loss when a column is shuffled: " + "; ".join(
        f"{line['column']} {line['loss']:.3f}" for line in columns
    )
    return picture(FIGURE_WIDTH, bottom + 38, alt, parts)


def draw_difference(size: float) -> Markup:
    """Draw the difference between a segment and all rows, in standard deviations, as a bar from the middle."""
    half, most = 36.0, 1.0
    length = max(half * min(abs(size), most) / most, 1.0)
    x = half if size > 0 else half - length
    parts = [
        tag("line", x1=half, x2=half, y1=0, y2=14, class_="guide"),
        tag("rect", x=x, y=3, width=length, height=8, rx=2, class_=f"bar {'s0' if size > 0 else 's2'}"),
    ]
    words = f"{'above' if size > 0 else 'below'} everyone by {abs(size):.1f} standard deviations"
    return tag("svg", tag("title", words), *parts, viewBox="0 0 72 14", class_="mini", role="img", aria_label=words)


class _Scale:
    """Maps values to coordinates."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self._low, self._first = low, first
        self._slope = (last - first) / (high - low if high > low else 1)

    def __call__(self, value: float) -> float:
        return self._first + (value - self._low) * self._slope


def _name(text: str, x: float, y: float, most: int) -> Markup:
    """Return a name, cut to a number of characters; the full name is shown on hover."""
    cut = shorten(text, most)
    inside = [tag("title", text), cut] if cut != text else [cut]
    return tag("text", *inside, x=x, y=y, class_="name")


def _lines(text: str, x: float, y: float, *, end: bool = False, turned: bool = False) -> list[Markup]:
    """Return a name in up to two lines around a point, turned upwards or not; the full name is shown on hover."""
    lines = wrap(text, 20)
    height = 13.0  # of a line
    first = 4 - height * (len(lines) - 1) / 2
    where = {"transform": f"rotate(-90 {x:.1f} {y:.1f})"} if turned else {}
    anchor = "end" if end else None
    return [
        tag("text", tag("title", text), line, x=x, y=y + first + height * i, class_="name", text_anchor=anchor, **where)
        for i, line in enumerate(lines)
    ]


def _width(line: str) -> float:
    """Return about how wide a line is: capitals and East Asian letters take more room than others."""
    wide = sum(east_asian_width(letter) in "WF" for letter in line)
    capitals = sum(letter.isupper() for letter in line)
    return 6.6 * len(line) + 3.0 * capitals + 6.4 * wide


def _title(text: str, x: float, y: float, *, middle: bool = False) -> Markup:
    return tag("text", text, x=x, y=y, class_="axis title", text_anchor="middle" if middle else None)


def _vertical(x: float, top: float, bottom: float, text: str) -> Markup:
    label = tag("text", text, x=x, y=bottom + 15, class_="axis", text_anchor="middle")
    return tag("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid") + label


def _horizontal(y: float, left: float, right: float, text: str) -> Markup:
    label = tag("text", text, x=left - 6, y=y + 4, class_="axis", text_anchor="end")
    return tag("line", x1=left, x2=right, y1=y, y2=y, class_="grid") + label


def _whisker(x1: float, x2: float, y: float, kind: str) -> Markup:
    return tag("line", x1=x1, x2=x2, y1=y, y2=y, class_=f"whisker {kind}")


def _depth(share: float) -> float:
    """Return the opacity of a cell; small shares stay visible."""
    return 0.0 if share == 0 else 0.08 + 0.82 * share
