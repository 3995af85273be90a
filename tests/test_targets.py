"""Probabilities from scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_expit

from deepsep._targets import fit_platt, hard_votes, platt_probabilities, softmax_probabilities

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
    for p in (platt_probabilities(scores, slope, offset), softmax_probabilities(scores), hard_votes(scores)):
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        winner = np.take_along_axis(p, scores.argmax(axis=1)[:, None], axis=1)[:, 0]
        assert (winner >= p.max(axis=1) - 1e-15).all()


def test_extreme_scores_do_not_divide_zero_by_zero():
    p = platt_probabilities(np.array([[-1e308, -1e308, -1e300]]), 1.0, 0.0)
    assert np.isfinite(p).all()
    assert p.sum() == pytest.approx(1)
