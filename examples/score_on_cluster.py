"""Score the tables of Spark or Dask: every worker opens the saved model once, and scores what it is given.

The folder of the model must be where the workers can read it: on a shared disk, or shipped with the job.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import pandas as pd

from deepsep import load
from deepsep.scoring import score_frame

opened = lru_cache(maxsize=1)(load)  # one model per process


class Scorer:
    """A function of frames that is small to send: it holds the name of the model's folder, not the model."""

    def __init__(self, folder: str, id: str, *, fast: bool = False) -> None:
        self.folder, self.id, self.fast = folder, id, fast

    def frame(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Score one partition: for ``map_partitions`` of Dask."""
        return score_frame(opened(self.folder), rows, id=self.id, fast=self.fast)

    def frames(self, batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Score batches one after the other: for ``mapInPandas`` of Spark."""
        for rows in batches:
            yield self.frame(rows)

    def empty(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of the result with their types, which Spark and Dask ask for, from a few rows."""
        return self.frame(rows).iloc[:0]


def spark_schema(result: pd.DataFrame) -> str:
    """Return the columns of a result in Spark's words."""
    types = {"i": "bigint", "f": "double", "b": "boolean", "M": "timestamp"}
    return ", ".join(f"`{name}` {types.get(kind.kind, 'string')}" for name, kind in result.dtypes.items())
