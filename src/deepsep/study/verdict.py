"""The result of a comparison in sentences and as a table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from deepsep.evaluation.intervals import METRIC_NAMES
from deepsep.report.wording import join_words, percent, points, span, with_ends

POPULATION_WORDS = {"given": "the given shares", "estimated": "the shares that the committee estimates"}


def comparison_verdict(comparison: dict[str, Any]) -> list[str]:
    """Return the method to use, whether others differ by more than noise, and whether unlabelled rows helped."""
    first, *others = comparison["methods"]
    accuracy, expected = first["accuracy"], comparison["expected"]
    sentences = [
        f"Use {first['name']}: {percent(accuracy['value'])} of held-out labels right ({span(accuracy['interval'])})."
    ]
    if expected is not None:
        on = "" if expected["condition"] is None else f", {expected['condition']}"
        sentences.append(
            f"Expect it to give about {percent(expected['value'])} ({span(expected['interval'])}) of the unlabelled "
            f"rows the right label{on}."
        )
    if others:
        sentences.append(_second(first, others[0]))
        near = [one["name"] for one in others if one["against_first"]["interval"][1] >= 0]
        if len(near) > 1:
            sentences.append(f"These labels do not show which is better: {join_words([first['name'], *near])}.")
        elif not near and len(others) > 1:
            sentences.append("All others are behind by more than noise.")
    return sentences + _unlabeled(comparison["unlabelled"])


def _second(first: dict[str, Any], second: dict[str, Any]) -> str:
    gap = second["against_first"]
    if gap["interval"][1] < 0:
        return f"{second['name']} comes next, and the difference is more than noise: {_gap(gap)}."
    cheaper = first["seconds"] >= 1 and second["seconds"] < first["seconds"] / 5
    also = f" It takes {second['seconds']:.1f} s per fit instead of {first['seconds']:.1f}." if cheaper else ""
    if gap["difference"] > 0:
        right = percent(second["accuracy"]["value"])
        return f"{second['name']} got {right} right, but the difference may be noise: {_gap(gap)}.{also}"
    return f"{second['name']} comes next, and the difference may be noise: {_gap(gap)}.{also}"


def _unlabeled(tested: dict[str, Any] | None) -> list[str]:
    if tested is None:
        return ["Whether unlabelled rows help was not tested: no method uses them, or there are none."]
    sentences = []
    if tested["without"] is not None:
        low, high = tested["without"]["interval"]
        start = "These labels do not show whether the unlabelled rows helped"
        if low > 0 or high < 0:
            start = f"The unlabelled rows {'helped' if low > 0 else 'hurt'}"
        sentences.append(f"{start}: {tested['method']} with them against without, {_gap(tested['without'])}.")
    if tested["labels_alone"] is not None:
        gap = tested["against_labels_alone"]
        low, high = gap["interval"]
        word = "beats" if low > 0 else "is beaten by" if high < 0 else "cannot be distinguished from"
        sentences.append(
            f"The best method that uses unlabelled rows, {tested['method']}, {word} the best that does not, "
            f"{tested['labels_alone']}: {_gap(gap)}."
        )
    return sentences


def _gap(gap: dict[str, Any]) -> str:
    return with_ends(gap["difference"], gap["interval"])


def comparison_frame(comparison: dict[str, Any]) -> pd.DataFrame:
    """Return one row per method, with the ends of the intervals in separate columns."""
    rows = []
    for entry in comparison["methods"]:
        row: dict[str, Any] = {"method": entry["name"], "uses_unlabelled": entry["uses_unlabelled"]}
        for metric in METRIC_NAMES:
            low, high = entry[metric]["interval"]
            row |= {metric: entry[metric]["value"], f"{metric}_low": low, f"{metric}_high": high}
        low, high = entry["against_first"]["interval"]
        row |= {"difference": entry["against_first"]["difference"], "difference_low": low, "difference_high": high}
        rows.append({**row, "seconds": entry["seconds"]})
    return pd.DataFrame(rows).round(6)


def comparison_text(comparison: dict[str, Any]) -> str:
    """Return the table for a terminal."""
    width = max(len(entry["name"]) for entry in comparison["methods"])
    lines = [f"{'':<{width}}   accuracy          balanced  log loss  calibration   from the first        seconds"]
    for entry in comparison["methods"]:
        low, high = (f"{100 * end:.0f}" for end in entry["accuracy"]["interval"])
        accuracy = f"{100 * entry['accuracy']['value']:5.1f} ({low}–{high})"
        gap = entry["against_first"]
        low, high = (points(end) for end in gap["interval"])
        behind = f"{points(gap['difference'])} ({low} to {high})" if entry is not comparison["methods"][0] else ""
        mark = "+" if entry["uses_unlabelled"] else " "
        lines.append(
            f"{entry['name']:<{width}} {mark} {accuracy:<16}  {100 * entry['balanced_accuracy']['value']:8.1f}  "
            f"{entry['log_loss']['value']:8.3f}  {100 * entry['ece']['value']:11.1f}   {behind:<20}  "
            f"{entry['seconds']:7.2f}"
        )
    lines.append("+ also learns from the unlabelled rows. Accuracies, calibration error and differences are in %.")
    if comparison["weighted"]:
        lines[-1] += " Rows are weighted."
    if comparison["by_shares"]:
        lines[-1] += f" Rows are weighted to {POPULATION_WORDS[comparison['population']]}."
    lines += [
        f"{name} has {', '.join(f'{setting} = {value}' for setting, value in own.items())}."
        for name, own in comparison["settings"].items()
    ]
    return "\n".join(lines)
