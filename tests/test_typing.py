"""Typing tools: which questions are chosen, and one answer from Python, the workbook and SQL."""

import json
import math
import re
import shutil
import sqlite3
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run
from openpyxl import Workbook, load_workbook
from spreadsheet import Spreadsheet

from deepsep import SurveySegments, load, save
from deepsep.apps.typing import ask_items, make_typing_tool, typing_sql, write_typing_workbook
from deepsep.apps.typing.typing_tool import encode_items, items_of
from deepsep.datasets import make_survey
from deepsep.errors import DataError, ParameterError
from deepsep.table.excel_cells import fill

NASTY = ["=1+1", "*", "yes", "Yes", ">5", 'say "no"', "it's", "two  spaces", "12.5 %", "é; ü", "-- x"]


def nasty_survey(n: int = 240) -> pd.DataFrame:
    """Answers that a formula, a pattern or a query could mistake; people are of three kinds."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n)

    def answers(levels: list[str]) -> np.ndarray:
        own = np.array([levels[k::3] for k in range(3)], dtype=object)
        chosen = np.array([rng.choice(own[k]) for k in kind], dtype=object)
        return np.where(rng.random(n) < 0.25, rng.choice(levels, n), chosen)

    drinks = np.array(["tea; milk", "coffee", "tea; juice"], dtype=object)[kind]
    drinks = np.where(rng.random(n) < 0.3, rng.choice(["milk", "coffee; juice", "tea"], n), drinks)
    frame = pd.DataFrame(
        {
            "=A1": answers(NASTY),
            'He said "hi"': answers(["a", "A", "b", "B", "c", "C"]),
            "it's; drop table answers": answers(["1", "01", "1.0", "one"]),
            "Drinks": drinks,
            "Scale": np.where(rng.random(n) < 0.3, rng.integers(1, 6, n), 1 + 2 * kind),
        }
    )
    for name in frame:
        frame[name] = frame[name].astype(object).where(rng.random(n) > 0.1, None)
    frame["Scale"] = frame["Scale"].astype(float)  # numbers with gaps are floats
    return frame


@pytest.fixture(scope="module")
def survey() -> pd.DataFrame:
    return nasty_survey()


@pytest.fixture(scope="module")
def model(survey) -> SurveySegments:
    separator = {"Drinks": ";"}
    names = ["=cmd()", 'it\'s "them"', "Ünion; -- x"]
    return SurveySegments(n_segments=3, separator=separator, names=names, min_count=2, random_state=0).fit(survey)


@pytest.fixture(scope="module")
def tool(model):
    return make_typing_tool(model, 8)


@pytest.fixture(scope="module")
def asked(survey, model, tool) -> pd.DataFrame:
    """Answers to the questions of the tool: those of the survey, and some that are in no list, or in none at all."""
    answers = ask_items(survey, tool.items, model.questions_)
    answers.iloc[0] = None
    answers.iloc[1] = "in no list"
    answers.iloc[2] = ["YES", f" {tool.items[1].answers[0]} ", "no", "*", "?", "~", "", "TRUE"]
    return answers


# -- which questions -----------------------------------------------------------------------------------------


def test_questions_that_hold_the_segments_come_first():
    """Two of eight questions decide; the others are dice."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, (2, 600))
    dice = {f"dice {i}": rng.integers(1, 4, 600).astype(str) for i in range(6)}
    telling = {"x": x.astype(str), "y": y.astype(str)}
    copies = {f"x{i}": x.astype(str) for i in range(3)} | {f"y{i}": y.astype(str) for i in range(3)}
    model = SurveySegments(n_segments=4, random_state=0).fit(pd.DataFrame(telling | copies | dice))
    tool = make_typing_tool(model, 2)
    assert {item.name[0] for item in tool.items} == {"x", "y"}
    assert tool.agreement["agreement"] == tool.agreement_of_all == 1
    assert tool.suggested == 2
    assert len(make_typing_tool(model).items) == 2


