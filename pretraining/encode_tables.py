"""Turns Parquet tables into small arrays, encoded as the benchmarks encode them.

    python -m pretraining.encode_tables FOLDER_OF_PARQUET OUT_FOLDER

One compressed file per table: `values` in half precision and `classes`. The machine that trains needs no pandas.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

MOST_ROWS = 4000


def encode(source: Path, target: Path) -> None:
    """Encode every Parquet file of `source`."""
    from benchmarks.tables import load

    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.parquet")):
        values, classes = load(path.stem, str(source))
        values, classes = values[:MOST_ROWS], classes[:MOST_ROWS]
        np.savez_compressed(
            target / f"{path.stem}.npz", values=values.astype(np.float16), classes=classes.astype(np.int16)
        )
        print(f"{path.stem:24} {values.shape[0]:6} rows {values.shape[1]:5} columns {classes.max() + 1:3} classes")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    encode(options.source, options.target)


if __name__ == "__main__":
    main()
