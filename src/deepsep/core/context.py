"""The context of a fit: callbacks for its progress, given folds, and whether it is part of a larger piece of work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Context:
    """The context of a fit."""

    # Called with (steps since the last call, loss) by a method that trains a network
    on_step: Callable[[int, float], object] | None = None
    # Called with (seconds of work done, seconds in all, description) by a method that fits others
    on_work: Callable[[float, float, str], object] | None = None
    folds: Any = None  # folds to use in place of a committee's own, such as those of a comparison
    is_part: bool = False  # whether the fit is part of a larger piece of work, which Ctrl-C must end as a whole
    # Whether only other rows will be predicted, as after a fit in a fold: the training rows then are not
    for_new_rows: bool = False
