"""Fits to more rows than memory holds: which rows are chosen, rows in a file, and what comes out of both."""

import errno
import json
import mmap
import sqlite3
import tempfile
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import run

import deepsep
from deepsep import TSVM, Committee, DeepSep
from deepsep.classifiers import committee_fits, low_density, student, training_run
from deepsep.classifiers.student import SMOOTHING, Student
from deepsep.core import mapped_rows
from deepsep.core.mapped_rows import MappedRows
from deepsep.core.probability import smooth_labels
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import DataError, ParameterError
from deepsep.networks import NumpyNetwork, interface
from deepsep.scoring import score_frame
from deepsep.table import Query, read_table, sampling
from deepsep.table.encoder import TableEncoder
from deepsep.table.sampling import NUMBER, choose_rows, open_tables, other_rows, read_rows

N = 400
USED = ("--method", "tsvm", "--no-report", "--json")


@pytest.fixture
def table() -> pd.DataFrame:
    """People of three kinds, one in twenty with a label."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=N)
    frame = pd.DataFrame({"user": np.arange(1000, 1000 + N), "age": rng.normal(kind * 4.0), "size": rng.normal(kind)})
    frame["plan"] = np.array(["free", "plus", "pro"], dtype=object)[(kind + rng.integers(2, size=N)) % 3]
    labelled = np.arange(N) % 20 == 3
    frame["weight"] = 1.0 + np.arange(N) % 2
    frame["kind"] = np.where(labelled, np.array(["a", "b", "c"], dtype=object)[kind], None)
    return frame


@pytest.fixture(params=["parquet", "parts", "csv", "feather", "sqlite"])
def source(request: pytest.FixtureRequest, table: pd.DataFrame, tmp_path: Path) -> Path | Query:
    """The same table in files of several kinds, and in a database."""
    if request.param == "parts":
        for i in range(4):
            (tmp_path / "parts").mkdir(exist_ok=True)
            table[100 * i : 100 * (i + 1)].to_parquet(tmp_path / "parts" / f"{i}.parquet", index=False)
        return tmp_path / "parts"
    if request.param == "sqlite":
        pytest.importorskip("adbc_driver_sqlite")
        with sqlite3.connect(tmp_path / "people.db") as connection:
            table.to_sql("people", connection, index=False)
        connection.close()
        return Query(str(tmp_path / "people.db"), "select * from people")
    place = tmp_path / f"people.{request.param}"
    write = {"parquet": table.to_parquet, "csv": table.to_csv, "feather": table.to_feather}[request.param]
    write(place, **({} if request.param == "feather" else {"index": False}))
    return place


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a table of hundreds of rows a large one: 60 unlabelled rows are enough, and 90 fit into memory."""
    for place in (sampling, __import__("deepsep.cli.training", fromlist=["_"])):
        monkeypatch.setattr(place, "ENOUGH", 60)
        monkeypatch.setattr(place, "IN_MEMORY", 90)


# -- which rows are chosen ---------------------------------------------------------------------------------------


def chosen_of(source: Path | Query, **settings: object):
    with open_tables(source, "user") as tables:
        return choose_rows(tables, **({"label": "kind", "n": 60, "in_memory": 90, "seed": 0} | settings))


def test_every_labelled_row_is_chosen_and_so_many_of_the_others(source: Path | Query, table: pd.DataFrame) -> None:
    labelled = np.flatnonzero(table["kind"].notna())
    for n, in_memory, more in ((60, 90, 0), (200, 90, 110), (None, 90, N - len(labelled) - 90)):
        chosen = chosen_of(source, n=n, in_memory=in_memory)
        assert chosen.labelled.tolist() == labelled.tolist()
        assert set(labelled) <= set(chosen.read)
        assert len(chosen.more) == more
        assert len(chosen.read) == len(labelled) + min(n or N, in_memory)
        assert not set(chosen.more) & set(chosen.read)
        assert chosen.n_used == min(n or N, chosen.n_unlabelled)


