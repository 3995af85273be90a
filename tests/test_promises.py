"""Promises by which people decide: the verdict, what it assumes, and the labels on which it rests."""

import warnings

import numpy as np
import pandas as pd
import pytest

from deepsep import TSVM, Committee, DeepSep, for_table, method
from deepsep.core.label_origins import read_origins
from deepsep.core.labels import as_labels
from deepsep.errors import LabelError, LabelWarning
from deepsep.evaluation.folds import deal_folds
from deepsep.report import render, summarize

CHEAP = {"members": ["logistic-regression"], "effort": "fast", "student": False, "n_jobs": 1, "random_state": 0}


def rare_class(n=3000, per_class=40):
    """Rows of which 8 % are "yes", and as many labels of each class."""
    rng = np.random.default_rng(3)
    rare = rng.random(n) < 0.08
    shift = np.r_[np.full(10, 0.55), np.zeros(4)]
    X = pd.DataFrame(rng.normal(size=(n, 14)) + rare[:, None] * shift, columns=[f"c{i}" for i in range(14)])
    truth = pd.Series(np.where(rare, "yes", "no"), dtype=object)
    asked = truth.groupby(truth).sample(per_class, random_state=0).index
    return X, truth.where(truth.index.isin(asked), None), truth


def two_classes(n=400, labels=60, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    X = rng.normal(size=(n, 3)) + 1.2 * truth[:, None]
    y = np.where(np.arange(n) < labels, np.array(["a", "b"])[truth], None)
    return X, y, np.array(["a", "b"])[truth]


def test_usable_is_not_said_of_quotas_without_the_condition():
    X, y, _ = rare_class()
    model = for_table(Committee(**CHEAP)).fit(X, y)
    summary = summarize(model, X, y, explained=False)
    first = summary["verdict"][0]
    assert "if the labels fill quotas, as their even numbers suggest" in first
    assert "the classes are as frequent as they are estimated here (no " in first
    guess = next(line for line in summary["accuracy"]["methods"] if line["key"] == "majority")
    assert guess["accuracy"]["value"] == pytest.approx(model[-1].shares_.max())  # not the half of the labels
    assert "estimated shares" in render(summary)


def test_a_model_worse_than_always_the_most_frequent_class_is_not_usable_once_the_shares_are_known():
    X, y, _ = rare_class()
    model = for_table(Committee(**CHEAP, priors={"no": 0.92, "yes": 0.08})).fit(X, y, committee__labels_drawn="quota")
    summary = summarize(model, X, y, explained=False)
    guess = next(line for line in summary["accuracy"]["methods"] if line["key"] == "majority")
    assert guess["accuracy"]["value"] == pytest.approx(0.92)
    assert summary["outcome"]["verdict"] != "usable"
    assert ", if the" not in summary["verdict"][0].split(":")[0]


@pytest.mark.parametrize(("word", "condition"), [(None, ", if the labels were drawn at random:"), ("random", ":")])
def test_the_verdict_names_what_is_assumed_of_labels_of_which_nothing_is_said(word, condition):
    X, y, _ = two_classes(labels=67)
    model = Committee(**CHEAP).fit(X, y, labels_drawn=word)
    assert model.label_origins_.basis == "random"
    first = summarize(model, X, y, explained=False)["verdict"][0]
    assert first.startswith(f"Usable{condition}")


def test_without_a_fair_label_nothing_is_promised():
    X, y, _ = two_classes()
    with pytest.warns(LabelWarning, match="no accuracy can be stated"):
        model = Committee(**CHEAP).fit(X, y, labels_drawn="chosen")
    assert model.expected_accuracy_ is None
    assert model.evidence_ is None
    summary = summarize(model, X, y, explained=False)
    assert summary["accuracy"] is None
    assert "nearly all labels were chosen" in summary["verdict"][0]
    other = summarize(DeepSep(rounds=0, random_state=0).fit(X, y), X, y, labels_drawn="chosen", explained=False)
    assert other["accuracy"] is None


def test_chosen_labels_do_not_change_which_rows_tell_the_accuracy():
    X, y, truth = two_classes(labels=80)
    origins = np.where(np.arange(400) < 80, "random", None).astype(object)
    more = y.copy()
    more[80:140] = truth[80:140]
    origins[80:140] = "chosen"
    model = Committee(**CHEAP).fit(X, more, labels_drawn=origins)
    held_out = model.out_of_fold_
    weight = model.held_out_weight_
    assert (weight[held_out.rows < 80] > 0).all()
    assert (weight[held_out.rows >= 80] == 0).all()
    summary = summarize(model, X, more, explained=False)
    assert summary["accuracy"]["held_out"] == 80


def test_random_labels_that_contradict_given_shares_are_pointed_out():
    X, y, _ = two_classes(labels=100)
    with pytest.warns(LabelWarning, match="One of the two is wrong"):
        Committee(**CHEAP, priors={"a": 0.9, "b": 0.1}).fit(X, y, labels_drawn="random")


def test_origins_are_saved(tmp_path):
    from deepsep import load

    X, y, _ = two_classes(labels=60)
    origins = np.where(np.arange(400) < 40, "random", "chosen").astype(object)
    model = Committee(**CHEAP).fit(X, y, labels_drawn=origins)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.label_origins_.codes, model.label_origins_.codes)
    assert again.label_origins_.given
    np.testing.assert_array_equal(again.evidence_.weight, model.evidence_.weight)
    assert again.expected_accuracy_ == model.expected_accuracy_


