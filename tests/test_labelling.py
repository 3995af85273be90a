"""Rows to label next, labels to doubt, and labels added to those that a table has."""

from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from scipy.stats import chi2

from deepsep import Committee, for_table, method, out_of_fold, suspicious_labels
from deepsep.errors import DataError, DeepSepWarning, ParameterError
from deepsep.evaluation.next_rows import choose_next_rows, uncertainty
from deepsep.evaluation.suspicious import doubtful_labels, trust
from deepsep.scoring import rows_to_label
from deepsep.scoring.to_label import GUESS_COLUMNS, write_rows_to_label
from deepsep.table import add_labels, read_table


def random_rows(m: int = 200, c: int = 3, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(c), m), rng.normal(size=(m, d))


# -- the choice ----------------------------------------------------------------------------------------------


def test_uncertainty_is_one_for_a_tie_and_nothing_for_certainty() -> None:
    p = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.2, 0.6], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(uncertainty(p), [1, 0, 0.6, 1])
    assert uncertainty(np.ones((3, 1))).tolist() == [0, 0, 0]


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("n", [1, 7, 25, 199, 200, 500])
def test_rows_are_distinct_and_the_most_uncertain_comes_first(n: int, per_class: bool) -> None:
    p, X = random_rows()
    chosen = choose_next_rows(p, X, n, per_class=per_class)
    assert len(chosen) == len(set(chosen.tolist())) == min(n, 200)
    assert (np.diff(uncertainty(p)[chosen]) <= 0).all()
    np.testing.assert_array_equal(chosen, choose_next_rows(p, X, n, per_class=per_class))


def test_the_choice_depends_on_no_scale_and_no_order_of_classes() -> None:
    p, X = random_rows()
    chosen = choose_next_rows(p, X, 10)
    np.testing.assert_array_equal(chosen, choose_next_rows(p[:, ::-1], X, 10))
    np.testing.assert_array_equal(chosen, choose_next_rows(p, X * [1, 10, 100, 1000] + 5, 10))


def test_quotas_are_equal_as_far_as_there_are_rows() -> None:
    p, X = np.eye(3)[[0] * 50 + [1] * 40 + [2] * 2] * 0.7 + 0.1, np.random.default_rng(0).normal(size=(92, 3))
    chosen = p[choose_next_rows(p, X, 20, per_class=True)].argmax(axis=1)
    assert np.bincount(chosen).tolist() == [9, 9, 2]


def test_copies_of_a_row_are_chosen_when_there_is_nothing_else() -> None:
    p, _ = random_rows(30)
    chosen = choose_next_rows(p, np.ones((30, 2)), 5)
    np.testing.assert_array_equal(np.sort(chosen), np.sort(np.argsort(-uncertainty(p))[:5]))


# -- the table -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 2, 120)
    return pd.DataFrame(
        {
            "code": [f"{i:03d}" for i in range(120)],
            "note": [f"=A{i}" for i in range(120)],
            "size": (kind * 3 + rng.normal(size=120)).round(3),
            "town": rng.choice(["Köln", "Łódź"], 120),
            "kind": pd.Series(np.where(kind == 1, "große", "petite")).where(rng.random(120) < 0.3),
        }
    )


@pytest.fixture(scope="module")
def fitted(table: pd.DataFrame) -> Any:
    forest = method("random-forest", n_estimators=20, random_state=0)
    return for_table(forest).fit(table[["size", "town"]], table["kind"])


