"""What would go wrong is found, and nothing is found where nothing is wrong."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from deepsep import TSVM, for_table
from deepsep.core.labels import read_labels
from deepsep.drift.labeled_rows import compare_labeled
from deepsep.errors import DataError, DeepSepWarning, LabelWarning
from deepsep.table import check_table, join_labels


def people(n=400, labeled=100, seed=0):
    """Three classes that the columns tell apart, but none alone."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "age": rng.normal(30 + 6 * code, 8),
            "income": rng.integers(10_000, 90_000, n) * (1 + code % 2),
            "plan": np.where(rng.random(n) < 0.3 + 0.2 * code, "pro", "free"),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    frame["segment"] = pd.Series(np.array(["gold", "blue", "red"])[code]).where(rng.permutation(n) < labeled)
    return frame


def checked(frame, label="segment", **options):
    check = check_table(frame, label, **options)
    json.dumps(check, allow_nan=False)
    assert check["fit_would_work"] == all(f["severity"] != "error" for f in check["findings"])
    assert all(f["message"].endswith((".", "?")) and f["next"].endswith(".") for f in check["findings"])
    return {f["code"]: f for f in check["findings"]}, check


def test_nothing_is_found_in_a_sound_table():
    for seed in range(5):
        findings, check = checked(people(seed=seed))
        assert findings == {}
    assert check["fit_would_work"]
    assert check["rows"] == 400
    assert check["labels"]["labelled"] == 100
    assert check["labels"]["unlabelled"] == 300
    assert sum(check["labels"]["classes"].values()) == 100
    assert {c["name"]: c["type"] for c in check["columns"]} == {
        **{"age": "number", "income": "number", "plan": "text", "joined": "date"}
    }


def unfit(change):
    frame = people()
    frame["segment"] = frame["segment"].astype(object)
    return change(frame)


@pytest.mark.parametrize(
    ("frame", "code", "words"),
    [
        (unfit(lambda f: f.rename(columns={"segment": "segmnt"})), "label-column", "did you mean 'segmnt'"),
        (unfit(lambda f: f.assign(segment=None)), "labels", "none of the 400 rows has a label"),
        (unfit(lambda f: f.assign(segment=np.where(f.index < 9, "gold", None))), "one-class", "one class, 'gold'"),
        (
            unfit(lambda f: f.assign(segment=np.random.default_rng(0).random(400))),
            "labels",
            "[Cc]ontinuous|Unknown label",
        ),
        (unfit(lambda f: f[["segment"]].assign(one=1, id=range(400))), "no-columns", "no column"),
        (unfit(lambda f: f.assign(segment=[1, -1, 2, None] * 100)), "labels", "also has the value -1"),
    ],
)
def test_errors_are_what_makes_a_fit_fail(frame, code, words):
    findings, check = checked(frame)
    assert not check["fit_would_work"]
    assert findings[code]["severity"] == "error"
    assert re.search(words, findings[code]["message"])
    if "segment" in frame:
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError):  # noqa: PT011
            for_table(TSVM()).fit(frame.drop(columns="segment"), frame["segment"])


def test_all_labels_is_a_note():
    findings, check = checked(people(labeled=400))
    assert set(findings) == {"all-labelled"}
    assert check["fit_would_work"]


@pytest.mark.parametrize(
    "leak",
    [
        lambda y: y.map({"gold": "A1", "blue": "B2", "red": "C3"}),
        lambda y: y.map({"gold": 1.0, "blue": 5.0, "red": 9.0}) + np.random.default_rng(0).normal(0, 0.3, len(y)),
    ],
    ids=["text", "number"],
)
def test_a_column_that_gives_the_label_away(leak):
    frame = people()
    truth = people(labeled=400)["segment"]
    findings, check = checked(frame.assign(code=leak(truth)))
    assert findings["leak"]["columns"] == ["code"]
    assert check["fit_would_work"]
    assert "drift" not in findings


def test_a_column_that_gives_one_class_away():
    frame, truth = people(), people(labeled=400)["segment"]
    findings, _ = checked(frame.assign(card=np.where(truth == "gold", "yes", "no")))
    assert findings["leak"]["columns"] == ["card"]
    assert "class 'gold'" in findings["leak"]["message"]


