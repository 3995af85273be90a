"""An example on public data: a few products sorted by hand, a table of all, and the truth to compare with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep.classifiers.building import method
from deepsep.classifiers.catalogue import find_method
from deepsep.datasets import load_foods
from deepsep.model import for_table

if TYPE_CHECKING:
    import pandas as pd

ID_COLUMN = "food"
FOODS_FILE, SORTED_FILE, NEWCOMERS_FILE = "foods.parquet", "sorted.csv", "newcomers.parquet"
MODEL_FOLDER, SCORED_FILE = "model", "scored.parquet"
N_PRODUCTS, N_LABELS, N_LATER = 2_000, 100, 500  # products, those with a known aisle, and products that arrive later


@dataclass(frozen=True)
class Story:
    """Contents of the demo's files."""

    # The true aisle of every food in ``foods.parquet``, by its name; most of it is hidden from the models
    aisle: pd.Series[Any]
    n_columns: int  # number of columns of ``foods.parquet`` besides the name


def write_files(folder: Path, *, seed: int = 0) -> Story:
    """Write the tables for the demo.

    ====================  ========================================================================================
    foods.parquet         the nutrition labels of 2,000 foods, drawn at random
    sorted.csv            the aisles of 100 of them, drawn at random
    newcomers.parquet     the nutrition labels of 500 other foods
    ====================  ========================================================================================
    """
    foods = load_foods()
    order = np.random.default_rng(seed).permutation(len(foods.data))
    here, asked, later = (
        np.sort(order[a:b]) for a, b in ((0, N_PRODUCTS), (0, N_LABELS), (N_PRODUCTS, N_PRODUCTS + N_LATER))
    )
    foods.data.iloc[here].reset_index().to_parquet(folder / FOODS_FILE, index=False)
    known = foods.aisle.iloc[asked].reset_index().assign(labels_drawn="random")
    known.to_csv(folder / SORTED_FILE, index=False)
    foods.data.iloc[later].reset_index().to_parquet(folder / NEWCOMERS_FILE, index=False)
    return Story(foods.aisle.iloc[here], foods.data.shape[1])


def score_supervised(
    X: Any, y: Any, truth: Any, *, seed: int = 0, on_step: Callable[[int, int, str], object] | None = None
) -> dict[str, float]:
    """Return the accuracy on the hidden rows of methods that learn from labelled rows alone."""
    hidden = y.isna().to_numpy()
    right = np.asarray(truth)[hidden]
    accuracy = {}
    names = ("random-forest", "lightgbm-few-labels", "logistic-regression")
    for i, record in enumerate(map(find_method, names)):
        if on_step is not None:
            on_step(i, len(names), record.title)
        model = for_table(method(record.name, random_state=seed)).fit(X, y)
        accuracy[record.title] = float((model.predict(X[hidden]) == right).mean())
    if on_step is not None:
        on_step(len(names), len(names), "done")
    accuracy["most frequent class"] = float((right == y.mode()[0]).mean())
    return accuracy
