"""LabelledFold: unlabelled rows train in every fold and are never scored."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepsep import TSVM, DeepSep, LabeledFold, for_table, method, out_of_fold
from deepsep.core.labels import read_labels
from deepsep.errors import DataError, LabelError, LabelWarning, ParameterError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.out_of_fold import Candidate, FoldFits


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(3, 9), min_size=2, max_size=4),
    unlabeled=st.integers(0, 30),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_partition(counts, unlabeled, repeats, seed):
    y = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(unlabeled, -1)])
    np.random.default_rng(seed).shuffle(y)
    fold = LabeledFold(3, n_repeats=repeats, random_state=seed)
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
    assert cross_val_score(TSVM(), X, codes, cv=5, scoring="accuracy").mean() < 0.5
    assert cross_val_score(TSVM(), X, codes, cv=5).mean() > 0.9  # the model's own score leaves unlabelled rows out
    assert cross_val_score(TSVM(), X, codes, cv=LabeledFold(random_state=0)).mean() == 1.0
    assert cross_val_score(TSVM(), X, y, cv=LabeledFold(random_state=0)).mean() == 1.0


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "balanced_accuracy"])
def test_grid_search_through_a_pipeline(scoring):
    X, y = easy()
    pipeline = make_pipeline(StandardScaler(), TSVM(random_state=0))
    search = GridSearchCV(pipeline, {"tsvm__C": [0.01, 1.0]}, cv=LabeledFold(4, random_state=0), scoring=scoring)
    search.fit(X, y)
    assert np.isfinite(search.best_score_)
    assert set(search.predict(X)) == {"left", "right"}


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: LabeledFold(1), ParameterError, "n_splits=1"),
        (lambda: LabeledFold(n_repeats=0), ParameterError, "n_repeats=0"),
        (lambda: list(LabeledFold().split([[0]] * 4)), LabelError, "needs y"),
        (lambda: list(LabeledFold(5).split([[0]] * 6, [0, 0, 0, 1, 1, -1])), LabelError, "class .*1.* has 2"),
        (lambda: list(LabeledFold(2).split([[0]] * 3, [0, 0, 1, 1])), LabelError, "3 rows and y has 4"),
    ],
)
def test_bad_use(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("model", [LogisticRegression(), TSVM()], ids=["theirs", "ours"])
def test_cross_val_predict_is_refused_and_the_cure_named(model):
    X, y = easy()
    with pytest.raises(LabelError, match=r"deepsep\.out_of_fold\(model, X, y\)"):
        cross_val_predict(model, X, y, cv=LabeledFold())


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: VotingClassifier([("one", model), ("two", method("knn"))]),
        lambda model: VotingClassifier([("table", for_table(model))], voting="soft"),
        lambda model: StackingClassifier([("one", model)], LogisticRegression()),
        CalibratedClassifierCV,
        lambda model: CalibratedClassifierCV(model, cv=LabeledFold(3)),
        BaggingClassifier,
        OneVsRestClassifier,
    ],
    ids=["voting", "voting-pipeline", "stacking", "calibration", "calibration-labelled-fold", "bagging", "one-vs-rest"],
)
def test_wrappers_that_take_the_mark_for_a_class_are_refused(wrap):
    X, y = easy()
    codes = np.array([{"left": 0, "right": 1, None: -1}[v] for v in y])
    with pytest.raises(LabelError, match=r"treats the mark of unlabelled rows as a class.*out_of_fold"):
        wrap(TSVM()).fit(X, codes)
    at = codes >= 0
    with pytest.warns(LabelWarning, match="no unlabelled rows"):
        assert wrap(TSVM()).fit(X[at], codes[at]).score(X[at], codes[at]) > 0.9  # all rows labelled: as usual


# -- predictions out of fold -----------------------------------------------------------------------------------


def test_out_of_fold_is_what_fits_by_hand_give():
    X, y = easy()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    weight[[0, 100]] = 0  # a labelled row and an unlabelled one that are not there
    result = out_of_fold(TSVM(), X, y, n_splits=3, n_repeats=2, sample_weight=weight, random_state=5)
    rows, p, here = [], [], np.flatnonzero(weight > 0)
    for repeat in range(2):
        for train, test in LabeledFold(3, random_state=5 + repeat).split(None, y[here]):
            model = TSVM(random_state=5).fit(X[here[train]], y[here[train]], sample_weight=weight[here[train]])
            rows.append(here[test])
            p.append(model.predict_proba(X[here[test]]))
    np.testing.assert_array_equal(result.rows, np.concatenate(rows))
    np.testing.assert_array_equal(result.probabilities, np.concatenate(p))
    np.testing.assert_array_equal(result.weight, weight[result.rows])
    np.testing.assert_array_equal(result.fold, np.repeat(np.arange(6), [len(test) for test in rows]))
    first, second = result.by_repeat(result.rows)
    np.testing.assert_array_equal(np.sort(first), np.sort(second))
    assert (first != second).any()


def test_out_of_fold_takes_tables_and_gives_frames():
    X, y = easy()
    table = pd.DataFrame(X, columns=["a", "b"]).assign(c=np.where(X[:, 0] > 0, "x", "z"))
    model = for_table(method("logistic-regression"))
    frame = out_of_fold(model, table, y, n_splits=4, random_state=0).to_frame()
    assert frame.columns.tolist() == [
        *("row", "fold", "given", "label", "probability_left", "probability_right", "confidence")
    ]
    assert not hasattr(model[-1], "classes_")  # the model itself is not fitted
    assert frame["given"].tolist() == y[frame["row"]].tolist()
    train, test = next(LabeledFold(4, random_state=0).split(table, y))
    by_hand = for_table(method("logistic-regression", random_state=0)).fit(table.iloc[train], y[train])
    first = frame[frame["fold"] == 0]
    assert first["row"].tolist() == test.tolist()
    np.testing.assert_array_equal(first.iloc[:, 4:6], by_hand.predict_proba(table.iloc[test]))


def test_out_of_fold_keeps_every_class_in_training():
    X, y = easy()
    y[20:22], y[30] = "rare", "lonely"
    with pytest.warns(LabelWarning, match="one label are never held out.* lonely"):
        result = out_of_fold(TSVM(), X, y, random_state=0)
    assert result.probabilities.shape == (len(result.rows), 4)
    assert set(result.rows) == set(np.flatnonzero(y != None)) - {30}  # noqa: E711
    assert result.n_training.tolist() == [27 - (result.fold == k).sum() for k in range(5)]


def test_out_of_fold_fits_several_estimators_to_parts_of_the_same_rows():
    X, y = easy()
    labels = read_labels(y)
    folds = deal_folds(labels, n_splits=2, seed=0)
    seen = {}
    candidates = {
        "all": Candidate(TSVM()),
        "labelled": Candidate(TSVM(), labeled_only=True),
        "half": Candidate(TSVM(), label_share=0.5),
        "wrong": Candidate(TSVM(C=-1)),
    }

    def look(name, fitted, fold):
        seen[name, fold.number] = fitted.n_labeled_, fitted.n_unlabeled_
        return fold.X_test.shape

    result = FoldFits(candidates, X, labels, folds, kept_failures=(ValueError,), after_fit=look).fit()
    assert list(result.p) == ["all", "labelled", "half"]
    assert set(result.failures) == {"wrong"}
    assert "C=-1" in result.failures["wrong"]
    assert [seen[name, 0] for name in result.p] == [(12, 276), (12, 0), (6, 282)]
    assert result.extras[1] == dict.fromkeys(result.p, (12, 2))
    again = FoldFits(candidates, X, labels, folds, kept_failures=(ValueError,)).fit(n_jobs=2)
    for name, p in result.p.items():
        np.testing.assert_array_equal(again.p[name], p)
    with pytest.raises(ParameterError, match="C=-1"):
        FoldFits(candidates, X, labels, folds).fit()


def test_unlabeled_rows_can_be_sampled():
    _, y = easy()
    folds = deal_folds(read_labels(y), n_splits=2, max_unlabeled=50)
    assert len(folds.rows) == 24 + 50
    assert folds.notes == ("The cross-validation uses 50 of the 276 unlabelled rows, drawn at random.",)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"n_splits": 1}, ParameterError, "n_splits=1"),
        ({"n_repeats": 0}, ParameterError, "n_repeats=0"),
        ({"y": ["left"] + [None] * 298 + ["right"]}, LabelError, "two classes need two labels"),
        ({"y": ["left", "right"]}, DataError, "300 rows and y has 2"),
        ({"sample_weight": [1.0]}, ParameterError, "sample_weight"),
    ],
    ids=str,
)
def test_bad_use_of_out_of_fold(changes, error, words):
    X, y = easy()
    with pytest.raises(error, match=words):
        out_of_fold(TSVM(), X, **{"y": y} | changes)


def test_ctrl_c_ends_all_folds():
    X, y = easy()

    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        out_of_fold(DeepSep(initial_epochs=1, callback=stop), X, y, random_state=0)
