"""The protocol of the paper's section 3, the cells, and what is made of them."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_table import PAPER_TABLE
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar, root
from scipy.special import log_softmax, softmax
from sklearn.metrics import balanced_accuracy_score
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.svm import SVC

from deepsep import LabeledFold, for_table, method, out_of_fold
from deepsep.core.labels import as_labels
from deepsep.errors import DataError, DeepSepError, DeepSepWarning, LabelError, ParameterError
from deepsep.evaluation.folds import deal_folds
from deepsep.evaluation.intervals import calibration_error, scores
from deepsep.study import compare, results
from deepsep.study.cells import LABELED_SIZES, Cell, RowPlan, is_done, plan, read_report, shared_test_rows, split_rows
from deepsep.study.running import attempt, prepare, run
from deepsep.study.study_models import (
    ALL_ROWS,
    ENSEMBLE_NN,
    FIRST_EMBEDDING,
    INITIAL_NN,
    LAST_NN,
    build_study_model,
)
from deepsep.study.verdict import comparison_verdict

# -- protocol ------------------------------------------------------------------------------------------------


@given(
    counts=st.lists(st.integers(60, 400), min_size=2, max_size=7),
    sizes=st.sets(st.integers(2, 300), min_size=1, max_size=4),
    shuffle=st.integers(0, 50),
)
@settings(max_examples=60, deadline=None)
def test_labels_then_validation_then_test(counts, sizes, shuffle):
    c = len(counts)
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(c), counts))
    try:
        what = plan(np.array(counts), sizes=sorted(sizes), validation=20, test_per_class=100)
    except DataError:
        assert all(size < c or min(counts) - (size + 20) / c < 31 for size in sizes)
        return
    rows = split_rows(codes, what, shuffle)
    assert len(rows.labeled) == max(what.sizes)
    assert len(rows.validation) == 20
    everything = np.concatenate([rows.labeled, rows.validation, rows.test])
    assert len(np.unique(everything)) == len(everything)  # nobody has two roles
    assert np.bincount(codes[rows.test]).tolist() == [what.test_per_class] * c
    assert 30 <= what.test_per_class <= 100
    for size in what.sizes:
        taken = np.bincount(codes[rows.labeled[:size]], minlength=c)
        assert taken.max() - taken.min() <= 1
        assert taken.min() >= 1
    fits = {size for size in sizes if size >= c and min(counts) - math.ceil((size + 20) / c) >= 30}
    assert set(what.sizes) == fits
    assert len(what.notices) == len(sizes) - len(what.sizes)


def test_how_many_test_rows_two_shuffles_share():
    counts = np.array([300, 150, 200])
    codes = np.repeat(np.arange(3), counts)
    what = plan(counts, sizes=[30, 60], validation=12)
    tests = [split_rows(codes, what, shuffle).test for shuffle in range(60)]
    pairs = [len(np.intersect1d(a, b)) / len(a) for i, a in enumerate(tests) for b in tests[:i]]
    assert shared_test_rows(counts, what) == pytest.approx(np.mean(pairs), abs=0.005)


def test_shuffles_differ_and_repeat():
    codes = np.repeat(np.arange(3), 200)
    what = plan(np.array([200] * 3), sizes=[30], validation=10)
    np.testing.assert_array_equal(split_rows(codes, what, 1).labeled, split_rows(codes, what, 1).labeled)
    assert (split_rows(codes, what, 1).labeled != split_rows(codes, what, 2).labeled).any()


def test_the_test_rows_are_as_many_as_the_smallest_class_has_left():
    what = plan(np.array([2000, 706, 1500, 900, 1100]))
    assert what.sizes == (35, 50, 125, 250, 500, 1250, 2500)
    assert what.test_per_class == 706 - (2500 + 100) // 5
    assert plan(np.full(5, 4000)).test_per_class == 956
    few = plan(np.full(5, 549))  # one row short of what all seven sizes take
    assert few.sizes[-1] == 1250
    assert "2500 labels are left out: the smallest class has 549 rows, which leaves 29 for testing" in few.notices[0]
    assert "each needs a label" in plan(np.full(40, 500), sizes=[35, 50]).notices[0]
    with pytest.raises(DataError, match="too small for every number of labels"):
        plan(np.full(5, 40))


# -- numbers -------------------------------------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    p, codes = rng.dirichlet(np.ones(4), 500), rng.integers(0, 4, 500)
    scored = scores(p, codes)
    assert scored["accuracy"] == (p.argmax(1) == codes).mean()
    assert scored["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(codes, p.argmax(1)))
    assert scored["log_loss"] == pytest.approx(sklearn_log_loss(codes, p))


def test_calibration_error_by_hand():
    p = np.array([[0.95, 0.05], [0.95, 0.05], [0.35, 0.65], [0.4, 0.6]])
    codes = np.array([0, 1, 1, 1])
    # Bin 0.9–1: confidence 0.95, accuracy 0.5. Bin 0.6–0.7: confidence 0.625, accuracy 1.
    assert calibration_error(p, codes) == pytest.approx(0.5 * 0.45 + 0.5 * 0.375)
    certain = np.eye(2)[codes]
    assert calibration_error(certain, codes) == 0


def test_published_averages_are_the_printed_ones():
    averages = results.published_averages([35, 50, 250, 2500])
    assert averages.loc["DeepSep-NN"].tolist() == [42.47, 44.17, 53.50, 58.83]
    assert averages.loc["TSVM"].tolist() == [39.42, 41.39, 48.98, 51.90]
    for name, printed in results.PAPER_AVERAGES.items():  # of rounded shuffles they can be 0.01 off
        np.testing.assert_allclose(np.mean(PAPER_TABLE[name], axis=0), printed, atol=0.0101)
    # All 210 accuracies are those of 2,295 test rows.
    rows = np.array(list(PAPER_TABLE.values())) / 100 * 2295
    assert np.abs(rows - rows.round()).max() < 0.5 * 1e-4 * 2295 + 1e-9


def published_results():
    rows = [
        {"table": "paper", "shuffle": s + 1, "labels": size, "method": name, "accuracy": value / 100}
        for name, shuffles in PAPER_TABLE.items()
        for s, values in enumerate(shuffles)
        for size, value in zip(LABELED_SIZES, values, strict=True)
    ]
    return pd.DataFrame(rows)


def test_claims_on_the_published_table():
    """The paper's own numbers: refinement holds at 125 to 500 labels, LightGBM is beaten at 35 alone."""
    tested = results.claims(published_results())
    refined = tested[tested["claim"] == f"{ENSEMBLE_NN} over {INITIAL_NN}"].set_index("labels")
    assert refined["difference"].round(1).loc[[125, 250, 500]].tolist() == [3.7, 3.6, 3.4]
    assert (refined["p"].loc[[125, 250, 500]] <= 0.0065).all()
    assert refined.index[refined["p_holm"] < 0.05].tolist() == [125, 250, 500]
    boosted = tested[tested["claim"] == f"{ENSEMBLE_NN} over LightGBM"].set_index("labels")
    assert boosted.index[boosted["p_holm"] < 0.05].tolist() == [35]
    renamed = published_results().replace({"method": {"TSVM": ALL_ROWS}})
    claim = f"{ENSEMBLE_NN} over {ALL_ROWS}"
    assert "better at 500, 1250, 2500 labels" in results.claim_sentence(results.claims(renamed), claim)
    words = results.claim_sentence(tested, f"{ENSEMBLE_NN} over {INITIAL_NN}")
    assert "better at 125, 250, 500 labels" in words
    gains = np.array(PAPER_TABLE[ENSEMBLE_NN])[:, 2] - np.array(PAPER_TABLE[INITIAL_NN])[:, 2]
    assert refined.loc[125, "p"] == pytest.approx(stats.ttest_rel(gains, np.zeros(5)).pvalue)


