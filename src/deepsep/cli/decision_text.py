"""Sentences on what --sets, --abstain and --costs changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepsep.report.wording import percent, span


def decision_lines(decisions: dict[str, Any], rows: int, costs: Path | None, *, by_student: bool = False) -> list[str]:
    """Return a sentence for everything that was applied.

    Parameters
    ----------
    decisions : dict
        From ``Decisions.describe``.
    rows : int
        Number of rows.
    costs : Path or None
        The table of costs.
    by_student : bool, default=False
        Whether the student of a committee scored.
    """
    lines = []
    if (sets := decisions["sets"]) is not None:
        where = " of each class" if sets["per_class"] else ""
        lines.append(
            f"Sets: {percent(sets['coverage'])} or more{where} should hold the right class. They have "
            f"{sets['mean_size']:.1f} classes on average; {sets['one_class']:,} of {rows:,} rows have one."
        )
    if (abstain := decisions["abstain"]) is not None:
        lines.append(
            f"No label: {abstain['without_label']:,} of {rows:,} rows, with a confidence below "
            f"{abstain['confidence']:g}. {_expectation(abstain, rows, by_student)}"
        )
    if (by_cost := decisions["costs"]) is not None:
        lines.append(
            f"Labels have the lowest expected cost ({costs}), {by_cost['changed']:,} of them other than the most "
            "probable class. Probabilities and confidence are as before."
        )
    return lines


def _expectation(abstain: dict[str, Any], rows: int, by_student: bool) -> str:
    accuracy = abstain["accuracy"]
    if accuracy is not None:
        return f"Expect {percent(accuracy['value'])} ({span(accuracy['interval'])}) of the others to be right."
    if abstain["without_label"] == rows:
        return "That is all of them: take a lower confidence."
    if by_student:
        return "How many of the others are right is not known of the student; --exact takes the committee, which knows."
    return "How many of the others are right is not known: no predictions out of fold are as sure."
