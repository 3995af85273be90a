"""Networks as ONNX files: onnxruntime says what deepsep says, of gaps, new levels and dates too."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_line import run
from rows import segments
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepsep import TSVM, Committee, DeepSep, for_table, load, save
from deepsep.apps.onnx import export_onnx
from deepsep.datasets import load_foods, load_nhanes
from deepsep.errors import DataError, ParameterError
from deepsep.scoring.who_scores import with_student

pytest.importorskip("onnx", reason="run make again, which installs onnx")
pytest.importorskip("onnxruntime", reason="run make again, which installs onnxruntime")

from onnx_rows import notes, open_file, predict  # needs onnxruntime

CLOSE = 1e-5


def quick(**settings) -> DeepSep:
    return DeepSep(rounds=1, initial_epochs=3, n_networks=2, random_state=0, **settings)


def committee(**settings) -> Committee:
    members = ["logistic-regression", "tsvm"]
    return Committee(members=members, effort="fast", n_jobs=1, random_state=0, **settings)


def mixed_table(n: int, seed: int = 0) -> pd.DataFrame:
    """Numbers of all sizes, dates, categories with rare levels, truths, and gaps in all of them."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 20, n).round(1),
            "visits": rng.poisson(1, n),
            "huge": 10.0 ** rng.normal(45, 2, n),
            "joined": pd.Timestamp("1903-02-27 05:00") + pd.to_timedelta(rng.uniform(0, 6e4, n).round(2), "D"),
            "plan": rng.choice(["free", "basic", "pro"], n),
            "town": rng.choice([f"town {i}" for i in range(60)], n, p=np.arange(60, 0, -1) / 1830),
            "member": pd.array(rng.random(n) < 0.4, "boolean"),
            "t7": rng.normal(size=n),  # what an inner tensor could be called
            "probabilities": rng.normal(size=n),  # and an output
        }
    )
    for j, name in enumerate(table.columns):
        if name not in ("visits", "plan"):
            table.loc[rng.random(n) < 0.02 * (j + 1), name] = None
    return table


def some_labels(table: pd.DataFrame) -> pd.Series:
    kind = np.where(table["age"].fillna(0) > 50, "old", np.where(table["plan"] == "pro", "keen", "other"))
    return pd.Series(kind, name="label").where(table.index < 60)


@pytest.fixture(scope="module")
def fitted():
    table = mixed_table(400)
    return for_table(quick(calibrate=True)).fit(table, some_labels(table))


def assert_same(file, model, table: pd.DataFrame) -> None:
    label, p = predict(open_file(file), table)
    expected = model.predict_proba(table)
    np.testing.assert_allclose(p, expected, atol=CLOSE)
    clear = np.diff(np.sort(expected, axis=1)[:, -2:]).ravel() > 2 * CLOSE
    assert (label == model.predict(table))[clear].all()


# -- real tables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["foods", pytest.param("nhanes", marks=pytest.mark.slow)])
def test_student_of_a_real_table_predicts_the_same(name, tmp_path):
    data = load_foods() if name == "foods" else load_nhanes()
    table, answer = (data.data, data.aisle) if name == "foods" else (data.profile, data.segment)
    learned, new = table.iloc[::4], table.iloc[1::4].copy()
    label = answer.iloc[::4].where(np.random.default_rng(0).random(len(learned)) < 0.1)
    model = for_table(committee()).fit(learned, label)
    assert export_onnx(model, tmp_path / "student.onnx")["exported"] == "student"
    for name in new.columns:  # more gaps than any column had, and words that nobody knows
        new.loc[new.sample(frac=0.1, random_state=1).index, name] = None
    words = [name for name, column in new.items() if pd.api.types.infer_dtype(column, skipna=True) == "string"]
    for name in words:
        new.iloc[::7, new.columns.get_loc(name)] = "never seen"
    assert_same(tmp_path / "student.onnx", with_student(model), new)


# -- kinds of columns ----------------------------------------------------------------------------------------


def test_all_kinds_of_columns_predict_the_same(fitted, tmp_path):
    assert set(fitted[0].schema_.values()) == {"number", "date", "text", "boolean"}
    assert fitted[-1].temperature_ != 1
    export_onnx(fitted, tmp_path / "model.onnx")
    assert_same(tmp_path / "model.onnx", fitted, mixed_table(3_000, seed=1))


def test_odd_cells_predict_the_same(fitted, tmp_path):
    export_onnx(fitted, tmp_path / "model.onnx")
    table = mixed_table(12, seed=2)
    table.loc[0:3, "age"] = [np.inf, -np.inf, 3e38, -1e-40]
    table["town"] = ["", "NA", "null", "n/a", "nowhere", "Town 1", "town 1", "nan", "é", "town 59", "None", "x" * 9_000]
    table["huge"] = [0.0, -1e60, 1e300, 1e-300, np.inf, np.nan, 1e45, 2e45, 3e45, 1, -1, 1e38]
    assert_same(tmp_path / "model.onnx", fitted, table)


