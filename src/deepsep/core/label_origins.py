"""The origins of labels (drawn at random, to fill quotas, or chosen), and the rows on which an accuracy may rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2

from deepsep.core.arrays import Array
from deepsep.core.labels import Labels
from deepsep.errors import LabelError, Setting

LABEL_ORIGINS = ("random", "quota", "chosen")


@dataclass(frozen=True)
class LabelOrigins:
    """The origin of every label."""

    codes: Array  # (n,): indices into ``LABEL_ORIGINS``, -1 for a row without a label
    # The origins of the labels on which an accuracy may rest: random, quota, both, or none
    rests_on: tuple[str, ...] = ("random",)
    # Whether the user gave all of them; otherwise some are guessed from the number of labels of each class
    given: bool = True

    @property
    def basis(self) -> str | None:
        """Origin of the fair labels: "quota" if some were drawn for quotas, else "random"; None if none is fair."""
        return next((word for word in ("quota", "random") if word in self.rests_on), None)

    @property
    def fair(self) -> Array:
        """Mask (n,) of the labelled rows on which an accuracy may rest."""
        return np.isin(self.codes, [LABEL_ORIGINS.index(word) for word in self.rests_on])

    @property
    def stratified(self) -> bool:
        """True if folds should have the class shares of the labels: always, unless these were drawn at random."""
        return self.basis != "random"

    @property
    def words(self) -> Array:
        """The origins as words, None for a row without a label."""
        return np.array([*LABEL_ORIGINS, None], object)[self.codes]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of labels drawn at random, for quotas, and chosen."""
        return tuple(np.bincount(self.codes[self.codes >= 0], minlength=len(LABEL_ORIGINS)).tolist())


def read_origins(labels_drawn: Any, labels: Labels, *, known_shares: bool = False) -> LabelOrigins:
    """Return the origins of labels from one word for all, or one for every row, or raise.

    Words of rows without a label are ignored. Labels without a word (None, NaN or an empty string) count as quotas if
    they are spread evenly over the classes, otherwise as random.

    Accuracies rest on random labels or on quotas, whichever are more. If the shares of the population are known, they
    rest on both, weighted to these shares. If there are labels of other origins too, they must be at least ten, of two
    classes.
    """
    labeled = labels.labeled
    if labels_drawn is None or isinstance(labels_drawn, str):
        words = np.full(len(labeled), labels_drawn, dtype=object)
    else:
        words = np.asarray(labels_drawn, dtype=object)
        if words.shape != labeled.shape:
            raise LabelError(
                f"labels_drawn has the shape {words.shape}; pass one word, or one for each of {len(labeled)} rows."
            )
    known = np.array([not (word is None or word != word or str(word).strip() in ("", "<NA>")) for word in words], bool)
    codes = np.full(len(labeled), -1, np.int8)
    for row in np.flatnonzero(labeled & known):
        word = str(words[row]).strip().lower()
        if word not in LABEL_ORIGINS:
            raise LabelError(
                "{drawn} is not an origin of labels. Use 'random' (rows drawn at random), 'quota' (a fixed number of "
                "each class) or 'chosen' (rows picked for any other reason, such as being hard).",
                drawn=Setting("labels_drawn", words[row]),
            )
        codes[row] = LABEL_ORIGINS.index(word)
    unknown = labeled & ~known
    if unknown.any():
        counts = np.bincount(labels.codes[unknown], minlength=len(labels.classes))
        codes[unknown] = LABEL_ORIGINS.index("quota" if looks_like_quotas(counts) else "random")
    return LabelOrigins(codes, _rests_on(codes, labels, known_shares), given=not unknown.any())


def _rests_on(codes: Array, labels: Labels, known_shares: bool, min_labels: int = 10) -> tuple[str, ...]:
    """Return the origins of the labels on which an accuracy may rest."""
    counts = np.bincount(codes[codes >= 0], minlength=len(LABEL_ORIGINS))
    present = [k for k in range(2) if counts[k]]  # random and quota
    kept = present if known_shares else sorted(present, key=lambda k: -counts[k])[:1]
    fair = np.isin(codes, kept)
    alone = bool(fair[codes >= 0].all())
    if not alone and (fair.sum() < min_labels or len(np.unique(labels.codes[fair])) < 2):
        return ()
    return tuple(LABEL_ORIGINS[k] for k in kept)


def looks_like_quotas(counts: Array, *, max_chance: float = 0.05) -> bool:
    """Return whether labels are spread over the classes more evenly than by chance.

    Even if all classes are equally frequent, the numbers of labels of rows drawn at random differ. The statistic of the
    chi-squared test is then rarely near 0: with at most the probability ``max_chance``.
    """
    expected = counts.sum() / len(counts)
    statistic = _chi_squared(counts, np.full(len(counts), expected)) if expected else np.inf
    return bool(expected >= 2 and chi2.cdf(statistic, len(counts) - 1) < max_chance)


def contradict_shares(counts: Array, shares: Array, *, max_chance: float = 0.001) -> bool:
    """Return whether the class shares of random labels differ from given shares of the population by more than chance.

    Examples
    --------
    >>> contradict_shares(np.array([50, 50]), np.array([0.9, 0.1]))
    True
    >>> contradict_shares(np.array([8, 2]), np.array([0.9, 0.1]))
    False
    """
    statistic = _chi_squared(counts, counts.sum() * shares)
    return bool(chi2.sf(statistic, len(counts) - 1) < max_chance)


def _chi_squared(counts: Array, expected: Array) -> float:
    return float(((counts - expected) ** 2 / expected).sum())
