"""TSVM: one-vs-rest transductive support vector machines with a scikit-learn face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.metaestimators import available_if

from deepsep.classifiers.base import IN_MEMORY, Classifier, settings
from deepsep.core.arrays import checked_array
from deepsep.core.checks import check_priors, is_integer, is_number, require
from deepsep.core.labels import Labels
from deepsep.core.mapped_rows import MappedRows
from deepsep.core.notices import warn
from deepsep.core.probability import ScoreProbabilities, fit_platt, prior_shift
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ApproximationWarning, CollapseWarning, LabelWarning, ModelFileError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, fit_folds
from deepsep.solvers.curvature import WIDE
from deepsep.solvers.one_vs_rest import Boundaries, Costs, Effort, class_scores, separate
from deepsep.solvers.rows import Rows
from deepsep.solvers.spaces import EXACT_ROWS, LANDMARKS, Kernel, Separator

Array = NDArray[Any]

CV_FOLDS = 5
ENDS = {
    "cccp": "fixed point: the signs of the unlabelled rows stayed as they were",
    "single-loop": "fixed point: no convex step lowers the objective by more than the gap",
    "supervised": "optimum of the supervised SVM",
}
# What a saved model keeps of a fitted one, as plain values and as arrays.
SAVED_VALUES = (
    *("C_star_", "gamma_", "platt_", "n_labeled_", "n_unlabeled_", "n_iter_"),
    *("algorithm_", "space_", "termination_condition_"),
)
SAVED_ARRAYS = (
    *("coef_", "intercept_", "dual_coef_", "support_vectors_"),
    *("duality_gap_", "balanced_", "prior_shift_"),
)


@settings
class TSVM(Classifier):
    r"""Transductive support vector machine: a boundary through low density.

    Beside the labelled rows, it uses the unlabelled ones: of all boundaries that suit the labels, it prefers one
    that few rows lie close to. For each class against the rest it minimises

    .. math::

        J(w, b) = \tfrac12 \|w\|^2 + C \sum_{\text{labelled}} H(y_i f(x_i))
                  + C^* \sum_{\text{unlabelled}} \min\bigl(1 + s,\; H(|f(x_i)|)\bigr),

    with :math:`f(x) = w \cdot x + b` and the hinge :math:`H(z) = \max(0, 1 - z)` (equation (1) of the paper when
    s = 0). The last term is not convex: an unlabelled row pays for lying in the margin, on whichever side it is.
    With ``balance=True``, the mean of f over the unlabelled rows is fixed to :math:`r_k = 2\pi_k - 1`, where
    :math:`\pi_k` is the share of class k among the labelled rows or in ``priors``. This keeps a class from
    swallowing the others. It fixes the mean score, not the share of rows with a positive score: **predicted shares
    need not equal** :math:`\pi_k`. With ``priors``, probabilities are therefore corrected as well: those of class k are
    multiplied by a factor, and normalised, such that their mean over the unlabelled rows is :math:`\pi_k`; and the
    predicted class is the most probable one.

    Scale the features first (for example with ``StandardScaler``): like every SVM it depends on units.

    Parameters
    ----------
    C : float, default=0.1
        Cost of a labelled row on the wrong side of its margin.
    C_star : float, "pool" or None, default=None
        Cost of an unlabelled row inside the margin. None: (ℓ/u) C with u the unlabelled rows used in training, so that
        both kinds of rows weigh the same in total. "pool": (ℓ/u) C with u all unlabelled rows, also where
        ``n_unlabeled`` uses fewer. 0: only the labelled rows count (and the constraint, if ``balance=True``).
    s : float in (-1, 0], default=0.0
        Rows with ``|f| <= -s`` are undecided and cost a constant 1 + s.
    kernel : "linear", "rbf" or callable, default="linear"
        A callable takes two arrays of rows and returns the matrix of inner products, which must be positive
        semi-definite. With a kernel, up to 4,000 training rows are solved exactly; beyond, a Nyström map on 1,000
        landmark rows takes its place, with an ``ApproximationWarning``, and ``space_`` says so.
    gamma : float, "scale" or "auto", default="scale"
        Of the RBF kernel exp(-gamma |x - z|²), as in scikit-learn's SVC.
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows. False: a free bias; if a class collapses in the single
        loop (it gets less than a tenth of the unlabelled rows that the supervised boundaries give it), its problem is
        solved again with the mean score of the supervised boundary, or of ``priors``, and a ``CollapseWarning``.
        "cccp" is left as it is.
    priors : dict {class: share}, optional
        Class shares in the population, of which the unlabelled rows are a sample, where they are known to differ from
        those of the labelled rows. They sum to one. Probabilities and predictions are corrected for them, whether
        ``balance`` is on or off.
    n_unlabeled : int, optional
        Train on this many unlabelled rows, drawn at random. None: all of them. 250 is the paper's choice for speed,
        which is no longer needed.
    probability : {"platt", "cv", "softmax", "hard"} or None, default="platt"
        How scores become probabilities. "platt": a sigmoid fitted to the labelled training rows, normalised; cheap,
        but too sure of itself where those rows are few. "cv": the same sigmoid fitted to scores out of fold, for the
        price of five more fits. "softmax": of the scores. "hard": 1 for the predicted class. None: no
        ``predict_proba``.
    algorithm : {"auto", "single-loop", "cccp"}, default="auto"
        "cccp": Collobert's concave-convex procedure, a sequence of convex problems, each solved exactly.
        "single-loop": one augmented Lagrangian in which the signs of the unlabelled rows follow the boundary; several
        times faster. Both end where no exact convex step lowers J, but not always at the same such point.
        "auto" is "single-loop": on real tables it was as accurate. Where C is so large that nearly all labelled rows
        are separated, it moves further from the supervised start than "cccp" does, and may do worse.
    max_iter : int, default=1000
        Most passes over the rows in one convex problem or in the single loop, and most CCCP steps.
    tol : float, default=1e-6
        Relative duality gap at which a convex problem counts as solved. With up to 1,000 rows in double precision,
        where it costs next to nothing, the solver goes on towards rounding error.
    random_state : int, RandomState or None, default=None
        Draws ``n_unlabeled`` rows, the landmarks of a Nyström map, and the folds of "cv". Nothing else is random.

    Attributes
    ----------
    classes_ : array (c,)
        The labels, sorted. With two classes there is one problem, and ``classes_[1]`` is its positive side.
    coef_, intercept_ : arrays (c, m) and (c,), or (1, m) and (1,) for two classes
        The linear boundary (``coef_`` for the linear kernel only).
    transduction_ : array (n,)
        The label of every training row: as given, or predicted.
    label_distributions_ : array (n, c)
        ``predict_proba`` of every training row, also of those whose label is known.
    objective_path_ : list of c arrays
        J of each problem after each CCCP step, the start apart; it never rises. For the single loop the final J.
    duality_gap_ : array (c,)
        Relative duality gap of the last convex problem of each class, in double precision: at the solution, no
        convex step can lower J by more than this part of it.
    n_iter_ : int
        CCCP steps, or passes of the single loop over the rows.
    termination_condition_ : str
        Why the solver stopped, in words.
    algorithm_, space_ : str
        The path that was taken, and where the rows were separated ("features", "sparse features", "Gram", "Nyström").
    balanced_ : array (c,) of bool
        Which problems have the balancing constraint.
    C_star_ : float
        The cost of an unlabelled row of weight 1.
    gamma_ : float
        Of the RBF kernel, where it is used: "scale" and "auto" as a number.
    prior_shift_ : array (c,)
        With ``priors``: what is added to the logarithms of the probabilities before they are normalised.
    n_labeled_, n_unlabeled_ : int
        Rows used in training.
    data_fingerprint_ : str
        A hash of the training set's shape, column names, labels and a sample of its values.

    References
    ----------
    R. Collobert, F. Sinz, J. Weston, L. Bottou. Large scale transductive SVMs. JMLR 7, 2006.

    M. C. Burkhart, K. Shan. Deep low-density separation for semi-supervised classification. ICCS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from deepsep import TSVM
    >>> X, truth = make_moons(400, noise=0.08, random_state=0)
    >>> y = np.full(400, None)              # None: unlabelled
    >>> for moon, name in enumerate(["upper", "lower"]):
    ...     y[np.flatnonzero(truth == moon)[:5]] = name
    >>> model = TSVM(C=10, kernel="rbf", gamma=2.0).fit(X, y)
    >>> names = np.array(["upper", "lower"])[truth]
    >>> bool((model.transduction_ == names).mean() > 0.98)
    True
    >>> model.predict_proba(X[:1]).sum().item()
    1.0
    """

    method_name = "tsvm"
    learns_in_stream = True
    _proportions_matter = True  # features are not standardised

    C: float = 0.1
    C_star: float | Literal["pool"] | None = None
    s: float = 0.0
    kernel: Literal["linear", "rbf"] | Callable[[Any, Any], Array] = "linear"
    gamma: float | Literal["scale", "auto"] = "scale"
    balance: bool = True
    priors: Mapping[Any, float] | None = None
    n_unlabeled: int | None = None
    probability: Literal["platt", "cv", "softmax", "hard"] | None = "platt"
    algorithm: Literal["auto", "single-loop", "cccp"] = "auto"
    max_iter: int = 1000
    tol: float = 1e-6
    random_state: Any = None

    _accept: ClassVar[dict[str, Any]] = {"accept_sparse": "csr"}

    # -- fitting ---------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_tsvm_settings(self)
        for name, holds, wanted in (
            ("kernel", callable(self.kernel) or self.kernel in ("linear", "rbf"), '"linear", "rbf" or a callable'),
            (
                "gamma",
                self.gamma in ("scale", "auto") or (is_number(self.gamma) and float(self.gamma) > 0),
                '"scale", "auto" or a positive number',
            ),
            (
                "probability",
                self.probability in ("platt", "cv", "softmax", "hard", None),
                '"platt", "cv", "softmax", "hard" or None',
            ),
            ("max_iter", is_integer(self.max_iter, 1), "a positive integer"),
            ("tol", is_number(self.tol) and 0 < self.tol < 1, "a number between 0 and 1"),
        ):
            require(self, name, holds, wanted)

    def _learn(self, own: TrainingRows, rng: np.random.Generator) -> Array:
        rows = own.with_more(self._more_rows)
        drawn = draw_rows(rows.unlabelled, self.n_unlabeled, rng)
        self.n_labeled_, self.n_unlabeled_ = len(rows.labelled), len(drawn)
        self.C_star_ = unlabelled_cost(self.C, self.C_star, rows.weight, rows.labelled, rows.unlabelled, drawn)
        self._forget("gamma_", "platt_", "prior_shift_", "label_distributions_")
        X, weight = rows.X, rows.weight
        boundaries = separate(
            X[rows.labelled],
            rows.codes[rows.labelled],
            weight[rows.labelled],
            X.part(drawn) if isinstance(X, MappedRows) else X[drawn],
            weight[drawn],
            rows.n_classes,
            Costs(self.C, self.C_star_, float(self.s), bool(self.balance), self._shares()),
            Effort("cccp" if self.algorithm == "cccp" else "single-loop", self.max_iter, self.tol),
            kernel=self._make_kernel(rows),
            rng=rng,
            make_rows=Rows if self._cluster is None else self._cluster.make_rows,
        )
        self._keep(boundaries)
        self._fit_probabilities(own, rng)
        scores = class_scores(self._separator, own.X)
        self._shift_to_priors(scores, own)
        return scores

    def _check_stream(self) -> None:
        require(self, "kernel", self.kernel == "linear", f'"linear", {IN_MEMORY}')

    def _threads(self, rows: TrainingRows) -> AbstractContextManager[Any]:
        narrow = self.kernel == "linear" and min(rows.X.shape) <= WIDE
        return one_blas_thread() if narrow else nullcontext()

    def _describe_training_rows(self, rows: TrainingRows, learned: Array | None) -> None:
        assert learned is not None  # the scores
        best = self._to_probabilities.ranking(learned).argmax(axis=1)
        self._set_transduction(np.where(rows.codes >= 0, rows.codes, best))
        if self.probability is not None:
            self.label_distributions_ = self._to_probabilities(learned)

    def _shares(self) -> Array | None:
        return None if self.priors is None else check_priors(self.priors, self.classes_)

    def _make_kernel(self, rows: TrainingRows) -> Kernel | None:
        if callable(self.kernel):
            return self.kernel
        if self.kernel == "linear":
            return None
        self.gamma_ = _gamma(self.gamma, rows.X, rows.weight)
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
        worst = float(result.gap.max())
        end = ENDS[self.algorithm_] if result.converged.all() else f"max_iter={self.max_iter} reached"
        self.termination_condition_ = f"{end} (relative duality gap {worst:.1e})"
        self._warn_of(boundaries, worst)

    def _warn_of(self, boundaries: Boundaries, worst: float) -> None:
        if self.space_ == "Nyström":
            warn(
                f"{self.n_labeled_ + self.n_unlabeled_} training rows are more than the {EXACT_ROWS} for which the "
                f"kernel is exact: it is approximated from {LANDMARKS} landmark rows. Set n_unlabeled to train on "
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
        if not boundaries.result.converged.all():
            warn(
                f"TSVM stopped at max_iter={self.max_iter} with a relative duality gap of {worst:.1e}, above "
                f"tol={self.tol:g}. Scale the features, or raise max_iter or tol.",
                ConvergenceWarning,
            )

    # -- probabilities ---------------------------------------------------------------------------------------

    def _fit_probabilities(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        self._fitted_probability = self.probability
        if self.probability not in ("platt", "cv") and (self.priors is None or self.probability == "softmax"):
            return
        folds = min(CV_FOLDS, int(np.bincount(rows.codes[rows.labelled]).min()))
        if self.probability == "cv" and folds < 2:
            warn(
                'probability="cv" needs two labelled rows of every class: fell back to "platt" on the training rows.',
                LabelWarning,
            )
        if self.probability == "cv" and folds >= 2:
            seed = int(rng.integers(2**31))
            copy = clone(self).set_params(probability=None, random_state=seed)
            labels = Labels(rows.codes, self.classes_)
            dealt = deal_folds(labels, n_splits=folds, seed=seed, weight=rows.weight)
            held_out = fit_folds({"copy": Candidate(copy)}, rows.X, labels, dealt, weight=rows.weight, ask=_scores_of)
            at, scores = held_out.rows, held_out.probabilities
        else:
            at, scores = rows.labelled, class_scores(self._separator, rows.X[rows.labelled])
        self.platt_ = fit_platt(scores, rows.codes[at], rows.weight[at])

    def _shift_to_priors(self, scores: Array, rows: TrainingRows) -> None:
        """Find the factors that bring the mean probabilities of the unlabelled rows to the shares given."""
        shares = self._shares()
        if shares is not None:
            pool, labelled = rows.unlabelled, rows.labelled
            log_p = self._to_probabilities.log_probabilities(scores[pool])
            self.prior_shift_ = prior_shift(
                shares, log_p, rows.weight[pool], rows.codes[labelled], rows.weight[labelled]
            )

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
        """Return the class with the highest score for every row, labelled or not; with ``priors``, the likeliest."""
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
        state = {name: vars(self)[name] for name in SAVED_VALUES if name in vars(self)}
        arrays = {name: vars(self)[name] for name in SAVED_ARRAYS if name in vars(self)}
        if "coef_" not in arrays and "gamma_" not in state:
            raise ModelFileError(
                "TSVM: the model was fitted with a kernel of your own, and a saved model holds no code. Fit with "
                '"rbf" or "linear".'
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
        steps = checked_array(arrays, "objective_steps", (problems,), "i")
        path = checked_array(arrays, "objective_path_", (int(steps.sum()),), "f")
        self.objective_path_ = np.split(path, np.cumsum(steps)[:-1])
        if "prior_shift_" in arrays:
            self.prior_shift_ = checked_array(arrays, "prior_shift_", (c,), "f")

    def _check_restored(self) -> None:
        if self._fitted_probability is not None:
            super()._check_restored()


def check_tsvm_settings(model: Any) -> None:
    """Raise unless the settings that :class:`TSVM` and :class:`deepsep.DeepSep` share make sense."""
    C, C_star, s, n = model.C, model.C_star, model.s, model.n_unlabeled
    for name, holds, wanted in (
        ("C", is_number(C) and C > 0, "a positive number"),
        (
            "C_star",
            C_star in (None, "pool") or (is_number(C_star) and float(C_star) >= 0),
            'a number of at least 0, "pool" or None',
        ),
        ("s", is_number(s) and -1 < s <= 0, "a number above -1 and at most 0"),
        ("balance", isinstance(model.balance, bool | np.bool), "True or False"),
        ("n_unlabeled", n is None or is_integer(n, 1), "a positive integer or None"),
        ("algorithm", model.algorithm in ("auto", "single-loop", "cccp"), '"auto", "single-loop" or "cccp"'),
    ):
        require(model, name, holds, wanted)


def draw_rows(pool: Array, n: int | None, rng: np.random.Generator) -> Array:
    """Return n of the rows, drawn at random and in order; all of them if n is None or larger."""
    return pool if n is None or n >= len(pool) else np.sort(rng.choice(pool, n, replace=False))


def unlabelled_cost(
    C: float, C_star: float | str | None, weight: Array, labelled: Array, unlabelled: Array, drawn: Array
) -> float:
    """Return C*, the cost of an unlabelled row of weight 1, where ``drawn`` of the unlabelled rows are used."""
    if not len(drawn):
        return 0.0
    if C_star is None or C_star == "pool":
        used = unlabelled if C_star == "pool" else drawn
        return float(C * weight[labelled].sum() / weight[used].sum())
    return float(C_star)


def _scores_of(model: TSVM, X: Any) -> Array:
    return class_scores(model._separator, X)


def _gamma(gamma: float | str, X: Any, weight: Array) -> float:
    if gamma == "auto":
        return float(1 / X.shape[1])
    if gamma == "scale":  # the variance of all entries, rows counted as often as they weigh
        entries = weight.sum() * X.shape[1]
        mean = (weight @ np.asarray(X.sum(axis=1)).ravel()) / entries
        if sparse.issparse(X):
            variance = (weight @ np.asarray(X.multiply(X).sum(axis=1)).ravel()) / entries - mean**2
        else:
            variance = (weight @ np.square(X - mean).sum(axis=1)) / entries
        return float(1 / (X.shape[1] * variance)) if variance > 0 else 1.0
    return float(gamma)
