"""Labels from probabilities: sets of classes, no label for unsure rows, and what mistakes cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deepsep.classifiers.committee.committee import Committee
from deepsep.core.arrays import Array
from deepsep.core.model_parts import estimator_of
from deepsep.drift.counts import Counts
from deepsep.errors import DataError, ParameterError, Setting
from deepsep.evaluation.conformal import ConformalSets
from deepsep.evaluation.expected_accuracy import Evidence, corrected
from deepsep.evaluation.frames import prediction_columns
from deepsep.survey import SurveySegments
from deepsep.table import read_table
from deepsep.table.batches import open_files

Costs = Mapping[Any, Mapping[Any, float]]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Settings of how labels follow from probabilities; by default a label is the most probable class.

    Parameters
    ----------
    sets : float, optional
        Adds the column ``set``: classes that hold the right one with this probability, or more; see
        :meth:`deepsep.Committee.predict_set`.
    per_class : bool, default=False
        Whether the sets hold the right one equally often in all classes.
    abstain : float, optional
        The confidence below which a row gets no label; its probabilities stay.
    costs : dict {true class: {called class: cost}}, optional
        Costs of mistakes: the label is the class with the lowest expected cost, not the most probable one.
    """

    sets: float | None = None
    per_class: bool = False
    abstain: float | None = None
    costs: Costs | None = None

    def check(self, estimator: Any) -> None:
        """Raise if a model of this kind cannot do it."""
        if self.sets is not None and not isinstance(estimator, Committee):
            raise ParameterError(
                "{sets}: only a committee has the predictions out of fold that sets are made from. Leave out {sets}, "
                "or fit a committee.",
                sets=Setting("sets"),
            )
        if self.per_class and self.sets is None:
            raise ParameterError("{per_class} belongs to {sets}.", per_class=Setting("per_class"), sets=Setting("sets"))
        if self.abstain is not None and not (isinstance(self.abstain, float) and 0 < self.abstain < 1):
            raise ParameterError(
                "{abstain}; pass a confidence between 0 and 1, such as 0.8.", abstain=Setting("abstain", self.abstain)
            )
        if (self.abstain is not None or self.costs is not None) and not hasattr(estimator, "predict_proba"):
            raise ParameterError(
                "the model has no probabilities, from which labels could follow. Choose another method."
            )


MOST_PROBABLE_CLASS = Decision()


@dataclass
class Tally:
    """Decisions on some rows, counted."""

    labels: Counter[Any] = field(default_factory=Counter)  # rows of each label; None for rows without one
    sure: float = 0.0  # sum of the probabilities of the labels given
    changed: int = 0  # labels that are not the most probable class, because of costs
    sizes: Counter[int] = field(default_factory=Counter)  # rows by the size of their set
    drift: Counts | None = None  # of a piece or a whole file: the rows, to compare with the training table
    error: str | None = None  # why a part could not be read, and has no rows

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.labels.total()

    def __add__(self, other: Tally) -> Tally:
        labels, sizes = self.labels + other.labels, self.sizes + other.sizes
        return Tally(labels, self.sure + other.sure, self.changed + other.changed, sizes)

    def to_plain(self, classes: Sequence[Any]) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "labels": [self.labels[name] for name in [*classes, None]],
            "sure": self.sure,
            "changed": self.changed,
            "sizes": sorted(self.sizes.items()),
            "drift": None if self.drift is None else self.drift.to_plain(),
        }

    @classmethod
    def from_plain(cls, content: dict[str, Any], classes: Sequence[Any], counts: Counts | None) -> Tally:
        """Return a result of :meth:`to_plain`; ``counts`` are empty ones of its profile."""
        labels = Counter({name: rows for name, rows in zip([*classes, None], content["labels"], strict=True) if rows})
        drift = None if counts is None else counts.from_plain(content["drift"])
        return cls(labels, content["sure"], content["changed"], Counter(dict(content["sizes"])), drift)


