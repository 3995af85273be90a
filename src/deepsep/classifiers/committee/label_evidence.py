"""Whether the labels of a committee are evidence of its accuracy, and of classes that have none."""

from __future__ import annotations

import numpy as np

from deepsep.core.arrays import Array
from deepsep.core.label_origins import LabelOrigins, contradict_shares
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import LabelWarning, Setting, warn
from deepsep.evaluation.expected_accuracy import UnseenClasses, unseen_classes


def warn_of_origins(origins: LabelOrigins, rows: TrainingRows, shares: Array | None) -> None:
    """Warn if the labels cannot tell the accuracy, or contradict known shares."""
    if origins.basis is None:
        warn(
            "no accuracy can be stated: it takes ten labels of two classes, drawn at random or for quotas; there "
            f"are {origins.counts[0]} random and {origins.counts[1]} quota labels. Label 50 rows drawn at "
            "random.",
            LabelWarning,
        )
    at = (origins.words == "random") & (rows.codes >= 0)
    if shares is not None and origins.given and at.any() and not rows.weighted:
        counts = np.bincount(rows.codes[at], minlength=len(shares))
        if contradict_shares(counts, shares):
            warn(
                "the labels are said to be drawn at random, but their classes have other shares than {priors}. One "
                "of the two is wrong.",
                LabelWarning,
                priors=Setting("priors"),
            )


def classes_without_label(origins: LabelOrigins, rows: TrainingRows, shares: Array | None) -> UnseenClasses:
    """Return the estimated share of classes without a label: none if shares are given or labels fill quotas."""
    fair = origins.fair & (rows.weight > 0)
    if shares is not None or origins.basis != "random" or not fair.any():
        return UnseenClasses()
    c, others = rows.n_classes, ~fair & (rows.codes >= 0)
    known = np.bincount(rows.codes[others], minlength=c) > 0
    return unseen_classes(np.bincount(rows.codes[fair], minlength=c), known)
