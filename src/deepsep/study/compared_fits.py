"""The fits of a comparison: the committee once, with members that are compared, too; other methods in every fold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.committee.fits import candidates_for, seconds_in_fold, smaller, twin_of
from deepsep.classifiers.committee.members import COMMITTEE, unfitted_members
from deepsep.core.arrays import Array
from deepsep.core.labels import Labels
from deepsep.core.probability import prior_shift, shifted
from deepsep.core.training_rows import Context
from deepsep.errors import DeepSepWarning
from deepsep.evaluation.folds import Folds
from deepsep.evaluation.frames import take
from deepsep.evaluation.out_of_fold import Candidate, Fold, FoldFits
from deepsep.evaluation.population import RawProbabilities, held_out_weights, tempered

OnWork = Callable[[float, float, str], object]


@dataclass
class ComparedFits:
    """The fits of a comparison, on the same folds.

    The committee is fitted once. Its out-of-fold predictions are compared, with weights that do not depend on a row's
    own label. Methods that are among its members are not fitted again.

    A method that calibrates itself is fitted without calibration, and calibrated by the other folds, as in a report.
    With known shares it calibrates itself, since it adjusts the calibrated probabilities to them.
    """

    estimators: Mapping[str, Any]  # the methods
    X: Any  # the rows, encoded
    labels: Labels  # their labels
    folds: Folds  # of these rows
    given_weight: Array | None  # (n,), weights of the rows
    # (c,), known shares of the classes. The probabilities of methods without a setting for them are adjusted to them.
    shares: Array | None
    labels_drawn: Array  # (n,), the origin of each label; see :meth:`deepsep.Committee.fit`
    n_jobs: int  # fits at the same time
    # (m, c), predictions of the rows held out, by method, and by the committee's twin without unlabelled rows
    p: dict[str, Array] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # of one fit; for the committee, of all its fits
    failures: dict[str, str] = field(default_factory=dict)  # reason why a method was left out

    def __post_init__(self) -> None:
        rows = np.concatenate(self.folds.tests)
        self.codes = self.labels.codes[rows]
        self.fold = np.repeat(np.arange(len(self.folds.tests)), [len(test) for test in self.folds.tests])
        given = None if self.given_weight is None else self.given_weight[rows]
        self.weight, self.weighted, self.by_shares = held_out_weights(self.codes, given, self.shares)
        if given is not None:
            unweighted = [
                name for name, each in self.estimators.items() if not has_fit_parameter(each, "sample_weight")
            ]
            self.failures |= dict.fromkeys(unweighted, "it does not support weights.")

    # -- the methods -----------------------------------------------------------------------------------------

    @cached_property
    def committee(self) -> Any:
        """The committee, which is fitted in the folds of the comparison; None if it takes no part."""
        if COMMITTEE not in self.estimators:
            return None
        settings = {"twins": bool((self.labels.codes < 0).any()), "student": False, "n_jobs": self.n_jobs}
        return clone(self.estimators[COMMITTEE]).set_params(**settings)

    @cached_property
    def served(self) -> list[str]:
        """The methods that the committee fits in its folds with the same settings: not where it makes them smaller."""
        if self.committee is None:
            return []
        members = candidates_for(unfitted_members(self.committee))
        in_folds = smaller(members)
        return [
            name
            for name, member in members.items()
            if name in self.estimators and in_folds[name] is member and self._is_same(name, member.estimator)
        ]

    @cached_property
    def candidates(self) -> dict[str, Candidate]:
        """The methods that are fitted by themselves."""
        elsewhere = (COMMITTEE, *self.served, *self.failures)
        return candidates_for({name: self._for_folds(name) for name in self.estimators if name not in elsewhere})

    @property
    def cost(self) -> tuple[int, float]:
        """Number of fits, and approximate number of seconds that they take on one core."""
        n_folds, alone = len(self.folds.tests), self._seconds_in_fold(self.candidates)
        n_fits, seconds = n_folds * len(alone), n_folds * sum(alone.values())
        if self.committee is not None:
            plan = self.committee.plan(len(self.labels.codes), self.labels, self.folds)
            n_fits, seconds = n_fits + plan.n_fits, seconds + plan.seconds
        return n_fits, seconds

    def _is_same(self, name: str, member: Any) -> bool:
        """Return whether a method is fitted as a member of the committee is, which takes its seed and shares."""
        mine, other = self._for_folds(name).get_params(), member.get_params()
        for given in ("random_state", "priors"):
            if mine.pop(given, None) == getattr(self.estimators[COMMITTEE], given):
                other.pop(given, None)
        return repr(mine) == repr(other)

    def _for_folds(self, name: str) -> Any:
        """Return a copy of a method for the folds."""
        return clone(self.estimators[name]).set_params(**({"calibrate": False} if self._tempers(name) else {}))

    def _tempers(self, name: str) -> bool:
        return self.shares is None and bool(getattr(self.estimators.get(name), "calibrate", False))

    def _seconds_in_fold(self, candidates: Mapping[str, Candidate]) -> dict[str, float]:
        n_labeled = int(self.labels.labeled.sum())
        return seconds_in_fold(candidates, n_labeled, len(self.labels.codes) - n_labeled)

    # -- the fits --------------------------------------------------------------------------------------------

    def run(self, on_work: OnWork | None = None) -> None:
        """Fit everything; ``on_work`` is called with (seconds of work done, total seconds, current work)."""
        _, total = self.cost
        done = total - len(self.folds.tests) * sum(self._seconds_in_fold(self.candidates).values())
        if self.committee is not None:
            self._fit_committee(None if on_work is None else lambda now, _, what: on_work(now, total, what))
        if self.candidates:
            self._fit(self.candidates, f"{len(self.candidates)} methods", done, total, on_work)

    def without_unlabeled(self, name: str, on_work: OnWork | None = None) -> Array | None:
        """Return the predictions of a method that saw labelled rows only; of DeepSep, those of its initial network."""
        if name == COMMITTEE:
            return self.p.get(twin_of(COMMITTEE))
        changes = {"rounds": 0} if name == "deepsep" else {}
        alone = {twin_of(name): Candidate(self._for_folds(name).set_params(**changes), labeled_only=True)}
        _, total = self.cost
        self._fit(alone, f"{name} without the unlabelled rows", total, total, on_work)
        return self.p.get(twin_of(name))

    def by_repeat(self, values: Array) -> list[Array]:
        """Return values of the rows held out as one array per repeat."""
        return np.split(values, self.folds.n_repeats)

    def _fit_committee(self, on_work: OnWork | None) -> None:
        committee, n = self.committee, len(self.labels.codes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)  # members that fail are among the failures
            try:
                rows = committee.training_rows(self.X, self.labels, self.given_weight, self.labels_drawn)
                committee.fit_rows(rows, Context(on_work=on_work, folds=self.folds, is_part=True))
            except ValueError as error:
                self.failures |= dict.fromkeys([COMMITTEE, *self.served], str(error))
                return
        held_out, estimated = committee.out_of_fold_, committee.population_shares_
        if self.shares is None and estimated is not None:  # labels for quotas, weighted as in a fit
            given = None if self.given_weight is None else self.given_weight[np.concatenate(self.folds.tests)]
            self.weight, self.weighted, self.by_shares = held_out_weights(self.codes, given, estimated)
        for name, why in committee.failures_.items():
            self.failures[name if name in self.served else f"{name}, a member of the committee,"] = why
        for name in (COMMITTEE, twin_of(COMMITTEE), *self.served):
            if name in held_out.p:
                self.p[name] = self._calibrated(name, held_out.p[name])
                self.seconds[name] = held_out.seconds.get(name, 0.0)
        n_folds = clone(self.estimators[COMMITTEE]).plan(n, self.labels).n_folds
        self.seconds[COMMITTEE] = (n_folds + 1) * sum(held_out.seconds[name] for name in committee.members_)

    def _fit(
        self, candidates: Mapping[str, Candidate], what: str, done: float, total: float, on_work: OnWork | None
    ) -> None:
        seconds = sum(self._seconds_in_fold(candidates).values())

        def on_fold(number: int) -> None:
            if on_work is not None:
                on_work(min(done + number * seconds, total), total, what)

        look = None if self.shares is None else partial(_shift, self.shares)
        given = candidates, self.X, self.labels, self.folds, self.given_weight
        fits = FoldFits(*given, after_fit=look, kept_failures=(ValueError,)).fit(self.n_jobs, on_fold)
        for name, p in fits.p.items():
            shifts = [extra[name] for extra in fits.extras] if self.shares is not None else []
            for number, shift in enumerate(shifts):
                if shift is not None:
                    p[fits.fold == number] = shifted(p[fits.fold == number], shift)
            self.p[name] = self._calibrated(name, p)
        self.seconds |= fits.seconds
        self.failures |= fits.failures

    def _calibrated(self, name: str, p: Array) -> Array:
        """Return the probabilities of a method that is to be calibrated, by the other folds of each repeat."""
        if not self._tempers(name):
            return p
        weight = np.ones(len(p)) if self.weight is None else self.weight
        each = zip(*map(self.by_repeat, (p, self.codes, weight, self.fold)), strict=True)
        return np.concatenate(
            [
                tempered(q, codes, [RawProbabilities(q[fold == number]) for number in np.unique(fold)], w)
                for q, codes, w, fold in each
            ]
        )


def _shift(shares: Array, name: str, fitted: Any, fold: Fold) -> Array | None:
    """Return the logs of the factors that adjust a method to known shares, if it has no setting for them."""
    if "priors" in fitted.get_params(deep=False):
        return None
    known, weight = fold.codes >= 0, np.ones(len(fold.codes)) if fold.weight is None else fold.weight
    pool = np.flatnonzero(~known)
    log_p = np.log(np.maximum(fitted.predict_proba(take(fold.X, pool)), 1e-30)) if len(pool) else np.empty((0, 0))
    return prior_shift(shares, log_p, weight[pool], fold.codes[known], weight[known])
