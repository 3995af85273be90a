"""Sizes of the segments in the population, also by group, as a model of a table estimates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from deepsep.classifiers.committee.members import COMMITTEE
from deepsep.core.arrays import Array
from deepsep.core.checks import is_integer
from deepsep.core.labels import codes_of
from deepsep.errors import DataError, ParameterError, Setting, Worded
from deepsep.evaluation.class_sizes import KnownShares, Size, class_sizes, screened_shares
from deepsep.evaluation.expected_accuracy import Evidence
from deepsep.evaluation.frames import in_batches
from deepsep.model.training_table import ROW_COLUMN, weights_in
from deepsep.table.columns import key_text
from deepsep.table.locations import find_column


@dataclass(frozen=True)
class Sizes:
    """Shares of the segments in the population.

    Attributes
    ----------
    table : DataFrame
        A line for each segment, in each group: its ``share`` of all rows, the ends ``low`` and ``high`` of the 90 %
        interval (NaN if there is none), and the number of ``labels``.
    basis : Worded
        What the shares rest on.
    """

    table: pd.DataFrame
    basis: Worded

    @property
    def condition(self) -> str:
        """The foundation of the shares, as a sentence."""
        return str(self.basis)

    def __repr__(self) -> str:
        return f"{self.table.to_string(index=False)}\n{self.condition}"


@dataclass(frozen=True)
class Basis:
    """Knowledge about the shares of the classes that follows from the way the labels were drawn."""

    known: KnownShares | None  # by which labels are weighted; None if they are a random sample
    condition: Worded  # the same in a sentence
    has_intervals: bool = True  # False if the labels tell nothing about the shares

    @property
    def exact(self) -> bool:
        """Whether the shares of all rows are known."""
        return self.known is not None and not self.known.covariance.any()


def segment_sizes(
    model: Any,
    p: Array,
    weight: Array | None = None,
    *,
    groups: tuple[Array, Array] | None = None,
    group_name: str | None = None,
    screened: Mapping[Any, int] | None = None,
    n_unlabeled: int | None = None,
    count_labels: bool = True,
) -> Sizes:
    """Return the shares of the classes among all rows of a population, unlabelled and labelled.

    ``p`` and ``weight`` are those of the unlabelled rows or, if their number ``n_unlabeled`` is given, of some of them,
    drawn at random. ``groups`` are the group of each of these, and of each row that had a label in the fit, in its
    order. ``screened`` is as in :meth:`TableModel.sizes`; ``count_labels`` says whether the labelled rows belong to the
    population.
    """
    committee = model[-1]
    if getattr(committee, "out_of_fold_", None) is None:
        raise ParameterError(
            "sizes rest on labels that were held out in the fit, and this model has none. Fit a committee, the default."
        )
    basis = _basis(committee, screened)
    labels, evidence = _fair_labels(committee)
    w = np.ones(len(p)) if weight is None else np.asarray(weight, float)
    names = [*([] if group_name is None else [group_name]), model.label_ or "label", "share", "low", "high", "labels"]
    lines = []
    unlabeled, labeled = groups or (np.zeros(len(p)), np.zeros(len(labels)))  # without groups: all rows are in one
    for group in sorted(set(unlabeled) | set(labeled), key=str):
        free, at = unlabeled == group, labeled == group
        counted = np.bincount(labels[at], minlength=len(committee.classes_))
        in_table = counted * float(count_labels)
        if basis.exact and groups is None:
            sizes = [Size(share, share, share) for share in committee.shares_.tolist()]
        else:
            sizes = _sizes_in_group(p[free], w[free], in_table, evidence, at, basis, n_unlabeled)
        first = [] if groups is None else [group]
        lines += [[*first, name, *size, n] for name, size, n in zip(committee.classes_, sizes, counted, strict=True)]
    table = pd.DataFrame(lines, columns=names).astype({"low": float, "high": float})
    return Sizes(table, basis.condition)


def _sizes_in_group(
    p: Array, w: Array, counted: Array, evidence: Evidence, at: Array, basis: Basis, n_unlabeled: int | None
) -> list[Size]:
    total = float(w.sum()) if n_unlabeled is None else float(w.sum()) * n_unlabeled / len(w)
    in_group = at & (evidence.weight > 0)
    if basis.has_intervals and len(np.unique(evidence.codes[in_group])) > 1 and total:
        return class_sizes(p, w, counted, evidence, unlabeled_weight=total, in_group=in_group, known=basis.known)
    free = np.average(p, axis=0, weights=w) if total else np.zeros(p.shape[1])
    return [Size(float(share)) for share in (counted + total * free) / max(counted.sum() + total, 1e-300)]


def _basis(committee: Any, screened: Mapping[Any, int] | None) -> Basis:
    origins, classes = committee.label_origins_, committee.classes_
    guess = "" if origins.given else ", as is assumed since nothing says how"
    if screened is not None:
        if origins.basis == "random" and origins.given:
            raise ParameterError(
                "{screened}: the labels were drawn at random, so that no counts are needed. Leave them out.",
                screened=Setting("screened"),
            )
        condition = Worded("The labels fill quotas; the shares rest on the screening counts.")
        return Basis(screened_shares(*_screening(screened, committee)), condition)
    if committee.priors is not None and origins.basis is not None:
        c = len(classes)
        known = KnownShares(committee.shares_, np.zeros((c, c)))
        return Basis(known, Worded("The shares of all rows are those that were given; those of groups rest on them."))
    if origins.basis == "random":
        return Basis(None, Worded(f"The labels are a random sample of all rows{guess}."))
    why = (
        f"The labels fill quotas{guess}, so that their numbers do not tell the shares. These are the model's "
        "estimates, without an interval. Fit with {priors}, the shares of the population, or give the screening "
        "counts: {screened}."
        if origins.basis == "quota"
        else "The labels were chosen, so that they do not tell the shares. These are the model's estimates, without "
        "an interval. Label some rows that are drawn at random."
    )
    settings = {name: Setting(name) for name in ("priors", "screened")}
    return Basis(None, Worded(why, **settings), has_intervals=False)


def _screening(screened: Mapping[Any, int], committee: Any) -> tuple[Array, Array]:
    """Return the labels of quotas and the screening counts in the order of the classes, or raise."""
    by_text = {str(name): name for name in committee.classes_}
    given = {by_text.get(str(name), name): count for name, count in screened.items()}
    unknown = [name for name in given if name not in list(committee.classes_)]
    missing = [name for name in committee.classes_ if name not in given]
    if unknown or missing:
        what = f"{unknown[0]!r} is no class of the model" if unknown else f"the class {missing[0]!r} is missing"
        raise ParameterError(
            f"{{screened}}: {what}. Give how many people were looked at for each of: "
            f"{', '.join(map(str, committee.classes_))}.",
            screened=Setting("screened"),
        )
    codes, fair = codes_of(committee.classes_, committee.transduction_), committee.label_origins_.fair
    counts = np.bincount(codes[fair], minlength=len(committee.classes_))
    if not counts.all():
        name = committee.classes_[counts.argmin()]
        raise DataError(f"the class {name!r} has no label of a quota, so that its share is not known.")
    for name, labels in zip(committee.classes_, counts, strict=True):
        if not is_integer(given[name], 1) or given[name] < labels:
            raise ParameterError(
                f"{{screened}}: for the class {name!r}, {given[name]!r} people were looked at, and {labels} labels "
                "found. Give a whole number of at least the labels.",
                screened=Setting("screened"),
            )
    return counts, np.array([int(given[name]) for name in committee.classes_])


def _fair_labels(committee: Any) -> tuple[Array, Evidence]:
    """Return the classes of all labels of the fit, and for each of them a prediction by models that had not seen it.

    Labels on which an accuracy may not rest have the weight 0. A label that was never held out gets mean probabilities.
    """
    held_out, origins = committee.out_of_fold_, committee.label_origins_
    at = np.flatnonzero(origins.codes >= 0)  # rows of the fit with a label
    labels = codes_of(committee.classes_, committee.transduction_)[at]
    place = np.full(len(origins.codes), -1)
    place[at] = np.arange(len(at))
    rows, repeats = place[held_out.rows], held_out.folds.n_repeats
    p = held_out.p[COMMITTEE]
    sums = np.zeros((len(at), p.shape[1]))
    np.add.at(sums, rows, p / repeats)
    given = np.ones(len(held_out.rows)) if held_out.weight is None else held_out.weight
    weight = np.full(len(at), given.mean())
    weight[rows] = given
    never = ~np.isin(np.arange(len(at)), rows)
    sums[never] = p.mean(axis=0)
    return labels, Evidence(sums, labels, np.where(origins.fair[at], weight, 0.0), 1)


def as_groups(column: pd.Series[Any], *, max_groups: int = 100) -> Array:
    """Return a column as names of groups, or raise if it has too many values."""
    values = column.astype(object).where(column.notna(), "(missing)")
    n = values.nunique()
    if n > max_groups:
        raise DataError(
            f"the column {column.name!r} has {n:,} different values, too many for groups (at most {max_groups}). Name "
            "a column with few values, or group them first."
        )
    names: Array = values.map(str).to_numpy(object)
    return names


def sizes_in_table(
    model: Any,
    frame: pd.DataFrame,
    used: pd.DataFrame | None = None,
    *,
    id: str | None = None,
    by: str | None = None,
    weight: str | None = None,
    screened: Mapping[Any, int] | None = None,
) -> Sizes:
    """Return the shares of the classes among the rows of a table, labelled and unlabelled, or unlabelled alone.

    ``used`` are the labels of the fit, with identifiers in the first column; without an ``id`` these are row numbers.
    ``by`` and ``weight`` are columns of groups, and of weights.
    """
    labeled = _labeled_rows(model, frame, used, id)
    at_hand = len(labeled) > 0 and bool((labeled >= 0).all())
    free = np.ones(len(frame), bool)
    free[labeled[labeled >= 0]] = False
    if not free.any():
        raise DataError("every row of the table had a label in the fit. Name a table with unlabelled rows.")
    names = None if by is None else as_groups(frame[find_column(frame.columns, by, "column of groups")])
    if names is not None and not at_hand:
        missing = f"{int((labeled < 0).sum()):,} of {len(labeled):,} are not" if len(labeled) else "none is known"
        raise DataError(
            f"the groups of {by!r} need the labelled rows of the fit, and in this table {missing}. Name the table that "
            "the model was fitted to, with its column of identifiers."
        )
    return segment_sizes(
        model,
        in_batches(model.predict_proba, frame[free]),
        None if weight is None else weights_in(frame, weight)[free],
        groups=None if names is None else (names[free], names[labeled]),
        group_name=by,
        screened=screened,
        count_labels=at_hand,
    )


def _labeled_rows(model: Any, frame: pd.DataFrame, used: pd.DataFrame | None, id: str | None) -> Array:
    """Return the row of each label of the fit, in its order, -1 where it is not in the table."""
    if used is None or used.columns[0] != (id or ROW_COLUMN):
        return np.empty(0, int)
    if id is None and len(model[-1].transduction_) != len(frame):  # another table, whose rows have the same numbers
        return np.empty(0, int)
    keys = pd.Series(frame.index) if id is None else frame[find_column(frame.columns, id, "id column")]
    place = {key_text(key): i for i, key in enumerate(keys)}
    return np.array([place.get(key_text(key), -1) for key in used.iloc[:, 0]], int)
