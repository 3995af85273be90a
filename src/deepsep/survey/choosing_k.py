"""How many segments: held-out perplexity and stability over refits, and a rule that weighs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from deepsep.survey.lda import AnswersLDA, fit_lda

REFITS = 4
TRAINED = 0.8  # share of the respondents that a refit sees; the others are held out
ROWS = 3_000  # most respondents compared, drawn at random: more change the figures little
GAIN = 0.9  # share of the best gain in perplexity that a number of segments must reach


OnStep = Callable[[int, int, str], object]  # steps done, steps in all, what comes next


def compare_k(
    X: Any,
    ks: Sequence[int],
    *,
    n_init: int,
    max_iter: int,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> pd.DataFrame:
    """Compare numbers of segments by refits on random parts of the respondents.

    Each of four refits sees 80 % of the respondents, drawn afresh, with a seed of its own. ``perplexity`` is that of
    the held-out 20 %: half of each one's answers, drawn at random, place the respondent, and the model has to foretell
    the others. It is as unsure of them as of so many equally likely answers; lower is better. (scikit-learn's
    ``perplexity`` is a bound that charges for every segment; with few held-out rows it grows with k, whatever the
    data.)
    ``stability`` compares what the refits say of *all* respondents: the adjusted Rand index of their segments,
    averaged over the pairs of refits; 1 is the same segments whatever the sample and the seed, 0 is chance.

    Returns
    -------
    DataFrame
        Indexed by k, with the columns perplexity, perplexity_std (over the refits), gain and stability. ``gain`` is
        the fall in perplexity from one segment to k, as a share of the largest fall in the table.
    """
    if X.shape[0] > ROWS:
        X = X[np.sort(rng.permutation(X.shape[0])[:ROWS])]
    n = X.shape[0]
    splits = [rng.permutation(n) for _ in range(REFITS)]
    cut = min(max(int(TRAINED * n), 1), n - 1)
    hidden = [halve(X[split[cut:]], rng) for split in splits]
    rows = {}
    tried = (1, *ks)
    done, total = 0, sum(tried) * REFITS  # time goes with the number of segments
    for k in tried:
        found, held_out = [], []
        for split, halves in zip(splits, hidden, strict=True):
            if on_step is not None:
                on_step(done, total, f"k = {k}")
            seeds = rng.integers(2**31 - 1, size=1 if k == 1 else n_init)
            lda = fit_lda(X[split[:cut]], k, seeds=seeds, max_iter=1 if k == 1 else max_iter)
            held_out.append(completion_perplexity(lda, *halves))
            found.append(lda.transform(X).argmax(axis=1))
            done += k
        stability = np.mean([adjusted_rand_score(a, b) for a, b in combinations(found, 2)])
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
    """Return two matrices that share the answers of each row between them, at random."""
    first = rng.random(X.nnz) < 0.5
    parts = []
    for mine in (first, ~first):
        part = X.copy()
        part.data = np.where(mine, part.data, 0.0)
        part.eliminate_zeros()
        parts.append(part)
    return parts[0], parts[1]


def completion_perplexity(lda: AnswersLDA, known: Any, asked: Any) -> float:
    """Return exp(−mean log p) of the answers asked for, with the proportions of the segments from those known."""
    answers = lda.components_ / lda.components_.sum(axis=1, keepdims=True)
    rows, columns = asked.nonzero()
    probability = np.einsum("ik,ki->i", lda.transform(known)[rows], answers[:, columns])
    return float(np.exp(-np.log(probability).mean()))


def choose_k(table: pd.DataFrame) -> int:
    """Return the most stable k among those with at least 90 % of the best gain in perplexity; the smaller of equals.

    Perplexity alone would go on asking for more segments, each a little better and less certain than the last;
    stability alone would take two.
    """
    enough = table[table["gain"] >= GAIN]
    return int((enough if len(enough) else table)["stability"].round(2).idxmax())