def test_the_corrected_resampled_t_is_nadeau_and_bengios():
    """With all rows in training or test, their formula in numbers of rows, by an integral of the density of t."""
    gains, n_train, n_test = np.array([1.2, 0.4, 2.2, -0.3, 0.9]), 300, 100
    t = gains.mean() / np.sqrt((1 / 5 + n_test / n_train) * gains.var(ddof=1))
    density = math.gamma(2.5) / math.sqrt(4 * math.pi) / math.gamma(2)
    tail, _ = quad(lambda x: density * (1 + x * x / 4) ** -2.5, t, np.inf)
    assert results.corrected_resampled_t(gains, n_test / (n_train + n_test)) == pytest.approx(2 * tail)
    assert results.corrected_resampled_t(gains, 0.0) == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)
    assert results.corrected_resampled_t(-gains, 0.25) == results.corrected_resampled_t(gains, 0.25)


def test_the_corrected_test_rejects_as_often_as_it_says():
    """Differences of resampled test sets from one finite table, none of them real: about 5 % below .05, not 20 %."""
    rng, n, n_test = np.random.default_rng(0), 400, 160
    below = np.zeros(2)
    for _ in range(1500):
        table = rng.normal(size=n)  # what one model is ahead by on each row
        gains = [rng.choice(table, n_test, replace=False).mean() for _ in range(5)]
        below += [stats.ttest_1samp(gains, 0).pvalue < 0.05, results.corrected_resampled_t(gains, n_test / n) < 0.05]
    plain, corrected = below / 1500
    assert corrected == pytest.approx(0.05, abs=0.02)
    assert plain > 0.1


