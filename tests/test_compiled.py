"""The compiled encoding beside the ordinary one: the same bits, or the same error, for any rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from deepsep import Committee, for_table, method
from deepsep.errors import DataError
from deepsep.networks import NetworkAverage, NumpyNetwork, OneHotAverage
from deepsep.scoring import score_file, score_frame
from deepsep.scoring.who_scores import with_student
from deepsep.table.arrow_frames import to_frame
from deepsep.table.compiled import CompiledEncoding
from deepsep.table.normal_scores import InterpolatedScores, NormalScores

SEVERAL = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "plan": np.where(rng.random(n) < 0.1, None, rng.choice(["free", "pro", "NA", " team ", "x"], n)),
            "age": rng.normal(40, 12, n).round(1),
            "visits": pd.array(np.where(rng.random(n) < 0.2, None, rng.poisson(3, n)), dtype="Int64"),
            "huge": rng.normal(0, 1, n) * 1e30,
            "land": rng.choice([f"land {i}" for i in range(60)], n),
            "member": rng.random(n) < 0.3,
            "since": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "note": [" ".join(rng.choice(["tea", "sun", "sea", "air", "ice"], 6)) + f" {i}" for i in range(n)],
            "rare": np.where(rng.random(n) < 0.97, 0.0, rng.normal(size=n)),
        }
    )


@pytest.fixture(scope="module", params=["scores", "codes"])
def model(request):
    """A pipeline for a linear model, and one for trees, whose numbers stay as they are."""
    frame = people()
    y = np.where(frame["age"] > 40, "old", "young")
    linear = request.param == "scores"
    return for_table(method("logistic-regression") if linear else RandomForestClassifier(5)).fit(frame, y)


def same_bits(one, other):
    assert one.dtype == other.dtype == np.float32
    assert one.shape == other.shape
    # A gap has one of several bits patterns; scikit-learn makes no difference between them.
    gap = np.isnan(one)
    np.testing.assert_array_equal(gap, np.isnan(other))
    np.testing.assert_array_equal(one[~gap].view(np.int32), other[~gap].view(np.int32))


def check(model, table):
    compiled = CompiledEncoding.of(model)
    rows = compiled.read(table)
    whole = np.asarray(model[:-1].transform(to_frame(table)))
    same_bits(compiled.matrix(rows), whole)
    middle = len(whole) // 2
    same_bits(compiled.matrix(rows, middle, middle + 4), whole[middle : middle + 4])
    if compiled.groups:
        plain, levels = compiled.split(rows, 0, len(table))
        built = np.zeros_like(whole)
        built[:, compiled.plain] = plain
        at = np.concatenate(compiled.groups)
        for j in range(levels.shape[1]):
            known = levels[:, j] < len(at)
            built[np.flatnonzero(known), at[levels[known, j]]] = 1
        same_bits(built, whole)


words = st.one_of(st.none(), st.sampled_from(["free", "pro", "NA", " team ", "team", "new", "", "land 3"]), st.text())
floats = st.one_of(st.none(), st.floats(width=64), st.sampled_from([40.0, -0.0, 1e300, -1e300, 5e-324]))
integers = st.one_of(st.none(), st.integers(-(2**62), 2**62))


@SEVERAL
@given(data=st.data())
def test_any_rows_get_the_same_bits(model, data):
    n = data.draw(st.integers(1, 12))

    def column(cells, kinds):
        values = data.draw(st.lists(cells, min_size=n, max_size=n))
        return pa.array(values, data.draw(st.sampled_from(kinds)))

    text = [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.string()),
    ]
    small = st.one_of(st.none(), st.integers(-100, 100))
    columns = {
        "plan": column(words, text),
        "land": column(words, text),
        "age": column(floats, [pa.float64()]),
        "visits": column(integers, [pa.int64()]) if data.draw(st.booleans()) else column(small, [pa.int8()]),
        "huge": column(floats, [pa.float64()]),
        "rare": column(st.one_of(st.none(), st.floats(width=32)), [pa.float32(), pa.float64()]),
        "member": column(st.one_of(st.none(), st.booleans()), [pa.bool_()]),
        "since": pa.array(people(n)["since"]),
        "note": column(words, [pa.string()]),
    }
    check(model, pa.table(columns))


def test_rows_in_several_chunks_and_with_pandas_types(model):
    frame = people(300, seed=1)
    frame["plan"] = frame["plan"].astype("category")
    parts = [pa.Table.from_pandas(frame[start : start + 70]) for start in range(0, 300, 70)]
    check(model, pa.concat_tables(parts))
    check(model, pa.Table.from_pandas(frame.set_index("land")))
    check(
        model,
        pa.Table.from_pandas(frame.assign(age=frame["age"].astype("Float64"), member=frame["member"].astype(str))),
    )
    check(
        model,
        pa.Table.from_pandas(frame.assign(visits=frame["visits"].astype(str), huge=frame["huge"].astype("float32"))),
    )


def test_columns_of_another_type_raise_the_same_error(model):
    frame = people(50).assign(age="old", since=3.5)
    with pytest.raises(DataError) as ordinary:
        model[0].transform(frame)
    with pytest.raises(DataError) as compiled:
        CompiledEncoding.of(model).read(pa.Table.from_pandas(frame))
    assert str(compiled.value) == str(ordinary.value)
    with pytest.raises(DataError, match="missing: 'age'"):
        CompiledEncoding.of(model).read(pa.Table.from_pandas(frame.drop(columns="age")))


@pytest.mark.parametrize("values", ["normal", "few", "one", "large", "double"])
def test_scores_are_those_of_interpolation(values):
    rng = np.random.default_rng(0)
    x = {
        "normal": rng.normal(size=(5_000, 1)),
        "few": rng.integers(0, 3, (50, 1)),
        "one": np.full((5, 1), 7),
        "large": np.exp(10 * rng.normal(size=(900, 1))),
        "double": rng.normal(size=(400, 1)),
    }[values]
    scores = NormalScores().fit(x.astype(np.float64 if values == "double" else np.float32))
    cells = np.concatenate([x, -x, [[np.nan], [0.0], [-0.0], [1e38], [-1e38]]]).astype(np.float32)
    compiled = InterpolatedScores(scores)
    same_bits(compiled(np.ascontiguousarray(cells.T)).T, scores.transform(cells))
    assert compiled.fast is (values != "double")  # double precision takes the ordinary way


@SEVERAL
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    spread=st.floats(0.01, 30),
)
def test_categories_in_parts_give_the_same_probabilities(seed, sizes, spread):
    rng = np.random.default_rng(seed)
    n, k = 40, int(rng.integers(0, 6))
    levels = np.column_stack(
        [start + rng.integers(0, size, n) for start, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True)]
    )
    levels[rng.random(levels.shape) < 0.1] = sum(sizes)
    places = rng.permutation(k + sum(sizes))
    plain, categories = np.sort(places[:k]), places[k:]
    groups = np.split(categories, np.cumsum(sizes)[:-1])
    X = np.zeros((n, k + sum(sizes)), np.float32)
    X[:, plain] = rng.normal(size=(n, k)) * spread
    for column in levels.T:
        known = np.flatnonzero(column < sum(sizes))
        X[known, categories[column[known]]] = 1
    networks = [NumpyNetwork(X.shape[1], 3, hidden=(16, 8), rng=rng).state() for _ in range(2)]
    scale = np.exp(rng.normal(size=X.shape[1]))
    average = NetworkAverage(networks, np.array([0.25, 0.75]), rng.random(X.shape[1]), scale)
    p = OneHotAverage(average, plain, groups).predict_proba(X[:, plain], levels)
    if p is not None:
        np.testing.assert_array_equal(p, average.predict_proba(X))


def test_a_bound_on_the_sums_is_kept():
    """With features of which none dominates there is an answer: the test above would pass without any."""
    rng = np.random.default_rng(0)
    groups = [np.arange(5 * i, 5 * i + 5) for i in range(6)]
    average = NetworkAverage([NumpyNetwork(30, 2, rng=rng).state()], np.ones(1), np.full(30, 0.2), np.full(30, 0.4))
    levels = np.column_stack([5 * i + rng.integers(0, 5, 20) for i in range(6)])
    split = OneHotAverage(average, np.empty(0, int), groups)
    assert split.predict_proba(np.empty((20, 0)), levels) is not None


def test_a_student_scores_files_and_frames_alike(tmp_path):
    frame = people()
    y = np.where(np.arange(400) < 150, np.where(frame["age"] > 40, "old", "young"), None)
    committee = Committee(members=["logistic-regression", "tsvm"], effort="fast", n_jobs=1, random_state=0)
    model = for_table(committee).fit(frame, y)
    new = people(2_500, seed=3)
    new.loc[5, "plan"] = "never seen"
    new.to_parquet(tmp_path / "new.parquet", row_group_size=700)
    done = score_file(model, tmp_path / "new.parquet", tmp_path / "out.parquet", fast=True, batch_rows=900)
    assert done["scored_by"] == "student"
    scored = score_frame(with_student(model), new)
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "out.parquet"), scored, check_exact=True, check_dtype=False
    )
