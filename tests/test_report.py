"""The report: what is measured is right, and the page says it without harm."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, log_loss

from deepsep import TSVM, DeepSep, for_table, method
from deepsep.classifiers.catalogue import find_method
from deepsep.core.labels import read_labels
from deepsep.errors import DataError, DeepSepWarning
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.frames import take_mixed
from deepsep.evaluation.importance import permute
from deepsep.evaluation.intervals import (
    effective,
    paired_difference,
    reliability,
    scores,
    scores_with_intervals,
    share_right,
    wilson,
)
from deepsep.report import figures, render, render_comparison, summarize, write_report
from deepsep.report.figures import ticks
from deepsep.report.held_out import evaluate_model
from deepsep.report.page import draw
from deepsep.report.readable import features_of, profiles
from deepsep.report.wording import number, percent, shorten
from deepsep.table.pipeline import source_columns


def customers(n: int = 240, labels: int = 48, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Three segments that age and plan tell apart, and columns of noise."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    table = pd.DataFrame(
        {
            "age": rng.normal(np.array([25, 45, 65])[kind], 5).round(),
            "plan": np.array(["free", "basic", "pro"], object)[
                np.where(rng.random(n) < 0.85, kind, rng.integers(3, size=n))
            ],
            "noise": rng.normal(size=n),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    table.loc[::17, "age"] = np.nan
    y = np.array(["young", "middle", "old"], object)[kind]
    y[rng.permutation(n)[labels:]] = None
    return table, y


@pytest.fixture(scope="module", autouse=True)
def _small_baselines() -> Iterator[None]:
    """Make the baselines and the map small: here it matters what becomes of them, not how good they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepsep.report.held_out.FOREST_TREES", 5)
        patch.setattr("deepsep.report.map.MAX_MAP_ROWS", 60)
        patch.setattr("deepsep.report.map.MAX_MAP_LABELED", 20)
        patch.setattr("deepsep.evaluation.intervals.N_RESAMPLES", 100)
        yield


FAST = {"rounds": 2, "initial_epochs": 20, "random_state": 0}


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, np.ndarray]:
    return customers()


@pytest.fixture(scope="module")
def summary(data: tuple[pd.DataFrame, np.ndarray]) -> dict[str, Any]:
    table, y = data
    model = for_table(DeepSep(**FAST)).fit(table, y)
    return summarize(
        model, table, y, ids=[f"user-{i}" for i in range(len(y))], label="segment", command="deepsep fit x.csv"
    )


# -- intervals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("right", "n"), [(0, 35), (20, 35), (35, 35), (140, 200)])
def test_wilson_is_where_the_score_test_rejects(right: int, n: int) -> None:
    low, high = wilson(right, n)
    expected = stats.binomtest(right, n).proportion_ci(0.9, method="wilson")
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_paired_difference_counts_pairs_and_covers_the_truth() -> None:
    rng = np.random.default_rng(0)
    cells = np.array([0.5, 0.2, 0.1, 0.2])  # both right, first only, second only, none
    inside = 0
    for _ in range(500):
        drawn = rng.choice(4, 80, p=cells)
        gap = paired_difference(drawn <= 1, (drawn == 0) | (drawn == 2))
        assert gap["difference"] == pytest.approx(((drawn == 1).sum() - (drawn == 2).sum()) / 80)
        inside += gap["interval"][0] <= 0.1 <= gap["interval"][1]
    assert 0.86 <= inside / 500 <= 0.95


def test_methods_that_never_differ_still_have_an_interval() -> None:
    same = np.ones(40, bool)
    low, high = paired_difference(same, same)["interval"]
    assert low < 0 < high


def test_scores_have_intervals_around_them() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), 90)
    codes = np.array([rng.choice(3, p=row) for row in p])  # calibrated by construction
    scored = scores_with_intervals(p, codes, seed=0)
    for name in ("accuracy", "balanced_accuracy", "log_loss"):
        low, high = scored[name]["interval"]
        assert low < scored[name]["value"] < high
    assert scored["accuracy"]["value"] == accuracy_score(codes, p.argmax(axis=1))
    assert scored["ece"]["value"] < 2 * scored["ece_if_calibrated"]
    assert sum(group["n"] for group in reliability(p, codes)) == 90


