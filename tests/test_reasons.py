"""Reasons for labels: columns left out against values of the training table."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import deepsep
import deepsep.scoring.leaving_out
from deepsep import TSVM, Committee, for_table, load, method, save
from deepsep.drift.profile import profile_column
from deepsep.drift.typical_values import typical_values, values_of
from deepsep.errors import ParameterError
from deepsep.scoring import reasons, remember_training, score_file, score_frame
from deepsep.scoring.leaving_out import LeavingOut, values_in_training
from deepsep.scoring.who_scores import encoded


def linear(weights, intercept=0.0):
    """A logistic regression with these weights for class "yes"."""
    model = LogisticRegression()
    model.classes_ = np.array(["no", "yes"])
    model.coef_, model.intercept_ = np.array([weights]), np.array([intercept])
    model.n_features_in_ = len(weights)
    return model


def tabulated(n=400, seed=0):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "age": rng.normal(30 + 8 * code, 8).round(1),
            "plan": np.where(rng.random(n) < 0.3, None, np.array(["free", "basic", "pro"])[code]),
            "news": rng.random(n) < 0.2 + 0.3 * (code == 1),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "note": [" ".join(rng.choice(["tea", "walks", "music", "green", "sun"], 6)) for _ in range(n)],
        }
    )
    return frame, np.where(np.arange(n) < 120, np.array(["blue", "gold", "grey"], dtype=object)[code], None)


@pytest.fixture(scope="module")
def fitted():
    frame, y = tabulated()
    model = for_table(TSVM(random_state=0)).fit(frame, y)
    remember_training(model, frame, y)
    return model


@pytest.fixture(scope="module")
def table():
    return tabulated(1_300, seed=1)[0]


def test_of_a_linear_model_they_have_a_closed_form():
    rng = np.random.default_rng(0)
    w, b = np.array([1.5, -0.7, 0.0, 0.3]), -0.2
    background, X = rng.integers(0, 5, (60, 4)).astype(float), rng.normal(2, 1, (50, 4))
    found = reasons(linear(w, b), X, 4, background=background)
    for i, row in enumerate(X):
        score = w @ row + b
        sign = 1 if score > 0 else -1
        without = [expit(sign * (score - w[j] * row[j] + w[j] * background[:, j])).mean() for j in range(4)]
        strength = logit(expit(abs(score))) - logit(without)
        wanted = [j for j in np.argsort(-strength) if strength[j] > 0.005]
        names = [f"x{j} = {row[j]:.6g}" for j in wanted] + [None] * (4 - len(wanted))
        assert [None if pd.isna(v) else v for v in found.loc[i, [f"reason_{k}" for k in range(1, 5)]]] == names
        odds = found.loc[i, [f"reason_{k}_odds" for k in range(1, 5)]].to_numpy(float)[: len(wanted)]
        np.testing.assert_allclose(odds, np.exp(strength[wanted]), rtol=1e-5)
    assert not found.astype(str).apply(lambda column: column.str.startswith("x2")).any(axis=None)  # it has no weight


def test_columns_are_known_by_their_names():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 4, (80, 2)).astype(float), columns=["a", "b"])
    model = LogisticRegression().fit(table, table["b"] > 1.5)
    found = reasons(model, table[["b", "a"]], 1, background=table[["b", "a"]])
    assert found["reason_1"].tolist() == [f"b = {value:.0f}" for value in table["b"]]


def test_with_many_values_a_few_stand_for_all():
    rng = np.random.default_rng(0)
    background, X = rng.normal(0, 1, (5_000, 1)), np.array([[2.0], [3.0], [-2.5]])
    found = reasons(linear([1.0]), X, 1, background=background)
    without = np.where(X[:, 0] > 0, expit(background).mean(), expit(-background).mean())
    wanted = np.exp(logit(expit(np.abs(X[:, 0]))) - logit(without))
    np.testing.assert_allclose(found["reason_1_odds"], wanted, rtol=0.05)


@pytest.mark.parametrize("name", ["logistic-regression", "random-forest", "lightgbm"])
def test_a_category_is_replaced_by_its_levels_in_proportion(name):
    """By hand: every row is scored once for each level, and for a gap."""
    frame, y = tabulated()
    frame = frame[["age", "plan"]]
    model = for_table(method(name)).fit(frame, y)
    remember_training(model, frame, y)
    some = frame[:40]
    shares = frame["plan"].value_counts(normalize=True, dropna=False)
    p, label = model.predict_proba(some), model.predict_proba(some).argmax(axis=1)
    by_level = [model.predict_proba(some.assign(plan=None if pd.isna(level) else level)) for level in shares.index]
    without = sum(share * q for share, q in zip(shares, by_level, strict=True))
    at = np.arange(40), label
    odds = np.exp(logit(np.clip(p[at], 1e-6, 1 - 1e-6)) - logit(np.clip(without[at], 1e-6, 1 - 1e-6)))
    found = reasons(model, some, 2)
    said = [
        next((row[f"reason_{k}_odds"] for k in (1, 2) if str(row[f"reason_{k}"]).startswith("plan")), np.nan)
        for _, row in found.iterrows()
    ]
    reason = odds >= np.exp(0.005)
    np.testing.assert_array_equal(np.isnan(said), ~reason)
    np.testing.assert_allclose(np.array(said)[reason], odds[reason], rtol=1e-4)


def test_frames_go_to_estimators_that_take_frames(table):
    frame, y = tabulated()
    known = y != None  # noqa: E711
    model = for_table(HistGradientBoostingClassifier(max_iter=5, random_state=0)).fit(frame[known], y[known])
    found = reasons(model, table[:50], 2, background=frame)
    assert found["reason_1"].notna().any()
    one_by_one = [reasons(model, table[i : i + 1], 2, background=frame) for i in range(5)]
    pd.testing.assert_frame_equal(pd.concat(one_by_one, ignore_index=True), found[:5])


def test_the_same_reasons_in_whatever_company(fitted, table, tmp_path):
    whole = score_frame(fitted, table, reasons=3)
    assert whole.columns[-6:].tolist() == [
        *("reason_1", "reason_1_odds", "reason_2", "reason_2_odds", "reason_3", "reason_3_odds")
    ]
    for size in (1, 7, 1_000):
        parts = [score_frame(fitted, table[i : i + size], first_row=i, reasons=3) for i in range(0, 3 * size, size)][:3]
        joined = pd.concat([part for part in parts if len(part)], ignore_index=True)
        pd.testing.assert_frame_equal(joined, whole[: len(joined)], check_exact=True)
    table.to_parquet(tmp_path / "t.parquet")
    for rows in (100, 5_000):
        done = score_file(fitted, tmp_path / "t.parquet", tmp_path / "s.parquet", reasons=3, batch_rows=rows)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "s.parquet"), whole, check_exact=True)
    assert done["reasons"]["number"] == 3
    odds = whole[["reason_1_odds", "reason_2_odds", "reason_3_odds"]].to_numpy()
    assert (np.diff(np.where(np.isnan(odds), 1, odds), axis=1) <= 0).all()
    assert (odds[~np.isnan(odds)] > 1).all()


def test_a_saved_model_gives_the_same_reasons(fitted, table, tmp_path):
    save(fitted, tmp_path / "model")
    pd.testing.assert_frame_equal(reasons(load(tmp_path / "model"), table[:30]), reasons(fitted, table[:30]))


def test_what_leaves_out_columns_travels_to_other_processes(fitted, table):
    leaving_out = LeavingOut(fitted, 2, values_in_training(fitted))
    again = pickle.loads(pickle.dumps(leaving_out))
    estimator, columns, matrix = encoded(fitted, table[:20])
    p = estimator.predict_proba(matrix)
    one, other = (each(estimator, columns, matrix, p, p.argmax(axis=1)) for each in (leaving_out, again))
    pd.testing.assert_frame_equal(pd.DataFrame(one), pd.DataFrame(other))


def test_of_columns_that_say_the_same_the_first_comes_first():
    X = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    found = reasons(linear([0.5, 0.5, 0.5]), np.tile(X, (3, 1)), 3, background=np.eye(3)[[0, 1, 2]])
    assert found.loc[0, ["reason_1", "reason_2", "reason_3"]].tolist() == ["x0 = 1", "x1 = 1", "x2 = 1"]
    assert found["reason_1_odds"][0] == found["reason_3_odds"][0]


def test_a_row_without_a_label_has_no_reasons(fitted, table):
    scored = score_frame(fitted, table[:300], abstain=0.6, reasons=2)
    unsure = scored["label"].isna()
    assert unsure.any()
    assert not unsure.all()
    assert scored.loc[unsure, ["reason_1", "reason_1_odds", "reason_2"]].isna().all(axis=None)
    sure = score_frame(fitted, table[:300], reasons=2)[~unsure]
    pd.testing.assert_frame_equal(scored[~unsure], sure, check_dtype=False)


def test_reasons_are_those_of_the_label_that_costs_give(fitted, table):
    names = fitted.classes_.tolist()
    always_grey = {true: {called: 0.0 if called == "grey" else 1.0 for called in names} for true in names}
    scored = score_frame(fitted, table[:50], costs=always_grey, reasons=1)
    plain = score_frame(fitted, table[:50], reasons=1)
    assert (scored["label"] == "grey").all()
    same = plain["label"] == "grey"
    assert scored.loc[same, "reason_1"].tolist() == plain.loc[same, "reason_1"].tolist()


def test_a_table_without_rows(fitted, table):
    assert reasons(fitted, table[:0], 1).columns.tolist() == ["label", "reason_1", "reason_1_odds"]
    assert (
        score_frame(fitted, table[:0], reasons=2).columns.tolist()
        == score_frame(fitted, table[:1], reasons=2).columns.tolist()
    )


def test_what_reasons_say(fitted):
    frame = tabulated()[0][:1]
    texts = reasons(fitted, frame.assign(age=61.0, plan=None, joined=pd.Timestamp("2021-05-06")), 5)
    words = set(texts.filter(regex=r"reason_\d$").iloc[0].dropna())
    assert words <= {
        *("age = 61", "plan is missing", "joined = 2021-05-06", f"note = {frame['note'].iloc[0]}"),
        *("news = true", "news = false"),
    }


def test_values_from_a_profile_and_from_rows_agree():
    rng = np.random.default_rng(0)
    for column in (
        pd.Series(rng.choice(["a", "b", "c"], 500)),
        pd.Series(np.where(rng.random(500) < 0.2, np.nan, rng.integers(0, 4, 500))),
    ):
        values, weight = typical_values(profile_column(column, np.ones(500)))
        others, shares = values_of(column)
        assert dict(zip(values, weight.round(5), strict=True)) == dict(zip(others, shares.round(5), strict=True))
    wide = pd.Series(rng.gamma(2, 10, 3_000))
    values, weight = typical_values(profile_column(wide, np.ones(3_000)))
    assert len(values) == 8
    assert weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(values, wide.quantile((np.arange(8) + 0.5) / 8), rtol=0.1)
    assert typical_values(profile_column(pd.Series(map(str, range(300)), dtype="str"), np.ones(300)))[0] == [None]


def test_what_cannot_be_done_is_said(fitted, table):
    frame, y = tabulated()
    bare = for_table(TSVM()).fit(frame, y)
    with pytest.raises(ParameterError, match=r"no profile.*remember_training"):
        score_frame(bare, frame, reasons=3)
    with pytest.raises(ParameterError, match="from 1 to 20"):
        score_frame(fitted, frame, reasons=0)
    silent = for_table(TSVM(probability=None)).fit(frame, y)
    with pytest.raises(ParameterError, match="no probabilities"):
        reasons(silent, frame, background=frame)
    known = y != None  # noqa: E711
    mixed = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame.loc[known, ["age"]], y[known])
    with pytest.raises(ParameterError, match="which features come from which column"):
        reasons(mixed, frame[["age"]], background=frame[["age"]])


def test_a_committee_refuses_what_would_take_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, y = tabulated()
    frame = frame.drop(columns="note")
    members = ["logistic-regression", "tsvm"]
    model = for_table(Committee(members=members, effort="fast", n_jobs=1, random_state=0)).fit(frame, y)
    remember_training(model, frame, y)
    save(model, tmp_path / "model")
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr(deepsep.scoring.leaving_out, "MAX_SLOW_PREDICTIONS", 1_000)
    command = ("score", tmp_path / "model", tmp_path / "t.csv", "-o", tmp_path / "s.csv", "--reasons", 2)
    result = run(*command)
    assert result.exit_code == 2
    assert "--fast takes the student" in result.stderr
    assert not (tmp_path / "s.csv").exists()
    monkeypatch.setattr(deepsep.scoring.leaving_out, "MAX_QUIET_SECONDS", 0)
    result = run(*command, "--fast")
    assert result.exit_code == 0, result.output
    assert "passes over the rows, about 1 minute for each 1,000 of them" in " ".join(result.stderr.split())
    scored = pd.read_csv(tmp_path / "s.csv")
    assert len(scored) == len(frame)
    assert scored["reason_1"].notna().mean() > 0.9
