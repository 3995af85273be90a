"""Base of the transductive SVMs: one-vs-rest SVMs that also use unlabelled rows, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.metaestimators import available_if

from deepsep.classifiers.base import WithPriors, shift_of_logs
from deepsep.classifiers.declared_settings import integer, real, setting, settings
from deepsep.core.arrays import Array, checked_array, checked_pieces
from deepsep.core.label_origins import contradict_shares
from deepsep.core.probability import ScoreProbabilities, fit_platt
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ApproximationWarning, CollapseWarning, LabelWarning, ModelFileError, Setting, shown, warn
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, FoldFits
from deepsep.solvers.curvature import MAX_MATRIX_FEATURES
from deepsep.solvers.one_vs_rest import Boundaries, Costs, Path, SolverSettings, class_scores, separate
from deepsep.solvers.spaces import EXACT_ROWS, N_LANDMARKS, Kernel, Separator


@settings
class LowDensitySVM(WithPriors):
    """A boundary for each class against the rest, found with the help of unlabelled rows.

    Subclasses define in ``_path`` the solver of their objective, and name it in ``_ends``. Kernels, costs,
    probabilities, priors and saving are here.

    Parameters
    ----------
    C : float, default=0.1
        Cost of a labelled row on the wrong side of its margin.
    C_star : float, "pool" or None, default=None
        Cost of an unlabelled row inside the margin. None: (ℓ/u) C with u the unlabelled rows used in training, so that
        both kinds of rows weigh the same in total. "pool": (ℓ/u) C with u all unlabelled rows, also where
        ``n_unlabeled`` uses fewer. 0: only the labelled rows count (and the constraint, if ``balance=True``).
    kernel : "linear", "rbf" or callable, default="linear"
        A callable takes two arrays of rows and returns the matrix of inner products, which must be positive
        semi-definite. With a kernel, up to 4,000 training rows are solved exactly; beyond, a Nyström map on 1,000
        landmark rows takes its place, with an ``ApproximationWarning``, and ``space_`` says so.
    gamma : float, "scale" or "auto", default="scale"
        Of the RBF kernel exp(-gamma |x - z|²), as in scikit-learn's SVC.
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows. False: a free bias, which may leave all unlabelled rows
        on one side.
    priors : dict {class: share}, optional
        Class shares in the population, of which the unlabelled rows are a sample, if they are known to differ from
        those of the labelled rows. They sum to one. Probabilities and predictions are corrected for them, whether
        ``balance`` is on or off.
    n_unlabeled : int, optional
        Train on this many unlabelled rows, drawn at random. None: all of them. 250 is the paper's choice for speed,
        which is no longer needed.
    probability : {"platt", "cv", "softmax", "hard"} or None, default="platt"
        Conversion of scores into probabilities. "platt": a sigmoid fitted to the labelled training rows, normalised;
        cheap, but overconfident if those rows are few. "cv": the same sigmoid fitted to out-of-fold scores, which takes
        five more fits. "softmax": of the scores. "hard": 1 for the predicted class. None: no
        ``predict_proba``.
    random_state : int, RandomState or None, default=None
        Draws ``n_unlabeled`` rows, the landmarks of a Nyström map, and the folds of "cv". Nothing else is random.
    max_iter : int, default=1000
        Maximum number of passes over the rows in one convex problem.
    tol : float, default=1e-6
        Relative duality gap at which a convex problem counts as solved.

    Attributes
    ----------
    classes_ : array (c,)
        The labels, sorted. With two classes there is one problem, and ``classes_[1]`` is its positive side.
    coef_, intercept_ : arrays (c, m) and (c,), or (1, m) and (1,) for two classes
        The linear boundary (``coef_`` for the linear kernel only).
    termination_condition_ : str
        Reason why the solver stopped.
    algorithm_, space_ : str
        The solver, and the space in which the rows were separated ("features", "sparse features", "Gram", "Nyström").
    balanced_ : array (c,) of bool
        Whether each problem has the balancing constraint.
    C_star_ : float
        The cost of an unlabelled row of weight 1.
    gamma_ : float
        Gamma of the RBF kernel as a number, if it is used.
    n_labeled_, n_unlabeled_ : int
        Rows used in training.
    data_fingerprint_ : str
        A hash of the training set's shape, column names, labels and a sample of its values.
    """

    _proportions_matter = True  # features are not standardised
    _accept: ClassVar[dict[str, Any]] = {"accept_sparse": "csr"}
    _ends: ClassVar[Mapping[str, str]]  # why the solver stops, in words, by the name of the algorithm
    _gap: ClassVar[str] = "relative duality gap"
    _limit: ClassVar[str] = "max_iter"  # the setting that may end the search early

    C: float = real(0.1, above=0)
    C_star: float | Literal["pool"] | None = real(None, at_least=0, or_else=("pool", None))
    kernel: Literal["linear", "rbf"] | Callable[[Any, Any], Array] = setting(
        "linear", lambda kernel: callable(kernel) or kernel in ("linear", "rbf"), '"linear", "rbf" or a callable'
    )
    gamma: float | Literal["scale", "auto"] = real("scale", above=0, or_else=("scale", "auto"))
    balance: bool = True
    priors: Mapping[Any, float] | None = None
    n_unlabeled: int | None = integer(None, 1, or_none=True)
    probability: Literal["platt", "cv", "softmax", "hard"] | None = "platt"
    max_iter: int = integer(1000, 1)
    tol: float = real(1e-6, above=0, below=1)
    random_state: Any = None

    def _path(self, rng: np.random.Generator) -> Path | None:
        """Return the solver."""
        raise NotImplementedError

    @property
    def _solver_name(self) -> str:
        return next(iter(self._ends))

    # -- fitting ---------------------------------------------------------------------------------------------

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Array:
        drawn = draw_rows(rows.unlabeled, self.n_unlabeled, rng)
        self.n_labeled_, self.n_unlabeled_ = len(rows.labeled), len(drawn)
        self.C_star_ = unlabeled_cost(self.C, self.C_star, rows.weight, rows.labeled, rows.unlabeled, drawn)
        self._forget("gamma_", "platt_", "label_distributions_")
        X, weight = rows.X, rows.weight
        shares = self._shares()
        boundaries = separate(
            X[rows.labeled],
            rows.codes[rows.labeled],
            weight[rows.labeled],
            X[drawn],
            weight[drawn],
            rows.n_classes,
            Costs(self.C, self.C_star_, float(getattr(self, "s", 0.0)), bool(self.balance), shares),
            SolverSettings(self._solver_name, self.max_iter, self.tol, self._path(rng)),
            kernel=self._make_kernel(rows),
            rng=rng,
        )
        self._keep(boundaries)
        self._warn_of_shares(boundaries.supervised_shares, rows)
        self._fit_probabilities(rows, rng)
        scores = class_scores(self._separator, X)
        if shares is not None:
            log_p = self._to_probabilities.log_probabilities(scores[rows.unlabeled])
            self.prior_shift_ = shift_of_logs(shares, log_p, rows)
        return scores

    def _threads(self, rows: TrainingRows) -> AbstractContextManager[Any]:
        narrow = self.kernel == "linear" and min(rows.X.shape) <= MAX_MATRIX_FEATURES
        return one_blas_thread() if narrow else nullcontext()

    def _describe_training_rows(self, rows: TrainingRows, learned: Array | None) -> None:
        assert learned is not None  # the scores
        best = self._to_probabilities.ranking(learned).argmax(axis=1)
        self._set_transduction(np.where(rows.codes >= 0, rows.codes, best))
        if self.probability is not None:
            self.label_distributions_ = self._to_probabilities(learned)

    def _make_kernel(self, rows: TrainingRows) -> Kernel | None:
        if callable(self.kernel):
            return self.kernel
        if self.kernel == "linear":
            return None
        self.gamma_ = rbf_gamma(self.gamma, rows.X, rows.weight)
        return partial(rbf_kernel, gamma=self.gamma_)

    def _keep(self, boundaries: Boundaries) -> None:
        result, self._separator = boundaries.result, boundaries.separator
        self.space_, self.algorithm_, self.balanced_ = boundaries.space, boundaries.algorithm, boundaries.balanced
        self.intercept_ = self._separator.intercept
        self._forget("coef_", "dual_coef_", "support_vectors_")
        if self._separator.coef is not None:
            self.coef_ = self._separator.coef
        else:
            self.dual_coef_, self.support_vectors_ = self._separator.dual_coef, self._separator.support
        self.objective_path_ = [np.array(path) for path in result.objective_path]
        self.duality_gap_, self.n_iter_ = result.gap, result.n_iter
        gap = f"{self._gap} {result.gap.max():.1e}"
        end = self._ends.get(self.algorithm_, "optimum of the supervised SVM")
        self.termination_condition_ = f"{end} ({gap})"
        if not result.converged.all():
            limit = f"{self._limit}={getattr(self, self._limit)}"
            self.termination_condition_ = f"{limit} reached ({gap})"
            warn(
                f"{type(self).__name__} stopped at {limit} with a {gap}, above tol={self.tol:g}. Scale the features, "
                f"or raise {self._limit} or tol.",
                ConvergenceWarning,
            )
        self._warn_of(boundaries)

    def _warn_of(self, boundaries: Boundaries) -> None:
        if self.space_ == "Nyström":
            warn(
                f"{self.n_labeled_ + self.n_unlabeled_} training rows are more than the {EXACT_ROWS} for which the "
                f"kernel is exact: it is approximated from {N_LANDMARKS} landmark rows. Set n_unlabeled to train on "
                "fewer rows.",
                ApproximationWarning,
            )
        if boundaries.collapsed.size:
            lost = self.classes_[boundaries.collapsed if len(self.classes_) > 2 else [1]].tolist()
            warn(
                f"with balance=False, the boundary of class {', '.join(map(repr, lost))} left (nearly) all unlabelled "
                "rows on one side. It was found again with their mean score fixed to that of the supervised boundary, "
                "or to priors. Use balance=True, a smaller C_star, or pass priors.",
                CollapseWarning,
            )

    def _warn_of_shares(self, supervised: Array | None, rows: TrainingRows, max_apart: float = 0.2) -> None:
        """Warn if the balancing constraint imposes the shares of labels that fill quotas on the unlabelled rows.

        ``max_apart`` is a total variation between the shares of the labels and those of the supervised boundary.
        """
        if supervised is None:
            return
        at, c = rows.labeled, len(self.classes_)
        counts = np.bincount(rows.codes[at], minlength=c)
        shares = np.bincount(rows.codes[at], rows.weight[at], c) / rows.weight[at].sum()
        apart = np.abs(shares - supervised)
        if apart.sum() / 2 > max_apart and contradict_shares(counts, np.maximum(supervised, 1e-3)):
            k = int(apart.argmax())
            warn(
                f"class {shown(self.classes_[k])} has {shares[k]:.0%} of the labels and, by the labels "
                f"alone, {supervised[k]:.0%} of the unlabelled rows; {{balance}} gives it the share of the labels. If "
                "they fill quotas, use {cure}, or pass {priors}.",
                LabelWarning,
                balance=Setting("balance", True),
                cure=Setting("balance", False),
                priors=Setting("priors"),
            )

    # -- probabilities ---------------------------------------------------------------------------------------

    def _fit_probabilities(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        self._fitted_probability = self.probability
        if self.probability not in ("platt", "cv") and (self.priors is None or self.probability == "softmax"):
            return
        folds = min(5, int(np.bincount(rows.codes[rows.labeled]).min()))
        if self.probability == "cv" and folds < 2:
            warn(
                'probability="cv" needs two labelled rows of every class: fell back to "platt" on the training rows.',
                LabelWarning,
            )
        if self.probability == "cv" and folds >= 2:
            seed = int(rng.integers(2**31))
            copy = clone(self).set_params(probability=None, random_state=seed)
            dealt = deal_folds(rows.labels, n_splits=folds, seed=seed, weight=rows.weight)
            copies, ask = {"copy": Candidate(copy)}, _scores_of
            held_out = FoldFits(copies, rows.X, rows.labels, dealt, rows.weight, ask=ask, checked=True).fit()
            at, scores = held_out.rows, held_out.probabilities
        else:
            at, scores = rows.labeled, class_scores(self._separator, rows.X[rows.labeled])
        self.platt_ = fit_platt(scores, rows.codes[at], rows.weight[at])

    @property
    def _to_probabilities(self) -> ScoreProbabilities:
        kind: Any = "platt" if self._fitted_probability in ("cv", None) else self._fitted_probability
        return ScoreProbabilities(kind, getattr(self, "platt_", None), getattr(self, "prior_shift_", None))

    # -- predicting ------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """Return f of every row: (n, c), or (n,) for two classes, where positive means ``classes_[1]``.

        With ``priors`` and two classes, 0 is where both are equally likely. With more, these are the scores before the
        correction, and ``predict`` need not follow them.
        """
        rows = self._read(X)
        scores = self._separator.scores(rows)
        return scores.ravel() - self._to_probabilities.threshold() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Return the class with the highest score for every row; with ``priors``, the most probable one."""
        rows = self._read(X)
        scores = class_scores(self._separator, rows)
        return np.asarray(self.classes_[self._to_probabilities.ranking(scores).argmax(axis=1)])

    @available_if(lambda self: getattr(self, "_fitted_probability", self.probability) is not None)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for every row, (n, c), columns as in ``classes_``."""
        return super().predict_proba(X)

    def _probabilities(self, X: Any) -> Array:
        return self._to_probabilities(class_scores(self._separator, X))

    # -- saving ----------------------------------------------------------------------------------------------

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        values = (
            *("C_star_", "gamma_", "platt_", "n_labeled_", "n_unlabeled_", "n_iter_"),
            *("algorithm_", "space_", "termination_condition_"),
        )
        fitted = ("coef_", "intercept_", "dual_coef_", "support_vectors_", "duality_gap_", "balanced_")
        state = {name: vars(self)[name] for name in values if name in vars(self)}
        arrays = {name: vars(self)[name] for name in fitted if name in vars(self)}
        if "coef_" not in arrays and "gamma_" not in state:
            raise ModelFileError(
                f"{type(self).__name__}: the model was fitted with your own kernel, and a saved model holds no code. "
                'Fit with "rbf" or "linear".'
            )
        state["fitted_probability"] = self._fitted_probability
        arrays["objective_path_"] = np.concatenate(self.objective_path_)
        arrays["objective_steps"] = np.array([len(path) for path in self.objective_path_])
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._fitted_probability = state.pop("fitted_probability")
        self.__dict__.update(state)
        c, m = len(self.classes_), self.n_features_in_
        problems = c if c > 2 else 1
        self.intercept_ = checked_array(arrays, "intercept_", (problems,), "f")
        if "coef_" in arrays:
            self.coef_ = checked_array(arrays, "coef_", (problems, m), "f")
            self._separator = Separator(self.intercept_, coef=self.coef_)
        else:
            self.support_vectors_ = checked_array(arrays, "support_vectors_", (None, m), "f")
            self.dual_coef_ = checked_array(arrays, "dual_coef_", (problems, self.support_vectors_.shape[0]), "f")
            kernel = partial(rbf_kernel, gamma=float(self.gamma_))
            self._separator = Separator(
                self.intercept_, support=self.support_vectors_, dual_coef=self.dual_coef_, kernel=kernel
            )
        self.duality_gap_ = checked_array(arrays, "duality_gap_", (problems,), "f")
        self.balanced_ = checked_array(arrays, "balanced_", (problems,), "b")
        self.objective_path_ = checked_pieces(arrays, "objective_path_", "objective_steps", problems)

    def _check_restored(self) -> None:
        if self._fitted_probability is not None:
            super()._check_restored()


def draw_rows(pool: Array, n: int | None, rng: np.random.Generator) -> Array:
    """Return n of the rows, drawn at random and in order; all of them if n is None or larger."""
    return pool if n is None or n >= len(pool) else np.sort(rng.choice(pool, n, replace=False))


def unlabeled_cost(
    C: float, C_star: float | str | None, weight: Array, labeled: Array, unlabeled: Array, drawn: Array
) -> float:
    """Return C*, the cost of an unlabelled row of weight 1, where ``drawn`` of the unlabelled rows are used."""
    if not len(drawn):
        return 0.0
    if C_star is None or C_star == "pool":
        used = unlabeled if C_star == "pool" else drawn
        return float(C * weight[labeled].sum() / weight[used].sum())
    return float(C_star)


def _scores_of(model: LowDensitySVM, X: Any) -> Array:
    return class_scores(model._separator, X)


def rbf_gamma(gamma: float | str, X: Any, weight: Array) -> float:
    """Return gamma of the RBF kernel as a number: "auto" and "scale" as in scikit-learn, rows counted by weight."""
    if gamma == "auto":
        return float(1 / X.shape[1])
    if gamma == "scale":  # the variance of all entries, rows counted by weight
        entries = weight.sum() * X.shape[1]
        mean = (weight @ np.asarray(X.sum(axis=1)).ravel()) / entries
        if sparse.issparse(X):
            variance = (weight @ np.asarray(X.multiply(X).sum(axis=1)).ravel()) / entries - mean**2
        else:
            variance = (weight @ np.square(X - mean).sum(axis=1)) / entries
        return float(1 / (X.shape[1] * variance)) if variance > 0 else 1.0
    return float(gamma)
