"""Several methods that decide together, weighted and calibrated by what they say about labels held out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.base import Array, Classifier, settings
from deepsep.classifiers.catalogue import method
from deepsep.classifiers.restoring import needs_code, put_together
from deepsep.classifiers.student import Student
from deepsep.core.arrays import checked_array
from deepsep.core.checks import check_priors, is_integer, require
from deepsep.core.labels import Labels
from deepsep.core.mixture import Mixture, fit_mixture, mix_unseen
from deepsep.core.notices import warn
from deepsep.core.probability import prior_shift, shifted
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import DeepSepWarning, LabelError, LabelWarning, ModelFileError, ParameterError
from deepsep.evaluation.folds import MAX_UNLABELED, deal_folds
from deepsep.evaluation.out_of_fold import Candidate, OutOfFold, fit_copy, fit_folds, in_parallel, label_names
from deepsep.evaluation.population import to_population
from deepsep.files.saving import take_apart

GIVEN = "estimators"  # stands in a saved model for members that were not given by name
COMMITTEE = "committee"  # among the names of the members in ``out_of_fold_``
MANY_LABELS = 250  # from here on boosted trees are worth their time


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
    settings : mapping
        Of the method, where they are not its defaults.
    efforts : tuple of str
        The efforts at which it takes part.
    least_labels : int
        The labels from which on it takes part.
    """

    name: str
    method: str
    why: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    efforts: tuple[str, ...] = ("fast", "normal", "best")
    least_labels: int = 0


MEMBERS = (
    Member("random-forest", "random-forest", "columns of any kind and scale, most of them irrelevant"),
    Member("extra-trees", "extra-trees", "the same, with smoother boundaries"),
    Member("deepsep", "deepsep", "classes with few rows between them"),
    Member(
        "in-context",
        "in-context",
        "few labels, many categories, tables as companies have them",
        {"view": "columns"},
        ("normal", "best"),
    ),
    Member(
        "in-context-components",
        "in-context",
        "many correlated numbers: spectra, images, sensors",
        {"view": "components"},
        ("normal", "best"),
    ),
    Member(
        "lightgbm-few-labels",
        "lightgbm-few-labels",
        "interactions of columns, given labels enough",
        efforts=("normal", "best"),
        least_labels=MANY_LABELS,
    ),
)


@dataclass(frozen=True)
class Effort:
    """Into how many folds the labels are dealt, and how often; more often where they are few."""

    n_splits: int
    n_repeats: int
    n_repeats_few: int

    def repeats(self, n_labelled: int) -> int:
        """Return how often the labels are dealt into folds."""
        return self.n_repeats if n_labelled >= FEW_LABELS else self.n_repeats_few


FEW_LABELS = 60
EFFORTS = {"fast": Effort(3, 1, 1), "normal": Effort(5, 1, 1), "best": Effort(10, 1, 3)}


