"""The folds and the fits that a committee plans for a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from deepsep.classifiers.catalogue import record_of
from deepsep.classifiers.committee.fits import list_tasks
from deepsep.classifiers.committee.members import USUAL_MEMBERS
from deepsep.core.labels import Labels
from deepsep.errors import LabelError
from deepsep.evaluation.folds import MAX_UNLABELED, Folds, deal_folds


@dataclass(frozen=True)
class CommitteePlan:
    """Plan of a committee for a table."""

    members: dict[str, str]  # strength of each member
    left_out: dict[str, str]  # condition under which each of the others would take part
    n_folds: int  # number of folds that hold labelled rows out, over all repeats; 0 if there are too few labels
    n_fits: int  # number of fits, to all rows and in the folds
    seconds: float  # estimated total time on one core

    @classmethod
    def of(cls, members: dict[str, Any], usual: bool, twins: bool, n_rows: int, y: Labels, n_folds: int) -> Self:
        """Return the plan of these unfitted members, which may be the usual ones of an effort."""
        n_labeled = int(y.labeled.sum())
        tasks = list_tasks(members, twins and n_rows > n_labeled, n_rows, n_labeled, n_folds)
        seats = {seat.name: seat for seat in USUAL_MEMBERS} if usual else {}
        return cls(
            {name: seats[name].why if name in seats else _description(each) for name, each in members.items()},
            {name: f"from effort {seat.efforts[0]} on" for name, seat in seats.items() if name not in members},
            n_folds,
            len(tasks),
            sum(task.seconds for task in tasks),
        )


def deal(labels: Labels, effort: str, *, seed: int, weight: Any = None, stratified: bool = True) -> Folds | None:
    """Return the folds of an effort, or None if there are too few labels."""
    n_splits = {"fast": 3, "normal": 5, "best": 10}[effort]
    n_repeats = 3 if effort == "best" and labels.labeled.sum() < 60 else 1
    try:
        return deal_folds(
            labels,
            n_splits=n_splits,
            n_repeats=n_repeats,
            seed=seed,
            weight=weight,
            max_unlabeled=MAX_UNLABELED,
            stratified=stratified,
        )
    except LabelError:
        return None


def _description(member: Any) -> str:
    record = record_of(member)
    return type(member).__name__ if record is None else record.what
