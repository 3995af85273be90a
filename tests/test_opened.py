"""A table is opened once and passed on: how often files are opened, and what is known of them from then on."""

import inspect
import runpy
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from deepsep import fit, for_table, method
from deepsep.apps.sql import Query, score_query, score_to_table
from deepsep.errors import DataError, DeepSepWarning, ParameterError
from deepsep.scoring import Decision, Resources, score_file, score_frame
from deepsep.table import read_sample, read_table
from deepsep.table.batches import TableFile, open_files, open_table
from deepsep.table.reading_settings import Reading
from deepsep.table.sampling import has_more_rows, open_tables, other_rows
from deepsep.table.source import NUMBER_COLUMN, ExternalRows, OpenRows, SomeRows

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.DataFrame({"user": [f"u{i}" for i in range(50)], "age": np.arange(50) % 7, "zip": "007"})


def write(frame: pd.DataFrame, place: Path) -> Path:
    kind = place.suffix[1:]
    {
        "csv": lambda: frame.to_csv(place, index=False),
        "gz": lambda: frame.to_csv(place, index=False),
        "parquet": lambda: frame.to_parquet(place, index=False),
        "feather": lambda: frame.to_feather(place),
        "xlsx": lambda: frame.to_excel(place, index=False),
    }[kind]()
    return place


@pytest.mark.parametrize("run", ["opens_with_labels", pytest.param("opens_of_the_table", marks=pytest.mark.slow)])
def test_a_fit_opens_its_tables_at_most_four_times(run: str) -> None:
    structure = runpy.run_path(str(ROOT / "tools" / "structure.py"))
    assert 1 <= structure["count_in"](structure[run], ROOT / "src" / "deepsep") <= 4


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.feather", "t.xlsx"])
def test_an_open_table_is_read_as_often_as_needed(table: pd.DataFrame, name: str, tmp_path: Path) -> None:
    place = write(table, tmp_path / name)
    opened = open_files(place)
    assert opened.names == ["user", "age", "zip"]
    assert open_files(opened) is open_table(opened) is opened
    first = read_table(opened, id="user", types={"zip": "text"})
    pd.testing.assert_frame_equal(read_table(opened, id="user", types={"zip": "text"}), first)
    pd.testing.assert_frame_equal(read_table(place, id="user", types={"zip": "text"}), first)
    assert read_table(opened, label="age")["age"].tolist() == table["age"].tolist()
    assert [has_more_rows(opened, n) for n in (49, 50)] == [name != "t.xlsx", False]


def test_a_query_is_its_own_opened_table() -> None:
    query = Query("people.db", "select 1")
    assert open_table(query) is query


