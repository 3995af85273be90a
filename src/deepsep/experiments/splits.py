"""Which rows are labelled, which validate and which test: section 3 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.errors import DataError

Array = NDArray[Any]

SIZES = (35, 50, 125, 250, 500, 1250, 2500)  # ℓ
VALIDATION = 100
TEST_PER_CLASS = 956
SHUFFLES = 5
FEWEST_TEST_ROWS = 30  # of each class


@dataclass(frozen=True)
class Plan:
    """Which sizes a table can fill, and how many rows of each class test; the same in every shuffle."""

    sizes: tuple[int, ...]
    validation: int
    test_per_class: int
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Deal:
    """The rows of one shuffle. The labelled set of size ℓ is ``labelled[:ℓ]``."""

    labelled: Array
    validation: Array
    test: Array


def plan(
    counts: Array,
    *,
    sizes: Sequence[int] = SIZES,
    validation: int = VALIDATION,
    test_per_class: int = TEST_PER_CLASS,
) -> Plan:
    """Return what the classes' numbers of rows allow.

    Parameters
    ----------
    counts : array (c,)
        Rows of each class.
    sizes, validation, test_per_class
        What is wanted. A size is left out, with a notice, where it is below the number of classes, where a class has
        too few rows to fill it, or where it would leave fewer than 30 test rows a class.

    Raises
    ------
    DataError
        If no size is left.
    """
    c = len(counts)
    kept, notices = [], []
    for size in sorted(set(sizes)):
        # Round-robin over a random order: any class may be one of those with a row more.
        left = int(counts.min()) - -(-(size + validation) // c)
        if size < c:
            notices.append(f"{size} labels are left out: there are {c} classes, and each needs one.")
        elif left < FEWEST_TEST_ROWS:
            notices.append(
                f"{size} labels are left out: the smallest class has {int(counts.min())} rows, so that {max(left, 0)} "
                f"would be left to test, and it takes {FEWEST_TEST_ROWS}."
            )
        else:
            kept.append(size)
    if not kept:
        raise DataError("the table fits no size of labelled set. " + " ".join(notices))
    most = int(counts.min()) - -(-(kept[-1] + validation) // c)
    return Plan(tuple(kept), validation, min(test_per_class, most), tuple(notices))


def deal(codes: Array, plan: Plan, shuffle: int) -> Deal:
    """Deal the rows of a shuffle: labels first, then validation, then test.

    Labels and validation rows are dealt round-robin over a random order of the classes, so that the labelled sets are
    nested and their classes differ by at most one row. Rows that are not dealt take no part.
    """
    rng = np.random.default_rng(shuffle)
    c = int(codes.max()) + 1
    order = rng.permutation(c)
    piles = [rng.permutation(np.flatnonzero(codes == k)) for k in range(c)]
    n = plan.sizes[-1] + plan.validation
    dealt = np.array([piles[order[i % c]][i // c] for i in range(n)])
    taken = np.bincount(codes[dealt], minlength=c)
    test = np.concatenate([pile[used : used + plan.test_per_class] for pile, used in zip(piles, taken, strict=True)])
    return Deal(dealt[: plan.sizes[-1]], dealt[plan.sizes[-1] :], np.sort(test))