@settings
class Committee(Classifier):
    r"""Several methods that decide together.

    No method is best on every table. The labelled rows are dealt into folds, and each member predicts the rows of a
    fold after a fit to all others, labelled and unlabelled. These predictions decide the members' weights: those with
    which the average of their probabilities has the lowest log loss. A temperature for the average comes from the same
    rows. Both are shrunk, to equal weights and to one, so that few labels cannot decide much. All members are then
    fitted to all rows.

    The predictions out of fold are also an estimate of the accuracy to expect: ``out_of_fold_``.

    Parameters
    ----------
    members : list or dict, optional
        Names of methods, estimators, or a dict of name to either. None: forests (random forest and extra trees) and
        DeepSep; unless the effort is "fast", the in-context network in its two views as well, and LightGBM from 250
        labels on.
    effort : {"fast", "normal", "best"}, default="normal"
        How much is computed: "fast" leaves out the in-context network and deals three folds, "normal" deals five,
        "best" ten, three times over where labels are few.
    priors : dict {class: share}, optional
        How frequent the classes are in the population of which the unlabelled rows are a sample. They reach the members
        that have this setting, the probabilities of the others, and the weighting.
    student : bool, default=True
        Whether to train one network on the probabilities of the unlabelled rows, from 100 such rows on: ``student_``,
        for when millions of rows are to be predicted. It takes a second or two, and changes nothing else.
    n_jobs : int, optional
        Fits at the same time; None: one for each core.
    random_state : int, RandomState or None, default=None
        The same seed gives the same bits, whatever ``n_jobs`` is.

    Attributes
    ----------
    classes_ : array (c,)
        The classes.
    transduction_ : array (n,)
        Labels of the training rows: those given, and predictions for the others.
    label_distributions_ : array (n, c)
        Class probabilities of the training rows.
    members_ : dict of str to estimator
        The members, fitted to all rows.
    failures_ : dict of str to str
        Why a member was left out.
    weights_ : dict of str to float
        The weight of each member.
    temperature_ : float
        The average p becomes p^(1/T), normalised: above one it is less sure, below one surer.
    out_of_fold_ : OutOfFold
        The probabilities of the labelled rows by each member and, as "committee", by all together, with weights and a
        temperature from other rows. Not in a saved model. None if too few labels can be held out; the weights are then
        equal.
    prior_shift_ : array (c,)
        Logarithms of the factors of the classes; only with ``priors``.
    student_ : Student or None
        A network that predicts much faster, and nearly the same, with its own ``predict`` and ``predict_proba``.
    student_agreement_ : float or None
        How often the student predicts the committee's class, on unlabelled rows that it has not seen. What the
        differences cost is ``student_.accuracy_loss_``.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep import Committee
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(4, 1, (200, 2))])
    >>> y = np.full(400, None)
    >>> y[:10], y[-10:] = "near", "far"
    >>> model = Committee(members=["tsvm", "logistic-regression"], n_jobs=1, random_state=0).fit(X, y)
    >>> sorted(model.weights_)
    ['logistic-regression', 'tsvm']
    >>> bool((model.predict(X[200:]) == "far").mean() > 0.9)
    True
    """

    method_name = COMMITTEE

    members: Any = None
    effort: Literal["fast", "normal", "best"] = "normal"
    priors: Mapping[Any, float] | None = None
    student: bool = True
    n_jobs: int | None = None
    random_state: Any = None

    # -- fitting ---------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        require(self, "effort", self.effort in EFFORTS, '"fast", "normal" or "best"')
        require(self, "n_jobs", self.n_jobs is None or is_integer(self.n_jobs, 1), "None or an integer of at least 1")
        self._named_members(n_labelled=0)

    def _check_with_classes(self) -> None:
        self._shares()

    def _shares(self) -> Array | None:
        return None if self.priors is None else check_priors(self.priors, self.classes_)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        self._forget("prior_shift_")
        shares, seed = self._shares(), int(rng.integers(2**31 - 1))
        members = self._named_members(len(rows.labelled))
        for member in members.values():
            _adopt(member, seed, self.priors)
        self.members_, self.failures_ = self._fit_members(members, rows)
        self.out_of_fold_ = self._fit_out_of_fold(rows, seed)
        distributions = {name: each.label_distributions_ for name, each in self.members_.items()}
        self._set_shifts(distributions, rows, shares)
        self._weigh(shares)
        mixed = self._mix(distributions)
        if shares is not None:
            self.prior_shift_ = _shift_to(shares, mixed, rows)
            mixed = shifted(mixed, self.prior_shift_)
        self.student_ = Student.of(self, rows, mixed, rng) if self.student else None
        return mixed

    @property
    def student_agreement_(self) -> float | None:
        """How often the student predicts the committee's class, on unlabelled rows that it has not seen."""
        return None if self.student_ is None else self.student_.agreement_

    def _named_members(self, n_labelled: int) -> dict[str, Any]:
        """Return copies of the members by name."""
        if self.members is None:
            return {
                seat.name: method(seat.method, **seat.settings)
                for seat in MEMBERS
                if self.effort in seat.efforts and n_labelled >= seat.least_labels
            }
        listed = isinstance(self.members, Iterable) and not isinstance(self.members, str)
        require(self, "members", listed, "a list of methods' names or estimators, or a dict of name to either")
        named = dict(self.members) if isinstance(self.members, Mapping) else _by_name(self.members)
        if not named or COMMITTEE in named:
            raise ParameterError("Committee: members: name at least one method, and not the committee itself.")
        for name, member in named.items():
            if not isinstance(name, str) or not (isinstance(member, str) or hasattr(member, "get_params")):
                raise ParameterError(f"Committee: members: {member!r} is neither a method's name nor an estimator.")
        return {name: method(each) if isinstance(each, str) else clone(each) for name, each in named.items()}

    def _fit_members(self, members: Mapping[str, Any], rows: TrainingRows) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the members, fitted to all rows, and why others were left out."""
        failures = {}
        if rows.weighted:
            failures = {name: "it takes no weights" for name, m in members.items() if not _takes_weights(m)}
        called = [name for name in members if name not in failures]
        y = label_names(rows.codes, self.classes_)
        weight = rows.weight if rows.weighted else None
        tasks = ((members[name], rows.X, y, weight) for name in called)
        fitted = {}
        for name, result in zip(called, in_parallel(_fit_or_fail, tasks, self._jobs), strict=True):
            if isinstance(result, Exception):
                failures[name] = f"{result}"
            else:
                fitted[name] = result
        if not fitted:
            raise LabelError(f"Committee: no member could be fitted. {_reasons(failures)}")
        return fitted, failures

    @property
    def _jobs(self) -> int:
        return int(self.n_jobs or os.cpu_count() or 1)

    def _fit_out_of_fold(self, rows: TrainingRows, seed: int) -> OutOfFold | None:
        """Return what the members say about labelled rows that they have not seen; removes members that fail."""
        effort, labels = EFFORTS[self.effort], Labels(rows.codes, self.classes_)
        weight = rows.weight if rows.weighted else None
        try:
            folds = deal_folds(
                labels,
                n_splits=effort.n_splits,
                n_repeats=effort.repeats(len(rows.labelled)),
                seed=seed,
                weight=weight,
                max_unlabeled=MAX_UNLABELED,
            )
        except LabelError:
            warn(
                "too few labels to hold any out: the members have equal weights, and nothing is known of the accuracy. "
                "Label at least two rows of two classes.",
                LabelWarning,
            )
            return None
        candidates = {name: Candidate(clone(each)) for name, each in self.members_.items()}
        held_out = fit_folds(
            candidates, rows.X, labels, folds, weight=weight, kept_failures=(Exception,), n_jobs=self._jobs
        )
        self.failures_ |= held_out.failures
        self.members_ = {name: each for name, each in self.members_.items() if name in held_out.p}
        if not self.members_:
            raise LabelError(f"Committee: no member could be fitted in every fold. {_reasons(self.failures_)}")
        if self.failures_:
            warn(f"left out of the committee: {_reasons(self.failures_)}", DeepSepWarning)
        return held_out

    def _set_shifts(self, p: Mapping[str, Array], rows: TrainingRows, shares: Array | None) -> None:
        """Set the factors that adjust to known shares the members that have no setting for them."""
        self._shifts = {}
        if shares is not None:
            for name, member in self.members_.items():
                if "priors" not in member.get_params(deep=False):
                    self._shifts[name] = _shift_to(shares, p[name], rows)

    def _weigh(self, shares: Array | None) -> None:
        """Set the weights and the temperature, and add to the predictions out of fold those by all together."""
        held_out = self.out_of_fold_
        if held_out is None:
            self.weights_, self.temperature_ = dict.fromkeys(self.members_, 1 / len(self.members_)), 1.0
            return
        p = self._stack(held_out.p)
        weight = to_population(held_out.codes, held_out.weight, shares)
        weight = np.ones(len(held_out.codes)) if weight is None else weight
        weight = weight / held_out.folds.n_repeats
        held_out.p[COMMITTEE] = mix_unseen(p, held_out.codes, weight, held_out.rows, held_out.fold)
        mixture = fit_mixture(p, held_out.codes, weight)
        self.weights_ = dict(zip(self.members_, mixture.weights.tolist(), strict=True))
        self.temperature_ = mixture.temperature

    # -- predicting ------------------------------------------------------------------------------------------

    def _probabilities(self, X: Array) -> Array:
        mixed = self._mix({name: each.predict_proba(X) for name, each in self.members_.items()})
        return shifted(mixed, self.prior_shift_) if hasattr(self, "prior_shift_") else mixed

    def _mix(self, p: Mapping[str, Array]) -> Array:
        weights = np.array([self.weights_[name] for name in self.members_])
        return Mixture(weights, self.temperature_)(self._stack(p))

    def _stack(self, p: Mapping[str, Array]) -> Array:
        """Return the members' probabilities, (k, n, c), adjusted to known shares."""
        return np.stack(
            [shifted(p[name], self._shifts[name]) if name in self._shifts else p[name] for name in self.members_]
        )

    # -- saving ----------------------------------------------------------------------------------------------

    def _saved_settings(self) -> dict[str, Any]:
        """Leave the settings of members that were given as estimators to the fitted ones."""
        members = self.members.values() if isinstance(self.members, Mapping) else self.members or ()
        named = all(isinstance(member, str) for member in members)
        return super()._saved_settings() | ({} if named else {"members": GIVEN})

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state = {"weights_": self.weights_, "temperature_": self.temperature_, "failures_": self.failures_}
        sections: list[dict[str, Any]] = []
        arrays: dict[str, Any] = {}
        for i, (name, member) in enumerate(self.members_.items()):
            section, own = take_apart(member)
            if any(needs_code(value) for value in section["settings"].values()):
                raise ModelFileError(f"Committee: the member {name!r} has an encoder of your own and cannot be saved.")
            sections.append({"name": name, **section})
            arrays |= {f"member{i}.{part}": array for part, array in own.items()}
        if self._shifts:
            arrays["shifts"] = np.stack(
                [self._shifts.get(name, np.zeros(len(self.classes_))) for name in self.members_]
            )
        if hasattr(self, "prior_shift_"):
            arrays["prior_shift_"] = self.prior_shift_
        student = None
        if self.student_ is not None:
            student, own = take_apart(self.student_)
            arrays |= {f"student.{part}": array for part, array in own.items()}
        return {**state, "sections": sections, "student": student}, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        c = len(self.classes_)
        self.members_, self.out_of_fold_ = {}, None
        for i, section in enumerate(state["sections"]):
            name = section["name"]
            self.members_[name] = self._restore_part(f"the member {name!r}", section, arrays, f"member{i}.")
        student = state["student"]
        self.student_ = None if student is None else self._restore_part("the student", student, arrays, "student.")
        if self.student_ is not None and type(self.student_) is not Student:
            raise ModelFileError("the student is another model. Save the model again.")
        self.weights_, self.temperature_ = state["weights_"], float(state["temperature_"])
        self.failures_ = state["failures_"]
        if list(self.weights_) != list(self.members_) or not 0 < self.temperature_ < np.inf:
            raise ModelFileError("weights and members do not fit together. Save the model again.")
        self._shifts = {}
        if "shifts" in arrays:
            shifts = checked_array(arrays, "shifts", (len(self.members_), c), "f")
            self._shifts = {name: shift for name, shift in zip(self.members_, shifts, strict=True) if shift.any()}
        if "prior_shift_" in arrays:
            self.prior_shift_ = checked_array(arrays, "prior_shift_", (c,), "f")
        if self.members == GIVEN:
            self.members = {name: clone(member) for name, member in self.members_.items()}

    def _restore_part(self, what: str, section: Mapping[str, Any], arrays: Mapping[str, Any], prefix: str) -> Any:
        """Return the member or student whose arrays have this prefix."""
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        part = put_together(section, own, others=(Student,))
        if not np.array_equal(part.classes_, self.classes_) or part.n_features_in_ != self.n_features_in_:
            raise ModelFileError(f"{what} has other classes or columns. Save the model again.")
        return part


