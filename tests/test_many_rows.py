"""Fits to tables of any size: which rows are chosen, and what comes out."""

import json
import sqlite3
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

import deepsep
from deepsep import TSVM
from deepsep.apps.sql import Query
from deepsep.classifiers.committee import fits as committee_fits
from deepsep.errors import DataError
from deepsep.scoring import score_frame
from deepsep.table import read_table, sampling
from deepsep.table.encoder import TableEncoder
from deepsep.table.sampling import choose_rows, open_tables, other_rows, read_rows
from deepsep.table.source import NUMBER_COLUMN

N = 400
USED = ("--method", "tsvm", "--no-report", "--json")


@pytest.fixture
def table() -> pd.DataFrame:
    """People of three kinds, one in twenty with a label."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=N)
    frame = pd.DataFrame({"user": np.arange(1000, 1000 + N), "age": rng.normal(kind * 4.0), "size": rng.normal(kind)})
    frame["plan"] = np.array(["free", "plus", "pro"], dtype=object)[(kind + rng.integers(2, size=N)) % 3]
    labeled = np.arange(N) % 20 == 3
    frame["weight"] = 1.0 + np.arange(N) % 2
    frame["kind"] = np.where(labeled, np.array(["a", "b", "c"], dtype=object)[kind], None)
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
    """Make a table of hundreds of rows a large one: 60 unlabelled rows are enough."""
    for place in (sampling, __import__("deepsep.model.training_table", fromlist=["_"])):
        monkeypatch.setattr(place, "MAX_USEFUL_UNLABELED", 60)


# -- which rows are chosen ---------------------------------------------------------------------------------------


def chosen_of(source: Path | Query, **settings: object):
    with open_tables(source, "user") as tables:
        return choose_rows(tables, **({"label": "kind", "n": 60, "seed": 0} | settings))


def test_every_labeled_row_is_chosen_and_so_many_of_the_others(source: Path | Query, table: pd.DataFrame) -> None:
    labeled = np.flatnonzero(table["kind"].notna())
    for n in (60, 200, N - len(labeled) - 1):
        chosen = chosen_of(source, n=n)
        assert chosen.labeled.tolist() == labeled.tolist()
        assert set(labeled) <= set(chosen.read)
        assert len(set(chosen.read)) == len(chosen.read) == len(labeled) + n
        assert chosen.n_used == n
        assert chosen.n_unlabeled == N - len(labeled)


def test_which_rows_are_chosen_depends_on_the_seed_and_on_nothing_else(
    source: Path | Query, table: pd.DataFrame, tmp_path: Path
) -> None:
    table.to_parquet(tmp_path / "twin.parquet", index=False, row_group_size=7)
    same, other = chosen_of(tmp_path / "twin.parquet"), chosen_of(source, seed=1)
    assert chosen_of(source).read.tolist() == same.read.tolist()
    assert other.read.tolist() != same.read.tolist()


def test_a_table_with_few_unlabeled_rows_is_read_as_a_whole(source: Path | Query) -> None:
    assert chosen_of(source, n=N - N // 20) is None
    assert chosen_of(source, n=N) is None


@pytest.mark.parametrize("labels", [[3, -1, 1, 2, -1], ["", "x", None, "-1", "NA"], [1.0, None, 2.0, None, 1.0]])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_has_a_label_where_a_fit_to_all_rows_says_so(labels: list[object], kind: str, tmp_path: Path) -> None:
    place = tmp_path / f"t.{kind}"
    frame = pd.DataFrame({"x": range(5), "y": labels})
    frame.to_csv(place, index=False) if kind == "csv" else frame.to_parquet(place, index=False)
    given = deepsep.core.labels.given_labels(read_table(place, label="y")["y"])[0]
    with open_tables(place) as tables:
        chosen = choose_rows(tables, label="y", n=1, seed=0)
    assert (np.flatnonzero(given).tolist() if chosen is None else chosen.labeled.tolist()) == np.flatnonzero(
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
            for batch, _ in part.tables(30, ["user", NUMBER_COLUMN], {"user": "number"}, "user")
        ]
    frame = pd.concat(batches)
    assert frame[NUMBER_COLUMN].tolist() == [i for i in range(N) if i not in without]
    assert (frame["user"] == frame[NUMBER_COLUMN] + 1000).all()


def test_a_large_query_needs_a_column_to_sort_by(tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("create table a (x int)")
    connection.close()
    with pytest.raises(DataError, match="id="), open_tables(Query(str(tmp_path / "a.db"), "select * from a")):
        pass


@pytest.mark.slow
def test_every_unlabeled_row_is_as_likely_as_any_other(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    times = np.zeros(N)
    for seed in range(2_000):
        chosen = chosen_of(tmp_path / "t.parquet", seed=seed)
        times[chosen.read] += 1
    others = times[table["kind"].isna()]
    p = 60 / len(others)
    assert abs((others - 2_000 * p) / np.sqrt(2_000 * p * (1 - p))).max() < 5


# -- on the command line -------------------------------------------------------------------------------------------


def fit(source: Path | Query, *options: object):
    where = ("--from", source.database, "--query", source.sql) if isinstance(source, Query) else (source,)
    return run("fit", *where, *options)


@pytest.mark.parametrize("unlabeled", [(), ("--unlabelled", "75"), ("--unlabelled", "all"), ("--unlabelled", "200")])
def test_a_large_table_is_fitted_from_a_part_and_predicted_as_a_whole(
    source: Path | Query, unlabeled: tuple[str, ...], table: pd.DataFrame, tmp_path: Path, few: None
) -> None:
    options = ("--label", "kind", "--id", "user", "--weight", "weight", *USED, *unlabeled, "-o", tmp_path / "model")
    result = fit(source, *options, "--predictions", "parquet")
    assert result.exit_code == 0, result.output
    done = json.loads(result.stdout)
    rest = table[table["kind"].isna()]
    used = {(): 60, "75": 75, "all": len(rest), "200": 200}[unlabeled[1] if unlabeled else ()]
    assert (done["unlabelled"], done["unlabelled_used"]) == (len(rest), used)
    assert deepsep.load(tmp_path / "model")[-1].n_unlabeled_ == used
    predictions = pd.read_parquet(tmp_path / "model" / "predictions.parquet")
    assert predictions["user"].tolist() == rest["user"].tolist()
    labels = pd.read_csv(tmp_path / "model" / "labels_used.csv")
    assert labels["user"].tolist() == table.loc[table["kind"].notna(), "user"].tolist()
    scored = score_frame(deepsep.load(tmp_path / "model"), rest, id="user")
    assert predictions["kind"].tolist() == scored["kind"].tolist()


@pytest.mark.parametrize("unlabeled", ["75", "all"])
def test_the_encoding_is_fitted_once(table: pd.DataFrame, unlabeled: str, tmp_path: Path, monkeypatch, few) -> None:
    fits, fit_transform = [], TableEncoder.fit_transform
    monkeypatch.setattr(
        TableEncoder, "fit_transform", lambda self, X, y=None: fits.append(len(X)) or fit_transform(self, X, y)
    )
    table.to_parquet(tmp_path / "t.parquet", index=False)
    options = ("--label", "kind", "--id", "user", *USED, "--unlabelled", unlabeled, "-o", tmp_path / "model")
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
        labels = pd.read_csv(tmp_path / f"{folder}-model" / "labels_used.csv").sort_values("user").fillna("")
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
    options = ("--label", "kind", "--id", "user", "--effort", "fast", *members, "--unlabelled", "100")
    result = run("fit", tmp_path / "t.parquet", *options, "-o", tmp_path / "model")
    assert result.exit_code == 0, result.output
    assert "20 with a label, and 100 of the 380 without one" in result.stdout.replace("\n    ", "")
    assert "without one, drawn at random" in (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    model = deepsep.load(tmp_path / "model")[-1]
    assert len(model.label_distributions_) == 120
    assert model.student_.n_held_out_ == 20
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

    monkeypatch.setattr("deepsep.model.training_table.read_rows", late)
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
    assert "Fitting tsvm to 400 rows, 20 of them labelled" in told
    assert "drawn at random" not in told


@pytest.mark.parametrize("value", ["0", "-5", "many", "1.5", ""])
def test_bad_numbers_of_rows_are_refused(value: str, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", index=False)
    result = run("fit", tmp_path / "t.parquet", "--label", "kind", f"--unlabelled={value}", "-o", tmp_path / "model")
    assert result.exit_code == 2
    assert "--unlabelled" in result.stderr
    assert "or all" in result.stderr


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


def test_all_rows_need_the_memory_for_them_and_a_sample_does_not(
    table: pd.DataFrame, tmp_path: Path, monkeypatch, few: None
) -> None:
    monkeypatch.setenv("DEEPSEP_MAX_BYTES", "30000")
    table.drop(columns=["plan", "weight"]).to_csv(tmp_path / "t.csv", index=False)
    options = ("--label", "kind", "--id", "user", *USED, "-o", tmp_path / "model")
    assert run("fit", tmp_path / "t.csv", *options).exit_code == 0
    result = run("fit", tmp_path / "t.csv", *options, "--unlabelled", "all")
    assert result.exit_code == 2
    assert "are allowed" in result.stderr
    assert "--unlabelled 20000" in result.stderr
