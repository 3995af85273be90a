"""Which labels to ask for next, and which given ones to doubt, where the truth is known.

    python benchmarks/labelling.py doubt FOLDER              # labels flipped on purpose, and how soon they are found
    python benchmarks/labelling.py next FOLDER               # three rounds of 25 labels, chosen by each rule
    python benchmarks/labelling.py summary

FOLDER holds Parquet files with a `label` column; `tables.py` says how they are split. `doubt`: 125 labels, a tenth of
them replaced by another class at random; predictions out of fold rank the labels. `next`: 35 labels, then three times
25 more of up to 2,000 unlabelled rows; accuracy on up to 2,000 other rows, after each round. With `--learner trees`,
the default, a random forest and LightGBM decide together; with `--learner committee`, the committee of effort "fast".
Lines are added to `--out`, and a cell that is in it already is not run again.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import xlogy
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from tables import load, split, table_names

from deepsep import Committee, method, out_of_fold
from deepsep.evaluation.suspicious import trust

RESULTS = Path(__file__).parent / "results" / "labelling.csv"
NAMES = ("part", "learner", "table", "draw", "rule", "labels", "value")
FLIPPED, LOOKED_AT = 0.1, 0.15
FIRST, ROUNDS, BATCH, MOST = 35, 3, 25, 2000


# -- learners ------------------------------------------------------------------------------------------------


class Trees:
    """A random forest and LightGBM: the mean of their probabilities, as a cheap stand-in for a committee."""

    def fit(self, X, y, X_unlabeled, seed):
        self.models = [each.fit(X, y) for each in _estimators(seed)]
        return self

    def predict_proba(self, X):
        return np.mean([each.predict_proba(X) for each in self.models], axis=0)

    def out_of_fold(self, X, y, X_unlabeled, seed):
        parts = [out_of_fold(each, X, y, random_state=seed) for each in _estimators(seed)]
        return parts[0].rows, np.mean([part.probabilities for part in parts], axis=0)


def _estimators(seed):
    return (
        method("random-forest", n_estimators=100, random_state=seed),
        method("lightgbm-few-labels", n_estimators=50, random_state=seed),
    )


class Fast:
    """The committee of effort "fast"."""

    def fit(self, X, y, X_unlabeled, seed):
        self.model = Committee(effort="fast", student=False, n_jobs=1, random_state=seed)
        self.model.fit(np.concatenate([X, X_unlabeled]), np.concatenate([y, np.full(len(X_unlabeled), -1)]))
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)

    def out_of_fold(self, X, y, X_unlabeled, seed):
        held_out = self.fit(X, y, X_unlabeled, seed).model.out_of_fold_
        return held_out.rows, held_out.p["committee"]


LEARNERS = {"trees": Trees, "committee": Fast}


# -- labels to doubt -----------------------------------------------------------------------------------------


def _given(p, codes):
    return p[np.arange(len(p)), codes]


def _typical(p, codes):
    """The mean probability of each class among the rows that are labelled so."""
    return np.array([p[codes == k, k].mean() if (codes == k).any() else 1.0 for k in range(p.shape[1])])


def _gap(p, codes):
    others = p.copy()
    others[np.arange(len(p)), codes] = -np.inf
    return _given(p, codes) - others.max(axis=1)


DOUBT = {  # the lower, the more doubtful
    "probability": _given,
    "margin": _gap,
    "log margin": lambda p, codes: _gap(np.log(np.maximum(p, 1e-9)), codes),
    "relative probability": trust,
    "probability below typical": lambda p, codes: (p - _typical(p, codes))[np.arange(len(p)), codes],
    "relative margin": lambda p, codes: _gap(p / _typical(p, codes), codes),
    "log relative margin": lambda p, codes: _gap(np.log(np.maximum(p / _typical(p, codes), 1e-9)), codes),
    "margin below typical": lambda p, codes: _gap(p - _typical(p, codes), codes),
}


def doubt(a):
    """Flip labels, rank them by every rule, and count the flipped ones in the first 15 %."""
    for table, seed, X, codes in cells(a):
        if (("doubt", a.learner, table, seed, "margin", 0)) in a.done:
            continue
        labeled, unlabeled = split(codes, 125, seed)
        rng = np.random.default_rng([seed, 1])
        given, c = codes[labeled].copy(), codes.max() + 1
        flipped = rng.permutation(len(given))[: round(FLIPPED * len(given))]
        given[flipped] = (given[flipped] + rng.integers(1, c, len(flipped))) % c
        rows, p = LEARNERS[a.learner]().out_of_fold(X[labeled], given, X[unlabeled], seed)
        bad = np.isin(rows, flipped)
        top = round(LOOKED_AT * len(given))
        for rule, measure in DOUBT.items():
            first = np.argsort(measure(p, given[rows]), kind="stable")[:top]
            write(a, "doubt", table, seed, rule, 0, bad[first].sum() / len(flipped))


# -- rows to label -------------------------------------------------------------------------------------------


def _unsure(p):
    two = -np.sort(-p, axis=1)[:, :2]
    return 1 - (two[:, 0] - two[:, 1])


def _space(X):
    return PCA(min(20, *X.shape), svd_solver="full", random_state=0).fit_transform(
        (X - X.mean(0)) / X.std(0).clip(1e-6)
    )


def _density(Z):
    distance = NearestNeighbors(n_neighbors=min(21, len(Z))).fit(Z).kneighbors(Z)[0][:, 1:].mean(axis=1)
    return np.median(distance) / distance.clip(1e-6)


def _near_centres(Z, weight, n, seed):
    """One row for each of n clusters: the one nearest to its weighted centre."""
    clusters = KMeans(n, n_init=1, random_state=seed).fit(Z, sample_weight=weight)
    distance, chosen = clusters.transform(Z), []
    for k in range(n):
        order = np.argsort(distance[:, k])
        chosen.append(next(i for i in order if i not in chosen))
    return np.array(chosen)


def _first(score, n):
    return np.argsort(-score, kind="stable")[:n]


def _filtered(score, Z, n, seed, times=10):
    best = _first(score, times * n)
    return best[_near_centres(Z[best], score[best], n, seed)]


def _badge(p, Z, n, seed):
    gradient = -p
    gradient[np.arange(len(p)), p.argmax(axis=1)] += 1
    return kmeans_plusplus((gradient[:, :, None] * Z[:, None]).reshape(len(p), -1), n, random_state=seed)[1]


def _by_chance(score, power, n, rng):
    return _first(power * np.log(score.clip(1e-9)) + rng.gumbel(size=len(score)), n)


NEXT = {
    "random": lambda p, Z, n, seed, rng: rng.permutation(len(p))[:n],
    "uncertainty": lambda p, Z, n, seed, rng: _first(_unsure(p), n),
    "entropy": lambda p, Z, n, seed, rng: _first(-xlogy(p, p).sum(axis=1), n),
    "uncertain and typical": lambda p, Z, n, seed, rng: _first(_unsure(p) * _density(Z), n),
    "uncertain and diverse": lambda p, Z, n, seed, rng: _filtered(_unsure(p), Z, n, seed),
    "uncertain and a little diverse": lambda p, Z, n, seed, rng: _filtered(_unsure(p), Z, n, seed, times=3),
    "uncertain, typical and diverse": lambda p, Z, n, seed, rng: _filtered(_unsure(p) * _density(Z), Z, n, seed),
    "centres weighted": lambda p, Z, n, seed, rng: _near_centres(Z, _unsure(p) ** 2, n, seed),
    "by chance": lambda p, Z, n, seed, rng: _by_chance(_unsure(p), 2, n, rng),
    "by chance, sharper": lambda p, Z, n, seed, rng: _by_chance(_unsure(p), 6, n, rng),
    "gradients": lambda p, Z, n, seed, rng: _badge(p, Z, n, seed),
}


def next_rows(a):
    """Label rows that a rule chooses, three times, and measure accuracy on other rows after each round."""
    for table, seed, X, codes in cells(a):
        start = None
        for rule in a.rules or NEXT:
            if ("next", a.learner, table, seed, rule, FIRST + ROUNDS * BATCH) in a.done:
                continue
            labeled, rest = split(codes, FIRST, seed, n_unlabeled=2 * MOST)
            pool, test = rest[: len(rest) // 2], rest[len(rest) // 2 :]
            Z, rng = _space(X[pool]), np.random.default_rng([seed, 2])
            for done in range(ROUNDS + 1):
                if done or start is None:
                    model = LEARNERS[a.learner]().fit(X[labeled], codes[labeled], X[pool], seed)
                start = start or model
                model = model if done else start  # all rules start from the same labels
                right = model.predict_proba(X[test]).argmax(axis=1) == codes[test]
                write(a, "next", table, seed, rule, FIRST + done * BATCH, right.mean())
                if done < ROUNDS:
                    chosen = NEXT[rule](model.predict_proba(X[pool]), Z, BATCH, seed + done, rng)
                    labeled = np.concatenate([labeled, pool[chosen]])
                    pool, Z = np.delete(pool, chosen), np.delete(Z, chosen, axis=0)


# -- results -------------------------------------------------------------------------------------------------


def cells(a):
    for seed in range(a.draws):
        for table in a.tables or [name for name in table_names(a.folder) if name != "digits"]:
            yield table, seed, *load(table, a.folder)


def write(a, part, table, seed, rule, labels, value):
    new = not a.out.exists()
    with open(a.out, "a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(NAMES)
        writer.writerow((part, a.learner, table, seed, rule, labels, f"{value:.4f}"))


def summary(a):
    """Print, for each learner and rule, the mean over tables and draws, and the gain over chance."""
    lines = pd.read_csv(a.out).drop_duplicates(list(NAMES[:-1]), keep="last")
    for (part, learner), group in lines.groupby(["part", "learner"]):
        wide = group[group["labels"] == group["labels"].max()].pivot_table(
            index=["table", "draw"], columns="rule", values="value"
        )
        wide = wide.dropna()
        print(f"\n{part}, {learner}: {len(wide)} tables and draws")
        base = "random" if part == "next" else "probability"
        for rule in wide.mean().sort_values(ascending=False).index:
            gain = 100 * (wide[rule] - wide[base])
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            print(f"  {rule:<32} {100 * wide[rule].mean():5.1f}  {gain.mean():+5.1f} ± {error:.1f} over {base}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("part", choices=("doubt", "next", "summary"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--learner", choices=LEARNERS, default="trees")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--rules", nargs="*", choices=NEXT)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args()
    seen = pd.read_csv(a.out)[list(NAMES[:-1])] if a.out.exists() else pd.DataFrame(columns=NAMES[:-1])
    a.done = set(map(tuple, seen.to_numpy()))
    {"doubt": doubt, "next": next_rows, "summary": summary}[a.part](a)
    print("done", file=sys.stderr)