def test_weighted_scores_are_those_of_scikit_learn_and_of_repeated_rows() -> None:
    rng = np.random.default_rng(2)
    p, weight = rng.dirichlet(np.ones(3), 60), rng.integers(1, 5, 60).astype(float)
    codes = rng.integers(3, size=60)
    plain, scored = scores_with_intervals(p, codes, 0), scores_with_intervals(p, codes, 0, weight)
    for name, value in scores(p, codes).items():
        assert plain[name]["value"] == pytest.approx(value)
    for name, value in scores(np.repeat(p, weight.astype(int), axis=0), np.repeat(codes, weight.astype(int))).items():
        assert scored[name]["value"] == pytest.approx(value)
    predicted = p.argmax(axis=1)
    assert scored["accuracy"]["value"] == pytest.approx(accuracy_score(codes, predicted, sample_weight=weight))
    assert scored["balanced_accuracy"]["value"] == pytest.approx(
        balanced_accuracy_score(codes, predicted, sample_weight=weight)
    )
    assert scored["log_loss"]["value"] == pytest.approx(log_loss(codes, p, sample_weight=weight))
    # Only ratios of weights matter.
    for alike, expected in ((7 * weight, scored), (np.full(60, 3.0), plain)):
        again = scores_with_intervals(p, codes, 0, alike)
        for name in ("accuracy", "balanced_accuracy", "log_loss", "ece"):
            assert again[name]["value"] == pytest.approx(expected[name]["value"])
            assert again[name]["interval"] == pytest.approx(expected[name]["interval"])


def test_weighted_intervals_are_those_of_the_effective_number_of_rows() -> None:
    # 40 rows of weight 3 and 60 of weight 1 tell as much as (120 + 60)² / (40 · 9 + 60 · 1) rows.
    weight = np.repeat([3.0, 1.0], [40, 60])
    right = np.tile([True, True, False, True], 25)
    n = 180**2 / 420
    assert effective(weight, 100) == pytest.approx(n)
    share = (3 * 30 + 45) / 180
    result, interval = share_right(right, weight)
    assert result == pytest.approx(share)
    # Wilson's ends solve (share - x)² = z² x (1 - x) / n.
    for end in interval:
        assert (share - end) ** 2 == pytest.approx(stats.norm.ppf(0.95) ** 2 * end * (1 - end) / n)
    other = np.roll(right, 1)
    paired = paired_difference(right, other, weight)
    assert paired["difference"] == pytest.approx(share - weight @ other / 180)
    assert paired["gained"] == int((right & ~other).sum())
    plain = paired_difference(right, other)
    alike = paired_difference(right, other, np.full(100, 0.3))
    assert [alike["difference"], *alike["interval"]] == pytest.approx([plain["difference"], *plain["interval"]])
    assert np.diff(paired["interval"]) > np.diff(plain["interval"])


def test_weighted_intervals_cover_the_truth() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(500):
        weight = rng.uniform(0.2, 5, 80)
        _, (low, high) = share_right(rng.random(80) < 0.7, weight)
        inside += low <= 0.7 <= high
    assert 0.86 <= inside / 500 <= 0.95


# -- folds -------------------------------------------------------------------------------------------------------


def test_folds_hold_every_label_out_once_and_keep_every_class_in_training() -> None:
    y = np.array(["a"] * 12 + ["b"] * 3 + ["c"] * 2 + ["d"] + [None] * 30, object)
    labels = read_labels(y)
    dealt = deal_folds(labels, n_splits=5, seed=0)
    tests = dealt.tests
    assert len(tests) == dealt.n_splits == 5
    assert sorted(np.concatenate(tests)) == list(range(17))  # all but the only d
    for test in tests:
        assert set(np.setdiff1d(labels.codes[:18][np.setdiff1d(np.arange(18), test)], [])) == {0, 1, 2, 3}
    assert dealt.notes == ("Classes with one label are never held out, so their accuracy is unknown: d.",)


def test_too_few_labels_give_a_reason_and_no_accuracy() -> None:
    table, y = customers(60, 60)
    y = np.array([None] * 60, object)
    y[:3] = ["young", "middle", "old"]
    model = for_table(DeepSep(**FAST)).fit(table, y)
    summary = summarize(model, table, y)
    assert summary["accuracy"] is None
    assert summary["outcome"]["verdict"] == "not shown to beat guessing"
    assert summary["verdict"] == [
        "Not shown to beat guessing. Accuracy cannot be estimated: at least two classes need two labels or more. Label "
        "more rows."
    ]
    page = render(summary)
    assert "kept their class" in page  # the rounds are shown by agreement instead
    assert 'id="mistakes"' not in page


