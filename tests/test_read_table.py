"""Files as users have them: read right, or refused with a message that says what to do."""

import bz2
import gzip
import lzma
import os
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from deepsep import TSVM, for_table
from deepsep.errors import DataError, DeepSepWarning
from deepsep.scoring import score_file
from deepsep.table import read_table

CSV = "name,age,joined,pro,segment\nAnna,31,2024-01-05,true,gold\nBjörn,,2024-02-01,false,\nChloé,47,NA,NA,blue\n"
TABLE = pd.DataFrame(
    {
        "name": ["Anna", "Björn", "Chloé"],
        "age": [31, np.nan, 47],
        "joined": pd.to_datetime(["2024-01-05", "2024-02-01", None]),
        "pro": [True, False, None],
        "segment": ["gold", None, "blue"],
    }
)


def write(folder, content, name="table.csv"):
    place = folder / name
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def same(frame, wanted=TABLE):
    assert frame.columns.tolist() == wanted.columns.tolist()
    for name in wanted:
        assert frame[name].isna().tolist() == wanted[name].isna().tolist(), name
        assert frame[name].dropna().tolist() == wanted[name].dropna().tolist(), name


# -- what is read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_encodings_and_delimiters_are_found(tmp_path, encoding, delimiter):
    same(read_table(write(tmp_path, CSV.replace(",", delimiter).encode(encoding)), label="segment"))


def test_western_windows_is_found_with_a_warning(tmp_path):
    file = write(tmp_path, CSV.encode("cp1252"))
    with pytest.warns(DeepSepWarning, match="read as cp1252") as caught:
        same(read_table(file, label="segment"))
    assert caught[0].filename == __file__
    same(read_table(file, label="segment", encoding="cp1252"))


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("t.csv.gz", gzip.compress),
        ("t.csv.bz2", bz2.compress),
        ("t.csv.xz", lzma.compress),
        ("t.csv.zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
    ],
)
def test_compressed_text(tmp_path, name, pack):
    same(read_table(write(tmp_path, pack(CSV.encode()), name), label="segment"))


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_ragged_lines_of_compressed_text(tmp_path, codec):
    with pa.CompressedOutputStream(str(tmp_path / "t.csv"), codec) as file:
        file.write(b"a,b\n1,2\n3,4,5\n")
    with pytest.raises(DataError, match="line 3: 3 values"):
        read_table(tmp_path / "t.csv")


def test_old_line_ends(tmp_path):
    assert read_table(write(tmp_path, "a;b\r1;2\r3;4\r"))["b"].tolist() == [2, 4]