def _by_name(members: Iterable[Any]) -> dict[str, Any]:
    """Return a list of members with a name for each: the method's, or that of the class."""
    named: dict[str, Any] = {}
    for member in members:
        name = member if isinstance(member, str) else getattr(member, "method_name", "") or type(member).__name__
        while name in named:
            name += "-again"
        named[name] = member
    return named


def _adopt(member: Any, seed: int, priors: Mapping[Any, float] | None) -> None:
    """Give a member the committee's seed and the known shares, where it has such settings and no own value."""
    own = member.get_params(deep=False)
    wanted = {"random_state": seed, "priors": priors}
    member.set_params(**{name: value for name, value in wanted.items() if own.get(name, 0) is None})


def _takes_weights(member: Any) -> bool:
    return bool(has_fit_parameter(member, "sample_weight"))


def _fit_or_fail(member: Any, X: Array, y: Array, weight: Array | None) -> Any:
    try:
        return fit_copy(member, X, y, weight, seed=0)
    except Exception as error:
        return error


def _reasons(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{name} ({why.rstrip('.')})" for name, why in failures.items()) + "."


def _shift_to(shares: Array, p: Array, rows: TrainingRows) -> Array:
    """Return the logs of the factors with which the mean of the probabilities of all unlabelled rows is the shares."""
    pool, labelled = rows.unlabelled, rows.labelled
    log_p = np.log(np.maximum(p[pool], 1e-30))
    return prior_shift(shares, log_p, rows.weight[pool], rows.codes[labelled], rows.weight[labelled])