def test_every_day_of_four_hundred_years_has_the_right_calendar(tmp_path):
    days = pd.Series(pd.date_range("1600-01-01", "2000-03-02", freq="29h", unit="us"))
    table = pd.DataFrame({"day": days.sample(frac=1, random_state=0, ignore_index=True)})
    parts = table["day"].dt
    label = pd.Series(parts.day_of_week + (parts.day > 15)).where(table.index < 500)  # floats, as NaN makes them
    model = for_table(DeepSep(rounds=0, initial_epochs=3, n_networks=1, random_state=0)).fit(
        table[:2_000], label[:2_000]
    )
    assert len(model[1].date_parts_[0]) == 6
    export_onnx(model, tmp_path / "model.onnx")
    assert_same(tmp_path / "model.onnx", model, table)


def test_truths_may_be_spelt_in_several_ways(fitted, tmp_path):
    export_onnx(fitted, tmp_path / "model.onnx")
    session, table = open_file(tmp_path / "model.onnx"), mixed_table(1)
    for words in (["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"], ["", "NA", "nan"]):
        answers = {tuple(predict(session, table.assign(member=word))[1][0]) for word in words}
        assert len(answers) == 1


def test_no_row_and_one_row(fitted, tmp_path):
    export_onnx(fitted, tmp_path / "model.onnx")
    session, table = open_file(tmp_path / "model.onnx"), mixed_table(5)
    label, p = predict(session, table[:0])
    assert label.shape == (0,)
    assert p.shape == (0, 3)
    np.testing.assert_array_equal(predict(session, table[2:3])[1], predict(session, table)[1][2:3])


def test_columns_may_have_the_names_of_outputs(fitted, tmp_path):
    told = export_onnx(fitted, tmp_path / "model.onnx")
    assert told["outputs"] == ["label", "probabilities_"]
    assert told["inputs"]["probabilities"] == "float"
    assert told["inputs"]["huge"] == "double"


# -- models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [object, np.int64, bool], ids=["text", "numbers", "truths"])
def test_matrix_without_a_table(dtype, tmp_path):
    X, names, _ = segments(300, 40, classes=2 if dtype is bool else 3)
    X = X * np.logspace(-30, 30, X.shape[1])  # columns of extreme size are divided first
    number = {"amber": 0, "blue": 1, "cyan": 7}
    names = [name if name is None or dtype is object else dtype(number[name]) for name in names]
    model = committee().fit(X, names)
    export_onnx(model, tmp_path / "model.onnx")
    session = open_file(tmp_path / "model.onnx")
    label, p = session.run(None, {"X": X})
    np.testing.assert_allclose(p, model.student_.predict_proba(X), atol=CLOSE)
    assert label.tolist() == model.student_.predict(X).tolist()


def test_known_shares_are_kept(tmp_path):
    table = mixed_table(300)
    model = for_table(quick(priors={"old": 0.1, "keen": 0.7, "other": 0.2})).fit(table, some_labels(table))
    export_onnx(model, tmp_path / "model.onnx")
    assert_same(tmp_path / "model.onnx", model, table)


def test_file_says_where_it_comes_from(fitted, tmp_path):
    save(fitted, tmp_path / "model")
    model = load(tmp_path / "model")
    export_onnx(model, tmp_path / "model.onnx")
    said = notes(open_file(tmp_path / "model.onnx"))
    assert said["model_sha256"] == model.provenance_["sha256"]
    assert json.loads(said["classes"]) == ["keen", "old", "other"]
    assert json.loads(said["columns"]) == fitted[0].schema_
    assert said["label"] == "label"
    assert said["exported"] == "deepsep"


# -- what cannot be expressed --------------------------------------------------------------------------------


def test_texts_are_listed(tmp_path):
    rng = np.random.default_rng(0)
    words = [" ".join(map(str, rng.integers(0, 99, 6))) for _ in range(300)]
    table = mixed_table(300).assign(notes=words, story=words[::-1])
    model = for_table(quick()).fit(table, some_labels(table))
    with pytest.raises(DataError, match=r"(?s)'notes': text.*'story': text.*Leave them out"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TSVM(), "TSVM cannot be written as ONNX"),
        (committee(student=False), "no student"),
        (make_pipeline(StandardScaler(), quick()), "has the steps StandardScaler"),
    ],
    ids=["tsvm", "no student", "other steps"],
)
def test_other_models_are_refused(model, message, tmp_path):
    X, y, _ = segments(150, 30)
    with pytest.raises(ParameterError, match=message):
        export_onnx(model.fit(X, y), tmp_path / "model.onnx")


def test_missing_package_is_named(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install .deepsep\[onnx\]"):
        export_onnx(fitted, tmp_path / "model.onnx")


# -- command -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(fitted, tmp_path) -> SimpleNamespace:
    save(fitted, tmp_path / "model")
    return SimpleNamespace(model=tmp_path / "model", file=tmp_path / "model.onnx")


def test_command_writes_the_file(folder, fitted):
    result = run("export", folder.model, "-o", folder.file)
    assert result.exit_code == 0, result.output
    assert "joined" in result.output
    assert_same(folder.file, fitted, mixed_table(20))


def test_command_tells_scripts(folder):
    result = run("export", folder.model, "-o", folder.file, "--json", "--quiet")
    assert json.loads(result.output)["outputs"] == ["label", "probabilities_"]


def test_command_wants_an_onnx_file(folder):
    result = run("export", folder.model, "-o", folder.model / "manifest.json")
    assert result.exit_code == 2
    assert ".onnx" in result.output
