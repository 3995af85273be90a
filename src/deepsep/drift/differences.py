"""Comparison of counts of scored rows with the profile of the training table, for every column and the predictions.

A difference is reported if it is both too large for chance and large enough to matter. Chance is judged by two-sample
tests, since the training table is a sample too. The level of the tests is divided by their number (Bonferroni), so at
most one in a hundred files from the same population raises an alarm, however many columns it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.drift.counts import ColumnCounts, Counts
from deepsep.drift.drift_text import sentence
from deepsep.drift.profile import ColumnProfile, TrainingProfile
from deepsep.drift.two_samples import bins_differ, chance_of_extremes, levels_differ, shares_differ

Array = NDArray[Any]

# The least changes that matter: of a share or, for values and the confidence, of any share below a value.
LEAST_EFFECTS = {
    **{"gaps": 0.05, "below": 0.01, "above": 0.01, "new": 0.02, "values": 0.1, "levels": 0.1},
    **{"classes": 0.1, "confidence": 0.2},
}


@dataclass
class Finding:
    """A difference, with its size and its probability by chance."""

    column: str | None  # None: the predictions
    what: str
    effect: float
    p: float
    values: dict[str, Any]
    least: float = 0.0  # effect that matters, if more than usual

    @property
    def weight(self) -> float:
        """Rank of the difference among others: a changed distribution counts half, since it may have many causes."""
        return self.effect / (2 if self.what in ("values", "levels") else 1)


def find_drift(
    profile: TrainingProfile, counts: Counts, classes: Sequence[Any], *, agreement: float | None = None
) -> dict[str, Any]:
    """Return the differences between the scored rows and the training table.

    Parameters
    ----------
    profile : TrainingProfile
    counts : Counts
        Counts of the rows that were scored.
    classes : sequence of c
        The names of the classes.
    agreement : float, optional
        Share of rows on which the model that scored agrees with the one in the profile, if it is another one. Then its
        confidence is not compared.

    Returns
    -------
    dict
        ``drifted``; ``notices``, a sentence for each column that differs and for the predictions, with the largest
        difference first; ``rows``, ``rows_compared`` and ``training_rows``; ``columns``, a dict for each column;
        ``answers``; all as plain values.
    """
    findings: list[Finding] = []
    columns = {}
    for name, column in counts.columns.items():
        found, columns[name] = _compare_column(name, column, profile.effective)
        findings += found
    found, answers = _compare_answers(profile, counts, classes, agreement)
    findings += found
    level = 0.01 / max(len(findings), 1)  # 0.01: chance of an alarm about a file of the same population
    large = (f for f in findings if f.p < level and f.effect >= max(f.least, LEAST_EFFECTS[f.what]))
    real = sorted(large, key=lambda f: -f.weight)
    for name, outline in columns.items():
        outline["drifted"] = [f.what for f in real if f.column == name]
    answers["drifted"] = [f.what for f in real if f.column is None]
    worst = {finding.column: finding for finding in reversed(real)}
    return {
        "drifted": bool(real),
        "notices": [sentence(f.column, f.what, f.values) for f in real if worst[f.column] is f],
        "rows": counts.rows,
        "rows_compared": counts.counted,
        "training_rows": profile.rows,
        "tests": len(findings),
        "level": level,
        "columns": columns,
        "answers": answers,
    }


def _compare_column(name: str, found: ColumnCounts, effective: float) -> tuple[list[Finding], dict[str, Any]]:
    profile, m = found.profile, found.given
    rows, n = found.given + found.gaps, effective * (1 - found.profile.gaps)
    here = found.gaps / rows if rows else 0.0
    findings = []
    if rows:
        change = abs(here - profile.gaps)
        values = {"here": here, "training": profile.gaps}
        p = float(shares_differ(profile.gaps, effective, here, rows))
        findings.append(Finding(name, "gaps", change, p, values))
    outline: dict[str, Any] = {"kind": profile.kind, "gaps": {"training": profile.gaps, "here": round(here, 6)}}
    if m and profile.shares and n > 0:
        compare_values = _compare_levels if profile.kind == "category" else _compare_bins
        more, details = compare_values(name, found, n)
        findings += more
        outline |= details
    return findings, outline


def _compare_bins(name: str, found: ColumnCounts, n: float) -> tuple[list[Finding], dict[str, Any]]:
    profile, m = found.profile, found.given
    findings, outline = [], {}
    if profile.kind != "text":
        for what, outside in (("below", int(found.counts[0])), ("above", int(found.counts[-1]))):
            outline[what] = round(outside / m, 6)
            values = {"here": outside / m, "edges": profile.edges, "kind": profile.kind, "typical": found.typical}
            values["center"] = _median(profile)
            findings.append(Finding(name, what, outside / m, chance_of_extremes(outside, m, n), values))
    inner = _inner(found)
    distance, p, at = bins_differ(np.array(profile.shares), n, inner / m, m)
    values = {
        "here": float(inner[: at + 1].sum() / m),
        "training": float(sum(profile.shares[: at + 1])),
        "value": profile.edges[at + 1],
        "kind": profile.kind,
    }
    findings.append(Finding(name, "values", distance, p, values))
    return findings, outline | {"distance": round(distance, 6)}


def _compare_levels(name: str, found: ColumnCounts, n: float) -> tuple[list[Finding], dict[str, Any]]:
    profile, m = found.profile, found.given
    here = found.counts / m
    known, new = np.array(profile.shares), found.new / m
    usual = profile.others if profile.marks is None else profile.new
    expected = np.append(known * (1 - profile.others) / max(known.sum(), 1e-12), profile.others)
    findings = []
    common = next(((level, rows) for level, rows in found.others.most_common(1) if rows >= 10), None)
    values = {
        "here": new,
        "training": usual,
        "certain": profile.marks is not None,
        "example": common and common[0],
    }
    findings.append(Finding(name, "new", new - usual, float(shares_differ(usual, n, new, m)), values))
    distance, chance = levels_differ(expected, n, here, m)
    at = int(np.argmax(np.abs(here[:-1] - expected[:-1]))) if len(known) else 0
    values = {"level": profile.levels[at], "here": float(here[at]), "training": float(expected[at])}
    findings.append(Finding(name, "levels", distance, chance, values))
    return findings, {"new": round(new, 6), "distance": round(distance, 6)}


def _compare_answers(
    profile: TrainingProfile, counts: Counts, classes: Sequence[Any], agreement: float | None
) -> tuple[list[Finding], dict[str, Any]]:
    answers, m = profile.answers, int(counts.classes.sum())
    if answers is None or not m:
        return [], {}
    was, here = np.array(answers.shares), counts.classes / m
    outline: dict[str, Any] = {
        "shares": {
            str(name): {"training": there, "here": round(float(now), 6)}
            for name, there, now in zip(classes, answers.shares, here, strict=True)
        }
    }
    at = int(np.abs(here - was).argmax())
    values = {"level": str(classes[at]), "here": float(here[at]), "training": answers.shares[at]}
    distance, chance = levels_differ(was, answers.rows, here, m)
    least = LEAST_EFFECTS["classes"] + (0 if agreement is None else 1 - agreement)
    findings = [Finding(None, "classes", distance, chance, values, least)]
    found, known = counts.confidence, answers.confidence
    if found is not None and known is not None and answers.mean is not None and agreement is None and found.given:
        distance, chance, _ = bins_differ(
            np.array(known.shares), answers.rows, _inner(found) / found.given, found.given
        )
        outline["confidence"] = {
            "training": round(answers.mean, 4),
            "here": round(counts.total_confidence / m, 4),
            "distance": round(distance, 6),
        }
        findings.append(Finding(None, "confidence", distance, chance, outline["confidence"]))
    return findings, outline


def _inner(found: ColumnCounts) -> Array:
    """Return the number of rows in each bin; values outside the range count in the nearest one."""
    inner: Array = found.counts[1:-1].copy()
    inner[0] += found.counts[0]
    inner[-1] += found.counts[-1]
    return inner


def _median(profile: ColumnProfile) -> float:
    return profile.edges[int(np.searchsorted(np.cumsum(profile.shares), 0.5)) + 1]
