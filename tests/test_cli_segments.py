"""``deepsep segments``, and a fit to the segments that it finds."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

import deepsep


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
    page = (folder / "segments" / "segments.html").read_text(encoding="utf-8")
    assert all(words in page for words in ("2 segments of 150 respondents", "one</h3>", "two</h3>"))

    options = ("--labels", folder / "segments" / "respondents.parquet", "--on", "who", "--label-weight", "probability")
    result = run("fit", folder / "everyone.csv", *options, "-o", folder / "model", "--method", "tsvm", "--no-report")
    assert result.exit_code == 0, result.output
    assert "150 of 400 rows have a label" in result.stderr
    predictions = pd.read_csv(folder / "model" / "predictions.csv", dtype={"who": str})
    assert predictions["who"].tolist() == [f"{i:04d}" for i in range(150, 400)]
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
    assert "1 cells with 'null' in numeric columns are taken as missing" in result.stderr
    table = pd.read_csv(answers.parent / "segments" / "profiles.csv", keep_default_na=False)
    given = {name: set(part["answer"]) for name, part in table.groupby("question")}
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
    assert "did not write" in result.stderr
    assert (folder / "model" / "mine.txt").read_text() == "mine"
    monkeypatch.chdir(folder / "model")
    for target in (".", ".."):
        result = run("segments", "no-such-table.csv", "-o", target)
        assert result.exit_code == 2
        assert "is the current folder or a parent of it" in result.stderr


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
