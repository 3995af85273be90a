"""Drift: what a profile holds, how rows are counted, and the tests that judge a difference, beside those of SciPy."""

import json
import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from deepsep import TSVM, for_table, load, method, save
from deepsep.drift.counts import Counts, one_in
from deepsep.drift.differences import find_drift, notice
from deepsep.drift.profile import bin_of, count_bins, dump_profile, profile_column, profile_table, read_profile
from deepsep.drift.two_samples import bins_differ, chance_of_extremes, shares_differ
from deepsep.errors import DataError, DriftWarning, ModelFileError, ParameterError
from deepsep.scoring import compare_with_training, remember_training, score_file

WORDS = ["tea", "sun", "music", "walks", "green", "books", "piano", "village", "quick"]
KINDS = {"age": "number", "income": "number", "plan": "text", "joined": "date", "note": "text"}


def people(n=2_000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.05, np.nan, rng.integers(18, 90, n)),
            "income": rng.lognormal(10, 0.5, n),
            "plan": pd.Series(rng.choice(["free", "pro", "team"], n, p=[0.6, 0.3, 0.1]), dtype="str"),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "note": pd.Series([" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(n)]),
        }
    ).astype({"note": "str"})


def proba_of(frame):
    p = 1 / (1 + np.exp(-(frame["income"].to_numpy() - 22_000) / 8_000))
    return np.column_stack([1 - p, p])


def profiled(frame, **settings):
    return profile_table(frame, proba_of(frame), **settings)


def counted(profile, frame, batch=None):
    counts = Counts(profile)
    batch = batch or max(len(frame), 1)
    for start in range(0, len(frame), batch):
        rows = frame[start : start + batch]
        counts.add_columns(rows)
        counts.add_answers(proba_of(rows).argmax(axis=1), proba_of(rows).max(axis=1))
    return counts


def compared(profile, frame):
    return find_drift(profile, counted(profile, frame), ["low", "high"])


# -- profiles --------------------------------------------------------------------------------------------------


def test_the_bins_of_a_profile_hold_the_training_rows():
    frame = people()
    profile = profiled(frame)
    assert profile.rows == profile.effective == 2_000
    counts = counted(profile, frame)
    for name, column in profile.columns.items():
        found = counts.columns[name]
        assert found.gaps / 2_000 == pytest.approx(column.gaps)
        inside = found.counts[1:-1] if column.edges else found.counts[:-1]
        assert inside.sum() == found.given  # nothing is outside the range, nor at another level
        np.testing.assert_allclose(inside / found.given, column.shares, rtol=1e-4)
        assert column.distinct == frame[name].nunique()
    assert [column.kind for column in profile.columns.values()] == ["number", "number", "category", "date", "text"]
    assert not compared(profile, frame)["drifted"]


def test_a_weight_counts_as_copies():
    frame = people(300)
    weight = np.random.default_rng(1).integers(0, 4, 300)
    copies = frame.iloc[np.repeat(np.arange(300), weight)]
    for name in ("plan", "age"):
        one = profile_column(frame[name], weight.astype(float))
        other = profile_column(copies[name], np.ones(len(copies)))
        assert one.gaps == pytest.approx(other.gaps)
        assert one.distinct == other.distinct
        below = [
            np.interp(50, [column.edges[0], *column.edges[1:]], [0, *np.cumsum(column.shares)])
            for column in (one, other)
            if column.edges
        ]
        assert len(below) == 0 or below[0] == pytest.approx(below[1], abs=0.02)
        if one.levels:
            np.testing.assert_allclose(
                dict(zip(one.levels, one.shares, strict=True))["free"],
                dict(zip(other.levels, other.shares, strict=True))["free"],
                rtol=1e-5,
            )


def test_no_rare_level_and_no_value_of_few_rows_is_written():
    frame = people()
    frame.loc[frame.index[:9], "plan"] = "secret of nine"
    frame.loc[frame.index[9:19], "plan"] = "known to ten"
    profile = profiled(frame)
    written = dump_profile(profile)
    assert b"secret of nine" not in written
    assert b"known to ten" in written
    assert len(profile.columns["plan"].marks) == 1
    assert not compared(profile, frame)["drifted"]
    assert not set(profile.columns["income"].edges) & set(frame["income"])
    assert all(share * 2_000 >= 9.5 for share in profile.columns["income"].shares)
    assert len(profile_column(people(55)["income"], np.ones(55)).shares) <= 5  # bins hold ten rows in small tables too


