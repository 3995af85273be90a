"""ExactTSVM: the global minimum of the TSVM's objective, for a few dozen unlabelled rows."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.base import settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.core.checks import is_integer, require
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ParameterError
from deepsep.solvers.one_vs_rest import Effort
from deepsep.zoo.transductive.branch_and_bound import MOST_NODES, MOST_UNLABELED, branch_and_bound


@settings
class ExactTSVM(LowDensitySVM):
    r"""Transductive SVM solved to its global minimum, by branch and bound over the labels of the unlabelled rows.

    It minimises what :class:`deepsep.TSVM` minimises (with s = 0), but ends at the lowest of all local minima, with a
    proof: a lower bound that meets it. That takes time which may double with each unlabelled row, so there may be 50 of
    them at most, and more are an error. For teaching, and to see how far other solvers are from the minimum: see
    ``docs/results/local-minima.md``. A lower objective is not always a lower error.

    Parameters
    ----------
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`. False: a free bias. The
        minimum may then leave all unlabelled rows on one side, and bounds are weaker.
    max_nodes : int, default=200000
        Most nodes of the search for each class, thousands of which take a second. Beyond, the best boundary so far is
        taken, with a ``ConvergenceWarning``; ``duality_gap_`` says how much lower the minimum can be.
    n_unlabeled : int, optional
        Train on this many unlabelled rows, drawn at random. None: all of them, which must be 50 at most.
    C, C_star, kernel, gamma, priors, probability, max_iter, tol, random_state
        As in :class:`deepsep.TSVM`.

    Attributes
    ----------
    objective_path_ : list of c arrays
        The lowest objective so far, from the better of the two solvers of :class:`deepsep.TSVM` to the minimum.
    duality_gap_ : array (c,)
        How far the lower bound is below the objective, relative to it: about ``tol`` if the minimum was found.
    n_iter_ : int
        Nodes, over all classes.
    coef_, intercept_, transduction_, label_distributions_ and others
        As in :class:`deepsep.TSVM`.

    References
    ----------
    K. P. Bennett, A. Demiriz. Semi-supervised support vector machines. NIPS 1998.

    O. Chapelle, V. Sindhwani, S. S. Keerthi. Branch and bound for semi-supervised support vector machines. NIPS 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep import TSVM
    >>> from deepsep.classifiers import ExactTSVM
    >>> from sklearn.datasets import make_moons
    >>> X, truth = make_moons(24, noise=0.1, random_state=0)
    >>> y = np.full(24, -1)
    >>> for moon in (0, 1):
    ...     y[np.flatnonzero(truth == moon)[:2]] = moon
    >>> exact, local = (kind(C=10, kernel="rbf", gamma=2.0).fit(X, y) for kind in (ExactTSVM, TSVM))
    >>> bool(exact.objective_path_[0][-1] <= local.objective_path_[0][-1])
    True
    """

    method_name = "exact-tsvm"
    _ends: ClassVar = {"branch and bound": "global minimum"}
    _gap: ClassVar[str] = "relative distance to the lower bound"
    _limit: ClassVar[str] = "max_nodes"

    balance: bool = True
    max_nodes: int = MOST_NODES

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(self, "max_nodes", is_integer(self.max_nodes, 1), "a positive integer")

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Any:
        u = len(rows.unlabeled) if self.n_unlabeled is None else min(self.n_unlabeled, len(rows.unlabeled))
        if u > MOST_UNLABELED:
            most = f"n_unlabeled={MOST_UNLABELED}"
            raise ParameterError(
                f"{u:,} unlabelled rows are too many for {self.method_name}, whose time may double with each: the most "
                f"are {MOST_UNLABELED}. Pass {most} (to a command: --set {most}) to train on that many, drawn at "
                "random, or use tsvm."
            )
        return super()._learn(rows, rng)

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], Effort]:
        path = partial(branch_and_bound, max_nodes=int(self.max_nodes))
        return {"balance": bool(self.balance)}, Effort("branch and bound", self.max_iter, self.tol, path)
