"""Numbers of the workbook against pandas and scipy: crosstabs, means, medians, tests and their correction."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from deepsep.apps.workbook.crosstabs import difference, profile_lines, profiled_column
from deepsep.evaluation.intervals import holm


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    segment = rng.integers(0, 3, 600)
    table = pd.DataFrame(
        {
            "plan": np.where(
                rng.random(600) < 0.15, None, rng.choice(["free", "basic", "pro"], 600, p=[0.5, 0.3, 0.2])
            ),
            "city": rng.choice([f"c{i}" for i in range(30)], 600),
            "likes": rng.integers(1, 6, 600).astype(float),
            "income": np.where(rng.random(600) < 0.1, np.nan, rng.lognormal(3 + 0.2 * segment, 1)),
            "change": rng.normal(segment - 1.0, 1),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 600), unit="D"),
            "note": [f"text {i}" + "!" * int(k) for i, k in enumerate(segment)],
        }
    )
    return table, segment


def lines_of(table, name, segment, weight=None, n=3):
    weight = np.ones(len(table)) if weight is None else weight
    return {line.what: line for line in profile_lines(profiled_column(name, table[name]), segment, n, weight)}


@pytest.mark.parametrize("name", ["plan", "likes"])
@pytest.mark.parametrize("weighted", [False, True])
def test_shares_are_those_of_a_crosstab(rows, name, weighted):
    table, segment = rows
    weight = np.random.default_rng(1).uniform(0.2, 3, 600) if weighted else np.ones(600)
    column = table[name].map(lambda v: f"{v:g}" if name == "likes" else v).fillna("(missing)")
    shares = pd.crosstab(column, segment, weight, aggfunc="sum", normalize="columns")
    total = pd.Series(weight).groupby(column.to_numpy()).sum() / weight.sum()
    lines = {what: line for what, line in lines_of(table, name, segment, weight).items() if line.unit == "share"}
    assert set(lines) == set(shares.index)
    for what, line in lines.items():
        np.testing.assert_allclose(line.values, shares.loc[what])
        np.testing.assert_allclose(line.total, total[what])
        np.testing.assert_allclose(line.index, 100 * shares.loc[what] / total[what])


def test_rare_levels_share_a_line(rows):
    table, segment = rows
    lines = lines_of(table, "city", segment)
    counts = table["city"].value_counts()
    assert len(lines) == 21
    kept = counts[[what for what in lines if what != "(other)"]]
    assert kept.min() >= counts.drop(kept.index).max()
    np.testing.assert_allclose(sum(line.values for line in lines.values()), 1)


def test_means_medians_and_deviations(rows):
    table, segment = rows
    lines, by = lines_of(table, "income", segment), table["income"].groupby(segment)
    np.testing.assert_allclose(lines["mean"].values, by.mean())
    np.testing.assert_allclose(lines["median"].values, by.median())
    np.testing.assert_allclose(lines["median"].total, table["income"].median())
    np.testing.assert_allclose(lines["mean"].index, 100 * by.mean() / table["income"].mean())
    away = (by.mean() - table["income"].mean()) / table["income"].std(ddof=0)
    np.testing.assert_allclose(lines["mean, from total"].values, away)
    np.testing.assert_allclose(lines["(missing)"].values, table["income"].isna().groupby(segment).mean())
    assert np.isnan(lines_of(table, "change", segment)["mean"].index).all()  # below 0 an index means nothing


def test_a_weight_counts_like_copies(rows):
    table, segment = rows
    times = np.random.default_rng(2).integers(0, 4, 600)
    copies = table.loc[np.repeat(table.index, times)].reset_index(drop=True)
    for name in table:
        weighted = lines_of(table, name, segment, times.astype(float))
        for what, line in lines_of(copies, name, np.repeat(segment, times)).items():
            if what in weighted and what != "(other)":  # which levels are rare, rows decide and not weights
                np.testing.assert_allclose(weighted[what].values, line.values, err_msg=f"{name} {what}")


def test_dates_and_texts(rows):
    table, segment = rows
    lines = lines_of(table, "joined", segment)
    seconds = table["joined"].groupby(segment).median().to_numpy("datetime64[s]").astype(float)
    np.testing.assert_allclose(lines["median"].values, seconds)
    lengths = table["note"].str.len().groupby(segment).mean()
    np.testing.assert_allclose(lines_of(table, "note", segment)["length: mean"].values, lengths)


def test_a_segment_without_rows_has_no_values(rows):
    table, segment = rows
    for name in table:
        for line in lines_of(table, name, segment, n=4).values():
            assert np.isnan(line.values[3])
            assert np.isfinite(line.values[:3]).all()


def test_chi_squared_is_scipys(rows):
    table, segment = rows
    found = difference(profiled_column("plan", table["plan"]), segment, np.ones(600))
    counts = pd.crosstab(table["plan"].fillna("(missing)"), segment)
    twin = stats.chi2_contingency(counts, correction=False)
    np.testing.assert_allclose([found.statistic, found.df, found.p], [twin.statistic, twin.dof, twin.pvalue])
    np.testing.assert_allclose(found.strength, stats.contingency.association(counts, method="cramer"))


def test_rare_levels_are_tested_together():
    rng = np.random.default_rng(0)
    column = pd.Series(rng.choice(list("abcdefgh"), 60, p=[0.4, 0.4, *[0.2 / 6] * 6]))
    segment = rng.integers(0, 2, 60)
    rare = column.map(column.value_counts()) < 5
    twin = stats.chi2_contingency(pd.crosstab(column.mask(rare, "rare"), segment), correction=False)
    assert difference(profiled_column("x", column), segment, np.ones(60)).p == pytest.approx(twin.pvalue)


@pytest.mark.parametrize("name", ["likes", "income", "joined"])
def test_ranks_are_scipys(rows, name):
    table, segment = rows
    given = table[name].notna()
    groups = [table.loc[given & (segment == k), name].astype("int64" if name == "joined" else float) for k in range(3)]
    twin = stats.kruskal(*groups)
    found = difference(profiled_column(name, table[name]), segment, np.ones(600))
    np.testing.assert_allclose([found.statistic, found.df, found.p], [twin.statistic, 2, twin.pvalue])


def test_weights_shrink_a_test_to_the_effective_number_of_rows(rows):
    table, segment = rows
    for name in ("plan", "income"):
        column = profiled_column(name, table[name])
        plain, scaled = (difference(column, segment, np.full(600, size)) for size in (1.0, 7.5))
        np.testing.assert_allclose(scaled.p, plain.p)
        weight = np.random.default_rng(0).uniform(0.1, 10, 600)
        uneven, used = difference(column, segment, weight), weight[table[name].notna() | (name == "plan")]
        less = (used.sum() ** 2 / (used**2).sum()) - (name == "income")
        squared = uneven.strength**2 * 2 if name == "plan" else uneven.strength
        np.testing.assert_allclose(uneven.statistic, squared * less)


def test_nothing_to_compare():
    for values in (["a"] * 20, [1.0] * 20):
        assert np.isnan(difference(profiled_column("x", pd.Series(values)), np.arange(20) % 2, np.ones(20)).p)
    assert np.isnan(difference(profiled_column("x", pd.Series([1.0, 2.0])), np.zeros(2, int), np.ones(2)).p)


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.001, 0.2, 0.02, 0.5]), [0.004, 0.4, 0.06, 0.5])
    rng = np.random.default_rng(0)
    p = rng.random(50) ** 3
    adjusted = holm(p)
    order = np.argsort(p)
    for rank, i in enumerate(order):  # the definition
        assert adjusted[i] == pytest.approx(min(1, max(p[j] * (50 - at) for at, j in enumerate(order[: rank + 1]))))