@pytest.mark.parametrize(
    ("side", "reason"),
    [("labelled", "given for labelled rows only"), ("unlabelled", "given for unlabelled rows only")],
)
def test_values_on_one_side_only_are_left_out(side, reason):
    frame = people()
    given = frame["segment"].notna() if side == "labelled" else frame["segment"].isna()
    frame["age"] = frame["age"].where(given)
    findings, check = checked(frame)
    assert set(findings) == {"one-sided"}
    assert f"column 'age' is {reason}, and left out" in findings["one-sided"]["message"]
    with pytest.warns(DeepSepWarning, match=rf"left out 'age' \({reason}\)"):
        model = for_table(TSVM()).fit(frame.drop(columns="segment"), frame["segment"])
    assert model[0].left_out_ == {"age": reason}
    assert {column["name"]: column["left_out"] for column in check["columns"]}["age"] == reason


def test_columns_with_gaps_on_both_sides_are_used():
    rng = np.random.default_rng(0)
    for share in (0.02, 0.5, 0.98):
        frame = people(1_000, 60)
        frame["age"] = frame["age"].where(rng.random(1_000) < share)
        frame["flag"] = rng.random(1_000) < 0.003  # few rows have it, perhaps labelled ones only
        findings, _ = checked(frame)
        assert "one-sided" not in findings


def test_without_weights_differences_are_those_of_scipy():
    rng = np.random.default_rng(0)
    labeled = rng.random(500) < 0.3
    age = rng.normal(40, 8, 500).round() + 5 * labeled
    plan = np.where(rng.random(500) < 0.3 + 0.3 * labeled, "pro", "free")
    one, two = compare_labeled({"age": pd.Series(age), "plan": pd.Series(plan)}, labeled)
    counts = pd.crosstab(labeled, plan).to_numpy()
    shares = counts / counts.sum(axis=1, keepdims=True)
    expected = {"age": stats.ks_2samp(age[labeled], age[~labeled]).statistic, "plan": abs(shares[0] - shares[1])[0]}
    assert {one.column: one.distance, two.column: two.distance} == pytest.approx(expected)


def test_a_weight_of_two_counts_as_two_rows():
    rng = np.random.default_rng(0)
    labeled, weight = rng.random(300) < 0.5, rng.integers(1, 4, 300)
    columns = {"x": pd.Series(rng.normal(size=300) + labeled), "plan": pd.Series(rng.choice(["a", "b"], 300))}
    twice = {name: column.repeat(weight).reset_index(drop=True) for name, column in columns.items()}
    (weighted,) = compare_labeled(columns, labeled, weight.astype(float))
    (repeated,) = compare_labeled(twice, labeled.repeat(weight))
    assert weighted.distance == pytest.approx(repeated.distance)
    assert weighted.how == repeated.how


def test_drift_names_the_columns_that_differ_most():
    rng = np.random.default_rng(0)
    frame = people(2_000, 300)
    known = frame["segment"].notna()
    frame["age"] += np.where(known, 8, 0)
    frame["plan"] = np.where(known & (rng.random(2_000) < 0.8), "trial", frame["plan"])
    findings, _ = checked(frame)
    assert findings["drift"]["columns"] == ["plan", "age"]
    assert "'plan' ('trial' " in findings["drift"]["message"]
    assert "'age' (median " in findings["drift"]["message"]


@pytest.mark.slow
def test_false_alarms_of_drift_and_leaks_are_rare():
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(30):
        noise = pd.DataFrame(rng.normal(size=(500, 20)), columns=[f"x{i}" for i in range(20)])
        noise["segment"] = pd.Series(rng.choice(["a", "b"], 500)).where(rng.random(500) < 0.2)
        findings, _ = checked(noise)
        alarms += bool(findings)
    assert alarms <= 1


def test_duplicates_and_contradictions():
    frame = people()
    twice = pd.concat([frame, frame[:60]], ignore_index=True).assign(id=list(range(400)) + list(range(60)))
    findings, _ = checked(twice, id="id")
    assert findings["duplicate-rows"]["message"].startswith("60 of 460 rows")
    assert findings["duplicate-ids"]["message"].startswith("60 rows repeat an identifier in 'id', such as 0, 1, 2")
    assert "contradictions" not in findings
    twice.loc[twice.index >= 400, "segment"] = "gold"
    twice.loc[twice.index < 60, "segment"] = "red"
    assert "60 groups" in checked(twice, id="id")[0]["contradictions"]["message"]
    assert "id-column" in checked(twice, id="idd")[0]


