"""What marks an unlabelled row, and what is an error."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsep.core.labels import given_labels, need_two_classes, read_labels
from deepsep.errors import LabelError, LabelWarning


@pytest.mark.parametrize(
    "y",
    [
        ["a", None, "b", "a"],
        ["a", np.nan, "b", "a"],
        np.array(["a", None, "b", "a"], dtype=object),
        pd.Series(["a", None, "b", "a"]),
        pd.Series(["a", pd.NA, "b", "a"], dtype="string"),
        pd.Series(["a", None, "b", "a"], dtype="category"),
        pd.Series(["a", None, "b", "a"], index=[3, 1, 0, 2]),
        [0, -1, 1, 0],
        np.array([0, -1, 1, 0], dtype=np.int8),
        np.array([0.0, -1.0, 1.0, 0.0]),
        np.array([0.0, np.nan, 1.0, 0.0]),
        [0, None, 1, 0],
        np.array([0, np.float32("nan"), 1, 0], dtype=object),
        pd.Series([0, pd.NA, 1, 0], dtype="Int64"),
        [False, None, True, False],
        pd.Series([False, pd.NA, True, False], dtype="boolean"),
        pd.Series([3, -1, 7, 3]),
        pl.Series(["a", None, "b", "a"]),
        pl.Series(["a", None, "b", "a"], dtype=pl.Categorical),
        pl.Series([0, None, 1, 0]),
        pl.Series([0.0, float("nan"), 1.0, 0.0]),
        pl.Series([0, -1, 1, 0], dtype=pl.Int8),
        pl.Series([False, None, True, False]),
        pa.array(["a", None, "b", "a"]),
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.chunked_array([["a", None], ["b", "a"]]),
        pa.array([0, None, 1, 0]),
        pd.Series(["a", None, "b", "a"], dtype="string[pyarrow]"),
    ],
)
def test_marks(y):
    check_marks(y)


@pytest.mark.parametrize("y", [["nan", None, "None", "nan"], ["-1", None, "1", "-1"], ["", None, "NA", ""]])
@pytest.mark.filterwarnings("ignore:. rows have the label:deepsep.errors.LabelWarning")
def test_words_are_labels(y):
    check_marks(y)


def check_marks(y):
    labels = read_labels(y)
    codes = labels.codes.tolist()
    assert codes == [codes[0], -1, 1 - codes[0], codes[0]]
    assert len(labels.classes) == 2
    labeled, given = given_labels(y)
    assert labeled.tolist() == [True, False, True, True]
    np.testing.assert_array_equal(given, labels.classes[labels.codes[labeled]])


@pytest.mark.parametrize("y", [[-1, 1, 1], [None, 1, 1], [-1, None, -1], np.array([-1.0, np.nan])])
def test_labels_to_compare_with_may_be_of_one_class_or_none(y):
    labeled, given = given_labels(y)
    assert set(given) <= {1}
    assert labeled.tolist() == [v == 1 for v in y]


def test_classes_keep_their_type():
    assert read_labels([True, None, False]).classes.tolist() == [False, True]
    assert read_labels(["b", None, "a"]).classes.tolist() == ["a", "b"]
    assert read_labels([5, None, 3]).classes.tolist() == [3, 5]
    assert read_labels(np.array(["x", "a"])).codes.tolist() == [1, 0]


@pytest.mark.filterwarnings("ignore::deepsep.errors.LabelWarning")
def test_minus_one_is_a_label_among_strings_only():
    assert read_labels(["-1", "1", "0"]).classes.tolist() == ["-1", "0", "1"]
    assert read_labels([-1, 0, 1]).codes.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([-1, 1, 1, -1], "-1 and 1 only"),
        (np.array([-1.0, 1.0]), "rename"),
        ([-1, None, 0, 1], "row 0"),
        (np.array([0.0, np.nan, -1.0]), "row 2"),
        ([None, None], "none of the 2 rows has a label"),
        ([-1, -1, -1], "none of the 3 rows has a label"),
        ([], "empty"),
        (["a", 1, None], "mixes labels"),
        ([True, 2, None], "mixes labels"),
        ([0.5, 1.25, 2.75], "Unknown label type"),
        (np.array([1.0, np.inf]), "infinity"),
        (None, "y to be passed"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), "Unknown label type: y holds dates or durations"),
        ([pd.Timestamp("2020-01-01"), None], r"Unknown label type: Timestamp \(for example .*2020-01-01"),
    ],
)
def test_bad_labels(y, words):
    with pytest.raises(LabelError if words != "Unknown label type" else ValueError, match=words):
        read_labels(y)


@pytest.mark.filterwarnings("ignore::deepsep.errors.LabelWarning")  # of odd words and of spaces
@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1).filter(lambda y: any(v is not None for v in y)))
def test_strings_round_trip(y):
    labels = read_labels(y)
    back = [None if code < 0 else labels.classes[code] for code in labels.codes]
    assert back == y


def test_identifiers_are_not_classes():
    with pytest.warns(LabelWarning, match="all 130 labels differ"):
        need_two_classes(read_labels([f"user{i}" for i in range(130)] + [None]))


def test_a_class_never_seen():
    y = pd.Series(["a", None, "b"], dtype=pd.CategoricalDtype(["a", "b", "c"]))
    with pytest.warns(LabelWarning, match="no row is labelled 'c'"):
        assert read_labels(y).classes.tolist() == ["a", "b"]


@pytest.mark.parametrize("mark", ["", "nan", "unlabelled", "?", "-1", "N/A"])
def test_a_class_that_looks_like_a_mark_is_kept_with_a_warning(mark):
    with pytest.warns(LabelWarning, match="2 rows have the label"):
        assert mark in read_labels(["gold", mark, "blue", mark]).classes
