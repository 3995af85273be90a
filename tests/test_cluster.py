"""Scoring on Spark and Dask by examples/score_on_cluster.py: the same rows as here, from a model opened once."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import score_on_cluster
from score_on_cluster import Scorer, spark_schema

from deepsep import TSVM, for_table, load, save
from deepsep.errors import DataError
from deepsep.scoring import score_frame

EXAMPLE, PAGE = Path(score_on_cluster.__file__), Path(__file__).parents[1] / "docs/how-to/cluster.md"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "customer": [f"c{i:03d}" for i in range(200)],
            "age": rng.normal(45, 15, 200).round(1),
            "plan": rng.choice(["free", "pro"], 200),
        }
    )
    frame.loc[::9, "plan"] = None
    return frame


@pytest.fixture(scope="module")
def scorer(table, tmp_path_factory) -> Scorer:
    label = pd.Series(np.where(table["age"] > 45, "old", "young"), name="segment").where(table.index < 40)
    folder = tmp_path_factory.mktemp("cluster") / "model"
    save(for_table(TSVM()).fit(table.drop(columns="customer"), label), folder)
    return Scorer(str(folder), "customer")


@pytest.fixture(scope="module")
def expected(table, scorer) -> pd.DataFrame:
    return score_frame(load(scorer.folder), table, id="customer")


def in_order(scored: pd.DataFrame) -> pd.DataFrame:
    return scored.sort_values("customer", ignore_index=True)


def test_batches_are_scored_one_after_the_other(table, scorer, expected):
    asked = []

    def batches():
        for start in range(0, 200, 64):
            asked.append(start)
            yield table[start : start + 64]

    scored = scorer.frames(batches())
    assert asked == []
    first = next(scored)
    assert asked == [0]
    pd.testing.assert_frame_equal(pd.concat([first, *scored], ignore_index=True), expected)


def test_a_partition_may_be_empty(table, scorer, expected):
    pd.testing.assert_frame_equal(scorer.frame(table[:0]), expected[:0], check_dtype=False)
    assert list(scorer.frames([])) == []


def test_what_is_sent_is_small_and_the_model_is_opened_once(table, scorer, monkeypatch):
    opens = []
    monkeypatch.setattr(
        score_on_cluster, "opened", score_on_cluster.lru_cache(1)(lambda path: opens.append(path) or load(path))
    )
    sent = pickle.dumps(scorer)
    assert len(sent) < 1_000
    for _ in range(3):
        pickle.loads(sent).frame(table[:5])
    assert opens == [scorer.folder]


def test_bad_partition_gets_our_message(table, scorer):
    with pytest.raises(DataError, match="missing: 'age'"):
        list(scorer.frames([table.drop(columns="age")]))


def test_schema_has_the_types_of_the_result(table, scorer):
    assert spark_schema(scorer.empty(table.head())) == (
        "`customer` string, `segment` string, `probability_old` double, `probability_young` double, `confidence` double"
    )


@pytest.mark.parametrize("scheduler", ["synchronous", "processes"])
def test_dask_scores_the_same(table, scorer, expected, scheduler):
    dask = pytest.importorskip("dask.dataframe", reason="run make again, which installs dask")
    parts = dask.from_pandas(table, npartitions=3)
    scored = parts.map_partitions(scorer.frame, meta=scorer.empty(table.head()))
    here = scored.compute(scheduler=scheduler).reset_index(drop=True)
    pd.testing.assert_frame_equal(here.astype(expected.dtypes), expected)  # Dask has strings of its own


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore:The copy keyword:DeprecationWarning")
def test_spark_scores_the_same(table, scorer, expected):
    sql = pytest.importorskip("pyspark.sql", reason="pip install pyspark, which needs Java, to try it on Spark")
    spark = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        spark.sparkContext.addPyFile(str(EXAMPLE))
        frame = spark.createDataFrame(table).repartition(3)
        scored = frame.mapInPandas(scorer.frames, spark_schema(scorer.empty(table.head()))).toPandas()
    finally:
        spark.stop()
    pd.testing.assert_frame_equal(in_order(scored), in_order(expected), check_dtype=False)


def test_page_shows_the_file_as_it_is():
    assert EXAMPLE.read_text(encoding="utf-8") in PAGE.read_text(encoding="utf-8")