def test_columns_and_classes_that_deserve_a_word():
    rng = np.random.default_rng(0)
    frame = people(3_000, 300).assign(
        user=[f"user{i}" for i in range(3_000)],
        land="UK",
        void=None,
        shop=[f"shop {v}" for v in rng.integers(0, 1_500, 3_000)],
        size=[f"{v}" if v < 60 else f"{v} kg" for v in rng.integers(0, 90, 3_000)],
        rare=np.where(rng.random(3_000) < 0.1, 1.5, np.nan),
        ratio=np.where(rng.random(3_000) < 0.1, np.inf, rng.random(3_000)),
        tags=[["a"]] * 3_000,
    )
    at = frame.index[frame["segment"].isna()][:5]
    frame.loc[at[:3], "segment"] = "tiny"
    frame.loc[at[3:], "segment"] = "None"
    findings, _ = checked(frame)
    for code, column in {
        **{"identifier": "user", "constant": "land", "empty": "void", "many-levels": "shop", "mixed-types": "size"},
        **{"mostly-missing": "rare", "infinite": "ratio", "objects": "tags"},
    }.items():
        assert column in findings[code]["columns"], code
    assert "'tiny' (3)" in findings["rare-class"]["message"]
    assert "'None'" in findings["missing-class"]["message"]


def test_large_tables_are_sampled():
    frame = people(3_000, 200)
    _, check = checked(frame, max_rows=1_000)
    assert 1_000 <= check["sampled"] <= 1_200
    assert check["rows"] == 3_000
    assert check["labels"]["labelled"] == 200


# -- labels of a few, joined to everyone ----------------------------------------------------------------------


def everyone():
    return pd.DataFrame({"user": np.arange(1, 11), "age": np.arange(20, 30)})


def survey(**changes):
    return pd.DataFrame({"user": [3, 5, 9], "segment": ["a", "b", "a"], "probability": [0.9, 0.5, 0.7]} | changes)


def test_labels_are_joined_in_the_order_of_the_population():
    frame, summary = join_labels(everyone()[::-1], survey(), on="user", weight="probability")
    assert frame["user"].tolist() == list(range(10, 0, -1))
    assert frame.set_index("user")["segment"].dropna().to_dict() == {9: "a", 5: "b", 3: "a"}
    assert frame.set_index("user")["probability"].to_dict() == dict.fromkeys(range(1, 11), 1.0) | {
        3: 0.9,
        5: 0.5,
        9: 0.7,
    }
    assert summary == {
        **{"label": "segment", "weight": "probability", "rows": 10, "labelled": 3, "unmatched": 0},
        **{"unmatched_examples": [], "duplicate_ids": 0},
    }


@pytest.mark.parametrize("ids", [["3", "5", "9"], [3.0, 5.0, 9.0], ["003", "005", "009"], [" 3", "5 ", "9"]])
def test_identifiers_of_another_type_match(ids):
    frame, _ = join_labels(everyone(), survey(user=ids), on="user")
    assert frame.loc[frame["segment"].notna(), "user"].tolist() == [3, 5, 9]
    text = everyone().assign(user=lambda f: f["user"].astype(str))
    assert join_labels(text, survey(), on="user")[1]["labelled"] == 3


def test_leading_zeros_that_tell_identifiers_apart_are_kept():
    text = everyone().assign(user=["3", "03", "003", *"abcdefg"])
    frame, _ = join_labels(text, survey(user=["03", "3", "a"]), on="user")
    assert frame["segment"][:4].fillna("-").tolist() == ["b", "a", "-", "a"]