def total(tallies: Iterable[Tally], counts: Counts | None) -> Tally:
    """Return what was decided in all; ``counts`` are empty ones, to which those of the pieces are added."""
    whole = Tally()
    for tally in tallies:
        whole += tally
        if counts is not None and tally.drift is not None:
            counts += tally.drift
    whole.drift = counts
    return whole


@dataclass(frozen=True)
class Decisions:
    """Rule that makes labels of probabilities; by default the label is the most probable class."""

    classes: Array
    sets: ConformalSets | None = None
    abstain: float | None = None  # the confidence below which a row gets no label
    costs: Array | None = None  # (c, c): of predicting one class (column) for another (row)

    @classmethod
    def of(cls, model: Any, decision: Decision) -> Decisions:
        """Return how labels follow from what a fitted model says, or raise if they cannot."""
        if isinstance(model, SurveySegments):
            raise ParameterError(
                "the model holds segments of a survey. deepsep.survey.assign_segments gives respondents their segment."
            )
        classes, estimator = np.asarray(model.classes_), estimator_of(model)
        decision.check(estimator)
        return cls(
            classes,
            None if decision.sets is None else estimator.conformal_sets(decision.sets, decision.per_class),
            decision.abstain,
            None if decision.costs is None else check_costs(decision.costs, classes),
        )

    def __call__(self, p: Array) -> tuple[Array, Array]:
        """Return the label of each row as a number of a class, and whether the row keeps it."""
        called = p.argmax(axis=1) if self.costs is None else (p @ self.costs).argmin(axis=1)
        sure = p.max(axis=1) if len(p) else np.empty(0)
        return called, np.ones(len(p), bool) if self.abstain is None else sure >= self.abstain

    def columns(self, p: Array, label: str | None) -> tuple[dict[str, Any], Tally]:
        """Return the columns of predictions, and what was decided."""
        called, kept = self(p)
        names: Array = self.classes[called]
        if not kept.all():
            names = names.astype(object)
            names[~kept] = None
        sets = None if self.sets is None else self.sets(p)
        tally = Tally(
            Counter(names.tolist()),
            float(p[np.arange(len(p)), called][kept].sum()),
            int((called != p.argmax(axis=1))[kept].sum()) if len(p) else 0,
            Counter() if sets is None else Counter(sets.sum(axis=1).tolist()),
        )
        written = None if sets is None else set_texts(sets, p, self.classes)
        return prediction_columns(self.classes, p, label, predicted=names, sets=written), tally

    def describe(self, tally: Tally, evidence: Evidence | None) -> dict[str, Any]:
        """Return what was applied, with what can be expected of it; ``evidence`` is of the model that scored."""
        result: dict[str, Any] = {"sets": None, "abstain": None, "costs": None}
        n = max(tally.rows, 1)
        if self.sets is not None:
            result["sets"] = {
                "coverage": self.sets.coverage,
                "per_class": self.sets.per_class,
                "mean_size": sum(size * count for size, count in tally.sizes.items()) / n,
                "one_class": tally.sizes[1],
            }
        if self.abstain is not None:
            expected = self._expected(tally, evidence)
            result["abstain"] = {
                "confidence": self.abstain,
                "without_label": tally.labels[None],
                "accuracy": None if expected is None else {"value": expected.value, "interval": expected.interval},
            }
        if self.costs is not None:
            result["costs"] = {"changed": tally.changed}
        return result

    def _expected(self, tally: Tally, evidence: Evidence | None) -> Any:
        """Return the share of right labels among the rows that keep one; None if nothing tells it."""
        n = tally.rows - tally.labels[None]
        if evidence is None or not n:
            return None
        p, codes, weight, repeats, unseen = evidence
        called, kept = self(p)
        if not weight[kept].any():
            return None
        sure = p[np.arange(len(p)), called][kept]
        right = (called == codes)[kept]
        return corrected(tally.sure / n, sure, right, weight[kept], repeats=repeats, unseen=unseen, n_rows=n)


