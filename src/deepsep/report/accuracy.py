"""The accuracy of a report: everything that is measured on held-out rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from deepsep.classifiers.catalogue import find_method, title_of, uses_unlabeled
from deepsep.classifiers.committee.committee import Committee
from deepsep.core.arrays import Array
from deepsep.core.label_origins import LabelOrigins
from deepsep.core.labels import Labels
from deepsep.evaluation.intervals import effective, paired_difference, reliability, scores_with_intervals, share_right
from deepsep.evaluation.out_of_fold import MODEL_NAME
from deepsep.report import outcome
from deepsep.report.committee_held_out import gain_from_unlabeled, member_titles
from deepsep.report.held_out import BASELINE_METHODS, START_KEY, Evaluation


def measure_accuracy(evaluation: Evaluation | None, estimator: Any, known: Labels, seed: int) -> dict[str, Any]:
    """Return the parts of a summary that rest on held-out rows; most are None without an evaluation."""
    uses = uses_unlabeled(estimator)
    if evaluation is None:
        nothing = dict.fromkeys(("accuracy", "curve", "confusion", "reliability"))
        return {**nothing, "rounds": _rounds(None, estimator), "unlabelled_rows": outcome.unlabeled_rows(None, uses)}
    codes, weight, c = evaluation.codes, evaluation.weight, len(known.classes)
    right = {key: p.argmax(axis=1) == codes for key, p in evaluation.p.items()}
    names, lines = _names(estimator), {}
    for key in sorted(evaluation.p, key=list(names).index):
        lines[key] = {"key": key, "name": names[key]} | scores_with_intervals(evaluation.p[key], codes, seed, weight)
        if key != MODEL_NAME:
            lines[key]["against_model"] = paired_difference(right[MODEL_NAME], right[key], weight)
    own, p = lines[MODEL_NAME], evaluation.p[MODEL_NAME]
    confusion = np.zeros((c, c), int)
    np.add.at(confusion, (codes, p.argmax(axis=1)), 1)
    return {
        "accuracy": {
            "held_out": len(codes),
            "effective": None if weight is None else effective(weight, len(codes)),
            "weighted": evaluation.weighted,
            "population": evaluation.population,
            "by_shares": evaluation.population == "given",
            "methods": list(lines.values()),
        },
        "unlabelled_rows": outcome.unlabeled_rows(_against_start(estimator, lines.get(START_KEY)), uses),
        "rounds": _rounds(evaluation, estimator),
        "curve": _curve(evaluation, names),
        "confusion": confusion.tolist(),
        "reliability": {
            "groups": reliability(p, codes, weight),
            **outcome.calibration(own, float(np.average(p.max(axis=1), weights=weight))),
        },
    }


def _names(estimator: Any) -> dict[str, str]:
    """Return the names of the methods in the order of the table."""
    start, titles = "the same (labelled rows alone)", {key: find_method(key).title for key in BASELINE_METHODS}
    if isinstance(estimator, Committee) and hasattr(estimator, "members_"):
        titles = member_titles(estimator)
    elif hasattr(estimator, "round_proba"):
        start = "its first network (labelled rows alone)"
    return {MODEL_NAME: title_of(estimator), START_KEY: start, **titles, "majority": "most frequent class"}


def _against_start(estimator: Any, start: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the lead of the model over the same one without its unlabelled rows, and the latter's name."""
    if start is None:
        return None
    if isinstance(estimator, Committee) and (gain := gain_from_unlabeled(estimator)) is not None:
        return {**gain, "name": f"{start['name']}, with the classes in the shares of the population"}
    return {**start["against_model"], "name": start["name"]}


def _rounds(evaluation: Evaluation | None, estimator: Any) -> dict[str, Any] | None:
    """Return accuracy per round on held-out rows, and the share of unlabelled rows that kept their class."""
    agreement = [row["agreement"] for row in getattr(estimator, "history_", []) if row.get("phase") == "end"]
    if not any(value is not None for value in agreement):
        return None
    parts = ("network", "network_interval", "average", "average_interval")
    result: dict[str, Any] = {"rounds": list(range(len(agreement))), "agreement": agreement, **dict.fromkeys(parts)}
    if evaluation is None or evaluation.networks is None or evaluation.averages is None:
        return result
    result["rounds"] = list(range(len(evaluation.networks)))
    for name, p in (("network", evaluation.networks), ("average", evaluation.averages)):
        right = p.argmax(axis=2) == evaluation.codes
        result[name], result[f"{name}_interval"] = _shares_right(right, evaluation.weight)
    return result


def _curve(evaluation: Evaluation, names: dict[str, str]) -> dict[str, Any] | None:
    if len(evaluation.curve) < 2:
        return None
    lines = []
    for key in evaluation.curve[0]["right"]:
        shares, intervals = _shares_right([point["right"][key] for point in evaluation.curve], evaluation.weight)
        lines.append({"key": key, "name": names[key], "accuracy": shares, "interval": intervals})
    return {"labels": [point["labels"] for point in evaluation.curve], "methods": lines}


def _shares_right(each: Iterable[Array], weight: Array | None) -> tuple[list[float], list[list[float]]]:
    """Return the shares of rows that are right and their intervals, as two lists."""
    pairs = [share_right(right, weight) for right in each]
    return [share for share, _ in pairs], [interval for _, interval in pairs]


def state_for_population(
    accuracy: dict[str, Any], committee: Committee | None, classes: list[str], origins: LabelOrigins, holds: bool
) -> None:
    """Add the rows that the accuracies hold for; for a committee, state those to expect on the unlabelled rows.

    Held-out labels tell how far its members are behind. Guessing is right as often as the most frequent class occurs.
    """
    expected = shares = None
    if committee is not None and committee.shares_ is not None:
        expected, shares = committee.expected_accuracy_, dict(zip(classes, committee.shares_.tolist(), strict=True))
    accuracy["holds_for_unlabelled"] = holds
    accuracy["condition"] = outcome.condition(origins, accuracy["population"], shares)
    accuracy["expected"] = expected is not None and holds
    if expected is None or not holds:
        return
    own, *others = accuracy["methods"]
    offset = expected.value - own["accuracy"]["value"]
    own["accuracy"] = {"value": expected.value, "interval": expected.interval}
    for line in others:
        if line["key"] == "majority":
            gap = line["against_model"]
            gap["difference"], gap["interval"] = gap["difference"] + offset, [end + offset for end in gap["interval"]]
        else:
            both = line["accuracy"]
            both["value"], *both["interval"] = (
                float(np.clip(each + offset, 0, 1)) for each in (both["value"], *both["interval"])
            )
