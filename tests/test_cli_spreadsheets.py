"""Cells that would command a spreadsheet or a terminal, in the tables of users: in CSV outputs, and on the screen."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import run

from deepsep.table import read_table

FIT = ("--label", "segment", "--id", "customer", "--drop", "weight", "--method", "tsvm", "--no-report")
FORMULA = "=HYPERLINK(A1)"


@pytest.fixture
def hostile(people: Path) -> Path:
    """The table with identifiers that begin like formulas or like numbers, and a class that does."""
    frame = pd.read_csv(people)
    for at, text in ((3, FORMULA), (4, "@sum"), (40, "+cmd|' /C calc'!A0"), (41, "-5"), (42, "-5+A1"), (43, "'=x")):
        frame.loc[at, "customer"] = text
    frame["segment"] = frame["segment"].replace({"gold": "=gold"})
    frame.to_csv(people, index=False)
    return people


def column(file: Path, name: str) -> list[str]:
    return pd.read_csv(file, dtype=str, sep="\t" if file.suffix == ".tsv" else ",", encoding="utf-8-sig")[name].tolist()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "xlsx", "parquet"])
def test_scores_have_the_identifiers_as_they_are_and_say_so(hostile: Path, suffix: str) -> None:
    folder, target = hostile.parent / "model", hostile.parent / f"scored.{suffix}"
    fitted = run("fit", hostile, *FIT, "-o", folder)
    assert "labels_used.csv has cells that begin like a formula" in fitted.stderr
    assert "predictions.csv has cells that begin like a formula" in fitted.stderr
    score = ("score", folder, hostile, "--id", "customer", "-o", target)
    said = run(*score).stderr
    if suffix in ("xlsx", "parquet"):  # whose cells say that they are text
        assert "formula" not in said
        return
    given = column(target, "customer")
    assert given == column(hostile, "customer")
    n_cells = 4 + column(target, "segment").count("=gold")
    assert f"scored.{suffix} has cells that begin like a formula ({n_cells:,}, such as" in said
    assert "--escape-formulas" in said
    assert "formula" not in run(*score, "--escape-formulas").stderr
    escaped = column(target, "customer")
    assert [(old, new) for old, new in zip(given, escaped, strict=True) if old != new] == [
        (text, f"'{text}") for text in (FORMULA, "@sum", "+cmd|' /C calc'!A0", "-5+A1")
    ]
    assert "'=gold" in column(target, "segment")
    assert "=gold" not in column(target, "segment")


def test_escaped_files_can_be_passed_back(hostile: Path) -> None:
    """The labels of the fit are found in its escaped file, and rows to label find their way back."""
    folder, file, again = (hostile.parent / name for name in ("model", "to_label.csv", "again"))
    assert run("fit", hostile, *FIT, "--predictions", "csv", "--escape-formulas", "-o", folder).exit_code == 0
    assert {f"'{FORMULA}", "'@sum"} < set(column(folder / "labels_used.csv", "customer"))
    assert {"'+cmd|' /C calc'!A0", "'-5+A1", "-5"} < set(column(folder / "predictions.csv", "customer"))
    result = run("next", folder, hostile, "-n", 170, "-o", file, "--escape-formulas", "--json")
    assert "formula" not in result.stderr
    assert not {FORMULA, "@sum"} & set(json.loads(result.stdout)["ids"])  # they have labels
    frame = pd.read_csv(file, dtype=str)
    assert "'-5+A1" in set(frame["customer"])
    frame.assign(segment="'=gold").to_csv(file, index=False)
    result = run("fit", hostile, "--labels", file, *FIT, "-o", again)
    assert f"Labels in {file}: 170 new" in result.stderr
    used = read_table(again / "labels_used.csv", label="segment", id="customer")
    assert set(used["segment"]) == {"=gold", "blue", "grey"}
    assert "other.csv has cells" in run("next", folder, hostile, "-n", 170, "-o", file.with_name("other.csv")).stderr


def test_no_control_character_reaches_the_terminal(people: Path) -> None:
    frame = pd.read_csv(people).rename(columns={"plan": "pl\x1b]0;owned\x07an"})
    frame["segment"] = frame["segment"].replace({"gold": "go\x1b[31mld", "blue": "bl\u202eue"})
    frame.insert(0, "al\x9bl", 1)  # constant
    frame.to_csv(people, index=False)
    folder, target = people.parent / "model", people.parent / "scored.parquet"
    told = [
        run("check", people, "--label", "segment"),
        run("fit", people, *FIT, "-o", folder),
        run("score", folder, people, "-o", target),
        run("score", folder, people, "-o", target, "--json"),
        run("score", folder, people, "--id", "no\x1bne", "-o", target),
        run("explain", folder, people, "--row", 2),
        run("next", folder, people, "-o", people.parent / "next.csv"),
    ]
    shown = "".join(each.stdout + each.stderr for each in told)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert "go\\u001b[31mld" in shown
    assert set(json.loads(told[3].stdout)["labels"]) == {"go\x1b[31mld", "bl\u202eue", "grey"}
    assert "no\\u001bne" in told[4].stderr or "no\\x1bne" in told[4].stderr
