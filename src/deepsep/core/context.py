"""The context of a fit: callbacks for its progress, given folds, and whether it is part of a larger piece of work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Context:
    """The context of a fit.

    Attributes
    ----------
    on_step : callable, optional
        Called with (steps since the last call, loss) by a method that trains a network.
    on_work : callable, optional
        Called with (seconds of work done, seconds in all, description) by a method that fits others.
    folds : Folds, optional
        Folds to use in place of a committee's own, such as those of a comparison.
    is_part : bool, default=False
        Whether the fit is part of a larger piece of work, which Ctrl-C must end as a whole.
    for_new_rows : bool, default=False
        Whether only other rows will be predicted, as after a fit in a fold: the training rows then are not.
    """

    on_step: Callable[[int, float], object] | None = None
    on_work: Callable[[float, float, str], object] | None = None
    folds: Any = None
    is_part: bool = False
    for_new_rows: bool = False
