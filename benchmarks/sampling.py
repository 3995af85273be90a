"""Labels that are no fair sample, and rare classes: what shares and weights do for DeepSep, TSVM and a random forest.

    python benchmarks/sampling.py --draws 8 --out benchmarks/results

Populations of 2,000 come from `deepsep.datasets.make_survey`, with segments thinned to given shares. "Quota": 30 labels
of each class. "Rare": 300 labels drawn at random where one class is 5 %. Accuracy is counted on the unlabelled rows.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, balanced_accuracy_score, precision_score, recall_score

from deepsep import TSVM, DeepSep, for_table, method
from deepsep.datasets import make_survey

N = 2_000


def population(shares, seed):
    """Return profiles and true classes with these shares; classes are called a, b, c, ..."""
    survey = make_survey(N * len(shares) * 2, n_segments=len(shares), separation=0.7, random_state=seed)
    rng = np.random.default_rng(seed)
    rows = np.concatenate(
        [
            rng.choice(np.flatnonzero(survey.segment == f"segment {k}"), round(N * share), replace=False)
            for k, share in enumerate(shares)
        ]
    )
    rng.shuffle(rows)
    truth = np.array([chr(97 + int(name.split()[-1])) for name in survey.segment[rows]])
    return survey.profile.iloc[rows].reset_index(drop=True), truth, rng


def quota(shares, seed):
    X, truth, rng = population(shares, seed)
    known = np.zeros(len(X), bool)
    for name in np.unique(truth):
        known[rng.choice(np.flatnonzero(truth == name), 30, replace=False)] = True
    y = np.where(known, truth, None)
    priors = {chr(97 + k): share for k, share in enumerate(shares)}
    weight = np.where(known, [priors[name] * len(shares) for name in truth], 1.0)
    models = {
        "DeepSep": (DeepSep(random_state=0), None),
        "DeepSep, priors": (DeepSep(random_state=0, priors=priors), None),
        "DeepSep, labels weighted": (DeepSep(random_state=0), weight),
        "TSVM": (TSVM(), None),
        "TSVM, balance=False": (TSVM(balance=False), None),
        "TSVM, priors": (TSVM(priors=priors), None),
        "random forest": (method("random-forest", random_state=0), None),
        "random forest, labels weighted": (method("random-forest", random_state=0), weight),
    }
    for name, model in fitted(models, X, y):
        predicted = model.predict(X[~known])
        yield {
            "case": " / ".join(f"{100 * share:.0f}" for share in shares) + " %",
            "method": name,
            "accuracy": np.mean(predicted == truth[~known]),
        }


def rare(seed):
    X, truth, _ = population((0.05, 0.95), seed)
    known = np.arange(len(X)) < 300
    y = np.where(known, truth, None)
    weight = np.where(known, np.where(truth == "a", 0.5 / 0.05, 0.5 / 0.95), 1.0)
    models = {
        "DeepSep": (DeepSep(random_state=0), None),
        "DeepSep, equal weights": (DeepSep(random_state=0), weight),
        "random forest": (method("random-forest", random_state=0), None),
        "random forest, equal weights": (method("random-forest", random_state=0), weight),
    }
    for name, model in fitted(models, X, y):
        predicted, right = model.predict(X[~known]) == "a", truth[~known] == "a"
        first = np.argsort(-model.predict_proba(X[~known])[:, 0])[: right.sum()]
        yield {
            "case": "rare",
            "method": name,
            "accuracy": np.mean(predicted == right),
            "balanced": balanced_accuracy_score(right, predicted),
            "recall": recall_score(right, predicted),
            "precision": precision_score(right, predicted, zero_division=0),
            "precision at the top": right[first].mean(),
            "average precision": average_precision_score(right, model.predict_proba(X[~known])[:, 0]),
        }


def fitted(models, X, y):
    for name, (estimator, weight) in models.items():
        pipeline = for_table(estimator)
        step = pipeline.steps[-1][0]
        yield name, pipeline.fit(X, y, **({} if weight is None else {f"{step}__sample_weight": weight}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--out", type=Path, help="a folder for the results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for seed in range(options.draws):
        for shares in ((0.6, 0.25, 0.15), (0.85, 0.15), (0.95, 0.05)):
            rows += quota(shares, seed)
        rows += rare(seed)
    means = 100 * pd.DataFrame(rows).groupby(["case", "method"], sort=False).mean()
    rarely = means.loc["rare"].dropna(axis=1)
    quotas = means.drop("rare")["accuracy"].unstack("case", sort=False)
    for name, table in (("sampling_quota", quotas), ("sampling_rare", rarely)):
        print(f"\n{name}: per cent, means of {options.draws} draws\n\n{table.round(1).to_string()}")
        if options.out:
            table.to_csv(options.out / f"{name}.csv", float_format="%.1f", lineterminator="\n")


if __name__ == "__main__":
    main()
