"""The third step of the report: the summary and its figures on one self-contained page."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from deepsep.errors import DataError
from deepsep.files.atomic import replace_file
from deepsep.report import explanation, figures
from deepsep.report.provenance import made
from deepsep.report.summary import summarize
from deepsep.report.wording import number, percent, points, span, with_span


def render(summary: dict[str, Any], *, data_file: str | None = None) -> str:
    """Return the report as one self-contained HTML page.

    ``summary`` is the result of :func:`summarize`, or the content of ``report.json``. ``data_file`` is the name of a
    file with the same results as data, mentioned at the end of the page.
    """
    return _page(
        "report.html.jinja",
        {
            **summary,
            "data_file": data_file,
            "drawn": draw(summary),
            "segments": _segments(summary),
            "weights": {line["key"]: line["weight"] for line in (summary["members"] or {"lines": []})["lines"]},
            "key": figures.draw_key,
            "difference": figures.draw_difference,
            **{name: getattr(explanation, name) for name in ("how", "fidelity_sentence", "conditions", "reach")},
            "no_rule": explanation.NO_RULE,
        },
    )


def render_comparison(comparison: dict[str, Any], *, command: str | None = None) -> str:
    """Return the result of :func:`deepsep.study.compare` as one self-contained HTML page.

    ``command`` is the command that made it, shown at the end of the page.
    """
    context = {
        "title": f"{len(comparison['methods'])} methods on {comparison['labelled']:,} labels",
        "comparison": comparison,
        "findings": comparison.get("findings", []),
        "drawn": {"comparison": _compared(comparison)},
        "made": made(command),
    }
    return _page("comparison.html.jinja", context)


def render_segments(summary: dict[str, Any], *, command: str | None = None) -> str:
    """Return segments of respondents as one self-contained HTML page.

    ``summary`` is the result of :func:`deepsep.survey.write_segments`, or the content of its ``summary.json``;
    ``command`` is the command that made it, shown at the end of the page.
    """
    context = {
        "title": f"{summary['n_segments']} segments of {summary['respondents']:,} respondents",
        "summary": summary,
        "key": figures.draw_key,
        "difference": figures.draw_difference,
        "standardised": _standardised,
        "made": made(command),
    }
    return _page("segments.html.jinja", context)


def _standardised(answer: dict[str, Any]) -> float:
    """Return the difference between an answer's share in a segment and overall, in standard deviations."""
    overall = answer["overall"]
    spread = (overall * (1 - overall)) ** 0.5
    return float((answer["share"] - overall) / spread) if spread > 0 else 0.0


