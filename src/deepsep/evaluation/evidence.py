"""Evidence from labelled rows that were held out, on which every estimate for other rows rests."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class UnseenClasses(NamedTuple):
    """Share of the population in classes without a label, which cannot be predicted."""

    share: float = 0.0
    error: float = 0.0  # the standard error of its estimate


class Evidence(NamedTuple):
    """Probabilities of labelled rows by models that had not seen their labels."""

    p: Array  # (m, c)
    codes: Array  # (m,), their classes
    weight: Array  # (m,), gives the classes their shares in the population
    repeats: int  # number of times that every labelled row occurs
    unseen: UnseenClasses = UnseenClasses()  # rows of classes without a label, about which held-out rows say nothing
