"""Comparison of counts of scored rows with the profile of the training table, for every column and the predictions.

A difference is reported if it is both too large for chance and large enough to matter. Chance is judged by two-sample
tests, since the training table is a sample too. The level of the tests is divided by their number (Bonferroni), so at
most one in a hundred files from the same population raises an alarm, however many columns it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.drift.counts import ColumnCounts, Counts
from deepsep.drift.profile import TrainingProfile
from deepsep.drift.two_samples import bins_differ, chance_of_extremes, levels_differ, shares_differ

Compared = tuple[list["Finding"], dict[str, Any]]  # what differs, and an outline in plain values

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

    @property
    def sentence(self) -> str:
        """The difference in words."""
        text = _words(self.what, self.values)
        return text if self.column is None else f"{self.column}: {text}"


def find_drift(
    profile: TrainingProfile, counts: Counts, classes: Sequence[Any], *, agreement: float | None = None
) -> dict[str, Any]:
    """Return the differences between the scored rows and the training table, as plain values.

    These are ``drifted``; ``notices``, a sentence for each column that differs and for the predictions, with the
    largest difference first; ``rows``, ``rows_compared`` and ``training_rows``; ``columns``, a dict for each column;
    and ``answers``. ``agreement`` is the share of rows on which the model that scored agrees with the one in the
    profile, if it is another one. Then its confidence is not compared.
    """
    findings, columns = [], {}
    for name, column in counts.columns.items():
        found, columns[name] = _compare_column(name, column, profile.effective)
        findings += found
    found, answers = _compare_answers(profile, counts, classes, agreement)
    findings += found
    level = 0.01 / max(len(findings), 1)  # 0.01: chance of an alarm about a file of the same population
    large = (f for f in findings if f.p < level and f.effect >= max(f.least, LEAST_EFFECTS[f.what]))
    real = sorted(large, key=lambda f: -f.weight)
    for place, outline in [*columns.items(), (None, answers)]:
        outline["drifted"] = [f.what for f in real if f.column == place]
    worst = {finding.column: finding for finding in reversed(real)}
    return {
        "drifted": bool(real),
        "notices": [f.sentence for f in real if worst[f.column] is f],
        "rows": counts.rows,
        "rows_compared": counts.counted,
        "training_rows": profile.rows,
        "tests": len(findings),
        "level": level,
        "columns": columns,
        "answers": answers,
    }


def _compare_column(name: str, found: ColumnCounts, effective: float) -> Compared:
    profile, m = found.profile, found.given
    rows, n = found.given + found.gaps, effective * (1 - profile.gaps)
    here = found.gaps / rows if rows else 0.0
    findings = []
    if rows:
        p = float(shares_differ(profile.gaps, effective, here, rows))
        values = {"here": here, "training": profile.gaps}
        findings.append(Finding(name, "gaps", abs(here - profile.gaps), p, values))
    outline: dict[str, Any] = {"kind": profile.kind, "gaps": {"training": profile.gaps, "here": round(here, 6)}}
    if m and profile.shares and n > 0:
        more, details = (_compare_levels if profile.kind == "category" else _compare_bins)(name, found, n)
        findings += more
        outline |= details
    return findings, outline


def _compare_bins(name: str, found: ColumnCounts, n: float) -> Compared:
    profile, m = found.profile, found.given
    upto = np.cumsum(profile.shares)
    findings, outline = [], {}
    if profile.kind != "text":
        center = profile.edges[int(np.searchsorted(upto, 0.5)) + 1]
        for what, outside in (("below", int(found.counts[0])), ("above", int(found.counts[-1]))):
            outline[what] = round(outside / m, 6)
            values = {"here": outside / m, "edges": profile.edges, "kind": profile.kind}
            values |= {"typical": found.typical, "center": center}
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


def _compare_levels(name: str, found: ColumnCounts, n: float) -> Compared:
    profile, m = found.profile, found.given
    here = found.counts / m
    known, new = np.array(profile.shares), found.new / m
    certain = profile.marks is not None
    usual = profile.new if certain else profile.others
    expected = np.append(known * (1 - profile.others) / max(known.sum(), 1e-12), profile.others)
    example = next((level for level, rows in found.others.most_common(1) if rows >= 10), None)
    values = {"here": new, "training": usual, "certain": certain, "example": example}
    findings = [Finding(name, "new", new - usual, float(shares_differ(usual, n, new, m)), values)]
    distance, chance = levels_differ(expected, n, here, m)
    at = int(np.argmax(np.abs(here[:-1] - expected[:-1]))) if len(known) else 0
    values = {"level": profile.levels[at], "here": float(here[at]), "training": float(expected[at])}
    findings.append(Finding(name, "levels", distance, chance, values))
    return findings, {"new": round(new, 6), "distance": round(distance, 6)}


def _compare_answers(
    profile: TrainingProfile, counts: Counts, classes: Sequence[Any], agreement: float | None
) -> Compared:
    answers, m = profile.answers, int(counts.classes.sum())
    if answers is None or not m:
        return [], {}
    was, here = np.array(answers.shares), counts.classes / m
    shares = zip(classes, answers.shares, here, strict=True)
    outline: dict[str, Any] = {
        "shares": {str(name): {"training": there, "here": round(float(now), 6)} for name, there, now in shares}
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
        means = {"training": round(answers.mean, 4), "here": round(counts.total_confidence / m, 4)}
        outline["confidence"] = {**means, "distance": round(distance, 6)}
        findings.append(Finding(None, "confidence", distance, chance, outline["confidence"]))
    return findings, outline


def _inner(found: ColumnCounts) -> Array:
    """Return the number of rows in each bin; values outside the range count in the nearest one."""
    inner: Array = found.counts[1:-1].copy()
    inner[0] += found.counts[0]
    inner[-1] += found.counts[-1]
    return inner


# -- words -----------------------------------------------------------------------------------------------------


def notice(drift: Mapping[str, Any], shown: int = 5) -> str:
    """Return the notice about a table that differs from the training table: how much of it does, and what."""
    lines, answers, n = drift["notices"], drift["answers"], len(drift["columns"])
    moved = sum(bool(column["drifted"]) for column in drift["columns"].values())
    head = f"{moved} of {n} columns differ from the training table"
    if 2 * moved > n:
        head += ", so most labels may be wrong. Find out why before you use them:"
    elif 4 * moved <= n and "shares" in answers and not answers["drifted"]:
        head += ", and the predictions do not: most labels should hold, but look at these columns:"
    else:
        head += f"{', and so do the predictions' if answers['drifted'] else ''}, so labels may be wrong:"
    tail = [f"and {len(lines) - shown} more; the .drift.json file has them all"] if len(lines) > shown else []
    return "\n  ".join([head, *lines[:shown], *tail])


def _words(what: str, values: Mapping[str, Any]) -> str:
    here = share(values["here"])
    if what in ("above", "below"):
        return _outside(what, here, values)
    there, kind = f"{share(values['training'])} in the training table", values.get("kind")
    match what:
        case "gaps":
            return f"{here} of the rows have no value; {there}."
        case "values" if kind == "text":
            return f"{here} of the texts have at most {values['value']:.0f} letters; {there}."
        case "values" if kind == "date":
            return f"{here} of the dates are up to {_value(values['value'], kind)}; {there}."
        case "values":
            return f"{here} of the values are {_value(values['value'])} or less; {there}."
        case "levels":
            return f"{here} of the values are {values['level']!r}; {there}."
        case "classes":
            return f"{here} of the rows are predicted as {values['level']!r}; {there}."
        case "confidence":
            return f"the mean confidence is {here}; {there}."
    such = "" if values["example"] is None else f", such as {values['example']!r}"
    if values["certain"]:
        return f"{here} of the values do not occur in the training table{such}."
    return f"{here} of the values are new or rare{such}; {there}."


def _outside(what: str, here: str, values: Mapping[str, Any]) -> str:
    edge = values["edges"][-1 if what == "above" else 0]
    if values["kind"] == "date":
        place = "after the last" if what == "above" else "before the first"
        return f"{here} of the dates are {place} of the training table ({_value(edge, 'date')})."
    place = "above the largest" if what == "above" else "below the smallest"
    text = f"{here} of the values are {place} value of the training table ({_value(edge)})"
    typical, center = values["typical"], values["center"]
    if values["here"] > 0.5 and typical and center and typical / center > 0:
        power = math.log10(typical / center)
        if abs(power) > 0.5:
            power = round(power) if abs(power - round(power)) < 0.15 else power
            text += f"; they are about {10 ** abs(power):,.0f} times {'as large' if power > 0 else 'smaller'}"
        return f"{text}: was it rescaled?"
    return f"{text}."


def share(value: float) -> str:
    """Return a share in per cent: 97 %, 0.4 %.

    Examples
    --------
    >>> share(0.97), share(0.004), share(0.0), share(1.0), share(0.9999)
    ('97 %', '0.4 %', '0 %', '100 %', '99.99 %')
    """
    for digits in range(6):
        text = f"{100 * value:.{digits}f}"
        if value in (0, 1) or 0 < float(text) < 100:
            break
    return f"{text} %"


def _value(number: float, kind: str = "number") -> str:
    if kind == "date":
        return str(np.datetime64(int(number), "s").astype("datetime64[D]"))
    return f"{number:,.0f}" if abs(number) >= 1_000 and number == round(number) else f"{number:g}"
