"""How typical are the examples of a TSVM on the pages? The same examples over many draws of rows and labels.

    python benchmarks/tsvm_draws.py --out benchmarks/results/tsvm_draws.csv

"two moons" and "unfair sample" are those of examples/, 100 draws each; "wine" is the example of docs/tsvm.md, three
labels of each of three classes, 20 draws; "digits" is scikit-learn's, five labels of each class, six draws. Accuracy is
counted on the rows without a label, in %. "SVM" is the same program without the unlabelled rows.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from deepsep import TSVM

sys.path.append(str(Path(__file__).parents[1] / "examples"))
import two_moons
import unfair_sample

SUPERVISED = {"C_star": 0.0, "balance": False}
CURVED = {"kernel": "rbf", "C": 10.0}
WINE_MODELS = {"SVM": SUPERVISED, "TSVM": {}}
DIGIT_MODELS = {"SVM": SUPERVISED, "TSVM": {}, "SVM, rbf": SUPERVISED | CURVED, "TSVM, rbf": CURVED}


def moons(draw):
    results = two_moons.fit_both(*two_moons.partly_labeled_moons(two_moons.FRESH_SEED + draw))
    return {name.partition(":")[0]: accuracy for name, (_, accuracy, _) in results.items()}


def unfair(draw):
    return {name: accuracy for name, (_, accuracy) in unfair_sample.fit_all(*unfair_sample.unfair_sample(draw)).items()}


def labeled_per_class(X, truth, n, draw, models):
    """Return the accuracy of each model when `n` rows of each class are labelled."""
    rng, known = np.random.default_rng(draw), np.zeros(len(X), bool)
    for k in np.unique(truth):
        known[rng.choice(np.flatnonzero(truth == k), n, replace=False)] = True
    y = np.where(known, truth, -1)
    fits = {name: TSVM(**settings).fit(X, y) for name, settings in models.items()}
    return {name: float(np.mean((model.transduction_ == truth)[~known])) for name, model in fits.items()}


def wine(draw):
    bottles = load_wine()
    return labeled_per_class(StandardScaler().fit_transform(bottles.data), bottles.target, 3, draw, WINE_MODELS)


def digits(draw):
    X, truth = load_digits(return_X_y=True)
    return labeled_per_class(X / 16, truth, 5, draw, DIGIT_MODELS)


CASES = {"two moons": (moons, 100), "unfair sample": (unfair, 100), "wine": (wine, 20), "digits": (digits, 6)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, help="a CSV file for the results")
    options = parser.parse_args()
    lines = [
        {"case": case, "draw": draw, "method": method, "accuracy": round(100 * accuracy, 3)}
        for case, (run, draws) in CASES.items()
        for draw in range(draws)
        for method, accuracy in run(draw).items()
    ]
    results = pd.DataFrame(lines)
    print(results.groupby(["case", "method"], sort=False)["accuracy"].agg(["mean", "median"]).round(1))
    if options.out:
        results.to_csv(options.out, index=False, lineterminator="\n")
