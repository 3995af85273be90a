"""``deepsep score``."""

import json
from pathlib import Path

import pandas as pd
import pytest
from command_line import run

import deepsep
import deepsep.scoring.student


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_scores_are_those_of_the_model(people: Path, model: Path, suffix: str) -> None:
    target = people.parent / f"scored.{suffix}"
    result = run("score", model, people, "--id", "customer", "--batch-size", 33, "-o", target, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 200
    predictions = pd.read_parquet(target) if suffix == "parquet" else pd.read_csv(target)
    fitted = deepsep.load(model)
    assert predictions["customer"].tolist() == pd.read_csv(people)["customer"].tolist()
    assert predictions["segment"].tolist() == fitted.predict(pd.read_csv(people)).tolist()
    given = pd.read_parquet(model / "predictions.parquet")
    pd.testing.assert_frame_equal(predictions[30:].reset_index(drop=True), given, check_dtype=False)


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


def test_score_reads_the_sheet_that_is_named(people: Path, model: Path) -> None:
    pytest.importorskip("openpyxl")
    book, target = people.with_name("people.xlsx"), people.with_name("scored.csv")
    with pd.ExcelWriter(book) as writer:
        pd.DataFrame({"about": ["nothing of use"]}).to_excel(writer, sheet_name="Cover", index=False)
        pd.read_csv(people)[:50].to_excel(writer, sheet_name="People", index=False)
    result = run("score", model, book, "--sheet", "People", "--id", "customer", "-o", target, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 50
    given = deepsep.load(model).predict(pd.read_csv(people)[:50])
    assert pd.read_csv(target)["segment"].tolist() == given.tolist()
    result = run("score", model, book, "--sheet", "Peple", "-o", target)
    assert result.exit_code == 2
    assert "Its sheets are ['Cover', 'People']" in result.stderr


def test_the_identifier_is_not_among_the_unexpected_columns(people: Path, model: Path) -> None:
    frame = pd.read_csv(people).rename(columns={"plan": "Plan", "customer": "who"})
    frame.to_csv(people, index=False)
    result = run("score", model, people, "--id", "who", "-o", people.parent / "scored.csv")
    assert result.exit_code == 2
    assert "unexpected: 'Plan', 'segment'\n" in result.stderr


@pytest.fixture
def committee(people: Path) -> Path:
    """The folder of a committee fitted to ``people``, next to it."""
    folder = people.parent / "committee"
    frame = pd.read_csv(people)
    model = deepsep.Committee(members=["logistic-regression", "tsvm"], effort="fast", n_jobs=1, random_state=0)
    deepsep.save(deepsep.for_table(model).fit(frame.drop(columns=["customer", "segment"]), frame["segment"]), folder)
    return folder


def test_the_student_scores_if_asked_or_if_rows_are_many(people: Path, committee: Path, monkeypatch) -> None:
    target, student = people.parent / "scored.parquet", deepsep.load(committee)[-1].student_

    def by(*options: str) -> str:
        result = run("score", committee, people, "-o", target, "--json", *options)
        assert result.exit_code == 0, result.output
        done = json.loads(result.stdout)
        assert done["student"] == {"agreement": student.agreement_, "accuracy_loss": student.accuracy_loss_}
        return done["scored_by"]

    assert by() == by("--exact") == "committee"
    assert by("--fast") == "student"
    monkeypatch.setattr(deepsep.scoring.student, "MANY_ROWS", 199)
    assert by() == "student"
    assert by("--exact") == "committee"
    for options, said, other in (((), "student", "--exact"), (("--exact",), "committee", "--fast")):
        result = run("score", committee, people, "-o", target, *options)
        assert f"Scored by the {said}." in result.stderr
        assert f"agree in {student.agreement_:.1%}" in result.stderr
        assert f"{other} takes the other one" in result.stderr


def test_fast_and_exact_exclude_each_other(people: Path, committee: Path, model: Path) -> None:
    target = people.parent / "scored.csv"
    result = run("score", committee, people, "-o", target, "--fast", "--exact")
    assert result.exit_code == 2
    assert "--fast and --exact exclude each other" in result.stderr
    result = run("score", model, people, "-o", target, "--fast")
    assert result.exit_code == 2
    assert "--fast: the model has no student" in result.stderr
    assert not target.exists()
