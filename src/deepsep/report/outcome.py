"""The results of a report in sentences: the verdict, the rows the model is surest of, and what would help most."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.core.label_origins import LabelOrigins
from deepsep.evaluation.expected_accuracy import Evidence, ExpectedAccuracy, corrected
from deepsep.evaluation.intervals import share_right
from deepsep.evaluation.learning_curve import MORE_LABELS, Gain, LearningCurve
from deepsep.report.ranking import place_of_method
from deepsep.report.wording import join_words, percent, points, with_article, with_ends, with_span

NOT_SHOWN = "not shown to beat guessing"


def judge(accuracy: dict[str, Any] | None) -> str:
    """Return the verdict: "usable", "weak", or "not shown to beat guessing".

    A model is usable if it avoids at least a third of the mistakes that always guessing the most frequent class makes.
    It beats guessing if the 90 % interval of the paired difference lies above 0, and if the labelled rows are like the
    unlabelled ones at all.
    """
    if accuracy is None or not (accuracy["holds_for_unlabelled"] and beats_guessing(accuracy)):
        return NOT_SHOWN
    methods = {line["key"]: line for line in accuracy["methods"]}
    own, guessing = (methods[key]["accuracy"]["value"] for key in ("model", "majority"))
    return "usable" if own - guessing >= (1 - guessing) / 3 else "weak"


def beats_guessing(accuracy: dict[str, Any]) -> bool:
    """Return whether the model is better than the most frequent class, by more than chance."""
    majority = next(line for line in accuracy["methods"] if line["key"] == "majority")
    return bool(majority["against_model"]["interval"][0] > 0)


def by_share(
    held_out: Evidence,
    unlabeled: Array,  # (u, c), probabilities of the unlabelled rows, or none: the shares are then of held-out rows
    *,
    # whether the probabilities are a committee's. The accuracy is then the mean confidence in the unlabelled rows,
    # corrected by the held-out ones; otherwise the share of the held-out rows that are right.
    calibrated: bool = True,
    whole: ExpectedAccuracy | None = None,  # the accuracy to expect of all rows, if it is known
    least_rows: int = 5,  # number of held-out rows below which the curve ends
) -> list[dict[str, Any]]:
    """Return the accuracy on the surest 100 %, 90 % ... 20 % of the rows: the risk-coverage curve."""
    p, codes, weight, repeats, unseen = held_out
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    rows = unlabeled.max(axis=1) if len(unlabeled) else confidence
    points = []
    for share in np.arange(10, 1, -1) / 10:
        least = np.quantile(rows, 1 - share, method="higher")
        at, taken = confidence >= least, rows >= least
        if (weight[at] > 0).sum() < least_rows * repeats:
            break
        if calibrated:
            expected = corrected(
                float(rows[taken].mean()),
                confidence[at],
                right[at],
                weight[at],
                repeats=repeats,
                unseen=unseen,
                n_rows=taken.sum(),
            )
            expected = whole if whole is not None and taken.all() else expected
            accuracy, interval = expected.value, expected.interval
        else:
            accuracy, interval = share_right(right[at], weight[at])
        points.append(
            {
                "share": float(taken.mean()),
                "confidence": float(least),
                "accuracy": accuracy,
                "interval": interval,
                "unlabelled": int(taken.sum()) if len(unlabeled) else None,
            }
        )
    return points


def surest_part(points: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the largest part of :func:`by_share` with at most half the error rate of all rows; None without one."""
    if not points or points[0]["accuracy"] == 1:
        return None
    most = (1 - points[0]["accuracy"]) / 2
    return next((point for point in points if 1 - point["accuracy"] <= most), None)


def surest_sentence(part: dict[str, Any], n_unlabeled: int) -> str:
    """Return a sentence on the confidence to ask for, and the accuracy on the rows that have it."""
    sentence = (
        f"Accept only the surest {percent(part['share'])} of the predictions, those with a confidence of "
        f"{part['confidence']:.2f} or more, and expect {with_span(part['accuracy'], part['interval'])} of them "
        "to be right"
    )
    if part["unlabelled"] is None:
        return f"{sentence}."
    return f"{sentence}; they are {part['unlabelled']:,} of the {n_unlabeled:,} unlabelled rows."


def condition(
    origins: LabelOrigins,
    population: str,  # the class shares that the accuracy refers to: "labels", "given" or "estimated"
    shares: dict[str, float] | None,  # the estimated ones
) -> str | None:
    """Return the assumption behind the stated accuracy, in words; None if there is none."""
    if population == "given":
        return None if origins.given else "if the labels of each class are a random part of it"
    if origins.basis == "random":
        return None if origins.given else "if the labels were drawn at random"
    quotas = "" if origins.given else "the labels fill quotas, as their even numbers suggest, and "
    if population == "labels" or shares is None:
        return f"if {quotas}the classes are as frequent among all rows as among the labels"
    named = (
        f" ({join_words([f'{name} {percent(share)}' for name, share in shares.items()])})" if len(shares) <= 6 else ""
    )
    return f"if {quotas}the classes are as frequent as they are estimated here{named}"


