"""The protocol of the paper's section 3, the cells, and what is made of them."""

import json
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import balanced_accuracy_score
from sklearn.metrics import log_loss as sklearn_log_loss

from deepsep._metrics import calibration_error, scores
from deepsep.errors import DataError, DeepSepError
from deepsep.experiments import _published, _results
from deepsep.experiments._cells import Cell, is_done, read_report
from deepsep.experiments._models import ENSEMBLE, INITIAL, LAST
from deepsep.experiments._protocol import Plan, deal, plan
from deepsep.experiments._run import prepare, run

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
    rows = deal(codes, what, shuffle)
    assert len(rows.labelled) == max(what.sizes)
    assert len(rows.validation) == 20
    everything = np.concatenate([rows.labelled, rows.validation, rows.test])
    assert len(np.unique(everything)) == len(everything)  # nobody has two roles
    assert np.bincount(codes[rows.test]).tolist() == [what.test_per_class] * c
    assert 30 <= what.test_per_class <= 100
    for size in what.sizes:
        taken = np.bincount(codes[rows.labelled[:size]], minlength=c)
        assert taken.max() - taken.min() <= 1
        assert taken.min() >= 1
    assert set(sizes) - set(what.sizes) == {size for size in sizes if size not in what.sizes}
    assert len(what.notices) == len(sizes) - len(what.sizes)


def test_shuffles_differ_and_repeat():
    codes = np.repeat(np.arange(3), 200)
    what = plan(np.array([200] * 3), sizes=[30], validation=10)
    np.testing.assert_array_equal(deal(codes, what, 1).labelled, deal(codes, what, 1).labelled)
    assert (deal(codes, what, 1).labelled != deal(codes, what, 2).labelled).any()


def test_the_test_rows_are_as_many_as_the_smallest_class_has_left():
    what = plan(np.array([2000, 706, 1500, 900, 1100]))
    assert what.sizes == (35, 50, 125, 250, 500, 1250, 2500)
    assert what.test_per_class == 706 - (2500 + 100) // 5
    assert plan(np.full(5, 4000)).test_per_class == 956
    few = plan(np.full(5, 549))  # one row short of what all seven sizes take
    assert few.sizes[-1] == 1250
    assert "2500 labels are left out: the smallest class has 549 rows, so that 29 would be left" in few.notices[0]
    assert "each needs one" in plan(np.full(40, 500), sizes=[35, 50]).notices[0]
    with pytest.raises(DataError, match="fits no size"):
        plan(np.full(5, 40))


# -- numbers -------------------------------------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    p, codes = rng.dirichlet(np.ones(4), 500), rng.integers(0, 4, 500)
    found = scores(p, codes)
    assert found["accuracy"] == (p.argmax(1) == codes).mean()
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(codes, p.argmax(1)))
    assert found["log_loss"] == pytest.approx(sklearn_log_loss(codes, p))


def test_calibration_error_by_hand():
    p = np.array([[0.95, 0.05], [0.95, 0.05], [0.35, 0.65], [0.4, 0.6]])
    codes = np.array([0, 1, 1, 1])
    # Bin 0.9–1: confidence 0.95, accuracy 0.5. Bin 0.6–0.7: confidence 0.625, accuracy 1.
    assert calibration_error(p, codes) == pytest.approx(0.5 * 0.45 + 0.5 * 0.375)
    certain = np.eye(2)[codes]
    assert calibration_error(certain, codes) == 0


def test_published_averages_are_the_printed_ones():
    averages = _results.published_averages([35, 125, 2500])
    assert averages.loc["DeepSep-Ensemble"].tolist() == pytest.approx([42.75, 48.71, 59.34], abs=0.006)
    assert averages.loc["LightGBM"].tolist() == pytest.approx([33.61, 47.21, 60.15], abs=0.006)
    # All 210 accuracies are those of 2,295 test rows.
    rows = np.array(list(_published.TABLE.values())) / 100 * 2295
    assert np.abs(rows - rows.round()).max() < 0.5 * 1e-4 * 2295 + 1e-9


def published_results():
    rows = [
        {"table": "paper", "shuffle": s + 1, "labels": size, "method": name, "accuracy": value / 100}
        for name, shuffles in _published.TABLE.items()
        for s, values in enumerate(shuffles)
        for size, value in zip(_published.SIZES, values, strict=True)
    ]
    return pd.DataFrame(rows)


def test_claims_on_the_published_table():
    """The paper's own numbers: refinement holds at 125 to 500 labels, LightGBM is beaten at 35 alone."""
    tested = _results.claims(published_results())
    refined = tested[tested["claim"] == f"{ENSEMBLE} over {INITIAL}"].set_index("labels")
    assert refined["difference"].round(1).loc[[125, 250, 500]].tolist() == [3.7, 3.6, 3.4]
    assert (refined["p"].loc[[125, 250, 500]] <= 0.0065).all()
    assert refined.index[refined["p_holm"] < 0.05].tolist() == [125, 250, 500]
    boosted = tested[tested["claim"] == f"{ENSEMBLE} over LightGBM"].set_index("labels")
    assert boosted.index[boosted["p_holm"] < 0.05].tolist() == [35]
    words = _results.sentence(tested, f"{ENSEMBLE} over {INITIAL}")
    assert "better at 125, 250, 500 labels" in words
    gains = np.array(_published.TABLE[ENSEMBLE])[:, 2] - np.array(_published.TABLE[INITIAL])[:, 2]
    assert refined.loc[125, "p"] == pytest.approx(stats.ttest_rel(gains, np.zeros(5)).pvalue)


