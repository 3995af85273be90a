"""A comparison of methods shown in a report: check that it is of the same table, and relate it to the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from deepsep.core.labels import Labels
from deepsep.errors import DataError
from deepsep.report.wording import percent, points, span


def check_comparison(comparison: Any, known: Labels, columns: Sequence[str]) -> None:
    """Raise if this is not a comparison of methods on these labels and columns, except those that it left out."""
    keys = (
        *("labelled", "unlabelled_rows", "columns", "columns_left_out", "classes", "labels_per_class", "weighted"),
        *("by_shares", "population", "folds", "repeats", "methods", "unlabelled", "settings", "findings", "notes"),
        "verdict",
    )
    missing = next((key for key in keys if not isinstance(comparison, dict) or key not in comparison), None)
    if missing is not None:
        raise DataError(
            f"this is not a comparison of methods: {missing!r} is missing. Pass the result of "
            "deepsep.study.compare, or a .json file written by deepsep compare."
        )
    again = "Run deepsep compare again, on this table and with the same options."
    classes = [str(name) for name in known.classes]
    if list(comparison["classes"]) != classes:
        theirs, ours = (", ".join(names[:5]) + " ..." * (len(names) > 5) for names in (comparison["classes"], classes))
        raise DataError(f"the comparison has other classes: {theirs} there, {ours} here. {again}")
    counts = np.bincount(known.codes[known.labeled], minlength=len(classes)).tolist()
    for what, theirs, ours in (
        ("labelled rows", comparison["labelled"], sum(counts)),
        ("unlabelled rows", comparison["unlabelled_rows"], len(known.codes) - sum(counts)),
        *(
            (f"labels of {name!r}", *both)
            for name, *both in zip(classes, comparison["labels_per_class"], counts, strict=True)
        ),
    ):
        if theirs != ours:
            raise DataError(f"the comparison is of another table: {theirs} {what} there, {ours} here. {again}")
    used, left_out = set(comparison["columns"]), set(comparison["columns_left_out"])
    differences = {"only there": sorted(used - set(columns)), "only here": sorted(set(columns) - used - left_out)}
    parts = [f"{', '.join(map(repr, names[:5]))} {where}" for where, names in differences.items() if names]
    if parts:
        raise DataError(f"the comparison is of other columns: {'; '.join(parts)}. {again}")


def related_to_report(comparison: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """Return the comparison with the report's method (``own``), and sentences on how the two differ (``beside``)."""
    asked, accuracy = summary["asked"], summary["accuracy"]
    entry = next((entry for entry in comparison["methods"] if entry["name"] == asked["method"]), None)
    if entry is None:
        absent = f"The method of this report, {asked['method']}, is not among those compared."
        return {**comparison, "own": None, "beside": [absent]}
    sentences = []
    if accuracy is not None:
        there, here = (
            f"{percent(score['value'], 1)} ({span(score['interval'])})"
            for score in (entry["accuracy"], accuracy["methods"][0]["accuracy"])
        )
        sentences.append(
            f"{asked['method']} has {there} in the comparison and {here} in this report's own folds. Both are "
            "estimates from the same labels."
        )
        if accuracy["weighted"] != comparison["weighted"]:
            way = "by weight" if comparison["weighted"] else "once each"
            sentences.append(f"The comparison counts labelled rows {way}, and this report does not.")
        here, there = (each.get("population", "labels") for each in (accuracy, comparison))
        if here != there:
            ways = {
                "given": "weighted to the given shares of the classes",
                "estimated": "weighted to the shares of the classes that the committee estimates",
                "labels": "not weighted",
            }
            sentences.append(f"Labelled rows are {ways[here]} in this report, and {ways[there]} in the comparison.")
    theirs, ours = _differences(entry["settings"], asked["settings"])
    if theirs or ours:
        sentences.append(f"The comparison has {asked['method']} with {_list(theirs)}, this report with {_list(ours)}.")
    return {**comparison, "own": asked["method"], "beside": sentences}


def _differences(*both: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield, for each of two methods, the settings in which it differs from the other."""
    for own, other in (both, both[::-1]):
        yield {name: value for name, value in own.items() if name not in other or other[name] != value}


def _list(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items()) or "the default"


def place_of_method(comparison: dict[str, Any]) -> tuple[str, bool]:
    """Return a sentence on the method to use, and whether it should replace the report's method."""
    best, *others = comparison["methods"]
    n, own = len(comparison["methods"]), comparison["own"]
    if not others:
        return f"The comparison has one method, {best['name']}: {percent(best['accuracy']['value'])}.", False
    if own == best["name"]:
        second = others[0]["against_first"]
        if second["difference"] > 0:
            return f"Of {n} methods compared on these labels, none beats {own} by more than noise.", False
        ahead = second["interval"][1] < 0
        gap = f"ahead of {others[0]['name']} {'by more than noise' if ahead else 'by what may be noise'}"
        return f"Of {n} methods compared on these labels, {own} comes first, {gap}.", False
    first = f"Of {n} methods compared on these labels, {best['name']} comes first"
    entry = next((entry for entry in others if entry["name"] == own), None)
    if entry is None:
        return f"{first}, with {percent(best['accuracy']['value'])}; this report's method was not among them.", False
    gap = entry["against_first"]
    if gap["difference"] > 0:
        behind = f"{100 * gap['difference']:.1f} points behind {own}, which may be noise"
        return f"{first}, as the default, {behind}.", False
    low, high = (points(-end) for end in reversed(gap["interval"]))
    ahead = f"{first}, {-100 * gap['difference']:.1f} points ahead of {own} (90 % interval {low} to {high})"
    if gap["interval"][1] < 0:
        return f"{ahead}: more than noise, so use it instead.", True
    return f"{ahead}, which may be noise.", False