def test_zipped_text(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("inner.csv", CSV)
    same(read_table(tmp_path / "t.zip", label="segment"))
    with zipfile.ZipFile(tmp_path / "t.zip", "a") as archive:
        archive.writestr("other.csv", CSV)
    with pytest.raises(DataError, match=r"archive of 2 files. Unpack"):
        read_table(tmp_path / "t.zip")


@pytest.mark.parametrize("name", ["table.parquet", "table.feather", "table.xlsx", "misnamed.csv"])
def test_other_formats(tmp_path, name):
    place = tmp_path / name
    if name.endswith("feather"):
        TABLE.to_feather(place)
    elif name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
        TABLE.to_excel(place, index=False)
    else:
        TABLE.to_parquet(place)
    same(read_table(place, label="segment"))


def test_spss_without_its_package_names_the_cure(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyreadstat", None)  # as if it were not installed
    with pytest.raises(ImportError, match="pip install pyreadstat"):
        read_table(write(tmp_path, b"$FL2@(#) SPSS DATA FILE", "t.sav"))


def test_spss_has_labels_in_place_of_codes(tmp_path):
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = pd.DataFrame({"sex": [1.0, 2.0, np.nan], "trust": [1.0, 4.0, 7.0], "segment": ["gold", "", "blue"]})
    labels = {"sex": {1.0: "woman", 2.0: "man"}, "trust": {1.0: "none", 7.0: "full"}}
    pyreadstat.write_sav(frame, str(tmp_path / "t.sav"), variable_value_labels=labels)
    read = read_table(tmp_path / "t.sav", label="segment")
    assert read["sex"].tolist()[:2] == ["woman", "man"]
    assert read["sex"].isna().tolist() == [False, False, True]
    assert read["trust"].tolist() == [1, 4, 7]
    assert read["segment"].isna().tolist() == [False, True, False]


def test_excel_says_what_is_wrong(tmp_path):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame({"code": ["007", "NA"], "n": [1, 2], "segment": ["None", ""]}).to_excel(
            book, sheet_name="one", index=False
        )
        pd.DataFrame().to_excel(book, sheet_name="void", index=False)
        pd.DataFrame([["a", "a"], [1, 2]]).to_excel(book, sheet_name="twice", index=False, header=False)
    frame = read_table(tmp_path / "t.xlsx", label="segment")
    assert frame["code"].tolist()[0] == "007"
    assert frame["segment"].dropna().tolist() == ["None"]
    with pytest.raises(DataError, match=r"sheet='two' cannot be read.*'one', 'void'"):
        read_table(tmp_path / "t.xlsx", sheet="two")
    with pytest.raises(DataError, match="is empty"):
        read_table(tmp_path / "t.xlsx", sheet="void")
    with pytest.raises(DataError, match=r"'a' \(columns 1, 2\)"):
        read_table(tmp_path / "t.xlsx", sheet="twice")


def test_a_folder_of_parts_is_one_table_in_the_order_of_names(tmp_path):
    for name, rows in (("part-1.parquet", TABLE[2:]), ("part-0.parquet", TABLE[:2]), ("_log.parquet", TABLE)):
        rows.to_parquet(tmp_path / name, index=False)
    same(read_table(tmp_path, label="segment"))
    TABLE.drop(columns="age").to_parquet(tmp_path / "part-2.parquet")
    with pytest.raises(DataError, match=r"part-2.parquet and part-0.parquet have different columns: \['age'\]"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1", "2", "NA"], [1, 2, None]),
        (["1.5", "-2e3", "null"], [1.5, -2000, None]),
        (["01234", "98765", ""], ["01234", "98765", None]),
        (["1,5", "2", "-0,25"], [1.5, 2, -0.25]),
        (["1.234,5", "2", ""], [1234.5, 2, None]),
        (["TRUE", "False", "N/A"], [True, False, None]),
        (["yes", "no", "None"], ["yes", "no", None]),
        ([" 7", "8 ", "9"], [7, 8, 9]),
        (["A1", "17", "B2"], ["A1", "17", "B2"]),
        (["E1", "E10", "E2"], ["E1", "E10", "E2"]),
        (["+", "-", "+"], ["+", "-", "+"]),
        (["+1,5", ",5", "2"], [1.5, 0.5, 2]),
    ],
)
def test_what_cells_mean(tmp_path, cells, wanted):
    lines = "\n".join(f"{i};{cell}" for i, cell in enumerate(cells))
    column = read_table(write(tmp_path, f"i;x\n{lines}\n"))["x"]
    assert [None if pd.isna(v) else v for v in column] == wanted
    assert [type(v) is str for v in column.dropna()] == [type(v) is str for v in wanted if v is not None]


def test_thousands_and_quoted_newlines(tmp_path):
    frame = read_table(write(tmp_path, 'note,n\n"two\nlines, and ""quotes""","1,200"\nplain,"35"\n'))
    assert frame["n"].tolist() == [1200, 35]
    assert frame["note"][0] == 'two\nlines, and "quotes"'


def test_thousands_between_tabs(tmp_path):
    with pytest.warns(DeepSepWarning, match="'x' holds numbers such as '2,107'.*thousands separator"):
        frame = read_table(write(tmp_path, "i\tx\n0\t1\n1\t2,107\n"))
    assert frame["x"].tolist() == [1, 2107]
    assert read_table(write(tmp_path, "i\tx\n0\t0,125\n1\t2,107\n"))["x"].tolist() == [0.125, 2.107]


def test_a_wanted_number_is_refused_only_if_there_is_none(tmp_path):
    file = write(tmp_path, "i,x\n0,1\n1,low\n2,high\n")
    with pytest.warns(DeepSepWarning, match="1 numbers and 2 other values"):
        assert read_table(file, types={"x": "number"})["x"].isna().tolist() == [False, True, True]
    with pytest.raises(DataError, match="must hold numbers, but none of its 2 values is one: it has 'low', 'high'"):
        read_table(write(tmp_path, "i,x\n0,low\n1,high\n"), types={"x": "number"})


def test_days_that_no_calendar_has_are_pointed_out(tmp_path):
    with pytest.warns(DeepSepWarning, match="'x' holds 2 dates and 1 other values such as '0000-00-00'"):
        frame = read_table(write(tmp_path, "i,x\n0,2024-01-31\n1,0000-00-00\n2,2024-02-29\n"))
    assert frame["x"].dt.month.tolist()[::2] == [1, 2]
    assert frame["x"].isna().tolist() == [False, True, False]
    frame = read_table(write(tmp_path, "i,x\n0,0000-00-00\n1,0000-00-00\n"))
    assert frame["x"].tolist() == ["0000-00-00"] * 2


@pytest.mark.parametrize(
    ("cells", "dayfirst", "months"),
    [
        (["13.11.2020", "05.03.2020"], None, [11, 3]),
        (["05.03.2020", "06.03.2020"], None, [3, 3]),  # dots mean that the day comes first
        (["05/03/2020", "13/11/2020 7:05"], None, [3, 11]),
        (["05/03/2020", "11/13/2020"], None, [5, 11]),
        (["05/03/2020", "06-03-2020"], True, [3, 3]),
        (["05/03/2020", "06/03/2020"], False, [5, 6]),
        (["2020/3/5", "2020.11.13"], None, [3, 11]),
    ],
)
@pytest.mark.filterwarnings("ignore:column 'x' holds dates")
def test_where_day_and_month_are(tmp_path, cells, dayfirst, months):
    file = write(tmp_path, "i;x\n" + "".join(f"{i};{cell}\n" for i, cell in enumerate(cells)))
    assert read_table(file, dayfirst=dayfirst)["x"].dt.month.tolist() == months


def test_ambiguous_dates_stay_text_and_say_so(tmp_path):
    file = write(tmp_path, "i,x\n0,05/03/2020\n1,06/03/2020\n")
    with pytest.warns(DeepSepWarning, match="read as text. Pass dayfirst=True or dayfirst=False"):
        assert read_table(file)["x"].tolist() == ["05/03/2020", "06/03/2020"]
    with pytest.raises(DataError, match="unclear whether the day or the month"):
        read_table(file, types={"x": "date"})


def test_dates_with_names_of_months_are_not_guessed_at(tmp_path):
    with pytest.raises(DataError, match=r"must hold dates such as 2024-01-31.*but has '1 Feb 2024'"):
        read_table(write(tmp_path, "i,x\n0,2024-01-31\n1,?\n2,1 Feb 2024\n"), types={"x": "date"})


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx"])
@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["€ 17,02", "-3 €", "€\u00a01.250,5"], [17.02, -3, 1250.5]),
        (["55,0 %", "3%", "7"], [55, 3, 7]),
        (["CHF 3,5", "4", "5,25"], [3.5, 4, 5.25]),
        (["5 €", "6 $", "7 £"], ["5 €", "6 $", "7 £"]),
    ],
)
@pytest.mark.filterwarnings("ignore:column 'x' holds values such as")
def test_amounts_are_numbers(tmp_path, name, cells, wanted):
    frame = pd.DataFrame({"i": range(3), "x": cells})
    frame.to_csv(tmp_path / name, index=False, sep=";") if name == "t.csv" else frame.to_excel(
        tmp_path / name, index=False
    )
    assert read_table(tmp_path / name)["x"].tolist() == wanted