def test_both_tests_stand_beside_each_other():
    frame = published_results()
    assert results.claims(frame)["p_corrected"].isna().all()  # how many test rows its shuffles share is not known
    tested = results.claims(frame.assign(shared_test_rows=0.2))
    assert (tested["p_corrected"] > tested["p"]).all()
    row = tested[(tested["claim"] == f"{ENSEMBLE_NN} over {INITIAL_NN}") & (tested["labels"] == 125)].iloc[0]
    gains = np.array(PAPER_TABLE[ENSEMBLE_NN])[:, 2] - np.array(PAPER_TABLE[INITIAL_NN])[:, 2]
    assert row["p_corrected"] == pytest.approx(results.corrected_resampled_t(gains, 0.2), rel=1e-6)
    assert row["p_corrected_holm"] >= row["p_corrected"]


def test_holm_by_hand():
    assert results.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert results.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    adjusted = results.holm([0.01, float("nan"), 0.04])
    assert adjusted[0] == pytest.approx(0.02)
    assert np.isnan(adjusted[1])


def test_table_1_has_one_block_per_shuffle_and_averages_last():
    table = results.table_1(published_results().replace({"method": {"TSVM": ALL_ROWS}}))
    assert len(table) == 36
    assert table.index[0] == (1, "LightGBM")
    assert table.index[-1] == ("Average", "DeepSep-Ensemble")
    assert table.loc[("Average", "Mean Teacher"), 35] == pytest.approx(40.98, abs=0.006)
    for text in (results.table_1_text(table), results.as_markdown(table), results.as_latex(table)):
        assert text.count("DeepSep-Ensemble") == 6
        assert "48.71" in text
    assert results.as_latex(table).count("\\hline") == 8


# -- cells ---------------------------------------------------------------------------------------------------

QUICK = {"deepsep": {"initial_epochs": 3, "rounds": 2, "propensity_epochs": 1, "label_epochs": 1, "hidden": (8, 4)}}


def small_table(n=360):
    rng = np.random.default_rng(0)
    segment = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "age": segment * 2 + rng.normal(size=n),
            "plan": np.array(["free", "pro", "team"])[(segment + (rng.random(n) < 0.2)) % 3],
            "segment": np.array(["a", "b", "c"])[segment],
        }
    )


def small_experiment(folder, **changes):
    asked = {"labels": (6, 12), "shuffles": 2, "methods": ("knn", "deepsep"), "settings": QUICK, "trials": 0}
    return prepare("small", small_table(), folder, label="segment", validation=12, **(asked | changes))


def test_a_run_resumes_and_is_the_same_whatever_the_workers(tmp_path):
    one = small_experiment(tmp_path / "one")
    assert len(one.cells) == 8
    seen = []
    run(one, jobs=1, on_cell=lambda: seen.append(1))
    assert len(seen) == 8
    assert one.pending == []
    two = small_experiment(tmp_path / "two")
    run(two, jobs=2)
    collected = results.collect(one.cells, one.cells_folder)
    assert collected.columns.tolist()[:5] == ["table", "shuffle", "labels", "method", "accuracy"]
    assert len(collected) == 2 * 2 * 5
    pd.testing.assert_frame_equal(
        collected.drop(columns="seconds"), results.collect(two.cells, two.cells_folder).drop(columns="seconds")
    )
    # A changed setting makes new cells of that method alone; what is done is not done again.
    changed = small_experiment(tmp_path / "one", settings={"knn": {"n_neighbors": 1}, **QUICK})
    assert {cell.method for cell in changed.pending} == {"knn"}
    assert len(small_experiment(tmp_path / "one", labels=(6,)).pending) == 4  # other test rows
    by_round = results.rounds(one.cells, one.cells_folder)
    assert by_round["round"].max() == 2
    last = by_round[by_round["round"] == 2].merge(collected[collected["method"] == LAST_NN], on=["shuffle", "labels"])
    np.testing.assert_array_equal(last["network"], last["accuracy"])
    last = by_round[by_round["round"] == 2].merge(
        collected[collected["method"] == ENSEMBLE_NN], on=["shuffle", "labels"]
    )
    np.testing.assert_allclose(last["average"], last["accuracy"], atol=0.005)


def test_a_cell_that_another_run_has_finished_is_not_fitted_again(tmp_path):
    one = small_experiment(tmp_path, methods=("knn",), labels=(6,), shuffles=1)
    run(one)
    before = read_report(one.cells[0], one.cells_folder)
    assert attempt(one.cells[0], tmp_path / "no such table", one.cells_folder) is None
    assert read_report(one.cells[0], one.cells_folder) == before


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path):
    broken = small_experiment(tmp_path, settings={**QUICK, "knn": {"n_neighbors": -1}})
    with pytest.raises(DeepSepError, match=r"4 of 8 cells failed.*knn at"):
        run(broken)
    assert {cell.method for cell in broken.pending} == {"knn"}


