"""The command line: results on standard output, notes on standard error, exit codes, whole outputs or none."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import deepsep
from deepsep.cli import app
from deepsep.cli._estimator import parse_settings

HEAVY = {"torch", "sklearn", "pandas", "numpy", "scipy", "pyarrow", "skrub", "matplotlib", "lightgbm", "rich"}
COMMANDS = ("demo", "check", "segments", "fit", "score", "explain", "compare", "experiment", "methods")
SHORT = ("--set", "rounds=1", "--set", "initial_epochs=5")


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def deepsep_process(*arguments: object, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deepsep", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A table whose classes show in its features; 30 of 200 rows are labelled."""
    rng = np.random.default_rng(0)
    k = rng.integers(0, 3, 200)
    frame = pd.DataFrame(
        {
            "customer": [f"c{i:03d}" for i in range(200)],
            "age": 25 + 20 * k + rng.normal(0, 4, 200).round(1),
            "plan": np.array(["free", "basic", "pro"])[np.where(rng.random(200) < 0.2, 0, k)],
            "weight": rng.uniform(0.5, 2, 200).round(2),
            "segment": np.where(np.arange(200) < 30, np.array(["gold", "blue", "grey"])[k], None),
        }
    )
    file = tmp_path / "people.csv"
    frame.to_csv(file, index=False)
    return file


@pytest.fixture
def model(people: Path) -> Path:
    folder = people.parent / "model"
    assert (
        run(
            "fit", people, "--label", "segment", "--id", "customer", "-o", folder, "--method", "tsvm", "--no-report"
        ).exit_code
        == 0
    )
    return folder


