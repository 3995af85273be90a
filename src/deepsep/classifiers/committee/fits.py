"""All fits of a committee as one pool of tasks, each member to all rows and in each fold, and the plan of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.catalogue import record_of, uses_unlabeled
from deepsep.classifiers.committee.members import USUAL_MEMBERS
from deepsep.core.arrays import Array
from deepsep.core.labels import Labels
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import DeepSepWarning, LabelError
from deepsep.evaluation.folds import MAX_UNLABELED, Folds, deal_folds
from deepsep.evaluation.out_of_fold import Candidate, FoldFits, OutOfFold, fit_copy, in_parallel

# Seconds of a fit on one core of a small server: a constant, and for each thousand rows; of the in-context network for
# each of its members. They order the fits and move a progress bar, so ratios matter more than the numbers.
SECONDS_BY_METHOD = {
    "random-forest": (0.7, 0.1),
    "extra-trees": (0.6, 0.1),
    "lightgbm-few-labels": (0.6, 0.1),
    "deepsep": (0.4, 1.3),
    "in-context": (0.4, 0.6),
    "tsvm": (0.1, 0.02),
    "mean-teacher": (4.0, 0.0),
    "label-spreading": (0.1, 0.04),
    "logistic-regression": (0.1, 0.0),
    "self-training": (0.1, 0.04),
}
# Members in the folds, by method: settings that are lowered to these, and the most unlabelled rows that they learn
# from. The fits in the folds only weigh the members and tell the accuracy to expect; what the difference costs is in
# `benchmarks/results/smaller_folds.csv`. Fewer unlabelled rows for the in-context network cost calibration.
IN_FOLDS: Mapping[str, tuple[Mapping[str, int], int | None]] = {
    "random-forest": ({"estimator__n_estimators": 200}, None),
    "extra-trees": ({"estimator__n_estimators": 200}, None),
    "deepsep": ({}, 750),
    "in-context": ({"n_members": 2}, None),
}


@dataclass(frozen=True)
class Task:
    """Fit of a member or its twin, with its estimated time."""

    name: str  # the member, or its twin
    fold: int | None  # fold that is held out; None: the fit is to all rows
    seconds: float  # estimated time on one core


@dataclass(frozen=True)
class CommitteeFits:
    """Results of all fits."""

    members: dict[str, Any]  # the members, fitted to all rows
    failures: dict[str, str]  # reason why each failed member was left out
    # Predictions of the rows that each fold held out, by members and their twins; None if no fold is complete
    held_out: OutOfFold | None
    interrupted: bool  # whether Ctrl-C ended the fits in the folds


def twin_of(name: str) -> str:
    """Return the name of the twin of a member, or of the committee, which learns from the labelled rows alone."""
    return f"{name}, labelled rows alone"


def has_twin(member: Any) -> bool:
    """Return whether a member learns from unlabelled rows, and could do without."""
    return uses_unlabeled(member) and not needs_unlabeled(member)


def needs_unlabeled(member: Any) -> bool:
    """Return whether a member cannot be fitted to labelled rows alone."""
    return bool(getattr(member, "needs_unlabeled", False))


def list_tasks(members: Mapping[str, Any], twins: bool, n_rows: int, n_labeled: int, n_folds: int) -> list[Task]:
    """Return all fits in their order: to all rows, then fold by fold, each with the longest fits first.

    Short fits come last, which keeps all cores busy to the end. After an interruption, all members are fitted early and
    some folds are complete.
    """
    whole = [Task(name, None, _seconds(member, n_rows)) for name, member in members.items()]
    n_unlabeled = min(n_rows - n_labeled, MAX_UNLABELED)
    seconds = seconds_in_fold(smaller(candidates_for(members, twins=twins)), n_labeled, n_unlabeled)
    in_fold = [Task(name, 0, each) for name, each in seconds.items()]
    parts = [whole, *([replace(task, fold=number) for task in in_fold] for number in range(n_folds))]
    return [task for part in parts for task in sorted(part, key=lambda task: -task.seconds)]


def seconds_in_fold(candidates: Mapping[str, Candidate], n_labeled: int, n_unlabeled: int) -> dict[str, float]:
    """Return the estimated time of each candidate's fit in a fold on one core."""
    costs = SECONDS_BY_METHOD | {"in-context": (0.0, 0.5)}  # it reads its rows in a fold, and predicts few
    seconds = {}
    for name, candidate in candidates.items():
        most = n_unlabeled if candidate.most_unlabeled is None else candidate.most_unlabeled
        read = 0 if candidate.labeled_only else min(n_unlabeled, most)
        seconds[name] = _seconds(candidate.estimator, n_labeled + read, costs)
    return seconds


