"""A comparison of methods beside a report: whether it is of the same table, and how the two fit together."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepsep.core.labels import Labels
from deepsep.errors import DataError
from deepsep.report.wording import percent, points, span

PARTS = (
    *("labelled", "unlabelled_rows", "columns", "classes", "labels_per_class", "weighted"),
    *("folds", "repeats", "methods", "unlabelled", "notes", "verdict"),
)
AGAIN = "Run deepsep compare again, on this table and with the same options."


def check_comparison(found: Any, known: Labels, columns: int) -> None:
    """Raise if something is no comparison, or one of another table or of other labels.

    Parameters
    ----------
    found : dict
        What :func:`deepsep.experiments.compare` returned.
    known : Labels
        Labels of the table at hand.
    columns : int
        Its number of columns.
    """
    missing = [part for part in PARTS if part not in found] if isinstance(found, dict) else list(PARTS)
    if missing:
        raise DataError(
            f"this is no comparison of methods: it lacks {missing[0]!r}. Pass what deepsep.experiments.compare "
            "returned, or what deepsep compare wrote to a .json file."
        )
    classes = [str(name) for name in known.classes]
    if list(found["classes"]) != classes:
        theirs, ours = (", ".join(names[:5]) + " ..." * (len(names) > 5) for names in (found["classes"], classes))
        raise DataError(f"the comparison is of other classes: {theirs} there, {ours} here. {AGAIN}")
    counts = np.bincount(known.codes[known.labelled], minlength=len(classes)).tolist()
    for what, theirs, ours in (
        ("labelled rows", found["labelled"], sum(counts)),
        ("unlabelled rows", found["unlabelled_rows"], len(known.codes) - sum(counts)),
        ("columns", found["columns"], columns),
        *(
            (f"labels of {name!r}", *both)
            for name, *both in zip(classes, found["labels_per_class"], counts, strict=True)
        ),
    ):
        if theirs != ours:
            raise DataError(f"the comparison is of another table: {theirs} {what} there, {ours} here. {AGAIN}")


def beside_report(found: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """Return the comparison with the name of the report's method, and how its figure there goes with the report's."""
    asked, accuracy = summary["asked"], summary["accuracy"]
    entry = next((entry for entry in found["methods"] if entry["name"] == asked["method"]), None)
    if entry is None:
        said = f"The method of this report, {asked['method']}, is not among those compared."
        return {**found, "own": None, "beside": [said]}
    sentences = []
    if accuracy is not None:
        there, here = (
            f"{percent(score['value'], 1)} ({span(score['interval'])})"
            for score in (entry["accuracy"], accuracy["methods"][0]["accuracy"])
        )
        sentences.append(
            f"{asked['method']} has {there} in the comparison and {here} in this report's own folds. Both are "
            "estimates from the same labels, with other fits behind them: neither is the truth."
        )
        if accuracy["weighted"] != found["weighted"]:
            way = "by weight" if found["weighted"] else "once each"
            sentences.append(f"The comparison counts labelled rows {way}, and this report does not.")
        if accuracy["by_shares"]:
            sentences.append("This report counts labelled rows by the shares given; the comparison knows none.")
    settings = dict(asked["settings"])
    if settings.pop("calibrate", False):
        # With shares, what was tempered is brought to them again: rows between two classes may change sides.
        depend = "with shares given, accuracies do a little" if "priors" in settings else "accuracies do not"
        sentences.append(
            "This report's probabilities are calibrated and those of the comparison are not. Log loss and calibration "
            f"error depend on it; {depend}."
        )
    if settings:
        own = ", ".join(f"{name} = {value}" for name, value in settings.items())
        sentences.append(f"The comparison has {asked['method']} with its own settings, this report with {own}.")
    return {**found, "own": asked["method"], "beside": sentences}


def place_of_method(found: dict[str, Any]) -> tuple[str, bool]:
    """Return which method comes first, as a sentence for the top of the report, and whether to use it instead."""
    best, *others = found["methods"]
    n, own = len(found["methods"]), found["own"]
    if not others:
        return f"The comparison has one method, {best['name']}: {percent(best['accuracy']['value'])}.", False
    if own == best["name"]:
        ahead = others[0]["against_best"]["interval"][1] < 0
        noise = "by more than noise" if ahead else "by what may be noise"
        return (
            f"Of {n} methods compared on these labels, {own} comes first, ahead of {others[0]['name']} {noise}.",
            False,
        )
    first = f"Of {n} methods compared on these labels, {best['name']} comes first"
    entry = next((entry for entry in others if entry["name"] == own), None)
    if entry is None:
        return f"{first}, with {percent(best['accuracy']['value'])}; this report's method was not among them.", False
    gap = entry["against_best"]
    low, high = (points(-end) for end in reversed(gap["interval"]))
    ahead = f"{first}, {-100 * gap['difference']:.1f} points ahead of {own} (95 % interval {low} to {high})"
    if gap["interval"][1] < 0:
        return f"{ahead}: more than noise, so use it instead.", True
    return f"{ahead}, which may be noise.", False
