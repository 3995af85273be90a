r"""Variational inference for a Gaussian process between two classes with a null category in which no row lies.

The likelihoods are those of :class:`deepsep.classifiers.NullCategoryGP`. The latent function is f(x) = z(x) · v + b
with v ~ N(0, I), where z are features of a kernel from inducing points.

The posterior of v is approximated by a Gaussian q (Titsias 2009; Hensman et al. 2015) that raises

    ELBO(q) = sum_i weight_i E_q log p(y_i | f(x_i)) - KL(q(v) || N(0, I)),

in which f(x_i) also has the variance of the kernel that the features miss. q is the prior times a Gaussian site for
each row. Sites are updated by conjugate-computation variational inference: a natural-gradient step replaces them by the
slope and curvature of the expected log likelihood (Khan & Lin 2017). Precisions of sites are at least 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.optimize import brentq
from scipy.special import log_ndtr

from deepsep.core.arrays import Array


class Expected(NamedTuple):
    """Expected log likelihood of each row, and its slopes in the mean and the variance of f."""

    value: Array
    in_mean: Array
    in_variance: Array


@dataclass(frozen=True)
class SitePlan:
    """Schedule of the updates of sites."""

    rounds: int = 10  # with the labelled rows alone, and then of those in which the unlabelled ones gain weight
    max_iter: int = 50  # rounds after that
    damping: float = 0.5  # share of the way to its target that a site moves in a round
    tol: float = 1e-2  # change of a mean of f at which the rounds end


@dataclass(frozen=True)
class NullCategory:
    """Posterior in which v is N(mean, S), where S is the transpose of ``root`` times ``root``."""

    mean: Array  # (m,)
    root: Array  # (m, m), a lower triangle
    offset: float  # b
    width: float  # w

    def moments(self, Z: Array, residual: Array) -> tuple[Array, Array]:
        """Return mean and variance of f for rows with these features and this residual variance."""
        return Z @ self.mean + self.offset, residual + np.square(Z @ self.root.T).sum(axis=1)

    def probabilities(self, Z: Array, residual: Array) -> Array:
        """Return the probability of the positive class of rows, given that they are not of the null category."""
        return share_of_positive(*self.moments(Z, residual), self.width)

    def divergence(self) -> float:
        """Return KL(q(v) || N(0, I))."""
        log_det = -2 * np.log(np.diagonal(self.root)).sum()
        return float(0.5 * (np.square(self.root).sum() + self.mean @ self.mean - len(self.mean) + log_det))


class NullCategoryFit(NamedTuple):
    """Posterior, ELBO after each round with all rows at full weight, and whether the rounds converged."""

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
    plan: SitePlan | None = None,
) -> NullCategoryFit:
    """Fit the posterior to rows with these features, (n, m), and this variance of f that the features miss, (n,).

    ``sign`` is 0 for an unlabelled row, of weight ``strength`` relative to a labelled one. ``share`` is the mean
    probability of the positive class over the unlabelled rows, to which b is adjusted in each round; otherwise b is 0.
    """
    plan = SitePlan() if plan is None else plan
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
    return NullCategoryFit(q, elbo_path, converged)


def given_sites(Z: Array, slope: Array, precision: Array) -> tuple[Array, Array]:
    """Return the mean of v, and the R for which its covariance is Rᵀ R, given a Gaussian site for each row."""
    P, active = np.eye(Z.shape[1]), precision > 0  # in the first rounds, only labelled rows
    if active.any():
        P += dsyrk(1.0, Z[active] * np.sqrt(precision[active])[:, None], trans=1, lower=1)
    root = np.tril(solve_triangular(cholesky(P, lower=True), np.eye(len(P)), lower=True))
    return root.T @ (root @ (Z.T @ slope)), root


def expected_log_likelihood(mu: Array, variance: Array, sign: Array, width: float, n_nodes: int = 20) -> Expected:
    """Return E log p(y | f) of each row for a normal f, by Gauss-Hermite quadrature, and the slopes of the sum."""
    nodes, part = np.polynomial.hermite_e.hermegauss(n_nodes)
    part = part / part.sum()
    deviation = np.sqrt(np.maximum(variance, 1e-12))
    value, slope = log_likelihood(mu[:, None] + deviation[:, None] * nodes, sign[:, None], width)
    return Expected(value @ part, slope @ part, slope @ (part * nodes) / (2 * deviation))


def log_likelihood(f: Array, sign: Array, width: float) -> tuple[Array, Array]:
    """Return log p(y | f) and its slope; for sign 0, that the row is not of the null category."""
    log_root = 0.5 * np.log(2 * np.pi)
    half, free = width / 2, np.broadcast_to(sign == 0, f.shape)
    own = np.where(free, f, sign * f) - half
    value, peak = log_ndtr(own), -np.square(own) / 2 - log_root
    slope = np.where(free, 1.0, sign) * np.ones_like(f)
    other = -f[free] - half
    value[free] = np.logaddexp(value[free], log_ndtr(other))
    slope *= np.exp(peak - value)
    slope[free] -= np.exp(-np.square(other) / 2 - log_root - value[free])
    return value, slope


def share_of_positive(mu: Array, variance: Array, width: float) -> Array:
    """Return p(+1) / (p(+1) + p(-1)) of rows, both averaged over f."""
    deviation = np.sqrt(1 + variance)
    log_odds = log_ndtr((mu - width / 2) / deviation) - log_ndtr((-mu - width / 2) / deviation)
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -500, 500))))


def offset_for(share: float, mu: Array, variance: Array, weight: Array, width: float) -> float:
    """Return the constant to add to f for a mean probability ``share`` of the positive class."""
    part = weight / weight.sum()

    def excess(offset: float) -> float:
        return float(part @ share_of_positive(mu + offset, variance, width)) - share

    # 20 deviations from the boundary a row is certain.
    reach = 20.0 * (1 + float(np.sqrt(variance.max()))) + float(np.abs(mu).max())
    return float(brentq(excess, -reach, reach, xtol=1e-10))
