"""Cells of Excel sheets: nothing becomes a formula, nothing that Excel cannot hold gets in, digits are kept."""

import gc
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from command_line import run

import deepsep.scoring.files
import deepsep.table.excel_cells as cells
from deepsep.errors import DataError
from deepsep.scoring.writer import Writer

AS_THEY_ARE: list[Any] = [
    *("=1+1", "=cmd|' /C calc'!A0", "+1", "-1", "@x", "#N/A", "#REF!", "'quoted", "TRUE", "007", "  spaces  "),
    *(0, -7, 10**15 - 1, 0.1, 1e300, -2.5, True, False, "naïve ✓ 😀"),
    *(datetime(2024, 2, 29, 13, 45), date(1999, 12, 31)),
]


@pytest.fixture
def sheet() -> Any:
    return openpyxl.Workbook().active


def test_values_come_back_as_they_are(sheet: Any, tmp_path: Path) -> None:
    for i, value in enumerate(AS_THEY_ARE, start=1):
        cells.fill(sheet.cell(i, 1), value)
    sheet.parent.save(tmp_path / "t.xlsx")
    read = [row[0] for row in openpyxl.load_workbook(tmp_path / "t.xlsx").active.iter_rows(values_only=True)]
    wanted = [datetime(1999, 12, 31) if value == date(1999, 12, 31) else value for value in AS_THEY_ARE]
    assert read == wanted
    assert [type(value) for value in read] == [type(value) for value in wanted]


def test_no_cell_of_a_written_file_is_a_formula(tmp_path: Path) -> None:
    frame = pd.DataFrame({"=id": [str(value) for value in AS_THEY_ARE], "probability_=a": 0.25})
    with Writer(tmp_path / "t.xlsx", {}) as writer:
        writer.write(frame)
    written = openpyxl.load_workbook(tmp_path / "t.xlsx").active
    assert {cell.data_type for row in written.iter_rows() for cell in row} == {"s", "n"}
    assert [cell.value for cell in written["A"]] == ["=id", *frame["=id"]]


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (None, None),
        (float("nan"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (float("inf"), "inf"),
        (10**15, "1000000000000000"),
        (-(2**64), "-18446744073709551616"),
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (Decimal("1.25"), 1.25),
        (Decimal("12345678901234567890.5"), "12345678901234567890.5"),
        (pd.Timestamp("2024-01-02 03:04:05"), datetime(2024, 1, 2, 3, 4, 5)),
        (np.datetime64("2024-01-02T03:04:05", "s"), datetime(2024, 1, 2, 3, 4, 5)),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02 03:04:05+00:00"),
        (datetime(1899, 12, 31), "1899-12-31 00:00:00"),
        (date(1850, 1, 1), "1850-01-01"),
        ("bell\x07 and half \ud83d and \uffff", "bell\ufffd and half \ufffd and \ufffd"),
        (["a", 1], "['a', 1]"),
    ],
)
def test_what_excel_cannot_hold_becomes_text_or_nothing(value: Any, held: Any) -> None:
    result = cells.cell_value(value)
    assert result == held
    assert type(result) is type(held)


@pytest.mark.parametrize("text", ["a" * 40_000, "😀" * 20_000, "a" + "😀" * 20_000])
def test_long_texts_are_cut_to_what_a_cell_holds(text: str) -> None:
    cut = cells.cell_value(text)
    units = len(cut.encode("utf-16-le")) // 2
    assert 32_767 - 1 <= units <= 32_767
    assert cut.endswith("…")
    assert text.startswith(cut[:-1])
    assert cells.cell_value("a" * 32_767) == "a" * 32_767


def test_predictions_are_percentages_under_a_header_that_stays(people: Path, model: Path) -> None:
    target = people.parent / "scored.xlsx"
    assert run("score", model, people, "--id", "customer", "--batch-size", 33, "-o", target).exit_code == 0
    sheet = openpyxl.load_workbook(target).active
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("A2", "A1:F201")
    names = [cell.value for cell in sheet[1]]
    formats = dict(zip(names, [cell.number_format for cell in sheet[2]], strict=True))
    shares = {"probability_blue", "probability_gold", "probability_grey", "confidence"}
    assert {name for name, style in formats.items() if style == "0.0%"} == shares
    assert all(cell.font.bold for cell in sheet[1])


@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
def test_too_many_rows_are_said_before_they_are_scored(
    people: Path, model: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MAX_SHEET_ROWS", 150)
    monkeypatch.setattr(deepsep.scoring.local, "RowScorer", None)  # nothing is scored
    table = people.with_name(source)
    if source.endswith("parquet"):
        pd.read_csv(people).to_parquet(table)
    result = run("score", model, table, "-o", people.parent / "scored.xlsx")
    assert result.exit_code == 2
    assert "more than 150 rows, the most that an Excel sheet holds. Write a .csv" in result.stderr
    result = run("fit", people, "--label", "segment", "--predictions", "xlsx", "-o", people.parent / "m")
    assert "the file of predictions has more than 150 rows" in result.stderr
    assert "Fitting" not in result.stderr


def test_too_many_columns() -> None:
    with pytest.raises(DataError, match="16,385 columns; an Excel sheet holds 16,384"):
        cells.check_fits(1, 16_385, "it", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_is_one_error(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """An archive that is open on the disk would complain again, below the message, when it is thrown away."""
    target = tmp_path / "rows.xlsx"
    target.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"), Writer(target, {}) as writer:
        writer.write(pd.DataFrame({"x": [f"a cell {i}" for i in range(20_000)]}))
    gc.collect()
    assert not [each for each in recwarn if "ignored" in str(each.message)]  # pytest makes warnings of them
