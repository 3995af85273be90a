"""Rows and predictions in databases: the same as in files, whatever happens on the way."""

import json
import os
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command_line import run

import deepsep
from deepsep import TSVM, Committee, for_table
from deepsep.apps.sql import Query, into_tables, score_query, score_to_table
from deepsep.apps.sql.database import Address, open_reader, open_writer
from deepsep.apps.sql.scores_table import ScoresTable
from deepsep.errors import DatabaseError, DataError, DriftWarning, LabelWarning, ParameterError
from deepsep.model import table_model
from deepsep.scoring import remember_training, score_file
from deepsep.table import read_table

try:
    import postgres  # needs the users of POSIX
except ImportError:
    postgres = None

SYSTEMS = (pytest.param("postgresql", marks=pytest.mark.infra), "sqlite", "duckdb")
ROWS = 3_000
PEOPLE = "select * from people"


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server; the test is skipped where there is none."""
    pytest.importorskip("adbc_driver_postgresql", reason="run make again, which installs the driver")
    if postgres is None or postgres.programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    server = postgres.Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    """People in a random order, with gaps, whose classes show."""
    rng = np.random.default_rng(0)
    k = rng.integers(0, 3, ROWS)
    age = 25 + 20 * k + rng.normal(0, 4, ROWS).round(1)
    age[::50] = np.nan
    return pd.DataFrame(
        {
            "customer": rng.permutation(ROWS) * 3 + 1,
            "age": age,
            "plan": np.array(["free", "basic", "pro"])[np.where(rng.random(ROWS) < 0.2, 0, k)],
            "visits": rng.poisson(3, ROWS),
            "segment": pd.Series(np.where(np.arange(ROWS) < 60, np.array(["gold", "blue", "grey"])[k], None)),
        }
    )


@pytest.fixture(scope="session")
def model(table: pd.DataFrame, tmp_path_factory) -> Path:
    rows, labels = table.drop(columns=["customer", "segment"])[:400], table["segment"][:400]
    fitted = for_table(TSVM()).fit(rows, labels)
    remember_training(fitted, rows, labels)
    folder = tmp_path_factory.mktemp("models") / "model"
    deepsep.save(fitted, folder)
    return folder


@pytest.fixture(scope="session")
def expected(table: pd.DataFrame, model: Path, tmp_path_factory) -> pd.DataFrame:
    """The predictions from a file, sorted by the key."""
    folder = tmp_path_factory.mktemp("files")
    table.to_parquet(folder / "t.parquet", index=False)
    score_file(model, folder / "t.parquet", folder / "out.parquet", id="customer")
    return pd.read_parquet(folder / "out.parquet").sort_values("customer", ignore_index=True)


class Base:
    """A database of a test: its address, and what is in it."""

    def __init__(self, system: str, address: str) -> None:
        self.system, self.address = system, address

    def put(self, frame: pd.DataFrame, name: str = "people") -> None:
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        if self.system == "duckdb":
            import duckdb

            with duckdb.connect(self.address) as connection:
                connection.execute(f"create or replace table {name} as select * from rows")
            return
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"drop table if exists {name}")
            cursor.adbc_ingest(name, rows, mode="create")
            connection.commit()

    def _connect(self):
        import adbc_driver_postgresql.dbapi
        import adbc_driver_sqlite.dbapi

        driver = adbc_driver_postgresql if self.system == "postgresql" else adbc_driver_sqlite
        return driver.dbapi.connect(self.address)

    def do(self, *statements: str) -> None:
        if self.system == "duckdb":
            import duckdb

            with duckdb.connect(self.address) as connection:
                for statement in statements:
                    connection.execute(statement)
            return
        with self._connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def get(self, sql: str) -> pd.DataFrame:
        if self.system == "duckdb":
            import duckdb

            with duckdb.connect(self.address) as connection:
                return connection.sql(sql).df()
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table().to_pandas()

    def scores(self, name: str = "scores") -> pd.DataFrame:
        return self.get(f"select * from {name} order by customer")

    def query(self, sql: str = PEOPLE) -> Query:
        return Query(self.address, sql)


@pytest.fixture(params=SYSTEMS)
def base(request, tmp_path: Path, table: pd.DataFrame) -> Base:
    """An empty database of each system, with the table ``people``."""
    system = request.param
    if system == "postgresql":
        base = Base(system, request.getfixturevalue("server").new_schema())
    else:
        pytest.importorskip("adbc_driver_sqlite" if system == "sqlite" else "duckdb")
        base = Base(system, str(tmp_path / f"t.{system}"))
        if system == "sqlite":
            sqlite3.connect(base.address).execute("pragma user_version = 1").connection.close()
    base.put(table)
    return base


@pytest.fixture
def postgresql(server, table) -> Base:
    """A schema of PostgreSQL, with the table ``people``."""
    base = Base("postgresql", server.new_schema())
    base.put(table)
    return base


def several(table: pd.DataFrame, times: int) -> pd.DataFrame:
    """Return the rows of a table several times over, with keys of their own."""
    return pd.concat([table.assign(customer=table["customer"] + 10_000 * i) for i in range(times)])


def same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Check that two tables of predictions have the same rows, to the bit."""
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_exact=True)


# -- the same as files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [700, 20_000])
def test_a_table_has_the_same_predictions_as_a_file(base: Base, model, expected, batch) -> None:
    done = score_query(model, base.query(), "scores", id="customer", batch_rows=batch)
    assert (done["rows"], done["already"], done["last_key"]) == (ROWS, 0, expected["customer"].max())
    same(base.scores(), expected)
    record = base.get("select * from deepsep_scores").iloc[0]
    assert (record["rows"], record["last_key"]) == (ROWS, str(done["last_key"]))
    assert json.loads(record["model"])["sha256"] == done["model"]["sha256"]
    assert json.loads(record["drift"])["rows"] == ROWS
    key = {"postgresql": "int8", "sqlite": "integer", "duckdb": "BIGINT"}[base.system]
    with open_reader(base.address) as connection:
        assert connection.key_type("select * from scores", "customer")[0] == key
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        base.do("insert into scores (customer) values (1)")


def test_rows_of_a_database_go_to_a_file(base: Base, model, expected, tmp_path) -> None:
    done = score_file(model, base.query(), tmp_path / "out.parquet", id="customer", batch_rows=999)
    same(pd.read_parquet(tmp_path / "out.parquet"), expected)
    assert json.loads(Path(done["drift_file"]).read_text())["source"] == f"a query to {base.address}"