def test_one_command_per_method_fills_the_same_folder(tmp_path):
    for name in ("knn", "tsvm"):
        run(small_experiment(tmp_path, methods=(name,), labels=(6,)))
    assert not small_experiment(tmp_path, methods=("knn", "tsvm"), labels=(6,)).pending


def test_an_unfinished_cell_is_not_done(tmp_path):
    cell = Cell("t", "0", "label", 0, 10, "knn")
    assert not is_done(cell, tmp_path)
    (tmp_path / cell.key).mkdir()
    (tmp_path / cell.key / "report.json").write_text("{")
    assert not is_done(cell, tmp_path)
    assert cell.plan == RowPlan((0,), 0, 0, ())


def test_ablation_adds_variants_where_the_paper_looks(tmp_path):
    table = pd.concat([small_table(1200)] * 2, ignore_index=True)
    ablated = prepare("t", table, tmp_path, label="segment", labels=(35, 50, 250), shuffles=1, ablation=True, trials=0)
    variants = [cell for cell in ablated.cells if cell.variant]
    assert {cell.labels for cell in variants} == {35, 50}  # the paper's regime; of the others 125 and 500
    assert len(variants) == 16
    assert [cell.parameters["pretrain"] for cell in variants if cell.variant == "without autoencoder"] == ["None"] * 2
    assert len({cell.key for cell in ablated.cells}) == len(ablated.cells)


def test_the_first_tsvm_has_the_settings_of_deepsep(tmp_path):
    """With C_star="pool" its unlabelled rows weigh less than with None, and the initial network is the same."""
    logs = {}
    for C_star in (None, "pool"):
        changed = {"deepsep": QUICK["deepsep"] | {"C_star": C_star, "n_unlabeled": 20}}
        one = small_experiment(tmp_path, methods=("deepsep",), labels=(12,), shuffles=1, settings=changed)
        run(one)
        rows = results.collect(one.cells, one.cells_folder).set_index("method")
        logs[C_star] = rows["log_loss"]
    assert logs[None][INITIAL_NN] == logs["pool"][INITIAL_NN]
    assert logs[None][FIRST_EMBEDDING] != logs["pool"][FIRST_EMBEDDING]


def test_the_tsvms_of_the_study_are_solved_by_cccp():
    assert build_study_model("tsvm").algorithm == build_study_model("deepsep").algorithm == "cccp"
    assert build_study_model("tsvm", algorithm="single-loop").algorithm == "single-loop"
    assert build_study_model("deepsep-defaults").get_params() == method("deepsep").get_params()


