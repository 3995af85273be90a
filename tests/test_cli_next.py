"""``deepsep next``, and the way of its labels back into ``deepsep fit``."""

import json
import re
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from command_line import run

import deepsep
from deepsep.table import read_table

FIT = ("--label", "segment", "--drop", "weight", "--method", "tsvm", "--no-report")


@pytest.fixture
def fitted(people: Path) -> Path:
    """The folder of a model that knows its identifiers."""
    folder = people.parent / "fitted"
    assert run("fit", people, "--id", "customer", *FIT, "-o", folder).exit_code == 0
    return folder


def fill(file: Path, label: str = "grey", rows: int | None = None) -> list[str]:
    """Fill in labels as a person does, and return the identifiers."""
    ids = read_table(file, id=read_table(file).columns[0]).iloc[:rows, 0].astype(str).tolist()
    if file.suffix == ".xlsx":
        book = openpyxl.load_workbook(file)
        at = [cell.value for cell in book.worksheets[0][1]].index("segment") + 1
        for i in range(len(ids)):
            book.worksheets[0].cell(i + 2, at).value = label
        book.save(file)
    else:
        frame = pd.read_csv(file, dtype=str)
        frame.loc[: len(ids) - 1, "segment"] = label
        frame.to_csv(file, index=False, sep=";", encoding="cp1252")  # as Excel does in much of Europe
    return ids


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_filled_in_labels_go_straight_back(people: Path, fitted: Path, kind: str) -> None:
    file, again = people.parent / f"to_label.{kind}", people.parent / "again"
    result = run("next", fitted, people, "-n", 6, "-o", file)
    assert result.exit_code == 0, result.output
    assert f"--label segment --id customer --labels {file}" in result.stdout
    before = read_table(fitted / "labels_used.csv", label="segment", id="customer").astype(str)
    ids = fill(file, rows=4)
    assert not set(ids) & set(before["customer"])
    result = run("fit", people, "--id", "customer", "--labels", file, *FIT, "-o", again)
    assert result.exit_code == 0, result.output
    assert f"Labels in {file}: 4 new, 0 known and the same. 34 of 200 rows have one now." in result.stderr
    after = read_table(again / "labels_used.csv", label="segment", id="customer").astype(str)
    wanted = dict(zip(before["customer"], before["segment"], strict=True)) | dict.fromkeys(ids, "grey")
    assert dict(zip(after["customer"], after["segment"], strict=True)) == wanted


def test_a_second_round_keeps_the_labels_of_the_first(people: Path, fitted: Path) -> None:
    first, second, again = (people.parent / name for name in ("one.csv", "two.csv", "again"))
    run("next", fitted, people, "-n", 3, "-o", first)
    one = fill(first)
    assert run("fit", people, "--id", "customer", "--labels", first, *FIT, "-o", again).exit_code == 0
    result = run("next", again, people, "-n", 3, "-o", second)
    assert f"--labels {again / 'labels_used.csv'} --labels {second}" in result.stdout
    two = fill(second)
    assert not set(one) & set(two)
    result = run(
        "fit", people, "--id", "customer", "--labels", again / "labels_used.csv", "--labels", second, *FIT, "-o", again
    )
    assert "36 of 200 rows have one now" in result.stderr
    assert set(one + two) <= set(read_table(again / "labels_used.csv", id="customer")["customer"].astype(str))


def test_row_numbers_take_the_place_of_identifiers(people: Path) -> None:
    folder, file = people.parent / "fitted", people.parent / "to_label.csv"
    assert run("fit", people, *FIT, "-o", folder).exit_code == 0
    bare = people.parent / "bare.csv"
    pd.read_csv(people).drop(columns="segment").to_csv(bare, index=False)
    result = run("next", folder, bare, "-n", 5, "-o", file, "--json")
    chosen = json.loads(result.stdout)
    assert (chosen["id"], chosen["rows"]) == ("row", 5)
    assert not set(chosen["ids"]) & set(read_table(folder / "labels_used.csv")["row"])
    fill(file)
    result = run("fit", people, "--labels", file, *FIT, "-o", folder)
    assert result.exit_code == 0, result.output
    assert "5 new" in result.stderr
    assert "row" not in deepsep.load(folder)[0].feature_names_in_


