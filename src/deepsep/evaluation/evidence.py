"""What is known from labelled rows that were held out: the ground of every promise about other rows."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class UnseenClasses(NamedTuple):
    """Share of the population that is of classes without a label, which cannot be predicted.

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
        How often every labelled row occurs.
    unseen : UnseenClasses
        Rows of classes without a label, of which no held-out row can tell.
    """

    p: Array
    codes: Array
    weight: Array
    repeats: int
    unseen: UnseenClasses = UnseenClasses()
