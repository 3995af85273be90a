"""SwitchingTSVM: Joachims' transductive SVM, which switches pairs of labels of unlabelled rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.declared_settings import settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.solvers.one_vs_rest import SolverSettings
from deepsep.zoo.transductive.label_switching import label_switching


@settings
class SwitchingTSVM(LowDensitySVM):
    r"""Transductive SVM by label switching: unlabelled rows get labels, and pairs of them are switched.

    For each class against the rest it minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_{\text{labelled}} H(y_i f(x_i)) + C^* \sum_{\text{unlabelled}} H(y^*_i f(x_i)),

    over w, b and the labels :math:`y^*`, of which a fixed share is positive. The rows that the supervised SVM scores
    highest start as positive, and :math:`C^*` starts at 1e-5 and is doubled up to its value. Whenever a positive and a
    negative row together cost more than with switched labels, their labels are switched, and the SVM is trained again,
    until there is no such pair.

    It fixes the share of rows on the positive side of each boundary, where :class:`deepsep.TSVM` fixes the mean
    score. Right shares help; wrong ones do harm, since labels are taken from one class to fill another. Pass ``priors``
    if the shares of the population differ from those of the labels.

    Parameters
    ----------
    priors : dict {class: share}, optional
        Class shares in the population: of the rows labelled positive. None: those of the labelled rows.
        Probabilities are corrected for them, as in :class:`deepsep.TSVM`.
    max_iter : int, default=1000
        Maximum number of passes over the rows in one convex problem, and of convex problems for each class.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Objective after each training of the SVM with the final :math:`C^*`; it never rises.
    n_iter_ : int
        Number of SVMs that were trained.

    Notes
    -----
    Joachims switches one pair at a time; here all pairs that gain are switched before the SVM is trained again, which
    is much faster and ends when no pair gains either. A row has one label for any weight, so with unequal weights the
    share is only approximate.

    References
    ----------
    T. Joachims. Transductive inference for text classification using support vector machines. ICML 1999.

    V. Sindhwani, S. S. Keerthi. Large scale semi-supervised linear SVMs. SIGIR 2006 (several pairs at a time).
    """

    method_name = "switching-tsvm"
    _ends: ClassVar = {"label switching": "no pair of labels is worth switching"}

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], SolverSettings]:
        return {"balance": True}, SolverSettings("label switching", self.max_iter, self.tol, label_switching)
