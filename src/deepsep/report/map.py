"""A map of the rows in the plane, on which similar rows lie near each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.evaluation.frames import take
from deepsep.evaluation.out_of_fold import split_model

Array = NDArray[Any]

MOST_ROWS = 1_200
MOST_LABELLED = 400
NEIGHBOURS = 30  # of a row on the map: t-SNE's perplexity


def draw_map(model: Any, table: Any, labelled: Array, seed: int) -> tuple[Array, Array, str]:
    """Return a sample of rows, their positions in the unit square, and what the positions were computed from.

    t-SNE is applied to the embedding of the model, or to the encoded columns for methods without an embedding.
    """
    from sklearn.manifold import TSNE

    rows = sample_rows(labelled, seed)
    encoder, estimator = split_model(model)
    some = take(table, rows)
    X = some if encoder is None else encoder.transform(some)
    if hasattr(estimator, "transform"):
        X, what = np.asarray(estimator.transform(X), float), "the network's embedding"
    else:
        X, what = np.asarray(X, float), "the encoded columns, since this method has no embedding"
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    if min(X.shape) < 3 or len(np.unique(X, axis=0)) < 10:
        flat = np.pad(X, ((0, 0), (0, 2)))[:, :2]
    else:
        perplexity = min(NEIGHBOURS, (len(X) - 1) / 3)
        flat = TSNE(perplexity=perplexity, init="pca", max_iter=500, random_state=seed, n_jobs=1).fit_transform(X)
    low, high = flat.min(axis=0), flat.max(axis=0)
    return rows, (flat - low) / np.where(high > low, high - low, 1), what


def sample_rows(labelled: Array, seed: int) -> Array:
    """Return at most 1,200 rows: labelled ones, at most a third, and unlabelled ones."""
    rng = np.random.default_rng(seed)
    known, unknown = np.flatnonzero(labelled), np.flatnonzero(~labelled)
    known = rng.permutation(known)[:MOST_LABELLED]
    unknown = rng.permutation(unknown)[: MOST_ROWS - len(known)]
    return np.sort(np.concatenate([known, unknown]))