def test_a_profile_stays_small():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(500, 1_200)), columns=[f"a column with a name, {i}" for i in range(1_200)])
    profile = profile_table(frame, np.tile([0.5, 0.5], (500, 1)))
    assert len(profile.columns) == 1_000
    assert len(dump_profile(profile)) < 1_000_000
    levels = pd.Series(rng.choice([f"level {i}" for i in range(90)], 50_000), dtype="str")
    assert len(profile_column(levels, np.ones(50_000)).levels) <= 40


@pytest.mark.parametrize("values", [[1e300, -1e300, 5.0] * 20, [0.0] * 50 + [np.nan], [1e-310, 2e-310] * 30, [7.5] * 3])
def test_numbers_of_any_size_fall_into_their_bins(values):
    column = pd.Series(values)
    profile = profile_table(pd.DataFrame({"x": column}), np.ones((len(column), 1)))
    counts = Counts(profile)
    counts.add_columns(pd.DataFrame({"x": column}))
    found = counts.columns["x"]
    assert found.counts[0] == found.counts[-1] == 0
    assert found.given == column.notna().sum()
    assert read_profile(dump_profile(profile), {"x": "number"}, 1) == profile


def test_a_profile_comes_back_from_its_file():
    profile = profiled(people(), unlabeled=np.arange(2_000) > 30, data="abc")
    assert read_profile(dump_profile(profile), KINDS, 2) == profile


def _put(*path, value):
    def change(content):
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return change


HOSTILE = {
    "nan": _put("columns", "age", "gaps", value=float("nan")),
    "a share above one": _put("columns", "plan", "shares", 0, value=7.0),
    "text for a number": _put("columns", "age", "edges", 0, value="0"),
    "bins out of order": _put("columns", "age", "edges", 3, value=1e9),
    "more bins than shares": _put("columns", "age", "shares", value=[1.0]),
    "endless bins": _put("columns", "age", "edges", value=list(range(100_000))),
    "a level that is no text": _put("columns", "plan", "levels", 0, value=1),
    "a level twice": _put("columns", "plan", "levels", value=["pro", "pro", "free"]),
    "another kind": _put("columns", "age", "kind", value="category"),
    "a kind that is none": _put("columns", "plan", "kind", value="os.system"),
    "a date beyond time": _put("columns", "joined", "edges", -1, value=1e300),
    "a mark that is none": _put("columns", "plan", "marks", value=[-1]),
    "a new share that is none": _put("columns", "plan", "new", value=2.0),
    "an unknown column": _put("columns", "extra", value={}),
    "an unknown key": _put("command", value="rm"),
    "other classes": _put("answers", "shares", value=[1.0]),
    "shares that are no list": _put("answers", "shares", value=None),
    "no rows": _put("effective", value=0),
    "more rows than there are": _put("effective", value=1e12),
    "true for a number": _put("rows", value=True),
    "huge number": _put("rows", value=-1),
    "a list": lambda content: content.update(columns=[]),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_an_edited_profile_is_refused(change):
    content = json.loads(dump_profile(profiled(people(), unlabeled=np.ones(2_000, bool))))
    change(content)
    with pytest.raises(ModelFileError, match="profile of the training table"):
        read_profile(json.dumps(content).encode(), KINDS, 2)


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff"])
def test_a_file_that_is_no_profile_is_refused(data):
    with pytest.raises(ModelFileError, match="profile of the training table"):
        read_profile(data, KINDS, 2)


# -- counts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7, 400])
def test_counts_do_not_depend_on_batches_or_parts(batch):
    profile = profiled(people(), unlabeled=np.ones(2_000, bool))
    frame = people(400, seed=1).assign(plan=lambda table: table["plan"].replace("team", "new"))
    whole, pieces = counted(profile, frame), counted(profile, frame[:150], batch)
    pieces += pickle.loads(pickle.dumps(counted(profile, frame[150:], batch)))  # as from another machine
    assert whole.rows == pieces.rows == 400
    np.testing.assert_array_equal(whole.classes, pieces.classes)
    np.testing.assert_array_equal(whole.confidence.counts, pieces.confidence.counts)
    assert whole.total_confidence == pytest.approx(pieces.total_confidence)
    for name, column in whole.columns.items():
        np.testing.assert_array_equal(column.counts, pieces.columns[name].counts)
        other = pieces.columns[name]
        assert (column.gaps, column.new, column.others) == (other.gaps, other.new, other.others)


def test_of_many_rows_some_are_counted_whatever_the_batches():
    profile, frame = profiled(people()), people(4_000, seed=1)
    whole, pieces = Counts(profile, every=8), Counts(profile, every=8)
    whole.add_columns(frame)
    for start in range(0, 4_000, 300):
        pieces.add_columns(frame[start : start + 300], start)
    assert whole.rows == pieces.rows == 4_000
    assert whole.counted == pieces.counted == pytest.approx(500, abs=5)
    np.testing.assert_array_equal(whole.columns["age"].counts, pieces.columns["age"].counts)
    assert [one_in(rows) for rows in (None, 0, 9_999, 10_000, 5_000_000)] == [1, 1, 1, 2, 1_000]


# -- tests of two samples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "m", "there", "here"),
    [(300, 100, 0, 5), (300, 5_000, 0, 50), (1_000, 1_000, 20, 45), (1_000, 1_000, 300, 360), (50, 50, 49, 40),
     (300, 3_000, 3, 60), (5_000, 100, 250, 12), (4_000, 100, 2_000, 65), (500, 500, 499, 480), (90, 10, 0, 0)],
)  # fmt: skip
def test_shares_are_judged_like_fishers_exact_test(n, m, there, here):
    exact = stats.fisher_exact([[there, n - there], [here, m - here]]).pvalue
    p = float(shares_differ(there / n, n, here / m, m))
    assert 0.5 * exact <= p <= min(1, 3 * exact)
    assert p == pytest.approx(float(shares_differ(1 - there / n, n, 1 - here / m, m)))


