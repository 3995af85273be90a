"""ContinuationTSVM: the objective of ∇TSVM, minimised while it is smoothed less and less."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.declared_settings import settings
from deepsep.solvers.one_vs_rest import SolverSettings
from deepsep.zoo.transductive.continuation import continuation
from deepsep.zoo.transductive.gradient_tsvm import GradientTSVM


@settings
class ContinuationTSVM(GradientTSVM):
    r"""Continuation: the objective of ∇TSVM, minimised while it is smoothed less and less.

    The objective J of :class:`deepsep.classifiers.GradientTSVM` has many local minima. Its mean over normal noise in
    the weights,

    .. math::

        J_v(w) = \mathrm{E}\, J(w + e), \quad e \sim N(0, v I),

    has fewer, and a single one where the variance v is large. That one is followed while v falls to 0: each minimum is
    the start for the next. The mean has a closed form: an unlabelled row x costs
    :math:`a^{-1/2} \exp(-s f(x)^2 / a)` with :math:`a = 1 + 2 s v \lVert x \rVert^2`, and a labelled one the mean of a
    squared hinge over a normal slack.

    Parameters
    ----------
    steps : int, default=10
        Number of steps in which v falls to a thousandth of its first value, before it is 0.
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`. False: a free bias, with
        which the first problem need not be convex.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Final value of J.

    Notes
    -----
    The first v makes the smoothed problem convex, by a bound on the trace of its curvature. Here ``C_star`` has the
    default of :class:`deepsep.TSVM`, as in :class:`deepsep.classifiers.GradientTSVM`.

    References
    ----------
    O. Chapelle, M. Chi, A. Zien. A continuation method for semi-supervised SVMs. ICML 2006.
    """

    method_name = "continuation-tsvm"
    _ends: ClassVar = {"continuation": "a minimum of the smooth objective"}

    def _path(self, rng: np.random.Generator) -> tuple[dict[str, Any], SolverSettings]:
        path = partial(continuation, sharpness=float(self.sharpness), steps=int(self.steps))
        return {"balance": bool(self.balance)}, SolverSettings("continuation", self.max_iter, self.tol, path)