def test_answers_to_questions_with_several_are_asked_one_by_one(model, survey):
    items = items_of(model.questions_)
    drinks = [item for item in items if item.question == "Drinks"]
    assert {item.option for item in drinks} == {"tea", "milk", "coffee", "juice"}
    assert all(item.answers == ("Yes", "No") for item in drinks)
    asked = ask_items(survey, items, model.questions_)
    for item in drinks:
        cells = survey["Drinks"].map(lambda cell: None if cell is None else [part.strip() for part in cell.split(";")])
        expected = [None if cell is None else "Yes" if item.option in cell else "No" for cell in cells]
        assert asked[item.name].tolist() == expected


def test_answers_of_the_model_are_those_of_its_table(model, survey):
    """Encoded from what the model keeps, and from the table itself."""
    items = items_of(model.questions_)
    asked = ask_items(survey, items, model.questions_)
    columns = [asked[item.name] == answer for item in items for answer in item.answers]
    kept = encode_items(model.answers_of_respondents(), model.questions_).toarray()
    np.testing.assert_array_equal(kept, np.column_stack(columns).astype(float))


def test_agreement_is_of_respondents_who_were_held_out():
    """Where answers are dice, in-sample agreement is far above chance; a few questions held out cannot be."""
    rng = np.random.default_rng(0)
    answers = pd.DataFrame({f"q{i}": rng.integers(0, 3, 60).astype(str) for i in range(30)})
    model = SurveySegments(n_segments=3, random_state=0).fit(answers)
    tool = make_typing_tool(model, 10)
    inside = (tool.assign(answers)["segment"] == model.segment_names_[model.labels_]).mean()
    assert inside > tool.agreement["high"]


def test_respondents_of_weight_zero_have_no_part_in_the_tool(survey):
    settings = {"n_segments": 3, "separator": {"Drinks": ";"}, "min_count": 2, "random_state": 0}
    weight = np.where(np.arange(len(survey)) % 2, 1.0, 2.5)
    more = pd.concat([survey, survey[:60].sample(frac=1, random_state=0)], ignore_index=True)
    one = make_typing_tool(SurveySegments(**settings).fit(survey, sample_weight=weight), 4)
    other = make_typing_tool(SurveySegments(**settings).fit(more, sample_weight=np.append(weight, np.zeros(60))), 4)
    assert one.items == other.items
    assert all(map(np.array_equal, one.points, other.points))
    pd.testing.assert_frame_equal(one.curve, other.curve)
    plain = make_typing_tool(SurveySegments(**settings).fit(survey), 4)
    width = [each.curve["high"].iloc[0] - each.curve["low"].iloc[0] for each in (one, plain)]
    assert width[0] > width[1]  # unequal weights are worth fewer respondents


def test_points_are_whole_and_add_up(tool, asked):
    result = tool.assign(asked)
    by_hand = tool.start.astype(int).copy()
    row = asked.iloc[5]
    for item, points in zip(tool.items, tool.points, strict=True):
        if row[item.name] in item.answers:
            by_hand += points[item.answers.index(row[item.name])]
    assert result.filter(like="points_").iloc[5].tolist() == by_hand.tolist()
    odds = [math.exp(points / 10) for points in by_hand]
    np.testing.assert_allclose(result.filter(like="probability_").iloc[5], np.array(odds) / sum(odds))
    assert result["segment"].iloc[5] == tool.segment_names[int(np.argmax(by_hand))]
    assert result["segment"].isna().tolist()[:3] == [True, True, False]
    assert np.isnan(result["probability"][0])


@pytest.mark.parametrize("settings", [{"n_questions": 0}, {"n_questions": 31}, {"within": -0.1}, {"within": 2}])
def test_bad_settings_are_refused(model, settings):
    with pytest.raises(ParameterError, match=next(iter(settings))):
        make_typing_tool(model, **settings)


def test_a_missing_question_is_named(tool, asked):
    with pytest.raises(DataError, match=re.escape(repr(tool.items[2].name))):
        tool.assign(asked.drop(columns=tool.items[2].name))


# -- Python = SQL = workbook ---------------------------------------------------------------------------------


def run_sql(query: str, asked: pd.DataFrame, table: str) -> pd.DataFrame:
    with sqlite3.connect(":memory:") as database:
        database.create_function("exp", 1, math.exp)
        asked.to_sql(table, database, index=False)
        return pd.read_sql(query, database)