def test_which_rows_are_chosen_depends_on_the_seed_and_on_nothing_else(
    source: Path | Query, table: pd.DataFrame, tmp_path: Path
) -> None:
    table.to_parquet(tmp_path / "twin.parquet", index=False, row_group_size=7)
    same, other = chosen_of(tmp_path / "twin.parquet"), chosen_of(source, seed=1)
    assert chosen_of(source).read.tolist() == same.read.tolist()
    assert other.read.tolist() != same.read.tolist()


def test_a_table_with_few_unlabelled_rows_is_read_as_a_whole(source: Path | Query) -> None:
    assert chosen_of(source, n=None, in_memory=N) is None
    assert chosen_of(source, n=N, in_memory=N) is None


@pytest.mark.parametrize("labels", [[3, -1, 1, 2, -1], ["", "x", None, "-1", "NA"], [1.0, None, 2.0, None, 1.0]])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_has_a_label_where_a_fit_to_all_rows_says_so(labels: list[object], kind: str, tmp_path: Path) -> None:
    place = tmp_path / f"t.{kind}"
    frame = pd.DataFrame({"x": range(5), "y": labels})
    frame.to_csv(place, index=False) if kind == "csv" else frame.to_parquet(place, index=False)
    given = deepsep.core.labels.given_labels(read_table(place, label="y")["y"])[0]
    with open_tables(place) as tables:
        chosen = choose_rows(tables, label="y", n=1, in_memory=1, seed=0)
    assert (np.flatnonzero(given).tolist() if chosen is None else chosen.labelled.tolist()) == np.flatnonzero(
        given
    ).tolist()


def test_chosen_rows_are_read_as_those_of_the_whole_table(source: Path | Query) -> None:
    rows = np.array([0, 3, 99, 100, 101, 250, N - 1])
    whole = read_table(source, label="kind", id="user", types={"plan": "text"})
    some = read_rows(source, rows, label="kind", id="user", types={"plan": "text"})
    pd.testing.assert_frame_equal(some, whole.iloc[rows].reset_index(drop=True), check_categorical=False)


def test_other_rows_are_all_but_those_with_their_numbers(source: Path | Query, table: pd.DataFrame) -> None:
    without = np.array([0, 1, 99, 100, 399])
    with open_tables(source, "user") as tables:
        batches = [
            batch.to_pandas()
            for part in other_rows(tables, without)
            for batch, _ in part.tables(30, ["user", NUMBER], {"user": "number"}, "user")
        ]
    frame = pd.concat(batches)
    assert frame[NUMBER].tolist() == [i for i in range(N) if i not in without]
    assert (frame["user"] == frame[NUMBER] + 1000).all()


