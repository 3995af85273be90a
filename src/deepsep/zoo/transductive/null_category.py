r"""A Gaussian process between two classes with a null category, in which no row lies: variational inference.

The latent function is f(x) = z(x) · v + b with v ~ N(0, I), where z are features of a kernel seen from inducing points.
Between the classes lies a null category of width w (Lawrence & Jordan 2005):

    p(+1 | f) = Φ(f - w/2),    p(-1 | f) = Φ(-f - w/2),    p(null | f) = Φ(f + w/2) - Φ(f - w/2).

A labelled row says its class. An unlabelled one says that it is not of the null category, p(+1 | f) + p(-1 | f), which
is small around f = 0: few rows may lie where f changes its sign.

The posterior of v is approximated by a Gaussian q (Titsias 2009; Hensman et al. 2015) that raises

    ELBO(q) = sum_i weight_i E_q log p(y_i | f(x_i)) - KL(q(v) || N(0, I)),

in which f(x_i) also has the variance of the kernel that the features do not see. q is the prior times a Gaussian site
for each row, and sites move by conjugate-computation variational inference: a natural-gradient step replaces them by
the slope and curvature of the expected log likelihood (Khan & Lin 2017). Precisions of sites are kept at 0 or above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.optimize import brentq
from scipy.special import log_ndtr

Array = NDArray[Any]

NODES = 20  # of the quadrature
FURTHEST = 20.0  # deviations beyond which a row is certain
LOG_ROOT = 0.5 * np.log(2 * np.pi)
LEAST_VARIANCE = 1e-12


class Expected(NamedTuple):
    """The expected log likelihood of each row, and its slopes in the mean and the variance of f."""

    value: Array
    in_mean: Array
    in_variance: Array


@dataclass(frozen=True)
class Plan:
    """How the sites move.

    Attributes
    ----------
    rounds : int
        Rounds with the labelled rows alone, and then rounds in which the unlabelled ones gain weight.
    max_iter : int
        The most rounds after that.
    damping : float
        The part of the way to its target that a site goes in a round, at most 1.
    tol : float
        The rounds end when no mean of f moves by more than this.
    """

    rounds: int = 10
    max_iter: int = 50
    damping: float = 0.5
    tol: float = 1e-2


@dataclass(frozen=True)
class NullCategory:
    """The posterior: v is N(mean, S), where S is the transpose of ``root`` times ``root``.

    Attributes
    ----------
    mean : array (m,)
        Mean of v.
    root : array (m, m)
        A lower triangle.
    offset : float
        b.
    width : float
        w.
    """

    mean: Array
    root: Array
    offset: float
    width: float

    def moments(self, Z: Array, residual: Array) -> tuple[Array, Array]:
        """Return mean and variance of f for rows with these features and this variance beside them."""
        return Z @ self.mean + self.offset, residual + np.square(Z @ self.root.T).sum(axis=1)

    def probabilities(self, Z: Array, residual: Array) -> Array:
        """Return the probability of the positive class of rows, given that they are not of the null category."""
        return share_of_positive(*self.moments(Z, residual), self.width)

    def divergence(self) -> float:
        """Return KL(q(v) || N(0, I))."""
        log_det = -2 * np.log(np.diagonal(self.root)).sum()
        return float(0.5 * (np.square(self.root).sum() + self.mean @ self.mean - len(self.mean) + log_det))


class Solution(NamedTuple):
    """The posterior, the ELBO after each round in which all rows had their full weight, and how the rounds ended."""

    posterior: NullCategory
    elbo_path: list[float]
    converged: bool


def fit_null_category(
    Z: Array,
    residual: Array,
    sign: Array,
    weight: Array,
    *,
    width: float,
    strength: float = 1.0,
    share: float | None = None,
    plan: Plan | None = None,
) -> Solution:
    """Return the posterior, given all rows.

    Parameters
    ----------
    Z : array (n, m)
        Features of the rows.
    residual : array (n,)
        Variance of f that the features do not see.
    sign : array (n,)
        1 or -1 for a labelled row, 0 for an unlabelled one.
    weight : array (n,)
        How much each row counts.
    width : float
        w, at least 0.
    strength : float
        How much an unlabelled row of weight 1 counts beside a labelled one.
    share : float, optional
        In each round b is found such that the mean probability of the positive class over the unlabelled rows is this.
        None, or no unlabelled rows: b is 0.
    plan : Plan, optional
        How the sites move.
    """
    plan = Plan() if plan is None else plan
    free = sign == 0
    n, m = Z.shape
    slope, precision = np.zeros(n), np.zeros(n)
    q = NullCategory(np.zeros(m), np.eye(m), 0.0, float(width))
    mu, variance = q.moments(Z, residual)
    expected = expected_log_likelihood(mu, variance, sign, width)
    elbo_path: list[float] = []
    converged = False
    parts = np.concatenate([np.zeros(plan.rounds), np.arange(1, plan.rounds) / plan.rounds, np.ones(plan.max_iter)])
    for part in parts if free.any() else parts[parts == 1]:
        counted = weight * np.where(free, strength * part, 1.0)
        target = counted * np.maximum(0.0, -2 * expected.in_variance)
        slope += plan.damping * (counted * expected.in_mean + target * (mu - q.offset) - slope)
        precision += plan.damping * (target - precision)
        q = NullCategory(*given_sites(Z, slope, precision), 0.0, float(width))
        before, (mu, variance) = mu, q.moments(Z, residual)
        if share is not None and free.any():
            q = replace(q, offset=offset_for(share, mu[free], variance[free], weight[free], width))
            mu = mu + q.offset
        expected = expected_log_likelihood(mu, variance, sign, width)
        if part == 1:
            elbo_path.append(float(counted @ expected.value) - q.divergence())
            converged = bool(np.abs(mu - before).max() < plan.tol)
            if converged:
                break
    return Solution(q, elbo_path, converged)


def given_sites(Z: Array, slope: Array, precision: Array) -> tuple[Array, Array]:
    """Return the mean of v, and the R for which its covariance is Rᵀ R, given a Gaussian site for each row."""
    P, felt = np.eye(Z.shape[1]), precision > 0  # before the unlabelled rows come in, only the labelled ones
    if felt.any():
        P += dsyrk(1.0, Z[felt] * np.sqrt(precision[felt])[:, None], trans=1, lower=1)
    root = np.tril(solve_triangular(cholesky(P, lower=True), np.eye(len(P)), lower=True))
    return root.T @ (root @ (Z.T @ slope)), root


def expected_log_likelihood(mu: Array, variance: Array, sign: Array, width: float) -> Expected:
    """Return E log p(y | f) of each row, f normal, by Gauss-Hermite quadrature, and the slopes of that sum."""
    nodes, part = np.polynomial.hermite_e.hermegauss(NODES)
    part = part / part.sum()
    deviation = np.sqrt(np.maximum(variance, LEAST_VARIANCE))
    value, slope = log_likelihood(mu[:, None] + deviation[:, None] * nodes, sign[:, None], width)
    return Expected(value @ part, slope @ part, slope @ (part * nodes) / (2 * deviation))


def log_likelihood(f: Array, sign: Array, width: float) -> tuple[Array, Array]:
    """Return log p(y | f) and its slope; sign 0: that the row is not of the null category."""
    half, free = width / 2, np.broadcast_to(sign == 0, f.shape)
    own = np.where(free, f, sign * f) - half
    value, peak = log_ndtr(own), -np.square(own) / 2 - LOG_ROOT
    slope = np.where(free, 1.0, sign) * np.ones_like(f)
    other = -f[free] - half
    value[free] = np.logaddexp(value[free], log_ndtr(other))
    slope *= np.exp(peak - value)
    slope[free] -= np.exp(-np.square(other) / 2 - LOG_ROOT - value[free])
    return value, slope


def share_of_positive(mu: Array, variance: Array, width: float) -> Array:
    """Return p(+1) / (p(+1) + p(-1)) of rows, each averaged over f."""
    deviation = np.sqrt(1 + variance)
    log_odds = log_ndtr((mu - width / 2) / deviation) - log_ndtr((-mu - width / 2) / deviation)
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -500, 500))))


def offset_for(share: float, mu: Array, variance: Array, weight: Array, width: float) -> float:
    """Return what must be added to f for the mean probability of the positive class to be ``share``."""
    part = weight / weight.sum()

    def excess(offset: float) -> float:
        return float(part @ share_of_positive(mu + offset, variance, width)) - share

    reach = FURTHEST * (1 + float(np.sqrt(variance.max()))) + float(np.abs(mu).max())
    return float(brentq(excess, -reach, reach, xtol=1e-10))
