"""How hard the synthetic tables are: what a random forest gains over the majority class.

python -m pretraining.difficulty --tables 24 --columns 24
"""

from __future__ import annotations

import argparse
import random
from typing import NamedTuple

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier

from pretraining.generator.batch import FAMILIES, PRIORS, draw_batch


class Difficulty(NamedTuple):
    """One entry per table."""

    majority: np.ndarray[tuple[int], np.dtype[np.float64]]
    forest: np.ndarray[tuple[int], np.dtype[np.float64]]
    n_classes: np.ndarray[tuple[int], np.dtype[np.int64]]

    @property
    def relative_gain(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The share of the majority class's errors that the forest avoids."""
        gain: np.ndarray[tuple[int], np.dtype[np.float64]] = (self.forest - self.majority) / np.maximum(
            1 - self.majority, 1e-3
        )
        return gain


def difficulty(
    family: str | None,
    *,
    tables: int,
    labels: int,
    columns: int,
    seed: int,
    trees: int = 100,
    asked: int = 400,
    prior: str = "first",
) -> Difficulty:
    """Fit a forest to `labels` rows of every table, and score it on `asked` others."""
    generator, choices = torch.Generator().manual_seed(seed), random.Random(seed)
    batch = draw_batch(
        tables,
        labels,
        asked,
        columns,
        generator=generator,
        choices=choices,
        share_of_components=0,
        family=family,
        prior=prior,
    )
    majority, forest = [], []
    for values, classes in zip(batch.values.numpy(), batch.classes.numpy(), strict=True):
        model = RandomForestClassifier(trees, n_jobs=1, random_state=0).fit(values[:labels], classes[:labels])
        forest.append(float(np.mean(model.predict(values[labels:]) == classes[labels:])))
        majority.append(float(np.bincount(classes[labels:]).max() / asked))
    return Difficulty(np.array(majority), np.array(forest), batch.n_classes.numpy())


def main() -> None:
    """Print a line per family."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=24)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--prior", choices=list(PRIORS), default="second")
    options = parser.parse_args()
    print("family     classes  majority  forest  errors avoided: quartiles    no gain")
    for name in FAMILIES:
        found = difficulty(
            name,
            tables=options.tables,
            labels=options.labels,
            columns=options.columns,
            seed=options.seed,
            prior=options.prior,
        )
        gain = found.relative_gain
        quartiles = " ".join(f"{100 * q:5.0f}" for q in np.quantile(gain, [0.25, 0.5, 0.75]))
        print(
            f"{name:10} {found.n_classes.mean():7.1f} {100 * found.majority.mean():9.1f} "
            f"{100 * found.forest.mean():7.1f}  {quartiles}             {100 * np.mean(gain < 0.02):7.0f} %"
        )


if __name__ == "__main__":
    main()