def set_texts(sets: Array, p: Array, classes: Array) -> Array:
    """Return sets of classes as text, such as "gold|blue", the most probable class first."""
    order = np.argsort(-p, axis=1, kind="stable")
    names = [str(name) for name in classes.tolist()]
    inside = np.take_along_axis(sets, order, axis=1)
    return np.array(
        ["|".join(names[k] for k in line[at]) for line, at in zip(order, inside, strict=True)], dtype=object
    )


def check_costs(costs: Any, classes: Array) -> Array:
    """Return costs, {true class: {called class: cost}}, as a matrix (true class, called class), or raise.

    All pairs of different classes must be there; a right call costs nothing unless it is there too.

    Examples
    --------
    >>> check_costs({"stays": {"leaves": 1}, "leaves": {"stays": 20}}, np.array(["leaves", "stays"]))
    array([[ 0., 20.],
           [ 1.,  0.]])
    """
    if not isinstance(costs, Mapping) or not all(isinstance(line, Mapping) for line in costs.values()):
        raise ParameterError(f"costs={costs!r}; pass a dict {{true class: {{called class: cost}}}}.")
    names = classes.tolist()
    _check_names(costs, names, "true")
    matrix = np.zeros((len(names), len(names)))
    for i, true in enumerate(names):
        _check_names(costs[true], names, f"called, where the true class is {true!r}", besides=true)
        for called, cost in costs[true].items():
            if isinstance(cost, bool) or not isinstance(cost, int | float | np.number) or not np.isfinite(float(cost)):
                what = "nothing" if cost != cost else repr(cost)
                raise ParameterError(
                    f"costs: the cost of calling {true!r} {called!r} is {what}; write a number such as 5."
                )
            matrix[i, names.index(called)] = float(cost)
    return matrix


def _check_names(given: Mapping[Any, Any], names: list[Any], role: str, *, besides: Any = None) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        has = ", ".join(map(repr, names[:20]))
        raise ParameterError(f"costs: {unknown[0]!r} is not a class of the model ({role}). It has {has}.")
    missing = [name for name in names if name not in given and name != besides]
    if missing:
        raise ParameterError(f"costs: the class {missing[0]!r} is missing ({role}). Give a cost for every class.")


def read_costs(file: Path, classes: Array) -> dict[Any, dict[Any, float]]:
    """Return the costs in a table with the true classes in the first column, or with columns true, called, cost."""
    long_columns = ("true", "called", "cost")
    table = open_files(file)
    names = table.names
    long = sorted(name.lower() for name in names) == sorted(long_columns)
    by_text = {str(name): name for name in classes.tolist()}
    costs: dict[Any, dict[Any, float]] = {}
    cells: Iterable[tuple[Any, Any, Any]]
    if long:
        true, called, cost = (next(name for name in names if name.lower() == wanted) for wanted in long_columns)
        frame = read_table(table, label=true, types={called: "text"})
        cells = zip(frame[true].tolist(), frame[called].tolist(), frame[cost].tolist(), strict=True)
    elif len(names) < 3:
        raise DataError(
            f"{file} has {len(names)} columns. Write a line for each true class and a column for each called one, with "
            "the true class in the first column; or the columns true, called and cost."
        )
    else:
        lines = read_table(table, label=names[0])[names].itertuples(index=False, name=None)
        cells = ((line[0], name, value) for line in lines for name, value in zip(names[1:], line[1:], strict=True))
    for one, other, value in cells:
        pair = by_text.get(str(one), one), by_text.get(str(other), other)
        line = costs.setdefault(pair[0], {})
        if pair[1] in line:
            raise DataError(f"{file} has the cost of calling {pair[0]!r} {pair[1]!r} twice. Leave one of them.")
        if value != value and pair[0] == pair[1]:  # an empty cell on the diagonal: nothing
            continue
        line[pair[1]] = value
    try:
        check_costs(costs, classes)
    except ParameterError as error:
        raise DataError(f"{file}: {error}") from None
    return costs
