"""Where low-density separation hurts: the labelled rows are not a fair sample, and nobody says so.

    python examples/unfair_sample.py                        # prints a table and draws unfair_sample.png

85 % of the rows are in one class, but three rows of each are labelled. A TSVM that balances classes takes the labelled
shares, half and half, for those of the population, and pulls its boundary into the larger group. With the true shares
as priors it does not.
"""

import argparse
from pathlib import Path

import numpy as np
from two_moons import draw

from deepsep import TSVM

ROWS = 400
SHARE = 0.85  # of the larger class
LABELS_PER_CLASS = 3
MODELS = {
    "SVM: labels alone": {"C_star": 0.0, "balance": False},
    "TSVM: labelled shares": {},
    "TSVM: true shares": {"priors": {0: SHARE, 1: 1 - SHARE}},
}


def unfair_sample(seed):
    """Return the rows, the true classes, and the labels: -1 on all but three rows of each class."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(ROWS) > SHARE).astype(int)
    X = np.column_stack([(truth * 2 - 1) * 1.2 + rng.normal(0, 0.6, ROWS), rng.normal(0, 1, ROWS)])
    y = np.full(ROWS, -1)
    for k in (0, 1):
        y[rng.choice(np.flatnonzero(truth == k), LABELS_PER_CLASS, replace=False)] = k
    return X, truth, y


def fit_all(X, truth, y):
    """Return {name: (fitted model, accuracy on the unlabelled rows)}."""
    fits = {name: TSVM(**settings).fit(X, y) for name, settings in MODELS.items()}
    return {name: (model, float(np.mean((model.transduction_ == truth)[y == -1]))) for name, model in fits.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--output", type=Path, default=Path("unfair_sample.png"), help="the picture")
    parser.add_argument("--seed", type=int, default=0, help="which rows and labels (default: %(default)s)")
    parser.add_argument("--draws", type=int, default=100, help="how many draws to average (default: %(default)s)")
    arguments = parser.parse_args()
    accuracy = {name: [] for name in MODELS}
    for seed in range(arguments.draws):
        for name, (_, right) in fit_all(*unfair_sample(seed)).items():
            accuracy[name].append(right)
    print(f"Right among the rows without a label, over {arguments.draws} draws:\n\n{'':24}{'median':>8}{'mean':>8}")
    for name, values in accuracy.items():
        print(f"{name:24}{np.median(values):>8.0%}{np.mean(values):>8.0%}")
    X, truth, y = unfair_sample(arguments.seed)
    draw(arguments.output, X, y, fit_all(X, truth, y), ("label: large class", "label: small class"))
    print(f"\nPicture: {arguments.output.resolve()}")


if __name__ == "__main__":
    main()
