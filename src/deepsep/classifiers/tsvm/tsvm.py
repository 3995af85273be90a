"""TSVM: one-vs-rest transductive support vector machines as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from deepsep.classifiers.declared_settings import real, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.solvers.one_vs_rest import SolverSettings


@settings
class TSVM(LowDensitySVM):
    r"""Transductive support vector machine: a boundary through low density.

    It also uses the unlabelled rows: of all boundaries that fit the labels, it prefers one that few rows lie close
    to. For each class against the rest it minimises

    .. math::

        J(w, b) = \tfrac12 \|w\|^2 + C \sum_{\text{labelled}} H(y_i f(x_i))
                  + C^* \sum_{\text{unlabelled}} \min\bigl(1 + s,\; H(|f(x_i)|)\bigr),

    with :math:`f(x) = w \cdot x + b` and the hinge :math:`H(z) = \max(0, 1 - z)` (equation (1) of the paper when
    s = 0). The last term is not convex: an unlabelled row pays for lying in the margin, on whichever side it is.
    With ``balance=True``, the mean of f over the unlabelled rows is fixed to :math:`r_k = 2\pi_k - 1`, where
    :math:`\pi_k` is the share of class k among the labelled rows or in ``priors``. This keeps a class from
    taking over the others. It fixes the mean score, not the share of rows with a positive score: **predicted shares
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
        The result of "cccp" is left unchanged.
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
    algorithm : {"auto", "single-loop", "cccp"}, default="auto"
        "cccp": Collobert's concave-convex procedure, a sequence of convex problems, each solved exactly.
        "single-loop": one augmented Lagrangian in which the signs of the unlabelled rows follow the boundary; several
        times faster. Both end where no exact convex step lowers J, but not always at the same such point.
        "auto" is "single-loop": on real tables it was as accurate. Where C is so large that nearly all labelled rows
        are separated, it moves further from the supervised start than "cccp" does, and may do worse.
    max_iter : int, default=1000
        Maximum number of passes over the rows in one convex problem or in the single loop, and of CCCP steps.
    tol : float, default=1e-6
        Relative duality gap at which a convex problem counts as solved. With up to 1,000 rows in double precision,
        where it costs next to nothing, the solver continues towards rounding error.
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
        ``predict_proba`` of every training row, including labelled rows.
    objective_path_ : list of c arrays
        J of each problem after each CCCP step, without the start; it never rises. For the single loop the final J.
    duality_gap_ : array (c,)
        Relative duality gap of the last convex problem of each class, in double precision: at the solution, no
        convex step can lower J by more than this part of it.
    n_iter_ : int
        CCCP steps, or passes of the single loop over the rows.
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
    prior_shift_ : array (c,)
        Terms added to the logarithms of the probabilities before they are normalised, with ``priors`` only.
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
    >>> y = np.full(400, None)              # None: unlabeled
    >>> for moon, name in enumerate(["upper", "lower"]):
    ...     y[np.flatnonzero(truth == moon)[:5]] = name
    >>> model = TSVM(C=10, kernel="rbf", gamma=2.0).fit(X, y)
    >>> names = np.array(["upper", "lower"])[truth]
    >>> bool((model.transduction_ == names).mean() > 0.98)
    True
    >>> bool(np.isclose(model.predict_proba(X[:1]).sum(), 1))
    True
    """

    method_name = "tsvm"
    _ends: ClassVar = {
        "cccp": "fixed point: the signs of the unlabelled rows stayed as they were",
        "single-loop": "fixed point: no convex step lowers the objective by more than the gap",
    }

    s: float = real(0.0, above=-1, at_most=0)
    balance: bool = True
    algorithm: Literal["auto", "single-loop", "cccp"] = "auto"

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], SolverSettings]:
        algorithm = "cccp" if self.algorithm == "cccp" else "single-loop"
        costs = {"s": float(self.s), "balance": bool(self.balance)}
        return costs, SolverSettings(algorithm, self.max_iter, self.tol)