def _page(template: str, context: dict[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("deepsep.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "points": points, "span": span, "number": number, "loss": _loss}
    environment.filters["thousands"] = "{:,}".format
    environment.filters["estimate"] = lambda score: with_span(score["value"], score["interval"])
    when = datetime.fromisoformat(context["made"]["date"])
    page: str = environment.get_template(template).render({**context, "date": f"{when.day} {when:%B %Y, %H:%M} UTC"})
    return page


def draw(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a summary by name; those without data are left out."""
    drawn: dict[str, Any] = {"shares": figures.draw_shares(summary["shares"]["lines"])}
    if summary["map"] is not None:
        drawn["map"] = figures.draw_map(summary["map"], summary["classes"])
    if summary["accuracy"] is not None:
        drawn["intervals"] = figures.draw_intervals(summary["accuracy"]["methods"])
        drawn["confusion"] = figures.draw_confusion(summary["confusion"], summary["classes"])
        drawn["reliability"] = figures.draw_reliability(summary["reliability"]["groups"])
    if summary.get("more_labels") is not None:
        drawn["more_labels"] = figures.draw_more_labels(summary["more_labels"])
    if len(summary["outcome"]["by_share"]) > 1:
        drawn["by_share"] = _by_share(summary["outcome"]["by_share"])
    if summary["comparison"] is not None:
        drawn["comparison"] = _compared(summary["comparison"])
    if summary["rounds"] is not None:
        drawn["rounds"] = _rounds(summary["rounds"])
    if summary["curve"] is not None:
        curve = summary["curve"]
        series = [
            {"name": line["name"], "values": line["accuracy"], "interval": line["interval"]}
            for line in curve["methods"]
        ]
        alt = "Accuracy by number of labels: " + ", ".join(
            f"{n} labels {percent(value)}" for n, value in zip(curve["labels"], series[0]["values"], strict=True)
        )
        titles = {"x_title": "labels in training", "y_title": "accuracy on held-out rows"}
        drawn["curve"] = figures.draw_lines(curve["labels"], series, **titles, alt=alt, dodge=8)
    explanation = summary["explanation"]
    if explanation is not None and explanation["importance"] is not None:
        columns = [line for line in explanation["importance"]["columns"] if line["loss"] > 0][:12]
        drawn["importance"] = figures.draw_importance(columns) if columns else None
    return drawn


def _compared(comparison: dict[str, Any]) -> Any:
    """Draw the accuracy of the methods of a comparison, with the best one highlighted."""
    best, *others = comparison["methods"]
    return figures.draw_intervals([{**best, "key": "model"}, *({**entry, "key": entry["name"]} for entry in others)])


def _by_share(points: list[dict[str, Any]]) -> Any:
    """Draw the accuracy of the surest rows against their share."""
    points = points[::-1]
    series = [
        {
            "name": "of the rows with a label",
            "values": [point["accuracy"] for point in points],
            "interval": [point["interval"] for point in points],
        }
    ]
    alt = "Accuracy if only the surest rows get a label: " + "; ".join(
        f"{percent(point['share'])} of the rows {percent(point['accuracy'])}" for point in points
    )
    return figures.draw_lines(
        [round(100 * point["share"]) for point in points],
        series,
        x_title="share of the rows that get a label, the surest, in %",
        y_title="accuracy to expect",
        alt=alt,
    )


def _rounds(rounds: dict[str, Any]) -> Any:
    """Draw accuracy per round or, where it is unknown, the share of rows that kept their class."""
    if rounds["network"] is None:
        known = [
            (t, value) for t, value in zip(rounds["rounds"], rounds["agreement"], strict=True) if value is not None
        ]
        at, values = zip(*known, strict=True)
        series = [
            {"name": "unlabelled rows that kept their class", "values": values, "interval": [(v, v) for v in values]}
        ]
        alt = "Share of unlabelled rows that kept their class: " + ", ".join(map(percent, values))
        return figures.draw_lines(at, series, x_title="round", y_title="share of the unlabelled rows", alt=alt)
    series = [
        {"name": "moving average of the networks", "values": rounds["average"], "interval": rounds["average_interval"]},
        {"name": "the round’s network alone", "values": rounds["network"], "interval": rounds["network_interval"]},
    ]
    alt = "Accuracy after each round: " + ", ".join(map(percent, rounds["average"]))
    titles = {"x_title": "round (0: labelled rows alone)", "y_title": "accuracy on held-out rows"}
    return figures.draw_lines(rounds["rounds"], series, **titles, alt=alt, dodge=8)


def _segments(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the profile, the most important columns and the rules of each class."""
    explanation = summary["explanation"]
    segments = []
    for k, profile in enumerate(summary["profiles"]):
        rules = drivers = None
        if explanation is not None:
            rules = explanation["tree"]["classes"][k]["rules"]
            if explanation["importance"] is not None:
                columns = explanation["importance"]["classes"][k]["columns"]
                drivers = [line["column"] for line in columns if line["clear"]][:5]
        segments.append({**profile, "k": k, "rules": rules, "drivers": drivers})
    return segments


def _loss(score: dict[str, Any]) -> str:
    low, high = score["interval"]
    return f"{score['value']:.2f} ({low:.2f}–{high:.2f})"


def write_report(model: Any, table: Any, labels: Any, path: str | os.PathLike[str], **settings: Any) -> dict[str, Any]:
    """Evaluate a model and write a report: a folder with ``report.html`` and ``report.json``, or one HTML file.

    The page needs no other file. Files are written completely or not at all; existing ones are replaced.

    Parameters
    ----------
    model, table, labels
        As in :func:`summarize`.
    path : path
        A name that ends in ``.html`` is the file to write. Any other is a folder, which is created if need be.
    **settings
        As in :func:`summarize`.

    Returns
    -------
    dict
        The summary, as in ``report.json``.
    """
    target = Path(path)
    one_file = target.suffix.lower() in (".html", ".htm")
    if one_file and target.is_dir():
        raise DataError(f"{target} is a folder; the report would be a file of that name. Choose another name.")
    summary = summarize(model, table, labels, **settings)
    if one_file:
        replace_file(target, render(summary))
    else:
        replace_file(target / "report.json", json.dumps(summary, ensure_ascii=False, allow_nan=False, indent=1) + "\n")
        replace_file(target / "report.html", render(summary, data_file="report.json"))
    return summary