def test_the_linear_svm_is_that_of_libsvm():
    """Without unlabelled rows, each class against the rest: the boundaries of another program, at the same cost."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 90)
    X = rng.normal(size=(90, 4)) + codes[:, None] * [1.0, -0.5, 0, 0]
    y = np.where(np.arange(90) < 45, codes, -1)
    model = build_study_model("linear-svm").fit(X, y)
    for k in range(3):
        twin = SVC(kernel="linear", C=0.1, tol=1e-10).fit(X[:45], codes[:45] == k)
        np.testing.assert_allclose(model.coef_[k], twin.coef_[0], atol=1e-5)
    moved = build_study_model("linear-svm").fit(np.where(y[:, None] < 0, X + 3, X), y)
    np.testing.assert_allclose(model.coef_, moved.coef_, atol=1e-9)  # wherever the unlabelled rows lie


def test_the_tsvms_of_the_study_differ_in_their_unlabeled_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), np.where(np.arange(400) < 40, np.arange(400) % 2, -1)
    few, every = (build_study_model(name, random_state=0).fit(X, y) for name in ("tsvm-250", "tsvm"))
    assert (few.n_unlabeled_, every.n_unlabeled_) == (250, 360)
    assert build_study_model("deepsep").n_unlabeled == 250
    same = few.get_params() | {"n_unlabeled": None}
    assert same == every.get_params()


def test_a_label_column_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no column 'label'"):
        prepare("small", small_table(), tmp_path)


# -- comparing -----------------------------------------------------------------------------------------------


def partly_labeled(n_labeled=60):
    frame = small_table()
    y = frame.pop("segment").to_numpy(dtype=object)
    y[n_labeled:] = None
    return frame, y


def test_compare_measures_what_cross_validation_measures():
    """Accuracies are those of fitting by hand on the folds of LabelledFold."""
    frame, y = partly_labeled()
    asked = {"folds": 3, "repeats": 2, "seed": 4, "labels_drawn": "quota"}  # folds of random labels are not stratified
    comparison = compare(frame, y, methods=["knn", "logistic-regression"], **asked)
    assert comparison["unlabelled"] is None
    for entry in comparison["methods"]:
        by_hand = []
        for repeat in range(2):
            right = []
            for train, test in LabeledFold(3, random_state=4 + repeat).split(frame, y):
                model = for_table(method(entry["name"])).fit(frame.iloc[train], y[train])
                right += (model.predict(frame.iloc[test]) == y[test]).tolist()
            by_hand.append(np.mean(right))
        assert entry["accuracy"]["value"] == pytest.approx(np.mean(by_hand))
    assert comparison["methods"][0]["against_first"]["difference"] == 0
    assert comparison["methods"][0]["accuracy"]["value"] >= comparison["methods"][1]["accuracy"]["value"]


def test_a_comparison_is_a_table():
    frame, y = partly_labeled()
    found = compare(frame, y, methods=["knn", "logistic-regression"], folds=3, repeats=1)
    table = found.table
    assert isinstance(table, pd.DataFrame)
    assert table["method"].tolist() == [entry["name"] for entry in found["methods"]]
    assert table["accuracy"].is_monotonic_decreasing
    assert (table["accuracy_low"] < table["accuracy"]).all()
    assert table.loc[0, "difference"] == 0
    for text in (repr(found), found._repr_html_()):
        assert found.verdict[0] in text
        assert "logistic-regression" in text
    assert json.loads(json.dumps(found)) == found  # what the command line writes


def test_compare_is_the_same_whatever_the_workers_and_asks_about_unlabeled_rows():
    frame, y = partly_labeled()
    asked = {"methods": ["tsvm", "knn"], "folds": 3, "repeats": 1}
    steps = []
    one = compare(frame, y, **asked, on_step=lambda *step: steps.append(step))
    two = compare(frame, y, **asked, n_jobs=2)
    for result in (one, two):
        for entry in result["methods"]:
            assert entry.pop("seconds") > 0
    assert one == two
    done, (total, *others) = [step[0] for step in steps], [step[1] for step in steps]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(total)
    assert set(others) == {total}
    asked_about = one["unlabelled"]
    assert (asked_about["method"], asked_about["labels_alone"]) == ("tsvm", "knn")
    low, high = asked_about["without"]["interval"]
    assert low <= asked_about["without"]["difference"] <= high


def test_compare_holds_out_random_labels_and_learns_from_chosen_ones():
    frame, y = partly_labeled()
    drawn = np.where(np.arange(len(y)) < 40, "random", "chosen")
    asked = {"methods": ["logistic-regression"], "folds": 3, "seed": 4}
    found = compare(frame, y, labels_drawn=drawn, **asked)
    assert found.notes == ["20 labels are learned from but not held out, since they cannot tell the accuracy."]
    right = []
    for fold in deal_folds(as_labels(y), n_splits=3, seed=4, stratified=False).tests:
        test = fold[drawn[fold] == "random"]
        train = np.setdiff1d(np.flatnonzero(~pd.isna(y)), test)
        assert (drawn[train] == "chosen").sum() == 20
        model = for_table(method("logistic-regression")).fit(frame.iloc[train], y[train])
        right += (model.predict(frame.iloc[test]) == y[test]).tolist()
    assert len(right) == 40
    assert found["methods"][0]["accuracy"]["value"] == pytest.approx(np.mean(right))
    notes = compare(frame, y, labels_drawn="chosen", **asked).notes
    assert notes == ["All labels were chosen: the figures hold for rows like these, not for all rows."]
    committee = {"committee": {"members": ["logistic-regression"]}}
    asked = {**asked, "methods": ["committee", "logistic-regression"], "settings": committee}
    both = {entry["name"]: entry["accuracy"] for entry in compare(frame, y, labels_drawn=drawn, **asked)["methods"]}
    assert both["committee"] == both["logistic-regression"] == found["methods"][0]["accuracy"]


def test_compare_counts_by_weight():
    frame, y = partly_labeled()
    weight = np.random.default_rng(0).uniform(0.2, 4, len(y))
    weight[:3] = 0
    asked = {"methods": ["logistic-regression", "label-spreading"], "folds": 3, "repeats": 1, "seed": 4}
    asked |= {"labels_drawn": "quota"}
    comparison = compare(frame, y, sample_weight=weight, **asked)
    assert comparison["weighted"]
    assert comparison["notes"] == ["label-spreading is left out: it does not support weights."]
    kept, right, counted = weight > 0, [], []
    some, known, w = frame[kept].reset_index(drop=True), y[kept], weight[kept]
    for train, test in LabeledFold(3, random_state=4).split(some, known):
        model = for_table(method("logistic-regression"))
        model.fit(some.iloc[train], known[train], supervised__sample_weight=w[train])
        right += (model.predict(some.iloc[test]) == known[test]).tolist()
        counted += w[test].tolist()
    entry = next(entry for entry in comparison["methods"] if entry["name"] == "logistic-regression")
    assert entry["accuracy"]["value"] == pytest.approx(np.average(right, weights=counted))
    assert len(right) == 57
    assert (comparison["labelled"], sum(comparison["labels_per_class"]), comparison["columns"]) == (
        60,
        60,
        list(frame),
    )
    assert not compare(frame, y, **asked)["weighted"]


@pytest.mark.parametrize("weighted", [False, True])
def test_committee_is_compared_by_one_fit_and_its_members_are_not_fitted_again(weighted, monkeypatch):
    """A committee of one method predicts its classes; a member's scores are those of the method by itself."""
    monkeypatch.setattr("deepsep.study.comparison.MAX_UNLABELED", 200)
    frame, y = partly_labeled()
    asked, costs = {"folds": 3, "repeats": 2, "seed": 4, "labels_drawn": "random"}, []
    if weighted:
        weight = np.random.default_rng(0).uniform(0.2, 4, len(y))
        weight[::20] = 0
        asked["sample_weight"] = weight
    members = {"committee": {"members": ["logistic-regression"]}}
    both = compare(
        frame,
        y,
        methods=["committee", "logistic-regression", "svm"],
        settings=members,
        on_cost=lambda *cost: costs.append(cost),
        **asked,
    )
    alone = compare(frame, y, methods=["logistic-regression", "svm"], **asked)
    of = {entry["name"]: entry for entry in both["methods"]}
    for entry in alone["methods"]:
        for metric in ("accuracy", "log_loss", "ece"):
            assert entry[metric] == of[entry["name"]][metric]
    assert of["committee"]["accuracy"] == of["logistic-regression"]["accuracy"]
    assert of["committee"]["log_loss"] != of["logistic-regression"]["log_loss"]  # it has a temperature
    assert of["committee"]["settings"] == {"members": "['logistic-regression']"}
    assert both["settings"] == members | {"committee": {"members": "['logistic-regression']"}}
    ((n_fits, seconds),) = costs
    assert n_fits == 1 + 6 + 6  # of the member to all rows and in the folds, and of the other method
    assert seconds > 0
    other = {"logistic-regression": {"C": 0.01}}
    compare(frame, y, methods=list(of), settings=members | other, on_cost=lambda *cost: costs.append(cost), **asked)
    assert costs[1][0] == 1 + 6 + 6 + 6


