"""The service of examples/serve.py and its container: what it answers, what it refuses, what the pages show of it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepsep import TSVM, Committee, for_table, load, save
from deepsep.scoring import remember_training, score_frame

pytest.importorskip("fastapi", reason="run make again, which installs fastapi")
pytest.importorskip("httpx2", reason="run make again, which installs httpx2")

from fastapi.testclient import TestClient
from serve import MOST_ROWS, make_app

ROOT = Path(__file__).parents[1]
DOCKERFILE, PAGE = ROOT / "examples/Dockerfile", ROOT / "docs/how-to/deployment/serve.md"


def people(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "customer": [f"c{i:03d}" for i in range(n)],
            "age": rng.integers(20, 70, n),
            "plan": rng.choice(["free", "pro"], n),
            "joined": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")).strftime("%Y-%m-%d"),
        }
    )
    table.loc[::9, "plan"] = None
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    table = people()
    label = pd.Series(np.where(table["age"] > 45, "old", "young"), name="segment").where(table.index < 40)
    members = ["logistic-regression", "tsvm"]
    with pytest.warns(UserWarning, match="left out 'customer'"):
        model = for_table(Committee(members=members, effort="fast", n_jobs=1, random_state=0)).fit(table, label)
    remember_training(model, table, label)
    save(model, place := tmp_path_factory.mktemp("served") / "model")
    return str(place)


@pytest.fixture
def client(folder) -> TestClient:
    return TestClient(make_app(folder))


def as_rows(table: pd.DataFrame) -> list[dict[str, object]]:
    return json.loads(table.to_json(orient="records"))


@pytest.mark.parametrize("fast", [False, True])
def test_answers_are_those_of_the_model(folder, fast):
    table = people()
    answer = TestClient(make_app(folder, fast=fast)).post("/predict", json=as_rows(table))
    assert answer.status_code == 200
    expected = score_frame(load(folder), table, fast=fast).drop(columns="row")
    pd.testing.assert_frame_equal(pd.DataFrame(answer.json()), expected)


def test_one_row_with_a_gap(client):
    row = {"age": 61, "plan": None, "joined": "2020-05-01"}
    (answer,) = client.post("/predict", json=[row]).json()
    assert answer["segment"] == "old"
    assert answer == client.post("/predict", json=[{"age": 61, "joined": "2020-05-01"}, row]).json()[0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"age": 30, "plan": "pro", "joined": "2020-05-01", "agee": 3}], "does not know the columns ['agee']"),
        ([{"plan": "pro", "joined": "2020-05-01"}], "missing: 'age'"),
        ([{"age": "young", "plan": "pro", "joined": "2020-05-01"}], "number in training, text such as 'young'"),
        ([{"age": 30, "plan": "pro", "joined": 7}], "date in training"),
    ],
    ids=["unknown", "missing", "text", "not a date"],
)
def test_bad_columns_get_our_message(client, rows, message):
    answer = client.post("/predict", json=rows)
    assert answer.status_code == 422
    assert message in answer.json()["detail"]


@pytest.mark.parametrize("body", [[], {}, "rows", [[1]], [{"age": [1]}], [{"age": 1}] * (MOST_ROWS + 1)])
def test_bad_requests_are_refused(client, body):
    assert client.post("/predict", json=body).status_code == 422


def test_every_answer_names_the_model(client, folder):
    answer = client.post("/predict", json=as_rows(people(1)))
    assert answer.headers["X-Model"] == load(folder).provenance_["sha256"]
    health = client.get("/health").json()
    assert health["model"]["sha256"] == answer.headers["X-Model"]
    assert health["columns"] == {"age": "number", "plan": "text", "joined": "date"}


def test_drift_is_that_of_recent_rows(client):
    assert client.get("/drift").json() == {"rows": 0, "drifted": False, "notices": []}
    client.post("/predict", json=as_rows(people()))
    assert not client.get("/drift").json()["drifted"]
    client.post("/predict", json=as_rows(people().assign(age=people()["age"] + 30)))
    found = client.get("/drift").json()
    assert found["rows"] == 600
    assert found["drifted"]
    assert any("age" in notice for notice in found["notices"])


def test_model_comes_from_the_environment(folder):
    code = "from serve import app; print(app.title)"
    where = {"MODEL": folder, "PYTHONPATH": ":".join([str(ROOT / "examples"), *sys.path])}
    run = subprocess.run([sys.executable, "-c", code], env=where, capture_output=True, text=True, check=True)
    assert run.stdout == "deepsep: model\n"


def test_models_without_a_student_serve_too(tmp_path):
    table = people()
    with pytest.warns(UserWarning, match="left out 'customer'"):
        model = for_table(TSVM()).fit(table, np.where(table.index < 40, table["age"] > 45, None))
    save(model, tmp_path / "model")
    answer = TestClient(make_app(str(tmp_path / "model"))).post("/predict", json=as_rows(table.head(3)))
    assert [type(row["label"]) for row in answer.json()] == [bool] * 3


# -- container -----------------------------------------------------------------------------------------------

INSTRUCTIONS = ["FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "ENV", "EXPOSE", "HEALTHCHECK", "CMD"]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def test_instructions_of_the_container_are_well_formed():
    assert {name for name, _ in instructions()} <= set(INSTRUCTIONS)
    assert instructions()[0][0] == "FROM"
    assert instructions()[-1][0] == "CMD"
    for name, rest in instructions():
        if name in ("CMD", "HEALTHCHECK"):
            assert all(isinstance(word, str) for word in json.loads(rest.removeprefix("CMD ")))
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)


def test_container_copies_what_there_is_and_serves_it():
    copied = [file for name, rest in instructions() if name == "COPY" for file in shlex.split(rest)[:-1]]
    assert copied == ["constraints.txt", "deepsep-*.whl", "serve.py", "model/"]
    assert (ROOT / copied[0]).is_file()
    assert (ROOT / "examples" / copied[2]).is_file()
    program, app, *_ = json.loads(instructions()[-1][1])
    assert (program, app) == ("uvicorn", "serve:app")
    assert any(name == "ENV" and "MODEL=model" in rest for name, rest in instructions())


def test_container_does_not_run_as_root():
    order = [name for name, _ in instructions()]
    assert order.index("USER") < order.index("CMD")


def test_pages_show_the_files_as_they_are():
    page = PAGE.read_text(encoding="utf-8")
    assert (ROOT / "examples/serve.py").read_text(encoding="utf-8") in page
    assert DOCKERFILE.read_text(encoding="utf-8") in page