def test_a_fit_reads_the_same_rows_as_from_a_file(base: Base, table, tmp_path) -> None:
    some = table[:500].sort_values("customer")
    some.to_parquet(tmp_path / "t.parquet", index=False)
    base.put(table[:500])
    options = ("--label", "segment", "--id", "customer", "--method", "tsvm", "--no-report")
    here, there = tmp_path / "from_file", tmp_path / "from_database"
    assert run("fit", tmp_path / "t.parquet", *options, "-o", here).exit_code == 0
    result = run("fit", "--from", base.address, "--query", f"{PEOPLE};", *options, "-o", there, "--to", "guesses")
    assert result.exit_code == 0, result.output
    assert "Read 500 rows of 5 columns." in result.stderr
    guesses = pd.read_parquet(here / "predictions.parquet")
    same(pd.read_parquet(there / "predictions.parquet"), guesses)
    same(base.scores("guesses"), guesses)
    again = run("fit", "--from", base.address, "--query", PEOPLE, *options, "-o", there, "--to", "guesses")
    assert again.exit_code == 2
    assert "--replace" in again.stderr


LARGE = ("--label", "segment", "--id", "customer", "--method", "tsvm", "--no-report")


@pytest.fixture
def few(monkeypatch) -> None:
    """Make 3,000 rows a large table: 300 unlabelled ones are enough."""
    for place in ("deepsep.table.sampling", "deepsep.model.training_table"):
        monkeypatch.setattr(f"{place}.MAX_USEFUL_UNLABELED", 300)


@pytest.mark.parametrize("drawn", ["where segment is not null or {some}", "order by random() limit 2000"])
def test_a_query_that_draws_rows_is_refused_where_it_must_be_run_again(base: Base, drawn, tmp_path, few) -> None:
    some = "random() > 0" if base.system == "sqlite" else "random() < 0.5"
    query = f"select * from people {drawn.format(some=some)}"
    result = run("fit", "--from", base.address, "--query", query, *LARGE, "-o", tmp_path / "model")
    assert result.exit_code == 2, result.output
    assert "gave other rows when it was run again" in result.stderr
    assert "Leave out random()" in result.stderr
    assert not (tmp_path / "model").exists()


def test_rows_that_come_during_a_fit_are_predicted_and_labeled_ones_are_not(
    base: Base, table, tmp_path, few, monkeypatch
) -> None:
    remember = table_model.remember_columns

    def meanwhile(*arguments) -> None:
        columns = "customer, age, plan, visits"
        base.do(
            f"insert into people ({columns}) values (-5, 31, 'free', 2)",  # before all others
            f"insert into people ({columns}) values (5, 31, 'free', 2)",
            "delete from people where customer = (select max(customer) from people where segment is null)",
        )
        remember(*arguments)

    monkeypatch.setattr(table_model, "remember_columns", meanwhile)
    result = run("fit", "--from", base.address, "--query", PEOPLE, *LARGE, "-o", tmp_path / "model", "--to", "guesses")
    assert result.exit_code == 0, result.output
    keys = sorted(table.loc[table["segment"].isna(), "customer"])
    assert base.scores("guesses")["customer"].tolist() == sorted([-5, 5, *keys[:-1]])
    assert pd.read_parquet(tmp_path / "model" / "predictions.parquet")["customer"].tolist() == sorted(
        [-5, 5, *keys[:-1]]
    )


@pytest.mark.parametrize("batches", [0, 2])
def test_a_fit_whose_predictions_are_cut_off_names_the_command_that_writes_the_rest(
    base: Base, table, tmp_path, batches, few, monkeypatch
) -> None:
    write, written = ScoresTable.write, []

    def cut(self, rows, types) -> None:
        if len(written) == batches:
            raise DatabaseError("the connection was cut.")
        written.append(len(rows))
        write(self, rows, types)

    monkeypatch.setattr(into_tables, "BATCH_ROWS", 400)
    monkeypatch.setattr(ScoresTable, "write", cut)
    where = ("--from", base.address, "--query", "select * from people where visits > 0")
    asked = ("--abstain", "0.6")
    model = tmp_path / "a model"
    result = run("fit", *where, *LARGE, *asked, "-o", model, "--to", "guesses")
    assert result.exit_code == 1
    if batches:
        assert re.search(r"has all rows up to the key \d+: 800 in whole batches\. The model is in", result.stderr)
    else:
        assert "the connection was cut. Nothing was written. The model is in" in result.stderr
    monkeypatch.setattr(ScoresTable, "write", write)
    program, command, *rest = shlex.split(result.stderr[result.stderr.index("\ndeepsep score") :])
    done = run(command, *rest, "--json")
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert (program, content["already"]) == ("deepsep", 400 * batches)
    assert content["already"] + content["rows"] == (table["visits"] > 0).sum()
    predicted, found = pd.read_parquet(model / "predictions.parquet"), base.scores("guesses")
    same(found[found["customer"].isin(predicted["customer"])].reset_index(drop=True), predicted)


