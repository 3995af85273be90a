"""ExactTSVM: the global minimum of the TSVM's objective, for a few dozen unlabelled rows."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.declared_settings import integer, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ParameterError
from deepsep.solvers.one_vs_rest import SolverSettings
from deepsep.zoo.transductive.branch_and_bound import branch_and_bound


@settings
class ExactTSVM(LowDensitySVM):
    r"""Transductive SVM solved to its global minimum, by branch and bound over the labels of the unlabelled rows.

    It has the objective of :class:`deepsep.TSVM` (with s = 0), but ends at the lowest of all local minima, which a
    lower bound proves. The time may double with each unlabelled row, so more than 50 are an error. It is for teaching,
    and to measure how far other solvers are from the minimum: see ``docs/results/local-minima.md``. A lower objective
    does not always mean a lower error.

    Parameters
    ----------
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`. False: a free bias. The
        minimum may then leave all unlabelled rows on one side, and bounds are weaker.
    max_nodes : int, default=200000
        Maximum number of nodes of the search for each class; a second is enough for thousands. Beyond it, the best
        boundary so far is the result, with a ``ConvergenceWarning``; ``duality_gap_`` bounds how much lower the minimum
        can be.
    n_unlabeled : int, optional
        Train on this many unlabelled rows, drawn at random. None: all of them, at most 50.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Lowest objective so far, from the better of the two solvers of :class:`deepsep.TSVM` to the minimum.
    duality_gap_ : array (c,)
        Relative distance of the lower bound from the objective: about ``tol`` if the minimum was found.
    n_iter_ : int
        Number of nodes over all classes.

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
    max_nodes: int = integer(200_000, 1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> Any:
        u = len(rows.unlabeled) if self.n_unlabeled is None else min(self.n_unlabeled, len(rows.unlabeled))
        if u > 50:
            raise ParameterError(
                f"{u:,} unlabelled rows are too many for {self.method_name}, as time may double with each; at most 50 "
                "are allowed. Set n_unlabeled=50 to train on that many, drawn at random, or use tsvm."
            )
        return super()._learn(rows, rng)

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], SolverSettings]:
        path = partial(branch_and_bound, max_nodes=int(self.max_nodes))
        return {"balance": bool(self.balance)}, SolverSettings("branch and bound", self.max_iter, self.tol, path)
