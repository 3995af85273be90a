"""Probabilities from scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_expit, softmax

from deepsep.core.probability import fit_platt, hard_votes, log_shift_to_shares, platt_probabilities

SCORES = st.integers(0, 10**6).map(
    lambda seed: np.random.default_rng(seed).normal(size=(20, 3)) * 10.0 ** (seed % 7 - 3)
)


def test_platt_minimises_its_likelihood():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=60)
    scores = rng.normal(size=(60, 3)) + 1.5 * (codes[:, None] == np.arange(3)) - 0.5
    weight = rng.integers(1, 4, 60).astype(float)
    own = codes[:, None] == np.arange(3)
    w = np.broadcast_to(weight[:, None], own.shape)
    target = np.where(own, (w[own].sum() + 1) / (w[own].sum() + 2), 1 / (w[~own].sum() + 2))

    def loss(theta):
        z = theta[0] * scores + theta[1]
        return -(w * (target * log_expit(z) + (1 - target) * log_expit(-z))).sum()

    best = minimize(loss, [1.0, 0.0], method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(fit_platt(scores, codes, weight), best.x, rtol=1e-5)


def test_platt_counts_a_weight_as_copies():
    rng = np.random.default_rng(1)
    scores, codes, weight = rng.normal(size=(30, 4)), rng.integers(4, size=30), rng.integers(1, 4, 30)
    copies = fit_platt(np.repeat(scores, weight, axis=0), np.repeat(codes, weight), np.ones(weight.sum()))
    np.testing.assert_allclose(fit_platt(scores, codes, weight.astype(float)), copies, rtol=1e-8)


@pytest.mark.parametrize("scores", [np.zeros((6, 3)), np.full((6, 3), 1e9), -np.eye(3)[[0, 1, 2, 0, 1, 2]]])
def test_platt_survives_useless_scores(scores):
    """Constant scores, huge ones, and scores that are exactly wrong: a tiny positive slope, never NaN."""
    slope, offset = fit_platt(scores, np.array([0, 1, 2, 0, 1, 2]), np.ones(6))
    assert slope > 0
    assert np.isfinite([slope, offset]).all()


@settings(max_examples=50)
@given(SCORES)
def test_probabilities_are_a_distribution_in_the_order_of_the_scores(scores):
    codes = np.arange(len(scores)) % 3
    slope, offset = fit_platt(scores, codes, np.ones(len(scores)))
    for p in (platt_probabilities(scores, slope, offset), hard_votes(scores)):
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        winner = np.take_along_axis(p, scores.argmax(axis=1)[:, None], axis=1)[:, 0]
        assert (winner >= p.max(axis=1) - 1e-15).all()


def test_extreme_scores_do_not_divide_zero_by_zero():
    p = platt_probabilities(np.array([[-1e308, -1e308, -1e300]]), 1.0, 0.0)
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1)


def test_known_shares_multiply_the_probabilities_as_bayes_says():
    """Where two populations differ in class shares alone, posteriors differ by the ratio of the shares."""
    rng = np.random.default_rng(0)
    given_class = rng.dirichlet(np.ones(7), size=3)  # P(x | k) over seven values of x
    before, shares = np.array([1 / 3, 1 / 3, 1 / 3]), np.array([0.7, 0.25, 0.05])
    log_p = np.log(before[:, None] * given_class).T  # P(k | x), but for a constant for each x
    shift = log_shift_to_shares(log_p, shares, shares @ given_class)  # a value weighs P(x) in the new population
    ratio = np.log(shares / before)
    np.testing.assert_allclose(shift, ratio - ratio.mean(), atol=1e-6)


@settings(max_examples=50)
@given(SCORES, st.integers(0, 10**6))
def test_mean_probabilities_become_the_shares(scores, seed):
    """From flat probabilities to nearly certain ones, whatever the shares; a weight of k counts as k rows."""
    rng = np.random.default_rng(seed)
    shares = np.maximum(rng.dirichlet(np.ones(3)), 0.01)
    shares /= shares.sum()
    weight = rng.integers(1, 4, len(scores))
    shift = log_shift_to_shares(scores, shares, weight)
    np.testing.assert_allclose(
        softmax(np.repeat(scores, weight, axis=0) + shift, axis=1).mean(axis=0), shares, atol=1e-6
    )
