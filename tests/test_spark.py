"""The recipe for Spark, read out of its page: with pandas frames in Spark's place, and on Spark where there is one."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from deepsep import Committee, for_table, load, save
from deepsep.scoring import score_frame

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to" / "deployment" / "cluster.md").read_text(encoding="utf-8")
SCORER = ROOT / "examples" / "score_on_cluster.py"
RECIPE = re.search(r"^## Spark\n.*?^```text\n(.*?)^```$", PAGE, re.M | re.S)[1]
BATCH = 70  # rows, fewer than a partition has
ARROW_TYPES = {"bigint": "int64", "double": "double", "boolean": "bool", "string": "string"}


class PandasInPlaceOfSpark:
    """What the recipe calls of a Spark session, for a Parquet file that is handed over in batches."""

    def __init__(self) -> None:
        self.sparkContext = self.read = self.write = self
        self.schema = ""

    def addPyFile(self, file: str) -> None:
        assert Path(file).exists()

    def parquet(self, place: str) -> "PandasInPlaceOfSpark | None":
        if Path(place).exists():
            self.table = pd.read_parquet(place)
            return self
        Path(place).mkdir()
        pd.concat(self.scored).to_parquet(Path(place) / "part-0.parquet", index=False)
        return None

    def limit(self, n: int) -> "PandasInPlaceOfSpark":
        self.first = self.table.head(n)
        return self

    def toPandas(self) -> pd.DataFrame:
        return self.first

    def mapInPandas(
        self, function: Callable[[Iterable[pd.DataFrame]], Iterator[pd.DataFrame]], schema: str
    ) -> "PandasInPlaceOfSpark":
        batches = (self.table[start : start + BATCH] for start in range(0, len(self.table), BATCH))
        self.scored, self.schema = list(function(batches)), schema
        return self


@pytest.fixture(scope="module", params=["text", "numbers"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a table, whose identifiers and labels are text or numbers; the cells have gaps."""
    folder, rng, n = tmp_path_factory.mktemp(request.param), np.random.default_rng(0), 400
    kind, text = rng.integers(3, size=n), request.param == "text"
    rows = pd.DataFrame(
        {
            "customer": [f"c{i:03d}" for i in range(n)] if text else np.arange(n) + 10**10,
            "age": 25 + 20 * kind + rng.normal(0, 4, n),
            "visits": pd.array(rng.poisson(2 + 3 * kind), dtype="Int64"),
            "member": pd.array(rng.random(n) < 0.2 + 0.3 * kind, dtype="boolean"),
            "plan": np.array(["free", "basic", "pro"])[np.where(rng.random(n) < 0.2, 0, kind)],
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(1_000, size=n), "D"),
        }
    )
    gaps = np.flatnonzero(rng.random(n) < 0.01)  # some batches have none
    rows.loc[gaps, ["age", "visits", "member", "plan", "since"]] = None
    names = np.array(["gold", "blue", "grey"], dtype=object) if text else np.array([10, 20, 30])
    label = pd.Series(names[kind], name="segment").where(rows.index < 60)
    committee = Committee(members=["logistic-regression", "lightgbm"], n_jobs=1, random_state=0)
    save(for_table(committee).fit(rows.drop(columns="customer"), label), folder / "model")
    rows.to_parquet(folder / "customers.parquet", index=False)
    return folder


def follow_recipe(spark: Any, folder: Path, target: str) -> dict[str, Any]:
    """Run the recipe as it is printed, but for its paths, and return its names."""
    paths = {
        "score_on_cluster.py": SCORER,
        "s3://.../customers": folder / "customers.parquet",
        "/shared/model": folder / "model",
        "s3://.../scored": folder / target,
    }
    recipe = RECIPE
    for printed, own in paths.items():
        assert f'"{printed}"' in recipe, printed
        recipe = recipe.replace(f'"{printed}"', repr(str(own)))
    names = {"spark": spark}
    exec(compile(recipe, "recipe", "exec"), names)
    return names


def check_same(folder: Path, target: str, schema: str) -> None:
    """Compare what was written with ``score_frame`` on all rows, and the schema with its columns and types."""
    table = pd.read_parquet(folder / "customers.parquet")
    whole = score_frame(load(folder / "model"), table, id="customer", fast=True)
    found = pd.read_parquet(folder / target).sort_values("customer", ignore_index=True)
    pd.testing.assert_frame_equal(found, whole, check_exact=True)
    declared = dict(re.findall(r"`(.*?)` (\w+)", schema))
    written = {field.name: str(field.type).removeprefix("large_") for field in pa.Schema.from_pandas(whole)}
    assert {name: ARROW_TYPES[kind] for name, kind in declared.items()} == written


def test_page_prints_the_example() -> None:
    assert f"```python\n{SCORER.read_text(encoding='utf-8')}```" in PAGE


def test_recipe_scores_batches_like_the_whole_table(place: Path) -> None:
    stand_in = PandasInPlaceOfSpark()
    names = follow_recipe(stand_in, place, "scored")
    assert len(stand_in.scored) > 1
    check_same(place, "scored", names["schema"])


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH),
        "spark.sql.files.maxPartitionBytes": "4096",
        "spark.sql.files.openCostInBytes": "0",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        yield session
        session.stop()


def test_recipe_on_spark(place: Path, spark: Any) -> None:
    names = follow_recipe(spark, place, "scored by spark")
    check_same(place, "scored by spark", names["schema"])
