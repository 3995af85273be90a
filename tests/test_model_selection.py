"""LabelledFold: unlabelled rows train in every fold and are never scored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepsep import TSVM, LabelledFold
from deepsep.errors import LabelError, ParameterError


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(3, 9), min_size=2, max_size=4),
    unlabelled=st.integers(0, 30),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_partition(counts, unlabelled, repeats, seed):
    y = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(unlabelled, -1)])
    np.random.default_rng(seed).shuffle(y)
    fold = LabelledFold(3, n_repeats=repeats, random_state=seed)
    splits = list(fold.split(np.zeros((len(y), 1)), y))
    assert len(splits) == fold.get_n_splits() == 3 * repeats
    seen = np.zeros(len(y), int)
    for train, test in splits:
        seen[test] += 1
        assert not np.intersect1d(train, test).size
        assert len(train) + len(test) == len(y)
        assert set(np.flatnonzero(y == -1)) <= set(train)
        assert set(y[test]) == set(y[train]) - {-1} == set(range(len(counts)))
    assert (seen[y >= 0] == repeats).all()
    assert (seen[y == -1] == 0).all()
    again = [test.tolist() for _, test in fold.split(None, y)]
    assert again == [test.tolist() for _, test in splits]


def easy():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-2, 1, (150, 2)), rng.normal(2, 1, (150, 2))])
    y = np.full(300, None)
    y[:12], y[-12:] = "left", "right"
    return X, y


def test_it_tells_the_truth_where_plain_folds_do_not():
    X, y = easy()
    codes = np.array([{"left": 0, "right": 1, None: -1}[v] for v in y])
    assert cross_val_score(TSVM(), X, codes, cv=5).mean() < 0.5
    assert cross_val_score(TSVM(), X, codes, cv=LabelledFold(random_state=0)).mean() == 1.0
    assert cross_val_score(TSVM(), X, y, cv=LabelledFold(random_state=0)).mean() == 1.0


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "balanced_accuracy"])
def test_grid_search_through_a_pipeline(scoring):
    X, y = easy()
    pipeline = make_pipeline(StandardScaler(), TSVM(random_state=0))
    search = GridSearchCV(pipeline, {"tsvm__C": [0.01, 1.0]}, cv=LabelledFold(4, random_state=0), scoring=scoring)
    search.fit(X, y)
    assert np.isfinite(search.best_score_)
    assert set(search.predict(X)) == {"left", "right"}


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: LabelledFold(1), ParameterError, "n_splits=1"),
        (lambda: LabelledFold(n_repeats=0), ParameterError, "n_repeats=0"),
        (lambda: list(LabelledFold().split([[0]] * 4)), LabelError, "needs y"),
        (lambda: list(LabelledFold(5).split([[0]] * 6, [0, 0, 0, 1, 1, -1])), LabelError, "class .*1.* has 2"),
        (lambda: list(LabelledFold(2).split([[0]] * 3, [0, 0, 1, 1])), LabelError, "3 rows and y has 4"),
    ],
)
def test_bad_use(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_sets_that_do_not_partition_are_refused_by_scikit_learn():
    """cross_val_predict wants each row in one test fold; unlabelled rows are in none, and scikit-learn says so."""
    X, y = easy()
    with pytest.raises(ValueError, match="partition"):
        cross_val_predict(LogisticRegression(), X, y, cv=LabelledFold())