def test_files_are_read_as_their_settings_say(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Customers of 2024\nday;x\n05/03/2025;1\n06/03/2025;2\n")
    opened = open_files(tmp_path / "t.csv", Reading(skip_rows=1, delimiter=";", dayfirst=True))
    assert read_table(opened)["day"].dt.month.tolist() == [3, 3]
    assert next(opened.tables[0].tables(9, ["day"], {"day": "date"}))[0].to_pandas()["day"].dt.month.tolist() == [3, 3]
    with pytest.raises(DataError, match="encoding='' is unknown"):
        open_files(tmp_path / "t.csv", Reading(encoding=""))
    with pytest.raises(DataError, match="skip_rows=-1; pass an integer of at least 0"):
        Reading(skip_rows=-1)


def test_a_misspelt_setting_is_named() -> None:
    with pytest.raises(TypeError, match=r"read_table\(\) has no argument 'skiprows'; did you mean 'skip_rows'"):
        read_table("t.csv", skiprows=2)


# -- the first pass over a text file -----------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("width", [2, 60_000, 200_000])
def test_a_header_of_any_length_is_read(encoding: str, width: int, tmp_path: Path) -> None:
    names = [f"naïve{i}" for i in range(width)]
    rows = 2 * (";".join("1" * width) + "\n")
    (tmp_path / "t.csv").write_bytes(f"{';'.join(names)}\n{rows}".encode(encoding))
    file = TableFile(tmp_path / "t.csv", Reading(encoding="cp1252" if encoding == "cp1252" else None))
    assert file.names == names
    assert file.form is not None
    assert file.form.n_lines == 3


@pytest.mark.parametrize("at", [10, 1_048_570, 1_048_576, 2_500_000])
def test_the_byte_that_is_not_utf_8_is_named_wherever_it_is(at: int, tmp_path: Path) -> None:
    text = bytearray(b"name,x\n" + b"abcdefghijklm,1\n" * 200_000)
    text[at] = 0xE9
    (tmp_path / "t.csv").write_bytes(bytes(text))
    with pytest.warns(DeepSepWarning, match=rf"not UTF-8 \(see byte {at:,}, 0xe9\) and was read as cp1252"):
        file = TableFile(tmp_path / "t.csv")
    assert file.form is not None
    assert (file.form.encoding, file.form.n_lines) == ("cp1252", text.count(b"\n"))
    with pytest.raises(DataError, match=rf"is not utf-8: byte {at:,} \(0xe9\) is not valid"):
        TableFile(tmp_path / "t.csv", Reading(encoding="utf-8"))


# -- some rows of a source ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.feather", "t.xlsx"])
@pytest.mark.parametrize("rows", [7, 100])
def test_some_rows_are_those_that_are_kept(table: pd.DataFrame, name: str, rows: int, tmp_path: Path) -> None:
    file = TableFile(write(table, tmp_path / name))
    some = SomeRows(file, lambda batch, first: np.asarray(batch["age"]) > 4, first_row=100, key="age")
    batches = [
        batch if isinstance(batch, pd.DataFrame) else batch.to_pandas()
        for batch, _ in some.tables(rows, ["user", NUMBER_COLUMN], {"age": "number"}, "user")
    ]
    kept = table[table["age"] > 4]
    whole = pd.concat(batches)
    assert whole.columns.tolist() == ["user", NUMBER_COLUMN]
    assert whole["user"].tolist() == kept["user"].tolist()
    assert whole[NUMBER_COLUMN].tolist() == (100 + kept.index).tolist()
    assert all(map(len, batches))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_other_rows_are_counted(table: pd.DataFrame, name: str, tmp_path: Path) -> None:
    file = TableFile(write(table, tmp_path / name))
    (others,) = other_rows([file], np.array([0, 3, 49]))
    assert others.n_rows in (47, None)
    assert others.rows_at_most == 47


# -- settings that are shared --------------------------------------------------------------------------------------


def test_settings_are_the_same_one_by_one_and_together(table: pd.DataFrame, tmp_path: Path) -> None:
    model = for_table(method("logistic-regression")).fit(table[["age"]], ["a", "b", None, "a", "b"] * 10)
    (tmp_path / "t.csv").write_text("A title\n" + table.to_csv(index=False))
    together = {
        "reading": Reading(skip_rows=1),
        "decision": Decision(abstain=0.6),
        "resources": Resources(batch_rows=7),
    }
    one_by_one = {"skip_rows": 1, "abstain": 0.6, "batch_rows": 7}
    for name, settings in (("one", one_by_one), ("other", together)):
        done = score_file(model, tmp_path / "t.csv", tmp_path / f"{name}.csv", id="user", **settings)
        assert done["rows"] == 50
        assert done["decisions"]["abstain"]["confidence"] == 0.6
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()
    frames = [score_frame(model, table, **how) for how in ({"abstain": 0.6}, {"decision": Decision(abstain=0.6)})]
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize("function", [score_query, score_to_table])
def test_a_database_is_scored_on_this_machine(function, tmp_path: Path) -> None:
    source, how = (Query("a.db", "select 1"), {}) if function is score_query else ("t.csv", {"database": "a.db"})
    with pytest.raises(ParameterError, match=r"engine='ray' scores several files"):
        function("model", source, "scores", id="user", engine="ray", **how)


def test_no_public_function_has_more_than_twelve_parameters() -> None:
    for function in (score_file, score_query, score_to_table, score_frame, read_table, read_sample):
        assert len(inspect.signature(function).parameters) <= 12 + 1  # **fields


class Elsewhere(ExternalRows):
    """Rows of another program."""

    place = "elsewhere"

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def __str__(self) -> str:
        return self.place

    @contextmanager
    def open(self, id=None, *, unique=False):
        yield OpenElsewhere(self.frame if id is None else self.frame.sort_values(id))


class OpenElsewhere(OpenRows):
    def __init__(self, frame: pd.DataFrame) -> None:
        self.rows = pa.Table.from_pandas(frame, preserve_index=False)
        self.names, self.n_rows = self.rows.column_names, len(frame)

    def pieces(self, rows, columns):
        yield from (self.rows.select(columns).slice(start, rows) for start in range(0, self.n_rows, rows))

    def id_type(self, name):
        return self.rows.schema.field(name).type


def test_rows_of_another_program_stand_where_a_file_does(table: pd.DataFrame, tmp_path: Path) -> None:
    frame = table.drop(columns="zip").assign(segment=["old" if age > 3 else "young" for age in table["age"]])
    frame["segment"] = frame["segment"].where(np.arange(50) % 3 == 0)
    place, elsewhere = write(frame.sort_values("user"), tmp_path / "t.parquet"), Elsewhere(frame.sample(frac=1))
    pd.testing.assert_frame_equal(read_table(elsewhere, id="user"), read_table(place, id="user"))
    how = {"label": "segment", "id": "user", "unlabeled": 5, "seed": 1}
    pd.testing.assert_frame_equal(read_sample(elsewhere, **how), read_sample(place, **how))
    model = fit(elsewhere, label="segment", id="user", method="logistic-regression")
    for name, source in (("a", elsewhere), ("b", place)):
        model.score_file(source, tmp_path / f"{name}.parquet", id="user")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), pd.read_parquet(tmp_path / "b.parquet"))


def test_other_rows_than_before_are_an_error(table: pd.DataFrame) -> None:
    source = Elsewhere(table)
    with open_tables(source, "user") as (first,):
        list(first.pieces(20, ["age"]))
    for changed in (table[1:], table.assign(user=table["user"] + "x")):
        source.frame = changed
        with open_tables(source, "user", first.keys) as (again,), pytest.raises(DataError, match="gave other rows"):
            list(again.pieces(20, ["age"]))
