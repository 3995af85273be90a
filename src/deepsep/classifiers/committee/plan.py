"""The usual members of a committee, its folds, and its plan for a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class UsualMember:
    """Member of a committee that was given none.

    Attributes
    ----------
    name : str
        Its name in the committee.
    method : str
        The method's name in the catalogue.
    why : str
        Its strength.
    weight : float
        Its weight without evidence, relative to the others; 0: it must first prove useful.
    settings : mapping
        Settings of the method that differ from its defaults.
    efforts : tuple of str
        Efforts at which it takes part.
    """

    name: str
    method: str
    why: str
    weight: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    efforts: tuple[str, ...] = ("fast", "normal", "best")


USUAL_MEMBERS = (
    UsualMember("random-forest", "random-forest", "columns of any kind and scale, most of them irrelevant", 0.15),
    UsualMember("extra-trees", "extra-trees", "the same, with smoother boundaries", 0.15),
    UsualMember("deepsep", "deepsep", "classes with few rows between them", 0.0),
    UsualMember(
        "in-context",
        "in-context",
        "few labels, many categories, typical company tables",
        0.5,
        {"view": "columns"},
        ("normal", "best"),
    ),
    UsualMember(
        "in-context-components",
        "in-context",
        "many correlated numbers: spectra, images, sensors",
        0.25,
        {"view": "components", "n_members": 2},
        ("normal", "best"),
    ),
    UsualMember("lightgbm-few-labels", "lightgbm-few-labels", "interactions of columns, given enough labels", 0.05),
)


@dataclass(frozen=True)
class FoldCounts:
    """Number of folds of the labels, and of repeats, which may be more for few labels."""

    n_splits: int
    n_repeats: int
    n_repeats_few: int

    def repeats(self, n_labeled: int) -> int:
        """Return the number of times that labels are dealt into folds."""
        return self.n_repeats if n_labeled >= 60 else self.n_repeats_few


@dataclass(frozen=True)
class CommitteePlan:
    """Plan of a committee for a table.

    Attributes
    ----------
    members : dict of str to str
        Strength of each member.
    left_out : dict of str to str
        Condition under which each of the others would take part.
    n_folds : int
        Number of folds that hold labelled rows out, over all repeats; 0 if there are too few labels.
    n_fits : int
        Number of fits, to all rows and in the folds.
    seconds : float
        Estimated total time on one core.
    """

    members: dict[str, str]
    left_out: dict[str, str]
    n_folds: int
    n_fits: int
    seconds: float


FOLDS_BY_EFFORT = {"fast": FoldCounts(3, 1, 1), "normal": FoldCounts(5, 1, 1), "best": FoldCounts(10, 1, 3)}


def why_absent(seat: UsualMember) -> str:
    """Return the condition under which a member would take part."""
    return f"from effort {seat.efforts[0]} on"
