"""``deepsep assign``, and segments with survey weights on the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_line import run

from deepsep import SurveySegments, load
from deepsep.errors import ParameterError
from deepsep.scoring import score_frame
from deepsep.survey import assign_segments


@pytest.fixture
def segments(answers: Path) -> Path:
    folder = answers.parent / "segments"
    assert run("segments", answers, "-k", 2, "--id", "who", "--separator", ";", "-o", folder).exit_code == 0
    return folder


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx"])
def test_respondents_get_the_segments_that_they_had(answers: Path, segments: Path, suffix: str) -> None:
    source, target = answers.with_name(f"again.{suffix}"), answers.with_name(f"assigned.{suffix}")
    frame = pd.read_csv(answers, dtype={"who": str})[::-1][["Sport", "who", "Gets up", "Drinks"]]  # in any order
    getattr(frame, {"csv": "to_csv", "parquet": "to_parquet", "xlsx": "to_excel"}[suffix])(source, index=False)
    result = run("assign", segments / "model", source, "--id", "who", "-o", target)
    assert result.exit_code == 0, result.output
    assert "Gave 150 of 150 respondents a segment" in result.stdout
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "xlsx": pd.read_excel}[suffix]
    mine = read(target, **({} if suffix == "parquet" else {"dtype": {"who": str}})).sort_values("who")
    known = pd.read_parquet(segments / "respondents.parquet")
    pd.testing.assert_frame_equal(mine.reset_index(drop=True), known, check_dtype=False, rtol=1e-12)
    if suffix == "parquet":
        about = json.loads(pq.read_schema(target).metadata[b"deepsep_model"])
        assert about["sha256"] == json.loads((segments / "model" / "manifest.json").read_text())["sha256"]


def test_what_does_not_count_is_said(answers: Path, segments: Path) -> None:
    new = answers.with_name("new.csv")
    new.write_text("who,Drinks,Gets up,Shoes\na,tea; cola,early,42\nb,cola,,43\nc,cola;tea,late,44\n")
    result = run("assign", segments, new, "--id", "who", "-o", answers.with_name("out.csv"), "--json")
    done = json.loads(result.stdout)
    assert (done["absent"], done["unknown"], done["ignored"]) == (["Sport"], {"Drinks": {"cola": 3}}, ["Shoes"])
    assert (done["rows"], done["without_segment"], sum(done["segments"].values())) == (3, 1, 2)
    assert any("Sport" in text and "not answered" in text for text in done["warnings"])
    out = pd.read_csv(answers.with_name("out.csv"))
    assert out["segment"].isna().tolist() == [False, True, False]
    np.testing.assert_allclose(out.filter(like="probability_").sum(axis=1), 1)


def test_a_table_without_any_question_is_refused(answers: Path, segments: Path) -> None:
    result = run("assign", segments, answers.parent / "everyone.csv", "-o", answers.with_name("out.csv"))
    assert result.exit_code == 2
    assert "none of the 3 questions" in result.stderr
    assert not answers.with_name("out.csv").exists()


def test_each_model_has_its_command(answers: Path, segments: Path, people: Path, model: Path) -> None:
    result = run("score", segments / "model", answers, "-o", answers.with_name("out.csv"))
    assert result.exit_code == 2
    assert "deepsep assign" in result.stderr
    result = run("assign", model, people, "-o", people.with_name("out.csv"))
    assert result.exit_code == 2
    assert "deepsep score" in result.stderr
    for command in (("next", segments / "model", answers, "-o", "x.csv"), ("explain", segments / "model", answers)):
        result = run(*command)
        assert result.exit_code == 2
        assert "deepsep assign" in result.stderr
    with pytest.raises(ParameterError, match="assign_segments"):
        score_frame(load(segments / "model"), pd.read_csv(answers))


@pytest.mark.parametrize("output", ["out.txt", "answers.csv"])
def test_bad_outputs_are_refused(answers: Path, segments: Path, output: str) -> None:
    before = answers.read_bytes()
    assert run("assign", segments, answers, "-o", answers.with_name(output)).exit_code == 2
    assert answers.read_bytes() == before


def test_questions_without_names_are_matched_by_number(answers: Path) -> None:
    table = pd.read_csv(answers)[["Drinks", "Gets up"]]
    model = SurveySegments(n_segments=2, random_state=0).fit(table.to_numpy(dtype=object))
    done = assign_segments(model, table.set_axis([0, 1], axis=1))
    assert (done.table["segment"] == model.segment_names_[model.labels_]).all()


def test_survey_weights(answers: Path) -> None:
    frame = pd.read_csv(answers, dtype={"who": str})
    frame["w"] = np.where(frame["Gets up"] == "early", 3, 1)
    frame.to_csv(answers, index=False)
    options = ("segments", answers, "-k", 2, "--id", "who", "--weight", "w", "-o", answers.parent / "segments")
    result = run(*options, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["questions"] == 3
    assert sum(segment["size"] for segment in summary["segments"]) == 150
    members = pd.read_parquet(answers.parent / "segments" / "respondents.parquet").merge(frame[["who", "w"]], on="who")
    share = members.groupby("segment")["w"].sum() / frame["w"].sum()
    assert {s["name"]: pytest.approx(s["share"]) for s in summary["segments"]} == share.to_dict()
    page = (answers.parent / "segments" / "segments.html").read_text(encoding="utf-8")
    assert "Shares and probabilities are weighted" in page


@pytest.mark.parametrize(("value", "said"), [("-1", "at least 0"), ("", "row 3"), ("heavy", "row 3")])
def test_weights_that_are_none_are_refused(answers: Path, value: str, said: str) -> None:
    frame = pd.read_csv(answers).assign(w="1")
    frame.loc[2, "w"] = value
    frame.to_csv(answers, index=False)
    result = run("segments", answers, "-k", 2, "--weight", "w", "-o", answers.parent / "segments")
    assert result.exit_code == 2
    assert said in result.stderr
    assert "'w'" in result.stderr
    assert not (answers.parent / "segments").exists()


def test_weights_and_identifiers_are_two_columns(answers: Path) -> None:
    result = run("segments", answers, "--id", "who", "--weight", "who", "-o", answers.parent / "segments")
    assert result.exit_code == 2
    assert "--weight and --id are both 'who'" in result.stderr
