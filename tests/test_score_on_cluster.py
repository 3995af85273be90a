"""The recipe for Spark and Dask in examples/, which docs/how-to/deployment/cluster.md shows."""

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

from deepsep import TSVM, for_table, save

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def recipe():
    place = importlib.util.spec_from_file_location("score_on_cluster", ROOT / "examples" / "score_on_cluster.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        ([7, 8, 9, 10], "bigint"),
        (list("abcd"), "string"),
        (pd.date_range("2025-01-01", periods=4), "timestamp"),
        (pd.date_range("2025-01-01", periods=4, tz="UTC"), "timestamp"),
    ],
)
def test_the_schema_for_spark_has_the_type_of_the_id(recipe, ids, kind, tmp_path) -> None:
    table = pd.DataFrame({"age": [25, 31, 64, 70], "plan": ["free", "free", "pro", "pro"]})
    save(for_table(TSVM()).fit(table, ["young", None, None, "old"]), tmp_path / "model")
    result = recipe.Scorer(str(tmp_path / "model"), id="when").empty(table.assign(when=ids))
    assert recipe.spark_schema(result) == (
        f"`when` {kind}, `label` string, `probability_old` double, `probability_young` double, `confidence` double"
    )


def test_the_page_shows_the_recipe() -> None:
    code = (ROOT / "examples" / "score_on_cluster.py").read_text()
    assert f"```python\n{code}```" in (ROOT / "docs" / "how-to" / "deployment" / "cluster.md").read_text()