def test_a_large_query_needs_a_column_to_sort_by(tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("create table a (x int)")
    connection.close()
    with pytest.raises(DataError, match="id="), open_tables(Query(str(tmp_path / "a.db"), "select * from a")):
        pass


@pytest.mark.slow
def test_every_unlabelled_row_is_as_likely_as_any_other(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    times = np.zeros(N)
    for seed in range(2_000):
        chosen = chosen_of(tmp_path / "t.parquet", seed=seed)
        times[chosen.read] += 1
    others = times[table["kind"].isna()]
    p = 60 / len(others)
    assert abs((others - 2_000 * p) / np.sqrt(2_000 * p * (1 - p))).max() < 5


# -- rows in a file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "at",
    [slice(None), slice(3, 900), slice(None, None, 7), np.array([5, 1, 5]), np.arange(40, 90), np.arange(0), slice(0)],
)
def test_rows_in_a_file_are_read_like_an_array(at: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_rows, "HELD", 1_000)  # pages are given back all the time
    monkeypatch.setattr(mapped_rows, "SCATTERED", 20)
    X = np.random.default_rng(0).normal(size=(1_000, 5)).astype(np.float32)
    rows = MappedRows.write((X[i : i + 300] for i in range(0, 1_000, 300)), X.shape)
    order = np.random.default_rng(1).permutation(1_000)
    np.testing.assert_array_equal(rows[at], X[at])
    np.testing.assert_array_equal(rows.part(order)[at], X[order][at])
    assert rows.part(order).shape == X.shape
    centre = X.mean(axis=0)
    centred = rows.copy()
    centred -= centre
    np.testing.assert_array_equal(centred[at], X[at] - centre)
    np.testing.assert_array_equal(centred.with_ones()[at], np.column_stack([X - centre, np.ones(1_000)])[at])
    np.testing.assert_allclose(centred @ X[:2].T, (X - centre) @ X[:2].T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(rows[at], X[at])


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="pages cannot be given back on this system")
def test_pages_of_rows_that_are_read_alone_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system maps 64 KB around a row, so that 1,024 of them hold as much as 64 MB read in one piece."""
    X = np.zeros((5_000, 5), np.float32)
    rows = MappedRows.write([X], X.shape)
    calls = []
    rows._map = SimpleNamespace(_mmap=SimpleNamespace(madvise=calls.append))
    scattered = np.arange(0, 5_000, 2)
    assert rows[scattered].shape == (2_500, 5)
    assert len(calls) == 2  # 2,500 rows
    rows[scattered[:572]]
    assert len(calls) == 3  # 3,072
    rows[:]
    rows[np.arange(5_000)]
    assert len(calls) == 3  # 0.2 MB in one piece
    assert set(calls) == {mmap.MADV_DONTNEED}


def test_no_room_for_the_file_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object):
        raise OSError(errno.ENOSPC, "no space left")
        yield

    with pytest.raises(DataError, match=r"disk is full.*TMPDIR"):
        MappedRows.write(full(0), (10, 2))
    monkeypatch.setattr(mapped_rows.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(DataError, match=r"are needed for 1,000 rows.*0\.0 GB are free.*TMPDIR"):
        MappedRows.write([], (1_000, 2))


def test_the_file_must_have_all_rows() -> None:
    with pytest.raises(DataError, match="3 rows came in place of 4"):
        MappedRows.write([np.zeros((3, 2))], (4, 2))


@pytest.mark.parametrize("end", [KeyboardInterrupt, RuntimeError, None])
def test_nothing_is_left_of_the_file(end: type[BaseException] | None, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def blocks():
        yield np.zeros((3, 2))
        if end is not None:
            raise end

    if end is None:
        rows = MappedRows.write(blocks(), (3, 2))
        assert rows[:].shape == (3, 2)
        del rows
    else:
        with pytest.raises(end):
            MappedRows.write(blocks(), (3, 2))
    assert not list(tmp_path.iterdir())
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(tmp_path) not in maps.read_text()


# -- learning from them --------------------------------------------------------------------------------------------


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Rows of three classes, the first 30 with a label."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=1_500)
    X = (2.0 * np.eye(3, 6)[codes] + rng.normal(size=(1_500, 6))).astype(np.float32)
    return X, np.where(np.arange(1_500) < 30, codes, -1)


def in_memory_and_in_stream(make, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None):
    """Return a fit to all rows, and one with 300 rows in memory and the others in a file."""
    own = slice(300)
    whole, part = make(), make()
    part._more_rows = MappedRows.write([X], X.shape, weight)
    whole.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
    part.fit(X[own], y[own], **({} if weight is None else {"sample_weight": weight[own]}))
    return whole, part


@pytest.mark.parametrize("settings", [{}, {"balance": False}, {"algorithm": "cccp"}, {"n_unlabeled": 400}])
def test_a_tsvm_over_rows_in_a_file_is_the_same_to_the_bit(rows, settings: dict[str, object]) -> None:
    X, y = rows
    whole, part = in_memory_and_in_stream(lambda: TSVM(random_state=0, **settings), X, y)
    np.testing.assert_array_equal(part.coef_, whole.coef_)
    np.testing.assert_array_equal(part.intercept_, whole.intercept_)
    assert part.n_unlabeled_ == whole.n_unlabeled_
    assert len(part.transduction_) == 300


def test_weights_reach_rows_in_a_file(rows) -> None:
    X, y = rows
    weight = np.random.default_rng(3).integers(0, 3, size=len(X)) + 0.0
    weight[:30] = 1.0
    whole, part = in_memory_and_in_stream(lambda: TSVM(random_state=0), X, y, weight)
    np.testing.assert_array_equal(part.coef_, whole.coef_)


@pytest.mark.parametrize(("n_unlabeled", "most"), [(200, 300), (200, None), (None, None)])
def test_deepsep_over_rows_in_a_file_is_the_same_to_the_bit(rows, n_unlabeled, most, monkeypatch) -> None:
    for module in (low_density, training_run):  # embeddings of more than 250 rows go to a file
        monkeypatch.setattr(module, "GATHERED", 250)
    X, y = rows
    settings = {"rounds": 2, "initial_epochs": 5, "n_networks": 2, "propensity_rows": most, "random_state": 0}
    make = lambda: DeepSep(**settings, n_unlabeled=n_unlabeled)  # noqa: E731
    whole, part = in_memory_and_in_stream(make, X, y)
    np.testing.assert_array_equal(part.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(part.label_distributions_, whole.label_distributions_[:300])


def test_rows_in_a_file_are_met_at_least_once_if_all_are_asked_for_and_fewer_than_in_memory(rows, monkeypatch) -> None:
    monkeypatch.setattr("deepsep.classifiers.deepsep.VISITS", 1_500)
    X, y = rows
    settings = {"rounds": 1, "initial_epochs": 3, "propensity_rows": None, "random_state": 0}
    make = lambda epochs: DeepSep(**settings, propensity_epochs=epochs)  # noqa: E731
    part = make(10)
    part._more_rows = MappedRows.write([X], X.shape)
    part.fit(X[:300], y[:300])
    assert [row["epochs"] for row in part.history_ if row["phase"] == "propensities"] == [1]
    np.testing.assert_array_equal(part.predict_proba(X), make(1).fit(X, y).predict_proba(X))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_committee_tells_its_student_about_all_rows(rows, n_jobs: int) -> None:
    X, y = rows
    made = Committee(members=["tsvm", "logistic-regression"], effort="fast", n_jobs=n_jobs, random_state=0)
    made._more_rows = MappedRows.write([X], X.shape)
    made.fit(X[:300], y[:300])
    assert len(made.label_distributions_) == len(made.student_.transduction_) == 300
    every = TrainingRows(X, y, np.ones(len(X)), 3)
    told = np.concatenate([made.label_distributions_, made.predict_proba(X[300:])]).astype(np.float32)
    for table in (every, TrainingRows(MappedRows.write([X], X.shape), y, np.ones(len(X)), 3)):
        twin = Student.of(made, table, told, np.random.default_rng(5), n_described=300)
        assert twin.n_held_out_ == round(0.2 * (len(X) - 30))
        np.testing.assert_array_equal(twin.transduction_[:30], made.classes_[y[:30]])
        twins = twin.predict_proba(X) if table is every else twins  # noqa: F821
        np.testing.assert_array_equal(twin.predict_proba(X), twins)
    assert made.student_agreement_ > 0.8
    deepsep.save(made, Path(tempfile.mkdtemp()) / "model")


class Listens:
    """A network that keeps what it is told, and learns nothing."""

    def __init__(self, d: int, c: int, **settings: object) -> None:
        self.phases: list[dict[str, object]] = []
        Listens.last = self
        self.state = NumpyNetwork(d, c, hidden=(128, 32), rng=np.random.default_rng(0)).state

    def train(self, X, targets, **settings: object) -> None:
        self.phases.append({"X": X[np.arange(len(X))], "targets": targets, **settings})


@pytest.mark.parametrize("n_described", [None, 300])
def test_a_student_is_told_about_many_rows_in_parts(rows, n_described: int | None, monkeypatch) -> None:
    monkeypatch.setattr(student, "MOST_ROWS", 350)  # 1,470 unlabelled rows, 294 of them held out
    X, y = rows
    rng = np.random.default_rng(4)
    p, weight = rng.dirichlet(np.ones(3), len(X)).astype(np.float32), rng.uniform(0.5, 2, len(X))
    teacher = TSVM()
    teacher.classes_, teacher.n_features_in_ = np.arange(3), 6
    taught = TrainingRows(MappedRows.write([X], X.shape), y, weight, 3)
    Student.of(teacher, taught, p, np.random.default_rng(5), n_described, make_network=Listens)

    pool = np.random.default_rng(5).permutation(np.arange(30, len(X)))[294:]
    pool = pool[:350] if n_described is None else np.sort(pool)
    mean = np.average(p[pool].astype(float), axis=0, weights=weight[pool])
    given = np.array([weight[:30][y[:30] == k].sum() for k in range(3)])
    mass = np.concatenate([weight[:30] * (mean / given * given.sum())[y[:30]], weight[pool]])
    told = np.concatenate([smooth_labels(y[:30], 3, SMOOTHING), p[pool]])
    centre = np.average(X.astype(float), axis=0, weights=weight)
    scale = np.sqrt(np.average(np.square(X - centre), axis=0, weights=weight))
    scaled = (X[np.concatenate([np.arange(30), pool])] - centre) / scale
    first, second = Listens.last.phases
    for phase, start in ((first, 30), (second, 0)):
        np.testing.assert_allclose(phase["X"], scaled[start:], atol=1e-5)
        np.testing.assert_allclose(phase["targets"], told[start:], rtol=1e-6)
        np.testing.assert_allclose(phase["weight"], mass[start:] / mass[start:].max(), rtol=1e-6)
    assert first["epochs"] >= second["epochs"] >= 1


def test_very_many_rows_come_in_blocks_that_are_shuffled_in_windows(monkeypatch) -> None:
    whole = interface.shuffled(np.random.default_rng(0), 1_000)
    np.testing.assert_array_equal(whole, np.random.default_rng(0).permutation(1_000))
    for name, value in (("SHUFFLED_WHOLE", 100), ("BLOCK", 10), ("WINDOW", 80)):
        monkeypatch.setattr(interface, name, value)
    order = interface.shuffled(np.random.default_rng(0), 1_003)
    assert sorted(order) == list(range(1_003))
    assert order.tolist() != sorted(order)
    blocks = [set((order[start : start + 80] // 10).tolist()) for start in range(0, 1_003, 80)]
    assert all(len(each) <= 10 for each in blocks)


def test_other_methods_say_that_they_need_rows_in_memory(rows) -> None:
    X, y = rows
    model = deepsep.method("label-spreading")
    model._more_rows = MappedRows.write([X], X.shape)
    with pytest.raises(ParameterError, match="in memory only"):
        model.fit(X[:300], y[:300])
    for model in (TSVM(kernel="rbf"), DeepSep(pretrain="autoencoder")):
        with pytest.raises(ParameterError, match="fewer unlabelled rows"):
            model.check_stream()


# -- on the command line -------------------------------------------------------------------------------------------


def fit(source: Path | Query, *options: object):
    where = ("--from", source.database, "--query", source.sql) if isinstance(source, Query) else (source,)
    return run("fit", *where, *options)


@pytest.mark.parametrize("unlabelled", [(), ("--unlabelled", "75"), ("--unlabelled", "all"), ("--unlabelled", "200")])
def test_a_large_table_is_fitted_from_a_part_and_predicted_as_a_whole(
    source: Path | Query, unlabelled: tuple[str, ...], table: pd.DataFrame, tmp_path: Path, few: None
) -> None:
    options = ("--label", "kind", "--id", "user", "--weight", "weight", *USED, *unlabelled, "-o", tmp_path / "model")
    result = fit(source, *options)
    assert result.exit_code == 0, result.output
    done = json.loads(result.stdout)
    rest = table[table["kind"].isna()]
    used = {(): 60, "75": 75, "all": len(rest), "200": 200}[unlabelled[1] if unlabelled else ()]
    assert (done["unlabelled"], done["unlabelled_used"]) == (len(rest), used)
    assert deepsep.load(tmp_path / "model")[-1].n_unlabeled_ == used
    predictions = pd.read_parquet(tmp_path / "model" / "predictions.parquet")
    assert predictions["user"].tolist() == rest["user"].tolist()
    labels = pd.read_csv(tmp_path / "model" / "labels_used.csv")
    assert labels["user"].tolist() == table.loc[table["kind"].notna(), "user"].tolist()
    scored = score_frame(deepsep.load(tmp_path / "model"), rest, id="user")
    assert predictions["kind"].tolist() == scored["kind"].tolist()


def test_all_rows_in_a_stream_give_the_model_of_all_rows_in_memory(
    table: pd.DataFrame, tmp_path: Path, monkeypatch, few: None
) -> None:
    place = tmp_path / "t.parquet"
    table.drop(columns=["plan", "weight"]).to_parquet(place, index=False)
    options = ("--label", "kind", "--id", "user", *USED, "--unlabelled", "all")
    assert run("fit", place, *options, "-o", tmp_path / "stream").exit_code == 0
    monkeypatch.setattr("deepsep.cli.training.IN_MEMORY", N)
    assert run("fit", place, *options, "-o", tmp_path / "memory").exit_code == 0
    stream, memory = (deepsep.load(tmp_path / name)[-1] for name in ("stream", "memory"))
    assert stream.n_unlabeled_ == memory.n_unlabeled_
    # The encoding of one is fitted to 90 unlabelled rows, that of the other to all.
    assert np.corrcoef(stream.coef_.ravel(), memory.coef_.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("unlabelled", ["75", "all"])
def test_the_encoding_is_fitted_once(table: pd.DataFrame, unlabelled: str, tmp_path: Path, monkeypatch, few) -> None:
    fits, fit_transform = [], TableEncoder.fit_transform
    monkeypatch.setattr(
        TableEncoder, "fit_transform", lambda self, X, y=None: fits.append(len(X)) or fit_transform(self, X, y)
    )
    table.to_parquet(tmp_path / "t.parquet", index=False)
    options = ("--label", "kind", "--id", "user", *USED, "--unlabelled", unlabelled, "-o", tmp_path / "model")
    assert run("fit", tmp_path / "t.parquet", *options).exit_code == 0
    assert len(fits) == 1


def test_rows_without_an_identifier_keep_their_numbers(table: pd.DataFrame, tmp_path: Path, few: None) -> None:
    table.drop(columns="user").to_csv(tmp_path / "t.csv", index=False)
    result = run("fit", tmp_path / "t.csv", "--label", "kind", *USED, "--predictions", "csv", "-o", tmp_path / "model")
    assert result.exit_code == 0, result.output
    predictions = pd.read_csv(tmp_path / "model" / "predictions.csv")
    assert predictions["row"].tolist() == np.flatnonzero(table["kind"].isna()).tolist()


@pytest.mark.parametrize("by", ["user", "row"])
def test_labels_of_another_table_are_all_found(table: pd.DataFrame, by: str, tmp_path: Path, few: None) -> None:
    known = table["kind"].notna()
    table.drop(columns="kind").to_parquet(tmp_path / "t.parquet", index=False)
    keys = table["user"] if by == "user" else pd.Series(np.arange(N))
    asked = known | (np.arange(N) % 50 == 7)  # some were asked, and did not answer
    pd.DataFrame({by: keys[asked].map("{:06d}".format), "kind": table.loc[asked, "kind"]}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    on = ("--id", "user") if by == "user" else ("--drop", "user")
    options = ("--labels", tmp_path / "labels.csv", *on, *USED, "-o", tmp_path / "model")
    result = run("fit", tmp_path / "t.parquet", *options)
    assert result.exit_code == 0, result.output
    labels = pd.read_csv(tmp_path / "model" / "labels_used.csv")
    assert labels[by].tolist() == keys[known].tolist()
    assert labels["kind"].tolist() == table.loc[known, "kind"].tolist()
    predictions = pd.read_parquet(tmp_path / "model" / "predictions.parquet")
    assert predictions[by].tolist() == keys[~known].tolist()


def test_the_order_of_the_files_does_not_matter_to_the_labels(table: pd.DataFrame, tmp_path: Path, few: None) -> None:
    used = []
    for folder, names in (("one", "0123"), ("other", "3201")):
        (tmp_path / folder).mkdir()
        for i, name in enumerate(names):
            table[100 * i : 100 * (i + 1)].to_parquet(tmp_path / folder / f"{name}.parquet", index=False)
        options = ("--label", "kind", "--id", "user", *USED, "-o", tmp_path / f"{folder}-model")
        assert run("fit", tmp_path / folder, *options).exit_code == 0
        labels = pd.read_csv(tmp_path / f"{folder}-model" / "labels_used.csv").sort_values("user")
        used.append(labels.to_dict("list"))
    assert used[0] == used[1]


def test_predictions_of_a_large_table_go_to_the_database(table: pd.DataFrame, tmp_path: Path, few: None) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "people.db") as connection:
        table.to_sql("people", connection, index=False)
    connection.close()
    query = Query(str(tmp_path / "people.db"), "select * from people")
    result = fit(query, "--label", "kind", "--id", "user", *USED, "--to", "scores", "-o", tmp_path / "model")
    assert result.exit_code == 0, result.output
    with sqlite3.connect(tmp_path / "people.db") as connection:
        written = pd.read_sql("select user from scores order by user", connection)
    connection.close()
    assert written["user"].tolist() == table.loc[table["kind"].isna(), "user"].tolist()


def test_a_committee_without_folds_keeps_all_but_its_sets(table, tmp_path: Path, monkeypatch, few: None) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "people.db") as connection:
        table.to_sql("people", connection, index=False)
    connection.close()
    in_parallel = committee_fits.in_parallel

    def interrupted(*arguments):
        yield from islice(in_parallel(*arguments), 2)  # both members, and no fold
        raise KeyboardInterrupt

    monkeypatch.setattr(committee_fits, "in_parallel", interrupted)
    query = Query(str(tmp_path / "people.db"), "select * from people")
    members = ("--set", "members=['tsvm', 'logistic-regression']", "--set", "n_jobs=1", "--effort", "fast")
    asked = ("--sets", ".8", "--abstain", ".5", "--to", "scores", "--no-report", "--json")
    result = fit(query, "--label", "kind", "--id", "user", *members, *asked, "-o", tmp_path / "model")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert any("no sets: no predictions out of fold are known" in text for text in content["warnings"])
    assert (content["decisions"]["sets"], content["unlabelled"]) == (None, 380)
    predicted = pd.read_parquet(tmp_path / "model" / "predictions.parquet")
    with sqlite3.connect(tmp_path / "people.db") as connection:
        written = pd.read_sql("select * from scores order by user", connection)
    connection.close()
    assert list(written) == list(predicted)
    assert "set" not in written
    assert len(written) == len(predicted) == 380
    assert (written["kind"].isna() == (written["confidence"] < 0.5)).all()


def test_a_committee_and_its_report_are_about_the_rows_in_memory(
    table: pd.DataFrame, tmp_path: Path, few: None
) -> None:
    table.drop(columns=["plan", "weight"]).to_parquet(tmp_path / "t.parquet", index=False)
    members = ("--set", "members=['tsvm', 'logistic-regression']", "--set", "n_jobs=1", "--set", "learning_curve=False")
    options = ("--label", "kind", "--id", "user", "--effort", "fast", *members, "--unlabelled", "all")
    result = run("fit", tmp_path / "t.parquet", *options, "-o", tmp_path / "model")
    assert result.exit_code == 0, result.output
    assert "told its student about 290 of 290 rows" in result.stderr
    assert "20 with a label, and 90 of the 380 without one" in result.stdout.replace("\n    ", "")
    assert "without one, drawn at random" in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    model = deepsep.load(tmp_path / "model")[-1]
    assert len(model.label_distributions_) == 110
    assert model.student_.n_held_out_ == 76
    assert len(pd.read_parquet(tmp_path / "model" / "predictions.parquet")) == 380


def test_a_small_table_is_fitted_as_before(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    results = [
        run("fit", tmp_path / "t.parquet", "--label", "kind", "--id", "user", *USED, *more, "-o", tmp_path / name)
        for name, more in (("default", ()), ("all", ("--unlabelled", "all")), ("many", ("--unlabelled", "1,000")))
    ]
    assert [json.loads(each.stdout)["unlabelled_used"] for each in results] == [N - N // 20] * 3
    models = [deepsep.load(tmp_path / name)[-1] for name in ("default", "all", "many")]
    for model in models:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


def test_a_table_that_changes_while_it_is_read_is_an_error(
    table: pd.DataFrame, tmp_path: Path, monkeypatch, few: None
) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)

    def late(*given: object, **settings: object) -> pd.DataFrame:
        frame = read_rows(*given, **settings)
        return frame.assign(kind=frame["kind"].where(frame["user"] != 1003))

    monkeypatch.setattr("deepsep.cli.training.read_rows", late)
    result = run("fit", tmp_path / "t.parquet", "--label", "kind", *USED, "-o", tmp_path / "model")
    assert result.exit_code == 2
    assert "has changed while it was read" in result.stderr


def test_the_log_says_how_many_rows_are_used(table: pd.DataFrame, tmp_path: Path, few: None) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    options = ("--label", "kind", "--method", "tsvm", "--no-report", "-o", tmp_path / "model")
    told = run("fit", tmp_path / "t.parquet", *options).stderr
    assert "has 380 unlabelled rows. It learns from 60 of them, drawn at random, and predicts all" in told
    assert "More did not help in our measurements" in told
    told = run("fit", tmp_path / "t.parquet", *options, "--unlabelled", "all").stderr
    assert "learns from all 380 unlabelled rows" in told


@pytest.mark.parametrize("value", ["0", "-5", "many", "1.5", ""])
def test_bad_numbers_of_rows_are_refused(value: str, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    result = run("fit", tmp_path / "t.parquet", "--label", "kind", f"--unlabelled={value}", "-o", tmp_path / "model")
    assert result.exit_code == 2
    assert "--unlabelled" in result.stderr
    assert "or all" in result.stderr


def test_a_method_that_cannot_learn_in_a_stream_names_the_cure(table: pd.DataFrame, tmp_path: Path, few: None) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    options = ("--label", "kind", "--method", "label-spreading", "--unlabelled", "all", "-o", tmp_path / "model")
    result = run("fit", tmp_path / "t.parquet", *options)
    assert result.exit_code == 2
    assert "--unlabelled 100000" in result.stderr


def test_any_method_learns_from_all_rows_that_fit_into_memory(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    for more in ((), ("--unlabelled", "all")):
        options = ("--label", "kind", "--method", "label-spreading", "--no-report", "--seed", "0", *more)
        assert run("fit", tmp_path / "t.parquet", *options, "-o", tmp_path / f"model{len(more)}").exit_code == 0
    default, asked = (pd.read_parquet(tmp_path / f"model{n}" / "predictions.parquet") for n in (0, 2))
    pd.testing.assert_frame_equal(default, asked)


def test_an_interrupted_fit_leaves_nothing(table: pd.DataFrame, tmp_path: Path, monkeypatch, few: None) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    table.to_parquet(tmp_path / "t.parquet", index=False)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TSVM, "_learn", interrupted)
    options = ("--label", "kind", *USED, "--unlabelled", "all", "-o", tmp_path / "model")
    assert run("fit", tmp_path / "t.parquet", *options).exit_code != 0
    assert not list((tmp_path / "scratch").iterdir())
    assert not (tmp_path / "model").exists()
