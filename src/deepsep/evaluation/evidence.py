"""Evidence from labelled rows that were held out, on which every estimate for other rows rests."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class UnseenClasses(NamedTuple):
    """Share of the population in classes without a label, which cannot be predicted.

    Attributes
    ----------
    share : float
        The estimate.
    error : float
        Its standard error.
    """

    share: float = 0.0
    error: float = 0.0


class Evidence(NamedTuple):
    """Probabilities of labelled rows by models that had not seen their labels.

    Attributes
    ----------
    p : array (m, c)
        The probabilities.
    codes : array (m,)
        The classes.
    weight : array (m,)
        Weights that give the classes their shares in the population.
    repeats : int
        Number of times that every labelled row occurs.
    unseen : UnseenClasses
        Rows of classes without a label, about which held-out rows say nothing.
    """

    p: Array
    codes: Array
    weight: Array
    repeats: int
    unseen: UnseenClasses = UnseenClasses()
