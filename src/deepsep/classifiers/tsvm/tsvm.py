"""TSVM: one-vs-rest transductive support vector machines as a scikit-learn estimator."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from deepsep.classifiers.declared_settings import real, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM


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
    s : float in (-1, 0], default=0.0
        Rows with ``|f| <= -s`` are undecided and cost a constant 1 + s.
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows. False: a free bias; if a class collapses in the single
        loop (it gets less than a tenth of the unlabelled rows that the supervised boundaries give it), its problem is
        solved again with the mean score of the supervised boundary, or of ``priors``, and a ``CollapseWarning``.
        The result of "cccp" is left unchanged.
    max_iter : int, default=1000
        Maximum number of passes over the rows in one convex problem or in the single loop, and of CCCP steps.
    tol : float, default=1e-6
        Relative duality gap at which a convex problem counts as solved. With up to 1,000 rows in double precision,
        where it costs next to nothing, the solver continues towards rounding error.
    algorithm : {"auto", "single-loop", "cccp"}, default="auto"
        "cccp": Collobert's concave-convex procedure, a sequence of convex problems, each solved exactly.
        "single-loop": one augmented Lagrangian in which the signs of the unlabelled rows follow the boundary; several
        times faster. Both end where no exact convex step lowers J, but not always at the same such point.
        "auto" is "single-loop": on real tables it was as accurate. Where C is so large that nearly all labelled rows
        are separated, it moves further from the supervised start than "cccp" does, and may do worse.

    Attributes
    ----------
    objective_path_ : list of c arrays
        J of each problem after each CCCP step, without the start; it never rises. For the single loop the final J.
    duality_gap_ : array (c,)
        Relative duality gap of the last convex problem of each class, in double precision: at the solution, no
        convex step can lower J by more than this part of it.
    n_iter_ : int
        CCCP steps, or passes of the single loop over the rows.

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
    algorithm: Literal["auto", "single-loop", "cccp"] = "auto"

    def _path(self, rng: np.random.Generator) -> None:
        """Return none: both algorithms are the solver's own."""

    @property
    def _solver_name(self) -> str:
        return "cccp" if self.algorithm == "cccp" else "single-loop"
