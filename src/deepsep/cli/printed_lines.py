"""Lines that several commands print: aligned names, findings, and what sets, abstentions and costs did."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def aligned(texts: Mapping[Any, str], indent: str = "  ") -> list[str]:
    """Return a line for each name and its text, one below the other."""
    width = max((len(str(name)) for name in texts), default=0)
    return [f"{indent}{name!s:<{width}}  {text}" for name, text in texts.items()]


def finding_lines(finding: dict[str, Any]) -> list[str]:
    """Return a finding as lines of text: what is wrong, and what to do."""
    lines = [wrapped(f"{finding['severity']}: {finding['message']}", "     ")]
    next = finding["next"].replace("merge_spellings", "--merge-spellings").replace("no_label", "--no-label")
    return lines if next == "Nothing." else [*lines, wrapped(f"  -> {next}", "     ")]


def wrapped(text: str, indent: str = "") -> str:
    """Return a text in lines of at most 100 characters."""
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def decision_lines(decisions: dict[str, Any], rows: int, costs: Path | None, *, by_student: bool = False) -> list[str]:
    """Return a sentence for each of ``decisions``, from ``Decisions.describe``; ``costs`` is their file."""
    from deepsep.report.wording import percent

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
    from deepsep.report.wording import with_span

    accuracy = abstain["accuracy"]
    if accuracy is not None:
        return f"Expect {with_span(accuracy['value'], accuracy['interval'])} of the others to be right."
    if abstain["without_label"] == rows:
        return "That is all of them: take a lower confidence."
    if by_student:
        return "How many of the others are right is not known of the student; --exact takes the committee, which knows."
    return "How many of the others are right is not known: no predictions out of fold are as sure."
