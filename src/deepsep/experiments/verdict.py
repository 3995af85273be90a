"""A comparison in words and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepsep.evaluation.metrics import METRICS
from deepsep.report.wording import join_words, percent, points, span

if TYPE_CHECKING:
    import pandas as pd


def verdict(found: dict[str, Any]) -> list[str]:
    """Return which method, by how much, whether that is more than noise, and whether unlabelled rows helped."""
    best, *others = found["methods"]
    accuracy = best["accuracy"]
    sentences = [
        f"Take {best['name']}: {percent(accuracy['value'])} of held-out labels right ({span(accuracy['interval'])})."
    ]
    if others:
        sentences.append(_next(best, others[0]))
        near = [one["name"] for one in others if one["against_best"]["interval"][1] >= 0]
        if len(near) > 1:
            sentences.append(f"Not told apart from it by these labels: {join_words(near)}.")
        elif not near and len(others) > 1:
            sentences.append("All others are further behind than noise would explain.")
    return sentences + _unlabelled(found["unlabelled"])


def _next(best: dict[str, Any], second: dict[str, Any]) -> str:
    gap = second["against_best"]
    low, high = gap["interval"]
    words = f"{points(gap['difference'])} points, 95 % interval {points(low)} to {points(high)}"
    if high < 0:
        return f"{second['name']} comes next, and the difference is more than noise: {words}."
    cheaper = best["seconds"] >= 1 and second["seconds"] < best["seconds"] / 5
    also = f" It takes {second['seconds']:.1f} s a fit instead of {best['seconds']:.1f}." if cheaper else ""
    return f"{second['name']} comes next, and the difference may be noise: {words}.{also}"


def _unlabelled(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return ["Whether unlabelled rows help was not asked: no method that uses them, or no such rows."]
    sentences = []
    if found["without"] is not None:
        what = f"{found['method']} with them against without"
        sentences.append(f"{_helped(found['without'])}: {what}, {_gap(found['without'])}.")
    if found["labels_alone"] is not None:
        gap = found["against_labels_alone"]
        low, high = gap["interval"]
        word = "beats" if low > 0 else "is beaten by" if high < 0 else "is not told apart from"
        sentences.append(
            f"The best method that uses unlabelled rows, {found['method']}, {word} the best that does not, "
            f"{found['labels_alone']}: {_gap(gap)}."
        )
    return sentences


def _helped(gap: dict[str, Any]) -> str:
    low, high = gap["interval"]
    if low > 0:
        return "The unlabelled rows helped"
    return "The unlabelled rows hurt" if high < 0 else "Whether the unlabelled rows helped cannot be told"


def _gap(gap: dict[str, Any]) -> str:
    low, high = gap["interval"]
    return f"{points(gap['difference'])} points, 95 % interval {points(low)} to {points(high)}"


def as_frame(found: dict[str, Any]) -> pd.DataFrame:
    """Return one row a method, with the ends of the intervals in columns of their own."""
    import pandas as pd

    rows = []
    for entry in found["methods"]:
        row: dict[str, Any] = {"method": entry["name"], "uses_unlabelled": entry["uses_unlabelled"]}
        for metric in METRICS:
            low, high = entry[metric]["interval"]
            row |= {metric: entry[metric]["value"], f"{metric}_low": low, f"{metric}_high": high}
        low, high = entry["against_best"]["interval"]
        row |= {"difference": entry["against_best"]["difference"], "difference_low": low, "difference_high": high}
        rows.append({**row, "seconds": entry["seconds"]})
    return pd.DataFrame(rows).round(6)


def as_text(found: dict[str, Any]) -> str:
    """Return the table for a terminal."""
    width = max(len(entry["name"]) for entry in found["methods"])
    lines = [f"{'':<{width}}   accuracy          balanced  log loss  calibration   to the best           seconds"]
    for entry in found["methods"]:
        low, high = (f"{100 * end:.0f}" for end in entry["accuracy"]["interval"])
        accuracy = f"{100 * entry['accuracy']['value']:5.1f} ({low}–{high})"
        gap = entry["against_best"]
        low, high = (points(end) for end in gap["interval"])
        behind = f"{points(gap['difference'])} ({low} to {high})" if entry is not found["methods"][0] else ""
        mark = "+" if entry["uses_unlabelled"] else " "
        lines.append(
            f"{entry['name']:<{width}} {mark} {accuracy:<16}  {100 * entry['balanced_accuracy']['value']:8.1f}  "
            f"{entry['log_loss']['value']:8.3f}  {100 * entry['ece']['value']:11.1f}   {behind:<20}  "
            f"{entry['seconds']:7.2f}"
        )
    weighted = " Rows count by their weights." if found["weighted"] else ""
    below = f"+ learns from the unlabelled rows too. Accuracies, calibration error, differences: %.{weighted}"
    return "\n".join([*lines, below])
