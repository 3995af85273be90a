"""GradientTSVM: Chapelle and Zien's ∇TSVM, with smooth losses and gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.classifiers.tsvm.low_density_svm import LowDensitySVM
from deepsep.core.arrays import Array
from deepsep.solvers.one_vs_rest import Path
from deepsep.solvers.problem import Problem, Result


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

    def _path(self, rng: np.random.Generator) -> Path:
        return partial(smooth_descent, sharpness=float(self.sharpness), steps=int(self.steps))


Loss = Callable[[Array], tuple[float, Array]]  # of the scores: the cost of all rows, and its slope for each
Objective = Callable[[Array, Problem, int], tuple[float, Array]]  # at w, of problem k: value and gradient


def smooth_descent(
    problem: Problem,
    start: Result,
    *,
    tol: float,
    max_iter: int,
    aim: float | None = None,
    sharpness: float = 3.0,
    steps: int = 10,
) -> Result:
    """Descend from the supervised SVM while the cost of the unlabelled rows grows from C* / 2^steps to C*."""
    factors = 2.0 ** np.arange(-steps, 1)
    stages = [partial(smooth_objective, factor=factor, sharpness=sharpness) for factor in factors]
    return descend(problem, start, stages, tol=tol, max_iter=max_iter)


def descend(
    problem: Problem,
    start: Result,
    stages: Sequence[Objective],
    *,
    tol: float,
    max_iter: int,
    max_gap: float = 1e-2,
) -> Result:
    """Minimise one objective after the other, each from the minimum of the one before.

    The gap is |gradient|² / 2 over the objective, an upper bound of the possible gain if the losses are convex and the
    bias is fixed. A point with a gap up to ``max_gap`` counts as a minimum; it is larger for badly scaled rows.
    """
    ends = []
    for k in range(len(start.w)):
        at = np.append(start.w[k], start.b[k])[: start.w.shape[1] + (problem.target is None)]
        n_iter = 0
        for objective in stages:
            found = minimize(
                objective,
                at,
                args=(problem, k),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "gtol": 0.0, "ftol": 0.1 * tol},
            )
            at, n_iter = found.x, n_iter + int(found.nit)
        gap = np.array([0.5 * float(found.jac @ found.jac) / max(found.fun, np.finfo(float).tiny)])
        ended = (gap <= max_gap) & (found.nit < max_iter) & (found.nfev < 2 * max_iter)
        b = at[-1:] if problem.target is None else problem.target[[k]].astype(np.float64)
        ends.append(Result(at[None, : start.w.shape[1]], b, [[float(found.fun)]], gap, n_iter, ended))
    return Result.joined(ends)


def smooth_objective(
    at: Array, problem: Problem, k: int, factor: float = 1.0, sharpness: float = 3.0
) -> tuple[float, Array]:
    """Return the objective of problem k and its gradient at w, followed by a free bias.

    ``factor`` multiplies the cost C* of an unlabelled row.
    """

    def labeled(f: Array) -> tuple[float, Array]:
        slack = np.maximum(1 - problem.signs[k] * f, 0)
        return problem.cost_labeled @ (slack * slack), -2 * problem.cost_labeled * problem.signs[k] * slack

    def unlabeled(f: Array) -> tuple[float, Array]:
        cost, peak = factor * problem.cost_unlabeled, np.exp(-sharpness * f * f)
        return cost @ peak, -2 * sharpness * cost * f * peak

    return with_gradient(at, problem, k, labeled, unlabeled)


def with_gradient(at: Array, problem: Problem, k: int, labeled: Loss, unlabeled: Loss) -> tuple[float, Array]:
    """Return |w|² / 2 plus the losses of both kinds of rows, and the gradient at w, followed by a free bias."""
    m = problem.labeled.shape[1]
    w, b = at[:m], at[m] if problem.target is None else problem.target[k]
    shift = 0.0 if problem.centre is None else problem.centre @ w
    value, gradient, bias = 0.5 * w @ w, w.copy(), 0.0
    for x, loss in ((problem.labeled, labeled), (problem.unlabeled, unlabeled)):
        cost, slope = loss((x @ w.astype(x.dtype)).astype(np.float64) - shift + b)
        value += cost
        gradient += (slope.astype(x.dtype) @ x).astype(np.float64)
        bias += slope.sum()
        if problem.centre is not None:
            gradient -= slope.sum() * problem.centre
    return float(value), gradient if problem.target is not None else np.append(gradient, bias)
