"""What more labels would buy, as numbers and as a sentence."""

from __future__ import annotations

from typing import Any

from deepsep.evaluation.learning_curve import MORE_LABELS, Gain, LearningCurve
from deepsep.report.wording import points

STEPS = (1, 2, 3, 4)  # of 25 labels, in the figure
LITTLE = 0.005  # a gain that is hardly any


def more_labels(curve: LearningCurve | None) -> dict[str, Any] | None:
    """Return what 50 more labels would buy, and the curve that says so; None if there is none."""
    if curve is None:
        return None
    gain = curve.gain(MORE_LABELS)
    ahead = [curve.n_labels + step * MORE_LABELS // 2 for step in STEPS]
    return {
        "labels": MORE_LABELS,
        "gain": gain.value,
        "interval": list(gain.interval),
        "sentence": sentence(gain),
        "today": {"labels": curve.n_labels, "accuracy": curve.today.value},
        "ahead": [_ahead(curve, n) for n in ahead],
        "forest": [
            {"labels": float(n), "accuracy": float(1 - error)}
            for n, error in zip(curve.labels, curve.error, strict=True)
        ],
    }


def _ahead(curve: LearningCurve, n: int) -> dict[str, Any]:
    gain = curve.gain(n - curve.n_labels)
    return {"labels": n, "accuracy": curve.today.value + gain.value, "interval": _within(curve, gain)}


def _within(curve: LearningCurve, gain: Gain) -> list[float]:
    return [min(max(curve.today.value + end, 0.0), 1.0) for end in gain.interval]


def sentence(gain: Gain) -> str:
    """Return what 50 more labels would buy, in points.

    Examples
    --------
    >>> sentence(Gain(0.021, 0.01))
    '50 more labels, drawn like these, should bring about +2.1 points (+0.5 to +3.7).'
    >>> sentence(Gain(0.003, 0.01))
    '50 more labels, drawn like these, would hardly help: between −1.3 and +1.9 points.'
    """
    low, high = map(points, gain.interval)
    if gain.value < LITTLE:
        return f"{MORE_LABELS} more labels, drawn like these, would hardly help: between {low} and {high} points."
    more = f"{MORE_LABELS} more labels, drawn like these,"
    return f"{more} should bring about {points(gain.value)} points ({low} to {high})."