def test_bins_are_judged_like_ranks_with_ties():
    rng = np.random.default_rng(0)
    there, here = rng.integers(0, 12, 400), np.minimum(rng.integers(0, 13, 150), 11)
    was, now = np.bincount(there, minlength=12) / 400, np.bincount(here, minlength=12) / 150
    distance, p, at = bins_differ(was, 400, now, 150)
    assert distance == pytest.approx(stats.ks_2samp(there, here, method="asymp").statistic)
    assert distance == pytest.approx(abs((there <= at).mean() - (here <= at).mean()))
    wilcoxon = stats.mannwhitneyu(there, here, use_continuity=False, method="asymptotic").pvalue
    smirnov = stats.kstwobign.sf(distance * np.sqrt(400 * 150 / 550))
    assert p == pytest.approx(min(1, 2 * min(wilcoxon, smirnov)), rel=1e-6)


def test_the_chance_of_extremes_is_that_of_the_topmost_rows():
    n, m = 4, 3
    orders = [set(ranks) for ranks in combinations(range(n + m), m)]  # of the m rows
    for outside in range(m + 1):
        beyond = [len([rank for rank in ours if rank > max(set(range(n + m)) - ours)]) >= outside for ours in orders]
        assert chance_of_extremes(outside, m, n) == pytest.approx(np.mean(beyond))


# -- what is found ---------------------------------------------------------------------------------------------

CHANGES = {
    "x 1,000": ("income", "above", lambda t: t.assign(income=t["income"] * 1_000), "1,000 times as large"),
    "/ 1,000": ("income", "below", lambda t: t.assign(income=t["income"] / 1_000), "1,000 times smaller"),
    "shifted": ("age", "values", lambda t: t.assign(age=t["age"] * 0.8 + 17), "of the values are"),
    "gaps": ("age", "gaps", lambda t: t.assign(age=t["age"].mask(t.index % 10 < 3)), "have no value"),
    "new level": ("plan", "new", lambda t: t.assign(plan=t["plan"].mask(t.index % 20 == 0, "gold")), "'gold'"),
    "level": ("plan", "levels", lambda t: t.assign(plan=t["plan"].mask(t.index % 3 == 0, "team")), "'team'"),
    "later": ("joined", "above", lambda t: t.assign(joined=t["joined"] + pd.Timedelta(days=400)), "after the last"),
    "letters": ("note", "values", lambda t: t.assign(note=t["note"] + " and more"), "letters"),
}