def what_helps(
    verdict: str,
    counts: Array,  # (c,), labels of each class
    interval: list[float],  # of the accuracy
    priors_given: bool,
    by_quotas: bool,
    more_labels: str | None = None,  # a sentence on the gain from them
) -> list[str]:
    """Return sentences on what would help most."""
    n, sentences = int(counts.sum()), []
    if not priors_given and by_quotas:
        sentences.append(
            "The labels fill quotas, or look as if they did. If you know how frequent the classes are among all rows, "
            "pass their shares as priors, so that the predictions can follow them."
        )
    if more_labels is not None:
        sentences.append(more_labels)
    if n < 50 * len(counts):  # below 50 per class, more labels usually help most
        half = f"{50 * (interval[1] - interval[0]):.0f} points"
        start = "More labels would help most: with" if more_labels is None else "With"
        sentences.append(
            f"{start} {n} labels, the accuracy is uncertain by {half} either way. The command deepsep next chooses the "
            "rows that would help most."
        )
    elif verdict != "usable":
        sentences.append(
            f"With {n} labels, columns that tell more about the classes would probably help more than more labels."
        )
    return sentences


def more_labels(curve: LearningCurve | None) -> dict[str, Any] | None:
    """Return the gain to expect from 50 more labels, and the points of its figure; None without a learning curve."""
    if curve is None:
        return None
    gain, ahead, today = curve.gain(MORE_LABELS), [], curve.today.value
    for n in (curve.n_labels + step * MORE_LABELS // 2 for step in (1, 2, 3, 4)):  # half of the 50 labels each
        more = curve.gain(n - curve.n_labels)
        interval = [min(max(today + end, 0.0), 1.0) for end in more.interval]
        ahead.append({"labels": n, "accuracy": today + more.value, "interval": interval})
    return {
        "labels": MORE_LABELS,
        "gain": gain.value,
        "interval": gain.interval,
        "sentence": gain_sentence(gain),
        "today": {"labels": curve.n_labels, "accuracy": today},
        "ahead": ahead,
        "forest": [
            {"labels": float(n), "accuracy": float(1 - error)}
            for n, error in zip(curve.labels, curve.error, strict=True)
        ],
    }


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


def verdict(summary: dict[str, Any]) -> list[str]:
    """Return the main results in a few sentences: first the verdict, next a better method if there is one."""
    accuracy, outcome, members = summary["accuracy"], summary["outcome"], summary["members"]
    word = f"{outcome['verdict'][:1].upper()}{outcome['verdict'][1:]}"
    if accuracy is None:
        return [f"{word}. {summary['notes'][0]}", *summary["notes"][1:]]
    methods = {line["key"]: line for line in accuracy["methods"]}
    own, label = methods["model"], summary["asked"]["label"]
    whom = "of the unlabelled rows" if summary["asked"]["unlabelled"] else "of rows like these"
    counted = ["by weight"] * accuracy["weighted"] + ["if the given shares hold"] * accuracy["by_shares"]
    whom += f", {' and '.join(counted)}," if counted else ""
    who = with_article(own["name"])
    share = with_span(own["accuracy"]["value"], own["accuracy"]["interval"])
    if accuracy["holds_for_unlabelled"]:
        condition = "" if accuracy["condition"] is None else f", {accuracy['condition']}"
        first, last = ("", condition) if outcome["verdict"] == NOT_SHOWN else (condition, "")
        sentences = [f"{word}{first}: expect {who} to give about {share} {whom} the right {label}{last}."]
    else:
        sentences = [
            "Not shown to beat guessing: the unlabelled rows differ too much from the labelled ones to estimate the "
            "accuracy on them.",
            f"Of rows like the labelled ones, {who} gives {share} the right {label}.",
        ]
    place, instead = place_of_method(summary["comparison"]) if summary["comparison"] is not None else (None, False)
    if place is not None and instead:
        sentences.append(place)
    better = best_baseline(accuracy) if members is None else None
    if better is not None and better["accuracy"]["value"] > own["accuracy"]["value"]:
        sentences.append(_baseline_is_better(own, better))
    if outcome["surest"] is not None:
        sentences.append(surest_sentence(outcome["surest"], summary["asked"]["unlabelled"]))
    sentences.append(_others(methods, members is not None))
    if members is not None:
        sentences.append(members["sentence"])
    if place is not None and not instead:
        sentences.append(place)
    if summary["unlabelled_rows"]["verdict"] is not None:
        sentences.append(summary["unlabelled_rows"]["sentence"])
    if summary["reliability"]["verdict"] != "sound":
        sentences.append(summary["reliability"]["sentence"])
    return [*sentences, *outcome["what_helps"]]


def _others(methods: dict[str, dict[str, Any]], are_members: bool) -> str:
    """Return a sentence on the accuracy of guessing and of the other methods."""
    guessing = f"Always guessing the most frequent class gets {percent(methods['majority']['accuracy']['value'])}"
    others = [line for key, line in methods.items() if key not in ("model", "majority", "start")]
    shares = [line["accuracy"]["value"] for line in others]
    if are_members and len(others) > 1:
        return f"{guessing}; the members alone get {percent(min(shares))} to {percent(max(shares))}."
    names = [f"a {line['name']}" if line["name"][0] == "r" else line["name"] for line in others]
    texts = [f"{name} {percent(share)}" for name, share in zip(names, shares, strict=True)]
    return f"{guessing}; on the same labels, {join_words(texts)}." if texts else f"{guessing}."


def best_baseline(accuracy: dict[str, Any]) -> dict[str, Any] | None:
    """Return the most accurate baseline, which the model without its unlabelled rows is not."""
    lines = [line for line in accuracy["methods"] if line["key"] not in ("model", "start")]
    return max(lines, key=lambda line: line["accuracy"]["value"], default=None)


def _baseline_is_better(own: dict[str, Any], better: dict[str, Any]) -> str:
    low, high = better["against_model"]["interval"]
    # Stored as model minus baseline; the sentence is about baseline minus model.
    gap = with_ends(-better["against_model"]["difference"], [-high, -low])
    name = {"majority": "Always guessing the most frequent class", "random-forest": "A random forest"}
    who = name.get(better["key"], better["name"])
    theirs, ours = better["accuracy"]["value"], own["accuracy"]["value"]
    digits = 0 if percent(theirs) != percent(ours) else 1
    both = f"{percent(theirs, digits)} against {percent(ours, digits)} for {own['name']}"
    if high < 0:
        return f"{who} is better here, use it instead: {both} ({gap})."
    return f"{who} gets a few more rows right: {both}. With these labels that may be chance ({gap})."


def unlabeled_rows(paired: dict[str, Any] | None, uses: bool) -> dict[str, Any]:
    """Return whether the unlabelled rows helped, with a sentence about it."""
    if paired is None:
        sentence = (
            "There is no comparison with and without the unlabelled rows."
            if uses
            else "This method learns from the labelled rows alone. The unlabelled ones matter at most for scaling."
        )
        return {"verdict": None, "sentence": sentence, "difference": None, "interval": None}
    low, high = paired["interval"]
    gap = (
        f"{points(paired['difference'])} points against {paired['name']}; 90 % interval {points(low)} to {points(high)}"
    )
    if not (low > 0 or high < 0):
        sentence = f"There are too few labels to say whether the unlabelled rows helped: {gap}."
        return {"verdict": "cannot tell", "sentence": sentence, **paired}
    word = "helped" if low > 0 else "hurt"
    return {"verdict": word, "sentence": f"The unlabelled rows {word}: {gap}.", **paired}


def calibration(own: dict[str, Any], confidence: float) -> dict[str, str]:
    """Return whether the probabilities are calibrated, with a sentence about it."""
    low, high = own["accuracy"]["interval"]
    if confidence > high:
        word, how = "too sure", "is overconfident"
    elif confidence < low:
        word, how = "too unsure", "is underconfident"
    else:
        word, how = "sound", "is well calibrated, as far as these labels show"
    who = with_article(own["name"])
    gap = points(abs(confidence - own["accuracy"]["value"])).lstrip("+")
    side = "above" if confidence > own["accuracy"]["value"] else "below"
    sentence = (
        f"{who[:1].upper()}{who[1:]} {how}: on held-out labels, its mean confidence is {gap} points {side} the share "
        "of its predictions that are right."
    )
    return {"verdict": word, "sentence": sentence}


def shares_caution(labeled: list[float], predicted: list[float], max_distance: float = 0.15) -> str | None:
    """Return a caution if the shares among labels and predictions differ, by total variation distance; else None."""
    apart = sum(abs(a - b) for a, b in zip(labeled, predicted, strict=True)) / 2
    if apart < max_distance:
        return None
    return (
        "The classes have different shares among the labels and among the predictions. The accuracy above holds for "
        "rows with the shares of the labels; if the labelled rows were not drawn at random, expect another one."
    )
