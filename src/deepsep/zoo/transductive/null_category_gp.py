"""Gaussian process classifier with a null category between the classes in which no row lies.

The latent function is f(x) = z(x) · v + b with v ~ N(0, I), where z are features of a kernel from inducing points.
The posterior of v is approximated by a Gaussian q (Titsias 2009; Hensman et al. 2015) that raises

    ELBO(q) = sum_i weight_i E_q log p(y_i | f(x_i)) - KL(q(v) || N(0, I)),

in which f(x_i) also has the variance of the kernel that the features miss. q is the prior times a Gaussian site for
each row. Sites are updated by conjugate-computation variational inference: a natural-gradient step replaces them by the
slope and curvature of the expected log likelihood (Khan & Lin 2017). Precisions of sites are at least 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.optimize import brentq
from scipy.special import log_ndtr
from sklearn.metrics.pairwise import rbf_kernel

from deepsep.classifiers.base import WithPriors
from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.classifiers.tsvm.low_density_svm import rbf_gamma
from deepsep.core.arrays import Array, checked_array, checked_pieces
from deepsep.core.probability import prior_shift
from deepsep.core.training_rows import TrainingRows
from deepsep.solvers.spaces import Kernel, draw_landmarks, pivoted_cholesky, row_blocks
from deepsep.zoo.scaled_method import ScaledMethod


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


@settings
class NullCategoryGP(ScaledMethod, WithPriors):
    r"""Gaussian process classifier with a null category: a gap between the classes in which no row lies.

    For each class against the rest, a latent function f with an RBF kernel, :math:`f \sim GP(0, \sigma^2 k)`, gives the
    class: :math:`p(+1 \mid f) = \Phi(f - w/2)` and :math:`p(-1 \mid f) = \Phi(-f - w/2)`. The remaining probability,
    around f = 0, is that of the null category, to which no row belongs. The likelihood of a labelled row is that of its
    class. The likelihood of an unlabelled row is that it is of either class, which is small where f is close to 0. So f
    changes its sign where there are few rows. With no unlabelled rows and w = 0 this is the ordinary Gaussian process
    classifier.

    The posterior of f is approximated by a Gaussian over its values at inducing points (variational inference), first
    from the labelled rows, and then with a growing weight of the unlabelled ones. Time is linear in the rows and cubic
    in the inducing points.

    With ``balance``, a constant is added to f such that the mean probability of each class over the unlabelled rows is
    a given share. Otherwise, with few labels, one class would take over the others.

    Parameters
    ----------
    width : float, default=1.0
        w, the width of the null category, in units of the noise. 0: unlabelled rows only affect ``balance``.
    gamma : float, "scale" or "auto", default="scale"
        γ of the kernel :math:`e^{-\gamma \lVert x - x' \rVert^2}`, as in scikit-learn's SVC.
    variance : float, default=4.0
        :math:`\sigma^2`, the variance of f. A larger value allows more confident predictions.
    unlabeled_weight : float, default=0.1
        Weight of an unlabelled row relative to a labelled one. The paper has 1, which suits clusters or curved bands
        with a gap between them; if classes overlap, unlabelled rows then outweigh the labels. 0: unlabelled rows only
        affect ``balance``.
    n_inducing : int, default=200
        Maximum number of inducing points, which are random rows, up to half of them labelled.
    balance : {"predicted", "labels"} or None, default="predicted"
        Mean probability of a class over the unlabelled rows, unless ``priors`` are given. "predicted": as predicted
        from the labelled rows alone. "labels": the share among the labelled rows, for labels that are a random sample
        of all rows rather than quotas. None: not fixed.
    priors : dict {class: share}, optional
        Class shares in the population, of which the unlabelled rows are a sample, if they are known to differ from
        those of the labelled rows. They sum to one. Probabilities are corrected for them, with ``balance`` or
        without.
    max_iter : int, default=50
        Maximum number of rounds with all rows at full weight.

    Attributes
    ----------
    gamma_ : float
        γ of the kernel.
    inducing_points_ : array (m, d)
        The inducing points, scaled.
    offset_ : array (c,), or (1,) for two classes
        Constant added to f of each class.
    elbo_path_ : list of arrays
        Lower bound of the log likelihood of each class, after each round with all rows at full weight. Without
        ``balance`` it rises, except for the effect of the limits on precisions.
    n_iter_ : int
        Largest number of rounds of a class at full weight.
    converged_ : array (c,) or (1,) of bool
        Whether the last round changed no mean of f by more than a hundredth.

    References
    ----------
    N. D. Lawrence, M. I. Jordan. Semi-supervised learning via Gaussian processes. NIPS 17, 2005.

    J. Hensman, A. Matthews, Z. Ghahramani. Scalable variational Gaussian process classification. AISTATS 2015.

    M. E. Khan, W. Lin. Conjugate-computation variational inference. AISTATS 2017.
    """

    method_name = "null-category-gp"
    _saved_values: ClassVar = {"gamma_": float}

    width: float = real(1.0, at_least=0)
    gamma: float | Literal["scale", "auto"] = real("scale", above=0, or_else=("scale", "auto"))
    variance: float = real(4.0, above=0)
    unlabeled_weight: float = real(0.1, at_least=0)
    n_inducing: int = integer(200, 2)
    balance: Literal["predicted", "labels"] | None = "predicted"
    priors: Mapping[Any, float] | None = None
    max_iter: int = integer(50, 1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        labeled, unlabeled = rows.labeled, rows.unlabeled
        used = np.concatenate([labeled, unlabeled])
        X, weight = self._fit_scaling(rows).apply(rows.X[used]), rows.weight[used]
        self.gamma_ = rbf_gamma(self.gamma, X, weight)
        few = len(used) <= self.n_inducing
        at = np.arange(len(used)) if few else draw_landmarks(len(used), len(labeled), self.n_inducing, rng)
        features = InducingFeatures.of(X[at].astype(np.float64), float(self.variance), self._kernel())
        Z, residual = features(X)
        free = np.arange(len(used)) >= len(labeled)
        codes, plan = rows.codes[used], SitePlan(damping=0.8, max_iter=self.max_iter)
        classes = range(rows.n_classes) if rows.n_classes > 2 else (1,)
        signs = [np.where(free, 0.0, np.where(codes == k, 1.0, -1.0)) for k in classes]
        fit = partial(fit_null_category, width=float(self.width), strength=float(self.unlabeled_weight), plan=plan)
        shares = None
        if self.balance is not None and free.any():
            shares = self._given_shares(rows)
            if shares is None:
                lab = ~free
                alone = [fit(Z[lab], residual[lab], sign[lab], weight[lab]).posterior for sign in signs]
                shares = weight[free] @ _distributions(alone, Z[free], residual[free]) / weight[free].sum()
            features = features.centred(Z[free], weight[free])
            Z -= features.centre
        self._features, self.inducing_points_ = features, features.points
        solutions = [
            fit(Z, residual, sign, weight, share=None if shares is None else float(shares[k]))
            for k, sign in zip(classes, signs, strict=True)
        ]
        self._posteriors = [solution.posterior for solution in solutions]
        self.offset_ = np.array([posterior.offset for posterior in self._posteriors])
        self.elbo_path_ = [np.array(solution.elbo_path) for solution in solutions]
        self.n_iter_ = max(map(len, self.elbo_path_))
        self.converged_ = np.array([solution.converged for solution in solutions])
        wanted = self._shares()
        if wanted is not None:
            log_p = np.log(np.maximum(_distributions(self._posteriors, Z[free], residual[free]), 1e-30))
            self.prior_shift_ = prior_shift(wanted, log_p, weight[free], codes[~free], weight[~free])

    def _kernel(self) -> Kernel:
        return partial(rbf_kernel, gamma=self.gamma_)

    def _given_shares(self, rows: TrainingRows) -> Array | None:
        if self.priors is not None or self.balance == "predicted":
            return self._shares()
        among = np.bincount(rows.codes[rows.labeled], rows.weight[rows.labeled])
        return np.asarray(among / among.sum())

    def _probabilities(self, X: Array) -> Array:
        P, chunk = np.empty((len(X), len(self.classes_))), 16_384
        for start in range(0, len(X), chunk):
            part = slice(start, start + chunk)
            P[part] = _distributions(self._posteriors, *self._features(self._scaling.apply(X[part])))
        return self._shifted(P)

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, scaling = super()._parts()
        state |= {"width": self._posteriors[0].width, "variance": self._features.variance}
        arrays = {
            **scaling,
            "inducing_points_": self.inducing_points_,
            "triangle": self._features.triangle,
            "feature_centre": self._features.centre,
            "means": np.stack([posterior.mean for posterior in self._posteriors]),
            "roots": np.stack([posterior.root for posterior in self._posteriors]),
            "offset_": self.offset_,
            "converged_": self.converged_,
            "elbo_path_": np.concatenate(self.elbo_path_),
            "elbo_rounds": np.array([len(path) for path in self.elbo_path_]),
        }
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        d, c = self.n_features_in_, len(self.classes_)
        problems = c if c > 2 else 1
        self.inducing_points_ = checked_array(arrays, "inducing_points_", (None, d), "f")
        m = len(self.inducing_points_)
        self._features = InducingFeatures(
            self.inducing_points_,
            checked_array(arrays, "triangle", (m, m), "f"),
            checked_array(arrays, "feature_centre", (m,), "f"),
            float(state["variance"]),
            self._kernel(),
        )
        self.offset_ = checked_array(arrays, "offset_", (problems,), "f")
        self.converged_ = checked_array(arrays, "converged_", (problems,), "b")
        means = checked_array(arrays, "means", (problems, m), "f")
        roots = checked_array(arrays, "roots", (problems, m, m), "f")
        self._posteriors = [
            NullCategory(mean, root, float(offset), float(state["width"]))
            for mean, root, offset in zip(means, roots, self.offset_, strict=True)
        ]
        self.elbo_path_ = checked_pieces(arrays, "elbo_path_", "elbo_rounds", problems)
        self.n_iter_ = max(map(len, self.elbo_path_))


def _distributions(posteriors: list[NullCategory], Z: Array, residual: Array) -> Array:
    """Return the class distributions of rows with these features: one class against the rest, normalised."""
    P = np.column_stack([posterior.probabilities(Z, residual) for posterior in posteriors])
    if P.shape[1] == 1:
        return np.column_stack([1 - P, P])
    P = np.maximum(P, 1e-30)  # so that a row that no class claims is not 0 / 0
    return np.asarray(P / P.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class InducingFeatures:
    """Features z(x) for which z(x) · z(x') is the part of the kernel that the inducing points explain."""

    points: Array  # (m, d)
    triangle: Array  # (m, m): Cholesky factor of their kernel
    centre: Array  # (m,): subtracted from the features
    variance: float  # factor of the kernel, k(x, x) for all x
    kernel: Kernel  # with k(x, x) = 1

    @classmethod
    def of(cls, points: Array, variance: float, kernel: Kernel) -> Self:
        """Return the features of these points, without points that others explain."""
        _, pivots, triangle = pivoted_cholesky(np.array(kernel(points, points), dtype=np.float64))
        return cls(points[pivots], triangle, np.zeros(len(pivots)), variance, kernel)

    def centred(self, Z: Array, weight: Array) -> Self:
        """Return features shifted to a mean of 0 over these rows."""
        return replace(self, centre=self.centre + weight @ Z / weight.sum())

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return the features of rows (n, m), and the variance that they miss (n,)."""
        Z, residual = np.empty((len(X), len(self.points))), np.empty(len(X))
        for part in row_blocks(len(X)):
            seen = self.kernel(X[part].astype(np.float64), self.points)
            Z[part] = solve_triangular(self.triangle, seen.T, lower=True).T
            residual[part] = self.variance * np.maximum(0.0, 1 - np.square(Z[part]).sum(axis=1))
        return np.sqrt(self.variance) * Z - self.centre, residual