def test_holm_by_hand():
    assert _results.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert _results.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    adjusted = _results.holm([0.01, float("nan"), 0.04])
    assert adjusted[0] == pytest.approx(0.02)
    assert np.isnan(adjusted[1])


def test_table_1_has_a_block_a_shuffle_and_averages_last():
    table = _results.table_1(published_results().replace({"method": {"TSVM": "TSVM (raw features)"}}))
    assert len(table) == 36
    assert table.index[0] == (1, "LightGBM")
    assert table.index[-1] == ("Average", "DeepSep-Ensemble")
    assert table.loc[("Average", "Mean Teacher"), 35] == pytest.approx(40.98, abs=0.006)
    for text in (_results.as_text(table), _results.as_markdown(table), _results.as_latex(table)):
        assert text.count("DeepSep-Ensemble") == 6
        assert "48.71" in text
    assert _results.as_latex(table).count("\\hline") == 8


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
    found = _results.collect(one.cells, one.cells_folder)
    assert found.columns.tolist()[:5] == ["table", "shuffle", "labels", "method", "accuracy"]
    assert len(found) == 2 * 2 * 5
    pd.testing.assert_frame_equal(
        found.drop(columns="seconds"), _results.collect(two.cells, two.cells_folder).drop(columns="seconds")
    )
    # A changed setting makes new cells of that method alone; what is done is not done again.
    changed = small_experiment(tmp_path / "one", settings={"knn": {"n_neighbors": 1}, **QUICK})
    assert {cell.method for cell in changed.pending} == {"knn"}
    assert len(small_experiment(tmp_path / "one", labels=(6,)).pending) == 4  # other test rows
    by_round = _results.rounds(one.cells, one.cells_folder)
    assert by_round["round"].max() == 2
    last = by_round[by_round["round"] == 2].merge(found[found["method"] == LAST], on=["shuffle", "labels"])
    np.testing.assert_array_equal(last["network"], last["accuracy"])
    last = by_round[by_round["round"] == 2].merge(found[found["method"] == ENSEMBLE], on=["shuffle", "labels"])
    np.testing.assert_allclose(last["average"], last["accuracy"], atol=0.005)


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path):
    broken = small_experiment(tmp_path, settings={**QUICK, "knn": {"n_neighbors": 10_000}})
    with pytest.raises(DeepSepError, match=r"4 of 8 cells failed.*knn at"):
        run(broken)
    assert {cell.method for cell in broken.pending} == {"knn"}


def test_an_unfinished_cell_is_not_done(tmp_path):
    cell = Cell("t", "0", 0, 10, "knn")
    assert not is_done(cell, tmp_path)
    (tmp_path / cell.key).mkdir()
    (tmp_path / cell.key / "report.json").write_text("{")
    assert not is_done(cell, tmp_path)
    assert cell.plan == Plan((0,), 0, 0, ())


def test_ablation_adds_variants_at_two_sizes(tmp_path):
    table = pd.concat([small_table(1200)] * 2, ignore_index=True)
    ablated = prepare("t", table, tmp_path, label="segment", labels=(35, 125, 500), shuffles=1, ablation=True, trials=0)
    variants = [cell for cell in ablated.cells if cell.variant]
    assert {cell.labels for cell in variants} == {125, 500}
    assert len(variants) == 16
    assert len({cell.key for cell in ablated.cells}) == len(ablated.cells)


def test_a_label_column_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no column 'label'"):
        prepare("small", small_table(), tmp_path)


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_experiments import small_experiment
from deepsep.experiments._run import run
if __name__ == "__main__":
    run(small_experiment(Path(sys.argv[1]), shuffles=3))
"""


@pytest.mark.slow
def test_a_run_that_is_killed_several_times_ends_with_the_same_table(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(RUN)
    whole = small_experiment(tmp_path / "whole", shuffles=3)
    run(whole)
    killed = small_experiment(tmp_path / "killed", shuffles=3)
    command = [sys.executable, str(script), str(tmp_path / "killed"), str(__file__).rpartition("/")[0]]
    kills = 0
    for _ in range(20):
        before = len(killed.pending)
        process = subprocess.Popen(command)
        while process.poll() is None and len(killed.pending) > before - 2:
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()  # SIGKILL: no chance to tidy up
            process.wait()
            kills += 1
        if not killed.pending:
            break
    assert kills >= 3
    run(killed)
    pd.testing.assert_frame_equal(
        _results.collect(whole.cells, whole.cells_folder).drop(columns="seconds"),
        _results.collect(killed.cells, killed.cells_folder).drop(columns="seconds"),
    )
    report = read_report(killed.cells[0], killed.cells_folder)
    assert json.dumps(report["config"]["settings"])