def test_sql_is_python(tool, asked):
    table = 'answers "of" all; --'
    result, python = run_sql(typing_sql(tool, table), asked, table), tool.assign(asked)
    assert result["segment"].fillna("").tolist() == python["segment"].fillna("").tolist()
    assert result["answered"].tolist() == python["answered"].tolist()
    for i, name in enumerate(tool.segment_names, start=1):
        assert result[f"points_{i}"].tolist() == python[f"points_{name}"].tolist()
        np.testing.assert_allclose(result[f"probability_{i}"].astype(float), python[f"probability_{name}"], rtol=1e-12)


def test_sql_reads_scales_that_are_numbers(tool):
    names = [item.name for item in tool.items]
    assert "Scale" in names
    asked = pd.DataFrame({name: [None] * 2 for name in names}).assign(Scale=[3.0, np.nan])
    assert run_sql(typing_sql(tool), asked, "answers")["answered"].tolist() == [1, 0]
    assert tool.assign(asked)["answered"].tolist() == [1, 0]


def test_sql_of_duckdb_is_python(tool, asked):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.register("given", asked.astype("string"))
        database.execute("create table answers as select * from given")
        result = database.execute(typing_sql(tool)).df()
    python = tool.assign(asked)
    assert result["segment"].fillna("").tolist() == python["segment"].fillna("").tolist()


def filled(tool, asked: pd.DataFrame, one: int, path: Path) -> Workbook:
    """The workbook with the answers of many, and of one."""
    write_typing_workbook(tool, path, about="=made")
    book = load_workbook(path)
    for i, row in enumerate(asked.itertuples(index=False), start=2):
        for j, (item, value) in enumerate(zip(tool.items, row, strict=True), start=2):
            typed = int(value) if item.kind == "scale" and i % 3 and str(value).isdecimal() else value
            fill(book["Many respondents"].cell(i, j), typed)
    for i, value in enumerate(asked.iloc[one]):
        fill(book["One respondent"].cell(7 + i, 2), value)
    return book


def compare_book(value, tool, asked: pd.DataFrame, one: int, rtol: float) -> None:
    """``value(sheet, row, column)`` of both sheets is what Python says, for the rows in ``asked``."""
    python, n, k = tool.assign(asked), len(tool.items), len(tool.segment_names)
    for i in range(len(asked)):
        segment, probability, answered, *rest = (value("Many respondents", 2 + i, n + 2 + j) for j in range(3 + 2 * k))
        expected = python.iloc[i]
        assert int(answered) == expected["answered"]
        assert (segment or None) == (expected["segment"] if expected["answered"] else None)
        assert rest[k:] == expected.iloc[3 + k :].tolist()
        if expected["answered"]:
            np.testing.assert_allclose(
                [probability, *rest[:k]], expected.iloc[[1, *range(3, 3 + k)]].astype(float), rtol
            )
            shown = [f"{cell:.1%}" for cell in (probability, *rest[:k])]
            assert shown == [f"{p:.1%}" for p in expected.iloc[[1, *range(3, 3 + k)]]]
        else:
            assert not any((probability, *rest[:k]))
    expected = python.iloc[one]
    assert value("One respondent", 1, 2) == expected["segment"]
    assert f"{value('One respondent', 2, 2):.1%}" == f"{expected['probability']:.1%}"
    assert value("One respondent", 3, 2) == expected["answered"]
    for j in range(k):
        assert value("One respondent", 7 + n, 3 + j) == expected.iloc[3 + k + j]
        np.testing.assert_allclose(value("One respondent", 8 + n, 3 + j), expected.iloc[3 + j], rtol)


def test_workbook_is_python(tool, asked, tmp_path):
    sheets = Spreadsheet(filled(tool, asked, 7, tmp_path / "typing.xlsx"))
    compare_book(sheets.value, tool, asked.head(60), 7, rtol=1e-12)


