"""The verdict that a report opens with: usable, weak, or not shown to beat guessing; and what would help most."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from deepsep.evaluation.intervals import share_right
from deepsep.report.wording import percent, span

Array = NDArray[Any]

USABLE, WEAK, NOT_SHOWN = "usable", "weak", "not shown to beat guessing"
FEWER_MISTAKES = 1 / 3  # the part of the mistakes of guessing that a usable model does not make
SHARES = np.arange(9, 1, -1) / 10  # of the surest rows
FEW_PER_CLASS = 50  # labels of a class below which more of them usually help most
EVEN = 0.05  # chance that labels drawn at random from equally frequent classes are as even

QUOTA = (
    "The labels are spread over the classes so evenly that they look like quotas. If you know how frequent the classes "
    "are among all rows, pass their shares with --priors (priors= in Python), so that the predictions can follow them."
)


def judge(accuracy: dict[str, Any] | None) -> str:
    """Return one of the three verdicts.

    A model is usable if it avoids at least a third of the mistakes that always guessing the most frequent class makes.
    It beats guessing if the 95 % interval of the paired difference lies above 0, and if the labelled rows are like the
    unlabelled ones at all.
    """
    if accuracy is None or not accuracy["holds_for_unlabelled"]:
        return NOT_SHOWN
    methods = {line["key"]: line for line in accuracy["methods"]}
    if not methods["majority"]["against_model"]["interval"][0] > 0:
        return NOT_SHOWN
    own, guessing = (methods[key]["accuracy"]["value"] for key in ("model", "majority"))
    return USABLE if own - guessing >= FEWER_MISTAKES * (1 - guessing) else WEAK


def surest(p: Array, codes: Array, weight: Array | None, unlabelled: Array) -> dict[str, Any] | None:
    """Return the largest part of the rows, the surest, with at most half as many mistakes per row; None: there is none.

    Parameters
    ----------
    p, codes, weight
        Probabilities of held-out rows, their classes, and their weights.
    unlabelled : array (u, c)
        Probabilities of the unlabelled rows.
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    overall, _ = share_right(right, weight)
    for share in SHARES:
        least = np.quantile(confidence, 1 - share, method="higher")
        at = confidence >= least
        accuracy, interval = share_right(right[at], None if weight is None else weight[at])
        if 1 - accuracy <= (1 - overall) / 2 and overall < 1:
            return {
                "share": float(at.mean()),
                "confidence": float(least),
                "accuracy": accuracy,
                "interval": interval,
                "unlabelled": int((unlabelled.max(axis=1) >= least).sum()) if len(unlabelled) else None,
            }
    return None


def surest_sentence(part: dict[str, Any], who: str, n_unlabelled: int) -> str:
    """Return for how many rows more can be expected of a method."""
    sentence = (
        f"For the surest {percent(part['share'])} of the rows, with a confidence of {part['confidence']:.2f} or more, "
        f"{who} gets {percent(part['accuracy'])} ({span(part['interval'])}) right"
    )
    if part["unlabelled"] is None:
        return f"{sentence}."
    return f"{sentence}; {part['unlabelled']:,} of the {n_unlabelled:,} unlabelled rows are as sure."


def looks_like_quotas(counts: Array) -> bool:
    """Return whether labels are spread over the classes more evenly than chance does it.

    Even if all classes are equally frequent, labels of rows drawn at random differ in number: the statistic of the
    chi-squared test is then rarely near 0.

    Examples
    --------
    >>> looks_like_quotas(np.array([20, 20, 20])), looks_like_quotas(np.array([17, 22, 21]))
    (True, False)
    """
    expected = counts.sum() / len(counts)
    statistic = float(((counts - expected) ** 2).sum() / expected)
    return bool(expected >= 2 and chi2.cdf(statistic, len(counts) - 1) < EVEN)


def what_helps(verdict: str, counts: Array, interval: list[float], priors_given: bool) -> list[str]:
    """Return what would help most, as sentences.

    Parameters
    ----------
    verdict : str
        From :func:`judge`.
    counts : array (c,)
        Labels of each class.
    interval : list
        Of the accuracy.
    priors_given : bool
        Whether the shares of the classes in the population are known.
    """
    n, sentences = int(counts.sum()), []
    if not priors_given and looks_like_quotas(counts):
        sentences.append(QUOTA)
    if n < FEW_PER_CLASS * len(counts):
        half = f"{50 * (interval[1] - interval[0]):.0f} points"
        sentences.append(
            f"More labels would help most: {n} leave the accuracy uncertain by {half} either way. Begin with the least "
            "certain rows."
        )
    elif verdict != USABLE:
        sentences.append(
            f"With {n} labels, columns that tell more about the classes would probably help more than more labels."
        )
    return sentences
