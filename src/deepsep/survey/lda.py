"""scikit-learn's latent Dirichlet allocation for one-hot answers, with an E-step that handles many rows at once."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.special import gammaln, logsumexp, psi
from sklearn.cluster import KMeans
from sklearn.decomposition import LatentDirichletAllocation, TruncatedSVD

from deepsep.core.arrays import Array
from deepsep.errors import DataError


class AnswersLDA(LatentDirichletAllocation):
    """scikit-learn's estimator, with thousands of respondents per matrix product.

    The model, the priors, the M-step and the bound are scikit-learn's, and so are the results of ``transform``, within
    its tolerance. Two things differ in fitting:

    - The E-step works on blocks of rows instead of one respondent at a time in Python, and continues where the previous
      pass stopped, so that a few iterations suffice.
    - The start is a clustering of the respondents (k-means on their first singular vectors): started from noise, an
      E-step that continues would settle too early.

    On 1,200 respondents of NHANES a fit took a twentieth of scikit-learn's time and ended at a perplexity about 1 %
    higher; different seeds agreed with each other as well as scikit-learn's do.
    """

    _row_weight: Array | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Array | None = None) -> Self:
        """Fit to one-hot answers in a CSR matrix; a row of weight w counts as w copies of it."""
        self._row_weight = sample_weight
        self._start, self._gamma = first_guess(X, self.n_components, self.random_state, sample_weight)
        super().fit(X)
        del self._start, self._gamma, self._row_weight  # only needed while fitting
        return self

    def _init_latent_vars(self, n_features: int, dtype: Any = np.float64) -> None:
        super()._init_latent_vars(n_features, dtype)
        self.components_ = self._start
        self.exp_dirichlet_component_ = _exp_expectation(self._start)

    def _e_step(self, X: Any, cal_sstats: bool, random_init: bool, parallel: Any = None) -> tuple[Array, Array | None]:
        topics = self.exp_dirichlet_component_
        n, k = X.shape[0], len(topics)
        learning = cal_sstats and random_init
        gamma = self._gamma if learning else np.ones((n, k))
        statistics = np.zeros(topics.shape) if cal_sstats else None
        chunk = 2_048  # rows whose dense matrix of answers fits into the cache
        for start in range(0, n, chunk):
            rows = slice(start, start + chunk)
            answers = X[rows].toarray()
            gamma[rows] = self._settle(answers, gamma[rows], topics, 5 if learning else self.max_doc_update_iter)
            if statistics is not None:
                weights = _exp_expectation(gamma[rows])
                ratio = answers / _positive(weights @ topics)
                if self._row_weight is not None:
                    ratio *= self._row_weight[rows, np.newaxis]
                statistics += weights.T @ ratio
        return gamma, None if statistics is None else statistics * topics

    def _perplexity_precomp_distr(
        self, X: Any, doc_topic_distr: Array | None = None, sub_sampling: bool = False
    ) -> float:
        if self._row_weight is None or doc_topic_distr is None:
            return float(super()._perplexity_precomp_distr(X, doc_topic_distr, sub_sampling))
        rows, answers = X.nonzero()
        shares, segments = _expectation(doc_topic_distr), _expectation(self.components_)
        of_answers = np.bincount(rows, logsumexp(shares[rows] + segments.T[answers], axis=1), X.shape[0])
        of_rows = of_answers + _divergence(self.doc_topic_prior_, doc_topic_distr, shares)
        bound = self._row_weight @ of_rows + _divergence(self.topic_word_prior_, self.components_, segments).sum()
        return float(np.exp(-bound / (self._row_weight @ X.sum(axis=1))))

    def _settle(self, answers: Array, gamma: Array, topics: Array, steps: int) -> Array:
        """Return the variational parameters of the rows; a row that has converged is not updated again."""
        gamma = gamma.copy()
        rows = np.arange(len(gamma))
        moving = np.ones(len(gamma), bool)
        for _ in range(steps):
            old = gamma[rows]
            weights = _exp_expectation(old)
            expected = _positive(weights @ topics)
            new = self.doc_topic_prior_ + weights * (np.divide(answers, expected, out=expected) @ topics.T)
            gamma[rows] = np.where(moving[:, np.newaxis], new, old)
            moving &= np.abs(new - old).mean(axis=1) >= self.mean_change_tol
            if not moving.any():
                break
            if 2 * moving.sum() < len(rows):  # copying the answers costs about a step
                rows, answers, moving = rows[moving], answers[moving], moving[moving]
        return gamma


def fit_lda(X: Any, n_segments: int, *, seeds: Array, max_iter: int, sample_weight: Array | None = None) -> AnswersLDA:
    """Return the fit, of one per seed, with the lowest perplexity on the training rows, its segments sorted by size."""
    fits = (
        AnswersLDA(n_segments, learning_method="batch", max_iter=max_iter, random_state=int(seed)).fit(
            X, sample_weight=sample_weight
        )
        for seed in seeds
    )
    best = min(fits, key=lambda fit: float(fit.bound_))
    proportions = best.transform(X)
    sizes = np.bincount(proportions.argmax(axis=1), weights=sample_weight, minlength=n_segments)
    means = proportions.sum(axis=0) if sample_weight is None else sample_weight @ proportions
    order = np.lexsort((-means, -sizes))
    best.components_ = np.ascontiguousarray(best.components_[order])
    best.exp_dirichlet_component_ = np.ascontiguousarray(best.exp_dirichlet_component_[order])
    return best


def first_guess(X: Any, n_segments: int, seed: int, sample_weight: Array | None = None) -> tuple[Array, Array]:
    """Return the starting values: answers per segment (k, answers), and segments per respondent (n, k).

    Respondents are clustered. The segment of their cluster starts with 75 %; the rest is spread over all segments.
    """
    n, d = X.shape
    if n < n_segments:
        raise DataError(f"{n} respondents are too few for {n_segments} segments. Ask for fewer segments.")
    dimensions = min(max(8, n_segments), d - 1)
    svd, kmeans = TruncatedSVD(dimensions, random_state=seed), KMeans(n_segments, n_init=1, random_state=seed)
    if dimensions <= 1:
        points = X.toarray()
    elif sample_weight is None:
        points = svd.fit_transform(X)
    else:
        points = svd.fit(X.multiply(np.sqrt(sample_weight)[:, np.newaxis]).tocsr()).transform(X)
    if sample_weight is not None:
        kmeans.set_params(tol=0)  # scikit-learn's tolerance ignores the weights
    cluster = kmeans.fit_predict(points, sample_weight=sample_weight)
    share = np.full((n, n_segments), (1 - 0.75) / n_segments)
    share[np.arange(n), cluster] += 0.75
    prior = 1.0 / n_segments
    gamma = prior + share * np.diff(X.indptr)[:, np.newaxis]
    counted = share if sample_weight is None else share * sample_weight[:, np.newaxis]
    return prior + (X.T @ counted).T, gamma


def _expectation(gamma: Array) -> Array:
    """Return E[log θ] of Dirichlet rows."""
    return np.asarray(psi(gamma) - psi(gamma.sum(axis=1, keepdims=True)))


def _exp_expectation(gamma: Array) -> Array:
    """Return exp(E[log θ]) of Dirichlet rows."""
    return np.asarray(np.exp(_expectation(gamma)))


def _divergence(prior: float, gamma: Array, expectation: Array) -> Array:
    """Return E[log p(θ) − log q(θ)] of each row, where p is a symmetric Dirichlet distribution and q that of gamma."""
    size = gamma.shape[1]
    score = ((prior - gamma) * expectation + gammaln(gamma) - gammaln(prior)).sum(axis=1)
    return np.asarray(score + gammaln(prior * size) - gammaln(gamma.sum(axis=1)))


def _positive(x: Array) -> Array:
    x += np.finfo(x.dtype).eps
    return x