def test_rows_to_label_have_no_label_and_show_what_the_model_believes(table: pd.DataFrame, fitted: Any) -> None:
    known = table.loc[table["kind"].isna(), "code"].tolist()[:40]
    rows = rows_to_label(fitted, table, 10, id="code", known=known)
    assert list(rows) == ["code", *GUESS_COLUMNS, "kind", "labels_drawn", "size", "town", "note"]
    assert rows["kind"].isna().all()
    assert not set(rows["code"]) & (set(known) | set(table.loc[table["kind"].notna(), "code"]))
    at = table.set_index("code").loc[rows["code"]]
    p = np.sort(fitted.predict_proba(at), axis=1)
    assert rows["model_guess"].tolist() == fitted.predict(at).tolist()
    np.testing.assert_allclose(rows[["model_runner_up_probability", "model_probability"]], p[:, -2:], atol=5e-4)
    assert (rows["model_guess"] != rows["model_runner_up"]).all()


def test_without_identifiers_rows_have_numbers(table: pd.DataFrame, fitted: Any) -> None:
    rows = rows_to_label(fitted, table.drop(columns="kind"), 5, known=[0, 1, 2])
    np.testing.assert_array_equal(rows["size"], table.loc[rows["row"], "size"])
    assert not set(rows["row"]) & {0, 1, 2}
    assert "kind" in rows


def test_what_cannot_be_chosen_is_an_error(table: pd.DataFrame, fitted: Any) -> None:
    with pytest.raises(DataError, match="every row of the table has a label"):
        rows_to_label(fitted, table.assign(kind="petite"))
    with pytest.raises(DataError, match="missing: 'size'"):
        rows_to_label(fitted, table.drop(columns="size"))
    with pytest.raises(DataError, match="id column 'cod' not found; did you mean 'code'"):
        rows_to_label(fitted, table, id="cod")
    with pytest.raises(DataError, match="like another column"):
        rows_to_label(fitted, table, id="kind")
    with pytest.raises(DataError, match="the id column is named 'labels_drawn'"):
        rows_to_label(fitted, table.rename(columns={"code": "labels_drawn"}), id="labels_drawn")
    with pytest.raises(ParameterError, match="random_every=1; pass 2 or more"):
        rows_to_label(fitted, table, random_every=1)


@pytest.mark.parametrize("n", [1, 9, 10, 25, 60])
def test_every_tenth_row_is_drawn_at_random(table: pd.DataFrame, fitted: Any, n: int) -> None:
    rows = rows_to_label(fitted, table, n, id="code")
    assert len(rows) == rows["code"].nunique() == n
    is_random = (rows["labels_drawn"] == "random").to_numpy()
    assert np.flatnonzero(is_random).tolist() == list(range(9, n, 10))
    assert (rows.loc[~is_random, "labels_drawn"] == "chosen").all()
    sure = 1 - uncertainty(rows.loc[~is_random, ["model_probability", "model_runner_up_probability"]].to_numpy())
    assert (np.diff(sure) > -0.002).all()  # the others are in their order, as far as three digits tell
    none = rows_to_label(fitted, table, n, id="code", random_every=None)
    assert set(none["labels_drawn"]) == {"chosen"}


def test_random_rows_are_as_likely_as_all_others(table: pd.DataFrame, fitted: Any) -> None:
    pool = table.loc[table["kind"].isna(), "code"]
    drawn = pd.Series(0, pool)
    for seed in range(60):
        rows = rows_to_label(fitted, table, 20, id="code", random_state=seed, random_every=2)
        drawn[rows.loc[rows["labels_drawn"] == "random", "code"]] += 1
    expected = 600 / len(pool)
    statistic = ((drawn - expected) ** 2 / (expected * (1 - 10 / len(pool)))).sum()
    assert 0.001 < chi2.cdf(statistic, len(pool) - 1) < 0.999


@pytest.mark.parametrize("kind", ["csv", "tsv", "xlsx"])
def test_a_written_file_is_read_as_it_was(table: pd.DataFrame, fitted: Any, tmp_path: Path, kind: str) -> None:
    rows = rows_to_label(fitted, table, 8, id="code")
    file = tmp_path / "new" / f"rows.{kind}"
    write_rows_to_label(rows, file, label="kind", classes=fitted.classes_)
    back = read_table(file, label="kind", id="code")
    assert back["kind"].isna().all()
    for name in rows.columns.drop("kind"):
        assert back[name].tolist() == rows[name].tolist(), name
    assert file.read_bytes().startswith(b"\xef\xbb\xbf") is (kind == "csv")


