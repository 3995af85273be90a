"""Models of tables: the same folder from the command and from Python, frames and files, what a model remembers."""

import hashlib
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command_line import run
from sklearn.base import clone

import deepsep
from deepsep import TableModel
from deepsep.apps.sql import Query
from deepsep.errors import DataError, DeepSepWarning, ParameterError
from deepsep.model.fitting import build
from deepsep.model.training_table import TableOrigin
from deepsep.table import Reading

FAST: dict[str, Any] = {"method": "tsvm", "report": False}


def people(n: int = 300, labels: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, plan = rng.normal(45, 15, n).round(1), rng.choice(["free", "basic", "pro"], n)
    segment = np.where(age + 10 * (plan == "pro") > 48, "gold", "blue").astype(object)
    segment[labels:] = None
    return pd.DataFrame({"customer": rng.permutation(n) + 1000, "age": age, "plan": plan, "segment": segment})


@pytest.fixture
def frame() -> pd.DataFrame:
    return people()


def hashes(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, and leave out the command: all else must be equal."""

    class Clock:
        @staticmethod
        def now(tz: Any = None) -> Any:
            return pd.Timestamp("2026-01-02T03:04:05", tz=tz).to_pydatetime()

    monkeypatch.setattr("deepsep.report.committee_held_out.FOREST_TREES", 5)
    monkeypatch.setattr("deepsep.evaluation.intervals.N_RESAMPLES", 20)
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    monkeypatch.setattr("deepsep.files.saving.datetime", Clock)
    monkeypatch.setattr("deepsep.evaluation.out_of_fold.time", SimpleNamespace(perf_counter=lambda: 0.0))
    monkeypatch.setattr("deepsep.report.summary.made", lambda command, seconds, model: {})
    monkeypatch.setattr(
        "deepsep.model.model_folder.render", lambda summary, data_file: json.dumps(summary, sort_keys=True)
    )


@pytest.mark.parametrize(("method", "large"), [("committee", False), ("tsvm", True)])
def test_python_writes_the_folder_of_the_command(
    frame: pd.DataFrame, tmp_path: Path, frozen: None, method: str, large: bool
) -> None:
    table, settings = tmp_path / "people.csv", {}
    frame.to_csv(table, index=False)
    options = ["--label", "segment", "--id", "customer", "--method", method]
    if large:
        options, settings = [*options, "--unlabelled", "100"], {"unlabeled": 100}
    if method == "committee":
        options += ["--set", "members=['tsvm','logistic-regression']", "--set", "n_jobs=1", "--effort", "fast"]
        of_committee = {"members": ["tsvm", "logistic-regression"], "n_jobs": 1, "effort": "fast"}
        chosen: Any = build(method, of_committee, 0, weighted=False)
    else:
        chosen = method
    result = run("fit", table, *options, "-o", tmp_path / "one")
    assert result.exit_code == 0, result.output
    model = deepsep.fit(table, label="segment", id="customer", method=chosen, **settings)
    model.save(tmp_path / "two")
    one, two = hashes(tmp_path / "one"), hashes(tmp_path / "two")
    assert {"predictions.parquet", "report.json", "labels_used.csv", "manifest.json"} <= one.keys()
    assert one == two


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow", "path", "paths", "query"])
def test_frames_files_and_queries_give_the_same_model(frame: pd.DataFrame, tmp_path: Path, library: str) -> None:
    wanted = deepsep.fit(frame, label="segment", id="customer", **FAST)
    source: Any = frame
    if library == "polars":
        source = pl.from_pandas(frame)
    elif library == "arrow":
        source = pa.Table.from_pandas(frame)
    elif library == "path":
        source = tmp_path / "people.csv"
        frame.to_csv(source, index=False)
    elif library == "paths":
        source = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
        frame[:100].to_parquet(source[0])
        frame[100:].to_parquet(source[1])
    elif library == "query":
        sqlite3 = pytest.importorskip("sqlite3")
        pytest.importorskip("adbc_driver_sqlite")
        with sqlite3.connect(tmp_path / "people.db") as connection:
            frame.to_sql("people", connection, index=False)
        source = Query(str(tmp_path / "people.db"), "select * from people")
    model = deepsep.fit(source, label="segment", id="customer", **FAST)
    both = [each.predictions.sort_values("customer", ignore_index=True) for each in (wanted, model)]
    pd.testing.assert_frame_equal(*both, check_dtype=False)
    assert model.schema_["age"] == ("number", None)


def test_a_large_frame_is_learned_from_in_part_and_predicted_as_a_whole(frame: pd.DataFrame, tmp_path: Path) -> None:
    model = deepsep.fit(frame, label="segment", id="customer", unlabeled=50, **FAST)
    assert len(model.training.X) == 60 + 50
    assert len(model.predictions) == 50
    model.save(tmp_path / "model", report=False)
    written = pd.read_parquet(tmp_path / "model" / "predictions.parquet")
    assert sorted(written["customer"]) == sorted(frame["customer"][60:])
    own = model.score_frame(frame[60:]).reset_index(drop=True)
    pd.testing.assert_frame_equal(written, own, check_dtype=False)


def test_labels_in_another_frame_are_joined(frame: pd.DataFrame) -> None:
    labels = frame.loc[:59, ["customer", "segment"]]
    model = deepsep.fit(frame.drop(columns="segment"), labels=[labels], id="customer", **FAST)
    whole = deepsep.fit(frame, label="segment", id="customer", **FAST)
    pd.testing.assert_frame_equal(model.predictions, whole.predictions)


def test_it_is_a_scikit_learn_pipeline(frame: pd.DataFrame) -> None:
    X, y = frame[["age", "plan"]], frame["segment"]
    model = deepsep.for_table(deepsep.TSVM())
    assert isinstance(model, TableModel)
    twin = clone(model).set_params(tsvm__C=0.5).fit(X, y)
    assert twin.named_steps["tsvm"].C == 0.5
    assert 0.8 < twin.score(X[:60], y[:60]) <= 1
    assert type(model[:-1]).__name__ == "TableModel"
    with pytest.raises(DataError, match="does not have its training table"):
        _ = twin.predictions


def test_a_saved_model_knows_what_it_was_fitted_to_but_not_its_rows(frame: pd.DataFrame, tmp_path: Path) -> None:
    book = tmp_path / "people.xlsx"
    with pd.ExcelWriter(book) as writer:
        pd.DataFrame({"notes": ["none"]}).to_excel(writer, sheet_name="About", index=False)
        frame.to_excel(writer, sheet_name="Answers", startrow=2, index=False)
    model = deepsep.fit(book, label="segment", id="customer", sheet="Answers", skip_rows=2, **FAST)
    model.save(tmp_path / "model", report=False)
    again = deepsep.load(tmp_path / "model")
    assert isinstance(again, TableModel)
    assert again.origin_ == TableOrigin("excel", "customer", Reading(sheet="Answers", skip_rows=2))
    assert again.schema_ == model.schema_
    assert again.label_ == "segment"
    for each in (again, pickle.loads(pickle.dumps(model))):
        with pytest.raises(DataError, match="does not have its training table"):
            _ = each.training
    done = again.score_file(book, tmp_path / "scored.csv")
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert done["rows"] == len(frame)
    assert scored["customer"].tolist() == frame["customer"].tolist()


def test_later_commands_need_neither_the_identifier_nor_how_to_read(frame: pd.DataFrame, tmp_path: Path) -> None:
    table, model = tmp_path / "people.csv", tmp_path / "model"
    table.write_text("Customers of May\n" + frame.to_csv(index=False, sep="|"))
    options = ("--label", "segment", "--id", "customer", "--skip-rows", "1", "--method", "tsvm", "--no-report")
    assert run("fit", table, *options, "-o", model).exit_code == 0
    for command in (
        ("score", model, table, "-o", tmp_path / "scored.csv"),
        ("next", model, table, "-n", "5", "-o", tmp_path / "next.csv"),
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
    for name in ("scored.csv", "next.csv"):
        assert set(pd.read_csv(tmp_path / name)["customer"]) <= set(frame["customer"])
    # A file of another format is read as it is, and one without the identifier has row numbers, with a notice.
    frame.drop(columns="customer").to_parquet(tmp_path / "others.parquet")
    result = run("score", model, tmp_path / "others.parquet", "-o", tmp_path / "others.csv")
    assert result.exit_code == 0, result.output
    assert "has no column 'customer'" in result.stderr
    assert pd.read_csv(tmp_path / "others.csv")["row"].tolist() == list(range(300))


def test_an_explicit_option_wins_over_what_the_model_remembers(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "a.csv", index=False)
    model = deepsep.fit(tmp_path / "a.csv", label="segment", id="customer", **FAST)
    (tmp_path / "b.csv").write_text("title\n" + frame.assign(user=range(300)).to_csv(index=False))
    model.score_file(tmp_path / "b.csv", tmp_path / "b.parquet", id="user", reading=Reading(skip_rows=1))
    assert pd.read_parquet(tmp_path / "b.parquet")["user"].tolist() == list(range(300))


def test_next_rows_and_reasons_and_other_names(frame: pd.DataFrame) -> None:
    model = deepsep.fit(frame, label="segment", id="customer", method="logistic-regression", report=False)
    chosen = model.next_rows(10)
    assert set(chosen["customer"]) <= set(frame["customer"][60:])
    assert model.reasons(frame[:3], 1)["reason_1"].str.contains("age|plan").all()
    renamed = model.rename({"gold": "Gold", "blue": "Blue"})
    assert isinstance(renamed, TableModel)
    np.testing.assert_array_equal(renamed.predict_proba(frame), model.predict_proba(frame))


def test_a_report_from_python(frame: pd.DataFrame, tmp_path: Path) -> None:
    model = deepsep.fit(frame, label="segment", id="customer", method="tsvm")
    page = model.report(tmp_path / "report.html", explained=False)
    assert "<h1" in page.read_text()
    assert model.summary()["asked"]["label"] == "segment"
    model.save(tmp_path / "model", report=False)
    again = deepsep.load(tmp_path / "model")
    summary = again.summary(frame.drop(columns=["segment", "customer"]), frame["segment"], explained=False)
    assert summary["accuracy"]["held_out"] == 60


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "which column holds the labels"),
        ({"label": "segmnt"}, "did you mean 'segment'"),
        ({"label": "segment", "id": "user"}, "id column 'user' not found"),
        ({"label": "segment", "id": "segment"}, "label= and id= are both 'segment'"),
        ({"label": "segment", "unlabeled": 0}, "number of rows above 0"),
        ({"label": "segment", "method": "knn", "priors": {"gold": 0.5, "blue": 0.5}}, "knn takes no priors"),
        ({"label": "segment", "method": "knn", "effort": "fast"}, "is for the committee"),
        ({"label": "segment", "method": object()}, "object is not an estimator of deepsep"),
        ({"label": "segment", "method": "tsvm", "keep": "age"}, "pass a list of columns"),
        ({"label": "segment", "drop": ["plann"]}, "did you mean 'plan'"),
    ],
)
def test_bad_input_is_named(frame: pd.DataFrame, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        deepsep.fit(frame, **settings)


def test_an_unknown_setting_is_an_error(frame: pd.DataFrame) -> None:
    with pytest.raises(TypeError, match="labelz"):
        deepsep.fit(frame, labelz="segment")


def test_an_edited_origin_is_refused() -> None:
    good = {"kind": "text", "id": "a", "reading": {"skip_rows": 1}}
    assert TableOrigin.from_plain(good).reading == Reading(skip_rows=1)
    for bad in (
        {**good, "id": 3},
        {**good, "kind": None},
        {**good, "reading": {"skip_rows": -1}},
        {**good, "reading": {"sheet": None}},
        {**good, "reading": {"unknown": 1}},
    ):
        with pytest.raises((TypeError, ValueError, DataError)):
            TableOrigin.from_plain(bad)


def test_a_missing_identifier_is_said_once(frame: pd.DataFrame, tmp_path: Path) -> None:
    model = deepsep.fit(frame, label="segment", id="customer", **FAST)
    frame.drop(columns="customer").to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(DeepSepWarning, match="pass id=|name it with id="):
        model.score_file(tmp_path / "t.csv", tmp_path / "s.csv")


def test_rows_and_labels_must_match(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="X has 300 rows and y has 299 entries"):
        deepsep.for_table(deepsep.TSVM()).fit(frame[["age", "plan"]], frame["segment"][:-1])


def test_transform_returns_arrays_or_pandas(frame: pd.DataFrame) -> None:
    model = deepsep.for_table(deepsep.TSVM())
    with pytest.raises(ParameterError, match="Pass 'default' or 'pandas'"):
        model.set_output(transform="polars")  # type: ignore[arg-type]
    model.set_output(transform="pandas").fit(frame[["age", "plan"]], frame["segment"])
    assert isinstance(model[:-1].transform(frame), pd.DataFrame)


def test_a_fit_finds_what_a_check_finds(frame: pd.DataFrame) -> None:
    frame.loc[0, "segment"] = frame.loc[0, "segment"].upper()
    frame.loc[1, "customer"] = frame.loc[2, "customer"]
    model = deepsep.fit(frame, label="segment", id="customer", method="tsvm", report=False)
    codes = {finding["code"] for finding in model.findings}
    assert {"rare-class", "alike-classes", "duplicate-ids"} <= codes
    checked = {finding["code"] for finding in deepsep.table.check_table(frame, "segment", id="customer")["findings"]}
    assert codes <= checked
