"""Models in MLflow, with a store of files: they come back whole, as a pyfunc and as they were."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepsep import TSVM, Committee, for_table, save
from deepsep.apps.mlflow import load_model, log_model, save_model
from deepsep.errors import DataError, ModelFileError, ParameterError
from deepsep.scoring import remember_training, score_frame
from deepsep.scoring.who_scores import with_student

mlflow = pytest.importorskip("mlflow", reason="run make again, which installs mlflow-skinny")

# MLflow's own, about pandas, and advice.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Operation with range:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*(input example was not provided|integer column):UserWarning"),
]


def people(n: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "income": rng.normal(30_000, 5_000, n).round(1),
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "plan": rng.choice(["free", "pro"], n),
            "member": rng.random(n) < 0.5,
        }
    )
    table.loc[::9, "plan"] = None
    table.loc[::7, "income"] = None
    return table, pd.Series(np.where(table["age"] > 45, "old", "young"), name="segment").where(table.index < 40)


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield
    mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def model():
    table, label = people()
    members = ["logistic-regression", "tsvm"]
    fitted = for_table(Committee(members=members, effort="fast", n_jobs=1, random_state=0)).fit(table, label)
    remember_training(fitted, table, label)
    return fitted


def scores(model, table: pd.DataFrame) -> pd.DataFrame:
    return score_frame(model, table).drop(columns="row")


def test_logged_model_predicts_the_same(model):
    table, _ = people()
    with mlflow.start_run():
        uri = log_model(model).model_uri
    pd.testing.assert_frame_equal(mlflow.pyfunc.load_model(uri).predict(table), scores(model, table))
    pd.testing.assert_frame_equal(scores(load_model(uri), table), scores(model, table))


def test_the_student_answers_if_asked(model):
    table, _ = people()
    loaded = mlflow.pyfunc.load_model(log_model(model).model_uri)
    pd.testing.assert_frame_equal(loaded.predict(table, params={"fast": True}), scores(with_student(model), table))


def test_no_student_to_ask():
    table, label = people()
    loaded = mlflow.pyfunc.load_model(log_model(for_table(TSVM()).fit(table, label)).model_uri)
    with pytest.raises(ParameterError, match="no student"):
        loaded.predict(table, params={"fast": True})


def test_columns_may_have_any_type_that_can_be_read(model):
    table, _ = people()
    loaded = mlflow.pyfunc.load_model(log_model(model).model_uri)
    as_text = table.assign(joined=table["joined"].dt.strftime("%Y-%m-%d"), member=table["member"].map(str))
    for other in (table.astype({"age": float}), table.astype({"age": "Int64"}), as_text, table[table.columns[::-1]]):
        pd.testing.assert_frame_equal(loaded.predict(other), scores(model, table))


def test_bad_rows_get_our_message(model):
    table, _ = people()
    loaded = mlflow.pyfunc.load_model(log_model(model).model_uri)
    with pytest.raises(DataError, match="missing: 'age'"):
        loaded.predict(table.drop(columns="age"))
    with pytest.raises(DataError, match=r"'age' .number in training, text such as 'young'"):
        loaded.predict(table.assign(age="young"))


def test_example_and_signature_come_from_the_profile(model, tmp_path):
    save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    signature = loaded.metadata.signature
    assert signature.inputs.input_names() == list(model[0].schema_)
    assert signature.outputs.input_names() == ["segment", "probability_old", "probability_young", "confidence"]
    example = loaded.input_example
    table, _ = people()
    assert example["age"].between(table["age"].min(), table["age"].max()).all()
    assert set(example["plan"].dropna()) <= {"free", "pro"}
    assert len(loaded.predict(example)) == len(example)


def test_an_example_of_ones_own_sets_the_types(model, tmp_path):
    table, _ = people()
    save_model(model, tmp_path / "saved", input_example=table.head(2))
    signature = mlflow.pyfunc.load_model(str(tmp_path / "saved")).metadata.signature
    assert signature.inputs.input_types()[0].name == "long"


def test_folder_is_logged_without_its_neighbours(model, tmp_path):
    save(model, tmp_path / "model")
    (tmp_path / "model" / "predictions.csv").write_text("who,label\nAnn,old\n")
    save_model(tmp_path / "model", tmp_path / "saved")
    names = {file.name for file in Path(tmp_path, "saved").rglob("*") if file.is_file()}
    assert {"manifest.json", "arrays.safetensors", "profile.json"} <= names
    assert "predictions.csv" not in names
    assert not [name for name in names if name.endswith((".pkl", ".pickle"))]
    assert load_model(str(tmp_path / "saved")).provenance_["sha256"] in (tmp_path / "saved" / "MLmodel").read_text()


def test_matrix_without_a_table(tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 3))
    model = TSVM().fit(X, np.where(np.arange(80) < 20, X[:, 0] > 0, None))
    save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    pd.testing.assert_frame_equal(loaded.predict(X), scores(model, X))


def test_models_of_others_are_refused(tmp_path):
    mlflow.pyfunc.save_model(tmp_path / "other", loader_module="json", data_path=__file__, pip_requirements=[])
    with pytest.raises(ModelFileError, match="not logged by deepsep"):
        load_model(str(tmp_path / "other"))


def test_missing_package_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(ImportError, match=r"pip install .deepsep\[mlflow\]"):
        log_model(model)