def test_what_does_not_fit_is_reported():
    with pytest.warns(DeepSepWarning, match=r"1 of 3 labels have no row in the population, such as user 77") as caught:
        _, summary = join_labels(everyone(), survey(user=[3, 5, 77]), on="user")
    assert caught[0].filename == __file__
    assert (summary["unmatched"], summary["unmatched_examples"], summary["labelled"]) == (1, [77], 2)
    with pytest.warns(DeepSepWarning, match="1 rows of the labels repeat an identifier"):
        join_labels(everyone(), survey(user=[3, 5, 3]), on="user")
    with pytest.warns(DeepSepWarning, match="1 rows of the population repeat an identifier, such as user"):
        _, summary = join_labels(everyone().assign(user=[1, 2, 3, 3, 5, 6, 7, 8, 9, 10]), survey(), on="user")
    assert (summary["duplicate_ids"], summary["labelled"]) == (1, 4)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (
            survey(user=[3, 5, 5], segment=["a", "b", "a"]),
            {},
            r"more than one label, such as user '5' with \['b', 'a'\]",
        ),
        (
            survey(user=["x", "y", "z"]),
            {},
            "none of the 3 identifiers.*'x', 'y', 'z' in the labels and 1, 2, 3 in the population",
        ),
        (survey(segment=None), {}, "no label in column 'segment'"),
        (survey(), {"label": "segmet"}, "label column 'segmet' not found; did you mean 'segment'"),
        (survey(), {"on": "usr"}, "id column 'usr' not found; did you mean 'user'"),
        (survey(age=1), {"label": "age"}, "already"),
        (survey().rename(columns={"segment": "kind"}), {}, "which column of the labels table holds the label"),
        (survey(), {"weight": "prob"}, "weight column 'prob' not found"),
    ],
)
def test_labels_that_cannot_be_joined(labels, options, message):
    with pytest.raises(DataError, match=message):
        join_labels(everyone(), labels, **({"on": "user"} | options))


def test_joined_integer_labels_stay_integers_and_minus_one_is_none():
    people = pd.DataFrame({"user": [1, 2, 3, 4]})
    survey = pd.DataFrame({"user": [1, 2, 3], "segment": [0, 1, -1]})
    frame, summary = join_labels(people, survey, on="user")
    assert frame["segment"].tolist() == [0, 1, pd.NA, pd.NA]
    assert str(frame["segment"].dtype) == "Int64"
    assert summary["labelled"] == 2


@pytest.mark.parametrize("odd", [None, "low"])
def test_a_label_without_a_weight_is_an_error(odd):
    people = pd.DataFrame({"user": [1, 2, 3]})
    survey = pd.DataFrame({"user": [1, 2], "segment": ["a", "b"], "probability": pd.Series([0.5, odd], dtype=object)})
    with pytest.raises(DataError, match="'probability' of the labels must hold"):
        join_labels(people, survey, on="user", weight="probability")


@pytest.mark.parametrize("style", ["%d %b %Y", "%d-%m-%y", "03/%m/%Y"])
def test_dates_that_are_read_as_text_are_pointed_out(style):
    days = pd.date_range("2024-01-01", periods=80, freq="5D")
    table = pd.DataFrame(
        {"since": days.strftime(style), "x": np.arange(80) % 7, "label": ["a", "b"] * 20 + [None] * 40}
    )
    dates = [one for one in check_table(table, "label")["findings"] if one["code"] == "dates"]
    assert [one["columns"] for one in dates] == [["since"]]
    assert repr(table["since"][0]) in dates[0]["message"]


@pytest.mark.parametrize("values", [["1.2.3", "4.5.6"], ["10-12", "12-14"], ["12 monkeys 20", "7 dwarfs"]])
def test_versions_and_ranges_are_no_dates(values):
    table = pd.DataFrame({"v": values * 20, "x": np.arange(40) % 7, "label": ["a", "b"] * 10 + [None] * 20})
    assert not [one for one in check_table(table, "label")["findings"] if one["code"] == "dates"]


def test_labels_that_differ_only_in_case_or_spaces_are_pointed_out():
    table = pd.DataFrame({"x": np.arange(40) % 7, "label": ["Gold", "gold", "blue", "go ld"] * 5 + [None] * 20})
    (found,) = [one for one in check_table(table, "label")["findings"] if one["code"] == "alike-classes"]
    assert "'Gold', 'go ld', 'gold' differ only in case, blanks or accents" in found["message"]
    with pytest.warns(LabelWarning, match="differ only in case, blanks or accents"):
        read_labels(table["label"])
