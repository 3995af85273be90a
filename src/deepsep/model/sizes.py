"""Sizes of the segments in the population, also by group, as a model of a table estimates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from deepsep.classifiers.committee.committee import COMMITTEE
from deepsep.core.checks import is_integer
from deepsep.core.labels import codes_of
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.evaluation.evidence import Evidence
from deepsep.evaluation.sizes import KnownShares, Size, class_sizes, screened_shares

Array = NDArray[Any]

MISSING_GROUP = "(missing)"


@dataclass(frozen=True)
class Sizes:
    """Shares of the segments in the population.

    Attributes
    ----------
    table : DataFrame
        A line for each segment, in each group: its ``share`` of all rows, the ends ``low`` and ``high`` of the 90 %
        interval (NaN if there is none), and the number of ``labels``.
    condition : str
        What the shares rest on.
    """

    table: pd.DataFrame
    condition: str

    def __repr__(self) -> str:
        return f"{self.table.to_string(index=False)}\n{self.condition}"


@dataclass(frozen=True)
class Basis:
    """What is known about the shares of the classes from how the labels were drawn.

    Attributes
    ----------
    known : KnownShares or None
        By which labels are weighted; None if they are a random sample.
    condition : str
        The same in a sentence.
    has_intervals : bool
        False if the labels tell nothing about the shares.
    """

    known: KnownShares | None
    condition: str
    has_intervals: bool = True


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

    Parameters
    ----------
    model : TableModel
        With a committee.
    p : array (u, c)
        Probabilities of the unlabelled rows.
    weight : array (u,), optional
        Their weights.
    groups : pair of arrays, (u,) and (l,), optional
        The group of each unlabelled row, and of each row that had a label in the fit, in its order.
    group_name : str, optional
        Column of the groups.
    screened : dict {class: int}, optional
        For quotas: how many people were looked at until the labels of a class were found.
    n_unlabeled : int, optional
        Number of unlabelled rows, if ``p`` is of some of them, drawn at random.
    count_labels : bool, default=True
        Whether the labelled rows belong to the population.
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
    for group, free, at in _each_group(groups, len(p), len(labels)):
        codes = labels[at]
        counted = np.bincount(codes, minlength=len(committee.classes_))
        in_table = counted * float(count_labels)
        sizes = _sizes_in_group(p[free], w[free], in_table, evidence, at, basis, n_unlabeled)
        first = [] if group is None else [group]
        lines += [[*first, name, *size, n] for name, size, n in zip(committee.classes_, sizes, counted, strict=True)]
    table = pd.DataFrame(lines, columns=names).astype({"low": float, "high": float})
    return Sizes(table, basis.condition)


def _sizes_in_group(
    p: Array, w: Array, counted: Array, evidence: Evidence, at: Array, basis: Basis, n_unlabeled: int | None
) -> list[Size]:
    total = float(w.sum()) if n_unlabeled is None else float(w.sum()) * n_unlabeled / len(w)
    in_group = at & (evidence.weight > 0)
    if basis.has_intervals and len(np.unique(evidence.codes[in_group])) > 1 and total:
        known = evidence._replace(weight=np.where(evidence.weight > 0, evidence.weight, 0.0))
        return class_sizes(p, w, counted, known, unlabeled_weight=total, in_group=in_group, known=basis.known)
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
        looked_at, labels = _looked_at(screened, committee), _fair_counts(committee)
        return Basis(screened_shares(labels, looked_at), "The labels fill quotas; shares rest on the screening counts.")
    if committee.priors is not None and origins.basis is not None:
        c = len(classes)
        known = KnownShares(committee.shares_, np.zeros((c, c)))
        return Basis(known, "The shares of all rows are those that were given, and those of groups rest on them.")
    if origins.basis == "random":
        return Basis(None, f"The labels are a random sample of all rows{guess}.")
    why = (
        f"The labels fill quotas{guess}, so that their numbers do not tell the shares. These are the model's estimates, "
        "without an interval. Give the shares of the population in the fit, or the screening counts."
        if origins.basis == "quota"
        else "The labels were chosen, so that they do not tell the shares. These are the model's estimates, without an "
        "interval. Label some rows that are drawn at random."
    )
    return Basis(None, why, has_intervals=False)


def _looked_at(screened: Mapping[Any, int], committee: Any) -> Array:
    """Return the screening counts in the order of the classes, or raise."""
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
    counts = _fair_counts(committee)
    for name, labels in zip(committee.classes_, counts, strict=True):
        if not is_integer(given[name], 1) or given[name] < labels:
            raise ParameterError(
                f"{{screened}}: for the class {name!r}, {given[name]!r} people were looked at, and {labels} labels found. "
                "Give a whole number of at least the labels.",
                screened=Setting("screened"),
            )
    return np.array([int(given[name]) for name in committee.classes_])


def _fair_counts(committee: Any) -> Array:
    codes, fair = codes_of(committee.classes_, committee.transduction_), committee.label_origins_.fair
    counts = np.bincount(codes[fair], minlength=len(committee.classes_))
    if not counts.all():
        name = committee.classes_[counts.argmin()]
        raise DataError(f"the class {name!r} has no label of a quota, so that its share is not known.")
    return counts


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


def _each_group(groups: tuple[Array, Array] | None, u: int, n_labels: int) -> list[tuple[Any, Array, Array]]:
    """Return each group with the masks of its unlabelled and of its labelled rows."""
    if groups is None:
        return [(None, np.ones(u, bool), np.ones(n_labels, bool))]
    free, labeled = groups
    return [(name, free == name, labeled == name) for name in sorted(set(free) | set(labeled), key=str)]


def as_groups(column: pd.Series[Any], *, max_groups: int = 100) -> Array:
    """Return a column as names of groups, or raise if it has too many values."""
    values = column.astype(object).where(column.notna(), MISSING_GROUP)
    n = values.nunique()
    if n > max_groups:
        raise DataError(
            f"the column {column.name!r} has {n:,} different values, too many for groups (at most {max_groups}). Name a "
            "column with few values, or group them first."
        )
    return values.map(str).to_numpy(object)