def test_twins_of_the_committee_say_whether_unlabeled_rows_helped():
    frame, y = partly_labeled()
    asked = {"folds": 3, "labels_drawn": "random"}
    members = {"committee": {"members": ["tsvm"]}}
    together = compare(frame, y, methods=["committee", "knn"], settings=members, **asked)
    by_itself = compare(frame, y, methods=["tsvm", "knn"], **asked)
    assert together["unlabelled"]["method"] == "committee"
    assert together["unlabelled"]["without"] == by_itself["unlabelled"]["without"]


def test_deepsep_is_calibrated_by_the_other_folds():
    frame, y = partly_labeled()
    quick = {"rounds": 1, "initial_epochs": 30, "propensity_epochs": 1, "label_epochs": 1, "n_networks": 1}
    asked = {"methods": ["deepsep"], "folds": 3, "seed": 4, "labels_drawn": "quota"}
    (found,) = compare(frame, y, settings={"deepsep": quick}, **asked)["methods"]
    (raw,) = compare(frame, y, settings={"deepsep": {**quick, "calibrate": False}}, **asked)["methods"]
    assert found["settings"]["calibrate"] is True
    assert found["accuracy"] == raw["accuracy"]
    X = for_table(method("deepsep"))[:-1].fit_transform(frame, y)
    held_out = out_of_fold(method("deepsep", **quick, random_state=4), X, y, n_splits=3, random_state=4)
    p, own = np.log(held_out.probabilities), np.arange(len(held_out.codes))
    losses = np.empty(len(own))

    def loss(log_T):
        return -log_softmax(p / np.exp(log_T), axis=1)[own, held_out.codes]

    for fold in range(3):
        at = held_out.fold == fold
        best = minimize_scalar(lambda log_T, others=~at: loss(log_T)[others].mean(), bounds=(-3, 3))
        losses[at] = loss(best.x)[at]
    assert found["log_loss"]["value"] == pytest.approx(losses.mean(), abs=1e-4)
    assert raw["log_loss"]["value"] == pytest.approx(-p[own, held_out.codes].mean(), abs=1e-6)


