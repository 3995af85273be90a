"""Several files as one table: patterns, lists and folders give what one file with all rows gives."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run

import deepsep
from deepsep import TSVM, for_table
from deepsep.errors import DataError, DeepSepWarning
from deepsep.model import training_table
from deepsep.scoring import remember_training, score_file
from deepsep.table import read_sample, read_table, sampling

ROWS = 300


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    k = rng.integers(0, 2, ROWS)
    return pd.DataFrame(
        {
            "user": rng.permutation(ROWS) + 1,
            "age": 30 + 20 * k + rng.normal(0, 4, ROWS).round(1),
            "plan": np.where(rng.random(ROWS) < 0.2, "free", np.array(["basic", "pro"])[k]),
            "segment": pd.Series(np.where(np.arange(ROWS) % 6 == 0, np.array(["blue", "grey"])[k], None)),
        }
    )


def write(frame: pd.DataFrame, place: Path) -> Path:
    if place.suffix == ".csv":
        frame.to_csv(place, index=False)
    elif place.suffix == ".parquet":
        frame.to_parquet(place, index=False)
    elif place.suffix == ".feather":
        frame.to_feather(place)
    else:
        frame.to_excel(place, index=False)
    return place


def split(table: pd.DataFrame, folder: Path, kind: str) -> list[Path]:
    """Write the table in three files, the columns of one in another order."""
    folder.mkdir()
    bounds = [0, 100, 101, ROWS]
    parts = [table[a:b].reset_index(drop=True) for a, b in pairwise(bounds)]
    parts[2] = parts[2][parts[2].columns[::-1]]
    return [write(part, folder / f"part-{i}.{kind}") for i, part in enumerate(parts)]


@pytest.fixture
def model(table: pd.DataFrame, tmp_path: Path) -> Path:
    rows, labels = table[["age", "plan"]], table["segment"]
    fitted = for_table(TSVM()).fit(rows, labels)
    remember_training(fitted, rows, labels)
    deepsep.save(fitted, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "xlsx"])
def test_a_pattern_and_a_list_are_read_like_one_file(table: pd.DataFrame, kind: str, tmp_path: Path) -> None:
    files = split(table, tmp_path / "parts", kind)
    whole = read_table(write(table, tmp_path / f"whole.{kind}"), label="segment", id="user")
    for source in (f"{tmp_path}/parts/*.{kind}", tmp_path / "**" / "part-?.*", files):
        pd.testing.assert_frame_equal(read_table(source, label="segment", id="user"), whole)
    turned = read_table(files[::-1], label="segment", id="user")
    assert turned["user"].tolist() == [*table["user"][101:], *table["user"][100:101], *table["user"][:100]]


def test_parquet_and_feather_go_together_and_folders_may_be_matched(table: pd.DataFrame, tmp_path: Path) -> None:
    for name, rows in (("year=1", table[:100]), ("year=2", table[100:200])):
        (tmp_path / name).mkdir()
        write(rows, tmp_path / name / "part.parquet")
    write(table[200:].reset_index(drop=True), tmp_path / "z.feather")
    found = read_table([f"{tmp_path}/year=*", tmp_path / "z.feather"])
    assert found["user"].tolist() == table["user"].tolist()


def test_types_follow_from_all_files_together(tmp_path: Path) -> None:
    for name, cells in (("a", "zip,n\n12345,1\n"), ("b", "zip,n\n01234,2\n")):
        (tmp_path / f"{name}.csv").write_text(cells)
    found = read_table(tmp_path / "*.csv")
    assert found["zip"].tolist() == ["12345", "01234"]
    assert found["n"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x,z\n1,2\n"}, r"b.csv and a.csv have different columns: \['y', 'z'\]"),
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x;y\n1;2\n"}, r"b.csv has ';' between its columns, and a.csv has ','"),
        ({"a.csv": "x,y\n1,2\n", "b.csv": ""}, r"b.csv is empty"),
        ({"a.txt": "x,y\n1,2\n"}, r"no file matches .*\*.csv: the folder .* has a.txt\. Check the pattern"),
        ({}, r"no file matches .*\*.csv: the folder .* has no files"),
    ],
)
def test_files_that_do_not_go_together(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "*.csv")
    with pytest.raises(DataError, match=message):
        read_sample(tmp_path / "*.csv", label="x")


def test_files_that_cannot_be_one_table(table: pd.DataFrame, tmp_path: Path) -> None:
    a, b = write(table, tmp_path / "a.parquet"), write(table, tmp_path / "b.csv")
    with pytest.raises(DataError, match=r"b.csv is a text file, and a.parquet is a Parquet or Feather file"):
        read_table([a, b])
    with pytest.raises(DataError, match=r"a.parquet is named twice"):
        read_table([a, tmp_path / "a*.parquet"])
    with pytest.raises(DataError, match=r"c.csv does not exist"):
        read_table([b, tmp_path / "c.csv"])
    with pytest.raises(DataError, match="no file is named"):
        read_table([])
    with pytest.raises(DataError, match=r"no file matches .*: the folder .*nowhere does not exist"):
        read_table(tmp_path / "nowhere" / "*.csv")


def test_a_file_may_have_the_name_of_a_pattern(table: pd.DataFrame, tmp_path: Path) -> None:
    assert len(read_table(write(table[:7], tmp_path / "t[1].csv"))) == 7


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_sample_is_that_of_one_file(table: pd.DataFrame, kind: str, tmp_path: Path) -> None:
    split(table, tmp_path / "parts", kind)
    whole = write(table, tmp_path / f"whole.{kind}")
    of_parts = read_sample(f"{tmp_path}/parts/*", label="segment", unlabeled=40, seed=3)
    pd.testing.assert_frame_equal(of_parts, read_sample(whole, label="segment", unlabeled=40, seed=3))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("rows", [149, 150, 299, 300])
def test_rows_are_counted_over_all_files(table: pd.DataFrame, kind: str, rows: int, tmp_path: Path) -> None:
    files = split(table, tmp_path / "parts", kind)
    place = deepsep.table.locations.table_at(files)
    assert sampling.has_more_rows(place, rows) == (rows < ROWS)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("id", ["user", None])
def test_scores_are_those_of_one_file(table: pd.DataFrame, model: Path, kind: str, id: str | None, tmp_path) -> None:
    split(table, tmp_path / "parts", kind)
    whole = write(table, tmp_path / f"whole.{kind}")
    score_file(model, whole, tmp_path / "whole-scores.parquet", id=id, batch_rows=60)
    expected = pd.read_parquet(tmp_path / "whole-scores.parquet")
    pattern = f"{tmp_path}/parts/*.{kind}"
    done = score_file(model, pattern, tmp_path / "scores.parquet", id=id, batch_rows=60)
    assert (done["rows"], done["parts"]) == (ROWS, 3)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "scores.parquet"), expected)
    score_file(model, pattern, tmp_path / "scores", id=id)
    names = sorted(file.name for file in (tmp_path / "scores").iterdir())
    assert names == [f"part-{i}.{kind}" + ("" if kind == "parquet" else ".parquet") for i in range(3)]
    pd.testing.assert_frame_equal(read_table(tmp_path / "scores"), read_table(tmp_path / "scores.parquet"))


def test_identifiers_of_text_files_have_one_type(table: pd.DataFrame, model: Path, tmp_path: Path) -> None:
    files = split(table, tmp_path / "parts", "csv")
    odd = pd.read_csv(files[1]).assign(user="A7")
    odd.to_csv(files[1], index=False)
    score_file(model, files, tmp_path / "scores.parquet", id="user")
    expected = [*table["user"][:100].astype(str), "A7", *table["user"][101:].astype(str)]
    assert pd.read_parquet(tmp_path / "scores.parquet")["user"].tolist() == expected


def test_a_file_that_cannot_be_read_is_left_out(table: pd.DataFrame, model: Path, tmp_path: Path) -> None:
    files = split(table, tmp_path / "parts", "csv")
    content = files[1].read_bytes()
    files[1].write_bytes(b"")
    with pytest.warns(DeepSepWarning, match="1 of 3 parts could not be read"):
        done = score_file(model, files, tmp_path / "scores.parquet", id="user")
    assert list(done["failed"]) == ["part-1.csv"]
    assert done["rows"] == ROWS - 1
    files[1].write_bytes(content)
    assert score_file(model, files, tmp_path / "scores.parquet", id="user")["rows"] == ROWS


def test_the_target_is_no_source(table: pd.DataFrame, model: Path, tmp_path: Path) -> None:
    files = split(table, tmp_path / "parts", "parquet")
    with pytest.raises(DataError, match=r"part-1.parquet is one of the files of"):
        score_file(model, files, files[1], id="user")
    with pytest.raises(DataError, match="contain one another"):
        score_file(model, files, tmp_path / "parts", id="user")


def test_two_files_never_become_one(table: pd.DataFrame, model: Path, tmp_path: Path) -> None:
    files = [write(table[:100], tmp_path / "may.csv"), write(table[100:200], tmp_path / "z.csv")]
    files.append(write(table[200:], tmp_path / "may.csv.parquet"))
    with pytest.raises(DataError, match=r"may.csv.parquet and .*may.csv would both become may.csv.parquet"):
        score_file(model, files, tmp_path / "scores", id="user")


def test_a_pattern_with_one_match_goes_to_a_folder(table: pd.DataFrame, model: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    write(table, tmp_path / "parts" / "monday.csv")
    pattern = f"{tmp_path}/parts/*.csv"
    assert score_file(model, pattern, tmp_path / "scores", id="user")["rows"] == ROWS
    assert score_file(model, pattern, tmp_path / "scores.parquet", id="user")["rows"] == ROWS
    one, other = (pd.read_parquet(tmp_path / name) for name in ("scores/monday.csv.parquet", "scores.parquet"))
    pd.testing.assert_frame_equal(one, other)
    assert len(read_table(pattern, label="segment")) == ROWS


def options(folder: Path) -> tuple[str, ...]:
    return ("--label", "segment", "--id", "user", "--method", "tsvm", "--no-report", "-o", str(folder))


@pytest.mark.parametrize("unlabeled", [(), ("--unlabelled", "60"), ("--unlabelled", "all")])
def test_a_fit_of_several_files_is_that_of_one(table, unlabeled, tmp_path: Path, monkeypatch) -> None:
    for module in (sampling, training_table):
        monkeypatch.setattr(module, "MAX_USEFUL_UNLABELED", 80)
    files = split(table, tmp_path / "parts", "csv")
    whole = write(table, tmp_path / "whole.csv")
    run("fit", whole, *options(tmp_path / "one"), *unlabeled)
    run("fit", *files, *options(tmp_path / "several"), *unlabeled)
    run("fit", f"{tmp_path}/parts/*.csv", *options(tmp_path / "pattern"), *unlabeled)
    one, *others = (pd.read_csv(tmp_path / name / "predictions.csv") for name in ("one", "several", "pattern"))
    for other in others:
        pd.testing.assert_frame_equal(other, one)


def test_other_commands_take_several_files(table: pd.DataFrame, model: Path, tmp_path: Path) -> None:
    files = split(table, tmp_path / "parts", "csv")
    checked = json.loads(run("check", *files, "--label", "segment", "--json").stdout)
    assert checked["rows"] == ROWS
    scored = run("score", model, *files, "--id", "user", "-o", tmp_path / "scores.csv", "--json")
    assert json.loads(scored.stdout)["rows"] == ROWS
    again = run("next", model, *files, "--id", "user", "--label", "segment", "-o", tmp_path / "next.csv")
    assert f"deepsep fit {files[0]} {files[1]} {files[2]} --label" in again.stdout
    missing = run("score", model, f"{tmp_path}/parts/*.tsv", "-o", tmp_path / "scores.csv")
    assert missing.exit_code == 2
    assert "no file matches" in missing.stderr
