"""The gain from more labels, as numbers and as a sentence."""

from __future__ import annotations

from typing import Any

from deepsep.evaluation.learning_curve import MORE_LABELS, Gain, LearningCurve
from deepsep.report.wording import points


def more_labels(curve: LearningCurve | None) -> dict[str, Any] | None:
    """Return the gain to expect from 50 more labels, and the points of its figure; None without a learning curve."""
    if curve is None:
        return None
    gain = curve.gain(MORE_LABELS)
    ahead = [curve.n_labels + step * MORE_LABELS // 2 for step in (1, 2, 3, 4)]  # half of the 50 labels each
    return {
        "labels": MORE_LABELS,
        "gain": gain.value,
        "interval": list(gain.interval),
        "sentence": gain_sentence(gain),
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


def gain_sentence(gain: Gain) -> str:
    """Return a sentence on the gain to expect from 50 more labels, in points.

    Examples
    --------
    >>> gain_sentence(Gain(0.021, 0.01))
    '50 more labels, drawn like these, should bring about +2.1 points (+0.5 to +3.7).'
    >>> gain_sentence(Gain(0.003, 0.01))
    '50 more labels, drawn like these, would hardly help: between −1.3 and +1.9 points.'
    """
    low, high = map(points, gain.interval)
    if gain.value < 0.005:
        return f"{MORE_LABELS} more labels, drawn like these, would hardly help: between {low} and {high} points."
    gained = f"about {points(gain.value)} points ({low} to {high})"
    return f"{MORE_LABELS} more labels, drawn like these, should bring {gained}."