@pytest.mark.parametrize(("column", "what", "change", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_found_in_its_column(column, what, change, words):
    profile, new = profiled(people()), people(1_000, seed=1)
    found = compared(profile, change(new))
    assert what in found["columns"][column]["drifted"]
    assert [name for name, outline in found["columns"].items() if outline["drifted"]] == [column]
    assert any(line.startswith(f"{column}: ") and words in line for line in found["notices"])
    json.dumps(found, allow_nan=False)


def test_the_notice_says_how_much_has_changed():
    profile, new = profiled(people(), unlabeled=np.ones(2_000, bool)), people(1_000, seed=1)
    n = len(new.columns)
    few = new.assign(age=new["age"].mask(new.index % 10 < 3))
    some = few.assign(income=new["income"] * 1_000)
    most = some.assign(plan="gold", note="x", joined=new["joined"] + pd.Timedelta(days=4_000))
    heads = [notice(compared(profile, each)).splitlines()[0] for each in (few, some, most)]
    assert heads[0] == (
        f"1 of {n} columns differ from the training table, and the predictions do not: most labels should hold, but "
        "look at these columns:"
    )
    assert heads[1] == (
        f"2 of {n} columns differ from the training table, and so do the predictions, so labels may be wrong:"
    )
    assert heads[2].startswith(f"{n} of {n} columns differ from the training table, so most labels may be wrong.")


def test_a_change_that_chance_explains_or_that_is_small_is_not_reported():
    profile, new = profiled(people(20_000)), people(20_000, seed=1)
    assert not compared(profile, new.assign(income=new["income"] * 1.02))["drifted"]  # certain, but small
    few = people(12, seed=2)
    assert not compared(profile, few.assign(income=few["income"] * 1.3))["drifted"]  # large enough, but twelve rows


def test_answers_are_compared_too():
    profile = profiled(people(), unlabeled=np.ones(2_000, bool))
    found = compared(profile, people(1_000, seed=1).sort_values("income")[-400:])
    assert found["answers"]["drifted"] == ["classes", "confidence"]
    assert found["answers"]["shares"]["high"]["here"] == 1
    assert any("predicted as 'high'" in line for line in found["notices"])
    assert found["answers"]["confidence"]["training"] == pytest.approx(proba_of(people()).max(axis=1).mean(), abs=1e-4)
    known_labels = profiled(people(), unlabeled=np.zeros(2_000, bool))
    assert known_labels.answers.confidence is None


def test_another_model_that_scores_is_given_room():
    profile = profiled(people(), unlabeled=np.ones(2_000, bool))
    counts = counted(profile, people(1_000, seed=1).sort_values("income")[-700:])
    strict, lenient = (find_drift(profile, counts, ["low", "high"], agreement=share) for share in (None, 0.8))
    assert "classes" in strict["answers"]["drifted"]
    assert "confidence" in strict["answers"]
    assert lenient["answers"] == {"shares": strict["answers"]["shares"], "drifted": []}


def test_answers_of_a_graph_are_not_compared_with_those_about_new_rows():
    frame = people(200)[["age", "income"]]
    y = np.where(np.arange(200) < 40, np.where(frame["income"] > 22_000, "high", "low"), None)
    model = for_table(method("label-spreading")).fit(frame, y)
    remember_training(model, frame, y)
    found = compare_with_training(model, frame.assign(income=1e6))
    assert found["answers"] == {"drifted": []}
    assert found["columns"]["income"]["drifted"]


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows_are_no_alarm(rows):
    found = compared(profiled(people()), people(10, seed=1)[:rows])
    assert found["rows"] == rows
    assert not found["drifted"]


# -- models ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    frame = people(600)
    y = np.where(np.arange(600) < 40, np.where(frame["income"] > 22_000, "high", "low"), None)
    model = for_table(TSVM(random_state=0)).fit(frame, y)
    remember_training(model, frame, y)
    return model, frame, y


def test_a_file_and_a_frame_are_compared_alike(fitted, tmp_path):
    model, _, _ = fitted
    new = people(700, seed=3)
    new["income"] *= 1_000
    expected = compare_with_training(model, new)
    save(model, tmp_path / "model")
    (tmp_path / "parts").mkdir()
    for i in range(3):
        new[250 * i : 250 * (i + 1)].to_parquet(tmp_path / "parts" / f"{i}.parquet")
    new.to_csv(tmp_path / "t.csv", index=False)
    for source, target, beside in (("t.csv", "a.csv", "a.drift.json"), ("parts", "b", "b.drift.json")):
        with pytest.warns(DriftWarning, match="income: 100 % of the values are above"):
            done = score_file(tmp_path / "model", tmp_path / source, tmp_path / target, batch_rows=90)
        assert done["drift"] == expected
        written = json.loads((tmp_path / beside).read_text(encoding="utf-8"))
        assert written["drift"] == expected
        assert written["model"]["name"] == "model"
        assert written["model"]["training_data"] == model[-1].data_fingerprint_
        assert done["drift_file"] == str(tmp_path / beside)


def test_a_model_without_a_profile_says_nothing(fitted, tmp_path):
    _model, frame, y = fitted
    plain = for_table(TSVM(random_state=0)).fit(frame, y)
    save(plain, tmp_path / "model")
    assert not (tmp_path / "model" / "profile.json").exists()
    frame.assign(income=frame["income"] * 1_000).to_parquet(tmp_path / "t.parquet")
    done = score_file(load(tmp_path / "model"), tmp_path / "t.parquet", tmp_path / "out.parquet")
    assert done["drift"] is None
    with pytest.raises(DataError, match="no profile"):
        compare_with_training(plain, frame)
    with pytest.raises(ParameterError, match="for_table"):
        remember_training(plain[-1], frame, y)


def test_a_model_that_is_fitted_again_forgets_the_earlier_table(fitted, tmp_path):
    model, frame, y = fitted
    save(model, tmp_path / "one")
    again = load(tmp_path / "one")
    assert again.training_profile_ == model.training_profile_
    again.fit(frame[:500], y[:500])
    save(again, tmp_path / "one")
    assert not (tmp_path / "one" / "profile.json").exists()
    frame.to_parquet(tmp_path / "t.parquet")
    done = score_file(again, tmp_path / "t.parquet", tmp_path / "out.parquet")
    assert done["drift"] is None
    assert done["model"]["name"] is None


def test_a_file_that_deepsep_did_not_write_is_not_replaced(fitted, tmp_path):
    model, frame, _ = fitted
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "out.drift.json").write_text("{}")
    with pytest.raises(DataError, match=r"out\.drift\.json would be replaced"):
        score_file(model, tmp_path / "t.parquet", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("seed", range(5))
def test_counting_by_sorting_is_counting_bins(seed):
    rng = np.random.default_rng(seed)
    edges = np.unique(rng.integers(-5, 6, 8)).astype(float)
    edges = np.append(edges[0], edges) if seed % 2 else edges  # the lowest value may be the first upper edge
    numbers = rng.integers(-8, 9, 300) / rng.choice([1, 2])
    counts = np.bincount(bin_of(edges, numbers), minlength=len(edges) + 1)
    np.testing.assert_array_equal(count_bins(edges, numbers), counts)


def test_counts_survive_as_plain_values():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "c": rng.choice(["a", "b", None], 400)})
    profile = profile_table(frame, None)
    counts = Counts(profile)
    counts.add_columns(frame.assign(x=frame["x"] * 100, c=frame["c"].mask(frame.index < 9, "new")))
    again = Counts(profile).from_plain(json.loads(json.dumps(counts.to_plain())))
    assert find_drift(profile, again, []) == find_drift(profile, counts, [])


def test_columns_in_other_forms_are_counted_alike():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=300), "c": rng.choice(["a", "b", None], 300)})
    profile = profile_table(frame, None)
    one, other = Counts(profile, every=3), Counts(profile, every=3)
    one.add_columns(frame, 5)
    codes, levels = pd.factorize(frame["c"])
    levels = ([*levels, None, "nowhere"], np.where(codes < 0, len(levels), codes))
    other.add_columns({"x": frame["x"].to_numpy(), "c": levels}, 5, 300)
    assert find_drift(profile, one, []) == find_drift(profile, other, [])
