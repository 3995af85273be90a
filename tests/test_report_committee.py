"""Reports on committees: made of the predictions that the committee was weighted by, with nothing fitted again."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from deepsep import TSVM, Committee, for_table
from deepsep.classifiers.committee.fits import twin_of
from deepsep.core.label_origins import looks_like_quotas
from deepsep.core.labels import read_labels
from deepsep.evaluation.expected_accuracy import Evidence, expected_accuracy
from deepsep.report import explain, render, summarize
from deepsep.report.committee_held_out import is_fitted_to
from deepsep.report.explanation import explanation_text
from deepsep.report.held_out import evaluate_model
from deepsep.report.map import embed_members
from deepsep.report.outcome import by_share, judge, surest_part, what_helps

MEMBERS = ["tsvm", "logistic-regression"]


@pytest.fixture(scope="module", autouse=True)
def _small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepsep.report.committee_held_out.FOREST_TREES", 20)
        patch.setattr("deepsep.report.map.MAX_MAP_ROWS", 60)
        patch.setattr("deepsep.report.map.MAX_MAP_LABELED", 20)
        patch.setattr("deepsep.evaluation.intervals.N_RESAMPLES", 100)
        yield


def people(n=240, labels=60):
    rng = np.random.default_rng(0)
    age, shoe = rng.integers(18, 90, n), rng.integers(36, 46, n)
    segment = np.where(age < 40, "young", np.where(age < 65, "middle", "old")).astype(object)
    y = segment.copy()
    y[labels:] = None
    return pd.DataFrame({"age": age, "shoe": shoe, "plan": rng.choice(["a", "b"], n)}), y


@pytest.fixture(scope="module")
def fitted():
    table, y = people()
    committee = Committee(members=MEMBERS, effort="fast", twins=True, learning_curve=True, n_jobs=1, random_state=0)
    return for_table(committee).fit(table, y), table, y


@pytest.fixture(scope="module")
def summary(fitted):
    model, table, y = fitted
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Committee, "fit", lambda *_, **__: pytest.fail("the committee was fitted again"))
        return summarize(model, table, y, label="segment")


def test_the_accuracy_is_that_of_the_predictions_out_of_fold(fitted, summary):
    held_out = fitted[0][-1].out_of_fold_
    lines = summary["accuracy"]["methods"]
    assert [line["key"] for line in lines] == ["model", "start", *MEMBERS, "majority"]
    expected, right = fitted[0][-1].expected_accuracy_, held_out.p["committee"].argmax(axis=1) == held_out.codes
    assert lines[0]["accuracy"] == {"value": expected.value, "interval": expected.interval}  # as in the first sentence
    names = [twin_of("committee"), *MEMBERS]
    for line, name in zip(lines[1:], names, strict=False):
        other = held_out.p[name].argmax(axis=1) == held_out.codes
        behind = expected.value - line["accuracy"]["value"]
        assert behind == pytest.approx(right.mean() - other.mean()) == line["against_model"]["difference"]
    guess = lines[-1]
    assert guess["against_model"]["difference"] == pytest.approx(expected.value - guess["accuracy"]["value"])
    assert np.trace(summary["confusion"]) == (held_out.p["committee"].argmax(axis=1) == held_out.codes).sum()
    assert summary["accuracy"]["held_out"] == len(held_out.rows) == 60
    assert summary["asked"]["folds"] == 3


@pytest.mark.parametrize("weighted", [False, True])
def test_guessing_is_what_the_other_folds_say(fitted, weighted):
    model, table, y = fitted
    labels, weight = read_labels(y), np.linspace(0.2, 3, len(y)) if weighted else None
    evaluation = evaluate_model(model, table, labels, sample_weight=weight, repeats=0)
    start = 0
    for test in model[-1].out_of_fold_.folds.tests:
        train = np.setdiff1d(np.flatnonzero(labels.labeled), test)
        guess = DummyClassifier(strategy="prior").fit(
            train[:, None], labels.codes[train], sample_weight=None if weight is None else weight[train]
        )
        expected = guess.predict_proba(test[:, None])
        np.testing.assert_allclose(evaluation.p["majority"][start : start + len(test)], expected)
        start += len(test)


def test_repeats_of_a_row_count_once():
    table, y = people(120, 24)
    model = for_table(Committee(members=["knn"], effort="best", n_jobs=1, random_state=0)).fit(table, y)
    held_out = model[-1].out_of_fold_
    assert held_out.folds.n_repeats == 3
    evaluation = evaluate_model(model, table, read_labels(y), repeats=0)
    assert sorted(evaluation.rows) == list(range(24))
    np.testing.assert_array_equal(evaluation.p["model"], held_out.p["committee"][:24])


def test_members_are_listed_with_weights_and_what_unlabeled_rows_are_worth(fitted, summary):
    committee = fitted[0][-1]
    lines = {line["key"]: line for line in summary["members"]["lines"]}
    assert {key: line["weight"] for key, line in lines.items()} == committee.weights_
    assert lines["logistic-regression"]["unlabelled_rows"] is None
    held_out = committee.out_of_fold_
    own, twin = (held_out.p[name].argmax(axis=1) == held_out.codes for name in ("tsvm", twin_of("tsvm")))
    assert lines["tsvm"]["unlabelled_rows"]["gained"] == (own & ~twin).sum()
    assert summary["unlabelled_rows"]["verdict"] in ("helped", "hurt", "cannot tell")
    assert summary["members"]["sentence"] in summary["verdict"]


def test_with_quotas_unlabeled_rows_are_judged_in_a_population_with_the_estimated_shares():
    table, y = people()
    committee = Committee(members=MEMBERS, effort="fast", twins=True, student=False, n_jobs=1, random_state=0)
    model = for_table(committee).fit(table, y, committee__labels_drawn="quota")
    summary, committee = summarize(model, table, y, explained=False), model[-1]
    held_out, shares = committee.out_of_fold_, committee.shares_
    own, twin = (held_out.p[name].argmax(axis=1) == held_out.codes for name in ("committee", twin_of("committee")))
    by_class = [(own.astype(float) - twin)[held_out.codes == k].mean() for k in range(len(shares))]
    assert summary["unlabelled_rows"]["difference"] == pytest.approx(shares @ by_class)
    assert "shares of the population" in summary["unlabelled_rows"]["sentence"]


def test_the_page_says_what_the_data_say(summary):
    page = render(json.loads(json.dumps(summary, allow_nan=False)))
    for words in (*summary["verdict"], "by a random forest in the committee’s place".replace("’", "&#39;"), "Weight"):
        assert words.replace("<", "&lt;") in page
    assert "learning curve" not in page
    assert "does not work in rounds" not in page


def test_the_page_draws_what_more_labels_would_buy(fitted, summary):
    gain = fitted[0][-1].learning_curve_.gain(50)
    more = summary["more_labels"]
    assert (more["gain"], more["interval"]) == (gain.value, gain.interval)
    assert more["sentence"] in summary["verdict"]
    page = render(summary)
    assert "What would more labels buy?" in page
    assert "Accuracy expected with more labels" in page
    without = render(summary | {"more_labels": None})
    assert "What would more labels buy?" not in without


def test_a_column_matters_to_the_forest_that_stands_for_the_committee(fitted):
    model, table, y = fitted
    explanation = explain(model, table, y, repeats=2)
    assert explanation["importance"]["columns"][0]["column"] == "age"
    assert "by a random forest in the committee's place, on 60 labelled rows, held out" in explanation_text(explanation)


def test_other_labels_are_not_those_of_the_fit(fitted):
    model, _, y = fitted
    assert is_fitted_to(model[-1], read_labels(y))
    assert not is_fitted_to(model[-1], read_labels(y[:-1]))
    other = y.copy()
    other[0] = "old" if y[0] != "old" else "young"
    assert not is_fitted_to(model[-1], read_labels(other))
    assert not is_fitted_to(Committee(), read_labels(y))
    assert not is_fitted_to(TSVM(), read_labels(y))


def test_rows_on_the_map_are_apart_by_what_the_members_say_of_them(fitted):
    model, _, y = fitted
    committee, unlabeled = model[-1], np.flatnonzero(y == None)  # noqa: E711
    embedded, held_out = embed_members(committee, unlabeled, seed=0), committee.out_of_fold_
    place = {row: i for i, row in enumerate(held_out.rows)}
    assert sum(row in place for row in embedded.rows) == 20
    said = {
        name: [
            held_out.p[name][place[row]] if row in place else member.label_distributions_[row]
            for row in embedded.rows.tolist()
        ]
        for name, member in committee.members_.items()
    }
    a, b = 3, len(embedded.rows) - 2  # an unlabelled row and one held out
    expected = sum(
        committee.weights_[name] * (1 - np.sqrt(p[a] * p[b]).sum())  # the squared Hellinger distance
        for name, p in said.items()
    )
    assert ((embedded.X[a] - embedded.X[b]) ** 2).sum() == pytest.approx(expected)


def test_an_interrupted_committee_without_folds_says_so(fitted):
    model, table, y = fitted
    held_out = model[-1].out_of_fold_
    try:
        model[-1].out_of_fold_ = None
        summary = summarize(model, table, y)
    finally:
        model[-1].out_of_fold_ = held_out
    assert summary["verdict"][0].startswith("Not shown to beat guessing. Accuracy cannot be estimated: the fit was int")
    assert "Not shown to beat guessing" in render(summary)


# -- the verdict ---------------------------------------------------------------------------------------------


def accuracy(own, guessing, low, holds=True):
    return {
        "holds_for_unlabelled": holds,
        "methods": [
            {"key": "model", "accuracy": {"value": own}},
            {"key": "majority", "accuracy": {"value": guessing}, "against_model": {"interval": [low, 0.9]}},
        ],
    }


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (None, "not shown to beat guessing"),
        (accuracy(0.9, 0.5, 0.2, holds=False), "not shown to beat guessing"),
        (accuracy(0.9, 0.5, -0.01), "not shown to beat guessing"),
        (accuracy(0.9, 0.5, 0.0), "not shown to beat guessing"),
        (accuracy(0.65, 0.5, 0.01), "weak"),
        (accuracy(0.67, 0.5, 0.01), "usable"),
        (accuracy(0.93, 0.9, 0.01), "weak"),
    ],
)
def test_a_usable_model_avoids_a_third_of_the_mistakes_of_guessing(measured, verdict):
    assert judge(measured) == verdict


def held_out_rows(p, codes, weight=None):
    return Evidence(p, codes, np.ones(len(codes)) if weight is None else weight, 1)


def test_the_surest_rows_make_at_most_half_the_mistakes():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 400)
    p = np.column_stack([confidence, 1 - confidence])
    codes = (rng.random(400) > confidence).astype(int)
    part = surest_part(by_share(held_out_rows(p, codes), p[:0], calibrated=False))
    sure = confidence >= part["confidence"]
    assert part["share"] == sure.mean()
    assert part["accuracy"] == (codes[sure] == 0).mean()
    assert (codes[sure] == 1).mean() <= (codes == 1).mean() / 2
    more = confidence >= np.quantile(confidence, 0.9 - part["share"])
    assert (codes[more] == 1).mean() > (codes == 1).mean() / 2  # a tenth more rows would make too many
    for other in (np.zeros(400, int), np.arange(400) % 2):  # nothing is left to halve; confidence says nothing
        assert surest_part(by_share(held_out_rows(p, other), p, calibrated=False)) is None
    assert surest_part([]) is None


def test_weights_count_among_the_surest_rows():
    p = np.array([[0.9, 0.1]] * 5 + [[0.6, 0.4]] * 5)
    codes = np.array([0, 0, 0, 0, 1, 0, 1, 1, 1, 1])
    weight = np.array([1, 1, 1, 1, 0.5, 1, 1, 1, 1, 1])
    part = surest_part(by_share(held_out_rows(p, codes, weight), p[:0], calibrated=False))
    assert part["accuracy"] == pytest.approx(4 / 4.5)
    assert part["unlabelled"] is None


def test_the_shares_of_the_curve_are_those_of_the_unlabeled_rows():
    rng = np.random.default_rng(1)
    p, unlabeled = (rng.dirichlet(np.ones(3), size=n) for n in (100, 500))
    codes, sure = rng.integers(3, size=100), unlabeled.max(axis=1)
    points = by_share(held_out_rows(p, codes), unlabeled, calibrated=True)
    assert points[0]["share"] == 1
    for point in points:
        at, held = sure >= point["confidence"], p.max(axis=1) >= point["confidence"]
        assert (point["share"], point["unlabelled"]) == (at.mean(), at.sum())
        alone = expected_accuracy(unlabeled[at], np.ones(at.sum()), held_out_rows(p[held], codes[held]))
        assert point["accuracy"] == pytest.approx(alone.value)
        assert point["interval"] == pytest.approx(alone.interval)
    assert [point["confidence"] for point in points] == sorted(point["confidence"] for point in points)


def test_nothing_is_said_of_rows_surer_than_those_held_out():
    rng = np.random.default_rng(2)
    p, unlabeled = np.full((50, 2), [0.6, 0.4]), np.column_stack([np.linspace(0.5, 1, 200), np.linspace(0.5, 0, 200)])
    points = by_share(held_out_rows(p, rng.integers(2, size=50)), unlabeled, calibrated=True)
    assert points
    assert max(point["confidence"] for point in points) <= 0.6


def test_quotas_are_more_even_than_chance():
    rng = np.random.default_rng(0)
    assert looks_like_quotas(np.array([25, 25]))
    assert looks_like_quotas(np.array([40, 41, 40, 40]))
    assert not looks_like_quotas(np.array([1, 1]))
    assert not looks_like_quotas(np.array([90, 10]))
    drawn = [looks_like_quotas(rng.multinomial(200, [0.25] * 4)) for _ in range(400)]
    assert np.mean(drawn) < 0.15


def test_what_helps_depends_on_labels_and_shares():
    interval = [0.6, 0.8]
    assert "quotas" in what_helps("usable", np.array([20, 20]), interval, False, True)[0]
    (labels,) = what_helps("usable", np.array([20, 20]), interval, True, True)
    assert labels.startswith("More labels would help most: with 40 labels, the accuracy is uncertain by 10 points")
    gain, labels = what_helps("usable", np.array([20, 20]), interval, True, True, "50 more would hardly help.")
    assert gain == "50 more would hardly help."
    assert labels.startswith("With 40 labels, the accuracy is uncertain by 10 points")
    (columns,) = what_helps("weak", np.array([300, 200]), interval, False, False)
    assert "columns" in columns
    assert what_helps("usable", np.array([300, 200]), interval, False, False) == []


def test_improbable_labels_are_listed(fitted, summary):
    held_out = fitted[0][-1].out_of_fold_
    p = held_out.p["committee"]
    wrong = p[np.arange(len(p)), held_out.codes] <= 0.5 / p.shape[1]
    assert sorted(int(line["id"]) for line in summary["suspicious"]) == sorted(held_out.rows[wrong].tolist())
    values = [line["trust"] for line in summary["suspicious"]]
    assert values == sorted(values)
    line = {"id": "7", "given": "a", "predicted": "b", "probability_given": 0.1, "probability_predicted": 0.8}
    page = render(summary | {"suspicious": [line | {"trust": 0.2}] * 3})
    assert "Labels to check" in page
    assert "give 3 held-out labels a probability" in page
    assert "No held-out label is improbable" in render(summary | {"suspicious": []})
