"""SemiBoost against the double sums of its paper, and the objective that must fall."""

import numpy as np
import pytest
from rows import affinities, blobs, moons
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from deepsep.classifiers import SemiBoost
from deepsep.core.scaling import Scaling
from deepsep.errors import ParameterError
from deepsep.zoo.wrappers import semiboost as boosting


def pairs(seed=0):
    rng = np.random.default_rng(seed)
    S = affinities(rng.normal(size=(30, 2)), 6)
    signs = np.where(rng.random(8) < 0.5, 1, -1)
    return S, signs, rng.normal(size=22)


def test_pulls_and_objective_are_the_double_sums_of_the_paper():
    S, signs, H = pairs()
    C = 0.3
    similar = boosting.Similarities.of(S, np.arange(8), np.arange(8, 30), signs, C)
    s = S.toarray()
    p, q, objective = np.zeros(22), np.zeros(22), 0.0
    for i in range(22):
        for j in range(8):
            p[i] += s[8 + i, j] * np.exp(-2 * H[i]) * (signs[j] == 1)
            q[i] += s[8 + i, j] * np.exp(2 * H[i]) * (signs[j] == -1)
            objective += s[j, 8 + i] * np.exp(-2 * signs[j] * H[i])
        for j in range(22):
            p[i] += C / 2 * s[8 + i, 8 + j] * np.exp(H[j] - H[i])
            q[i] += C / 2 * s[8 + i, 8 + j] * np.exp(H[i] - H[j])
            objective += C * s[8 + i, 8 + j] * np.exp(H[i] - H[j])
    for mine, literal in zip(similar.pulls(H), (p, q), strict=True):
        np.testing.assert_allclose(mine, literal)
    np.testing.assert_allclose(similar.objective(H), objective)
    np.testing.assert_allclose(p.sum() + q.sum(), objective)


def test_the_weight_of_a_learner_lowers_the_bound_most():
    S, signs, H = pairs()
    p, q = boosting.Similarities.of(S, np.arange(8), np.arange(8, 30), signs, 0.3).pulls(H)
    h = np.where(p > q, 1, -1)
    h[:4] *= -1
    bound = [(p * np.exp(-2 * a * h) + q * np.exp(2 * a * h)).sum() for a in np.linspace(0, 2, 20_001)]
    np.testing.assert_allclose(boosting.weight_of(h, p, q), np.argmin(bound) * 1e-4, atol=1e-4)
    assert boosting.weight_of(-h, p, q) == 0


@pytest.mark.parametrize("data", [moons, blobs])
def test_the_objective_falls_in_every_round(data):
    X, y, truth = data()
    model = SemiBoost(random_state=0).fit(X, y)
    assert len(model.objective_path_) == (1 if truth.max() == 1 else 3)
    for path in model.objective_path_:
        assert len(path) > 1
        assert (np.diff(path) < 0).all()
    assert (model.predict(X) == truth).mean() > 0.85


def test_objective_path_is_that_of_the_model_s_scores():
    X, y, _ = moons()
    model = SemiBoost(random_state=0, n_neighbors=6, C=0.2).fit(X, y)
    rows = Scaling.of(X, np.ones(len(X))).apply(X)
    labeled, u = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    signs = np.where(y[labeled] == 1, 1, -1)
    similar = boosting.Similarities.of(affinities(rows, 6), labeled, u, signs, 0.2)
    H = sum(alpha * tree.predict(rows[u]) for alpha, tree in model.boosted_[0])
    np.testing.assert_allclose(model.objective_path_[0][-1], similar.objective(H))
    np.testing.assert_allclose(model.label_distributions_[u, 1], 1 / (1 + np.exp(-4 * H)))


def test_without_similarities_it_is_the_weak_learner(monkeypatch):
    X, y, _ = blobs()
    monkeypatch.setattr(boosting, "connect", lambda index, affinity: sparse.csr_array((len(index), len(index))))
    model = SemiBoost(estimator=DecisionTreeClassifier(random_state=0), standardize=False).fit(X, y)
    labeled = y >= 0
    rows = X.astype(np.float32)
    for k, one in enumerate(model.boosted_):
        ((_, learner),) = one
        tree = DecisionTreeClassifier(random_state=0).fit(rows[labeled], np.where(y[labeled] == k, 1, -1))
        np.testing.assert_array_equal(learner.predict(rows), tree.predict(rows))


def test_any_classifier_can_be_the_weak_learner():
    X, y, truth = blobs()
    model = SemiBoost(estimator=LogisticRegression(), random_state=0).fit(X, y)
    assert (model.predict(X) == truth).mean() > 0.85
    with pytest.raises(ParameterError, match=r"SemiBoost: estimator='tree'; pass a classifier"):
        SemiBoost(estimator="tree").fit(X, y)


def test_draws_follow_the_weights():
    rng = np.random.default_rng(0)
    weight = np.array([0.0, 1.0, 1.0, 8.0])
    drawn = np.array([np.isin(np.arange(4), boosting.draw_by_weight(weight, 0.5, rng)) for _ in range(2000)])
    assert not drawn[:, 0].any()
    assert (drawn.sum(axis=1) == 2).all()
    first = 0.8 + 2 * 0.1 * 8 / 9  # drawn first, or second after one of the others
    np.testing.assert_allclose(drawn[:, 3].mean(), first, atol=0.02)
    assert not boosting.draw_by_weight(np.zeros(4), 0.5, rng).size