@pytest.mark.infra
def test_a_table_that_cannot_be_created_is_refused_before_a_fit(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    base = Base("postgresql", server.new_schema())
    where = ("--from", server.anna, "--query", "select 1 as customer, 2.5 as age, 'gold' as segment")
    result = run("fit", *where, *LARGE, "-o", tmp_path / "model", "--to", "guesses")
    assert result.exit_code == 2
    assert "permission denied" in result.stderr
    assert "Reading" not in result.stderr
    options = ("--from", base.address, "--query", "select 1 as customer", *LARGE, "-o", tmp_path / "model")
    assert run("fit", *options, "--to", "nowhere.guesses").exit_code == 2


def test_asking_whether_a_table_can_be_created_leaves_nothing(base: Base) -> None:
    with open_writer(base.address) as connection:
        ScoresTable(connection, "guesses", "customer").check_creatable()
        assert not connection.has_table(("guesses",))
        connection.commit()
    with pytest.raises(Exception, match=r"(?i)guesses"):
        base.get("select * from guesses")


def test_read_table_takes_a_query(base: Base, table) -> None:
    frame = read_table(base.query(f"select customer, age, segment from ({PEOPLE}) p where visits > 3"), id="customer")
    wanted = table[table["visits"] > 3].sort_values("customer", ignore_index=True)[["customer", "age", "segment"]]
    pd.testing.assert_frame_equal(frame, wanted, check_dtype=False)


def test_labels_follow_from_probabilities_as_in_a_file(base: Base, model, table, tmp_path) -> None:
    names = ("gold", "blue", "grey")
    costs = {true: {called: 5.0 if true == "gold" else 1.0 for called in names if called != true} for true in names}
    asked = {"abstain": 0.7, "costs": costs}
    table.to_parquet(tmp_path / "t.parquet", index=False)
    score_file(model, tmp_path / "t.parquet", tmp_path / "out.parquet", id="customer", **asked)
    score_query(model, base.query(), "scores", id="customer", batch_rows=999, **asked)
    expected = pd.read_parquet(tmp_path / "out.parquet").sort_values("customer", ignore_index=True)
    assert expected["segment"].isna().any()
    same(base.scores(), expected)
    with pytest.raises(DataError, match=r"other settings: abstain.*replace=True"):
        score_query(model, base.query(), "scores", id="customer", **{**asked, "abstain": 0.6})


def test_a_first_batch_without_values_does_not_set_the_types(base: Base, model, table, tmp_path) -> None:
    late = table.sort_values("customer").assign(plan=lambda frame: frame["plan"].where(np.arange(ROWS) >= 1000))
    late.to_parquet(tmp_path / "t.parquet", index=False)
    base.put(late)
    with pytest.warns(DriftWarning, match="plan: 33 %"):
        score_file(model, tmp_path / "t.parquet", tmp_path / "out.parquet", id="customer")
    with pytest.warns(DriftWarning, match="plan: 33 %"):
        score_query(model, base.query(), "scores", id="customer", batch_rows=300)
    same(base.scores(), pd.read_parquet(tmp_path / "out.parquet"))


@pytest.mark.parametrize("kind", ["text", "date", "uuid"])
def test_keys_of_other_types(base: Base, model, expected, kind) -> None:
    make = {
        "text": "cast(customer as varchar)",
        "date": "cast('2000-01-01' as date) + cast(customer as integer)",
        "uuid": "cast(lpad(cast(customer as varchar), 32, '0') as uuid)",
    }
    if base.system == "sqlite":
        if kind != "text":
            pytest.skip("SQLite has no such type")
        make["text"] = "cast(customer as text)"
    rows = f"select p.age, p.plan, p.visits, {make[kind]} as who from people p"
    for batch in (1_000, 20_000):  # the second call finds nothing to do
        score_query(model, base.query(rows), "scores", id="who", batch_rows=batch)
    found = base.get(f"select s.*, p.customer from scores s join people p on s.who = {make[kind]} order by p.customer")
    same(found.drop(columns="who")[expected.columns], expected)


def test_numbers_of_a_database_are_numbers(base: Base, model, expected) -> None:
    if base.system == "sqlite":
        pytest.skip("SQLite has no decimals")
    exact = "select customer, cast(age as decimal(9, 1)) as age, plan, cast(visits as smallint) as visits from people"
    score_query(model, base.query(exact), "scores", id="customer")
    same(base.scores(), expected)


@pytest.mark.infra
def test_types_that_no_file_has_are_read_as_text(postgresql: Base) -> None:
    odd = (
        "select 1 as id, '10.0.0.1'::inet as a, gen_random_uuid() as b, '{\"x\": 1}'::jsonb as c, interval '1 day' as d"
    )
    frame = read_table(postgresql.query(odd), id="id")
    assert frame.loc[0, ["a", "c", "d"]].tolist() == ["10.0.0.1/32", '{"x": 1}', "1 day"]
    assert len(frame.loc[0, "b"]) == 36


# -- going on --------------------------------------------------------------------------------------------------


def stop_after(rows: int, error: BaseException):
    def progress(done: int, share: float) -> None:
        if done >= rows:
            raise error

    return progress


def test_a_second_call_goes_on_where_the_first_stopped(base: Base, model, expected) -> None:
    with pytest.raises(DataError) as failure:
        score_query(
            model, base.query(), "scores", id="customer", batch_rows=500, progress=stop_after(1_000, DataError("Stop."))
        )
    last = int(expected["customer"][999])
    assert str(failure.value) == (
        f"Stop. The table scores has all rows up to the key {last}: 1,000 in whole batches. "
        "Fix this and run the same command again; it resumes where it stopped."
    )
    same(base.scores(), expected[:1_000])
    done = score_query(model, base.query(), "scores", id="customer", batch_rows=600)
    assert (done["already"], done["rows"]) == (1_000, ROWS - 1_000)
    same(base.scores(), expected)


def test_later_calls_score_the_rows_that_have_come_since(base: Base, model, table, expected) -> None:
    base.put(table[1::2])
    score_query(model, base.query(), "scores", id="customer")
    base.put(table)
    done = score_query(model, base.query(), "scores", id="customer", batch_rows=400)
    assert done["rows"] == ROWS // 2
    same(base.scores(), expected)
    assert score_query(model, base.query(), "scores", id="customer")["rows"] == 0
    same(base.scores(), expected)
    assert json.loads(base.get("select drift from deepsep_scores")["drift"][0])["rows"] == ROWS // 2


def test_ctrl_c_says_what_was_written(base: Base, model) -> None:
    with pytest.raises(
        KeyboardInterrupt, match=r"Interrupted. The table scores has all rows up to the key \d+: 500 in"
    ):
        score_query(
            model, base.query(), "scores", id="customer", batch_rows=500, progress=stop_after(1, KeyboardInterrupt())
        )
    assert len(base.scores()) == 500


# Each program waits for an answer after every batch, so that it cannot be far ahead of the process that kills it.
CHILD = """
import sys
from deepsep.apps.sql import Query, score_query
score_query(sys.argv[1], Query(sys.argv[2], "select * from people"), "scores", id="customer", batch_rows=50,
            progress=lambda rows, share: (print(rows, flush=True), sys.stdin.readline()))
print("done", flush=True)
"""


def score_and_kill(base: Base, model: Path, chance: random.Random, program: str = CHILD, *arguments: object) -> bool:
    """Score in a process of its own and kill it in a random batch; return whether it had so many batches to score.

    A run that begins anew always has: the last batch is never the one.
    """
    command = [sys.executable, "-c", program, str(model), base.address, *map(str, arguments)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        batches = chance.randrange(1, ROWS // 50 - 1)
        for number, line in enumerate(child.stdout, start=1):
            if line == "done\n":
                break
            child.stdin.write("go on\n")
            child.stdin.flush()
            if number == batches:
                time.sleep(chance.random() * 0.02)
                child.kill()
                break
    assert child.returncode in (0, -signal.SIGKILL)
    return child.returncode != 0


def kill_again_and_again(base: Base, model: Path, expected: pd.DataFrame, kills: int) -> None:
    chance, killed, runs = random.Random(0), 0, 0
    while killed < kills:
        was_killed = score_and_kill(base, model, chance)
        killed, runs = killed + was_killed, runs + 1
        if base.get("select count(*) as n from deepsep_scores")["n"][0]:
            found = base.scores()
            assert len(found) % 50 == 0
            same(found, expected[: len(found)])
        if not was_killed:
            base.do("drop table scores", "delete from deepsep_scores")
    score_query(model, base.query(), "scores", id="customer")
    same(base.scores(), expected)


@pytest.mark.infra
def test_a_killed_run_leaves_whole_batches(base: Base, model, expected) -> None:
    kill_again_and_again(base, model, expected, kills=1)


@pytest.mark.infra
@pytest.mark.slow
def test_ten_killed_runs_lose_nothing_and_write_nothing_twice(base: Base, model, expected) -> None:
    kill_again_and_again(base, model, expected, kills=10)


KILLED = """
import os, signal, sys
import deepsep.scoring.local as local
from deepsep.apps.sql import Query
from deepsep.scoring import score_file
local.PIECE_SECONDS = -1.0
score_file(sys.argv[1], Query(sys.argv[2], "select * from people"), sys.argv[3], id="customer", batch_rows=500,
           progress=lambda rows, share: rows >= 1_500 and os.kill(os.getpid(), signal.SIGKILL))
"""


@pytest.mark.infra
@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
def test_a_killed_run_to_a_file_begins_anew(base: Base, model, table, expected, tmp_path) -> None:
    """The rows of a query may have changed since."""
    base.put(table.assign(age=table["age"] + 1))
    target = tmp_path / "out" / "out.parquet"
    command = [sys.executable, "-c", KILLED, str(model), base.address, str(target)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert list(target.parent.glob(".out.parquet.*/pieces/*.json"))
    base.put(table)
    score_file(model, base.query(), target, id="customer", batch_rows=500)
    same(pd.read_parquet(target), expected)
    assert sorted(path.name for path in target.parent.iterdir()) == ["out.drift.json", "out.parquet"]


def test_who_began_goes_on(tmp_path, table) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    base = Base("sqlite", str(tmp_path / "t.sqlite"))
    sqlite3.connect(base.address).execute("pragma user_version = 1").connection.close()
    base.put(table[:600])
    committee = Committee(members=["logistic-regression", "tsvm"], effort="fast", n_jobs=1, random_state=0)
    fitted = for_table(committee).fit(table.drop(columns=["customer", "segment"])[:400], table["segment"][:400])
    with pytest.raises(KeyboardInterrupt):
        score_query(
            fitted,
            base.query(),
            "scores",
            id="customer",
            fast=True,
            batch_rows=200,
            progress=stop_after(200, KeyboardInterrupt()),
        )
    assert score_query(fitted, base.query(), "scores", id="customer")["scored_by"] == "student"
    with pytest.raises(DataError, match="other settings: scored_by"):
        score_query(fitted, base.query(), "scores", id="customer", fast=False)


# -- what is refused -------------------------------------------------------------------------------------------


def test_another_table_is_never_replaced(base: Base, model, table, expected) -> None:
    for replace in (False, True):
        with pytest.raises(DataError, match="the table people exists, and deepsep did not write it"):
            score_query(model, base.query(), "people", id="customer", replace=replace)
    assert len(base.get(PEOPLE)) == ROWS
    rows, labels = table.drop(columns=["customer", "segment"])[:300], table["segment"][:300]
    other = for_table(TSVM(C=0.1)).fit(rows, labels)
    score_query(other, base.query(), "scores", id="customer")
    with pytest.raises(DataError, match=r"scored by another model.*replace=True"):
        score_query(model, base.query(), "scores", id="customer")
    score_query(model, base.query(), "scores", id="customer", replace=True)
    same(base.scores(), expected)
    assert base.get("select count(*) as n from deepsep_scores")["n"].tolist() == [1]


def test_a_failed_replacement_leaves_the_earlier_predictions(base: Base, model, expected) -> None:
    score_query(model, base.query(), "scores", id="customer")
    for wrong in (f"{PEOPLE} union all {PEOPLE}", "select customer, plan as age, plan, visits from people"):
        with pytest.raises(DataError, match=r"6,000 rows have 3,000 keys|changed type"):
            score_query(model, base.query(wrong), "scores", id="customer", replace=True)
    same(base.scores(), expected)


@pytest.mark.parametrize("batch", [500, 20_000])
def test_a_value_of_another_type_in_the_middle_is_named_by_its_key(base: Base, model, expected, batch) -> None:
    key = int(expected["customer"][1_700])
    values = f"cast(case customer when {key} then 'forty' else cast(age as varchar(20)) end as varchar(20))"
    query = base.query(f"select customer, {values} as age, plan, visits from people")
    with pytest.raises(DataError) as failure:
        score_query(model, query, "scores", id="customer", batch_rows=batch)
    assert f"'forty' here)\nFirst in the row with the key {key}. Correct such rows, or leave them out. " in str(
        failure.value
    )
    if batch == 500:
        assert str(failure.value).endswith(
            "1,500 in whole batches. Fix this and run the same command again; it resumes where it stopped."
        )
        score_query(model, base.query(), "scores", id="customer")
        same(base.scores(), expected)
    else:
        assert str(failure.value).endswith("Nothing was written.")


def test_a_key_that_is_repeated_is_found_before_anything_is_written(base: Base, model) -> None:
    twice = "select * from people union all select * from people where customer = 1501"
    with pytest.raises(DataError, match=r"'customer' is not unique: 3,001 rows have 3,000 keys"):
        score_query(model, base.query(twice), "scores", id="customer", batch_rows=501)
    with pytest.raises(Exception, match="scores"):
        base.scores()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from nobody", "nobody.*Check the names"),
        ("selec * from people", "syntax error"),
        ("select nobody from people", "nobody"),
        ("", "query= is empty"),
        (
            "select case when customer = 1 then null else customer end as customer, age, plan, visits from people",
            "1 of 3,000",
        ),
        ("select customer, age, plan from people", "missing"),
        (
            "select customer, plan as age, plan, visits from people",
            r"changed type: 'age'.*\nFirst in the row with the key 1\. Correct .* Nothing was written",
        ),
        ("select age as who, plan, age, visits from people", "'customer' not found"),
        ("select customer * 1.5e0 as customer, age, plan, visits from people", "the key 'customer' is of the type"),
        ("delete from people", "syntax|DELETE|delete"),
    ],
)
def test_bad_queries(base: Base, model, sql, message) -> None:
    with pytest.raises(DataError, match=message):
        score_query(model, base.query(sql), "scores", id="customer")
    assert len(base.get(PEOPLE)) == ROWS


@pytest.mark.parametrize(
    "sql",
    [
        "select * from people; commit; drop table people",
        "select * from people; delete from people",
        "select * from people) as p; commit; drop table people; select * from (select * from people",
        "delete from people",
        "with gone as (delete from people returning *) select * from gone",
    ],
)
def test_a_query_is_one_select(base: Base, model, sql, tmp_path) -> None:
    for target in (("--to", "scores"), ("-o", tmp_path / "out.parquet")):
        result = run("score", model, "--from", base.address, "--query", sql, "--id", "customer", *target)
        assert result.exit_code == 2, result.output
        assert "Correct the query; it must be one select." in result.stderr
        assert len(base.get(PEOPLE)) == ROWS


@pytest.mark.parametrize("base", ["duckdb"], indirect=True)
def test_a_function_that_writes(base: Base, model, tmp_path) -> None:
    base.do("create sequence numbers")
    sql = "select *, nextval('numbers') as n from people"
    for target in (("--to", "scores"), ("-o", tmp_path / "out.parquet")):
        result = run("score", model, "--from", base.address, "--query", sql, "--id", "customer", *target)
        assert result.exit_code == 2, result.output
        assert "read-only mode. A query cannot write. Correct the query; it must be one select." in result.stderr
    assert base.get("select nextval('numbers') as n")["n"].tolist() == [1]


@pytest.mark.parametrize("base", ["duckdb"], indirect=True)
def test_a_reader_stays_a_reader(base: Base) -> None:
    with open_reader(base.address, with_writer=True) as connection:
        connection.commit()
        with pytest.raises(DataError, match="read-only mode"):
            connection.execute("delete from people")


@pytest.mark.parametrize("base", ["duckdb"], indirect=True)
@pytest.mark.parametrize("sql", ["from people", "table people", "pivot people on plan using count(*)"])
def test_queries_in_the_words_of_duckdb(base: Base, sql) -> None:
    if sql.startswith("pivot") and pytest.importorskip("duckdb").__version__ < "2":
        pytest.skip("a pivot is several statements")
    assert len(read_table(base.query(f"{sql} -- all\n;"), id="customer")) == ROWS


@pytest.mark.infra
def test_a_column_that_occurs_twice(postgresql: Base, model) -> None:
    with pytest.raises(DataError, match="the query repeats 1 column names"):
        score_query(model, postgresql.query("select *, 1 as age from people"), "scores", id="customer")


def test_comments_and_semicolons_in_a_query(base: Base, model, expected) -> None:
    score_query(model, base.query("select * from people -- everyone\n ; "), "scores", id="customer")
    same(base.scores(), expected)
    score_query(model, base.query("/* all */ select * from people -- everyone"), "more", id="customer")
    same(base.scores("more"), expected)


@pytest.mark.parametrize("name", ["", "a.b.c", ".", "deepsep_scores"])
def test_bad_names_of_tables(base: Base, model, name) -> None:
    with pytest.raises(DataError, match="names no table"):
        score_query(model, base.query(), name, id="customer")


def test_names_are_quoted(base: Base, model, expected) -> None:
    name = 'scores"; drop table people; --'
    score_query(model, base.query(), name, id="customer")
    same(base.get('select * from "scores""; drop table people; --" order by customer'), expected)
    assert len(base.get(PEOPLE)) == ROWS


def test_a_table_in_another_schema(base: Base, model, expected) -> None:
    if base.system == "sqlite":
        with pytest.raises(DataError, match="SQLite has no schemas"):
            score_query(model, base.query(), "other.scores", id="customer")
        return
    base.do("create schema other")
    for _ in range(2):
        score_query(model, base.query(), "other.scores", id="customer")
    same(base.scores("other.scores"), expected)
    assert base.get("select * from other.deepsep_scores")["table_name"].tolist() == ["scores"]
    base.do("drop schema other cascade")


@pytest.mark.infra
def test_reading_cannot_write(postgresql: Base, model) -> None:
    postgresql.do("create function wipe() returns bigint language sql as 'delete from people returning 1::bigint'")
    with pytest.raises(DataError, match="read-only transaction"):
        score_query(model, postgresql.query("select p.*, wipe() as w from people p"), "scores", id="customer")
    assert len(postgresql.get(PEOPLE)) == ROWS


def test_classes_that_a_database_cannot_tell_apart(base: Base, table) -> None:
    labels = table["segment"][:400].replace({"gold": "Blue", "grey": "é" * 40})
    with pytest.warns(LabelWarning, match="differ only in case"):
        fitted = for_table(TSVM()).fit(table.drop(columns=["customer", "segment"])[:400], labels)
    with pytest.raises(DataError, match=r"too long a name|differ in case only"):
        score_query(fitted, base.query(), "scores", id="customer")


def test_no_rows_give_an_empty_table(base: Base, model, expected) -> None:
    done = score_query(model, base.query(f"{PEOPLE} where customer < 0"), "scores", id="customer")
    assert done["rows"] == 0
    assert base.scores().columns.tolist() == expected.columns.tolist()
    score_query(model, base.query(), "scores", id="customer")
    same(base.scores(), expected)


# -- what fails ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:hunter2@db/shop",
        "postgres://anna:hunter2#x@db/shop",
        "postgresql://db/shop?user=anna&password=hunter2",
        "POSTGRESQL://anna:hun/ter2@db/shop",
        "POSTGRESQL://anna:hun/te?ter2@db/shop",
        "postgresql://anna:hun?ter2@db/shop",
        "postgresql://anna%3Ahunter2@db/shop",
        "postgresql://db/shop?user=anna&passwor%64=hunter2",
        "postgresql://db/shop?sslpassword=hunter2",
        "mysql://anna:hunter2@db/shop",
        "jdbc:postgresql://db/shop?user=anna&password=hunter2",
        " postgresql://anna:hunter2@db/shop",
        "anna:hunter2@db/shop",
        "connect_timeout=3 host=db password = hunter2",
    ],
)
@pytest.mark.parametrize("option", ["--from", "--database"])
def test_a_password_in_an_address_is_refused_and_not_shown(url, option, model, people) -> None:
    rows = (option, url, "--query", "select 1") if option == "--from" else (people, option, url)
    result = run("score", model, *rows, "--id", "id", "--to", "scores")
    assert result.exit_code == 2
    assert f"the address in {option} contains a password" in result.stderr
    assert "PGPASSWORD" in result.stderr
    assert "ter2" not in result.output