def test_a_workbook_offers_the_classes_and_keeps_its_header_in_sight(
    table: pd.DataFrame, fitted: Any, tmp_path: Path
) -> None:
    write_rows_to_label(
        rows_to_label(fitted, table, 8, id="code"), tmp_path / "r.xlsx", label="kind", classes=["a,b", "=7"]
    )
    book = openpyxl.load_workbook(tmp_path / "r.xlsx")
    (choice,) = book.worksheets[0].data_validations.dataValidation
    assert (choice.type, str(choice.sqref), choice.formula1) == ("list", "F2:F9", "=classes!$A$1:$A$2")
    assert [cell.value for cell in book["classes"]["A"]] == ["a,b", "=7"]
    assert book["classes"].sheet_state == "hidden"
    assert book.worksheets[0].freeze_panes == "G2"
    assert {cell.data_type for cell in book.worksheets[0]["J"]} == {"s"}  # "=A1" is text, not a formula


# -- labels to doubt -----------------------------------------------------------------------------------------


def test_trust_is_relative_to_the_class() -> None:
    rng = np.random.default_rng(0)
    p, codes = rng.dirichlet(np.ones(4), 50), rng.integers(0, 3, 50)  # nothing is labelled 3
    values = trust(p, codes)
    for k in range(3):
        assert np.isclose(values[codes == k].mean(), 1)
    halved = p.copy()
    halved[:, 1] /= 2  # a class that is harder to recognise
    np.testing.assert_allclose(trust(halved, codes), values)


def wrong_labels() -> tuple[np.ndarray, np.ndarray, list[int]]:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-4, 1, (60, 2)), rng.normal(4, 1, (60, 2))])
    y = np.where(np.arange(120) < 60, "low", "high").astype(object)
    y[20:60] = y[80:] = None
    y[5], y[70] = "high", "low"
    return X, y, [5, 70]


def test_wrong_labels_are_the_most_suspicious_ones() -> None:
    X, y, wrong = wrong_labels()
    forest = method("random-forest", n_estimators=20, random_state=0)
    result = out_of_fold(forest, X, y, n_repeats=2, random_state=0)
    frame = suspicious_labels(result)
    assert sorted(frame["row"][:2]) == wrong
    assert sorted(frame["row"]) == np.flatnonzero(y != None).tolist()  # noqa: E711
    assert frame["trust"].is_monotonic_increasing
    doubtful = doubtful_labels(frame, n_classes=4)["row"].tolist()
    assert doubtful == frame.loc[frame["probability_given"] <= 0.125, "row"].tolist()
    given = result.probabilities[np.arange(len(result.rows)), result.codes]
    mean = pd.Series(given).groupby(result.rows).mean()  # over the repeats
    np.testing.assert_allclose(frame.set_index("row")["probability_given"].sort_index(), mean)


def test_a_committee_knows_its_suspicious_labels_and_their_identifiers() -> None:
    X, y, wrong = wrong_labels()
    members = [method("logistic-regression"), method("random-forest", n_estimators=20, random_state=0)]
    committee = Committee(members=members, effort="fast", student=False, n_jobs=1, random_state=0).fit(X, y)
    ids = pd.Series([f"p{i}" for i in range(120)], name="person")
    frame = suspicious_labels(committee, ids=ids)
    assert sorted(frame["person"][:2]) == [f"p{i}" for i in wrong]
    assert frame["given"][0] != frame["predicted"][0]
    with pytest.raises(DataError, match="ids for 3 rows"):
        suspicious_labels(committee, ids=ids[:3])
    assert next(iter(suspicious_labels(committee, ids=ids.rename("trust")))) == "id"
    with pytest.raises(ParameterError, match="no predictions out of fold"):
        suspicious_labels(method("logistic-regression"))