def test_held_out_rows_are_predicted_by_models_that_have_not_seen_them(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    labels = read_labels(y)
    shuffled = labels.codes.copy()
    known = np.flatnonzero(labels.labeled)
    shuffled[known] = np.random.default_rng(0).permutation(shuffled[known])
    table = table.assign(noise=np.arange(len(table), dtype=float))  # tells each row apart
    evaluation = evaluate_model(
        for_table(method("random-forest", n_estimators=20)),
        table,
        type(labels)(shuffled, labels.classes),
        repeats=0,
        baselines=False,
    )
    right = (evaluation.p["model"].argmax(axis=1) == evaluation.codes).mean()
    assert right < 0.6  # nothing is to be learned from labels dealt at random; trees would know by heart what they saw


# -- the summary ------------------------------------------------------------------------------------------------


def test_calibrated_models_are_measured_as_calibrated_without_further_fits(
    data: tuple[pd.DataFrame, np.ndarray],
) -> None:
    table, y = data
    raw, tempered = (
        evaluate_model(
            for_table(DeepSep(**FAST, calibrate=calibrate)), table, read_labels(y), baselines=False, repeats=0
        )
        for calibrate in (False, True)
    )
    assert not isinstance(raw, str)
    assert not isinstance(tempered, str)
    p, q = raw.p["model"], tempered.p["model"]
    np.testing.assert_array_equal(p.argmax(axis=1), q.argmax(axis=1))
    # One temperature a fold: log-odds of a row shrink by it, whichever two classes they are of.
    with np.errstate(divide="ignore"):
        ratio = np.log(p[:, 0] / p[:, 1]) / np.log(q[:, 0] / q[:, 1])
    assert len(np.unique(ratio.round(4))) <= raw.n_folds
    assert (ratio > 1 - 1e-6).all()


def test_summary_is_plain_json(summary: dict[str, Any]) -> None:
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_summary_has_all_parts(summary: dict[str, Any], data: tuple[pd.DataFrame, np.ndarray]) -> None:
    _, y = data
    n = int((y != None).sum())  # noqa: E711
    assert summary["asked"] | {"settings": None} == summary["asked"] | {"settings": None, "labelled": n, "rows": 240}
    assert summary["asked"]["settings"] == {"rounds": 2, "initial_epochs": 20}
    assert [line["key"] for line in summary["accuracy"]["methods"]] == [
        "model",
        "start",
        "random-forest",
        "lightgbm-few-labels",
        "majority",
    ]
    assert np.sum(summary["confusion"]) == n == summary["accuracy"]["held_out"]
    own = summary["accuracy"]["methods"][0]
    assert own["accuracy"]["value"] == pytest.approx(np.trace(summary["confusion"]) / n)
    assert own["accuracy"]["value"] > 0.8
    assert len(summary["rounds"]["network"]) == 3
    assert summary["rounds"]["average"][-1] == own["accuracy"]["value"]  # the average of all rounds is the model
    start = summary["accuracy"]["methods"][1]
    assert summary["rounds"]["network"][0] == start["accuracy"]["value"]
    assert all(a < b for a, b in pairwise(summary["curve"]["labels"]))
    assert summary["map"]["rows"][0]["id"].startswith("user-")
    assert sum(line["labels"] for line in summary["shares"]["lines"]) == n
    assert sum(line["predicted"] for line in summary["shares"]["lines"]) == pytest.approx(1)
    margins = [row["first_probability"] - row["second_probability"] for row in summary["least_certain"]]
    assert margins == sorted(margins)
    assert summary["made"]["command"] == "deepsep fit x.csv"


def test_page_says_when_the_model_contains_rows_of_the_table(summary: dict[str, Any]) -> None:
    assert summary["made"]["rows_in_model"] == 0
    words = "The saved model contains 1,000 rows of the table, with their labels"
    assert words not in render(summary)
    assert words in render(summary | {"made": summary["made"] | {"rows_in_model": 1000}})


def test_map_shows_labeled_rows_that_its_model_was_not_trained_on(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    evaluation = evaluate_model(for_table(DeepSep(**FAST)), table, read_labels(y), folds=2, baselines=False, repeats=0)
    assert not isinstance(evaluation, str)
    rows = evaluation.embedded.rows
    test = deal_folds(read_labels(y), n_splits=2, seed=0, stratified=False).tests[0]  # nothing is said of the labels
    labeled = y[rows] != None  # noqa: E711
    assert 0 < labeled.sum() < len(rows)
    assert set(rows[labeled]) <= set(test)
    others = np.setdiff1d(np.arange(len(y)), test)
    without = for_table(DeepSep(**FAST)).fit(table.iloc[others], y[others])
    np.testing.assert_allclose(evaluation.embedded.X, without.transform(table.iloc[rows]), atol=1e-6)


def test_a_model_that_is_not_shown_to_beat_guessing_has_no_map() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 5)), columns=list("abcde"))
    y = rng.choice(["x", "y"], 200).astype(object)
    y[40:] = None
    summary = summarize(for_table(DeepSep(**FAST)).fit(table, y), table, y, folds=2, explained=False)
    assert summary["map"] is None
    page = render(summary)
    assert "There is no map: with these labels, the model is not shown to be better" in page
    assert "map-box" not in page.split("</style>")[1]