@pytest.mark.parametrize("option", ["--from", "--database"])
@pytest.mark.parametrize(
    "place", ["host=db password=hunter2", "dbname = shop user=anna", "PASSWORD='hunter 2' host=db"]
)
def test_keywords_of_libpq_are_refused_and_not_shown(place, option, model, people) -> None:
    rows = (option, place, "--query", "select 1") if option == "--from" else (people, option, place)
    result = run("score", model, *rows, "--id", "id", "--to", "scores")
    assert result.exit_code == 2
    assert f"{option} does not take keywords such as host=. Name postgresql://user@host/database" in result.stderr
    assert "PGPASSWORD in the environment, or write the password to ~/.pgpass" in result.stderr
    assert not any(word in result.output for word in ("hunter", "shop", "anna"))


@pytest.mark.parametrize("option", ["--from", "--database"])
def test_another_system_is_named_with_its_option(option, model, people) -> None:
    rows = (
        (option, "mysql://db/shop", "--query", "select 1") if option == "--from" else (people, option, "mysql://db/x")
    )
    result = run("score", model, *rows, "--id", "id", "--to", "scores")
    assert result.exit_code == 2
    assert f"{option} 'mysql://db/" in result.stderr
    assert "deepsep does not read databases of 'mysql'" in result.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h:5432/d?user=anna@corp",
        "postgresql://anna@[::1]:5432/d?application_name=a:b@c",
        "postgresql://anna%40corp@db:5432/shop",
        "postgresql://h1:5432,h2:5433/d?options=-csearch_path%3Dmy_password",
        "postgresql:///d?host=/run/postgresql&passfile=/home/anna/.pgpass",
    ],
)
def test_addresses_without_a_password(url) -> None:
    assert Address.of(url) == Address("postgresql", url)


