"""S4VM: a transductive SVM that tries not to do worse than the supervised one."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.solvers.one_vs_rest import SolverSettings
from deepsep.zoo.transductive.safe_labels import safe_labels


@settings
class S4VM(LowDensitySVM):
    r"""Safe semi-supervised SVM: several boundaries through low density, and the labels that risk least.

    There are often several boundaries through low density, and the wrong one is worse than no unlabelled rows at all. A
    TSVM takes one. S4VM finds several, from random starts, and keeps a few that differ. Then it chooses labels of the
    unlabelled rows with the largest gain over the supervised SVM in the worst case, over which of these boundaries is
    the right one. The gain is the number of rows that become right, minus ``risk`` times those that become wrong.
    Finally the SVM is trained on these labels too, at the cost :math:`C^*`, to have a boundary for new rows.

    If the right boundary is among those found, the labels are at least as good as those of the supervised SVM. There is
    no such guarantee otherwise, nor for more than two classes, where each has its own boundary against the rest, nor
    for rows on which the last SVM departs from its labels.

    Parameters
    ----------
    n_starts : int, default=50
        Number of starts: the supervised SVM and random directions.
    n_boundaries : int, default=10
        Number of boundaries that are kept.
    risk : float, default=3.0
        Number of rows that must become right to make up for one that becomes wrong.
    balance : bool, default=True
        Whether the boundaries fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`.
    random_state : int, RandomState or None, default=None
        Draws the starts, and everything that :class:`deepsep.TSVM` draws.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Objective of the last SVM.

    Notes
    -----
    Li and Zhou start from random labels and alternate between labels and SVM; here the starts are random directions,
    and all are followed together by the single loop of :class:`deepsep.TSVM`. Their boundaries satisfy a constraint on
    labels, and these the one on the mean score.

    References
    ----------
    Y.-F. Li, Z.-H. Zhou. Towards making unlabeled data never hurt. IEEE Transactions on Pattern Analysis and Machine
    Intelligence 37, 2015; first in ICML 2011.
    """

    method_name = "s4vm"
    _ends: ClassVar = {"safe labels": "optimum of the SVM on the safest labels"}

    n_starts: int = integer(50, 1)
    n_boundaries: int = integer(10, 1)
    risk: float = real(3.0, at_least=0)
    balance: bool = True

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], SolverSettings]:
        starts, kept = int(self.n_starts), int(self.n_boundaries)
        path = partial(safe_labels, rng=rng, n_starts=starts, n_boundaries=kept, risk=float(self.risk))
        return {"balance": bool(self.balance)}, SolverSettings("safe labels", self.max_iter, self.tol, path)
