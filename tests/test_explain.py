"""Explanations: columns that matter are result, and rules say what the model does."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression

from deepsep import TSVM, for_table, method
from deepsep.errors import DataError, LabelWarning
from deepsep.evaluation.importance import permute
from deepsep.report.explanation import explain, explanation_text
from deepsep.report.readable import features_of, imitate


def people(n: int = 400, labels: int = 80) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    age, plan = rng.integers(18, 90, n), rng.choice(["free", "basic", "pro"], n)
    table = pd.DataFrame({"noise": rng.normal(size=n), "age": age, "plan": plan})
    y = np.where(plan == "pro", "payer", np.where(age < 50, "young", "old")).astype(object)
    y[labels:] = None
    return table, y


def test_columns_that_matter_come_first() -> None:
    table, y = people()
    explanation = explain(for_table(TSVM(C=1)).fit(table, y), table, y)
    assert explanation["importance"]["held_out"]
    assert explanation["importance"]["rows"] == 80
    ranked = [line["column"] for line in explanation["importance"]["columns"]]
    assert set(ranked[:2]) == {"age", "plan"}
    noise = next(line for line in explanation["importance"]["columns"] if line["column"] == "noise")
    assert abs(noise["loss"]) < explanation["importance"]["columns"][0]["loss"] / 10
    by_class = {line["class"]: line["columns"][0]["column"] for line in explanation["importance"]["classes"]}
    assert by_class["young"] == "age"
    assert by_class["payer"] == "plan"
    assert by_class["old"] in ("age", "plan")  # old people who do not pay
    assert json.loads(json.dumps(explanation, allow_nan=False)) == explanation


def test_importance_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    codes = (X @ [2, 1, 0, 0] + rng.normal(0, 0.5, 300) > 0).astype(int)
    model = LogisticRegression().fit(X, codes)
    ours = permute(model.predict_proba, X, codes, 40, np.random.default_rng(1))
    theirs = permutation_importance(model, X, codes, n_repeats=40, random_state=0, scoring=["accuracy", "neg_log_loss"])
    np.testing.assert_allclose(ours.accuracy.mean(axis=1), theirs["accuracy"].importances_mean, atol=0.02)
    np.testing.assert_allclose(ours.loss.mean(axis=1), theirs["neg_log_loss"].importances_mean, rtol=0.05, atol=0.02)
    # With two classes, the loss of "this class or not" is the log loss, for both.
    np.testing.assert_allclose(ours.per_class[:, :, 0], ours.loss, atol=1e-9)


def test_columns_of_one_call_or_many_are_alike() -> None:
    table, y = people(100, 100)
    codes = pd.factorize(y, sort=True)[0]
    model = for_table(method("logistic-regression")).fit(table, y)
    whole = permute(model.predict_proba, table, codes, 3, np.random.default_rng(0))
    parts = permute(model.predict_proba, table, codes, 3, np.random.default_rng(0), batch=150)
    np.testing.assert_allclose(whole.loss, parts.loss, atol=1e-9)


def test_rules_are_those_of_the_model() -> None:
    table, _ = people()
    codes = np.where(table["plan"] == "pro", 0, np.where(table["age"] < 50, 1, 2))
    tree = imitate(features_of(None, table), codes, ["payer", "young", "old"], depth=2, seed=0)
    assert tree["fidelity"] == 1.0
    assert tree["interval"][1] == 1.0
    rules = {line["class"]: line["rules"] for line in tree["classes"]}
    assert [len(own) for own in rules.values()] == [1, 1, 1]
    assert rules["payer"][0]["conditions"] == ["plan is pro"]
    assert rules["young"][0]["conditions"] == ["age at most 49", "plan is not pro"]
    assert rules["old"][0]["conditions"] == ["age 50 or more", "plan is not pro"]
    assert all(rule["agreement"] == rule["coverage"] == 1 for own in rules.values() for rule in own)


def test_rules_speak_of_gaps_dates_and_ranges() -> None:
    rng = np.random.default_rng(0)
    n = 600
    table = pd.DataFrame(
        {
            "weight": rng.uniform(40, 120, n),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D"),
        }
    )
    table.loc[rng.random(n) < 0.2, "weight"] = np.nan
    codes = ((table["weight"] > 60) & (table["weight"] < 90)).to_numpy(int)
    rules = imitate(features_of(None, table), codes, ["other", "middle"], depth=3, seed=0)["classes"][1]["rules"]
    assert rules[0]["conditions"][0].startswith("weight above ")
    assert "missing" not in rules[0]["conditions"][0]
    codes = (table["joined"] >= "2021-01-01").to_numpy(int)
    rules = imitate(features_of(None, table), codes, ["early", "late"], depth=1, seed=0)["classes"]
    assert rules[0]["rules"][0]["conditions"][0].startswith(("joined before 2020-12-", "joined before 2021-01-"))
    assert rules[1]["rules"][0]["conditions"][0].startswith(("joined from 2020-12-", "joined from 2021-01-"))
    codes = table["weight"].isna().to_numpy(int)
    rules = imitate(features_of(None, table), codes, ["weighed", "not"], depth=1, seed=0)["classes"]
    assert rules[1]["rules"][0]["conditions"] == ["weight is missing"]
    assert rules[0]["rules"][0]["conditions"] == ["weight is given"]


def test_text_says_that_figures_are_in_sample() -> None:
    table, y = people()
    model = for_table(TSVM(C=1)).fit(table, y)
    explanation = explain(model, table, y, held_out=False)
    assert not explanation["importance"]["held_out"]
    text = explanation_text(explanation)
    assert "that the model was trained on" in text.splitlines()[0]
    assert "payer (" in text
    assert "driven by plan" in text
    assert "plan is pro" in text
    assert "one-hot" not in text
    assert "plan_pro" not in text


def test_too_few_labels_fall_back_to_the_model_as_it_is() -> None:
    table, y = people(120, 120)
    y[3:] = None
    y[:3] = ["old", "payer", "young"]
    with pytest.warns(LabelWarning, match="only one labelled row"):
        model = for_table(TSVM()).fit(table, y)
    explanation = explain(model, table, y)
    assert not explanation["importance"]["held_out"]
    assert explanation["note"].startswith("Accuracy cannot be estimated")


def test_lengths_must_match() -> None:
    table, y = people()
    with pytest.raises(DataError, match="the table has 10 rows and there are 400 labels"):
        explain(for_table(TSVM()).fit(table, y), table[:10], y)
