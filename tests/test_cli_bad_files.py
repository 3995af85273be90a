"""Files as people have them: each gives a model, or one clear message, exit code 2 and no traceback."""

import csv
import io
import os
import random
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import deepsep
from deepsep.cli import app

LABELED, ROWS = 24, 120


def people(n: int = ROWS, labeled: int = LABELED, classes: tuple[str, ...] = ("gold", "blue")) -> list[dict[str, str]]:
    """Rows whose class shows in age and plan; the first ones are labelled."""
    rng = random.Random(0)
    rows = []
    for i in range(n):
        k = i % len(classes)
        rows.append(
            {
                "age": str(20 + 25 * k + rng.randrange(10)),
                "plan": rng.choice(["free", "basic"]) if k else "pro",
                "segment": classes[k] if i < labeled else "",
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
    (file,) = (table.parent / "model").glob("predictions.*")
    if file.suffix == ".csv":
        return pd.read_csv(file, na_values="", keep_default_na=False)
    return pd.read_excel(file) if file.suffix == ".xlsx" else pd.read_parquet(file)


def test_missing_file_names_the_one_that_is_like_it(tmp_path: Path) -> None:
    table = write(tmp_path / "customers.csv", people())
    assert_refused(fit(tmp_path / "custmers.csv"), table, "custmers.csv does not exist", "'customers.csv'")


def test_other_encoding_is_read_with_a_note(tmp_path: Path) -> None:
    rows = people(classes=("café", "thé"))
    result = fit(write(tmp_path / "latin.csv", rows, encoding="cp1252"))
    assert result.exit_code == 0, result.output
    assert "was read as cp1252" in result.stderr
    assert set(predicted(tmp_path / "latin.csv")["segment"]) == {"café", "thé"}


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
    assert set(predicted(table)["segment"]) == {"золото", "синий цвет"}


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
    table = write(tmp_path / "people.csv", people(labeled=0))
    assert_refused(fit(table), table, "none of the 120 rows has a label")


def test_labels_of_one_class(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people(labeled=1))
    assert_refused(fit(table), table, "one labelled row", "'gold'")


def test_all_labels(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people(labeled=ROWS))
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
    assert len(predictions) == ROWS - LABELED
    assert set(predictions["segment"]) == {"gold", name}
    assert f"probability_{name}" in predictions.columns


def test_larger_than_the_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(tmp_path / "people.csv", people())
    monkeypatch.setenv("DEEPSEP_MAX_BYTES", "1000")
    assert_refused(fit(table), table, "people.csv needs about", "1.0 kB are allowed", "--unlabelled 20000")


def test_folder_without_tables(tmp_path: Path) -> None:
    table = tmp_path / "folder"
    table.mkdir()
    assert_refused(fit(table), table, "is a folder without Parquet files")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read everything")
def test_file_that_may_not_be_read(tmp_path: Path) -> None:
    table = write(tmp_path / "people.csv", people())
    table.chmod(0)
    assert_refused(fit(table), table, "permission denied")


# -- broken input --------------------------------------------------------------------------------------------------


def zipped(**change: int) -> bytes:
    """Return a zip archive of a table, with a byte changed at a place of both of its headers."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("people.csv", "age,segment\n" + "".join(f"{i},gold\n" for i in range(200)))
    data = bytearray(file.getvalue())
    central = data.rindex(b"PK\x01\x02")
    for place, value in (("flags", 6), ("method", 8)):
        if place in change:
            data[value] = data[central + value + 2] = change[place]
    if "content" in change:
        data[50:90] = bytes([change["content"]]) * 40
    return bytes(data)


def workbook(part: str, content: bytes) -> bytes:
    """Return a workbook in which one part has another content."""
    whole, broken = io.BytesIO(), io.BytesIO()
    pd.DataFrame(people()).to_excel(whole, index=False)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(broken, "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name == part else old.read(name))
    return broken.getvalue()


def chart_only() -> bytes:
    from openpyxl import Workbook
    from openpyxl.chart import BarChart

    book, file = Workbook(), io.BytesIO()
    book.remove(book.active)
    book.create_chartsheet("figure").add_chart(BarChart())
    book.save(file)
    return file.getvalue()


def bomb() -> bytes:
    entities = b"".join(b'<!ENTITY e%d "%s">' % (k, b"&e%d;" % (k - 1) * 10) for k in range(1, 9))
    sheet = b'<?xml version="1.0"?><!DOCTYPE b [<!ENTITY e0 "ha">' + entities + b"]><worksheet>&e8;</worksheet>"
    return workbook("xl/worksheets/sheet1.xml", sheet)


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("corrupt.zip", zipped(content=0), "it cannot be decompressed"),
        ("password.zip", zipped(flags=1), "zip archive with a password. Unpack it"),
        ("method.zip", zipped(method=99), "compressed in a way that deepsep cannot undo. Unpack it"),
        ("cut.zip", zipped()[:80], "it cannot be decompressed"),
        ("chart.xlsx", chart_only(), "no sheet with cells, only charts"),
        ("bomb.xlsx", bomb(), "defines entities, which Excel never writes"),
        ("styles.xlsx", workbook("xl/styles.xml", b"<a>"), "damaged or unusual"),
        ("book.xlsx", workbook("xl/workbook.xml", b"<a>"), "damaged or unusual"),
        ("sheet.xlsx", workbook("xl/worksheets/sheet1.xml", b"<a>"), "damaged or unusual"),
        ("header.csv", b"x" * 140_000 + b",segment\n1,a\n2,b\n", "more than 131,072 characters"),
        ("table.sav", b"$FL2@(#) SPSS DATA FILE cut off", "table.sav"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value[-5:] else "",  # zip files hold the time of day
)
def test_broken_files_are_refused(tmp_path: Path, name: str, content: bytes, word: str) -> None:
    if name.endswith(".sav"):
        pytest.importorskip("pyreadstat")
    table = tmp_path / name
    table.write_bytes(content)
    assert_refused(fit(table), table, word)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        *(
            (("--encoding", name), "not an encoding of text")
            for name in ("hex", "zlib", "rot13", "punycode", "undefined")
        ),
        (("--encoding", "utf-16"), "is not utf-16"),
        (("--delimiter", "§"), "one character of ASCII"),
        (("--delimiter", '"'), "one character of ASCII"),
        (("--id", "segment"), "--label and --id are both 'segment'"),
        (("--weight", "segment"), "--label and --weight are both 'segment'"),
        (("--weight", "nothing"), "weights of all labelled rows are 0"),
        (("--skip-rows", "500"), "no lines left after --skip-rows 500"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: tuple[str, ...], word: str) -> None:
    table = write(tmp_path / "people.csv", [row | {"nothing": "0"} for row in people()])
    assert_refused(fit(table, *options), table, word)


def test_labels_that_are_lists_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "lists.parquet"
    pd.DataFrame({"x": range(60), "segment": [["a"], ["b"]] * 30}).to_parquet(table)
    assert_refused(fit(table), table, "label column 'segment' holds lists or other objects, such as ['a']")


@pytest.mark.parametrize("cell", ["1e308", "-1e308", "word " * 40_000, "1e-300"])
def test_monstrous_cells_do_no_harm(tmp_path: Path, cell: str) -> None:
    word = cell.startswith("word")
    rows = [row | {"extra": "a few words" if word else "1"} for row in people()]
    rows[5]["extra"] = cell
    rows[6]["extra"] = "others" if word else "2"
    table = write(tmp_path / "people.csv", rows)
    result = fit(table, "--method", "logistic-regression")
    assert result.exit_code == 0, result.output
    assert ("only the first 10,000 characters are used" in result.stderr) == word
    assert len(result.stderr) < 1_000
    assert predicted(table)["confidence"].between(0, 1).all()