def test_contradictions_are_listed_and_settled_by_an_option(people: Path) -> None:
    frame, folder, file = pd.read_csv(people), people.parent / "m", people.parent / "more.csv"
    old = frame.dropna(subset="segment").iloc[0]
    new = "gold" if old["segment"] != "gold" else "blue"
    file.write_text(f"customer,segment\n{old['customer']},{new}\n")
    fit = ("fit", people, "--id", "customer", "--labels", file, *FIT, "-o", folder)
    result = run(*fit)
    assert result.exit_code == 2
    assert f"customer {old['customer']} ({old['segment']!r}, now {new!r})" in result.stderr
    assert "--prefer new, or old" in result.stderr
    for prefer, wanted in (("new", new), ("old", old["segment"])):
        assert run(*fit, "--prefer", prefer).exit_code == 0
        labels = read_table(folder / "labels_used.csv").set_index("customer")["segment"]
        assert labels[old["customer"]] == wanted
        assert len(labels) == 30


def test_labels_that_were_filled_in_are_never_overwritten(people: Path, fitted: Path) -> None:
    file = people.parent / "to_label.csv"
    for _ in range(2):  # an empty one is replaced
        assert run("next", fitted, people, "-n", 3, "-o", file).exit_code == 0
    fill(file, rows=2)
    filled = file.read_bytes()
    result = run("next", fitted, people, "-n", 3, "-o", file)
    assert result.exit_code == 2
    assert "has 2 labels that someone filled in" in result.stderr
    assert "is another file" in run("next", fitted, people, "-o", people).stderr
    assert "must end in .csv, .tsv or .xlsx" in run("next", fitted, people, "-o", people.with_suffix(".txt")).stderr
    assert file.read_bytes() == filled


def test_equally_many_of_each_class(people: Path, fitted: Path) -> None:
    result = run("next", fitted, people, "-n", 6, "--per-class", "-o", people.parent / "r.csv", "--json")
    assert json.loads(result.stdout)["guesses"] == {"blue": 2, "gold": 2, "grey": 2}


def test_prefer_belongs_to_labels(people: Path) -> None:
    result = run("fit", people, *FIT, "-o", people.parent / "m", "--prefer", "new")
    assert "--prefer belongs to --labels" in result.stderr


def test_a_committee_lists_suspicious_labels(people: Path) -> None:
    folder = people.parent / "m"
    members = ("--set", "members=['logistic-regression','knn']", "--effort", "fast", "--set", "student=False")
    result = run("fit", people, "--id", "customer", "--label", "segment", *members, "--no-report", "-o", folder)
    assert result.exit_code == 0, result.output
    doubtful = read_table(folder / "suspicious.csv")
    assert list(doubtful)[:3] == ["customer", "given", "predicted"]
    wanted = deepsep.suspicious_labels(deepsep.load(folder), ids=pd.read_csv(people)["customer"])
    wanted = wanted[wanted["given"] != wanted["predicted"]]
    assert doubtful["customer"].tolist() == wanted["customer"].tolist()
    assert str(folder / "suspicious.csv") in result.stdout


def test_a_committee_says_what_more_labels_would_buy(people: Path) -> None:
    folder, file = people.parent / "m", people.parent / "to_label.csv"
    members = ("--set", "members=['knn']", "--effort", "fast", "--set", "student=False")
    fit = ("fit", people, "--id", "customer", "--label", "segment", *members, "--no-report", "-o", folder)
    result = run(*fit)
    assert result.exit_code == 0, result.output
    said = re.search("50 more labels, drawn like these, .*", result.stdout)
    assert said is not None
    assert said[0] in run("next", folder, people, "-n", 6, "-o", file).stdout
    content = json.loads(run("next", folder, people, "-n", 6, "-o", file, "--json").stdout)
    gain = deepsep.load(folder)[-1].learning_curve_.gain(50)
    assert content["more_labels"] == {"labels": 50, "gain": gain.value, "interval": gain.interval}
    assert "50 more labels" not in run(*fit, "--set", "learning_curve=false").stdout
    content = json.loads(run("next", folder, people, "-n", 6, "-o", file, "--json").stdout)
    assert content["more_labels"] is None