def test_figures_have_axes_with_titles_and_whole_class_names(summary: dict[str, Any]) -> None:
    drawn = draw(summary)
    for name, titles in {
        "intervals": ["accuracy"],
        "curve": ["labels in training", "accuracy on held-out rows"],
        "rounds": ["round (0: labelled rows alone)", "accuracy on held-out rows"],
        "reliability": ["confidence of the model", "share predicted correctly"],
        "importance": ["increase in log loss"],
    }.items():
        for title in titles:
            assert f">{title}</text>" in drawn[name], (name, title)
    assert ">0</text>" in drawn["importance"]  # the axis starts there
    names = ["night owls who commute by train", "students, part-time workers"]
    lines = [{**line, "class": name} for line, name in zip(summary["shares"]["lines"], names, strict=False)]
    assert all(f">{name}</text>" in figures.draw_shares(lines) for name in names)
    matrix = figures.draw_confusion([[3, 1], [0, 4]], names)
    assert all(matrix.count(f"{line}</text>") == 2 for line in ("night owls who", "commute by train", "workers"))
    assert "…" not in matrix


def test_held_out_rows_count_by_their_weights(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    weight = np.random.default_rng(0).uniform(0.2, 4, len(y))
    model = for_table(method("logistic-regression"))
    summary = summarize(model.fit(table, y, supervised__sample_weight=weight), table, y, sample_weight=weight)
    by_hand = evaluate_model(model, table, read_labels(y), sample_weight=weight, baselines=False, repeats=0)
    assert not isinstance(by_hand, str)
    own, w = summary["accuracy"]["methods"][0], weight[by_hand.rows]
    right = by_hand.p["model"].argmax(axis=1) == by_hand.codes
    assert own["accuracy"]["value"] == pytest.approx(np.average(right, weights=w))
    assert summary["accuracy"]["effective"] == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert summary["curve"]["methods"][0]["accuracy"][-1] == pytest.approx(own["accuracy"]["value"])
    assert "of the unlabelled rows, by weight, the right class" in " ".join(summary["verdict"])
    page = render(summary)
    assert "Rows are weighted." in page
    assert "Rows are weighted." not in render(
        summarize(model, table, y, sample_weight=np.full(len(y), 2.0), explained=False)
    )


def test_the_confusion_matrix_has_room_for_wide_letters() -> None:
    def height(name: str) -> float:
        return float(
            re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', figures.draw_confusion([[3, 1], [0, 4]], [name, "b"]))[0]
        )

    assert height("premium customers") < height("PREMIUM CUSTOMERS")
    assert height("premium") < height("\u5c0f\u3055\u306a\u5ba2\u69d8\u9054")  # seven letters, too


def test_confusion_has_true_classes_in_rows() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (60, 3)), rng.normal(2, 1, (60, 3))])
    y = np.repeat(["a", "b"], 60).astype(object)
    y[rng.permutation(120)[40:]] = None
    model = TSVM().fit(X, y)
    evaluation = evaluate_model(model, X, read_labels(y), baselines=False, repeats=0)
    expected = confusion_matrix(evaluation.codes, evaluation.p["model"].argmax(axis=1))
    assert summarize(model, X, y, explained=False)["confusion"] == expected.tolist()


