"""Choose the number of segments by held-out perplexity and stability over refits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from deepsep.core.arrays import Array
from deepsep.survey.lda import AnswersLDA, fit_lda

OnStep = Callable[[int, int, str], object]  # steps done, total steps, what comes next


def compare_k(
    X: Any,
    ks: Sequence[int],
    *,
    n_init: int,
    max_iter: int,
    rng: np.random.Generator,
    sample_weight: Array | None = None,
    on_step: OnStep | None = None,
    n_refits: int = 4,
    max_rows: int = 3_000,
) -> pd.DataFrame:
    """Compare numbers of segments by refits on random subsets: the table of :meth:`deepsep.SurveySegments.compare_k`.

    Of more than 3,000 respondents, 3,000 are drawn: more would change the figures little. Each of four refits uses a
    new random 80 % of them and its own seed. Weights count in the refits and in both figures.

    A perplexity of p means that a model is as unsure as between p equally likely answers. (scikit-learn's
    ``perplexity`` is a bound with a penalty for every segment; with few held-out rows it grows with k on any data.)
    """
    if X.shape[0] > max_rows:
        drawn = np.sort(rng.permutation(X.shape[0])[:max_rows])
        X, sample_weight = X[drawn], None if sample_weight is None else sample_weight[drawn]
    n = X.shape[0]
    splits = [rng.permutation(n) for _ in range(n_refits)]
    cut = min(max(int(0.8 * n), 1), n - 1)
    hidden = [halve(X[split[cut:]], rng) for split in splits]
    rows = {}
    tried = (1, *ks)
    done, total = 0, sum(tried) * n_refits  # time is proportional to the number of segments
    for k in tried:
        assignments, held_out = [], []
        for split, halves in zip(splits, hidden, strict=True):
            if on_step is not None:
                on_step(done, total, f"k = {k}")
            seeds = rng.integers(2**31 - 1, size=1 if k == 1 else n_init)
            mine, theirs = (None if sample_weight is None else sample_weight[at] for at in (split[:cut], split[cut:]))
            lda = fit_lda(X[split[:cut]], k, seeds=seeds, max_iter=1 if k == 1 else max_iter, sample_weight=mine)
            held_out.append(completion_perplexity(lda, *halves, theirs))
            assignments.append(lda.transform(X).argmax(axis=1))
            done += k
        stability = np.mean([agreement(a, b, sample_weight) for a, b in combinations(assignments, 2)])
        rows[k] = {
            "perplexity": float(np.mean(held_out)),
            "perplexity_std": float(np.std(held_out, ddof=1)),
            "stability": float(stability),
        }
    if on_step is not None:
        on_step(total, total, "done")
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("k")
    fall = table.loc[1, "perplexity"] - table["perplexity"]
    best = fall.iloc[1:].max()
    table.insert(2, "gain", fall / best if best > 0 else 0.0)
    return table.loc[list(ks)]


def halve(X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return two matrices between which the answers of each row are divided at random."""
    first = rng.random(X.nnz) < 0.5
    parts = []
    for mine in (first, ~first):
        part = X.copy()
        part.data = np.where(mine, part.data, 0.0)
        part.eliminate_zeros()
        parts.append(part)
    return parts[0], parts[1]


def agreement(one: Array, other: Array, weight: Array | None = None) -> float:
    """Return the adjusted Rand index of two partitions of the rows; a row of weight w counts as w copies.

    Weights are divided by their mean, since the index depends on the number of rows.

    Examples
    --------
    >>> one, other = np.array([0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 0])
    >>> bool(np.isclose(agreement(one, other, np.full(5, 3.0)), adjusted_rand_score(one, other)))
    True
    """
    if weight is None:
        return float(adjusted_rand_score(one, other))
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), weight / weight.mean())
    both, rows, columns, all_ = (
        (counts * (counts - 1)).sum() for counts in (table, table.sum(axis=1), table.sum(axis=0), table.sum())
    )
    expected, most = rows * columns / all_, (rows + columns) / 2
    return 1.0 if most == expected else float((both - expected) / (most - expected))


def completion_perplexity(lda: AnswersLDA, known: Any, asked: Any, weight: Array | None = None) -> float:
    """Return exp(−mean log p) of the ``asked`` answers, given the segment proportions from the ``known`` ones."""
    answers = lda.components_ / lda.components_.sum(axis=1, keepdims=True)
    rows, columns = asked.nonzero()
    probability = np.einsum("ik,ki->i", lda.transform(known)[rows], answers[:, columns])
    return float(np.exp(-np.average(np.log(probability), weights=None if weight is None else weight[rows])))


def fits_well(table: pd.DataFrame) -> list[int]:
    """Return the numbers of segments that predict held-out answers about as well as the best one.

    They reach 90 % of the best gain in perplexity, or their perplexity exceeds the lowest one by at most its standard
    deviation over the refits. If none predicts better than a single segment, all are returned.
    """
    best = table["perplexity"].idxmin()
    close = table["perplexity"] <= table.loc[best, "perplexity"] + table.loc[best, "perplexity_std"]
    enough = (table["gain"] >= 0.9) | close | ~(table["gain"] > 0).any()
    return [int(k) for k in table.index[enough]]


def choose_k(table: pd.DataFrame) -> int:
    """Return the most stable k of those that fit well; on a tie the smallest one.

    Perplexity alone would keep asking for more segments, each a little better but less certain than the last; stability
    alone would often choose two.
    """
    return int(table.loc[fits_well(table), "stability"].round(2).idxmax())


def reason_for_k(table: pd.DataFrame) -> str:
    """Return a sentence or two on why :func:`choose_k` chooses its k."""
    k, good = choose_k(table), fits_well(table)
    if not (table["gain"] > 0).any():
        return (
            f"No k predicts held-out answers better than a single segment does, and k = {k} is the most stable. These "
            "answers may not form segments."
        )
    if len(good) == 1:
        text = f"Only k = {k} predicts held-out answers well."
    else:
        text = f"k = {_listed(good)} predict held-out answers about equally well; the most stable of these is k = {k}."
    stability = table["stability"].round(2)
    stabler = [int(other) for other in table.index if stability[other] > stability[k]]
    if stabler:
        best, theirs = table.loc[table["perplexity"].idxmin()], table.loc[stabler, "perplexity"].min()
        text += (
            f" k = {_listed(stabler)} {'is' if len(stabler) == 1 else 'are'} more stable, but clearly worse at "
            f"predicting: perplexity {theirs:.2f} against {best['perplexity']:.2f}, where differences below "
            f"{best['perplexity_std']:.2f} may be chance."
        )
    return text


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