def test_only_formulas_are_formulas(tool, tmp_path):
    write_typing_workbook(tool, tmp_path / "typing.xlsx", about="=made")
    book = load_workbook(tmp_path / "typing.xlsx")
    assert [sheet.title for sheet in book] == [
        *("How to read", "One respondent", "Many respondents", "Agreement", "Points"),
    ]
    for sheet in book:
        for cell in (cell for row in sheet for cell in row if cell.data_type == "f"):
            assert sheet.title.endswith("respondent") or sheet.title.endswith("respondents")
            words = set(re.findall(r"[A-Z]{3,}(?=\()", cell.value))
            assert words <= {"SUMPRODUCT", "EXACT", "TRIM", "EXP", "SUM", "MAX", "INDEX", "MATCH"}
    texts = [cell.value for row in book["Points"] for cell in row if cell.data_type == "s"]
    assert {"=cmd()", "=A1", "=1+1"} <= set(texts)
    lists = book["One respondent"].data_validations.dataValidation
    assert len(lists) == len(tool.items)
    for item, choice in zip(tool.items, lists, strict=True):
        first, last = re.fullmatch(r"=Points!\$B\$(\d+):\$B\$(\d+)", choice.formula1).groups()
        cells = [book["Points"].cell(row, 2).value for row in range(int(first), int(last) + 1)]
        assert cells == list(item.answers)
    with zipfile.ZipFile(tmp_path / "typing.xlsx") as parts:
        assert "xl/charts/chart1.xml" in parts.namelist()
    assert book["Many respondents"].freeze_panes == "B2"


SOFFICE = shutil.which("soffice") or shutil.which("libreoffice")


@pytest.mark.slow
@pytest.mark.skipif(SOFFICE is None, reason="LibreOffice (soffice) is not installed")
def test_libreoffice_computes_what_python_does(tool, asked, tmp_path):
    filled(tool, asked, 7, tmp_path / "typing.xlsx").save(tmp_path / "typing.xlsx")
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = [
        SOFFICE,
        profile,
        "--headless",
        "--convert-to",
        "xlsx",
        "--outdir",
        tmp_path / "out",
        tmp_path / "typing.xlsx",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    book = load_workbook(tmp_path / "out" / "typing.xlsx", data_only=True)
    compare_book(lambda sheet, row, column: book[sheet].cell(row, column).value, tool, asked, 7, rtol=1e-9)


# -- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    people = make_survey(200, n_segments=3, n_questions=8, random_state=0)
    people.answers.to_csv(tmp_path / "answers.csv", index=False)
    assert run("segments", tmp_path / "answers.csv", "-k", 3, "-o", tmp_path / "segments").exit_code == 0
    return tmp_path / "segments"


def test_command_writes_workbook_and_query(segments: Path) -> None:
    target = segments.parent / "out" / "typing.xlsx"
    result = run("typing", segments / "model", "-n", 3, "-o", target, "--table", "panel")
    assert result.exit_code == 0, result.output
    assert "3 questions give" in result.stdout
    assert "<- chosen" in result.stdout
    query = target.with_suffix(".sql").read_text(encoding="utf-8")
    assert 'from "panel" asked' in query
    target.with_suffix(".sql").write_text("select 1")
    result = run("typing", segments / "model", "-n", 3, "-o", target)
    assert result.exit_code == 2
    assert "deepsep did not write it" in result.stderr
    target.with_suffix(".sql").unlink()
    assert load_workbook(target)["How to read"]["A1"].value.startswith("A typing tool: 3 questions")
    content = json.loads(run("typing", segments, "-o", target, "--json").stdout)
    assert [line["questions"] for line in content["curve"]] == list(range(1, 9))
    assert len(content["questions"]) == content["suggested"]
    assert content["low"] <= content["agreement"] <= content["high"]
    tool = make_typing_tool(load(segments / "model"))
    assert content["questions"][0]["answers"] == dict(zip(tool.items[0].answers, tool.points[0].tolist(), strict=True))


@pytest.mark.parametrize(("options", "said"), [(("-n", 99), "--number 99"), (("--within", 3), "--within 3")])
def test_bad_options_are_refused(segments: Path, options: tuple[object, ...], said: str) -> None:
    result = run("typing", segments / "model", *options, "-o", segments.parent / "typing.xlsx")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (segments.parent / "typing.xlsx").exists()


def test_other_outputs_and_models_are_refused(segments: Path, model: SurveySegments, tmp_path: Path) -> None:
    result = run("typing", segments / "model", "-o", tmp_path / "typing.csv")
    assert result.exit_code == 2
    assert "must end in .xlsx" in result.stderr
    save(load(segments / "model").forget_answers(), tmp_path / "bare")
    result = run("typing", tmp_path / "bare", "-o", tmp_path / "typing.xlsx")
    assert result.exit_code == 2
    assert "does not have the answers" in result.stderr
