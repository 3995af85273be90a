"""The page of an experiment says what its cells found, and a table is known by its content."""

import importlib
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deepsep import DeepSep
from deepsep.study.results import ablation, claims
from deepsep.study.running import prepare, table_digest
from deepsep.study.study_page import ablation_table, claims_table, spread_table

ROOT = Path(__file__).parents[1]


@pytest.fixture
def results():
    """Two models at two sizes over three shuffles, the second without its larger size."""
    rows = [
        ("t", shuffle, labels, method, accuracy / 100, accuracy / 100, 1.0, 0.1, 0.5)
        for method, table in (
            ("DeepSep-Ensemble", {35: (50, 52, 54), 125: (60, 60, 60)}),
            ("Initial NN", {35: (49, 50, 51)}),
        )
        for labels, values in table.items()
        for shuffle, accuracy in enumerate(values)
    ]
    columns = ["table", "shuffle", "labels", "method", "accuracy", "balanced_accuracy", "log_loss", "ece", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def test_spread_over_shuffles(results):
    lines = spread_table(results, "accuracy").splitlines()
    assert lines[0] == "| model | 35 | 125 |"
    assert lines[2] == "| Initial NN | 50.00 ± 1.0 | – |"  # in the order of the paper's table
    assert lines[3] == "| DeepSep-Ensemble | 52.00 ± 2.0 | 60.00 ± 0.0 |"
    one = results[results["shuffle"] == 0]
    assert "| DeepSep-Ensemble | 50.00 | 60.00 |" in spread_table(one, "accuracy")  # no spread of one shuffle


def test_claims_show_what_stands_out(results):
    tested = claims(results)
    assert tested["difference"].tolist() == pytest.approx([2.0])
    tested["p_holm"] = 0.0499
    assert "| DeepSep-Ensemble over Initial NN | **+2.00** (0.050) |" in claims_table(tested)
    tested["p_holm"] = 0.0501
    assert "| +2.00 (0.050) |" in claims_table(tested)
    tested["p_corrected_holm"] = 0.2
    assert "| +2.00 (0.050, 0.200) |" in claims_table(tested)
    tested["p_holm"] = np.nan
    assert "| +2.00 |" in claims_table(tested)


def test_the_page_of_the_study_agrees_with_its_rows(monkeypatch):
    """The tables over all tables are those that the committed rows give."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    pages = importlib.import_module("experiment_pages")
    page = (ROOT / "docs" / "results" / "experiment.md").read_text(encoding="utf-8")
    assert pages.remake(page) == page
    assert re.search(r"TSVM \(raw features, all rows\) is ahead of DeepSep-Ensemble in \d+ of \d+ cells", page)


def test_ablation_has_a_column_for_each_size():
    columns = ["labels", "what", "accuracy", "difference", "sd", "shuffles"]
    rows = [(125, "published", 60, 0.0, 0.0, 5), (500, "published", 70, 0.0, 0.0, 5), (125, "hard", 59, -1.0, 0.25, 5)]
    lines = ablation_table(pd.DataFrame(rows, columns=columns)).splitlines()
    assert lines[2] == "| published | 60.00 | 70.00 |"
    assert lines[3] == "| hard | 59.00 (-1.00 ± 0.25) | – |"


def test_an_unfinished_ablation_has_no_row_for_what_was_not_fitted(results):
    half = results[results["method"] == "DeepSep-Ensemble"].query("labels == 35")
    variants = [half.assign(method="hard: DeepSep-Ensemble"), results.assign(method="soft: DeepSep-Ensemble")]
    table = ablation(pd.concat([results, *variants]).drop_duplicates(["method", "labels", "shuffle"]), ["hard", "soft"])
    assert table[table["what"] == "hard"]["labels"].tolist() == [35]
    assert table[table["what"] == "soft"]["labels"].tolist() == [35, 125]
    assert table["accuracy"].notna().all()


def test_table_is_known_by_its_content(tmp_path):
    table = pd.DataFrame({"n": [1.0, 2.0, np.nan], "c": ["a", None, "b"], "label": ["x", "y", "x"]})
    file = tmp_path / "table.parquet"
    table.to_parquet(file, compression="gzip")
    assert table_digest(pd.read_parquet(file)) == table_digest(table)  # however it was stored
    changes = (
        table.rename(columns={"n": "m"}),
        table[["c", "n", "label"]],
        table.iloc[::-1],
        table.assign(n=[1.0, 2.0, 3.0]),
        table.assign(c=["a", "None", "b"]),
    )
    assert table_digest(table.astype({"c": object})) == table_digest(table)  # however text is held
    assert table_digest(table.astype({"c": "category"})) != table_digest(table)  # which is encoded in another way
    assert table_digest(pd.DataFrame({"a": [0, 1]})) != table_digest(pd.DataFrame({"a": [False, True]}))
    assert table_digest(pd.DataFrame({"a": [[1], [2]]})) != table_digest(pd.DataFrame({"a": [[1], [3]]}))
    assert len({table_digest(other) for other in (table, *changes)}) == 1 + len(changes)


def test_a_changed_default_makes_new_cells(monkeypatch, tmp_path):
    frame = pd.DataFrame({"x": np.arange(400.0), "label": ["a", "b"] * 200})

    def keys():
        what = prepare("t", frame, tmp_path, labels=[20], shuffles=1, methods=["deepsep", "deepsep-defaults"], trials=0)
        return [cell.key for cell in what.cells]

    before = keys()
    published = DeepSep.as_published
    monkeypatch.setattr(DeepSep, "as_published", lambda **changes: published(**({"rounds": 99} | changes)))
    after = keys()
    assert before[0] != after[0]
    assert before[1] == after[1]