# -- the shell -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom deepsep.cli import app\n"
        f"try:\n    app({arguments!r}, prog_name='deepsep')\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.rpartition("LOADED")[2].split())
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_completion_knows_commands_and_methods() -> None:
    def complete(line: str) -> list[str]:
        words = {"_DEEPSEP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return deepsep_process(env={**os.environ, **words}).stdout.split()

    assert complete("deepsep sc") == ["score"]
    assert complete("deepsep fit --method ran") == ["random-forest"]


def test_version() -> None:
    assert run("--version").stdout == f"deepsep {deepsep.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["fot"], ["fit"], ["fit", "a.csv", "-o", "m", "--seed", "many"], ["methods", "--xml"]]
)
def test_misuse_exits_2_without_a_traceback(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.stderr


def test_methods_are_listed_for_people_and_for_scripts() -> None:
    text = run("methods").stdout
    content = json.loads(run("methods", "--json").stdout)["methods"]
    assert list(content) == list(deepsep.methods())
    assert all(re.search(rf"^{name} ", text, re.M) for name in content)


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m deepsep methods --json | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert result.stdout == "{"
    assert result.stderr == ""


# -- fit -------------------------------------------------------------------------------------------------------


def test_fit_writes_a_model_that_says_the_same_as_its_predictions(people: Path) -> None:
    folder = people.parent / "model"
    result = run(
        "fit", people, "--label", "segment", "--id", "customer", "--drop", "weight", "-o", folder, "--no-report", *SHORT
    )
    assert result.exit_code == 0, result.output
    frame, found = pd.read_csv(people), pd.read_parquet(folder / "predictions.parquet")
    fitted = deepsep.load(folder)
    assert fitted[0].schema_ == {"age": "number", "plan": "text"}
    assert fitted[-1].verbose == 0
    rest = frame[frame["segment"].isna()]
    assert found["customer"].tolist() == rest["customer"].tolist()
    proba = fitted.predict_proba(rest)
    columns = [f"probability_{name}" for name in fitted.classes_]
    np.testing.assert_allclose(found[columns].to_numpy(), proba, atol=1e-6)
    assert found["label"].tolist() == fitted.classes_[proba.argmax(axis=1)].tolist()
    np.testing.assert_array_equal(found["confidence"], found[columns].max(axis=1))


def test_fit_speaks_to_people_on_stdout_and_says_what_to_do_next(people: Path) -> None:
    result = run("fit", people, "--label", "segment", "-o", people.parent / "model", "--method", "tsvm", "--no-report")
    assert "Reading" in result.stderr
    assert "Reading" not in result.stdout
    assert "Fitted tsvm to 200 rows, 30 of them labelled" in result.stdout
    assert f"Next: deepsep score {people.parent / 'model'}" in result.stdout


def test_json_is_alone_on_stdout(people: Path) -> None:
    folder = people.parent / "model"
    result = run("fit", people, "--label", "segment", "-o", folder, "--method", "tsvm", "--no-report", "--json")
    content = json.loads(result.stdout)
    assert content["labelled"] == 30
    assert content["classes"] == ["blue", "gold", "grey"]
    assert sum(content["predicted_shares"].values()) == pytest.approx(1)
    assert Path(content["predictions"]).exists()
    assert any("'customer' (identifier)" in text for text in content["warnings"])


def test_quiet_says_nothing(people: Path) -> None:
    result = run(
        "fit", people, "--label", "segment", "-o", people.parent / "m", "--method", "tsvm", "--no-report", "--quiet"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_weight_label_and_id_are_no_features(people: Path) -> None:
    folder = people.parent / "model"
    options = ("--weight", "weight", "--id", "customer", "--method", "tsvm", "--no-report")
    assert run("fit", people, "--label", "segment", "-o", folder, *options).exit_code == 0
    assert list(deepsep.load(folder)[0].feature_names_in_) == ["age", "plan"]


def test_weights_are_used(people: Path) -> None:
    frame = pd.read_csv(people)
    frame["weight"] = np.where(frame["segment"] == "grey", 0.001, 1.0)
    frame.to_csv(people, index=False)
    shares = []
    for options in ((), ("--weight", "weight")):
        result = run("fit", people, "--label", "segment", "--drop", "weight", *options, "-o", people.parent / "m",
                     "--method", "logistic-regression", "--no-report", "--json")  # fmt: skip
        assert result.exit_code == 0, result.output
        shares.append(json.loads(result.stdout)["predicted_shares"]["grey"])
    assert shares[1] < shares[0]


@pytest.mark.parametrize(("value", "word"), [("", "row 3"), ("-1", "-1"), ("many", "'many'")])
def test_bad_weights_name_the_row(people: Path, value: str, word: str) -> None:
    frame = pd.read_csv(people, dtype=str)
    frame.loc[2, "weight"] = value
    frame.to_csv(people, index=False)
    result = run(
        "fit", people, "--label", "segment", "--weight", "weight", "-o", people.parent / "m", "--method", "tsvm"
    )
    assert result.exit_code == 2
    assert "weight column 'weight': row 3" in result.stderr


def test_a_text_is_no_weight(people: Path) -> None:
    result = run("fit", people, "--label", "segment", "--weight", "plan", "-o", people.parent / "m", "--method", "tsvm")
    assert result.exit_code == 2
    assert "weight column 'plan' holds no numbers but text, such as" in result.stderr


@pytest.mark.parametrize(
    "value", ["banana", "{[]: 1}", "(" * 5000, "-" * 50_000 + "1"], ids=["word", "key", "open", "deep"]
)
def test_a_setting_that_is_no_value_of_python_is_text(value: str) -> None:
    assert parse_settings([f"C={value}"]) == {"C": value}


def test_settings_reach_the_method(people: Path) -> None:
    folder = people.parent / "model"
    options = ("--set", "C=2.5", "--set", "kernel=rbf", "--set", "balance=false", "--seed", "7")
    assert (
        run("fit", people, "--label", "segment", "-o", folder, "--method", "tsvm", "--no-report", *options).exit_code
        == 0
    )
    settings = deepsep.load(folder)[-1].get_params()
    assert {name: settings[name] for name in ("C", "kernel", "balance", "random_state")} == {
        "C": 2.5,
        "kernel": "rbf",
        "balance": False,
        "random_state": 7,
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "tvsm"), "did you mean 'tsvm'?"),
        (("--set", "rouns=3"), "no setting 'rouns'"),
        (("--set", "rounds"), "write it as name=value"),
        (("--set", "rounds=-3"), "rounds=-3"),
        (("--method", "knn", "--priors", "p.csv"), "knn takes no priors"),
        (("--method", "label-spreading", "--weight", "weight"), "takes no weights"),
        (("--on", "customer"), "--on belongs to --labels"),
        (("--labels", "other.csv"), "needs --on"),
        (("--method", "tsvm", "--set", "probability=none"), "Leave this setting out"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(
    people: Path, options: tuple[str, ...], words: str
) -> None:
    (people.parent / "p.csv").write_text("class,share\ngold,0.2\nblue,0.3\ngrey,0.5\n")
    result = run("fit", people, "--label", "segment", "-o", people.parent / "model", *options)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert not (people.parent / "model").exists()


def test_priors_from_a_table_and_from_json(people: Path) -> None:
    shares = {"gold": 0.2, "blue": 0.3, "grey": 0.5}
    table, document = people.parent / "population.csv", people.parent / "population.json"
    table.write_text("class;share\n" + "\n".join(f"{name};{share}" for name, share in shares.items()))
    document.write_text(json.dumps(shares))
    for file in (table, document):
        result = run(
            "fit",
            people,
            "--label",
            "segment",
            "-o",
            people.parent / "m",
            "--method",
            "tsvm",
            "--no-report",
            "--priors",
            file,
        )
        assert result.exit_code == 0, result.output
        assert deepsep.load(people.parent / "m")[-1].priors == shares


def test_priors_of_classes_that_are_numbers(people: Path) -> None:
    frame = pd.read_csv(people)
    frame["segment"] = frame["segment"].map({"gold": 1, "blue": 2, "grey": 3}).astype("Int64")
    frame.to_csv(people, index=False)
    (people.parent / "p.json").write_text('{"1": 0.5, "2": 0.25, "3": 0.25}')
    result = run("fit", people, "--label", "segment", "-o", people.parent / "m", "--method", "tsvm", "--no-report",
                 "--priors", people.parent / "p.json")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert deepsep.load(people.parent / "m")[-1].priors == {1: 0.5, 2: 0.25, 3: 0.25}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("class,share\ngold,20\nblue,30\ngrey,50\n", "between 0 and 1"),
        ("class,share\ngold,0.2\nblue,0.3\ngrey,0.4\n", "sum to 0.9"),
        ("class,share\ngold,0.5\nblue,0.5\n", "['grey'] missing"),
        ("class,share\ngold,0.5\nblue,0.5\ngreen,0.1\n", "'green'"),
        ("class,share\ngold,0.5\ngold,0.5\n", "twice"),
        ("class,share,year\ngold,0.5,1999\n", "3 columns"),
        ("class,share\ngold,half\nblue,half\n", "'half'"),
    ],
)
def test_bad_priors(people: Path, content: str, words: str) -> None:
    file = people.parent / "population.csv"
    file.write_text(content)
    result = run("fit", people, "--label", "segment", "-o", people.parent / "m", "--method", "tsvm", "--priors", file)
    assert result.exit_code == 2, result.output
    assert "population.csv" in result.stderr
    assert words in result.stderr


