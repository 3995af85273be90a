"""ContinuationTSVM: the objective of ∇TSVM, convolved with narrower and narrower Gaussians.

With normal noise of mean 0 and variance v in every weight, f(x) = w . x + b has the variance v |x|^2, so the mean of
the objective needs one-dimensional integrals only. A free bias has no noise.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from scipy.special import ndtr

from deepsep.classifiers.declared_settings import settings
from deepsep.core.arrays import Array
from deepsep.solvers.one_vs_rest import Path
from deepsep.solvers.problem import Problem, Result
from deepsep.zoo.transductive.gradient_tsvm import GradientTSVM, descend, smooth_objective, with_gradient


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
        Number of steps in which v falls to a thousandth of its first value, before it is 0. With the first value the
        problem is convex.
    balance : bool, default=True
        Whether to fix the mean score over the unlabelled rows, as in :class:`deepsep.TSVM`. False: a free bias, with
        which the first problem need not be convex.

    Attributes
    ----------
    objective_path_ : list of c arrays
        Final value of J.

    References
    ----------
    O. Chapelle, M. Chi, A. Zien. A continuation method for semi-supervised SVMs. ICML 2006.
    """

    method_name = "continuation-tsvm"
    _ends: ClassVar = {"continuation": "a minimum of the smooth objective"}

    def _path(self, rng: np.random.Generator) -> Path:
        return partial(continuation, sharpness=float(self.sharpness), steps=int(self.steps))


def continuation(
    problem: Problem,
    start: Result,
    *,
    tol: float,
    max_iter: int,
    aim: float | None = None,
    sharpness: float = 3.0,
    steps: int = 10,
    fall: float = 1e-3,
) -> Result:
    """Follow the minimum from a variance at which the objective is convex down to 0.

    The variance falls to a share ``fall`` of its first value in geometric steps, and is 0 in a last one.
    """
    norms = squared_norms(problem.labeled, problem.centre), squared_norms(problem.unlabeled, problem.centre)
    first = convex_variance(norms[1], problem.cost_unlabeled, sharpness)
    stages = [
        partial(convolved_objective, norms=norms, variance=variance, sharpness=sharpness)
        for variance in first * np.geomspace(1, fall, steps + 1)
        if variance
    ]
    stages = [*stages, partial(smooth_objective, sharpness=sharpness)]
    return descend(problem, start, stages, tol=tol, max_iter=max_iter)


def convolved_objective(
    at: Array, problem: Problem, k: int, norms: tuple[Array, Array], variance: float, sharpness: float = 3.0
) -> tuple[float, Array]:
    """Return the mean of the objective over noise of this variance in every weight, and its gradient.

    The part of the mean of |w|² / 2 that does not depend on w is left out. ``norms`` are the squared norms of the
    labelled and of the unlabelled rows.
    """

    def labeled(f: Array) -> tuple[float, Array]:
        signs, cost = problem.signs[k], problem.cost_labeled
        loss, slope = convolved_squared_hinge(1 - signs * f, variance * norms[0])
        return float(cost @ loss), -cost * signs * slope

    def unlabeled(f: Array) -> tuple[float, Array]:
        loss, slope = convolved_peak(f, variance * norms[1], sharpness)
        return float(problem.cost_unlabeled @ loss), problem.cost_unlabeled * slope

    return with_gradient(at, problem, k, labeled, unlabeled)


def convolved_squared_hinge(slack: Array, variance: Array) -> tuple[Array, Array]:
    """Return the mean of max(0, slack + e)² over normal noise e of these variances, and its slope."""
    deviation = np.sqrt(np.maximum(variance, 1e-100))  # practically 0, but t has a square
    t = slack / deviation
    below, density = ndtr(t), np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
    return (slack * slack + variance) * below + slack * deviation * density, 2 * (slack * below + deviation * density)


def convolved_peak(f: Array, variance: Array, sharpness: float) -> tuple[Array, Array]:
    """Return the mean of exp(-s (f + e)²) over normal noise e of these variances, and its slope."""
    wider = 1 + 2 * sharpness * variance
    peak = np.exp(-sharpness * f * f / wider) / np.sqrt(wider)
    return peak, -2 * sharpness * f * peak / wider


def convex_variance(norms: Array, cost: Array, sharpness: float) -> float:
    """Return a variance from which on the convolved objective is convex in w; 0 if it always is.

    The second derivative of the loss of an unlabelled row is lowest at f = 0: -2 s (1 + 2 s v |x|²)^(-3/2). If the sum
    of its absolute values, each times C* |x|², is at most 1, the curvature of |w|² / 2 is larger in every direction.
    """

    def excess(variance: float) -> float:
        curvature = 2 * sharpness * (1 + 2 * sharpness * variance * norms) ** -1.5
        return float(cost @ (norms * curvature)) - 1

    if excess(0.0) <= 0:
        return 0.0
    variance = 1 / (2 * sharpness * norms.max())
    while excess(variance) > 0:
        variance *= 2
    return float(variance)


def squared_norms(rows: Any, centre: Array | None) -> Array:
    """Return |x - centre|² of every row."""
    if not issparse(rows):
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    norms = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return norms if centre is None else np.maximum(norms - 2 * (rows @ centre) + centre @ centre, 0)