def test_shares_reach_every_method_and_the_weights_of_held_out_rows():
    """The probabilities of a method without the setting have the shares as their mean over the unlabelled rows."""
    frame, y = partly_labeled()
    priors = {"a": 0.6, "b": 0.3, "c": 0.1}
    asked = {"methods": ["logistic-regression", "tsvm"], "folds": 3, "seed": 4, "labels_drawn": "quota"}
    found = compare(frame, y, priors=priors, **asked)
    assert found["by_shares"]
    assert not found["weighted"]
    assert "weighted to the given shares" in repr(found)
    of = {entry["name"]: entry for entry in found["methods"]}
    assert of["tsvm"]["settings"] == {"priors": str(priors)}
    X = for_table(method("tsvm"))[:-1].fit_transform(frame, y)
    shares, pool = np.array([0.6, 0.3, 0.1]), np.flatnonzero(pd.isna(y))
    right = {name: [] for name in of}
    truth = []
    for train, test in LabeledFold(3, random_state=4).split(frame, y):
        truth += y[test].tolist()
        plain = method("logistic-regression").fit(X[train], y[train])
        log_p = np.log(plain.predict_proba(X[pool]))

        def miss(shift, log_p=log_p):
            return softmax(log_p + np.array([0, *shift]), axis=1).mean(axis=0)[1:] - shares[1:]

        shift = np.array([0, *root(miss, np.zeros(2)).x])
        best = (np.log(plain.predict_proba(X[test])) + shift).argmax(axis=1)
        right["logistic-regression"] += (plain.classes_[best] == y[test]).tolist()
        known = method("tsvm", priors=priors, random_state=4).fit(X[train], y[train])
        right["tsvm"] += (known.predict(X[test]) == y[test]).tolist()
    counts = pd.Series(truth).value_counts()
    weight = [priors[label] / counts[label] for label in truth]
    for name, each in right.items():
        assert of[name]["accuracy"]["value"] == pytest.approx(np.average(each, weights=weight))
    assert not compare(frame, y, **asked)["by_shares"]


def test_compare_finds_what_is_wrong_with_the_table():
    frame, y = partly_labeled()
    frame["code"] = np.where(pd.isna(y), "?", y)
    with pytest.warns(DeepSepWarning, match="left out 'code'"):
        found = compare(frame, y, methods=["knn"], folds=2)
    assert [finding["code"] for finding in found.findings] == ["one-sided"]
    for text in (repr(found), found._repr_html_()):
        assert "code" in text.split("accuracy")[0]
    assert not compare(frame.drop(columns="code"), y, methods=["knn"], folds=2).findings


def test_compare_leaves_out_what_fails_and_says_so():
    frame, y = partly_labeled()
    weight = np.full(len(y), 1.5)  # neighbours take no weights, and one and a half copies of a row there are not
    comparison = compare(frame, y, methods=["knn", "logistic-regression"], folds=2, repeats=1, sample_weight=weight)
    assert [entry["name"] for entry in comparison["methods"]] == ["logistic-regression"]
    (note,) = comparison["notes"]
    assert note.startswith("knn is left out: KNeighborsClassifier takes no weights")
    with pytest.raises(LabelError, match=r"no method could be fitted\. knn is left out"):
        compare(frame, y, methods=["knn"], folds=2, repeats=1, sample_weight=weight)


def entry(name, value, gap, *, semi=False, seconds=1.0):
    score = {"value": value, "interval": [value - 0.05, value + 0.05]}
    against = {"difference": gap, "interval": [gap - 0.02, gap + 0.02]}
    return {"name": name, "uses_unlabelled": semi, "accuracy": score, "against_first": against, "seconds": seconds}


def test_verdict_separates_noise_from_difference():
    gap = {"difference": 0.03, "interval": [0.01, 0.05]}
    asked = {"method": "a", "without": gap, "labels_alone": "b", "against_labels_alone": gap}
    far = {"methods": [entry("a", 0.8, 0.0, semi=True), entry("b", 0.77, -0.03)], "unlabelled": asked, "expected": None}
    words = " ".join(comparison_verdict(far)).replace("\N{NO-BREAK SPACE}", " ")
    assert "Use a: 80 %" in words
    assert "b comes next, and the difference is more than noise: −3.0 points" in words
    assert "The unlabelled rows helped: a with them against without, +3.0 points" in words
    assert "a, beats the best that does not, b" in words
    expected = {"value": 0.7, "interval": [0.6, 0.75], "condition": "if it holds"}
    near = {"methods": [entry("a", 0.8, 0.0), entry("b", 0.79, -0.01, seconds=0.1)], "unlabelled": None}
    near["expected"] = expected
    words = " ".join(comparison_verdict(near)).replace("\N{NO-BREAK SPACE}", " ")
    assert "may be noise" in words
    assert "0.1 s per fit instead of 1.0" in words
    assert "about 70 % (60–75 %) of the unlabelled rows the right label, if it holds." in words
    better = {**near, "methods": [entry("a", 0.8, 0.0), entry("b", 0.81, 0.01)], "expected": None}
    words = " ".join(comparison_verdict(better)).replace("\N{NO-BREAK SPACE}", " ")
    assert "Use a: 80 %" in words
    assert "b got 81 % right, but the difference may be noise: +1.0 points, 90 % interval −1.0 to +3.0" in words


