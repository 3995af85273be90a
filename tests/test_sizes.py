"""Sizes of segments: the difference estimator, screening counts, groups, and that the intervals hold."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run

import deepsep
from deepsep import Committee, for_table
from deepsep.errors import DataError, ParameterError
from deepsep.evaluation.class_sizes import KnownShares, class_sizes, screened_shares
from deepsep.evaluation.expected_accuracy import Evidence
from deepsep.evaluation.intervals import wilson

CHEAP = {"members": ["logistic-regression"], "effort": "fast", "student": False, "n_jobs": 1, "random_state": 0}


def evidence(q, codes):
    return Evidence(np.asarray(q, float), np.asarray(codes), np.ones(len(codes)), 1)


def population(n=2000, labels=200, seed=0, how="random", shares=(0.6, 0.3, 0.1)):
    """Rows of three classes in two countries, with labels for some of them; the classes."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(3, n, p=shares)
    country = np.where(rng.random(n) < np.array([0.8, 0.5, 0.2])[truth], "de", "fr")
    X = pd.DataFrame(rng.normal(size=(n, 4)) + 1.2 * np.eye(3)[truth][:, [0, 1, 2, 0]], columns=list("abcd"))
    if how == "random":
        at = rng.permutation(n)[:labels]
    else:
        at = np.concatenate([rng.permutation(np.flatnonzero(truth == k))[: labels // 3] for k in range(3)])
    y = np.full(n, None, object)
    y[at] = np.array(["A", "B", "C"])[truth[at]]
    return X.assign(country=country, segment=y, user=np.arange(n)), truth


def fitted(frame, **settings):
    return deepsep.fit(frame, label="segment", id="user", method=Committee(**CHEAP), **settings)


def test_a_model_that_says_the_same_of_every_row_leaves_the_interval_of_the_labels():
    codes = np.repeat([0, 1], [30, 70])
    sizes = class_sizes(np.full((10**7, 2), 0.5), np.ones(10**7), np.zeros(2), evidence(np.full((100, 2), 0.5), codes))
    assert sizes[0].share == pytest.approx(0.3)
    n = 1 / (1.15**2 / 99 + 1 / (100 * 101) + 1e-7)  # the variance for folds, and the row as wrong as by chance
    assert sizes[0][1:] == pytest.approx(wilson(0.3 * n, n), abs=1e-4)


def test_predictions_that_err_in_one_class_are_corrected():
    rng = np.random.default_rng(1)
    truth, codes = rng.random(40_000) < 0.3, rng.random(20_000) < 0.3

    def too_high(of):  # says 1 for every row of class 1, and for a third of the others
        return np.where(of | (rng.random(len(of)) < 1 / 3), 1.0, 0.0)

    p, q = too_high(truth), too_high(codes)
    assert p.mean() == pytest.approx(0.7 / 3 + 0.3, abs=0.01)
    size = class_sizes(
        np.column_stack([1 - p, p]), np.ones(len(p)), np.zeros(2), evidence(np.column_stack([1 - q, q]), codes * 1)
    )[1]
    assert size.low < truth.mean() < size.high
    assert size.high - size.low < 0.9 * np.diff(wilson(codes.sum(), len(codes)))[0] * 1.15 * np.sqrt(1.5)


@pytest.mark.parametrize("known", [None, KnownShares(np.array([0.2, 0.5, 0.3]), 0.001 * np.eye(3))])
def test_shares_add_up_to_one_and_lie_in_their_intervals(known):
    rng = np.random.default_rng(2)
    q, p, codes = rng.dirichlet(np.ones(3), 60), rng.dirichlet([1, 2, 3], 500), rng.integers(3, size=60)
    sizes = class_sizes(p, rng.random(500), np.array([5.0, 3.0, 2.0]), evidence(q, codes), known=known)
    assert sum(size.share for size in sizes) == pytest.approx(1)
    assert all(0 <= size.low <= size.share <= size.high <= 1 for size in sizes)


def test_labeled_rows_are_counted_and_not_estimated():
    q, codes = np.full((20, 2), 0.5), np.arange(20) % 2
    everyone_known = class_sizes(np.empty((0, 2)), np.empty(0), np.array([12.0, 8.0]), evidence(q, codes))
    assert everyone_known[0] == (0.6, 0.6, 0.6)
    few_others = class_sizes(np.full((1, 2), 0.5), np.ones(1), np.array([60.0, 39.0]), evidence(q, codes))
    assert few_others[0].low >= 0.6
    assert few_others[0].high <= 0.61


def test_screening_counts_are_unbiased():
    rng = np.random.default_rng(3)
    shares, labels, draws = np.array([0.7, 0.25, 0.05]), np.array([40, 40, 40]), []
    for _ in range(2000):
        draws.append(screened_shares(labels, labels + rng.negative_binomial(labels, shares)))
    values = np.stack([draw.value for draw in draws])
    assert values.mean(0) == pytest.approx(shares, rel=0.02)
    stated = np.sqrt(np.mean([np.diag(draw.covariance) for draw in draws], axis=0))
    assert stated == pytest.approx(values.std(0), rel=0.1)


def test_given_shares_come_back_exactly_and_those_of_groups_rest_on_them():
    frame, truth = population(how="quota")
    shares = dict(zip("ABC", np.bincount(truth) / len(truth), strict=True))
    model = deepsep.fit(
        frame, label="segment", id="user", labels_drawn="quota", method=Committee(**CHEAP, priors=shares)
    )
    whole = model.sizes().table
    assert whole["share"].to_numpy() == pytest.approx(list(shares.values()))
    assert (whole["high"] - whole["low"]).max() == pytest.approx(0, abs=1e-12)
    groups = model.sizes(by="country").table.set_index(["country", "segment"])
    for (country, name), line in groups.iterrows():
        at = (frame["country"] == country).to_numpy()
        true = (truth[at] == "ABC".index(name)).mean()
        assert line["low"] - 0.03 < true < line["high"] + 0.03
    assert (groups["high"] > groups["low"]).all()


@pytest.mark.parametrize(
    ("drawn", "said"), [("quota", "fill quotas, so that their numbers do not tell"), ("chosen", "were chosen")]
)
def test_no_interval_where_nothing_tells_the_shares(drawn, said):
    frame, _ = population(600, 90, how="quota")
    sizes = fitted(frame, labels_drawn=drawn).sizes()
    assert sizes.table[["low", "high"]].isna().all(axis=None)
    assert said in sizes.condition
    assert sizes.table["share"].sum() == pytest.approx(1)


def test_the_condition_names_what_is_assumed():
    frame, _ = population(600, 100)
    assert fitted(frame).sizes().condition.endswith("as is assumed since nothing says how.")
    assert fitted(frame, labels_drawn="random").sizes().condition == "The labels are a random sample of all rows."


@pytest.mark.parametrize(
    ("screened", "message"),
    [
        ({"A": 100, "B": 200}, "the class 'C' is missing"),
        ({"A": 100, "B": 200, "C": 300, "D": 4}, "'D' is no class"),
        ({"A": 100, "B": 200, "C": 29}, "29 people were looked at, and 30 labels found"),
        ({"A": 100, "B": 200, "C": 99.5}, "99.5 people"),
    ],
)
def test_bad_screening_counts(screened, message):
    frame, _ = population(600, 90, how="quota")
    model = fitted(frame, labels_drawn="quota")
    with pytest.raises(ParameterError, match=message):
        model.sizes(screened=screened)
    with pytest.raises(ParameterError, match="were drawn at random, so that no counts are needed"):
        fitted(population(600, 90)[0], labels_drawn="random").sizes(screened={"A": 100, "B": 200, "C": 300})


def test_bad_groups_and_models():
    frame, _ = population(600, 90)
    model = fitted(frame)
    with pytest.raises(DataError, match=r"'a' has .* different values, too many for groups"):
        model.sizes(by="a")
    with pytest.raises(DataError, match="nowhere"):
        model.sizes(by="nowhere")
    with pytest.raises(ParameterError, match="needs the labelled rows, too"):
        model.sizes(by="country", table=frame)
    alone = for_table(deepsep.method("logistic-regression")).fit(frame[list("abcd")], frame["segment"])
    with pytest.raises(ParameterError, match="Fit a committee, the default"):
        alone.sizes(table=frame)


def test_a_group_without_labels_has_an_estimate_without_interval():
    frame, _ = population(600, 90)
    frame["country"] = frame["country"].where(frame["segment"].notna() | (frame.index % 3 > 0), "it")
    table = fitted(frame).sizes(by="country").table.set_index("country")
    assert table.loc["it", "low"].isna().all()
    assert not table.loc["it", "labels"].any()
    assert table.loc["de", "low"].notna().all()


def test_the_command_says_what_the_model_does(tmp_path):
    frame, _ = population(900, 120, how="quota")
    frame.to_csv(tmp_path / "people.csv", index=False)
    counts = tmp_path / "screened.csv"
    counts.write_text("class,looked_at\nA,70\nB,140\nC,420\n")
    fit = run("fit", tmp_path / "people.csv", "--label", "segment", "--id", "user", "--labels-drawn", "quota",
              "--effort", "fast", "--no-report", "-o", tmp_path / "m")  # fmt: skip
    assert fit.exit_code == 0, fit.output
    plain = run("sizes", tmp_path / "m", tmp_path / "people.csv")
    assert plain.exit_code == 0
    assert "no interval" in plain.stdout
    assert "--screened" in plain.stdout
    by = ("--by", "country", "--screened", counts, "-o", tmp_path / "sizes.csv")
    result = run("sizes", tmp_path / "m", tmp_path / "people.csv", *by, "--json")
    assert result.exit_code == 0, result.output
    found = pd.DataFrame(json.loads(result.stdout)["sizes"])
    assert found.groupby("country")["share"].sum().to_numpy() == pytest.approx(1)
    written = pd.read_csv(tmp_path / "sizes.csv")
    assert written["share"].to_numpy() == pytest.approx(found["share"].to_numpy())
    assert (written["low"] < written["share"]).all()
    others = frame[frame["segment"].isna()].drop(columns="segment")
    others.to_csv(tmp_path / "others.csv", index=False)
    refused = run("sizes", tmp_path / "m", tmp_path / "others.csv", *by[:4])
    assert refused.exit_code
    assert "the groups of 'country' need the labelled rows" in refused.stderr
    counts.write_text("class,people\nA,70\n")
    refused = run("sizes", tmp_path / "m", tmp_path / "people.csv", "--screened", counts)
    assert refused.exit_code
    assert "needs the columns class and looked_at" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", ["random", "screened"])
@pytest.mark.parametrize("labels", [36, 150])
def test_intervals_of_a_committee_hold(how, labels):
    held, in_groups = [], []
    for seed in range(60):
        frame, truth = population(3000, labels, seed, "random" if how == "random" else "quota")
        rng = np.random.default_rng([seed, 1])
        counts = {}
        for k, name in enumerate("ABC"):
            n = int((frame["segment"] == name).sum())
            counts[name] = n + int(rng.negative_binomial(n, (truth == k).mean()))
        model = fitted(frame, labels_drawn="random" if how == "random" else "quota")
        screened = None if how == "random" else counts
        for sizes, kept in (
            (model.sizes(screened=screened), held),
            (model.sizes("country", screened=screened), in_groups),
        ):
            for line in sizes.table.itertuples():
                at = frame["country"] == getattr(line, "country", None) if hasattr(line, "country") else truth >= 0
                true = (truth[np.asarray(at)] == "ABC".index(line.segment)).mean()
                if line.low == line.low:
                    kept.append(line.low <= true <= line.high)
    assert 0.84 <= np.mean(held) <= 0.97
    assert 0.84 <= np.mean(in_groups) <= 0.97
