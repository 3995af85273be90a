"""GradientTSVM: Chapelle and Zien's ∇TSVM, with smooth losses and gradient descent."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.solvers.one_vs_rest import SolverSettings
from deepsep.zoo.transductive.smooth_descent import smooth_descent


@settings
class GradientTSVM(LowDensitySVM):
    r"""∇TSVM: a transductive SVM with smooth losses, solved by gradient descent.

    For each class against the rest it minimises

    .. math::

        \tfrac12 \|w\|^2 + C \sum_{\text{labelled}} H(y_i f(x_i))^2
        + C^* \sum_{\text{unlabelled}} \exp\bigl(-s f(x_i)^2\bigr)

    from the supervised SVM, with :math:`C^*` doubled in steps up to its value: while it is small the objective is
    nearly convex, and each minimum is the start for the next one. Of the transductive SVMs here it is the least
    sensitive to C, and ends in poor local minima least often.

    Parameters
    ----------
    sharpness : float, default=3.0
        s. A larger value narrows the band around the boundary in which unlabelled rows cost.
    steps : int, default=10
        Number of times that :math:`C^*` is doubled. 0: the full cost from the start.
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`. False: a free bias, which
        may leave all unlabelled rows on one side.
    max_iter : int, default=1000
        Maximum number of iterations of L-BFGS for each class and step.
    tol : float, default=1e-6
        L-BFGS stops when an iteration lowers the objective by a smaller share than a tenth of this.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Final value of the objective.
    duality_gap_ : array (c,)
        Half the squared norm of the gradient, divided by the objective: 0 at a stationary point.
    n_iter_ : int
        Iterations of L-BFGS over all steps and classes.

    Notes
    -----
    Chapelle and Zien use conjugate gradients, and let :math:`C^*` end at C, the same cost for labelled and unlabelled
    rows; here ``C_star`` has the default of :class:`deepsep.TSVM`.

    References
    ----------
    O. Chapelle, A. Zien. Semi-supervised classification by low density separation. AISTATS 2005.
    """

    method_name = "gradient-tsvm"
    _ends: ClassVar = {"gradient": "a minimum of the smooth objective"}
    _gap: ClassVar[str] = "relative squared gradient"

    sharpness: float = real(3.0, above=0)
    steps: int = integer(10, 0)
    balance: bool = True

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], SolverSettings]:
        path = partial(smooth_descent, sharpness=float(self.sharpness), steps=int(self.steps))
        return {"balance": bool(self.balance)}, SolverSettings("gradient", self.max_iter, self.tol, path)
