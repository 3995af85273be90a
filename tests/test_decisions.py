"""Labels from probabilities: sets, no label for unsure rows, costs; in frames, files and the commands."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

import deepsep
import deepsep.scoring.who_scores
from deepsep.errors import DataError, LabelError, ParameterError
from deepsep.evaluation.conformal import ConformalSets
from deepsep.evaluation.expected_accuracy import Evidence, corrected, expected_accuracy
from deepsep.scoring import score_file, score_frame
from deepsep.scoring.decisions import Decisions, check_costs, read_costs

CLASSES = np.array(["blue", "gold", "red"])
MEMBERS = ["logistic-regression", "tsvm"]


def probabilities(n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(3), size=n)


# -- decisions -----------------------------------------------------------------------------------------------


def test_equal_costs_change_no_label_and_others_have_the_lowest_expected_cost():
    p = probabilities(300)
    assert (Decisions(CLASSES, costs=1 - np.eye(3))(p)[0] == p.argmax(axis=1)).all()
    costs = np.array([[0.0, 1, 5], [20, 0, 2], [3, 4, 0]])
    called, kept = Decisions(CLASSES, costs=costs)(p)
    brute = [min(range(3), key=lambda k: sum(row[j] * costs[j, k] for j in range(3))) for row in p]
    assert called.tolist() == brute
    assert kept.all()


def test_two_classes_are_called_by_the_ratio_of_the_costs():
    costs = check_costs({"stays": {"leaves": 1}, "leaves": {"stays": 20}}, np.array(["leaves", "stays"]))
    leaves = np.linspace(0, 1, 1001)
    called, _ = Decisions(np.array(["leaves", "stays"]), costs=costs)(np.column_stack([leaves, 1 - leaves]))
    assert ((called == 0) == (leaves >= 1 / 21)).all()


def test_rows_below_the_confidence_have_no_label_but_all_else():
    p = probabilities(200)
    plain, _ = Decisions(CLASSES).columns(p, "tier")
    columns, tally = Decisions(CLASSES, abstain=0.6).columns(p, "tier")
    unsure = p.max(axis=1) < 0.6
    assert [name is None for name in columns["tier"]] == unsure.tolist()
    assert (columns["tier"][~unsure] == plain["tier"][~unsure]).all()
    for name in ("probability_blue", "probability_gold", "probability_red", "confidence"):
        np.testing.assert_array_equal(columns[name], plain[name])
    assert tally.labels[None] == unsure.sum()
    assert tally.rows == 200
    assert tally.sure == pytest.approx(p.max(axis=1)[~unsure].sum())


def test_sets_are_written_with_the_likeliest_class_first():
    p = np.array([[0.5, 0.45, 0.05], [0.1, 0.3, 0.6], [0.3, 0.3, 0.4]])
    columns, tally = Decisions(CLASSES, sets=ConformalSets(0.9, False, np.full(3, 0.3))).columns(p, None)
    assert columns["set"].tolist() == ["blue|gold", "red|gold", "red|blue|gold"]
    assert tally.sizes == {2: 2, 3: 1}


def test_tallies_of_batches_add_up():
    p = probabilities(100)
    decide = Decisions(CLASSES, ConformalSets(0.9, False, np.full(3, 0.3)), 0.5, check_costs(_costs(), CLASSES))
    whole = decide.columns(p, None)[1]
    parts = decide.columns(p[:37], None)[1] + decide.columns(p[37:], None)[1]
    assert parts.sure == pytest.approx(whole.sure)
    assert (parts.labels, parts.sizes, parts.changed) == (whole.labels, whole.sizes, whole.changed)


def _costs():
    return {"blue": {"gold": 1, "red": 2}, "gold": {"blue": 9, "red": 1}, "red": {"blue": 1, "gold": 1}}


def test_the_accuracy_of_rows_with_a_label_is_that_of_held_out_rows_above_the_same_line():
    p, held_out, rng = probabilities(500), probabilities(80, 1), np.random.default_rng(2)
    codes, weight = rng.integers(3, size=80), rng.uniform(0.5, 2, 80)
    decide = Decisions(CLASSES, abstain=0.6)
    tally = decide.columns(p, None)[1]
    said = decide.describe(tally, Evidence(held_out, codes, weight, 1))["abstain"]["accuracy"]
    a, b = p.max(axis=1) >= 0.6, held_out.max(axis=1) >= 0.6
    alone = expected_accuracy(p[a], np.ones(a.sum()), Evidence(held_out[b], codes[b], weight[b], 1))
    assert said["value"] == pytest.approx(alone.value)
    low, high = said["interval"]
    assert [low, high] == pytest.approx(alone.interval)
    assert decide.describe(tally, None)["abstain"]["accuracy"] is None
    assert decide.describe(tally, Evidence(np.full((80, 3), 1 / 3), codes, weight, 1))["abstain"]["accuracy"] is None


def test_a_few_rows_are_less_certain_than_many():
    sure, right = np.full(50, 0.8), np.arange(50) % 5 > 0
    few, many, all_rows = (corrected(0.8, sure, right, np.ones(50), **n) for n in ({"n_rows": 5}, {"n_rows": 5000}, {}))
    assert few.value == many.value == all_rows.value
    assert few.error > many.error > all_rows.error


# -- costs ---------------------------------------------------------------------------------------------------


def test_both_forms_of_a_table_of_costs_say_the_same(tmp_path: Path):
    wide, long = tmp_path / "wide.csv", tmp_path / "long.csv"
    wide.write_text("true,red,blue,gold\nblue,2,,1\ngold,1,9,0\nred,0,1,1\n")
    pairs = [f"{true},{called},{cost}" for true, line in _costs().items() for called, cost in line.items()]
    long.write_text("\n".join(["true,called,cost", *pairs]))
    matrix = check_costs(_costs(), CLASSES)
    np.testing.assert_array_equal(matrix, [[0, 1, 2], [9, 0, 1], [1, 1, 0]])
    for file in (wide, long):
        np.testing.assert_array_equal(check_costs(read_costs(file, CLASSES), CLASSES), matrix)


def test_costs_of_classes_that_are_numbers(tmp_path: Path):
    file = tmp_path / "costs.csv"
    file.write_text("true,1,2\n1,0,1.5\n2,20,0\n")
    assert check_costs(read_costs(file, np.array([1, 2])), np.array([1, 2])).tolist() == [[0, 1.5], [20, 0]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("true,blue,gold,red\nblue,0,1,1\ngold,1,0,1\n", "the class 'red' is missing"),
        ("true,blue,gold\nblue,0,1\ngold,1,0\nred,1,1\n", "the class 'red' is missing"),
        ("true,blue,gold,pink\nblue,0,1,1\ngold,1,0,1\nred,1,1,1\n", "'pink' is not a class"),
        ("true,blue,gold,red\nblue,0,dear,1\ngold,1,0,1\nred,1,1,0\n", "'dear'; write a number"),
        ("true,blue,gold,red\nblue,0,,1\ngold,1,0,1\nred,1,1,0\n", "is nothing; write a number"),
        ("true,called,cost\nblue,gold,1\nblue,gold,2\n", "twice"),
        ("class,cost\nblue,1\n", "has 2 columns"),
    ],
)
def test_bad_costs_are_named(tmp_path: Path, text: str, said: str):
    (tmp_path / "costs.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        read_costs(tmp_path / "costs.csv", CLASSES)


@pytest.mark.parametrize("costs", [3, {"blue": 1}, {"blue": {"gold": 1}}, [[0, 1], [1, 0]]])
def test_costs_in_python_are_a_dict_of_dicts(costs):
    with pytest.raises(ParameterError, match="costs"):
        check_costs(costs, CLASSES)


# -- frames, files and commands ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=240)
    centre = np.array([[0.0, 0], [2.5, 0], [0, 2.5]])[truth]
    X = centre + rng.normal(size=(240, 2))
    tier = np.where(np.arange(240) < 75, CLASSES[truth], None)
    return pd.DataFrame({"age": X[:, 0].round(3), "spend": X[:, 1].round(3), "tier": tier})


@pytest.fixture(scope="module")
def model(table: pd.DataFrame):
    committee = deepsep.Committee(members=MEMBERS, effort="fast", n_jobs=1, random_state=0)
    return deepsep.for_table(committee).fit(table[["age", "spend"]], table["tier"])


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("model") / "committee"
    deepsep.save(model, place)
    return place


@pytest.fixture
def rows(table: pd.DataFrame, tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    table[["age", "spend"]].to_csv(file, index=False)
    return file


def test_a_frame_has_the_sets_of_the_committee(table, model):
    frame = score_frame(model, table[["age", "spend"]], sets=0.8)
    sets = model[-1].predict_set(model[:-1].transform(table[["age", "spend"]]), coverage=0.8)
    for text, inside in zip(frame["set"], sets, strict=True):
        assert set(text.split("|")) == set(CLASSES[inside])
    assert frame["set"].str.startswith(tuple(CLASSES)).all()
    plain = score_frame(model, table[["age", "spend"]])
    pd.testing.assert_frame_equal(frame.drop(columns="set"), plain)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "xlsx"])
def test_files_hold_what_frames_do(table, model, rows: Path, suffix: str):
    target, how = rows.with_name(f"scored.{suffix}"), {"sets": 0.8, "abstain": 0.6, "costs": _costs()}
    done = score_file(model, rows, target, batch_rows=50, **how)
    frame = score_frame(model, table[["age", "spend"]], **how)
    read = {"parquet": pd.read_parquet, "csv": pd.read_csv, "xlsx": pd.read_excel}[suffix](target)
    assert read["tier"].isna().tolist() == frame["tier"].isna().tolist()
    assert read["tier"].dropna().tolist() == frame["tier"].dropna().tolist()
    assert read["set"].tolist() == frame["set"].tolist()
    said = done["decisions"]
    assert said["abstain"]["without_label"] == frame["tier"].isna().sum() == done["rows"] - sum(done["labels"].values())
    assert said["sets"]["mean_size"] == pytest.approx((frame["set"].str.count(r"\|") + 1).mean())
    likeliest = CLASSES[frame[[f"probability_{name}" for name in CLASSES]].to_numpy().argmax(axis=1)]
    assert said["costs"]["changed"] == (frame["tier"].notna() & (frame["tier"] != likeliest)).sum()


def test_a_file_in_which_no_row_gets_a_label(model, rows: Path):
    target = rows.with_name("scored.parquet")
    done = score_file(model, rows, target, abstain=0.9999999)
    assert pd.read_parquet(target)["tier"].isna().all()
    assert done["decisions"]["abstain"] == {"confidence": 0.9999999, "without_label": 240, "accuracy": None}


def test_only_the_committee_makes_sets(model, rows: Path, monkeypatch):
    monkeypatch.setattr(deepsep.scoring.who_scores, "MANY_ROWS", 10)
    target = rows.with_name("scored.csv")
    assert score_file(model, rows, target)["scored_by"] == "student"
    assert score_file(model, rows, target, sets=0.9)["scored_by"] == "committee"
    assert score_file(model, rows, target, abstain=0.6)["scored_by"] == "committee"
    assert score_file(model, rows, target, costs=_costs())["scored_by"] == "student"
    with pytest.raises(ParameterError, match="student's probabilities are others"):
        score_file(model, rows, target, sets=0.9, fast=True)
    by_student = score_file(model, rows, target, abstain=0.6, fast=True)
    assert by_student["decisions"]["abstain"]["accuracy"] is None


def test_what_cannot_be_done_is_said(table, model):
    X = table[["age", "spend"]]
    single = deepsep.for_table(deepsep.TSVM()).fit(X, table["tier"])
    with pytest.raises(ParameterError, match="only a committee"):
        score_frame(single, X, sets=0.9)
    assert score_frame(single, X, abstain=0.6)["tier"].isna().any()
    with pytest.raises(ParameterError, match="between 0 and 1"):
        score_frame(model, X, sets=90.0)
    with pytest.raises(ParameterError, match="confidence between 0 and 1"):
        score_frame(model, X, abstain=80)
    with pytest.raises(ParameterError, match="per_class= belongs to sets="):
        score_frame(model, X, per_class=True)
    with pytest.raises(LabelError, match="at least 99 labels of each class"):
        score_frame(model, X, sets=0.99, per_class=True)


def test_score_says_what_it_applied(folder: Path, rows: Path):
    costs, target = rows.with_name("costs.csv"), rows.with_name("scored.csv")
    costs.write_text("true,blue,gold,red\nblue,0,1,2\ngold,9,0,1\nred,1,1,0\n")
    options = ("--sets", ".8", "--abstain", ".6", "--costs", costs)
    result = run("score", folder, rows, "-o", target, *options)
    assert result.exit_code == 0, result.output
    assert "Sets: 80\u00a0% or more should hold the right class." in result.stdout
    assert "of 240 rows, with a confidence below 0.6. Expect" in result.stdout
    assert f"Labels have the lowest expected cost ({costs})" in result.stdout
    assert "Only the committee makes sets" in result.stderr
    done = json.loads(run("score", folder, rows, "-o", target, *options, "--json").stdout)["decisions"]
    low, high = done["abstain"]["accuracy"]["interval"]
    assert low < done["abstain"]["accuracy"]["value"] < high
    assert done["sets"]["coverage"] == 0.8
    result = run("score", folder, rows, "-o", target, "--sets", "2")
    assert result.exit_code == 2
    assert "--sets 2.0; pass a number between 0 and 1" in result.stderr


def test_fit_decides_for_the_unlabeled_rows(table: pd.DataFrame, tmp_path: Path):
    file, output = tmp_path / "table.csv", tmp_path / "model"
    table.to_csv(file, index=False)
    members = ("--effort", "fast", "--set", f"members={MEMBERS}", "--set", "n_jobs=1", "--no-report")
    result = run("fit", file, "--label", "tier", "-o", output, *members, "--sets", ".8", "--abstain", ".6")
    assert result.exit_code == 0, result.output
    assert "of 165 rows, with a confidence below 0.6. Expect" in result.stdout
    given = pd.read_csv(output / "predictions.csv")
    scored = score_frame(deepsep.load(output), table[["age", "spend"]][75:], sets=0.8, abstain=0.6)
    assert given["tier"].isna().tolist() == scored["tier"].isna().tolist()
    assert given["set"].tolist() == scored["set"].tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sets", "1.5"), "--sets 1.5; pass a number between 0 and 1"),
        (("--sets", ".99"), "need at least 99 labels, and there are 75"),
        (("--sets", ".99", "--per-class"), "or leave out --per-class"),
        (("--per-class",), "--per-class belongs to --sets"),
        (("--abstain", "80"), "--abstain"),
        (("--sets", ".9", "--method", "tsvm"), "only a committee"),
        (("--costs", "nowhere.csv"), "nowhere.csv"),
        (("--costs", "nowhere.csv", "--sets", ".9", "--method", "tsvm"), "only a committee"),
    ],
)
def test_fit_refuses_what_it_cannot_do_before_it_fits(table, tmp_path: Path, options, said: str):
    file = tmp_path / "table.csv"
    table.to_csv(file, index=False)
    result = run("fit", file, "--label", "tier", "-o", tmp_path / "model", *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Fitting" not in result.stderr
