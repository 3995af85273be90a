"""Which members a committee gets by itself, into how many folds it deals the labels, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Member:
    """A member that a committee gets by itself.

    Attributes
    ----------
    name : str
        What it is called in the committee.
    method : str
        The method, by its name in the catalogue.
    why : str
        What it is good at.
    weight : float
        Its weight without evidence, beside those of the others; 0: it must first show that it helps.
    settings : mapping
        Of the method, where they are not its defaults.
    efforts : tuple of str
        The efforts at which it takes part.
    """

    name: str
    method: str
    why: str
    weight: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    efforts: tuple[str, ...] = ("fast", "normal", "best")


MEMBERS = (
    Member("random-forest", "random-forest", "columns of any kind and scale, most of them irrelevant", 0.15),
    Member("extra-trees", "extra-trees", "the same, with smoother boundaries", 0.15),
    Member("deepsep", "deepsep", "classes with few rows between them", 0.0),
    Member(
        "in-context",
        "in-context",
        "few labels, many categories, tables as companies have them",
        0.5,
        {"view": "columns"},
        ("normal", "best"),
    ),
    Member(
        "in-context-components",
        "in-context",
        "many correlated numbers: spectra, images, sensors",
        0.25,
        {"view": "components", "n_members": 2},
        ("normal", "best"),
    ),
    Member("lightgbm-few-labels", "lightgbm-few-labels", "interactions of columns, given labels enough", 0.05),
)


@dataclass(frozen=True)
class Effort:
    """Into how many folds the labels are dealt, and how often; more often where they are few."""

    n_splits: int
    n_repeats: int
    n_repeats_few: int

    def repeats(self, n_labeled: int) -> int:
        """Return how often the labels are dealt into folds."""
        return self.n_repeats if n_labeled >= FEW_LABELS else self.n_repeats_few


@dataclass(frozen=True)
class Plan:
    """What a committee will do with a table.

    Attributes
    ----------
    members : dict of str to str
        What each member is good at.
    left_out : dict of str to str
        What it would take for the others to take part.
    n_folds : int
        How many folds hold labelled rows out, over all repeats; 0 if there are too few labels.
    n_fits : int
        All fits: to all rows, and in the folds.
    seconds : float
        About how long they take together on one core.
    """

    members: dict[str, str]
    left_out: dict[str, str]
    n_folds: int
    n_fits: int
    seconds: float


FEW_LABELS = 60
EFFORTS = {"fast": Effort(3, 1, 1), "normal": Effort(5, 1, 1), "best": Effort(10, 1, 3)}


def why_absent(seat: Member) -> str:
    """Return what it would take for a member to take part."""
    return f"from effort {seat.efforts[0]} on"
