"""A map of the rows in the plane, on which similar rows lie near each other.

A network pulls the labelled rows that it is trained on apart by class, whether or not it has learned anything about
other rows. So the map is made by the model of one fold, and shows the labelled rows that this fold holds out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.evaluation.frames import take
from deepsep.evaluation.out_of_fold import Fold

MAX_MAP_ROWS = 1_200
MAX_MAP_LABELED = 400


@dataclass(frozen=True)
class Embedded:
    """Unlabelled rows and held-out labelled rows, as the model of one fold represents them."""

    rows: Array  # (m,)
    X: Array  # (m, d), their embedding or encoded columns; for a committee, the probabilities by its members
    of: str  # description of X
    standardize: bool = True  # the columns of X


def embed(fitted: Any, fold: Fold, training: Array, held_out: Array, seed: int) -> Embedded:
    """Return at most 1,200 rows of a fold by its fitted model: unlabelled ones, and at most 400 held-out ones.

    ``training`` and ``held_out`` are the numbers of the fold's training and test rows.
    """
    unknown, known = _draw(np.flatnonzero(fold.codes < 0), len(held_out), seed)
    of = "the encoded columns, since this method has no embedding"
    parts = [part for part in (take(fold.X, unknown), take(fold.X_test, known)) if part.shape[0]]
    if hasattr(fitted, "transform"):
        parts, of = [fitted.transform(part) for part in parts], "the network's embedding"
    X = np.concatenate([_dense(part) for part in parts])
    return Embedded(np.concatenate([training[unknown], held_out[known]]), X, of)


def embed_members(committee: Any, unlabeled: Array, seed: int) -> Embedded:
    """Return at most 1,200 rows by the probabilities of each member of a committee: unlabelled and held-out ones.

    Squared distances are weighted means of the members' squared Hellinger distances. The held-out rows are those of the
    first repeat, predicted without their labels.
    """
    held_out = committee.out_of_fold_
    unknown, known = _draw(unlabeled, len(held_out.rows) // held_out.folds.n_repeats, seed)
    parts = []
    for name, member in committee.members_.items():
        p = np.concatenate([member.label_distributions_[unknown], held_out.p[name][known]])
        parts.append(np.sqrt(committee.weights_[name] / 2 * np.maximum(p, 0)))
    rows = np.concatenate([unknown, held_out.rows[known]])
    return Embedded(rows, np.hstack(parts), "the probabilities by each member", standardize=False)


def _draw(unlabeled: Array, n_held_out: int, seed: int) -> tuple[Array, Array]:
    """Return a random part of the unlabelled rows, and places of a random part of those held out."""
    rng = np.random.default_rng(seed)
    known = np.sort(rng.permutation(n_held_out)[:MAX_MAP_LABELED])
    return rng.permutation(unlabeled)[: MAX_MAP_ROWS - len(known)], known


def _dense(rows: Any) -> Array:
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows, float)


def positions(embedded: Embedded, seed: int) -> Array:
    """Return positions of the rows in the unit square, by t-SNE."""
    from sklearn.manifold import TSNE

    X, spread = embedded.X, embedded.X.std(axis=0)
    X = X - X.mean(axis=0)
    if embedded.standardize:
        X = X / np.where(spread > 0, spread, 1)
    if min(X.shape) < 3 or len(np.unique(X, axis=0)) < 10:
        flat = np.pad(X, ((0, 0), (0, 2)))[:, :2]
    else:
        perplexity = min(30, (len(X) - 1) / 3)
        flat = TSNE(perplexity=perplexity, init="pca", max_iter=500, random_state=seed, n_jobs=1).fit_transform(X)
    low, high = flat.min(axis=0), flat.max(axis=0)
    return np.asarray((flat - low) / np.where(high > low, high - low, 1))
