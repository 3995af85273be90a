"""Sets of classes that contain the right one with a chosen probability, from rows held out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.errors import LabelError, ParameterError, Setting
from deepsep.evaluation.expected_accuracy import Evidence


@dataclass(frozen=True)
class ConformalSets:
    """Turns class probabilities into sets of classes.

    Attributes
    ----------
    coverage : float
        Minimum probability with which a set contains the right class.
    per_class : bool
        Whether this holds among the rows of each class, and not only among all.
    least : array (c,)
        The least probability with which a class is in the set. The most likely class always is.
    """

    coverage: float
    per_class: bool
    least: Array

    def __call__(self, p: Array) -> Array:
        """Return a mask (n, c) of the classes in the set of each row."""
        return np.asarray(_conformity(p) >= self.least)


def conformal_sets(
    evidence: Evidence, coverage: float, *, per_class: bool = False, classes: Array | None = None
) -> ConformalSets:
    r"""Return the sets that contain the right class of a new row with the probability ``coverage``, or more.

    The most likely class of a row is in its set, so that no set is empty. Another class :math:`k` is in the set if its
    probability is at least :math:`t_k`, the largest threshold that enough held-out rows reach with their own class:

    .. math:: \sum_i w_i [s_i \ge t_k] \ge \text{coverage} \cdot \bigl(\sum_i w_i + w_k\bigr),

    where :math:`s_i` is 1 if the most likely class of a row is right, else the probability of its own class, and
    :math:`w_k` is the weight of a new row of class :math:`k`, which may be the worst of all. If one model had predicted
    the new row and the held-out ones, and these were exchangeable up to the shares of the classes, the coverage would
    be exact in finite samples [1]_ [2]_. Here the models differ: held-out rows are predicted by models of the folds,
    with fewer labels, and new rows by one fitted to all. No theorem covers that; in simulations the sets contain the
    right class as often as they should, or a little more often. If the most likely class is right more often than
    ``coverage``, every set is that class alone, and the coverage is the accuracy.

    With ``per_class``, every class has a threshold from its own rows, so that sets contain the right class equally
    often in all classes. This takes at least 15 labels of each.

    References
    ----------
    .. [1] Sadinle, Lei and Wasserman (2019), Least ambiguous set-valued classifiers with bounded error levels.
    .. [2] Podkopaev and Ramdas (2021), Distribution-free uncertainty quantification for classification under label
       shift.
    """
    p, codes, weight, repeats, _ = evidence
    c = p.shape[1]
    check_coverage(coverage)
    check_labels(np.bincount(codes, minlength=c) // repeats, coverage, per_class=per_class, classes=classes)
    own = _conformity(p)[np.arange(len(codes)), codes]
    least = np.empty(c)
    for k in range(c):
        of_class = codes == k
        new = repeats * float(weight[of_class].mean() if of_class.any() else weight.mean())
        at = of_class if per_class else slice(None)
        least[k] = _reached(own[at], weight[at], coverage, new)
    return ConformalSets(coverage, per_class, least)


def _conformity(p: Array) -> Array:
    """Return the probabilities, with 1 for the most likely class of each row."""
    conformity = np.array(p, float)
    conformity[np.arange(len(p)), p.argmax(axis=1)] = 1.0
    return conformity


def _reached(own: Array, weight: Array, coverage: float, new: float) -> float:
    """Return the largest value that rows with enough weight reach; 0 if all rows together have too little."""
    down = np.argsort(-own, kind="stable")
    needed = coverage * (weight.sum() + new)
    enough = np.cumsum(weight[down]) >= needed * (1 - 1e-9)  # but for rounding
    return float(own[down][enough.argmax()]) if enough.any() else 0.0


def check_coverage(coverage: Any) -> None:
    """Raise if a coverage is not between 0 and 1."""
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage < 1:
        raise ParameterError(
            "{coverage}; pass a number between 0 and 1, such as 0.9.", coverage=Setting("coverage", coverage)
        )


def check_labels(
    counts: Array,  # (c,), held-out labels of each class
    coverage: float,
    *,
    per_class: bool,
    classes: Array | None = None,  # (c,), names of the classes
    least_per_class: int = 15,  # with fewer labels of a class, its own quantile means little
) -> None:
    """Raise if there are too few labels for sets: in all, or of one class for sets per class."""
    least = math.ceil(coverage / (1 - coverage) - 1e-9)  # with fewer, every set has all classes
    if per_class:
        least, k = max(least, least_per_class), int(counts.argmin())
        if counts[k] < least:
            name = f"class {k}" if classes is None else repr(classes.tolist()[k])
            raise LabelError(
                f"sets per class with a coverage of {coverage:g} need at least {least} labels of each class, and "
                f"{name} has {counts[k]} that can be held out. Label more of its rows, or leave out {{per_class}}.",
                per_class=Setting("per_class", True),
            )
    elif counts.sum() < least:
        raise LabelError(
            f"sets with a coverage of {coverage:g} need at least {least} labels, and there are {counts.sum()} that can "
            "be held out. Label more rows, or take a lower coverage."
        )