def test_units_are_pointed_out(tmp_path):
    with pytest.warns(DeepSepWarning, match="'x' holds values such as '€ 17,02', read as numbers without '€'"):
        read_table(write(tmp_path, "i;x\n0;€ 17,02\n1;3\n"))


def test_decimal_commas_in_excel_beside_real_numbers(tmp_path):
    pd.DataFrame({"x": ["10,5", 2.25, "1.234,5", 7]}).to_excel(tmp_path / "t.xlsx", index=False)
    assert read_table(tmp_path / "t.xlsx")["x"].tolist() == [10.5, 2.25, 1234.5, 7]


def test_rows_above_the_header_are_skipped(tmp_path):
    file = write(tmp_path, "Customers of 2024; all regions\n\na;b\n1;2\n3;4\n")
    assert read_table(file, skip_rows=2)["b"].tolist() == [2, 4]
    pd.DataFrame([["Customers", None], [None, None], ["a", "b"], [1, 2]]).to_excel(
        tmp_path / "t.xlsx", index=False, header=False
    )
    assert read_table(tmp_path / "t.xlsx", skip_rows=2)["b"].tolist() == [2]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.xlsx"])
def test_codes_of_digits_are_text_if_that_is_wanted(tmp_path, name):
    frame = pd.DataFrame({"zip": [1010, 8000] * 15, "x": np.linspace(0, 1, 30) ** 2})
    place = tmp_path / name
    if name == "t.csv":
        frame.to_csv(place, index=False)
    elif name == "t.xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(place, index=False)
    else:
        frame.to_parquet(place) if name == "t.parquet" else frame.to_feather(place)
    read = read_table(place, types={"zip": "text"})
    assert read["zip"].tolist() == ["1010", "8000"] * 15
    model = for_table(TSVM()).fit(read, [*"abab", *[None] * 26])
    assert model[0].schema_ == {"zip": "text", "x": "number"}
    assert score_file(model, place, tmp_path / "out.csv")["rows"] == 30
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["probability_a"], model.predict_proba(read)[:, 0])
    with pytest.raises(DataError, match="column 'zp' not found; did you mean 'zip'"):
        read_table(place, types={"zp": "text"})


