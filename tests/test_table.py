"""A messy table, straight into an estimator and back from disk."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, rankdata
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import FunctionTransformer

from deepsep import TSVM, DeepSep, for_table, load, method, save
from deepsep.errors import DataError, DeepSepWarning
from deepsep.table.columns import UsefulColumns
from deepsep.table.normal_scores import NormalScores


def customers(n=200, seed=0):
    rng = np.random.default_rng(seed)
    old = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "age": np.where(old, rng.normal(60, 8, n), rng.normal(30, 8, n)),
            "plan": np.where(rng.random(n) < np.where(old, 0.8, 0.2), "pro", "free"),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "news": rng.random(n) < 0.5,
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    segment = np.where(old, "settled", "starter").astype(object)
    return frame, segment, np.where(np.arange(n) < 40, segment, None)


def messy(n=120, seed=0):
    """Customers with a column of every kind, and some that say nothing."""
    frame, _, y = customers(n, seed)
    rng = np.random.default_rng(seed + 1)
    return (
        frame.assign(
            user_id=rng.permutation(n) + 1000,
            email=[f"u{i}@example.org" for i in range(n)],
            country="UK",
            zip=[f"{v:05d}" for v in rng.integers(0, 30, n)],
            street=[f"{v} Main Street" for v in rng.integers(0, 2_000, n)],
            note=[" ".join(rng.choice(["likes", "green", "tea", "and", "long", "walks", "now"], 7)) for _ in range(n)],
            income=rng.integers(10_000, 90_000, n),
            gone=pd.Series(rng.choice([True, False, None], n), dtype="boolean"),
            colour=pd.Categorical(rng.choice(["red", "blue", None], n)),
            day=[f"{v:02d}/03/2024" for v in rng.integers(1, 29, n)],
        ),
        y,
    )


def quiet(model, frame, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)
        return model.fit(frame, y)


@pytest.mark.parametrize(
    "estimator", [TSVM(), DeepSep(rounds=1, initial_epochs=30, random_state=0)], ids=["TSVM", "DeepSep"]
)
def test_a_messy_table_round_trips(estimator, tmp_path):
    frame, segment, y = customers()
    model = for_table(estimator).fit(frame, y)
    assert (model.predict(frame) == segment).mean() > 0.85
    assert model.classes_.tolist() == ["settled", "starter"]
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    unseen = frame.assign(plan="enterprise")
    assert np.isfinite(again.predict_proba(unseen)).all()


def test_every_kind_of_column_round_trips(tmp_path):
    frame, y = messy()
    model = quiet(for_table(TSVM()), frame, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again[0].schema_ == model[0].schema_
    for one in (frame[:1], frame[::-1], frame[frame.columns[::-1]], frame.assign(more=1)):
        assert again.predict_proba(one).shape == (len(one), 2)


def test_what_is_left_out_is_named_in_one_warning():
    frame, y = messy()
    with pytest.warns(DeepSepWarning) as caught:
        model = for_table(TSVM()).fit(frame, y)
    (message,) = [str(w.message) for w in caught if "left out" in str(w.message)]
    assert caught[0].filename == __file__
    assert model[0].left_out_ == dict.fromkeys(["user_id", "email", "street"], "identifier") | {"country": "constant"}
    for name, reason in model[0].left_out_.items():
        assert f"{name!r} ({reason})" in message
    assert model[0].schema_ == {
        **{"age": "number", "plan": "text", "joined": "date", "news": "boolean", "zip": "text", "note": "text"},
        **{"income": "number", "gone": "boolean", "colour": "text", "day": "date"},
    }
    kept = quiet(for_table(TSVM(), keep=["user_id"]), frame, y)
    assert kept[0].schema_["user_id"] == "number"
    with pytest.raises(DataError, match="keep=: column 'user-id' not found; did you mean 'user_id'"):
        for_table(TSVM(), keep=["user-id"]).fit(frame, y)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pd.Series(range(1, 101), name="x"), "identifier"),
        (pd.Series(RNG.permutation(100) + 5_000, name="x"), "identifier"),
        (pd.Series(RNG.choice(10**7, 100, replace=False), name="customerId"), "identifier"),
        (pd.Series(RNG.choice(10**7, 100, replace=False), name="income"), ""),
        (pd.Series(RNG.integers(0, 500, 100), name="income_id"), ""),
        (pd.Series(RNG.normal(size=100), name="id"), ""),
        (pd.Series(RNG.permutation(100).astype(float), name="x"), ""),
        (pd.Series([f"{i:032x}" for i in range(100)], name="x"), "identifier"),
        (pd.Series([f"a{i % 50}@b.org" for i in range(100)], name="x"), "identifier"),
        (pd.Series([f"First{i} Last{i % 7}" for i in range(100)], name="x"), "identifier"),
        (pd.Series([f"{i:07d}" for i in range(100)], name="x"), "identifier"),
        (pd.Series([f"the {i} words of a longer text" for i in range(100)], name="x"), ""),
        (pd.Series(pd.date_range("2020", periods=100, freq="h"), name="x"), ""),
        (pd.Series(pd.date_range("2020", periods=100, freq="D").strftime("%d/%m/%Y"), name="x"), ""),
        (pd.Series([f"city{i}" for i in range(10)] * 10, name="x"), ""),
        (pd.Series(["a", "b", "c"], name="x"), ""),
        (pd.Series([1] * 100, name="x"), "constant"),
        (pd.Series(["yes", None] * 50, name="x"), ""),
        (pd.Series([None] * 100, name="x"), "empty"),
        (pd.Series(["NA", "null"] * 50, name="x"), "empty"),
        (pd.Series([[1], [2]] * 50, name="x"), "lists or other objects"),
        (pd.Series([1 + 2j, 3j] * 50, name="x"), "lists or other objects"),
    ],
)
def test_what_is_an_identifier(column, reason):
    frame = pd.DataFrame({column.name: column, "other": np.arange(len(column)) % 3})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left_out = UsefulColumns().fit(frame).left_out_
    assert left_out.get(column.name, "") == reason


def test_a_table_without_anything_to_learn_from_is_refused():
    with pytest.raises(DataError, match=r"no column can be used: 'id' \(identifier\), 'one' \(constant\)"):
        for_table(TSVM()).fit(pd.DataFrame({"id": range(50), "one": 1}), ["a", "b"] * 25)


def test_other_columns_are_refused_with_their_differences():
    frame, _, y = customers()
    model = for_table(TSVM()).fit(frame, y)
    with pytest.raises(DataError) as error:
        model.predict(frame.rename(columns={"joined": "joinned", "plan": "x"}).drop(columns="age").assign(more=1))
    assert str(error.value).splitlines() == [
        "the columns differ from those of the training table:",
        "  missing: 'age', 'plan', 'joined'",
        "  unexpected: 'x', 'joinned', 'more'",
        "  renamed? 'joined' to 'joinned'",
    ]
    changed = frame.assign(age="old", joined=3.5, news="perhaps")
    with pytest.raises(DataError) as error:
        model.predict(changed)
    assert str(error.value).splitlines()[1] == (
        "  changed type: 'age' (number in training, text such as 'old' here), "
        "'joined' (date in training, numbers such as 3.5 here), "
        "'news' (boolean in training, text such as 'perhaps' here)"
    )


def test_the_same_values_in_other_types_score_the_same():
    frame, _, y = customers()
    model = for_table(TSVM()).fit(frame, y)
    other = pd.DataFrame(
        {
            "news": frame["news"].map({True: "TRUE", False: "false"}),
            "joined": frame["joined"].dt.strftime("%Y-%m-%d"),
            "age": frame["age"].map(lambda v: "NA" if np.isnan(v) else repr(v)),
            "plan": frame["plan"].astype("category"),
        }
    )
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(frame))


@pytest.mark.parametrize(
    "estimator", [method("svm", random_state=0), RandomForestClassifier(5, random_state=0)], ids=["SVM", "forest"]
)
def test_codes_of_digits_are_categories(estimator):
    code = np.array([f"{v:03d}" for v in np.random.default_rng(0).integers(0, 9, 200)])
    y = np.where(np.isin(code, ["001", "004", "007"]), "in", "out")
    model = for_table(estimator).fit(pd.DataFrame({"code": code, "x": np.arange(200) % 3}), y)
    assert model.score(pd.DataFrame({"code": code, "x": np.arange(200) % 3}), y) > 0.95


def test_polars_arrow_and_matrices():
    pl = pytest.importorskip("polars")
    frame, _, y = customers()
    model = for_table(TSVM()).fit(frame, y)
    again = for_table(TSVM()).fit(pl.from_pandas(frame), pl.Series(y, dtype=pl.String).to_list())
    np.testing.assert_array_equal(model.predict_proba(frame), again.predict_proba(frame))
    np.testing.assert_array_equal(model.predict_proba(pl.from_pandas(frame).to_arrow()), again.predict_proba(frame))
    X = np.random.default_rng(0).normal(size=(40, 2))
    assert for_table(method("svm")).fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0) > 0.9


def test_settings_can_be_changed_and_the_pipeline_cloned():
    frame, _, y = customers()
    model = for_table(TSVM()).set_params(tsvm__C=3.0, usefulcolumns__keep=("age",))
    assert clone(model).get_params()["tsvm__C"] == 3.0
    np.testing.assert_array_equal(
        clone(model).fit(frame, y).predict_proba(frame), model.fit(frame, y).predict_proba(frame)
    )
    deep = for_table(DeepSep(rounds=1, initial_epochs=2, random_state=0)).fit(frame, y)
    assert deep.transform(frame).shape == (200, 3 * 32)  # three networks side by side
    assert deep[-1].round_proba(deep[:-1].transform(frame)).shape == (200, 2)
    assert deep[-1].transduction_.shape == (200,)


def test_ten_thousand_categories_stay_few_columns():
    n = 12_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"shop": [f"shop {v:05d}" for v in rng.integers(0, 10_000, n)], "x": rng.normal(size=n)})
    model = for_table(TSVM())[:-1]
    assert model.fit_transform(frame).shape == (n, 31)
    assert np.isfinite(model.transform(frame.assign(shop="never seen"))).all()
    some = frame.assign(shop=[f"shop {v}" for v in rng.integers(0, 500, n)])
    assert model.fit_transform(some).shape[1] <= 41


def test_infinity_is_missing_and_duplicate_names_are_refused():
    frame, _, y = customers()
    frame.loc[3, "age"] = np.inf
    assert np.isfinite(for_table(TSVM()).fit(frame, y).predict_proba(frame)).all()
    with pytest.raises(DataError, match="more than one column named 'a'"):
        for_table(TSVM()).fit(pd.DataFrame(np.eye(3), columns=["a", "b", "a"]), ["x", "y", None])


def test_normal_scores_are_the_normal_quantiles_of_mean_ranks():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.exp(rng.normal(size=500)), rng.integers(0, 4, 500)])
    wanted = norm.ppf((rankdata(X, axis=0) - 0.5) / 500).clip(-3, 3)
    scores = NormalScores().fit(X)
    np.testing.assert_allclose(scores.transform(X), wanted, rtol=1e-6, atol=1e-6)
    X[0, 0] = np.nan
    assert np.isnan(scores.transform(X)[0, 0])
    assert scores.transform([[1e9, -5]]).tolist() == [[pytest.approx(3.0, abs=0.1), pytest.approx(wanted[:, 1].min())]]
    long = rng.normal(size=(20_000, 1))
    error = NormalScores().fit_transform(long)[:, 0] - norm.ppf((rankdata(long) - 0.5) / 20_000).clip(-3, 3)
    assert np.abs(error).max() < 0.1


def test_a_pipeline_of_ones_own_goes_between():
    from sklearn.pipeline import make_pipeline

    frame, _, y = customers()
    model = for_table(make_pipeline(FunctionTransformer(), TSVM())).fit(frame, y)
    assert list(model.named_steps)[-2:] == ["functiontransformer", "tsvm"]


def test_wide_tables_are_encoded_as_narrow_ones_are():
    rng = np.random.default_rng(0)
    frame = (
        pd.DataFrame(rng.normal(size=(60, 3_000)))
        .add_prefix("n")
        .assign(**{f"t{j}": rng.choice(["red", "green", "blue"], 60) for j in range(300)})
    )
    encoded = for_table(TSVM())[:-1].fit_transform(frame)
    assert encoded.shape == (60, 3_900)
    some = ["n5", "t7"]
    np.testing.assert_array_equal(
        for_table(TSVM())[:-1].fit_transform(frame[some]), encoded[:, [5, *range(3021, 3024)]]
    )


@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e150])
@pytest.mark.parametrize(
    "estimator", [method("svm", random_state=0), RandomForestClassifier(5, random_state=0)], ids=["SVM", "forest"]
)
def test_the_scale_of_a_column_does_not_matter(estimator, size):
    x = np.random.default_rng(0).normal(size=80)
    y = np.where(x > 0, "high", "low")
    p = [
        for_table(clone(estimator)).fit(pd.DataFrame({"x": x * scale}), y).predict_proba(pd.DataFrame({"x": x * scale}))
        for scale in (1.0, size)
    ]
    np.testing.assert_allclose(p[0], p[1], atol=1e-5)


def test_long_cells_are_cut_with_a_warning():
    frame, _, y = customers()
    frame["note"] = [f"note number {i} on a customer" for i in range(len(frame))]
    frame.loc[3, "note"] = "word " * 100_000
    with pytest.warns(DeepSepWarning, match="'note' has a cell of 500,000 characters; .* first 10,000"):
        model = for_table(TSVM()).fit(frame, y)
    cut = frame.assign(note=frame["note"].str.slice(0, 10_000))
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(cut))


def test_features_know_their_columns():
    frame, y = messy()
    encoder = quiet(for_table(TSVM()), frame, y)[1]
    names = encoder.get_feature_names_out()
    assert len(names) == len(encoder.sources_)
    for name, source in zip(names, encoder.sources_, strict=True):
        assert name.startswith(encoder.feature_names_in_[source])
    assert (np.diff(encoder.sources_) >= 0).all()


def test_only_parts_of_dates_that_differ_are_features():
    day = pd.Series(pd.date_range("2024-01-01", "2024-12-01", periods=60).normalize())
    encoder = for_table(TSVM())[:-1].fit(pd.DataFrame({"day": day}))[-2]
    assert encoder.get_feature_names_out().tolist() == ["day_month", "day_day", "day_total_seconds", "day_weekday"]
