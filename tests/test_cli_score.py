"""``deepsep score``."""

import json
import os
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_line import run
from openpyxl import load_workbook

import deepsep
import deepsep.scoring.who_scores


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
    given = pd.read_csv(model / "predictions.csv")
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
    monkeypatch.setattr(deepsep.scoring.who_scores, "MANY_ROWS", 199)
    assert by() == "student"
    assert by("--exact") == "committee"
    for options, said, other in (
        ((), "student", "--exact takes the committee"),
        (("--exact",), "committee", "--fast takes the student"),
    ):
        result = run("score", committee, people, "-o", target, *options)
        assert f"Scored by the {said}." in result.stderr
        assert f"agree in {student.agreement_:.1%}" in result.stderr
        assert other in result.stderr


def test_fast_and_exact_exclude_each_other(people: Path, committee: Path, model: Path) -> None:
    target = people.parent / "scored.csv"
    result = run("score", committee, people, "-o", target, "--fast", "--exact")
    assert result.exit_code == 2
    assert "--fast and --exact exclude each other" in result.stderr
    result = run("score", model, people, "-o", target, "--fast")
    assert result.exit_code == 2
    assert "--fast: the model has no student" in result.stderr
    assert not target.exists()


def changed(people: Path) -> Path:
    file = people.with_name("changed.csv")
    frame = pd.read_csv(people)
    frame.assign(age=frame["age"] * 1_000, plan=frame["plan"].mask(frame.index % 8 == 0, "gold")).to_csv(
        file, index=False
    )
    return file


def test_score_says_what_has_changed(people: Path, model: Path) -> None:
    target = people.with_name("scored.csv")
    result = run("score", model, changed(people), "--id", "customer", "-o", target)
    assert result.exit_code == 0, result.output
    assert "age: 100 % of the values are above the largest value of the training table" in result.stderr
    assert "about 1,000 times as large: was it rescaled?" in result.stderr
    assert "plan: 12 % of the values do not occur in the training table, such as 'gold'." in result.stderr
    fingerprint = deepsep.load(model)[-1].data_fingerprint_
    assert "Model model (TSVM of 20" in result.stderr
    assert f"training data {fingerprint})" in result.stderr
    written = json.loads(target.with_name("scored.drift.json").read_text(encoding="utf-8"))
    assert written["drift"]["columns"]["age"]["above"] == 1
    assert written["model"]["training_data"] == fingerprint


def test_score_fails_on_drift_if_asked_to_once_the_output_is_written(people: Path, model: Path) -> None:
    target = people.with_name("scored.parquet")
    again = run("score", model, people, "--id", "customer", "-o", target, "--fail-on-drift", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["drift"]["drifted"] is False
    target.unlink()
    result = run("score", model, changed(people), "--id", "customer", "-o", target, "--fail-on-drift", "--json")
    assert result.exit_code == 3
    assert len(pd.read_parquet(target)) == 200
    content = json.loads(result.stdout)
    assert content["drift"]["columns"]["age"]["drifted"][0] == "above"
    assert any("training table" in text for text in content["warnings"])


def test_a_model_without_a_profile_cannot_fail_on_drift(people: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(people)
    fitted = deepsep.for_table(deepsep.TSVM()).fit(frame[["age", "plan"]], frame["segment"])
    deepsep.save(fitted, tmp_path / "old")
    target = tmp_path / "scored.csv"
    result = run("score", tmp_path / "old", people, "--id", "customer", "-o", target, "--fail-on-drift")
    assert result.exit_code == 2
    assert "has no profile of its training table. Fit it again" in result.stderr
    assert not target.exists()
    assert run("score", tmp_path / "old", changed(people), "--id", "customer", "-o", target).exit_code == 0
    assert json.loads((tmp_path / "scored.drift.json").read_text(encoding="utf-8"))["drift"] is None


@pytest.mark.parametrize("suffix", ["parquet", "xlsx"])
def test_scored_files_name_their_model(people: Path, model: Path, suffix: str) -> None:
    target = people.with_name(f"scored.{suffix}")
    assert run("score", model, people, "--id", "customer", "-o", target).exit_code == 0
    if suffix == "parquet":
        about = json.loads(pq.read_schema(target).metadata[b"deepsep_model"])
    else:
        about = json.loads(load_workbook(target).properties.description)
    manifest = json.loads((model / "manifest.json").read_bytes())
    assert about == {
        "name": "model",
        "method": "TSVM",
        "created": manifest["created"],
        "deepsep": deepsep.__version__,
        "training_data": manifest["estimator"]["data_fingerprint_"],
        "sha256": manifest["sha256"],
    }


def test_the_profile_respects_weights(people: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(people)
    heavy = frame.assign(weight=(frame["plan"] != "free").astype(float).where(frame["segment"].isna(), 1.0))
    heavy.to_csv(people, index=False)
    options = ("--label", "segment", "--id", "customer", "--weight", "weight", "--method", "tsvm", "--no-report")
    assert run("fit", people, *options, "-o", tmp_path / "m").exit_code == 0
    profile = deepsep.load(tmp_path / "m").training_profile_
    plan = profile.columns["plan"]
    counted = heavy[heavy["weight"] > 0]
    assert profile.rows == len(counted)
    free = plan.shares[plan.levels.index("free")] if "free" in plan.levels else 1 - sum(plan.shares)
    assert free == pytest.approx((counted["plan"] == "free").mean(), abs=1e-5)


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="needs a file system that takes any bytes")
def test_paths_in_another_encoding_are_named(people: Path, model: Path) -> None:
    """As all others are, where the locale is C and Python must not mend it."""
    target = people.with_name(os.fsdecode("gr\u00f6\u00dfe.csv".encode("latin-1")))
    result = run("score", model, people, "-o", target)
    assert (result.exit_code, "Traceback" in result.stderr) == (2, False)
    assert "gr\\udcf6\\udcdfe.csv" in result.stderr
    assert "is not UTF-8, as paths must be. Rename the file, or set LC_ALL=C.UTF-8" in result.stderr
    assert not [file for file in people.parent.iterdir() if file.name.startswith((".gr", "gr"))]