def test_excels_own_first_line_and_nameless_columns(tmp_path):
    frame = read_table(write(tmp_path, "sep=;\r\n;b\r\n0;x,y\r\n1;z\r\n"))
    assert frame.columns.tolist() == ["unnamed_1", "b"]
    assert frame["b"].tolist() == ["x,y", "z"]


@pytest.mark.parametrize("word", ["NA", "None", "nan", "null", "N/A"])
def test_a_class_may_be_named_like_a_missing_value(tmp_path, word):
    file = write(tmp_path, f"x,other,segment\n1,{word},{word}\n2,a,gold\n3,b,\n")
    frame = read_table(file, label="segment")
    assert frame["segment"].tolist()[:2] == [word, "gold"]
    assert frame["segment"].isna().tolist() == [False, False, True]
    assert frame["other"].isna().tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1", "-1", "2"], [1, -1, 2]),
        (["1.0", "", "2.0"], [1, None, 2]),
        (["007", "", "1"], ["007", None, "1"]),
        (["1.5", "2", "x"], ["1.5", "2", "x"]),
        ([" gold ", " ", "blue"], ["gold", None, "blue"]),
    ],
)
def test_labels_as_text_and_integers(tmp_path, cells, wanted):
    lines = "\n".join(f"{i},{cell}" for i, cell in enumerate(cells))
    labels = read_table(write(tmp_path, f"x,y\n{lines}\n"), label="y")["y"]
    assert [None if pd.isna(v) else v for v in labels] == wanted


def test_identifiers_stay_as_they_stand(tmp_path):
    file = write(tmp_path, "id,n,x\n007,3,1\n008,4,2\n")
    assert read_table(file, id="id")["id"].tolist() == ["007", "008"]
    assert read_table(file, id="n")["n"].tolist() == [3, 4]