def test_a_file_whose_name_looks_like_an_address(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host=db").mkdir()
    for name in ("host=db/password=a.sqlite", "a:b@c.sqlite"):
        Path(name).write_bytes(b"SQLite format 3\x00")
        assert Address.of(name) == Address("sqlite", name)


@pytest.mark.infra
def test_a_missing_or_wrong_password(server, model, monkeypatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    for password in (None, "guess"):
        if password is not None:
            monkeypatch.setenv("PGPASSWORD", password)
        result = run("score", model, "--from", server.anna, "--query", "select 1 as a", "--id", "a", "--to", "scores")
        assert result.exit_code == 2
        assert "write the password to ~/.pgpass" in result.stderr
        assert "bug" not in result.stderr
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    assert read_table(Query(server.anna, "select 1 as a")).shape == (1, 1)


@pytest.mark.infra
def test_a_server_that_does_not_answer(server, model) -> None:
    nowhere = "postgresql://postgres@127.0.0.1:1/postgres"
    result = run("score", model, "--from", nowhere, "--query", "select 1 as a", "--id", "a", "--to", "scores")
    assert result.exit_code == 1
    assert "Connection refused" in result.stderr
    assert "run the same command again" in result.stderr


def cut_connections(server) -> None:
    """Have the server end all connections but this one."""
    server.run(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )


@pytest.mark.infra
def test_a_connection_that_is_cut_leaves_whole_batches(postgresql: Base, server, model, expected) -> None:
    def cut(done: int, share: float) -> None:
        if done == 1_500:
            cut_connections(server)

    with pytest.raises(DatabaseError) as failure:
        score_query(model, postgresql.query(), "scores", id="customer", batch_rows=500, progress=cut)
    assert f"up to the key {expected['customer'][1_499]}: 1,500 in whole batches" in str(failure.value)
    same(postgresql.scores(), expected[:1_500])
    score_query(model, postgresql.query(), "scores", id="customer")
    same(postgresql.scores(), expected)


@pytest.mark.infra
def test_a_connection_that_is_cut_between_rows(postgresql: Base, server) -> None:
    with open_reader(postgresql.address) as connection:
        pieces = connection.stream("select repeat('x', 1000) as t from generate_series(1, 200000)", 1_000)
        next(pieces)
        cut_connections(server)
        with pytest.raises(DatabaseError, match=r"server closed the connection|terminating connection"):
            list(pieces)


@pytest.mark.infra
def test_a_full_disk_of_the_server(server, model, table) -> None:
    """Predictions go to a tablespace on a file system of one megabyte."""
    place = server.folder / "small"
    place.mkdir()
    owner = os.stat(server.folder)
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size=1m,uid={owner.st_uid},gid={owner.st_gid},mode=700", "none", place],
        check=False,
        capture_output=True,
    )
    if mount.returncode:
        pytest.skip("no permission to mount a small file system")
    try:
        server.run(f"create tablespace small location '{place}'")
        address = server.new_schema()
        Base("postgresql", address).put(
            pd.concat([table.assign(customer=table["customer"] + 10_000 * i) for i in range(5)])
        )
        base = Base("postgresql", f"{address}%20-cdefault_tablespace%3Dsmall")
        with pytest.raises(DatabaseError, match=r"No space left on device.*Make room") as failure:
            score_query(model, base.query(), "scores", id="customer", batch_rows=1_000)
        found = base.scores()
        assert len(found)
        assert len(found) % 1_000 == 0
        assert f"up to the key {found['customer'].max()}: {len(found):,} in whole batches" in str(failure.value)
        base.do("drop table scores", "drop table deepsep_scores")
        server.run("drop tablespace small")
    finally:
        subprocess.run(["umount", place], check=True)


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("begin immediate")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.infra
@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
def test_a_file_that_another_program_writes_to(base: Base, model, expected, monkeypatch) -> None:
    monkeypatch.setattr("deepsep.apps.sql.drivers.LOCK_SECONDS", 0)
    command = [sys.executable, "-c", HOLD, base.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(DatabaseError, match=r"locked.*Try again later. Nothing was written"):
            score_query(model, base.query(), "scores", id="customer")
        other.stdin.close()
    score_query(model, base.query(), "scores", id="customer")
    same(base.scores(), expected)


SMALL_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), -1))
sys.argv = ["deepsep", *sys.argv[2:]]
from deepsep.cli import app
app()
"""


@pytest.mark.infra
@pytest.mark.parametrize("base", ["sqlite", "duckdb"], indirect=True)
def test_a_file_that_cannot_grow(base: Base, model, table, expected) -> None:
    base.put(several(table, 20))
    room = os.stat(base.address).st_size + 600_000
    options = ("score", model, "--from", base.address, "--query", PEOPLE, "--id", "customer", "--to", "scores")
    command = [sys.executable, "-c", SMALL_DISK, room, *options, "--batch-size", 2_000]
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert "bug" not in result.stderr
    found = base.scores() if "has all rows up to" in result.stderr else base.get("select 1 as customer where 1 = 0")
    assert len(found) % 2_000 == 0
    assert run(*options).exit_code == 0
    assert len(base.scores()) == 20 * ROWS


def test_urls_of_files(tmp_path, monkeypatch) -> None:
    place = tmp_path / "my shop"
    place.write_bytes(b"SQLite format 3\x00")
    monkeypatch.chdir(tmp_path)
    assert Address.of("sqlite:///my%20shop") == Address("sqlite", "my shop")
    assert Address.of(f"sqlite:///{place}") == Address.of(str(place)) == Address("sqlite", str(place))
    with pytest.raises(DataError, match="is a database of sqlite, not of duckdb"):
        Address.of("duckdb:///my shop")


def test_a_file_that_is_no_database(tmp_path, people) -> None:
    for name, message in (
        (people, "neither an SQLite nor a DuckDB"),
        (tmp_path, "is a folder"),
        ("no", "does not exist"),
    ):
        with pytest.raises(DataError, match=message):
            Address.of(str(name))
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"SQLite format 3\x00" + b"x" * 5_000)
    with pytest.raises(DataError, match="The file is damaged"):
        read_table(Query(str(damaged), "select * from people"))


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql"),
        ("adbc_driver_sqlite.dbapi", "adbc-driver-sqlite"),
        ("duckdb", "duckdb"),
    ],
)
def test_a_missing_driver_is_named(module, package, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    places = {"duckdb": b"12345678DUCK", "adbc_driver_sqlite.dbapi": b"SQLite format 3\x00"}
    address = "postgresql:///x"
    if module in places:
        address = str(tmp_path / "t")
        Path(address).write_bytes(places[module])
    with pytest.raises(ImportError, match=f"pip install {package}"):
        read_table(Query(address, "select 1"))


@pytest.mark.infra
def test_two_runs_at_once_write_nothing_twice(postgresql: Base, model, expected) -> None:
    def run_another(done: int, share: float) -> None:
        if done == 500:
            score_query(model, postgresql.query(), "scores", id="customer", batch_rows=1_000)

    with pytest.raises(DataError, match="duplicate key"):
        score_query(model, postgresql.query(), "scores", id="customer", batch_rows=500, progress=run_another)
    same(postgresql.scores(), expected)


# -- from files to a table ---------------------------------------------------------------------------------------


def write(table: pd.DataFrame, place: Path) -> Path:
    """Write a file of the format that its name ends in."""
    if place.suffix == ".csv":
        table.to_csv(place, index=False)
    elif place.suffix == ".xlsx":
        table.to_excel(place, index=False)
    else:
        table.to_parquet(place, index=False)
    return place


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_goes_to_a_table_like_a_query(base: Base, model, table, expected, suffix, tmp_path) -> None:
    file = write(table, tmp_path / f"people.{suffix}")
    done = score_to_table(model, file, "scores", database=base.address, id="customer", batch_rows=700)
    assert (done["rows"], done["already"], done["last_key"]) == (ROWS, 0, table["customer"].iloc[-1])
    same(base.scores(), expected)
    record = base.get("select * from deepsep_scores").iloc[0]
    assert (record["table_name"], record["rows"]) == ("scores", ROWS)
    assert json.loads(record["drift"])["rows"] == ROWS
    assert score_query(model, base.query(), "scores", id="customer")["rows"] == 0


@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
def test_an_excel_file_goes_to_a_table(base: Base, model, table, expected, tmp_path) -> None:
    file = write(table[:300], tmp_path / "people.xlsx")
    where = {"database": base.address, "id": "customer", "batch_rows": 100}
    with pytest.raises(DataError):
        score_to_table(model, file, "scores", **where, progress=stop_after(100, DataError("Stop.")))
    assert score_to_table(model, file, "scores", **where)["rows"] == 200
    same(base.scores(), expected[expected["customer"].isin(table["customer"][:300])].reset_index(drop=True))


def test_a_file_goes_on_where_it_stopped(base: Base, model, table, expected, tmp_path) -> None:
    file = write(table, tmp_path / "people.parquet")
    where = {"database": base.address, "id": "customer", "batch_rows": 500}
    with pytest.raises(DataError) as failure:
        score_to_table(model, file, "scores", **where, progress=stop_after(1_000, DataError("Stop.")))
    last = int(table["customer"][999])
    assert str(failure.value) == (
        f"Stop. The table scores has all rows up to the key {last}: 1,000 in whole batches. "
        "Fix this and run the same command again; it resumes where it stopped."
    )
    done = score_to_table(model, file, "scores", **where | {"batch_rows": 600})
    assert (done["already"], done["rows"]) == (1_000, ROWS - 1_000)
    assert (done["drift"]["rows"], done["drift"]["rows_before"]) == (ROWS - 1_000, 1_000)
    same(base.scores(), expected)
    assert score_to_table(model, file, "scores", **where)["rows"] == 0


def test_a_query_begins_and_a_file_goes_on(base: Base, model, table, expected, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("deepsep.apps.sql.scores_table.KEYS_PER_QUERY", 700)
    score_query(model, base.query(f"{PEOPLE} where customer < 3000"), "scores", id="customer")
    done = score_to_table(model, write(table, tmp_path / "people.csv"), "scores", database=base.address, id="customer")
    assert done["already"] + done["rows"] == ROWS
    same(base.scores(), expected)


@pytest.mark.parametrize("kind", ["text", "date"])
def test_keys_of_other_types_in_a_file(base: Base, model, table, expected, kind, tmp_path) -> None:
    days = pd.Timestamp("2000-01-01") + pd.to_timedelta(table["customer"], unit="D")
    keys = [f"it's {key}" for key in table["customer"]] if kind == "text" else days.dt.date
    file = write(table.assign(customer=keys), tmp_path / "people.parquet")
    where = {"database": base.address, "id": "customer", "batch_rows": 500}
    if kind == "date" and base.system == "sqlite":
        with pytest.raises(DataError, match=r"the key 'customer' is of the type date32\[day\]; a key in .* or a text"):
            score_to_table(model, file, "scores", **where)
        return
    with pytest.raises(DataError, match="Stop"):
        score_to_table(model, file, "scores", **where, progress=stop_after(1_000, DataError("Stop.")))
    assert score_to_table(model, file, "scores", **where)["rows"] == ROWS - 1_000
    found = base.scores()
    known = found["customer"] if kind == "text" else pd.to_datetime(found["customer"]).dt.date
    customer = dict(zip(keys, table["customer"], strict=True))
    same(found.assign(customer=known.map(customer)).sort_values("customer", ignore_index=True), expected)


@pytest.mark.parametrize("base", ["duckdb"], indirect=True)
def test_several_files_go_to_a_table_and_a_damaged_one_later(base: Base, model, table, expected, tmp_path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    files = [write(table[i::3], folder / f"part-{i}.parquet") for i in range(3)]
    content = files[1].read_bytes()
    files[1].write_bytes(content[: len(content) // 2])
    options = ("--id", "customer", "--database", base.address, "--to", "scores", "--json")
    damaged = run("score", model, f"{folder}/*.parquet", *options)
    assert damaged.exit_code == 4, damaged.output
    assert list(json.loads(damaged.stdout)["failed"]) == ["part-1.parquet"]
    files[1].write_bytes(content)
    mended = run("score", model, *files, *options)
    assert mended.exit_code == 0, mended.output
    assert json.loads(mended.stdout)["rows"] == len(table[1::3])
    assert "The comparison with the training table is about the new rows alone" in mended.stderr
    same(base.scores(), expected)


@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (lambda key: key.where(key != key[7]), r"1 of 3,000 rows have no 'customer'"),
        (lambda key: key.where(key != key[7], key[8]), r"'customer' is not unique: 1 keys are repeated, such as \d+"),
        (lambda key: key.astype(str).where(key != key[7], str(key[8])), r"not unique: 1 keys are repeated, such as '"),
        (lambda key: key + 0.5, r"the key 'customer' is of the type double"),
    ],
)
def test_bad_keys_of_a_file_are_found_before_anything_is_written(base, model, table, keys, message, tmp_path) -> None:
    file = write(table.assign(customer=keys(table["customer"].astype("Int64"))), tmp_path / "people.parquet")
    with pytest.raises(DataError, match=message):
        score_to_table(model, file, "scores", database=base.address, id="customer", batch_rows=500)
    assert not base.get("select count(*) as n from sqlite_master where name = 'scores'")["n"][0]


@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
def test_an_empty_cell_is_no_key(base: Base, model, table, tmp_path) -> None:
    keys = table["customer"].astype("Int64").mask(table.index == 7)
    file = tmp_path / "people.csv"
    table.assign(customer=keys).to_csv(file, index=False)
    with pytest.raises(DataError, match=r"1 of .* rows have no 'customer'"):
        score_to_table(model, file, "scores", database=base.address, id="customer")
    assert not base.get("select count(*) as n from sqlite_master where name = 'scores'")["n"][0]


@pytest.mark.parametrize("base", ["duckdb"], indirect=True)
def test_a_key_that_the_table_cannot_hold(base: Base, model, table, tmp_path) -> None:
    base.do("create table small as select cast(customer as integer) as customer, * exclude customer from people")
    score_query(model, Query(base.address, "select * from small"), "scores", id="customer")
    more = table.assign(customer=table["customer"] + 3_000_000_000)
    file = write(more, tmp_path / "people.parquet")
    with pytest.raises(DataError, match="do not fit into the columns of the table scores"):
        score_to_table(model, file, "scores", database=base.address, id="customer")
    assert len(base.scores()) == len(table)


@pytest.mark.parametrize("base", ["sqlite"], indirect=True)
def test_a_file_never_replaces_another_table_or_that_of_another_model(base, model, table, tmp_path) -> None:
    file = write(table, tmp_path / "people.parquet")
    where = {"database": base.address, "id": "customer"}
    with pytest.raises(DataError, match="the table people exists, and deepsep did not write it"):
        score_to_table(model, file, "people", **where)
    score_to_table(model, file, "scores", **where)
    with pytest.raises(DataError, match="other settings: abstain"):
        score_to_table(model, file, "scores", **where, abstain=0.9)
    assert score_to_table(model, file, "scores", **where, abstain=0.9, replace=True)["rows"] == ROWS
    words = write(table.assign(customer=table["customer"].astype(str) + "x"), tmp_path / "words.parquet")
    with pytest.raises(DataError, match=r"the keys of the table scores are of the type integer, those of the file str"):
        score_to_table(model, words, "scores", **where, abstain=0.9)


FILE_CHILD = """
import sys
from deepsep.apps.sql import score_to_table
score_to_table(sys.argv[1], sys.argv[3], "scores", database=sys.argv[2], id="customer", batch_rows=50,
               progress=lambda rows, share: (print(rows, flush=True), sys.stdin.readline()))