@pytest.mark.parametrize("drawn", [["stratified"] * 400, "Random sample", 5, [3.5] * 400, [[None]] * 400])
def test_an_unknown_origin_is_an_error(drawn):
    X, y, _ = two_classes()
    with pytest.raises(LabelError, match=r"'random'.*'quota'.*'chosen'|pass one word, or one for each of 400 rows"):
        Committee(**CHEAP).fit(X, y, labels_drawn=drawn)


def origins_of(**counts):
    """Labels of two classes, so many of each origin."""
    words = np.repeat(list(counts), list(counts.values()))
    return read_origins(words, as_labels(np.array(["a", "b"] * len(words), dtype=object)[: len(words)]))


def test_labels_without_an_origin_are_guessed_from_their_own_numbers():
    labels = as_labels(np.array(["a", "b"] * 20 + ["a"] * 9 + ["b"] * 3, dtype=object))
    origins = read_origins([None] * 40 + ["random"] * 12, labels)
    assert origins.counts == (12, 40, 0)
    assert not origins.given


def test_an_accuracy_rests_on_the_larger_fair_sample_and_on_both_with_known_shares():
    assert origins_of(random=12, quota=40).rests_on == ("quota",)
    assert origins_of(random=40, quota=12, chosen=90).rests_on == ("random",)
    assert origins_of(quota=6).rests_on == ("quota",)  # few labels, but there are no others
    assert origins_of(quota=6, chosen=50).rests_on == ()
    assert origins_of(chosen=50).basis is None
    labels = as_labels(np.array(["a", "b"] * 26, dtype=object))
    both = read_origins(["random"] * 12 + ["quota"] * 40, labels, known_shares=True)
    assert both.basis == "quota"
    assert both.fair.all()
    one_class = as_labels(np.array(["a"] * 30 + ["b"] * 30, dtype=object))
    assert read_origins(["random"] * 30 + ["chosen"] * 30, one_class).rests_on == ()


def test_guessing_knows_fair_labels_only():
    """40 random labels, nearly all "no", and 100 chosen ones that are "yes": guessing says "no"."""
    X, _, truth = rare_class()
    rows = np.random.default_rng(0).permutation(len(truth))
    chosen = rows[np.flatnonzero(truth.to_numpy()[rows] == "yes")[-100:]]
    y, drawn = np.full(len(truth), None), np.full(len(truth), None)
    for at, word in ((rows[:40], "random"), (chosen, "chosen")):
        y[at], drawn[at] = truth.to_numpy()[at], word
    model = for_table(Committee(**CHEAP)).fit(X, y, committee__labels_drawn=drawn)
    for fitted, how in ((model, {}), (for_table(TSVM()).fit(X, y), {"labels_drawn": drawn})):
        summary = summarize(fitted, X, y, explained=False, **how)
        guess = next(line for line in summary["accuracy"]["methods"] if line["key"] == "majority")
        assert guess["accuracy"]["value"] > 0.8
        assert summary["outcome"]["verdict"] != "usable"


def test_sets_of_classes_rest_on_fair_labels_only():
    X, y, _ = two_classes(labels=80)
    drawn = np.where(np.arange(400) < 80, np.where(y == "b", "chosen", "random"), None)
    drawn[np.flatnonzero(y == "b")[:3]] = "random"
    model = Committee(**CHEAP).fit(X, y, labels_drawn=drawn)
    assert len(model.evidence_.p) == (drawn == "random").sum()
    with pytest.raises(LabelError, match="b"):
        model.predict_set(X, 0.9, per_class=True)


def test_classes_known_from_chosen_labels_are_not_missed():
    rng = np.random.default_rng(0)
    codes = rng.integers(6, size=300)
    X = rng.normal(size=(400, 2)) + np.eye(6)[np.r_[codes, np.zeros(100, int)]][:, :2]
    y = np.r_[codes, np.full(100, -1)]
    drawn = np.r_[np.repeat(["random", "chosen"], [12, 288]), [None] * 100]
    assert Committee(**CHEAP).fit(X, y, labels_drawn=drawn).unseen_.share == 0