def test_the_committee_is_recommended_unless_another_method_is_ahead_by_more_than_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other").astype(object)  # no line separates them
    y[120:] = None
    asked = {"methods": ["knn", "committee", "svm"], "labels_drawn": "random"}
    linear, fitting = ({"committee": {"members": [name]}} for name in ("logistic-regression", "svm"))
    found = compare(X, y, settings=linear, **asked)
    assert [entry["name"] for entry in found["methods"]][2] == "committee"
    assert found["methods"][0]["accuracy"]["value"] >= found["methods"][1]["accuracy"]["value"]
    assert found["expected"] is None
    found = compare(X, y, settings=fitting, **asked)
    first, *others = found["methods"]
    assert first["name"] == "committee"
    assert all(entry["against_first"]["interval"][0] <= 0 for entry in others)
    assert others[0]["accuracy"]["value"] >= others[1]["accuracy"]["value"]
    assert found["expected"]["condition"] is None


@pytest.mark.parametrize("drawn", ["random", "quota", None])
def test_the_committee_has_the_figures_of_its_fit(drawn):
    frame, y = partly_labeled()
    settings = {"members": ["logistic-regression", "tsvm"]}
    found = compare(
        frame, y, methods=["committee", "knn"], settings={"committee": settings}, labels_drawn=drawn, seed=3
    )
    model = for_table(method("committee", **settings, random_state=3))
    committee = model.fit(frame, y, committee__labels_drawn=drawn)[-1]
    evidence = committee.evidence_
    right = np.average(evidence.p.argmax(axis=1) == evidence.codes, weights=evidence.weight)
    entry = next(entry for entry in found["methods"] if entry["name"] == "committee")
    assert entry["accuracy"]["value"] == pytest.approx(right)
    assert found["population"] == {"random": "labels"}.get(drawn, "estimated")
    assert ("that the committee estimates" in found.text) == (drawn != "random")
    if found["methods"][0] is entry:
        assert found["expected"]["value"] == pytest.approx(committee.expected_accuracy_.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"folds": 1},
        {"repeats": 0},
        {"methods": []},
        {"methods": ["knm"]},
        {"methods": ["knn"], "settings": {"svm": {"C": 2}}},
        {"methods": ["knn"], "settings": {"knn": {"neighbours": 2}}},
        {"methods": ["tsvm"], "settings": {"tsvm": {"priors": {"a": 0.5, "b": 0.3, "c": 0.2}}}},
        {"methods": ["tsvm"], "settings": {"tsvm": {"probability": None}}},
        {"methods": ["tsvm"], "priors": {"a": 1.0}},
    ],
    ids=str,
)
def test_compare_checks_its_settings(changes):
    frame, y = partly_labeled()
    with pytest.raises(ParameterError):
        compare(frame, y, **changes)
    for weight, what in (
        ([1.0, 2.0], "expected"),
        (np.where(np.arange(len(y)) == 3, -1.0, 1.0), "[Nn]egative"),
        (np.where(np.arange(len(y)) == 3, np.nan, 1.0), "NaN"),
    ):
        with pytest.raises(ParameterError, match=f"sample_weight: .*{what}.* for each of the {len(y)} rows"):
            compare(frame, y, sample_weight=weight)
    with pytest.raises(LabelError, match="Label more rows"):
        compare(frame, np.where(np.arange(len(y)) < 1, y, None))


# -- tuning --------------------------------------------------------------------------------------------------


def test_tuning_uses_the_validation_rows_alone(tmp_path):
    pytest.importorskip("optuna")
    tuned = small_experiment(tmp_path, methods=("knn",), labels=(12,), shuffles=1, trials=4)
    run(tuned)
    report = read_report(tuned.cells[0], tuned.cells_folder)
    assert 1 <= report["settings"]["n_neighbors"] <= 30
    assert len(results.collect(tuned.cells, tuned.cells_folder)) == 1