print("done", flush=True)
"""


@pytest.mark.infra
def test_a_killed_run_of_a_file_leaves_whole_batches(base: Base, model, table, expected, tmp_path) -> None:
    file, chance = write(table, tmp_path / "people.parquet"), random.Random(0)
    assert score_and_kill(base, model, chance, FILE_CHILD, file)
    found = base.scores()
    assert 0 < len(found) < ROWS
    assert len(found) % 50 == 0
    assert set(found["customer"]) == set(table["customer"][: len(found)])
    score_to_table(model, file, "scores", database=base.address, id="customer")
    same(base.scores(), expected)


# -- the command line ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("t.csv", "--from", "x", "--query", "q", "-o", "y.csv"), "either TABLE, or a database"),
        (("-o", "y.csv"), "which rows?"),
        (("--from", "x", "-o", "y.csv"), "--from needs the rows"),
        (("--query", "q", "-o", "y.csv"), "--query needs a database"),
        (("t.csv",), "where should the predictions go?"),
        (("t.csv", "-o", "y.csv", "--to", "scores"), "where should the predictions go?"),
        (("t.csv", "--to", "scores"), "--to names a table of which database?"),
        (("t.csv", "--database", "x", "-o", "y.csv"), "--database is for predictions of files in a table"),
        (("--from", "x", "--query", "q", "--to", "scores", "--database", "x"), "Leave it out with --from"),
        (("t.csv", "--database", "x", "--to", "scores"), "--to needs --id"),
        (("t.csv", "-o", "y.csv", "--replace"), "--replace belongs to --to"),
        (("--from", "x", "--query", "q", "--to", "scores", "--engine", "ray"), "--engine ray"),
        (("--from", "x", "--query", "q", "--to", "scores"), "--to needs --id"),
    ],
)
def test_options_that_do_not_go_together(model, table, options, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    table.drop(columns="customer").to_csv("t.csv", index=False)
    result = run("score", model, *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_drift_is_reported_and_kept(base: Base, model) -> None:
    older = "select customer, age + 40 as age, plan, visits from people"
    options = ("--from", base.address, "--query", older, "--id", "customer", "--to", "scores", "--fail-on-drift")
    result = run("score", model, *options)
    assert result.exit_code == 3, result.output
    assert "age" in result.stderr
    assert json.loads(base.get("select drift from deepsep_scores")["drift"][0])["drifted"]


def test_drift_warns_in_python(base: Base, model) -> None:
    with pytest.warns(DriftWarning, match="age"):
        score_query(model, base.query("select customer, age + 40 as age, plan, visits from people"), "s", id="customer")


def test_a_table_needs_a_key(model) -> None:
    with pytest.raises(ParameterError, match="needs id="):
        score_query(model, Query("x", "y"), "scores", id=None)


@pytest.mark.parametrize("base", ["duckdb"], indirect=True)
def test_duckdb_prints_no_progress_and_leaves_memory_to_others(base: Base) -> None:
    with open_reader(base.address) as connection:
        names = ("enable_progress_bar", "memory_limit")
        settings = ", ".join(f"current_setting('{name}')" for name in names)
        ((bar, memory),) = connection.fetch(f"select {settings}")
    assert (bar, memory) == (False, "953.6 MiB")


def test_text_of_sqlite_that_is_not_utf8(tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("create table people as select 1 as id, cast(x'ff62' as text) as town")
    with pytest.raises(DataError, match=r"rows 1 and .* is not UTF-8. Leave its column out"):
        read_table(Query(str(tmp_path / "t.db"), "select * from people"), id="id")