def test_same_seed_same_summary(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    model = for_table(TSVM()).fit(table, y)
    first, second = (summarize(model, table, y, seed=3, folds=2) for _ in range(2))
    first.pop("made"), second.pop("made")
    assert first == second


@pytest.mark.slow
def test_parallel_folds_change_nothing(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    labels = read_labels(y)
    one, two = (evaluate_model(for_table(TSVM()), table, labels, n_jobs=n, repeats=1, baselines=False) for n in (1, 2))
    for name in one.p:
        np.testing.assert_array_equal(one.p[name], two.p[name])
    np.testing.assert_array_equal(one.permuted.loss, two.permuted.loss)


def test_methods_without_rounds_or_embedding_are_reported(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    summary = summarize(
        for_table(method("random-forest", n_estimators=30, random_state=0)).fit(table, y), table, y, folds=2
    )
    assert summary["asked"]["method"] == "random-forest"
    assert summary["rounds"] is None
    assert summary["unlabelled_rows"]["verdict"] is None
    assert "encoded columns" in summary["map"]["of"]
    assert [line["key"] for line in summary["accuracy"]["methods"]] == ["model", "lightgbm-few-labels", "majority"]
    page = render(summary)
    assert "does not work in rounds" in page
    assert "learns from the labelled rows alone" in page


def test_better_baseline_comes_right_after_the_verdict(summary: dict[str, Any]) -> None:
    from deepsep.report.outcome import verdict

    worse = json.loads(json.dumps(summary))
    forest = next(line for line in worse["accuracy"]["methods"] if line["key"] == "random-forest")
    own = worse["accuracy"]["methods"][0]["accuracy"]
    own["value"], forest["accuracy"]["value"] = 0.6, 0.8
    forest["against_model"] |= {"difference": -0.2, "interval": [-0.3, -0.1]}
    assert verdict(worse)[1].startswith("A random forest is better here, use it instead: 80\u00a0% against 60\u00a0%")
    forest["against_model"]["interval"] = [-0.45, 0.05]
    assert "may be chance (+20.0 points, 90 % interval −5.0 to +45.0)" in verdict(worse)[1]
    own["value"] = 0.95
    assert verdict(worse)[0].startswith(
        "Usable, if the labels were drawn at random: expect DeepSep to give about 95\u00a0%"
    )
    assert not any("a few more rows" in sentence for sentence in verdict(worse))


def test_given_probabilities_are_used(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    model = for_table(TSVM()).fit(table, y)
    certain = np.tile([1.0, 0.0, 0.0], (len(y), 1))
    summary = summarize(model, table, y, proba=certain, explained=False, folds=2)
    assert [line["predicted"] for line in summary["shares"]["lines"]] == [1, 0, 0]
    with pytest.raises(DataError, match=r"proba has 5 rows and there are 240 labels"):
        summarize(model, table, y, proba=certain[:5])


def test_polars_tables_work(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    polars = pytest.importorskip("polars")
    table, y = data
    frame = polars.DataFrame({name: table[name].to_list() for name in table.columns})
    rows, other = np.array([3, 1, 1]), np.array([0, 2, 4])
    mixed = take_mixed(frame, rows, {1: other})
    assert mixed["noise"].to_list() == frame["noise"].gather(rows).to_list()
    assert mixed["plan"].to_list() == frame["plan"].gather(other).to_list()
    summary = summarize(for_table(TSVM()).fit(frame, y), frame, y, folds=2)
    assert summary["accuracy"]["methods"][0]["accuracy"]["value"] > 0.8


# -- a comparison of methods -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(data: tuple[pd.DataFrame, np.ndarray]) -> dict[str, Any]:
    from deepsep.study import compare

    return compare(*data, methods=["tsvm", "knn", "logistic-regression"], folds=2, repeats=1)


@pytest.fixture(scope="module")
def with_comparison(data: tuple[pd.DataFrame, np.ndarray], compared: dict[str, Any]) -> dict[str, Any]:
    table, y = data
    return summarize(for_table(TSVM()).fit(table, y), table, y, comparison=compared, explained=False, folds=2)


def test_report_shows_the_comparison_and_its_verdict(
    with_comparison: dict[str, Any], compared: dict[str, Any], summary: dict[str, Any]
) -> None:
    result = with_comparison["comparison"]
    assert result | {"own": 0, "beside": 0} == compared | {"own": 0, "beside": 0}
    assert json.loads(json.dumps(with_comparison, allow_nan=False)) == with_comparison
    # Both estimates of the same method are named, and that they are estimates.
    there = next(entry for entry in compared["methods"] if entry["name"] == "tsvm")["accuracy"]["value"]
    here = with_comparison["accuracy"]["methods"][0]["accuracy"]["value"]
    assert f"tsvm has {percent(there, 1)}" in result["beside"][0]
    assert f"and {percent(here, 1)}" in result["beside"][0]
    assert "Both are estimates" in result["beside"][0]
    assert sum(sentence.startswith("Of 3 methods compared") for sentence in with_comparison["verdict"]) == 1
    page, alone = render(with_comparison), render_comparison(compared, command="deepsep compare <x>")
    for text in (page, alone):
        for sentence in compared["verdict"]:
            assert sentence in text
        parsed = outline(text)
        assert parsed.unnamed == []
        assert parsed.headings.count(1) == 1
    assert page.count("How to read it") == page.count("<figcaption>") == page.count("<figure")
    section = re.search(r'<section aria-labelledby="methods">.*?</section>', alone, re.S)
    assert section is not None
    assert '<a href="#methods">' in page
    assert "deepsep compare &lt;x&gt;" in alone
    # One look: what the page of the comparison has, the report has too, but for what concerns the report's own method.
    own = re.search(r'<section aria-labelledby="methods">.*?</section>', page, re.S)
    assert own is not None
    mine = re.sub(r' <span class="tag">this report</span>|<p class="note">.*?</p>\n', "", own[0])
    assert mine == section[0]
    assert 'id="methods"' not in render(summary)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labelled": 12}, r"another table: 12 labelled rows there, 48 here. Run deepsep compare again"),
        ({"unlabelled_rows": 7}, r"7 unlabelled rows there, 192 here"),
        ({"columns": ["age", "pay"]}, r"other columns: 'pay' only there; .* only here. Run deepsep compare again"),
        ({"labels_per_class": [1, 1, 46]}, r"1 labels of 'middle' there"),
        ({"classes": ["a", "b"]}, r"other classes: a, b there, middle, old, young here"),
    ],
)
def test_comparison_of_another_table_is_refused(
    data: tuple[pd.DataFrame, np.ndarray], compared: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    table, y = data
    with pytest.raises(DataError, match=words):
        summarize(TSVM(), table, y, comparison=compared | changes)


def test_what_is_no_comparison_is_refused(data: tuple[pd.DataFrame, np.ndarray], compared: dict[str, Any]) -> None:
    table, y = data
    for wrong in ([], {"accuracy": 1}, {k: v for k, v in compared.items() if k != "methods"}):
        with pytest.raises(DataError, match="not a comparison of methods"):
            summarize(TSVM(), table, y, comparison=wrong)  # type: ignore[arg-type]


def test_method_that_is_clearly_better_comes_right_after_the_verdict(
    with_comparison: dict[str, Any], compared: dict[str, Any]
) -> None:
    from deepsep.report.outcome import verdict
    from deepsep.report.ranking import related_to_report

    def sentences(names: list[str], gap: list[float]) -> list[str]:
        entries = [
            {**entry, "name": name, "against_first": {"difference": -0.2 * (i > 0), "interval": gap}}
            for i, (name, entry) in enumerate(zip(names, compared["methods"], strict=True))
        ]
        comparison = related_to_report({**compared, "methods": entries}, with_comparison)
        return verdict({**with_comparison, "comparison": comparison})

    clear, noise = [-0.3, -0.1], [-0.45, 0.05]
    better = sentences(["knn", "tsvm", "svm"], clear)[1]
    assert better.startswith("Of 3 methods compared on these labels, knn comes first, 20.0 points ahead of tsvm")
    assert "(90 % interval +10.0 to +30.0): more than noise, so use it instead." in better
    assert any(
        text.endswith("(90 % interval −5.0 to +45.0), which may be noise.")
        for text in sentences(["knn", "tsvm", "svm"], noise)[2:]
    )
    assert any(
        "tsvm comes first, ahead of knn by more than noise." in text
        for text in sentences(["tsvm", "knn", "svm"], clear)[1:]
    )
    assert any("by what may be noise" in text for text in sentences(["tsvm", "knn", "svm"], noise)[1:])
    assert any(
        "this report's method was not among them" in text for text in sentences(["knn", "svm", "qda"], clear)[1:]
    )


def test_comparison_of_other_settings_and_weights_says_so(
    with_comparison: dict[str, Any], compared: dict[str, Any]
) -> None:
    from deepsep.report.ranking import related_to_report

    asked = {**with_comparison["asked"], "settings": {"C": 3.0, "calibrate": True}}
    weighted = {**with_comparison["accuracy"], "effective": 30.0, "weighted": True}
    text = " ".join(related_to_report(compared, {**with_comparison, "asked": asked, "accuracy": weighted})["beside"])
    assert "The comparison counts labelled rows once each, and this report does not." in text
    assert "The comparison has tsvm with the default, this report with C = 3.0, calibrate = True." in text
    entries = [{**entry, "settings": {"C": 3.0, "calibrate": False}} for entry in compared["methods"]]
    text = " ".join(related_to_report({**compared, "methods": entries}, {**with_comparison, "asked": asked})["beside"])
    assert "The comparison has tsvm with calibrate = False, this report with calibrate = True." in text


# -- profiles ----------------------------------------------------------------------------------------------------


def test_profiles_say_what_was_put_in(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, _ = data
    codes = (table["age"].fillna(45) > 55).to_numpy(int)
    described = profiles(features_of(None, table), codes, ["rest", "old"])
    first = described[1]["features"][0]
    assert first["feature"] == "age"
    own = table["age"][codes == 1]
    assert first["value"] == pytest.approx(own.mean())
    assert first["difference"] == pytest.approx((own.mean() - table["age"].mean()) / table["age"].std(ddof=0))
    level = next(line for line in described[1]["features"] if line["feature"] == "plan = pro")
    assert level["lift"] == pytest.approx((table["plan"][codes == 1] == "pro").mean() / (table["plan"] == "pro").mean())
    assert level["value_text"].endswith("%")


def test_columns_of_all_kinds_are_readable() -> None:
    frame = pd.DataFrame(
        {
            "flag": [True, False, True, False],
            "switch": [0, 1, 1, 0],
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-04"], utc=True),
            "size": pd.array([1, None, 3, 4], dtype="Int64"),
            "city": pd.Categorical(["Rome", "Oslo", None, "Rome"]),
            "empty": [None] * 4,
        }
    )
    named = {feature.name: feature for feature in features_of(None, frame)}
    assert named["flag = yes"].values.tolist() == [1, 0, 1, 0]
    assert named["switch = 1"].values.tolist() == [0, 1, 1, 0]
    assert named["when"].text(named["when"].values[2]) == "2020-01-03"
    assert np.isnan(named["size"].values[1])
    assert named["size = missing"].values.tolist() == [0, 1, 0, 0]
    assert named["city = Rome"].values.tolist() == [1, 0, 0, 1]
    assert not any(name.startswith("empty") for name in named)


def test_features_have_the_types_of_the_models_schema() -> None:
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 60), "D")
    words = {"income": rng.normal(50, 9, 60).round(2).astype(str), "since": days.strftime("%Y-%m-%d"), "id": range(60)}
    table = pd.DataFrame({**words, "active": pd.Series([True, False, None] * 20, dtype=object)})
    with pytest.warns(DeepSepWarning, match="'id'"):
        model = for_table(method("logistic-regression")).fit(table, [1, 0] * 30)
    kinds = {feature.name: feature.kind for feature in features_of(model, table)}
    assert kinds == {"income": "number", "since": "date", "active = yes": "level", "active = missing": "level"}


# -- the page ----------------------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """What a page loads, its headings, and whether its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.scripts = 0
        self.unnamed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in ("meta", "link"):
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "script":
            self.scripts += 1
        if tag == "svg" and not (given.get("aria-label") or given.get("aria-hidden")):
            self.unnamed.append(str(given))
        if tag == "th" and "scope" not in given:
            self.unnamed.append(str(given))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_page_is_whole_and_accessible(summary: dict[str, Any]) -> None:
    page = render(summary)
    outlined = outline(page)
    assert outlined.unnamed == []
    assert outlined.headings[0] == 1
    assert outlined.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(outlined.headings))
    assert page.count("How to read it") == page.count("<figcaption>") == page.count("<figure")
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    assert "url(" not in page
    assert "@import" not in page
    for name in ("user-", "deepsep fit x.csv", "young", *summary["verdict"]):
        assert name in page


def test_hostile_names_are_only_text() -> None:
    table, y = customers(120, 36)
    evil = "<script>alert(1)</script>"
    y = np.array(
        [None if v is None else {"young": evil, "old": "\"'><img src=x onerror=alert(1)>"}.get(v, "x" * 200) for v in y]
    )
    table = table.rename(columns={"age": "</style><b>age"})
    table["plan"] = table["plan"].map(lambda v: f"</script>{v}")
    summary = summarize(
        for_table(TSVM()).fit(table, y),
        table,
        y,
        ids=["</td><script>"] * 120,
        label="<i>kind",
        folds=2,
        command="<u>",
        title=evil,
    )
    page = render(summary)
    assert outline(page).scripts == 1
    for raw in ("<script>alert", "<img", "<b>age", "<i>kind", "<u>", "</td><script>"):
        assert raw not in page
    assert page.count("</script>") == 1


@pytest.mark.parametrize("n_classes", [2, 26])
def test_any_number_of_classes_is_drawn(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    kind = np.arange(n_classes * 12) % n_classes
    X = np.column_stack([np.cos(kind), np.sin(kind), kind, rng.normal(size=len(kind))]) + rng.normal(
        0, 0.1, (len(kind), 4)
    )
    y = np.array([f"a class with a long name, number {k}" for k in kind], object)
    y[n_classes * 6 :] = None
    page = render(summarize(TSVM().fit(X, y), X, y, folds=2))
    outline(page)
    shapes = set(re.findall(r"<(circle|rect|path)[^>]* class=\"c\d row", page))
    assert shapes == ({"circle"} if n_classes <= 8 else {"circle", "rect", "path"})


def test_report_files_are_written_whole(tmp_path: Path, data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    steps: list[tuple[int, int, str]] = []
    model = for_table(TSVM()).fit(table, y)
    result = write_report(model, table, y, tmp_path / "out", folds=2, on_step=lambda *step: steps.append(step))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "report.json"]
    assert json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8")) == result
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == render(result, data_file="report.json")
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert steps[-1][0] == steps[-1][1]


def test_a_name_that_ends_in_html_is_one_file(data: tuple[pd.DataFrame, np.ndarray], tmp_path: Path) -> None:
    table, y = data
    model = for_table(TSVM()).fit(table, y)
    result = write_report(model, table, y, tmp_path / "new" / "r.html", folds=2, explained=False)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.html"]
    page = (tmp_path / "new" / "r.html").read_text(encoding="utf-8")
    assert page == render(result)
    assert "report.json" not in page
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        write_report(model, table, y, tmp_path / "folder.html")


def test_large_tables_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepsep.report import held_out, summary

    monkeypatch.setattr(held_out, "MAX_UNLABELED", 50)
    monkeypatch.setattr(summary, "MAX_PREDICTED_ROWS", 80)
    table, y = customers()
    result = summarize(for_table(TSVM()).fit(table, y), table, y, explained=False, folds=2)
    assert result["notes"] == [
        "The cross-validation uses 50 of the 192 unlabelled rows, drawn at random.",
        "Shares, profiles and the least certain rows are of 80 rows drawn at random.",
    ]
    assert sum(profile["rows"] for profile in result["profiles"]) == 80
    assert result["asked"]["rows"] == 240


# -- small things ------------------------------------------------------------------------------------------------


def test_ticks_enclose_and_are_round() -> None:
    for low, high in [(0.33, 0.46), (0, 1), (0.5, 0.5), (-3, 17)]:
        result = ticks(low, high)
        assert result[0] <= low
        assert result[-1] >= high
        assert len(result) <= 8
        assert np.allclose(np.diff(result), np.diff(result)[:1] if len(result) > 1 else [])


def test_numbers_read_well() -> None:
    assert [number(v) for v in (0.0, 99.95, 1234.5, float("nan"), -0.5)] == ["0", "100", "1,234", "–", "−0.5"]
    assert percent(0.12345, 1) == "12.3\u00a0%"
    assert shorten("日本語の長い名前", 8) == "日本語…"


@pytest.mark.parametrize("name", ["logistic-regression", "lightgbm-few-labels"])
def test_shuffling_what_columns_became_is_shuffling_columns(name: str) -> None:
    # Numbers with gaps, categories, dates, text, and a column that the model leaves out.
    table, y = customers(120, 60)
    table = table.assign(note=[f"a note of some words about {i % 9}" for i in range(120)], same=1)
    with pytest.warns(DeepSepWarning, match="left out 'same'"):
        model = for_table(method(name)).fit(table, y)
    encoder, codes = model[:-1], np.arange(120) % 3
    groups = source_columns(encoder, list(table.columns))
    assert groups is not None
    assert sorted(i for group in groups for i in group) == list(range(encoder.transform(table).shape[1]))
    assert groups[-1] == []
    slow = permute(model.predict_proba, table, codes, 2, np.random.default_rng(0))
    fast = permute(model[-1].predict_proba, encoder.transform(table), codes, 2, np.random.default_rng(0), groups)
    np.testing.assert_allclose(fast.loss, slow.loss, atol=1e-12)
    np.testing.assert_array_equal(fast.accuracy, slow.accuracy)
    np.testing.assert_allclose(fast.per_class, slow.per_class, atol=1e-12)


def test_encoders_that_mix_columns_are_asked_about_the_table() -> None:
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[60:] = None
    model = make_pipeline(PCA(), TSVM()).fit(X, y)
    assert source_columns(model[:-1], ["x0", "x1", "x2"]) is None
    evaluation = evaluate_model(model, X, read_labels(y), folds=2, baselines=False, repeats=2)
    assert not isinstance(evaluation, str)
    assert evaluation.permuted is not None
    assert evaluation.permuted.loss.mean(axis=1).argmax() == 0


@pytest.mark.parametrize("name", ["semiboost", "lightgbm-few-labels", "random-forest", "knn", "self-training"])
def test_a_report_names_its_method_and_does_not_fit_it_again_for_comparison(name: str) -> None:
    table, y = customers(100, 40)
    model = for_table(method(name, random_state=0)).fit(table, y)
    summary = summarize(model, table, y, folds=2, explained=False)
    assert summary["asked"]["method"] == name
    lines = summary["accuracy"]["methods"]
    titles = [line["name"] for line in lines]
    assert titles[0] == summary["asked"]["method_title"] == find_method(name).title
    assert len(set(titles)) == len(titles)
    assert {"random-forest", "lightgbm-few-labels"} - {name} <= {line["key"] for line in lines}
    assert name not in {line["key"] for line in lines}


def test_bonett_price_solves_its_equation() -> None:
    # The ends are where the adjusted difference is 1.64 standard errors away.
    right = np.array([True] * 30 + [False] * 10)
    other = np.roll(right, 5)
    gap = paired_difference(right, other)
    up, down = (gap["gained"] + 1) / 42, (gap["lost"] + 1) / 42
    end = optimize.brentq(
        lambda d: (d - (up - down)) / np.sqrt((up + down - (up - down) ** 2) / 42) - stats.norm.ppf(0.95), 0, 1
    )
    assert gap["interval"][1] == pytest.approx(end)


def test_explanations_ask_only_about_columns_that_the_model_uses(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    table, y = data
    table = table.assign(row_number=range(len(table)))
    model = for_table(method("logistic-regression")).fit(table, y)
    assert "row_number" in model[0].left_out_
    summary = summarize(model, table, y, seed=0)
    assert "row_number" not in json.dumps([summary["profiles"], summary["explanation"]])


def test_a_table_of_texts_and_rows_of_weight_0_are_reported() -> None:
    rng = np.random.default_rng(0)
    words = {"a": ["good", "fine", "great"], "b": ["bad", "poor", "awful"]}
    kind = rng.choice(["a", "b"], 240)
    notes = [f"{rng.choice(words[k])} {rng.choice(words[k])} number {i}" for i, k in enumerate(kind)]
    y = np.where(np.arange(240) < 40, kind, None)
    weight = np.where(np.arange(240) < 30, 1.0, 0.5)
    weight[:4] = 0
    table = pd.DataFrame({"note": notes})
    model = for_table(method("logistic-regression"), keep=["note"])
    model.fit(table, y, supervised__sample_weight=weight)
    summary = summarize(model, table, y, sample_weight=weight, seed=0)
    assert summary["accuracy"]["held_out"] == 36
    assert summary["explanation"]["tree"]["depth"] == 0
    assert render(summary)