def fit_everything(
    members: Mapping[str, Any],
    rows: TrainingRows,  # whose context receives the progress
    folds: Folds | None,  # None if there are too few labels
    *,
    twins: bool,
    n_jobs: int,
) -> CommitteeFits:
    """Fit copies of all members to all rows and in each fold; Ctrl-C then keeps the fits that are done.

    With ``twins``, members that learn from unlabelled rows are also fitted to the labelled ones alone, in each fold.
    """
    unweighted = [name for name, each in members.items() if not has_fit_parameter(each, "sample_weight")]
    failures = dict.fromkeys(unweighted if rows.weighted else [], "it takes no weights")
    members = {name: each for name, each in members.items() if name not in failures}
    given, weight = (rows.X, rows.labels), rows.weight if rows.weighted else None
    n_folds = 0 if folds is None else len(folds.tests)
    fits = None
    if folds is not None:
        of_fold = smaller(candidates_for(members, twins=twins))
        fits = FoldFits(of_fold, *given, folds, weight, kept_failures=(Exception,), checked=True)
    tasks = list_tasks(members, twins, len(rows.codes), len(rows.labeled), n_folds)
    calls: list[Any] = [
        (_fit_or_fail, (members[task.name], *given, weight))
        if fits is None or task.fold is None
        else (fits.run, (task.fold, (task.name,)))
        for task in tasks
    ]
    done: dict[Task, Any] = {}
    interrupted = False
    try:
        for number, result in in_parallel(calls, n_jobs):
            done[tasks[number]] = result
            if rows.context.on_work is not None:
                seconds = sum(task.seconds for task in done)
                rows.context.on_work(seconds, sum(task.seconds for task in tasks), f"{len(done)} of {len(tasks)} fits")
    except KeyboardInterrupt:
        if any(task.fold is None and task not in done for task in tasks):
            raise
        interrupted = True
    fitted = {task.name: done[task] for task in tasks if task.fold is None}
    failures |= {name: str(result) for name, result in fitted.items() if isinstance(result, Exception)}
    kept = {name: fitted[name] for name in members if name not in failures}
    held_out = None
    if fits is not None:
        results = [result for task, result in done.items() if task.fold is not None]
        held_out = replace(fits, candidates=candidates_for(kept, twins=twins)).gather(results)
        failures |= {name: why for name, why in held_out.failures.items() if name in kept}
        kept = {name: member for name, member in kept.items() if name not in failures}
        if not len(held_out.rows):
            held_out = None
    return CommitteeFits(kept, failures, held_out, interrupted)


def candidates_for(members: Mapping[str, Any], *, twins: bool = False) -> dict[str, Candidate]:
    """Return the candidates of each fold: the members and, with ``twins``, their twins."""
    # An in-context network reads only as many rows as its context holds.
    most = {name: getattr(member, "context_size", None) for name, member in members.items()}
    candidates = {name: Candidate(member, most_unlabeled=most[name]) for name, member in members.items()}
    if twins:
        learners = {name: member for name, member in members.items() if has_twin(member)}
        candidates |= {twin_of(name): Candidate(member, labeled_only=True) for name, member in learners.items()}
    return candidates


def smaller(candidates: Mapping[str, Candidate]) -> dict[str, Candidate]:
    """Return the candidates as a committee fits them in its folds; see ``IN_FOLDS``."""
    changed = dict(candidates)
    for name, candidate in candidates.items():
        method_name = getattr(candidate.estimator, "method_name", "")
        if method_name not in IN_FOLDS:
            continue
        settings, most = IN_FOLDS[method_name]
        own = candidate.estimator.get_params()
        lowered = {key: min(value, own[key]) for key, value in settings.items()}
        limits = [each for each in (most, candidate.most_unlabeled) if each is not None]
        estimator = clone(candidate.estimator).set_params(**lowered)
        changed[name] = replace(candidate, estimator=estimator, most_unlabeled=min(limits, default=None))
    return changed


def _seconds(member: Any, n_rows: int, costs: Mapping[str, tuple[float, float]] = SECONDS_BY_METHOD) -> float:
    fixed, per_thousand = costs.get(getattr(member, "method_name", ""), (0.5, 1.0))
    return float(fixed + per_thousand * n_rows / 1000) * getattr(member, "n_members", 1)


def _fit_or_fail(member: Any, X: Array, labels: Labels, weight: Array | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)  # the committee itself warns of what concerns all members
        try:
            return fit_copy(member, X, labels, weight, seed=0, checked=True)
        except Exception as error:
            return error


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


def folds_of(effort: str, n_labeled: int) -> tuple[int, int]:
    """Return the number of folds of an effort, and how often the labels are split into them."""
    return {"fast": 3, "normal": 5, "best": 10}[effort], 3 if effort == "best" and n_labeled < 60 else 1


def deal(labels: Labels, effort: str, *, seed: int, weight: Any = None, stratified: bool = True) -> Folds | None:
    """Return the folds of an effort, or None if there are too few labels."""
    n_splits, n_repeats = folds_of(effort, int(labels.labeled.sum()))
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
