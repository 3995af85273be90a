"""Split rows into labelled, validation and test rows, as in section 3 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.errors import DataError

Array = NDArray[Any]

LABELED_SIZES = (35, 50, 125, 250, 500, 1250, 2500)  # ℓ


@dataclass(frozen=True)
class RowPlan:
    """The sizes of labelled set that a table allows, and the number of test rows; the same in every shuffle."""

    sizes: tuple[int, ...]
    validation: int
    test_per_class: int
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """The rows of one shuffle. The labelled set of size ℓ is ``labelled[:ℓ]``."""

    labeled: Array
    validation: Array
    test: Array


def plan(
    counts: Array,  # (c,), number of rows per class
    *,
    # wanted numbers. A size is left out, with a notice, if it is below the number of classes, if a class has too few
    # rows for it, or if it would leave fewer than ``least_per_class`` test rows per class.
    sizes: Sequence[int] = LABELED_SIZES,
    validation: int = 100,
    test_per_class: int = 956,
    least_per_class: int = 30,
) -> RowPlan:
    """Return the plan that the class sizes allow.

    Raises
    ------
    DataError
        If every size is left out.
    """
    c = len(counts)
    kept, notices = [], []
    for size in sorted(set(sizes)):
        # Classes are filled in turn, in random order: any of them may have one row more than the others.
        left = int(counts.min()) - -(-(size + validation) // c)
        if size < c:
            notices.append(f"{size} labels are left out: there are {c} classes, and each needs a label.")
        elif left < least_per_class:
            notices.append(
                f"{size} labels are left out: the smallest class has {int(counts.min())} rows, which leaves "
                f"{max(left, 0)} for testing; at least {least_per_class} are needed."
            )
        else:
            kept.append(size)
    if not kept:
        raise DataError("the table is too small for every number of labels. " + " ".join(notices))
    most = int(counts.min()) - -(-(kept[-1] + validation) // c)
    return RowPlan(tuple(kept), validation, min(test_per_class, most), tuple(notices))


def shared_test_rows(counts: Array, plan: RowPlan) -> float:
    """Return the expected share of the test rows of a shuffle that are test rows of another one, too."""
    return float(np.mean(plan.test_per_class / counts))


def split_rows(codes: Array, plan: RowPlan, shuffle: int) -> Split:
    """Split the rows of a shuffle: labelled rows first, then validation, then test.

    Labelled and validation rows are taken from the classes in turn, in a random order, so the labelled sets are nested
    and their class sizes differ by at most one. Rows beyond these are not used.
    """
    rng = np.random.default_rng(shuffle)
    c = int(codes.max()) + 1
    order = rng.permutation(c)
    by_class = [rng.permutation(np.flatnonzero(codes == k)) for k in range(c)]
    n = plan.sizes[-1] + plan.validation
    chosen = np.array([by_class[order[i % c]][i // c] for i in range(n)])
    taken = np.bincount(codes[chosen], minlength=c)
    test = np.concatenate([rows[n : n + plan.test_per_class] for rows, n in zip(by_class, taken, strict=True)])
    return Split(chosen[: plan.sizes[-1]], chosen[plan.sizes[-1] :], np.sort(test))