@pytest.mark.parametrize("name", ["label", "confidence", "probability_gold"])
def test_an_identifier_named_like_a_result_is_refused(people: Path, name: str) -> None:
    pd.read_csv(people).rename(columns={"customer": name}).to_csv(people, index=False)
    result = run("fit", people, "--label", "segment", "--id", name, "-o", people.parent / "m", "--method", "tsvm")
    assert result.exit_code == 2
    assert f"the id column is named '{name}', like a column of the result" in result.stderr
    assert "Fitting" not in result.stderr


# -- outputs: whole or not at all ------------------------------------------------------------------------------


def test_a_foreign_folder_is_refused_before_the_work_begins(people: Path) -> None:
    folder = people.parent / "photos"
    folder.mkdir()
    (folder / "cat.txt").write_text("cat")
    result = run("fit", "no-such-table.csv", "--label", "segment", "-o", folder)
    assert result.exit_code == 2
    assert "holds files that are no model of deepsep" in result.stderr
    assert [item.name for item in folder.iterdir()] == ["cat.txt"]


def test_a_second_fit_replaces_model_predictions_and_report_and_keeps_other_files(people: Path, model: Path) -> None:
    (model / "notes.txt").write_text("mine")
    (model / "report.html").write_text("of an earlier model")
    result = run("fit", people, "--label", "segment", "-o", model, "--method", "logistic-regression", "--no-report")
    assert result.exit_code == 0, result.output
    assert (model / "notes.txt").read_text() == "mine"
    assert not (model / "report.html").exists()
    assert "customer" not in pd.read_parquet(model / "predictions.parquet").columns


