"""S4VM: a transductive SVM that tries not to do worse than the supervised one."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.base import settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.core.checks import is_integer, is_number, require
from deepsep.solvers.one_vs_rest import SolverSettings
from deepsep.zoo.transductive.safe_labels import N_BOUNDARIES, N_STARTS, RISK, safe_labels


@settings
class S4VM(LowDensitySVM):
    r"""Safe semi-supervised SVM: several boundaries through low density, and the labels that risk least.

    A TSVM takes one boundary through low density, though there often are several, and the wrong one is worse than no
    unlabelled rows at all. S4VM finds several, from random starts, and keeps a few that differ. Then it chooses the
    labels of the unlabelled rows that gain most over the supervised SVM if the least convenient of these boundaries is
    the right one: the number of rows that are put right, less ``risk`` times those that are put wrong. Finally the SVM
    is trained on these labels too, at the cost :math:`C^*`, so that there is a boundary for new rows.

    If the right boundary is one of those found, the labels are no worse than the supervised SVM's. Nothing
    is promised otherwise, nor for more than two classes, where each has its own boundary against the rest, nor for
    rows on which the last SVM departs from the labels that it was given.

    Parameters
    ----------
    n_starts : int, default=50
        Boundaries that are sought, one from the supervised SVM and the others from random directions.
    n_boundaries : int, default=10
        How many of them are kept.
    risk : float, default=3.0
        How many rows put right are worth one that is put wrong.
    balance : bool, default=True
        Whether the boundaries fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`.
    random_state : int, RandomState or None, default=None
        Draws the starts, and what :class:`deepsep.TSVM` draws.
    C, C_star, kernel, gamma, priors, n_unlabeled, probability, max_iter, tol
        As in :class:`deepsep.TSVM`.

    Attributes
    ----------
    objective_path_ : list of c arrays
        The objective of the last SVM.
    coef_, intercept_, transduction_, label_distributions_ and others
        As in :class:`deepsep.TSVM`.

    Notes
    -----
    Li and Zhou start from random labels and alternate between labels and SVM; here the starts are random directions,
    and all are followed together by the single loop of :class:`deepsep.TSVM`. Their boundaries satisfy a constraint on
    labels, ours the one on the mean score.

    References
    ----------
    Y.-F. Li, Z.-H. Zhou. Towards making unlabeled data never hurt. IEEE Transactions on Pattern Analysis and Machine
    Intelligence 37, 2015; first in ICML 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep.classifiers import S4VM
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(4, 1, (200, 2))])
    >>> y = np.full(400, None)
    >>> y[:3], y[-3:] = "near", "far"
    >>> bool((S4VM(random_state=0).fit(X, y).transduction_[200:] == "far").mean() > 0.95)
    True
    """

    method_name = "s4vm"
    _ends: ClassVar = {"safe labels": "optimum of the SVM on the safest labels"}

    n_starts: int = N_STARTS
    n_boundaries: int = N_BOUNDARIES
    risk: float = RISK
    balance: bool = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_starts", "n_boundaries"):
            require(self, name, is_integer(getattr(self, name), 1), "a positive integer")
        require(self, "risk", is_number(self.risk) and self.risk >= 0, "a number of at least 0")

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], SolverSettings]:
        starts, kept = int(self.n_starts), int(self.n_boundaries)
        path = partial(safe_labels, rng=rng, n_starts=starts, n_boundaries=kept, risk=float(self.risk))
        return {"balance": bool(self.balance)}, SolverSettings("safe labels", self.max_iter, self.tol, path)
