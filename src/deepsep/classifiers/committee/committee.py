"""Several methods that predict together, weighted and calibrated by their predictions of held-out labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from deepsep.classifiers.base import WithPriors, shift_to_shares
from deepsep.classifiers.building import method
from deepsep.classifiers.committee.fits import CommitteePlan, deal, fit_everything, needs_unlabeled, twin_of
from deepsep.classifiers.committee.members import COMMITTEE, USUAL_MEMBERS, adopt, unfitted_members
from deepsep.classifiers.committee.saved_committee import committee_to_parts, restore_committee, saved_members
from deepsep.classifiers.committee.student import Student
from deepsep.classifiers.declared_settings import integer, settings
from deepsep.core.arrays import Array
from deepsep.core.checks import private_generator
from deepsep.core.label_origins import LabelOrigins, contradict_shares, read_origins
from deepsep.core.labels import Labels
from deepsep.core.probability import shifted
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import DeepSepWarning, InterruptWarning, LabelError, LabelWarning, Setting, warn
from deepsep.evaluation.conformal import ConformalSets, conformal_sets
from deepsep.evaluation.expected_accuracy import (
    Evidence,
    UnseenClasses,
    expected_accuracy,
    jackknife_error,
    unseen_classes,
)
from deepsep.evaluation.folds import Folds
from deepsep.evaluation.learning_curve import LearningCurve, fit_subsets, learning_curve
from deepsep.evaluation.out_of_fold import OutOfFold
from deepsep.evaluation.pooling import HeldOutLabels, Mixture, fit_pool


@settings
class Committee(WithPriors):
    r"""Several methods that predict together.

    No method is best on every table. The labelled rows are dealt into folds, and each member predicts the rows of a
    fold after a fit to all others, labelled and unlabelled. These predictions decide the members' weights and a
    temperature: those with which the geometric mean of their probabilities has the lowest log loss. Both are shrunk
    towards values that were best on other tables, so a few labels have little influence. All members are then fitted to
    all rows. In the folds, where few rows are predicted, some are smaller: forests have 200 trees, DeepSep learns from
    750 unlabelled rows, and in-context networks have two members.

    The out-of-fold predictions also give the accuracy to expect: ``expected_accuracy_``. Only labels that were drawn at
    random, or to fill quotas, are evidence of it; ``labels_drawn`` of :meth:`fit` names them. Labels that fill quotas
    do not have the shares of the population, so they are weighted to ``priors`` or, without them, to the shares that
    the committee estimates among the unlabelled rows.

    Parameters
    ----------
    members : list or dict, optional
        Names of methods, estimators, or a dict of name to either. None: forests (random forest and extra trees),
        DeepSep and LightGBM with settings for few labels; unless the effort is "fast", the in-context network in its
        two views as well.
    effort : {"fast", "normal", "best"}, default="normal"
        Amount of computation: "fast" has three folds and no in-context network, "normal" has five folds, and "best"
        ten, repeated three times if labels are few.
    priors : dict {class: share}, optional
        Class shares in the population of which the unlabelled rows are a sample. They are passed to members with this
        setting, and correct the probabilities of the others and the weights.
    twins : bool, default=False
        Whether to also fit each member that learns from unlabelled rows to the labelled ones alone, in the same folds,
        to measure the value of the unlabelled rows. ``out_of_fold_`` has the predictions of these twins, and of the
        committee with them.
    student : bool, default=True
        Whether to train one network on the probabilities of the unlabelled rows if there are at least 100:
        ``student_``, which predicts millions of rows fast. It takes a second or two, and changes nothing else.
    learning_curve : bool, default=False
        Whether to also fit small forests to parts of the labels, in the same folds, to estimate the gain of more
        labels: ``learning_curve_``. It takes about as long as three or four fits of one forest.
    n_jobs : int, optional
        Number of fits at the same time; None: one for each core.
    random_state : int, RandomState or None, default=None
        The same seed gives the same bits for any ``n_jobs``.

    Attributes
    ----------
    members_ : dict of str to estimator
        The members, fitted to all rows.
    failures_ : dict of str to str
        Reason why each failed member was left out.
    weights_ : dict of str to float
        Weight of each member.
    temperature_ : float
        The geometric mean p becomes p^(1/T), normalised: less confident above one, more confident
        below.
    shares_ : array (c,) or None
        Shares of the classes in the population: ``priors``, or the mean probabilities of the unlabelled rows.
    expected_accuracy_ : ExpectedAccuracy or None
        Share of the unlabelled rows that should be right, as ``value``, ``low`` and ``high``, a 90 % interval. It holds
        for labels drawn at random and, with ``priors``, for quotas. None without ``out_of_fold_``, and if all labels
        were chosen.
    label_origins_ : LabelOrigins
        Origin of every label, given or guessed; ``basis`` is that of the labels behind the accuracy.
    learning_curve_ : LearningCurve or None
        Gain of more labels: ``learning_curve_.gain(50)`` has ``value``, ``low`` and ``high``. None unless
        ``learning_curve`` is set, and without ``expected_accuracy_``.
    out_of_fold_ : OutOfFold
        Probabilities of the labelled rows by each member and, as "committee", by all together, with weights and a
        temperature from other rows. None if too few labels can be held out; the weights are then the usual ones.
    student_ : Student or None
        Network with nearly the same predictions, much faster, by its own ``predict`` and ``predict_proba``.
    student_agreement_ : float or None
        Share of held-out unlabelled rows for which the student predicts the committee's class;
        ``student_.accuracy_loss_`` is the cost of the differences.

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
    twins: bool = False
    student: bool = True
    learning_curve: bool = False
    n_jobs: int | None = integer(None, 1, or_none=True)
    random_state: Any = None

    # -- fitting ---------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, labels_drawn: Any = None) -> Self:
        """Fit to partly labelled rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Numbers without NaN or infinity; :func:`deepsep.for_table` handles gaps, categories, dates and text.
        y : array-like of shape (n,)
            Labels (strings, integers or booleans); unlabelled rows are marked None, NaN, pd.NA, or -1 among
            integers.
        sample_weight : array-like of shape (n,), optional
            Weight of each row: k counts as k copies of the row, 0 as its absence.
        labels_drawn : {"random", "quota", "chosen"} or array-like of shape (n,), optional
            Origin of the labels, one word for all or one for each row: drawn at random from all rows, to fill a quota
            of each class, or chosen for another reason, such as being hard. Accuracies and weights rest on random
            labels or, if there are none, on quotas; chosen ones only train the members. By default, labels spread
            evenly over the classes count as quotas, and others as random.

        Returns
        -------
        self
        """
        return self.fit_rows(self.training_rows(X, y, sample_weight, labels_drawn))

    def _check_parameters(self) -> None:
        unfitted_members(self)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        shares, seed = self._shares(), _draw_seed(rng)
        self.label_origins_ = rows.labels_drawn or read_origins(None, rows.labels, known_shares=shares is not None)
        self.unseen_ = classes_without_label(self.label_origins_, rows, shares)
        warn_of_origins(self.label_origins_, rows, shares)
        members = unfitted_members(self)
        for member in members.values():
            adopt(member, seed, self.priors)
        self._fit_everything(members, rows, seed)
        distributions = {name: each.label_distributions_ for name, each in self.members_.items()}
        self.member_shifts_ = {}  # of members without a setting for known shares
        if shares is not None:
            for name, member in self.members_.items():
                if "priors" not in member.get_params(deep=False):
                    self.member_shifts_[name] = shift_to_shares(shares, distributions[name], rows)
        without_folds = self._weigh(distributions, rows)
        mixed = self._mix(distributions)
        mixed = self._shift_to_priors(mixed, rows)
        self._shift_held_out()
        self._expect(mixed, distributions, without_folds, rows)
        self.learning_curve_ = self._draw_curve(rows) if self.learning_curve else None
        self.student_ = Student.of(self, rows, mixed, rng) if self.student else None
        return mixed

    @property
    def student_agreement_(self) -> float | None:
        """Share of held-out unlabelled rows for which the student predicts the committee's class."""
        return None if self.student_ is None else self.student_.agreement_

    @staticmethod
    def seed_of_folds(random_state: Any) -> int:
        """Return the seed with which a committee of this ``random_state`` deals its folds."""
        return _draw_seed(private_generator(random_state))

    def plan(self, n_rows: int, y: Labels, folds: Folds | None = None) -> CommitteePlan:
        """Return the members, folds and cost of a fit to this number of rows with these labels.

        ``folds`` are those of the fit's context, which replace the committee's own.
        """
        self._check_settings()
        folds = folds or deal(y, self.effort, seed=0)
        n_folds = 0 if folds is None else len(folds.tests)
        return CommitteePlan.of(unfitted_members(self), self.members is None, self.twins, n_rows, y, n_folds)

    @property
    def _jobs(self) -> int:
        return int(self.n_jobs or os.cpu_count() or 1)

    def _fit_everything(self, members: Mapping[str, Any], rows: TrainingRows, seed: int) -> None:
        """Set ``members_``, ``failures_`` and ``out_of_fold_``."""
        weight, context = rows.weight if rows.weighted else None, rows.context
        stratified = self.label_origins_.stratified
        folds = context.folds or deal(rows.labels, self.effort, seed=seed, weight=weight, stratified=stratified)
        twins = self.twins and bool(rows.unlabeled.size)
        fits = fit_everything(members, rows, folds, twins=twins, n_jobs=self._jobs)
        if fits.interrupted and context.is_part:
            raise KeyboardInterrupt
        self.members_, self.failures_, self.out_of_fold_ = fits.members, fits.failures, fits.held_out
        if not self.members_:
            raise LabelError(f"Committee: no member could be fitted. {_reasons(self.failures_)}")
        if self.failures_:
            warn(f"left out of the committee: {_reasons(self.failures_)}", DeepSepWarning)
        if folds is None:
            warn(
                "too few labels to hold any out: the members have their usual weights, and nothing is known of the "
                "accuracy. Label at least two rows of two classes.",
                LabelWarning,
            )
        elif fits.interrupted:
            self._warn_of_interruption(len(folds.tests))

    def _warn_of_interruption(self, n_folds: int) -> None:
        held_out = self.out_of_fold_
        warn(
            "interrupted: all members are fitted, but no fold was complete. They have their usual weights, and nothing "
            "is known of the accuracy."
            if held_out is None
            else "interrupted: all members are fitted, but their weights and the accuracy rest on "
            f"{len(held_out.folds.tests)} of {n_folds} folds: {len(held_out.rows)} predictions of held-out labels.",
            InterruptWarning,
        )

    def _usual_weights(self, names: Collection[str]) -> Array:
        """Return the weights of some members without evidence."""
        seats = {seat.name: seat.weight for seat in USUAL_MEMBERS} if self.members is None else {}
        weights = np.array([seats.get(name, 1.0) for name in names])
        return np.asarray(weights / weights.sum()) if weights.any() else np.full(len(weights), 1 / len(weights))

    def _weigh(self, p: Mapping[str, Array], rows: TrainingRows) -> list[Mixture]:
        """Set weights, temperature and shares, and add the out-of-fold predictions of the committee.

        Return the mixtures without each fold.
        """
        usual, held_out, mixtures = self._usual_weights(self.members_), self.out_of_fold_, []
        self._set_mixture(Mixture(usual))
        self.shares_ = self._shares()
        if held_out is not None:
            unseen, labels = self._stack(held_out.p), self._held_out_labels(held_out)
            held_out.p.update(zip(self.members_, unseen, strict=True))
            held_out.p[COMMITTEE] = Mixture(usual)(unseen)
            if labels.fair.any():
                pool = fit_pool(
                    unseen, labels, usual=usual, shares=self.shares_, estimate_shares=self._share_estimator(p, rows)
                )
                self._set_mixture(pool.mixture)
                self.shares_, mixtures = pool.shares, pool.without_folds
                held_out.p[COMMITTEE] = pool.held_out
                self._weigh_twins(held_out, labels, pool.shares)
        if self.shares_ is None:
            self.shares_ = _mean(self._mix(p), rows)
        return mixtures

    def _share_estimator(self, p: Mapping[str, Array], rows: TrainingRows) -> Callable[[Mixture], Array | None] | None:
        """Return a function from a mixture to the shares of the population; None if the labels have these shares."""
        if self.label_origins_.basis != "quota":
            return None
        everyone = self._stack(p)
        return lambda mixture: _mean(mixture(everyone), rows)

    def _held_out_labels(self, held_out: OutOfFold) -> HeldOutLabels:
        """Return the held-out labels, and whether each is fair."""
        weight = np.ones(len(held_out.rows)) if held_out.weight is None else held_out.weight
        fair = self.label_origins_.fair[held_out.rows]
        return HeldOutLabels(held_out.codes, held_out.rows, held_out.fold, weight, fair, held_out.folds.n_repeats)

    def _weigh_twins(self, held_out: OutOfFold, labels: HeldOutLabels, shares: Array | None) -> None:
        """Add the out-of-fold predictions of the committee of members that saw the labelled rows alone."""
        twins = {name: twin_of(name) for name, member in self.members_.items() if not needs_unlabeled(member)}
        fitted = any(twin in held_out.p for twin in twins.values())
        if fitted and not any(twin in held_out.failures for twin in twins.values()):
            alone = np.stack([held_out.p.get(twin, held_out.p[name]) for name, twin in twins.items()])
            usual = self._usual_weights(twins)
            held_out.p[twin_of(COMMITTEE)] = fit_pool(alone, labels, usual=usual, shares=shares).held_out

    def _set_mixture(self, mixture: Mixture) -> None:
        self.weights_ = dict(zip(self.members_, mixture.weights.tolist(), strict=True))
        self.temperature_ = mixture.temperature

    def _expect(
        self, mixed: Array, p: Mapping[str, Array], without_folds: Sequence[Mixture], rows: TrainingRows
    ) -> None:
        """Set the expected accuracy on the unlabelled rows."""
        evidence, pool = self.evidence_, rows.unlabeled
        self.expected_accuracy_ = None
        if evidence is not None and len(pool):
            some = pool[:: -(-len(pool) // 2_000)]  # enough for the spread of the mean confidence between folds
            by_member = self._stack({name: each[some] for name, each in p.items()})
            shift = getattr(self, "prior_shift_", np.zeros(len(self.classes_)))
            sure = [shifted(mixture(by_member), shift).max(axis=1) for mixture in without_folds]
            confidences = [float(np.average(each, weights=rows.weight[some])) for each in sure]
            self.expected_accuracy_ = expected_accuracy(
                mixed[pool],
                rows.weight[pool],
                evidence,
                confidence_error=jackknife_error(confidences, evidence.repeats),
            )

    def _draw_curve(self, rows: TrainingRows) -> LearningCurve | None:
        """Return the gain of more labels, from forests fitted to parts of them in the same folds."""
        held_out, weight, today = self.out_of_fold_, self.held_out_weight_, self.expected_accuracy_
        if held_out is None or weight is None or today is None:
            return None
        try:
            forest = method("random-forest", n_estimators=100)
            subsets = fit_subsets(forest, rows, held_out.folds, n_jobs=self._jobs)
        except KeyboardInterrupt:
            if rows.context.is_part:
                raise
            warn("interrupted: the committee is complete, but the gain of more labels is unknown.", InterruptWarning)
            return None
        return learning_curve(subsets, weight, len(rows.labeled), today, repeats=held_out.folds.n_repeats)

    def _shift_held_out(self) -> None:
        """Adjust the out-of-fold predictions to known shares in the same way as those of other rows."""
        if self.out_of_fold_ is not None:
            p = self.out_of_fold_.p
            p.update((name, self._shifted(p[name])) for name in (COMMITTEE, twin_of(COMMITTEE)) if name in p)

    # -- predicting ------------------------------------------------------------------------------------------

    @property
    def evidence_(self) -> Evidence | None:
        """The committee's predictions of held-out labels that are fair, weighted to be like the population.

        None without ``out_of_fold_``, and if no label that was held out is fair.
        """
        weight = self.held_out_weight_
        if self.out_of_fold_ is None or weight is None:
            return None
        at, held_out = weight > 0, self.out_of_fold_
        p, codes = held_out.p[COMMITTEE][at], held_out.codes[at]
        return Evidence(p, codes, weight[at], held_out.folds.n_repeats, self.unseen_)

    @property
    def held_out_weight_(self) -> Array | None:
        """The weights of all rows of ``out_of_fold_``, which make the fair ones like the population; others have 0."""
        if self.out_of_fold_ is None:
            return None
        labels = self._held_out_labels(self.out_of_fold_)
        return labels.weigh(self.population_shares_) if labels.fair.any() else None

    @property
    def population_shares_(self) -> Array | None:
        """The shares to which held-out labels are weighted; None if they have those of the population themselves."""
        return self.shares_ if self.priors is not None or self.label_origins_.basis == "quota" else None

    def predict_set(self, X: Any, coverage: float = 0.9, per_class: bool = False) -> Array:
        """Return a set of classes for each row that contains the right one with at least the probability ``coverage``.

        Confident predictions get one class, others several. The most probable class is always in the set, so if the
        committee is right more often than ``coverage``, so are the sets. The thresholds come from ``out_of_fold_``;
        they hold for labels drawn at random and, with ``priors``, for quotas.

        Parameters
        ----------
        X : matrix (n, d)
            The rows.
        coverage : float, default=0.9
            Between 0 and 1.
        per_class : bool, default=False
            Whether the coverage holds among the rows of each class, and not only among all. It needs at least 15 labels
            of each class.

        Returns
        -------
        array (n, c) of bool
            Whether each class is in the set of a row.
        """
        return self.conformal_sets(coverage, per_class)(self.predict_proba(X))

    def conformal_sets(self, coverage: float = 0.9, per_class: bool = False) -> ConformalSets:
        """Return the thresholds of :meth:`predict_set`, as a function of probabilities to sets."""
        check_is_fitted(self)
        evidence = self.evidence_
        if evidence is None:
            raise LabelError(
                "the model has no predictions out of fold of random or quota labels, which sets of classes are made "
                "from: there are too few of them, or the fit was interrupted. Label 50 rows drawn at random, and fit "
                "it again."
            )
        return conformal_sets(evidence, coverage, per_class=per_class, classes=self.classes_)

    def _probabilities(self, X: Array) -> Array:
        return self._shifted(self._mix({name: each.predict_proba(X) for name, each in self.members_.items()}))

    def _mix(self, p: Mapping[str, Array]) -> Array:
        weights = np.array([self.weights_[name] for name in self.members_])
        return Mixture(weights, self.temperature_)(self._stack(p))

    def _stack(self, p: Mapping[str, Array]) -> Array:
        """Return the members' probabilities, (k, n, c), adjusted to known shares."""
        return np.stack(
            [
                shifted(p[name], self.member_shifts_[name]) if name in self.member_shifts_ else p[name]
                for name in self.members_
            ]
        )

    # -- saving ----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder: short for ``deepsep.save(model, path)``.

        If an in-context network is a member, the folder contains rows of the training table, those of its ``context_``,
        with their labels, which it needs to predict. It also contains ``out_of_fold_``, without features.
        """
        super().save(path)

    def _saved_settings(self) -> dict[str, Any]:
        return super()._saved_settings() | {"members": saved_members(self.members)}

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return committee_to_parts(self)

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        restore_committee(self, state, arrays)


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))


def _reasons(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{name} ({why.rstrip('.')})" for name, why in failures.items()) + "."


def _mean(p: Array, rows: TrainingRows) -> Array | None:
    """Return the mean probabilities of the unlabelled rows, if there are any."""
    pool = rows.unlabeled
    return np.average(p[pool], axis=0, weights=rows.weight[pool]) if len(pool) else None


def warn_of_origins(origins: LabelOrigins, rows: TrainingRows, shares: Array | None) -> None:
    """Warn if the labels cannot tell the accuracy, or contradict known shares."""
    if origins.basis is None:
        warn(
            "no accuracy can be stated: it takes ten labels of two classes, drawn at random or for quotas; there "
            f"are {origins.counts[0]} random and {origins.counts[1]} quota labels. Label 50 rows drawn at "
            "random.",
            LabelWarning,
        )
    at = (origins.words == "random") & (rows.codes >= 0)
    if shares is not None and origins.given and at.any() and not rows.weighted:
        counts = np.bincount(rows.codes[at], minlength=len(shares))
        if contradict_shares(counts, shares):
            warn(
                "the labels are said to be drawn at random, but their classes have other shares than {priors}. One "
                "of the two is wrong.",
                LabelWarning,
                priors=Setting("priors"),
            )


def classes_without_label(origins: LabelOrigins, rows: TrainingRows, shares: Array | None) -> UnseenClasses:
    """Return the estimated share of classes without a label: none if shares are given or labels fill quotas."""
    fair = origins.fair & (rows.weight > 0)
    if shares is not None or origins.basis != "random" or not fair.any():
        return UnseenClasses()
    c, others = rows.n_classes, ~fair & (rows.codes >= 0)
    known = np.bincount(rows.codes[others], minlength=c) > 0
    return unseen_classes(np.bincount(rows.codes[fair], minlength=c), known)