def test_identifiers_of_typed_files_keep_their_type(tmp_path):
    frame = pd.DataFrame({"text": ["1", "2"], "n": pd.array([2**60 + 1, None], dtype="Int64"), "x": [1.5, 2]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        assert read_table(tmp_path / name, id="text")["text"].tolist() == ["1", "2"]
        assert read_table(tmp_path / name, id="n")["n"].tolist()[0] == 2**60 + 1


def test_a_few_words_among_numbers_are_missing_values_with_a_warning(tmp_path):
    lines = [f"{i},{i / 2}" for i in range(40)]
    lines[16] = "16,unknown"
    file = write(tmp_path, "i,x\n" + "\n".join(lines) + "\n")
    with pytest.warns(DeepSepWarning, match=r"39 numbers and 1 other .* 'unknown' \(first in row 17\)") as caught:
        frame = read_table(file)
    assert caught[0].filename == __file__
    assert frame["x"].isna().sum() == 1
    assert read_table(file, types={"x": "text"})["x"][16] == "unknown"
    with pytest.raises(DataError, match="'x': 'words'"):
        read_table(file, types={"x": "words"})


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", {}, r"is empty \(0 bytes\)"),
        (b" \n\r\n", {}, "only blank lines"),
        (b"a,b,c\n", {}, r"columns \(a, b, c\) but no rows"),
        (b"a,b\n1,2\n3\n5,6\n", {}, "line 3: 1 values, but the header has 2.*cut off"),
        (b'a,b\n1,"x\ny"\n3,4,5\n6,7,8,9\n', {}, r"line 4: 3 values.*\(2 lines are like this\).*double quotes"),
        (b"a,b\nr1,1,2\nr2,3,4\n", {}, "one more value than the header.*row names"),
        (b"a,b,a,a\n1,2,3,4\n", {}, r"'a' \(columns 1, 3, 4\)"),
        (b"a;b;c\n1;2;3\n4;5;6\n", {"delimiter": ","}, r"one column, 'a;b;c'. With ';' \(semicolon\) it has 3"),
        (b"a^b^c\n1^2^3\n4^5^6\n", {}, r"delimiter='\^' it has 3 columns"),
        (b"a,b\n1,2\n", {"delimiter": "::"}, "one character"),
        (b"a,b\n\x81\xff,2\n", {}, "cannot detect the encoding.*encoding='cp1251'"),
        ("a,b\nпривет,мир\nмир,привет\n".encode("cp1251"), {}, "cannot detect the encoding"),
        ("a,b\né,2\n".encode("latin-1"), {"encoding": "utf-8"}, r"is not utf-8: byte 4 \(0xe9\)"),
        (b"a,b\n1,2\n", {"encoding": "utf-9"}, "'utf-9' is unknown"),
        (bytes(range(256)) * 8, {}, "binary file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), {}, "PNG image"),
        (b"\xd0\xcf\x11\xe0" + bytes(40), {}, "old Excel file"),
        (b"\x80\x04\x95" + bytes(40), {}, "pickle, which is not opened"),
        (b"<!doctype html><html></html>", {}, "a web page"),
        (b"PAR1 but not really", {}, "damaged or incomplete"),
        (gzip.compress(b"a,b\n1,2\n" * 500, mtime=0)[:-12], {}, "damaged"),
        (b"age,segment\n1,a\n", {"label": "segmnt"}, "label column 'segmnt' not found; did you mean 'segment'"),
        (b"age,segment\n1,a\n", {"label": "zzz"}, "label column 'zzz' not found. The table has 'age', 'segment'"),
        (b"age,segment\n1,a\n", {"id": "aeg"}, "id column 'aeg' not found; did you mean 'age'"),
        (b"age,segment\n1,a\n", {"types": {"ag": "text"}}, "column 'ag' not found; did you mean 'age'"),
        (b'a,b\n1,"never closed\n2,3\n', {}, "double quote is never closed.*never closed"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path, content, options, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        read_table(write(tmp_path, content), **options)


def test_a_missing_file_names_its_neighbour(tmp_path):
    write(tmp_path, CSV, "customers.csv")
    with pytest.raises(DataError, match=r"custmers.csv does not exist.*did you mean 'customers.csv'"):
        read_table(tmp_path / "custmers.csv")
    with pytest.raises(DataError, match="nor does the folder"):
        read_table(tmp_path / "nowhere" / "t.csv")


def test_a_folder_without_parts_says_what_it_has(tmp_path):
    write(tmp_path, CSV, "customers.csv")
    with pytest.raises(DataError, match=r"folder without Parquet files \(it has customers.csv\)"):
        read_table(tmp_path)
    write(tmp_path, "{}", "manifest.json")
    with pytest.raises(DataError, match="saved model, not a table"):
        read_table(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may read every file")
def test_an_unreadable_file(tmp_path):
    file = write(tmp_path, CSV)
    file.chmod(0)
    with pytest.raises(DataError, match="permission denied"):
        read_table(file)


def test_a_locked_file(tmp_path, monkeypatch):
    file = write(tmp_path, CSV)

    def locked(*args, **kwargs):
        raise PermissionError(13, "used by another process")

    monkeypatch.setattr("builtins.open", locked)
    with pytest.raises(DataError, match="has it open, close it there"):
        read_table(file)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.feather", "parts", "t.xlsx"])
def test_tables_beyond_the_memory_limit_are_refused(tmp_path, monkeypatch, name):
    frame = pd.DataFrame({"a": np.arange(5_000), "b": "x"})
    place = tmp_path / name
    if name == "parts":
        place.mkdir()
        frame.to_parquet(place / "0.parquet")
    elif name == "t.parquet":
        frame.to_parquet(place)
    elif name == "t.feather":
        frame.to_feather(place)
    elif name == "t.xlsx":
        pytest.importorskip("openpyxl")
        frame[:500].to_excel(place, index=False)
    else:
        frame.to_csv(place, index=False)
    with pytest.raises(DataError, match=r"memory, but only \S+ kB are allowed \(max_bytes\).*Scoring handles files"):
        read_table(place, max_bytes=16_000)
    monkeypatch.setenv("DEEPSEP_MAX_BYTES", "16000")
    with pytest.raises(DataError, match="in the environment"):
        read_table(place)
    monkeypatch.setenv("DEEPSEP_MAX_BYTES", "1e9")
    assert len(read_table(place)) in (500, 5_000)
    monkeypatch.setenv("DEEPSEP_MAX_BYTES", "lots")
    with pytest.raises(DataError, match="not a number of bytes"):
        read_table(place)


def test_text_labels_of_a_parquet_file_stay_text(tmp_path):
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "code": ["1", None, "2"]})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.parquet", label="code")["code"].tolist()[0] == "1"
    assert read_table(tmp_path / "t.csv", label="code")["code"].tolist()[0] == 1


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.csv"])
def test_a_misspelt_column_is_named_in_every_kind_of_file(tmp_path, name):
    frame = pd.DataFrame({"user": [1, 2], "segment": ["a", None]})
    write = {"parquet": frame.to_parquet, "feather": frame.to_feather, "csv": lambda f: frame.to_csv(f, index=False)}
    write[name.partition(".")[2]](tmp_path / name)
    with pytest.raises(DataError, match="'segmnt' not found; did you mean 'segment'"):
        read_table(tmp_path / name, label="segmnt")
    with pytest.raises(DataError, match="'usr' not found; did you mean 'user'"):
        read_table(tmp_path / name, id="usr")


def test_numbers_that_excel_holds_as_text_are_numbers(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"income": ["10.5", "NA", "7"], "plan": ["free", "pro", "free"], "age": [30, 40, None]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    read = read_table(tmp_path / "t.xlsx")
    assert read["income"].isna().tolist() == [False, True, False]
    assert read["income"].tolist()[::2] == [10.5, 7.0]
    assert read["plan"].tolist() == ["free", "pro", "free"]
    assert read["age"].tolist()[:2] == [30, 40]


def test_a_title_above_the_header_is_pointed_out(tmp_path):
    with pytest.raises(DataError, match=r"skip it with skip_rows=1\."):
        read_table(write(tmp_path, "Customers of 2024\na;b\n1;2\n3;4\n"), delimiter=";")
    pd.DataFrame([["Customers", None, None], ["a", "b", "c"], [1, 2, 3]]).to_excel(
        tmp_path / "t.xlsx", index=False, header=False
    )
    with pytest.raises(DataError, match=r"label column 'b' not found.*skip it with skip_rows=1\."):
        read_table(tmp_path / "t.xlsx", label="b")