def test_a_table_without_unlabeled_rows_has_a_report():
    X, _, truth = two_classes(n=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        model = Committee(**CHEAP).fit(X, truth, labels_drawn="random")
    summary = summarize(model, X, truth, explained=False)
    assert summary["accuracy"]["held_out"] == 60


@pytest.mark.slow
@pytest.mark.parametrize("how", ["random", "quota"])
@pytest.mark.parametrize(("labels", "unlabeled"), [(40, 30), (40, 1000), (200, 100), (200, 1000)])
def test_the_interval_of_a_committee_holds(how, labels, unlabeled):
    """End to end, in a population whose classes have the shares .5, .3 and .2; benchmarks/promises.py has more."""
    shares, inside = np.array([0.5, 0.3, 0.2]), []
    members = {"line": "logistic-regression", "trees": method("extra-trees", n_estimators=20)}
    for seed in range(100):
        rng = np.random.default_rng([seed, labels, unlabeled])
        given = rng.choice(3, labels, p=shares) if how == "random" else np.repeat(np.arange(3), -(-labels // 3))
        truth = np.r_[given, rng.choice(3, unlabeled, p=shares)]
        X = rng.normal(size=(len(truth), 4)) + 1.5 * np.eye(3, 4)[truth]
        y = np.r_[given, np.full(unlabeled, -1)]
        priors = dict(enumerate(shares.tolist())) if how == "quota" else None
        model = Committee(members=members, student=False, n_jobs=1, priors=priors, random_state=seed)
        model.fit(X, y, labels_drawn=how)
        expected = model.expected_accuracy_
        inside.append(expected.low <= (model.transduction_ == truth)[y < 0].mean() <= expected.high)
    assert 0.82 <= np.mean(inside) <= 0.98


@pytest.mark.parametrize("seed", range(20))
def test_random_folds_keep_every_class_in_training_and_hold_out_each_label_once(seed):
    rng = np.random.default_rng(seed)
    codes = np.r_[rng.integers(4, size=30), [4, 4, 5]]
    labels = as_labels(codes)
    folds = deal_folds(labels, n_splits=5, seed=seed, stratified=False)
    held_out = np.concatenate(folds.tests)
    assert sorted(held_out) == np.flatnonzero(labels.codes < 5).tolist()  # a class with one label is never held out
    for test in folds.tests:
        assert set(np.delete(labels.codes, test)) == set(labels.codes)


def test_random_folds_are_fair_to_luck_where_stratified_ones_are_not():
    """Always saying the most frequent label: the accuracy in random folds is right on average, as binomials say."""
    rng = np.random.default_rng(0)
    p, n, gaps = 0.5, 15, {True: [], False: []}
    for seed in range(800):
        codes = (rng.random(n) < p).astype(int)
        counts = np.bincount(codes, minlength=2)
        if counts.min() < 2:
            continue
        labels = as_labels(codes)
        for stratified, gap in gaps.items():
            right = [
                (np.delete(codes, test).mean() > 0.5) == codes[test]
                for test in deal_folds(labels, n_splits=5, seed=seed, stratified=stratified).tests
            ]
            gap.append(np.concatenate(right).mean() - 0.5)
    assert np.mean(gaps[True]) > 0.06
    assert np.mean(gaps[False]) < 0.03


def far_apart(per_class=20, share=0.08, n=1000):
    """Two clusters, of which the smaller one has this share of the rows, and as many labels of each."""
    rng = np.random.default_rng(0)
    truth = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 2)) + 6 * truth[:, None]
    y = np.full(n, -1)
    for k in (0, 1):
        y[np.flatnonzero(truth == k)[:per_class]] = k
    return X, y, truth


def test_a_tsvm_says_when_quotas_and_its_balancing_constraint_do_not_go_together():
    X, y, truth = far_apart()
    with pytest.warns(LabelWarning, match=r"by the labels alone, [0-9]+% of the unlabelled rows.*balance=False"):
        forced = TSVM().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free = TSVM(balance=False).fit(X, y)
        told = TSVM(priors={0: 0.92, 1: 0.08}).fit(X, y)
    assert (forced.transduction_ == truth).mean() < 0.9
    assert (free.transduction_ == truth).mean() > 0.99
    assert (told.transduction_ == truth).mean() > 0.99


def test_a_tsvm_is_silent_where_labels_have_the_shares_of_the_rows():
    X, _, truth = far_apart()
    y = np.where(np.arange(len(truth)) < 100, truth, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TSVM().fit(X, y)


def test_view_weights_of_a_model_are_its_own():
    from deepsep.classifiers.in_context.in_context import USUAL_WEIGHTS, InContext

    rng = np.random.default_rng(0)
    model = InContext(view="both", random_state=0).fit(rng.normal(size=(30, 3)), [0, 1] + [-1] * 28)
    model.view_weights_["columns"] = 99.0
    assert USUAL_WEIGHTS["columns"] != 99.0
