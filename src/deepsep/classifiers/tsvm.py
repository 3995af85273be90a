"""TSVM: one-vs-rest transductive support vector machines with a scikit-learn face."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from deepsep.core.arrays import take, take_codes
from deepsep.core.checks import (
    check_priors,
    is_integer,
    is_number,
    private_generator,
    require,
)
from deepsep.core.fingerprint import fingerprint
from deepsep.core.labels import Labels
from deepsep.core.probability import fit_platt, hard_votes, log_platt, log_shift_to_shares
from deepsep.core.threads import one_blas_thread
from deepsep.core.training_rows import read_rows, read_training_rows
from deepsep.errors import ApproximationWarning, CollapseWarning, LabelWarning, ModelFileError
from deepsep.evaluation.out_of_fold import out_of_fold
from deepsep.files.saving import save
from deepsep.solvers.cccp import cccp
from deepsep.solvers.curvature import WIDE
from deepsep.solvers.problem import Problem, Result
from deepsep.solvers.rows import Rows
from deepsep.solvers.single_loop import single_loop
from deepsep.solvers.spaces import EXACT_ROWS, LANDMARKS, Kernel, Separator, Space, open_space
from deepsep.solvers.supervised_svm import supervised_svm

Array = NDArray[Any]

COLLAPSED = 0.1  # a side that keeps less than this part of its labelled share has collapsed
CV_FOLDS = 5
SMALL = 1_000  # rows
TO_ROUNDING = 1e-12
# What a saved model keeps of a fitted one, as plain values and as arrays.
SAVED_VALUES = (
    *("C_star_", "gamma_", "platt_", "n_labelled_", "n_unlabelled_", "n_iter_"),
    *("algorithm_", "space_", "termination_condition_"),
)
SAVED_ARRAYS = (
    *("coef_", "intercept_", "dual_coef_", "support_vectors_"),
    *("duality_gap_", "balanced_", "label_distributions_", "prior_shift_"),
)


class TSVM(ClassifierMixin, BaseEstimator):
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
        Whether to fix the mean score over the unlabelled rows. False: a free bias; if a class collapses (it keeps
        less than a tenth of its share of the unlabelled rows, or all but a tenth of the others'), its problem is
        solved again with the constraint, with a ``CollapseWarning``.
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
    n_labelled_, n_unlabelled_ : int
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

    def __init__(
        self,
        *,
        C: float = 0.1,
        C_star: float | Literal["pool"] | None = None,
        s: float = 0.0,
        kernel: Literal["linear", "rbf"] | Callable[[Any, Any], Array] = "linear",
        gamma: float | Literal["scale", "auto"] = "scale",
        balance: bool = True,
        priors: Mapping[Any, float] | None = None,
        n_unlabeled: int | None = None,
        probability: Literal["platt", "cv", "softmax", "hard"] | None = "platt",
        algorithm: Literal["auto", "single-loop", "cccp"] = "auto",
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.C_star = C_star
        self.s = s
        self.kernel = kernel
        self.gamma = gamma
        self.balance = balance
        self.priors = priors
        self.n_unlabeled = n_unlabeled
        self.probability = probability
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    _make_rows: Callable[..., Any] = Rows  # the pass over the rows; DeepSep puts one for its GPU here

    # -- fitting ---------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to partly labelled rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, m)
            Numbers without NaN or infinity; float32 is kept as it is.
        y : array-like of shape (n,)
            Labels (strings, integers or booleans); unlabelled rows are marked None, NaN, pd.NA, or -1 among
            integers.
        sample_weight : array-like of shape (n,), optional
            A weight of k counts as k copies of the row, 0 as its absence.

        Returns
        -------
        self
        """
        self._check_parameters()
        X, labels, weight = read_training_rows(self, X, y, sample_weight, accept_sparse="csr", stacklevel=4)
        rng = private_generator(self.random_state)
        labelled = np.flatnonzero(labels.labelled & (weight > 0))
        pool = np.flatnonzero(~labels.labelled & (weight > 0))
        unlabelled = pool
        if self.n_unlabeled is not None and self.n_unlabeled < len(pool):
            unlabelled = np.sort(rng.choice(pool, self.n_unlabeled, replace=False))
        self.n_labelled_, self.n_unlabelled_ = len(labelled), len(unlabelled)
        self.C_star_ = self._unlabelled_cost(weight[labelled].sum(), weight[unlabelled].sum(), weight[pool].sum())

        space = self._open_space(X, labelled, unlabelled, weight, rng)
        problem = self._problem(space, labels.codes[labelled], weight[labelled], weight[unlabelled])
        with one_blas_thread() if space.labelled.shape[1] <= WIDE else nullcontext():
            result = self._solve(problem)
        self._keep(result, space)

        self._fit_probabilities(X, labels, labelled, weight, rng)
        scores = self._scores(X)
        self._heed_priors(scores, labels, weight)
        self._describe_training_rows(scores, labels)
        self.data_fingerprint_ = fingerprint(X, labels.codes, getattr(self, "feature_names_in_", None))
        return self

    def _check_parameters(self) -> None:
        for name, holds, wanted in (
            ("C", is_number(self.C) and self.C > 0, "a positive number"),
            (
                "C_star",
                self.C_star in (None, "pool") or (is_number(self.C_star) and float(self.C_star) >= 0),
                'a number of at least 0, "pool" or None',
            ),
            ("s", is_number(self.s) and -1 < self.s <= 0, "a number above -1 and at most 0"),
            ("kernel", callable(self.kernel) or self.kernel in ("linear", "rbf"), '"linear", "rbf" or a callable'),
            (
                "gamma",
                self.gamma in ("scale", "auto") or (is_number(self.gamma) and float(self.gamma) > 0),
                '"scale", "auto" or a positive number',
            ),
            ("balance", isinstance(self.balance, bool | np.bool), "True or False"),
            ("n_unlabeled", self.n_unlabeled is None or is_integer(self.n_unlabeled, 1), "a positive integer or None"),
            (
                "probability",
                self.probability in ("platt", "cv", "softmax", "hard", None),
                '"platt", "cv", "softmax", "hard" or None',
            ),
            ("algorithm", self.algorithm in ("auto", "single-loop", "cccp"), '"auto", "single-loop" or "cccp"'),
            ("max_iter", is_integer(self.max_iter, 1), "a positive integer"),
            ("tol", is_number(self.tol) and 0 < self.tol < 1, "a number between 0 and 1"),
        ):
            require(self, name, holds, wanted)

    def _unlabelled_cost(self, labelled: float, unlabelled: float, pool: float) -> float:
        if unlabelled == 0:
            warnings.warn(
                "no unlabelled rows: TSVM fell back to the supervised SVM. Pass the unlabelled rows in X as well, with "
                "None in y.",
                LabelWarning,
                stacklevel=3,
            )
            return 0.0
        if self.C_star is None or self.C_star == "pool":
            return float(self.C * labelled / (pool if self.C_star == "pool" else unlabelled))
        return float(self.C_star)

    def _open_space(self, X: Any, labelled: Array, unlabelled: Array, weight: Array, rng: np.random.Generator) -> Space:
        kernel: Kernel | None
        self.__dict__.pop("gamma_", None)
        if callable(self.kernel):
            kernel = self.kernel
        elif self.kernel == "rbf":
            self.gamma_ = _gamma(self.gamma, X, weight)
            kernel = partial(rbf_kernel, gamma=self.gamma_)
        else:
            kernel = None
        space = open_space(X[labelled], X[unlabelled], weight[unlabelled], kernel, rng)
        if space.name == "Nyström":
            warnings.warn(
                f"{len(labelled) + len(unlabelled)} training rows are more than the {EXACT_ROWS} for which the kernel "
                f"is exact: it is approximated from {LANDMARKS} landmark rows. Set n_unlabeled to train on fewer rows.",
                ApproximationWarning,
                stacklevel=3,
            )
        return space

    def _problem(self, space: Space, codes: Array, weight_l: Array, weight_u: Array) -> Problem:
        c = len(self.classes_)
        positive = codes == np.arange(c)[:, None] if c > 2 else (codes == 1)[None]
        shares = np.bincount(codes, weights=weight_l, minlength=c) / weight_l.sum()
        if self.priors is not None:
            shares = check_priors(self.priors, self.classes_)
        target = 2 * (shares if c > 2 else shares[1:]) - 1
        return Problem(
            labelled=space.labelled,
            signs=np.where(positive, 1.0, -1.0),
            cost_labelled=self.C * weight_l,
            unlabelled=space.unlabelled,
            cost_unlabelled=self.C_star_ * weight_u,
            target=target if self.balance and len(weight_u) else None,
            s=float(self.s),
            centre=space.centre,
            make_rows=self._make_rows,
        )

    def _solve(self, problem: Problem) -> Result:
        self.algorithm_ = "cccp" if self.algorithm == "cccp" else "single-loop"
        c, n = len(problem.signs), problem.labelled.shape[0] + problem.unlabelled.shape[0]
        settings: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        if n <= SMALL and problem.labelled.dtype == np.float64:
            # Newton's last steps are quick: where they also are cheap, results agree to the last digits.
            settings["aim"] = min(self.tol, TO_ROUNDING)
        self.balanced_ = np.full(c, problem.target is not None)
        if not self.n_unlabelled_ or (self.C_star_ == 0 and not self.balance):
            self.algorithm_ = "supervised"
            return supervised_svm(problem, **settings)
        # The single loop reads the signs anew at each iterate: a rough start is as good as an exact one.
        rough = settings if self.algorithm_ == "cccp" else {"tol": max(self.tol, 1e-3), "max_iter": self.max_iter}
        start = supervised_svm(problem, **rough)

        def transduce(problem: Problem, start: Result) -> Result:
            if self.algorithm_ == "cccp":
                return cccp(problem, start, **settings)
            return single_loop(problem, start, **settings)

        result = transduce(problem, start)
        collapsed = self._collapsed(problem, result)
        if collapsed.size:
            names = ", ".join(repr(name) for name in self.classes_[collapsed if c > 1 else [1]].tolist())
            warnings.warn(
                f"with balance=False, the boundary of class {names} left (nearly) all unlabelled rows on one side. It "
                "was found again with the balancing constraint. Use balance=True, or a smaller C_star.",
                CollapseWarning,
                stacklevel=3,
            )
            target = 2 * self._positive_shares(problem)[collapsed] - 1
            balanced = replace(problem.only(collapsed), target=target)
            result = result.replaced(collapsed, transduce(balanced, start.only(collapsed)))
            self.balanced_[collapsed] = True
        return result

    def _collapsed(self, problem: Problem, result: Result) -> Array:
        """Return the problems whose free bias lost one side."""
        if problem.target is not None:
            return np.array([], int)
        shares = self._positive_shares(problem)
        weight = problem.cost_unlabelled / problem.cost_unlabelled.sum()
        positive = (problem.unlabelled_scores(result.w, result.b) > 0) @ weight
        return np.flatnonzero((positive < COLLAPSED * shares) | (1 - positive < COLLAPSED * (1 - shares)))

    def _positive_shares(self, problem: Problem) -> Array:
        """Return the share of the positive side of each problem: as given, or among the labelled rows."""
        if self.priors is None:
            return np.asarray((problem.signs > 0) @ problem.cost_labelled / problem.cost_labelled.sum())
        shares = check_priors(self.priors, self.classes_)
        return shares if len(problem.signs) > 1 else shares[1:]

    def _keep(self, result: Result, space: Space) -> None:
        self.space_ = space.name
        self._separator = space.separator(np.ascontiguousarray(result.w), result.b)
        self.intercept_ = self._separator.intercept
        for name in ("coef_", "dual_coef_", "support_vectors_"):
            self.__dict__.pop(name, None)
        if self._separator.coef is not None:
            self.coef_ = self._separator.coef
        else:
            self.dual_coef_, self.support_vectors_ = self._separator.dual_coef, self._separator.support
        self.objective_path_ = [np.array(path) for path in result.objective_path]
        self.duality_gap_ = result.gap
        self.n_iter_ = result.n_iter
        worst = float(result.gap.max())
        if result.converged.all():
            end = {
                "cccp": "fixed point: the signs of the unlabelled rows stayed as they were",
                "single-loop": "fixed point: no convex step lowers the objective by more than the gap",
                "supervised": "optimum of the supervised SVM",
            }[self.algorithm_]
            self.termination_condition_ = f"{end} (relative duality gap {worst:.1e})"
        else:
            self.termination_condition_ = f"max_iter={self.max_iter} reached (relative duality gap {worst:.1e})"
            warnings.warn(
                f"TSVM stopped at max_iter={self.max_iter} with a relative duality gap of {worst:.1e}, above "
                f"tol={self.tol:g}. Scale the features, or raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    # -- probabilities ---------------------------------------------------------------------------------------

    def _fit_probabilities(
        self, X: Any, labels: Labels, labelled: Array, weight: Array, rng: np.random.Generator
    ) -> None:
        self.__dict__.pop("platt_", None)
        self._fitted_probability = self.probability
        if self.probability not in ("platt", "cv") and (self.priors is None or self.probability == "softmax"):
            return
        folds = min(CV_FOLDS, int(np.bincount(labels.codes[labelled]).min()))
        if self.probability == "cv" and folds < 2:
            warnings.warn(
                'probability="cv" needs two labelled rows of every class: fell back to "platt" on the training rows.',
                LabelWarning,
                stacklevel=3,
            )
        if self.probability == "cv" and folds >= 2:
            seed = int(rng.integers(2**31))
            rows, scores = out_of_fold(
                self, X, labels.codes, weight, lambda m, x: m._scores(x), folds=folds, seed=seed, probability=None
            )
        else:
            rows, scores = labelled, self._scores(X[labelled])
        self.platt_ = fit_platt(scores, labels.codes[rows], weight[rows])

    def _heed_priors(self, scores: Array, labels: Labels, weight: Array) -> None:
        """Find the factors that bring the mean probabilities of the unlabelled rows to the shares given."""
        self.__dict__.pop("prior_shift_", None)
        if self.priors is None:
            return
        shares = check_priors(self.priors, self.classes_)
        pool = ~labels.labelled & (weight > 0)
        if pool.any():
            self.prior_shift_ = log_shift_to_shares(self._log_probabilities(scores[pool]), shares, weight[pool])
        else:  # right where the labelled rows of each class are a fair sample of it
            among = np.bincount(labels.codes[labels.labelled], weights=weight[labels.labelled])
            self.prior_shift_ = np.log(shares * among.sum() / among)

    def _describe_training_rows(self, scores: Array, labels: Labels) -> None:
        codes = np.where(labels.labelled, labels.codes, self._ranking(scores).argmax(axis=1))
        self.transduction_ = self.classes_[codes]
        self.__dict__.pop("label_distributions_", None)
        if self.probability is not None:
            self.label_distributions_ = self._probabilities(scores)

    def _ranking(self, scores: Array) -> Array:
        """Return what the predicted class is highest in: the scores, or with priors the corrected probabilities."""
        return self._log_probabilities(scores) if hasattr(self, "prior_shift_") else scores

    def _log_probabilities(self, scores: Array) -> Array:
        """Return logarithms of the probabilities, but for a constant in each row."""
        log_p = scores if self._fitted_probability == "softmax" else log_platt(scores, *self.platt_)
        return log_p + self.prior_shift_ if hasattr(self, "prior_shift_") else log_p

    def _probabilities(self, scores: Array) -> Array:
        if self._fitted_probability == "hard":
            return hard_votes(self._ranking(scores))
        return np.asarray(softmax(self._log_probabilities(scores), axis=1))

    # -- predicting ------------------------------------------------------------------------------------------

    def _scores(self, X: Any) -> Array:
        """Return one score per class, (n, c); with two classes -f and f."""
        scores = self._separator.scores(X)
        return scores if scores.shape[1] > 1 else np.hstack([-scores, scores])

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return read_rows(self, X, accept_sparse="csr", reset=False)

    def decision_function(self, X: Any) -> Array:
        """Return f of every row: (n, c), or (n,) for two classes, where positive means ``classes_[1]``.

        With ``priors`` and two classes, 0 is where both are equally likely. With more, these are the scores before the
        correction, and ``predict`` need not follow them.
        """
        rows = self._check_rows(X)
        scores = self._separator.scores(rows)
        return scores.ravel() - self._threshold() if scores.shape[1] == 1 else scores

    def _threshold(self) -> float:
        """Return the f at which two classes are equally likely: log p_1 / p_0 = shift_0 - shift_1, solved for f."""
        if not hasattr(self, "prior_shift_"):
            return 0.0
        log_odds = self.prior_shift_[0] - self.prior_shift_[1]
        if self._fitted_probability == "softmax":
            return float(log_odds / 2)
        slope, offset = self.platt_
        size = abs(log_odds)
        rise, tail = np.expm1(size), np.exp(-offset)
        z = np.log((rise + np.hypot(rise, 2 * tail * np.exp(size / 2))) / (2 * tail))
        return float(np.sign(log_odds) * z / slope)

    def predict(self, X: Any) -> Array:
        """Return the class with the highest score for every row, labelled or not; with ``priors``, the likeliest."""
        rows = self._check_rows(X)
        return np.asarray(self.classes_[self._ranking(self._scores(rows)).argmax(axis=1)])

    @available_if(lambda self: getattr(self, "_fitted_probability", self.probability) is not None)
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for every row, (n, c), columns as in ``classes_``."""
        rows = self._check_rows(X)
        return self._probabilities(self._scores(rows))

    # -- saving ----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder: short for ``deepsep.save(model, path)``."""
        save(self, path)

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a saved model holds beside settings, classes and columns: plain values, and arrays."""
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
        arrays["transduction_"] = np.searchsorted(self.classes_, self.transduction_).astype(np.int32)
        return state, arrays

    @classmethod
    def _from_parts(cls, params: dict[str, Any], state: dict[str, Any], arrays: dict[str, Any]) -> Self:
        """Return the fitted model that ``_to_parts`` took apart; ``state`` also has the classes and the columns."""
        model = cls(**params)
        model.__dict__.update(state)
        model._fitted_probability = model.__dict__.pop("fitted_probability")
        c, m = len(model.classes_), model.n_features_in_
        problems = c if c > 2 else 1
        model.intercept_ = take(arrays, "intercept_", (problems,), "f")
        if "coef_" in arrays:
            model.coef_ = take(arrays, "coef_", (problems, m), "f")
            model._separator = Separator(model.intercept_, coef=model.coef_)
        else:
            model.support_vectors_ = take(arrays, "support_vectors_", (None, m), "f")
            model.dual_coef_ = take(arrays, "dual_coef_", (problems, model.support_vectors_.shape[0]), "f")
            kernel = partial(rbf_kernel, gamma=float(model.gamma_))
            model._separator = Separator(
                model.intercept_, support=model.support_vectors_, dual_coef=model.dual_coef_, kernel=kernel
            )
        model.duality_gap_ = take(arrays, "duality_gap_", (problems,), "f")
        model.balanced_ = take(arrays, "balanced_", (problems,), "b")
        steps = take(arrays, "objective_steps", (problems,), "i")
        path = take(arrays, "objective_path_", (int(steps.sum()),), "f")
        model.objective_path_ = np.split(path, np.cumsum(steps)[:-1])
        codes = take_codes(arrays, "transduction_", c)
        model.transduction_ = model.classes_[codes]
        if "prior_shift_" in arrays:
            model.prior_shift_ = take(arrays, "prior_shift_", (c,), "f")
        if "label_distributions_" in arrays:
            model.label_distributions_ = take(arrays, "label_distributions_", (len(codes), c), "f")
        return model


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