def test_a_failure_in_the_report_leaves_nothing(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("deepsep.report._summary.summarize", fail)
    result = run("fit", people, "--label", "segment", "-o", people.parent / "model", "--method", "tsvm")
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert [item.name for item in people.parent.iterdir()] == [people.name]


def test_an_unexpected_error_asks_for_a_report_and_shows_its_traceback_on_demand(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise RuntimeError("what now")

    monkeypatch.setattr("deepsep.table._read.read_table", fail)
    monkeypatch.setattr("deepsep.cli._training.read_table", fail)
    arguments = ("fit", people, "--label", "segment", "-o", people.parent / "model")
    result = run(*arguments)
    assert result.exit_code == 1
    assert "RuntimeError: what now" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in run(*arguments, "--debug").stderr
    monkeypatch.setenv("DEEPSEP_DEBUG", "1")
    assert "Traceback" in run(*arguments).stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("method", ["deepsep", "mean-teacher"])
def test_ctrl_c_exits_130_and_writes_nothing(people: Path, method: str) -> None:
    endless = ("--set", "initial_epochs=1000000") if method == "deepsep" else ("--set", "steps=100000000")
    command = [
        sys.executable,
        "-m",
        "deepsep",
        "fit",
        str(people),
        "--label",
        "segment",
        "-o",
        str(people.parent / "model"),
    ]
    process = subprocess.Popen(
        [*command, "--method", method, *endless], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    while "Fitting" not in process.stderr.readline():
        pass
    time.sleep(3)  # in the midst of training
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert "Interrupted. Nothing was written." in err
    assert [item.name for item in people.parent.iterdir()] == [people.name]


# -- the other commands ----------------------------------------------------------------------------------------


def test_check_says_what_would_go_wrong(people: Path) -> None:
    frame = pd.read_csv(people)
    frame["copy"] = frame["segment"].map({"gold": 1, "blue": 2, "grey": 3})
    frame.to_csv(people, index=False)
    result = run("check", people, "--label", "segment", "--id", "customer")
    assert result.exit_code == 0, result.output
    assert "200 rows, 30 of them labelled" in result.stdout
    assert "column 'copy' alone gives the label away" in " ".join(result.stdout.split())
    assert result.stdout.rstrip().endswith("A fit would work.")


def test_check_exits_2_where_a_fit_would_fail(people: Path) -> None:
    frame = pd.read_csv(people)
    frame["segment"] = frame["segment"].where(frame["segment"] == "gold")
    frame.to_csv(people, index=False)
    result = run("check", people, "--label", "segment", "--json")
    assert result.exit_code == 2
    content = json.loads(result.stdout)
    assert content["fit_would_work"] is False
    assert content["findings"][0]["code"] == "one-class"
    assert run("fit", people, "--label", "segment", "-o", people.parent / "m").exit_code == 2


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_scores_are_those_of_the_model(people: Path, model: Path, suffix: str) -> None:
    target = people.parent / f"scored.{suffix}"
    result = run("score", model, people, "--id", "customer", "--batch-size", 33, "-o", target, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 200
    found = pd.read_parquet(target) if suffix == "parquet" else pd.read_csv(target)
    fitted = deepsep.load(model)
    assert found["customer"].tolist() == pd.read_csv(people)["customer"].tolist()
    assert found["label"].tolist() == fitted.predict(pd.read_csv(people)).tolist()
    given = pd.read_parquet(model / "predictions.parquet")
    pd.testing.assert_frame_equal(found[30:].reset_index(drop=True), given, check_dtype=False)


def test_score_shows_the_difference_of_the_columns(people: Path, model: Path) -> None:
    frame = pd.read_csv(people).rename(columns={"plan": "Plan"})
    frame.to_csv(people, index=False)
    result = run("score", model, people, "-o", people.parent / "scored.csv")
    assert result.exit_code == 2
    assert "missing: 'plan'" in result.stderr
    assert "renamed? 'plan' to 'Plan'" in result.stderr
    assert not (people.parent / "scored.csv").exists()


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_score_without_a_model(people: Path, folder: str) -> None:
    result = run("score", people.parent / folder, people, "-o", people.parent / "scored.csv")
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """What 150 of 400 people said, whose habits follow two types; and a profile of all of them."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 2, 400)
    drinks = np.where(kind, "tea; milk", "coffee")
    up = np.where(rng.random(400) < 0.1, "late", np.where(kind, "early", "late"))
    who = [f"{i:04d}" for i in range(400)]
    profile = pd.DataFrame(
        {"who": who, "age": 30 + 25 * kind + rng.normal(0, 5, 400), "visits": rng.poisson(3 + 6 * kind)}
    )
    profile.to_csv(tmp_path / "everyone.csv", index=False)
    survey = pd.DataFrame({"who": who, "Drinks": drinks, "Gets up": up, "Sport": rng.integers(1, 6, 400)})[:150]
    survey.to_csv(tmp_path / "answers.csv", index=False)
    return tmp_path / "answers.csv"


def test_from_answers_to_segments_to_everyone(answers: Path) -> None:
    """The paper's own case: a survey of a few and a table of everyone."""
    folder = answers.parent
    result = run("segments", answers, "-k", 2, "--id", "who", "-o", folder / "segments")
    assert result.exit_code == 0, result.output
    assert "2 segments of 150 respondents" in result.stdout
    assert "--on who" in result.stdout
    names = {"0": "one", "1": "two"}
    (folder / "names.json").write_text(json.dumps(names))
    result = run(
        "segments",
        answers,
        "-k",
        2,
        "--id",
        "who",
        "-o",
        folder / "segments",
        "--names",
        folder / "names.json",
        "--json",
    )
    assert [segment["name"] for segment in json.loads(result.stdout)["segments"]] == ["one", "two"]
    respondents = pd.read_parquet(folder / "segments" / "respondents.parquet")
    assert respondents["who"].tolist()[:2] == ["0000", "0001"]

    options = ("--labels", folder / "segments" / "respondents.parquet", "--on", "who", "--label-weight", "probability")
    result = run("fit", folder / "everyone.csv", *options, "-o", folder / "model", "--method", "tsvm", "--no-report")
    assert result.exit_code == 0, result.output
    assert "150 of 400 rows have a label" in result.stderr
    found = pd.read_parquet(folder / "model" / "predictions.parquet")
    assert found["who"].tolist() == [f"{i:04d}" for i in range(150, 400)]
    assert list(deepsep.load(folder / "model")[0].feature_names_in_) == ["age", "visits"]


def test_a_class_may_be_called_na_in_a_column_of_any_name(answers: Path) -> None:
    labels = answers.with_name("types.csv")
    labels.write_text("who,sure,type\n" + "".join(f"{i:04d},1,{'NA' if i % 2 else 'null'}\n" for i in range(40)))
    result = run("fit", answers.parent / "everyone.csv", "--labels", labels, "--on", "who", "--label-weight", "sure",
                 "-o", answers.parent / "m", "--method", "tsvm", "--no-report", "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["classes"] == ["NA", "null"]
    assert json.loads(result.stdout)["labelled"] == 40


def test_labels_of_nobody_are_refused(answers: Path) -> None:
    other = answers.parent / "other.csv"
    other.write_text("who,segment\nx1,a\nx2,b\n")
    result = run("fit", answers.parent / "everyone.csv", "--labels", other, "--on", "who", "-o", answers.parent / "m")
    assert result.exit_code == 2
    assert "none of the 2 identifiers in the labels is in the population" in result.stderr


@pytest.mark.parametrize("k", ["1", "many", "-2"])
def test_a_number_of_segments_that_makes_no_sense(answers: Path, k: str) -> None:
    result = run("segments", answers, "-k", k, "-o", answers.parent / "segments")
    assert result.exit_code == 2
    assert not (answers.parent / "segments").exists()


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_none_is_an_answer(answers: Path, suffix: str) -> None:
    frame = pd.read_csv(answers, dtype=str)
    early = frame["Gets up"] == "early"
    frame["Pets"] = np.where(early, " None ", "dog")
    frame["Home"] = pd.Series([True if up else "NA" for up in early], dtype=object)
    frame["Sport"] = frame["Sport"].astype(int).astype(object)
    frame.loc[3, ["Pets", "Home"]] = ""
    frame.loc[4, "Sport"] = "null"  # a scale stays one
    file = answers.with_name(f"words.{suffix}")
    frame.to_csv(file, index=False) if suffix == "csv" else frame.to_excel(file, index=False)
    result = run("segments", file, "-k", 2, "--id", "who", "-o", answers.parent / "segments")
    assert result.exit_code == 0, result.output
    assert f"{len(frame) - 1} cells with" in result.stderr
    assert "1 cells with 'null' in columns of numbers are taken as missing" in result.stderr
    found = pd.read_csv(answers.parent / "segments" / "profiles.csv", keep_default_na=False)
    given = {name: set(part["answer"]) for name, part in found.groupby("question")}
    assert given["Pets"] == {"None", "dog"}
    assert given["Home"] == {"Yes", "NA"}
    assert given["Sport"] == set("12345")


def test_segments_do_not_replace_foreign_files(answers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = answers.parent / "project"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "mine.txt").write_text("mine")
    (folder / "summary.json").write_text('{"deepsep": "is nice"}')
    result = run("segments", "no-such-table.csv", "-o", folder)
    assert result.exit_code == 2
    assert "holds files that are no segments of deepsep" in result.stderr
    assert (folder / "model" / "mine.txt").read_text() == "mine"
    monkeypatch.chdir(folder / "model")
    for target in (".", ".."):
        result = run("segments", "no-such-table.csv", "-o", target)
        assert result.exit_code == 2
        assert "is the current folder or holds it" in result.stderr


@pytest.mark.parametrize("name", ["segment", "probability"])
def test_a_respondent_named_like_a_result_is_refused(answers: Path, name: str) -> None:
    pd.read_csv(answers).rename(columns={"who": name}).to_csv(answers, index=False)
    result = run("segments", answers, "-k", 2, "--id", name, "-o", answers.parent / "segments")
    assert result.exit_code == 2
    assert f"the id column is named '{name}', like a column of the result" in result.stderr
    assert "Looking for" not in result.stderr


def test_names_that_somebody_set_are_not_replaced(answers: Path) -> None:
    folder, own = answers.parent / "segments", answers.parent / "own.json"
    command = ("segments", answers, "-k", 2, "-o", folder, "--drop", "who")
    for _ in range(2):  # what was only suggested may go
        assert run(*command).exit_code == 0
    (folder / "names.json").write_text('{"0": "Ours"}')
    own.write_text('{"0": "Theirs"}')
    for options in ((), ("--names", own)):
        result = run(*command, *options)
        assert result.exit_code == 2
        assert f"--names {folder / 'names.json'}" in result.stderr
        assert json.loads((folder / "names.json").read_text()) == {"0": "Ours"}
    assert run(*command, "--names", folder / "names.json").exit_code == 0
    assert run(*command).exit_code == 2  # they are still not the suggested ones
    assert json.loads((folder / "names.json").read_text())["0"] == "Ours"
    assert run(*command, "--names", own).exit_code == 0  # nothing was edited since the last run
    assert json.loads((folder / "names.json").read_text())["0"] == "Theirs"


def test_explain_names_the_columns_that_drive_the_classes(people: Path, model: Path) -> None:
    result = run("explain", model, people, "--label", "segment", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert {line["column"] for line in content["importance"]["columns"] if line["clear"]} == {"age", "plan"}
    assert "which column holds the labels?" in run("explain", model, people).stderr


def test_explain_refuses_labels_of_other_classes(people: Path, model: Path) -> None:
    frame = pd.read_csv(people)
    frame["segment"] = frame["segment"].replace("grey", "green")
    frame.to_csv(people, index=False)
    result = run("explain", model, people, "--label", "segment")
    assert result.exit_code == 2
    assert "the model knows ['blue', 'gold', 'grey']" in result.stderr


@pytest.mark.slow
def test_fit_with_its_report(people: Path) -> None:
    folder = people.parent / "model"
    result = run("fit", people, "--label", "segment", "--id", "customer", "-o", folder, "--json", *SHORT)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["accuracy"]["methods"][0]["key"] == "model"
    assert (folder / "report.html").read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    summary = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert summary["asked"]["label"] == "segment"
    assert run("explain", folder, people).exit_code == 0  # the label's column is known from the report
    deepsep.load(folder)


@pytest.mark.slow
def test_demo_leaves_files_with_which_it_can_be_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    result = run("demo", "-o", folder, "--no-open")
    assert result.exit_code == 0, result.output
    assert "random forest" in result.stdout
    assert str(folder / "model" / "report.html") in result.stdout
    accuracy = json.loads((folder / "demo.json").read_text(encoding="utf-8"))["accuracy"]
    assert accuracy["DeepSep"] > 0.22  # five segments
    first = pd.read_parquet(folder / "model" / "predictions.parquet")
    again = tmp_path / "again"
    options = ("--labels", folder / "survey.csv", "--on", "SEQN", "--no-report")
    assert run("fit", folder / "people.parquet", *options, "-o", again).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_parquet(again / "predictions.parquet"), first)
    scored = tmp_path / "scored.parquet"
    assert run("score", again, folder / "newcomers.parquet", "--id", "SEQN", "-o", scored).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_parquet(scored), pd.read_parquet(folder / "scored.parquet"))


def test_demo_does_not_overwrite_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    result = run("demo", "-o", tmp_path)
    assert result.exit_code == 2
    assert "not of this demonstration" in result.stderr
