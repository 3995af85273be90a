"""Files as people have them: each gives a model, or one clear message, exit code 2 and no traceback."""

import csv
import os
import random
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import deepsep
from deepsep.cli import app

LABELLED, ROWS = 24, 120


def people(
    n: int = ROWS, labelled: int = LABELLED, classes: tuple[str, ...] = ("gold", "blue")
) -> list[dict[str, str]]:
    """Rows whose class shows in age and plan; the first ones are labelled."""
    rng = random.Random(0)
    rows = []
    for i in range(n):
        k = i % len(classes)
        rows.append(
            {
                "age": str(20 + 25 * k + rng.randrange(10)),
                "plan": rng.choice(["free", "basic"]) if k else "pro",
                "segment": classes[k] if i < labelled else "",
            }
        )
    return rows


def write(path: Path, rows: list[dict[str, str]], *, encoding: str = "utf-8", delimiter: str = ",") -> Path:
    with open(path, "w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def fit(table: Path, *options: str, label: str = "segment"):
    """Run ``deepsep fit`` beside the table; tsvm, since it is fast."""
    output = table.parent / "model"
    arguments = ["fit", str(table), "--label", label, "-o", str(output), "--method", "tsvm", "--no-report", *options]
    return CliRunner().invoke(app, arguments)


def assert_refused(result, table: Path, *words: str) -> None:
    """One message with these words on standard error, exit code 2, no traceback, and nothing written."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    for word in words:
        assert word in result.stderr
    assert [item.name for item in table.parent.iterdir()] == [table.name]


def predicted(table: Path) -> pd.DataFrame:
    return pd.read_parquet(table.parent / "model" / "predictions.parquet")


def test_missing_file_names_the_one_that_is_like_it(tmp_path: Path) -> None:
    table = write(tmp_path / "customers.csv", people())
    assert_refused(fit(tmp_path / "custmers.csv"), table, "custmers.csv does not exist", "'customers.csv'")


def test_other_encoding_is_read_with_a_note(tmp_path: Path) -> None:
    rows = people(classes=("café", "thé"))
    result = fit(write(tmp_path / "latin.csv", rows, encoding="cp1252"))
    assert result.exit_code == 0, result.output
    assert "was read as cp1252" in result.stderr
    assert set(predicted(tmp_path / "latin.csv")["label"]) == {"café", "thé"}


def test_wrong_encoding_by_name(tmp_path: Path) -> None:
    table = write(tmp_path / "latin.csv", people(classes=("café", "thé")), encoding="cp1252")
    assert_refused(fit(table, "--encoding", "utf-8"), table, "is not utf-8", "0xe9")


def test_encoding_that_cannot_be_determined(tmp_path: Path) -> None:
    rows = people(classes=("золото", "синий цвет"))
    for row in rows:
        row["город"] = "Москва" if row["plan"] == "pro" else "Казань"
    table = write(tmp_path / "cyrillic.csv", rows, encoding="cp1251")
    assert_refused(fit(table), table, "cannot detect the encoding", "cp1251")
    result = fit(table, "--encoding", "cp1251")
    assert result.exit_code == 0, result.output
    assert set(predicted(table)["label"]) == {"золото", "синий цвет"}


def test_wrong_delimiter_by_name(tmp_path: Path) -> None:
    table = write(tmp_path / "semicolons.csv", people(), delimiter=";")
    assert_refused(fit(table, "--delimiter", ","), table, "has one column", "semicolon")
    assert fit(table).exit_code == 0


def test_delimiter_that_is_not_assumed(tmp_path: Path) -> None:
    table = write(tmp_path / "carets.csv", people(), delimiter="^")
    assert_refused(fit(table), table, "--delimiter '^'")
    assert fit(table, "--delimiter", "^").exit_code == 0


@pytest.mark.parametrize(
    ("content", "word"), [("", "0 bytes"), ("\n\n \n", "only blank lines"), ("age,plan,segment\n", "no rows")]
)
def test_empty_file(tmp_path: Path, content: str, word: str) -> None:
    table = tmp_path / "empty.csv"
    table.write_text(content)
    assert_refused(fit(table), table, "empty.csv", word)


def test_ragged_rows(tmp_path: Path) -> None:
    table = write(tmp_path / "ragged.csv", people())
    lines = table.read_text().splitlines()
    lines[41] += ",more"
    table.write_text("\n".join(lines))
    assert_refused(fit(table), table, "line 42", "4 values, but the header has 3")


def test_binary_file(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_bytes(random.Random(0).randbytes(10_000))
    assert_refused(fit(table), table, "is a binary file")


def test_parquet_by_name_only(tmp_path: Path) -> None:
    table = write(tmp_path / "table.parquet", people())
    assert_refused(fit(table), table, "is not a Parquet file")


def test_truncated_parquet(tmp_path: Path) -> None:
    table = tmp_path / "table.parquet"
    pd.DataFrame(people()).to_parquet(table)
    table.write_bytes(table.read_bytes()[:-100])
    assert_refused(fit(table), table, "damaged or incomplete")


def test_misspelled_label(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people())
    assert_refused(fit(table, label="segmnt"), table, "label column 'segmnt' not found; did you mean 'segment'?")


@pytest.mark.parametrize("option", ["--id", "--weight", "--drop", "--keep", "--text"])
def test_misspelled_column(tmp_path: Path, option: str) -> None:
    table = write(tmp_path / "people.csv", people())
    assert_refused(fit(table, option, "plann"), table, "'plann' not found; did you mean 'plan'?")


def test_no_labels(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people(labelled=0))
    assert_refused(fit(table), table, "none of the 120 rows has a label")


def test_labels_of_one_class(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people(labelled=1))
    assert_refused(fit(table), table, "one class", "'gold'")


def test_all_labels(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people(labelled=ROWS))
    result = fit(table)
    assert result.exit_code == 0, result.output
    assert "no unlabelled rows" in result.stderr
    assert len(predicted(table)) == 0
    assert deepsep.load(tmp_path / "model").predict(pd.read_csv(table)).tolist()[:2] == ["gold", "blue"]


def test_ten_thousand_categories(tmp_path: Path) -> None:
    rows = people(12_000, 40)
    for i, row in enumerate(rows):
        row["town"] = f"town {i % 10_000}"
    table = write(tmp_path / "towns.csv", rows)
    result = fit(table)
    assert result.exit_code == 0, result.output
    assert len(predicted(table)) == 11_960


def test_duplicate_column_names(tmp_path: Path) -> None:
    table = tmp_path / "twice.csv"
    table.write_text("age,plan,age,segment\n1,a,2,x\n2,b,3,y\n")
    assert_refused(fit(table), table, "'age' (columns 1, 3)")


def test_mixed_types(tmp_path: Path) -> None:
    rows = people()
    for row in rows[::20]:
        row["age"] = "unknown"
    table = write(tmp_path / "mixed.csv", rows)
    result = fit(table)
    assert result.exit_code == 0, result.output
    assert "'age' holds 114 numbers and 6 other values such as 'unknown'" in result.stderr
    assert "--text age" in result.stderr


@pytest.mark.parametrize("name", ["NA", "None", "nan"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_class_that_is_named_like_a_missing_value(tmp_path: Path, name: str, suffix: str) -> None:
    table = write(tmp_path / "people.csv", people(classes=("gold", name)))
    if suffix == "parquet":
        frame = pd.read_csv(table, keep_default_na=False)
        frame["segment"] = frame["segment"].where(frame["segment"] != "", None)
        table.unlink()
        table = tmp_path / "people.parquet"
        frame.to_parquet(table)
    result = fit(table)
    assert result.exit_code == 0, result.output
    predictions = predicted(table)
    assert len(predictions) == ROWS - LABELLED
    assert set(predictions["label"]) == {"gold", name}
    assert f"probability_{name}" in predictions.columns


def test_larger_than_the_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(tmp_path / "people.csv", people())
    monkeypatch.setenv("DEEPSEP_MAX_BYTES", "1000")
    assert_refused(fit(table), table, "people.csv needs about", "1.0 kB are allowed", "sample of the rows")


def test_folder_without_tables(tmp_path: Path) -> None:
    table = tmp_path / "folder"
    table.mkdir()
    assert_refused(fit(table), table, "is a folder without Parquet files")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read everything")
def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people())
    table.chmod(0)
    assert_refused(fit(table), table, "permission denied")
