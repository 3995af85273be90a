"""``deepsep fit``: models, options, and outputs that are whole or not there at all."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import SHORT, run

import deepsep
from deepsep.cli.estimator import parse_settings


def test_fit_writes_a_model_that_says_the_same_as_its_predictions(people: Path) -> None:
    folder = people.parent / "model"
    result = run(
        "fit", people, "--label", "segment", "--id", "customer", "--drop", "weight", "-o", folder, "--no-report", *SHORT
    )
    assert result.exit_code == 0, result.output
    frame, predictions = pd.read_csv(people), pd.read_csv(folder / "predictions.csv")
    fitted = deepsep.load(folder)
    assert fitted[0].schema_ == {"age": "number", "plan": "text"}
    assert fitted[-1].verbose == 0
    rest = frame[frame["segment"].isna()]
    assert predictions["customer"].tolist() == rest["customer"].tolist()
    proba = fitted.predict_proba(rest)
    columns = [f"probability_{name}" for name in fitted.classes_]
    np.testing.assert_allclose(predictions[columns].to_numpy(), proba, atol=1e-6)
    assert predictions["segment"].tolist() == fitted.classes_[proba.argmax(axis=1)].tolist()
    np.testing.assert_array_equal(predictions["confidence"], predictions[columns].max(axis=1))


def test_fit_speaks_to_people_on_stdout_and_says_what_to_do_next(people: Path) -> None:
    result = run("fit", people, "--label", "segment", "-o", people.parent / "model", "--method", "tsvm", "--no-report")
    assert "Reading" in result.stderr
    assert "Reading" not in result.stdout
    assert "Fitted tsvm to 200 rows, 30 of them labelled" in result.stdout
    assert f"Next: deepsep score {people.parent / 'model'}" in result.stdout


def test_fit_says_how_many_rows_of_the_table_the_model_contains(people: Path) -> None:
    chosen = ("--set", "view=columns", "--set", "n_members=1", "--set", "context_size=50")
    result = run("fit", people, "--label", "segment", "-o", people.parent / "model", "--method", "in-context", *chosen,
                 "--no-report")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "it contains 50 rows of this table, with their labels" in result.stdout


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
    assert "weight column 'plan' holds text, such as" in result.stderr


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
        (("--method", "deepsep", "--set", "rouns=3"), "no setting 'rouns'"),
        (("--set", "rounds"), "write it as name=value"),
        (("--method", "deepsep", "--set", "rounds=-3"), "rounds=-3"),
        (("--set", "rounds=3"), "committee has no setting 'rounds'"),
        (("--method", "tsvm", "--effort", "fast"), "--effort is for the committee"),
        (("--effort", "fast", "--set", "effort=best"), "Leave one of them out"),
        (("--set", "effort=huge"), "effort='huge'"),
        (("--set", "members=['forest']"), "there is no method 'forest'"),
        (("--method", "knn", "--priors", "p.csv"), "knn takes no priors"),
        (("--method", "label-spreading", "--weight", "weight"), "takes no weights"),
        (("--on", "customer"), "--on belongs to --labels"),
        (("--labels", "other.csv"), "other.csv does not exist"),
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


@pytest.mark.parametrize("name", ["confidence", "probability_gold"])
def test_an_identifier_named_like_a_result_is_refused(people: Path, name: str) -> None:
    pd.read_csv(people).rename(columns={"customer": name}).to_csv(people, index=False)
    result = run("fit", people, "--label", "segment", "--id", name, "-o", people.parent / "m", "--method", "tsvm")
    assert result.exit_code == 2
    assert f"the id column is named '{name}', like a column of the result" in result.stderr
    assert "Fitting" not in result.stderr


def test_a_foreign_folder_is_refused_before_the_work_begins(people: Path) -> None:
    folder = people.parent / "photos"
    folder.mkdir()
    (folder / "cat.txt").write_text("cat")
    result = run("fit", "no-such-table.csv", "--label", "segment", "-o", folder)
    assert result.exit_code == 2
    assert "holds files that are not a deepsep model" in result.stderr
    assert [item.name for item in folder.iterdir()] == ["cat.txt"]


def test_a_second_fit_replaces_model_predictions_and_report_and_keeps_other_files(people: Path, model: Path) -> None:
    (model / "notes.txt").write_text("mine")
    (model / "report.html").write_text("of an earlier model")
    result = run("fit", people, "--label", "segment", "-o", model, "--method", "logistic-regression", "--no-report")
    assert result.exit_code == 0, result.output
    assert (model / "notes.txt").read_text() == "mine"
    assert not (model / "report.html").exists()
    assert re.search(r"holds a model \(\w+ of \d{4}-\d\d-\d\d \d\d:\d\d UTC\)\. The new one replaces it", result.stderr)
    assert re.search(r"\(replaces \w+ of 20", result.stdout)
    assert "customer" not in pd.read_csv(model / "predictions.csv").columns


def test_a_failure_in_the_report_leaves_nothing(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("deepsep.model.table_model.summarize", fail)
    result = run("fit", people, "--label", "segment", "-o", people.parent / "model", "--method", "tsvm")
    assert result.exit_code == 1
    assert "No space left on device" in result.stderr
    assert [item.name for item in people.parent.iterdir()] == [people.name]


TOGETHER = ("--effort", "fast", "--set", "members=['tsvm','logistic-regression']", "--set", "n_jobs=1")


def test_a_committee_is_the_default_and_says_what_it_will_do(people: Path) -> None:
    folder = people.parent / "model"
    result = run("fit", people, "--label", "segment", "-o", folder, "--no-report", *TOGETHER)
    assert result.exit_code == 0, result.output
    model = deepsep.load(folder)[-1]
    assert isinstance(model, deepsep.Committee)
    assert (model.effort, model.twins, list(model.members_)) == ("fast", False, ["tsvm", "logistic-regression"])
    assert "It has 2 members, each fitted to all rows, and to the other rows in each of 3 folds:" in result.stderr
    assert "In all 8 fits: less than a minute on 1 core" in result.stderr


def test_a_committee_reports_what_it_has_measured(people: Path) -> None:
    folder = people.parent / "model"
    result = run("fit", people, "--label", "segment", "--id", "customer", "-o", folder, *TOGETHER)
    assert result.exit_code == 0, result.output
    summary = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    expected = deepsep.load(folder)[-1].expected_accuracy_
    assert summary["accuracy"]["methods"][0]["accuracy"] == {"value": expected.value, "interval": expected.interval}
    assert all(sentence in result.stdout for sentence in summary["verdict"])
    assert summary["verdict"][0].startswith("Usable, if the labels were drawn at random: expect the committee")
    assert re.search(r"^logistic regression +0\.\d\d +\d+", result.stdout, re.M)
    explained = run("explain", folder, people, "--json")
    assert explained.exit_code == 0, explained.output
    assert "five fits of a random forest" in explained.stderr
    assert json.loads(explained.stdout)["importance"]["columns"][0]["column"] in ("age", "plan")


@pytest.mark.parametrize(("after", "code"), [(1, 130), (5, 0)])
def test_ctrl_c_keeps_a_committee_whose_members_are_all_fitted(
    people: Path, monkeypatch: pytest.MonkeyPatch, after: int, code: int
) -> None:
    place = "deepsep.classifiers.committee.fits.in_parallel"
    in_parallel = import_module("deepsep.classifiers.committee.fits").in_parallel

    def interrupted(*arguments: Any) -> Iterator[Any]:
        yield from islice(in_parallel(*arguments), after)
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    folder = people.parent / "model"
    result = run("fit", people, "--label", "segment", "-o", folder, *TOGETHER, "--json")
    assert result.exit_code == code
    assert folder.exists() == (code == 0)
    if code:
        assert "Interrupted. Nothing was written." in result.stderr
        return
    content = json.loads(result.stdout)
    assert content["accuracy"]["held_out"] == 10  # of 30 labels: one fold of three
    assert "rest on 1 of 3 folds" in content["warnings"][-1]
    assert "Ctrl-C again ends without one" in result.stderr


def test_a_json_result_has_the_verdict_and_the_members(people: Path) -> None:
    result = run("fit", people, "--label", "segment", "-o", people.parent / "m", *TOGETHER, "--json")
    content = json.loads(result.stdout)
    assert content["outcome"]["verdict"] == "usable"
    assert [line["key"] for line in content["members"]["lines"]] == ["tsvm", "logistic-regression"]
    assert content["rows_in_model"] == 0


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


def counted(monkeypatch: pytest.MonkeyPatch, place: str) -> list[Any]:
    """Let calls of a function be counted; returns the first arguments of the calls."""
    module, _, name = place.rpartition(".")
    original, calls = getattr(import_module(module), name), []

    def count(*arguments: Any, **settings: Any) -> Any:
        calls.append(arguments[0])
        return original(*arguments, **settings)

    monkeypatch.setattr(place, count)
    return calls


def test_everything_is_read_checked_converted_and_written_once(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = people.parent / "model"
    shares = people.parent / "shares.json"
    shares.write_text('{"gold": 0.3, "blue": 0.3, "grey": 0.4}')
    labels = counted(monkeypatch, "deepsep.core.labels.read_labels")
    columns = counted(monkeypatch, "deepsep.table.columns.convert")
    checks = counted(monkeypatch, "deepsep.files.manifest.check_model_folder")
    tables = counted(monkeypatch, "deepsep.model.training_table.read_table")
    models = counted(monkeypatch, "deepsep.model.model_folder.model_files")
    written = counted(monkeypatch, "deepsep.model.model_folder.install")
    options = ("--label", "segment", "--id", "customer", "--method", "tsvm", "--priors", shares)
    assert run("fit", people, *options, "--no-report", "-o", folder).exit_code == 0
    assert sorted(column.name for column in columns) == ["age", "plan", "weight"]
    assert [len(calls) for calls in (labels, tables, checks, models, written)] == [1, 1, 1, 1, 1]


def test_a_report_reads_the_labels_of_the_table_no_second_time(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    monkeypatch.setattr("deepsep.report.held_out.FOREST_TREES", 5)
    monkeypatch.setattr("deepsep.evaluation.intervals.N_RESAMPLES", 20)
    labels = counted(monkeypatch, "deepsep.core.labels.read_labels")
    options = ("--label", "segment", "--id", "customer", "--method", "tsvm")
    assert run("fit", people, *options, "-o", people.parent / "model").exit_code == 0
    assert [len(y) for y in labels].count(200) == 1  # the fits of the folds have fewer rows


@pytest.mark.parametrize("suffix", ["parquet", "xlsx", "tsv"])
def test_predictions_have_the_format_of_the_table(people: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, table, options = pd.read_csv(people), people.with_suffix(f".{suffix}"), ("--label", "segment", "--no-report")
    if suffix == "tsv":
        frame.to_csv(table, sep="\t", index=False)
    else:
        (frame.to_excel if suffix == "xlsx" else frame.to_parquet)(table, index=False)
    folder, wanted = people.parent / "model", {"tsv": "csv"}.get(suffix, suffix)
    result = run("fit", table, *options, "--method", "tsvm", "-o", folder)
    assert result.exit_code == 0, result.output
    assert [file.name for file in folder.glob("predictions.*")] == [f"predictions.{wanted}"]
    assert f"Open first: {folder / f'predictions.{wanted}'}" in result.stdout
    deepsep.fit(table, label="segment", method="tsvm").save(people.parent / "again", report=False)
    assert (people.parent / "again" / f"predictions.{wanted}").exists()
    if suffix == "xlsx":
        monkeypatch.setattr("deepsep.table.excel_cells.MAX_SHEET_ROWS", 100)
        assert run("fit", table, *options, "--method", "tsvm", "-o", folder).exit_code == 0
        assert [file.name for file in folder.glob("predictions.*")] == ["predictions.csv"]


@pytest.mark.parametrize("suffix", ["parquet", "xlsx"])
def test_predictions_in_another_format_replace_those_of_an_earlier_fit(people: Path, suffix: str) -> None:
    folder = people.parent / "model"
    options = ("--label", "segment", "--id", "customer", "-o", folder, "--no-report", "--method", "tsvm")
    assert run("fit", people, *options).exit_code == 0
    wanted = pd.read_csv(folder / "predictions.csv")
    result = run("fit", people, *options, "--predictions", suffix)
    assert result.exit_code == 0, result.output
    assert f"predictions.{suffix}" in result.stdout
    assert [file.name for file in folder.glob("predictions.*")] == [f"predictions.{suffix}"]
    read = pd.read_excel if suffix == "xlsx" else pd.read_parquet
    pd.testing.assert_frame_equal(
        read(folder / f"predictions.{suffix}"), wanted.reset_index(drop=True), check_dtype=False
    )
