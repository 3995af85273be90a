"""A row of a file means the same in whatever batch it is read."""

import csv
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from deepsep import TSVM, for_table
from deepsep.errors import DataError, DeepSepWarning
from deepsep.scoring import score_file
from deepsep.table import read_table
from deepsep.table.batches import TableFile

CELLS = ["1", "12", "0,5", "1,5", "1.234", "1,234", "12.345,6", "1,234.5", "?", "", "NA", "+3", "1e3", ".5", "inf"]
anew = settings(
    max_examples=30,
    deadline=None,
    phases=[p for p in Phase if p is not Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def write(place, columns, delimiter):
    with open(place, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return place


def in_batches(place, rows, types):
    """Return the table as batches of so many rows give it, and what was said; or the error."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always", DeepSepWarning)
        try:
            frames = [table.to_pandas() for table, _ in TableFile(place).tables(rows, list(types), types)]
        except DataError as error:
            return str(error), []
    return pd.concat(frames, ignore_index=True), [str(warning.message) for warning in messages]


@anew
@given(
    cells=st.lists(st.sampled_from(CELLS), min_size=2, max_size=12),
    delimiter=st.sampled_from(",;\t|"),
    rows=st.integers(1, 12),
)
@example(cells=["1.234", "2", "1,5"], delimiter=";", rows=1)  # 1234, since the commas are decimal
@example(cells=["1,234", "1,5"], delimiter="\t", rows=1)  # 1.234, since the second has no thousands
@example(cells=["1,5", "?", "2,5"], delimiter=";", rows=2)
@example(cells=["7", "?"], delimiter=",", rows=1)  # a batch of which no value is a number
def test_numbers_do_not_depend_on_the_batch(cells, delimiter, rows, tmp_path):
    place = write(tmp_path / "t.csv", {"i": range(len(cells)), "x": cells}, delimiter)
    types = {"i": "number", "x": "number"}
    whole, messages = in_batches(place, 1_000, types)
    parts, messages_again = in_batches(place, rows, types)
    assert messages == messages_again
    if isinstance(whole, str):
        assert parts == whole
    else:
        pd.testing.assert_frame_equal(parts, whole, check_exact=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)
            read = read_table(place, types={"x": "number"})["x"].astype(float)
        pd.testing.assert_series_equal(parts["x"], read, check_exact=True)


@pytest.mark.parametrize(
    ("cells", "delimiter", "numbers"),
    [
        (["1.234", "2", "1,5"], ";", [1234, 2, 1.5]),
        (["1.234", "2"], ";", [1.234, 2]),
        (["1,234", "2,000"], "\t", [1234, 2000]),
        (["1,234", "2,0"], "\t", [1.234, 2]),
        (["1,5", "?", "2,5"], ";", [1.5, None, 2.5]),
        (["1,234", "?", "12"], ",", [1234, None, 12]),
        (["0.1", "?", "1e-3"], ",", [0.1, None, 1e-3]),
    ],
)
def test_what_most_cells_say_goes_for_all(cells, delimiter, numbers, tmp_path):
    place = write(tmp_path / "t.csv", {"i": range(len(cells)), "x": cells}, delimiter)
    for rows in (1, 2, 100):
        frame, _ = in_batches(place, rows, {"x": "number"})
        assert [None if np.isnan(v) else v for v in frame["x"]] == numbers


def test_a_column_is_talked_of_once(tmp_path):
    place = write(tmp_path / "t.csv", {"i": range(300), "x": ["?" if i % 100 == 50 else i for i in range(300)]}, ",")
    _, messages = in_batches(place, 7, {"i": "number", "x": "number"})
    assert messages == [
        "column 'x' holds 297 numbers and 3 other values such as '?' (first in row 51), which are taken as missing."
    ]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    code = np.arange(80) % 2
    frame = pd.DataFrame(
        {
            "amount": rng.normal(1_000 + 500 * code, 100).round(2),
            "product": np.where(rng.random(80) < 0.5, [f"{v}" for v in 100 + 7 * code], "A1"),
            "size": rng.choice(["1", "2", "XL"], 80),
            "member": rng.random(80) < 0.5,
            "joined": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 80), unit="D"),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return for_table(TSVM(random_state=0)).fit(frame, np.where(np.arange(80) < 40, code, -1))


def test_dates_do_not_depend_on_the_batch(tmp_path):
    dates = ["2024-01-02", "01/02/2024", "13/02/2024"]
    place = write(tmp_path / "t.csv", {"i": range(3), "day": dates}, ",")
    for rows in (1, 2, 100):
        result, notices = in_batches(place, rows, {"day": "date"})
        assert result["day"].dt.month.tolist() == [1, 2, 2]
        assert notices == ["column 'day' holds dates such as '01/02/2024', read with the day first."]


def test_ambiguous_dates_are_not_guessed_at(tmp_path):
    place = write(tmp_path / "t.csv", {"i": range(2), "day": ["01/02/2024", "03/02/2024"]}, ",")
    result, _ = in_batches(place, 1, {"day": "date"})
    assert "column 'day' must hold dates, but in '01/02/2024' it is unclear whether the day or the month" in result


def test_a_stray_word_among_dates_is_a_missing_value(tmp_path):
    days = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d").tolist()
    days[55], days[56], days[57] = "unknown", "٢٠٢٤-٠١-٣١", "2024-02-31"  # a word, other digits, no such day
    place = write(tmp_path / "t.csv", {"i": range(60), "day": days, "x": ["?", *range(59)]}, ",")
    for rows in (1, 10, 1_000):
        frame, messages = in_batches(place, rows, {"i": "number", "day": "date", "x": "number"})
        assert np.flatnonzero(frame["day"].isna()).tolist() == [55, 56, 57]
        assert frame["day"].dropna().dt.strftime("%Y-%m-%d").tolist() == days[:55] + days[58:]
        assert messages == [
            "column 'day' holds 57 dates and 3 other values such as 'unknown', '٢٠٢٤-٠١-٣١', '2024-02-31' (first in "
            "row 56), which are taken as missing.",
            "column 'x' holds 59 numbers and 1 other values such as '?' (first in row 1), which are taken as missing.",
        ]


def test_a_stray_word_among_dates_does_not_stop_the_scoring(model, tmp_path):
    days = ["2024-02-01"] * 59 + ["unknown"]
    columns = {"amount": [1_000.5] * 60, "product": ["A1"] * 60, "size": ["1"] * 60, "member": ["true"] * 60}
    place = write(tmp_path / "t.csv", columns | {"joined": days}, ",")
    with pytest.warns(DeepSepWarning, match="'joined' holds 59 dates and 1 other values such as 'unknown'"):
        done = score_file(model, place, tmp_path / "scores.parquet", batch_rows=10)
    assert done["rows"] == 60


def test_words_where_dates_should_be_are_refused(tmp_path):
    place = write(tmp_path / "t.csv", {"i": range(3), "day": ["soon", "", "later"]}, ",")
    for rows in (1, 100):
        error, _ = in_batches(place, rows, {"day": "date"})
        assert error.startswith("column 'day' must hold dates, but none of its 2 values is one: it has 'soon', 'later'")


def test_a_piece_of_a_wide_file_has_fewer_rows(tmp_path):
    names = [f"x{i}" for i in range(200)]
    place = tmp_path / "t.csv"
    place.write_text(",".join(names) + "\n" + (",".join("1" * 200) + "\n") * 25_000)
    pieces = [len(table) for table in TableFile(place)._pieces(names)]
    assert sum(pieces) == 25_000
    assert max(pieces) * 200 <= 1_000_000
    assert [len(table) for table in TableFile(place)._pieces(names[:2])] == [25_000]


@pytest.mark.slow
@anew
@given(data=st.data(), n=st.integers(2, 10), rows=st.integers(1, 10), delimiter=st.sampled_from([",", ";"]))
def test_scores_do_not_depend_on_the_batch(model, data, n, rows, delimiter, tmp_path):
    amounts = ["1.234", "1.500,5", "990,2", "800"] if delimiter == ";" else ["1,234", "1,500.5", "990.2", "800", "?"]
    choices = {
        "amount": amounts,
        "product": ["100", "107", "A1", "", "007"],
        "size": ["1", "2", "3.0", "XL"],
        "member": ["true", "False", "0", "1", ""],
        "joined": ["2024-02-01", "2024-05-06 10:00", ""],
    }
    columns = {
        name: data.draw(st.lists(st.sampled_from(some), min_size=n, max_size=n)) for name, some in choices.items()
    }
    place = write(tmp_path / "t.csv", columns, delimiter)
    same_scores(model, place, rows)


def test_scores_of_a_file_with_decimal_commas_do_not_depend_on_the_batch(model, tmp_path):
    columns = {
        "amount": ["1.234", "990", "1.500,5", "800"],  # the first is 1234, which only the third tells
        "product": ["100", "107", "A1", ""],
        "size": ["1", "2", "XL", "3.0"],
        "member": ["true", "0", "", "False"],
        "joined": ["2024-02-01", "", "2024-05-06 10:00", "2024-02-01"],
    }
    same_scores(model, write(tmp_path / "t.csv", columns, ";"), 1)


def same_scores(model, place, rows):
    scores = []
    for size in (1_000, rows):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score_file(model, place, place.with_name("out.parquet"), batch_rows=size)
            scores.append(pd.read_parquet(place.with_name("out.parquet")))
        except DataError as error:
            scores.append(str(error))
    if isinstance(scores[0], str):
        assert scores[0] == scores[1]
    else:
        pd.testing.assert_frame_equal(*scores, check_exact=True)
