"""Real tables for the benchmarks: Parquet files with a `label` column, as matrices and splits.

The protocol: at most 8,000 rows a table, classes with at least 60 rows; per class `labels // c` labelled rows; up to
3,000 of the others are the unlabelled rows, on which accuracy is measured. Numbers go to a normal distribution by
quantiles, missing ones to the median with an indicator; categories to one column a level (at most 40, each at least
0.3 % of the rows).
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.preprocessing import QuantileTransformer

Array = NDArray[Any]


def table_names(folder: str | Path | None) -> list[str]:
    """Return the names of the tables, and sklearn's digits, which anyone has."""
    return ["digits"] + (sorted(path.stem for path in Path(folder).glob("*.parquet")) if folder else [])


@lru_cache(maxsize=2)
def load(name: str, folder: str | Path | None, most: int = 8000) -> tuple[Array, Array]:
    """Return (X of float32, labels as codes), of at most so many rows."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X[:, X.std(axis=0) > 0].astype(np.float32), y
    assert folder is not None, f"{name} is read from a folder of tables"
    frame = pd.read_parquet(Path(folder) / f"{name}.parquet")
    frame = frame.sample(min(most, len(frame)), random_state=0)
    counts = frame["label"].value_counts()
    frame = frame[frame["label"].isin(counts[counts >= 60].index)].reset_index(drop=True)
    codes = np.unique(frame.pop("label"), return_inverse=True)[1]
    parts = []
    for column in frame:
        values = frame[column]
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            number = values.to_numpy(dtype=float, na_value=np.nan, copy=True)
            missing = np.isnan(number)
            number[missing] = np.nanmedian(number)
            quantiles = QuantileTransformer(
                n_quantiles=min(1000, len(number)), output_distribution="normal", random_state=0
            )
            parts.append(np.clip(quantiles.fit_transform(number[:, None]), -3, 3))
            if missing.any():
                parts.append(missing[:, None].astype(float))
        else:
            shares = values.astype("string").value_counts(normalize=True)
            for level in shares[shares >= 0.003].index[:40]:
                parts.append((values.astype("string") == level).fillna(False).to_numpy(float)[:, None])
    X = np.hstack(parts).astype(np.float32)
    return X[:, X.std(axis=0) > 0], codes


def split(codes: Array, labels: int, seed: int, n_unlabeled: int = 3000, equal: bool = False) -> tuple[Array, Array]:
    """Return (labelled rows, unlabelled rows); with `equal`, the classes of the unlabelled rows are of one size."""
    rng = np.random.default_rng(seed)
    c = codes.max() + 1
    labeled = np.concatenate([rng.permutation(np.flatnonzero(codes == k))[: max(1, labels // c)] for k in range(c)])
    rest = np.setdiff1d(np.arange(len(codes)), labeled)
    rest = rng.permutation(rest)
    if equal:
        size = min(n_unlabeled // c, np.bincount(codes[rest]).min())
        rest = np.concatenate([rest[codes[rest] == k][:size] for k in range(c)])
    return labeled, rest[:n_unlabeled]
