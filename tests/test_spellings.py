"""Spellings of a class are merged on request, and words mean no label on request."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import run
from hypothesis import given
from hypothesis import strategies as st

import deepsep
from deepsep.core.labels import folded
from deepsep.errors import DataError
from deepsep.table.spellings import clean_labels

MERGED = ("--merge-spellings", "--no-label", "unknown")


def misspelt(people: Path) -> pd.DataFrame:
    """Return the people with ten spellings of their classes, and a word for no label."""
    frame = pd.read_csv(people)
    other = {
        0: "Gold",
        1: "gold ",
        2: "BLUE",
        3: "göld",
        4: "Unknown ",
        5: "unknown",
    }
    frame["segment"] = [other.get(i, name) for i, name in enumerate(frame["segment"])]
    return frame


def write_as_excel(frame: pd.DataFrame, people: Path) -> Path:
    table = people.with_suffix(".xlsx")
    frame.to_excel(table, index=False)
    return table


def test_merged_spellings_are_listed_in_check_fit_report_and_label(people: Path) -> None:
    table, folder = write_as_excel(misspelt(people), people), people.parent / "model"
    options = ("--label", "segment", "--id", "customer")
    checked = json.loads(run("check", table, *options, *MERGED, "--json").stdout)
    assert set(checked["labels"]["classes"]) == {"gold", "blue", "grey"}
    assert checked["labels"]["labelled"] == 28
    (note,) = (finding for finding in checked["findings"] if finding["code"] == "merged-spellings")
    assert "'gold' for 'Gold'" in note["message"]
    assert "'blue' for 'BLUE'" in note["message"]
    result = run("fit", table, *options, *MERGED, "--method", "logistic-regression", "-o", folder, "--json")
    assert result.exit_code == 0, result.output
    assert note in json.loads(result.stdout)["findings"]
    assert "are one class" in (folder / "report.html").read_text(encoding="utf-8")
    assert sorted(deepsep.load(folder).classes_) == ["blue", "gold", "grey"]
    codes = {finding["code"] for finding in json.loads(run("check", table, *options, "--json").stdout)["findings"]}
    assert {"alike-classes", "missing-class"} <= codes
    result = run("next", folder, table, "-n", 200, "-o", people.parent / "more.csv")
    assert "There are only 172 unlabelled rows." in result.stderr
    assert "--merge-spellings --no-label unknown" in result.stdout


@pytest.mark.parametrize("unlabeled", [None, 50])
def test_labels_of_another_table_are_merged_too(people: Path, unlabeled: int | None) -> None:
    frame = misspelt(people)
    new = pd.DataFrame({"customer": frame["customer"][1:3], "segment": ["GOLD" if i == 1 else "blue" for i in (1, 2)]})
    asked = {"label": "segment", "id": "customer", "method": "tsvm", "unlabeled": unlabeled}
    with pytest.raises(DataError, match="2 new labels contradict"):
        deepsep.fit(frame, labels=new, **asked)
    model = deepsep.fit(frame, labels=new, merge_spellings=True, no_label="unknown", **asked)
    assert sorted(model.classes_) == ["blue", "gold", "grey"]
    assert len(model.training.labels.codes[model.training.labeled]) == 28
    assert model.origin_.no_label == ("unknown",)


def test_a_word_that_no_label_has_is_an_error(people: Path) -> None:
    result = run("check", people, "--label", "segment", "--no-label", "unknwon")
    assert result.exit_code == 2
    assert "--no-label unknwon: no label is written like this. The labels are" in result.stderr


@given(st.lists(st.text("aAäÄbB \u0308", min_size=1, max_size=4).filter(str.strip), max_size=12))
def test_only_case_blanks_and_accents_are_merged(names: list[str]) -> None:
    (cleaned,), merged = clean_labels([pd.Series(names, dtype=object)], merge=True, no_label=())
    for one, new in zip(names, cleaned, strict=True):
        assert folded(one) == folded(new)
        for other, also in zip(names, cleaned, strict=True):
            assert (new == also) == (folded(one) == folded(other))
    assert all(set(others) <= set(names) for others in merged.values())


def test_numbers_and_gaps_stay_as_they_are() -> None:
    column = pd.Series([1, 2, 99, None])
    (cleaned,), merged = clean_labels([column], merge=True, no_label=["99"])
    assert cleaned.dropna().tolist() == [1, 2]
    assert merged == {}