# -- labels added --------------------------------------------------------------------------------------------


def people(**changes: Any) -> pd.DataFrame:
    return pd.DataFrame({"user": [1, 2, 3, 4, 5], "segment": ["a", "b", None, None, None]} | changes)


def test_labels_are_added_and_none_is_lost() -> None:
    more = pd.DataFrame({"user": [3, 1, 4, 2], "segment": ["b", "a", None, ""]})
    frame, summary = add_labels(people(), more, on="user", label="segment")
    assert frame["segment"].fillna("-").tolist() == ["a", "b", "b", "-", "-"]
    assert {name: summary[name] for name in ("new", "same", "contradictory", "labelled", "unmatched")} == {
        **{"new": 1, "same": 1, "contradictory": 0, "labelled": 3, "unmatched": 0}
    }


def test_adding_twice_changes_nothing() -> None:
    more = pd.DataFrame({"user": [3, 5], "segment": ["b", "a"]})
    once, _ = add_labels(people(), more, on="user", label="segment")
    twice, summary = add_labels(once, more, on="user", label="segment")
    pd.testing.assert_frame_equal(once, twice)
    assert (summary["new"], summary["same"]) == (0, 2)


def test_contradictions_are_an_error_until_one_side_is_preferred() -> None:
    more = pd.DataFrame({"user": [1, 2, 3], "segment": ["b", "b", "a"]})
    with pytest.raises(DataError, match=r"1 new label contradicts.*user 1 \('a', now 'b'\).*prefer='new', or old"):
        add_labels(people(), more, on="user", label="segment")
    for prefer, first in (("new", "b"), ("old", "a")):
        frame, summary = add_labels(people(), more, on="user", label="segment", prefer=prefer)
        assert frame["segment"][:3].tolist() == [first, "b", "a"]
        assert summary["contradictory"] == 1
    with pytest.raises(ParameterError, match="pass 'new', 'old' or None"):
        add_labels(people(), more, on="user", label="segment", prefer="mine")


@pytest.mark.parametrize("given", [["1", "2"], [1.0, 2.0], [1, 2]])
@pytest.mark.parametrize("own", [[1, 2, None], ["1", "2", None], [1, 2, -1]])
def test_labels_keep_the_type_of_the_table(own: list[Any], given: list[Any]) -> None:
    table = pd.DataFrame({"user": [1, 2, 3], "segment": own})
    more = pd.DataFrame({"user": [1, 3], "segment": given})
    frame, summary = add_labels(table, more, on="user", label="segment")
    kind = type(own[0])
    assert frame["segment"].tolist() == [kind(1), kind(2), kind(2)]
    assert (summary["new"], summary["same"]) == (1, 1)


def test_notices_of_unknown_rows_and_new_classes() -> None:
    more = pd.DataFrame({"user": [3, 77], "segment": ["aa", "b"]})
    with pytest.warns(DeepSepWarning) as caught:
        frame, summary = add_labels(people(), more, on="user", label="segment")
    words = " ".join(str(warning.message) for warning in caught)
    assert "1 of 2 labels have no row in the population, such as user 77" in words
    assert "1 new labels are of classes that the table did not have: 'aa'" in words
    assert frame["segment"][2] == "aa"
    assert summary["unmatched_examples"] == [77]


def test_weights_of_added_labels() -> None:
    more = pd.DataFrame({"user": [2, 3], "segment": ["b", "a"], "sure": [0.5, 0.25]})
    frame, _ = add_labels(people(), more, on="user", label="segment", weight="sure")
    assert frame["sure"].tolist() == [1, 0.5, 0.25, 1, 1]
    with pytest.raises(DataError, match="already has a column 'sure'"):
        add_labels(frame, more, on="user", label="segment", weight="sure")
