"""The results of a report in sentences."""

from __future__ import annotations

from typing import Any

from deepsep.report.outcome import NOT_SHOWN, surest_sentence
from deepsep.report.ranking import place_of_method
from deepsep.report.wording import join_words, percent, points, span, with_article


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
    share = _with_interval(own["accuracy"])
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


def _with_interval(share: dict[str, Any]) -> str:
    return f"{percent(share['value'])} ({span(share['interval'])})"


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
    gap = f"{points(-better['against_model']['difference'])} points, 90 % interval {points(-high)} to {points(-low)}"
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
    if low > 0:
        word, sentence = "helped", f"The unlabelled rows helped: {gap}."
    elif high < 0:
        word, sentence = "hurt", f"The unlabelled rows hurt: {gap}."
    else:
        word = "cannot tell"
        sentence = f"There are too few labels to say whether the unlabelled rows helped: {gap}."
    return {"verdict": word, "sentence": sentence, **paired}


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
