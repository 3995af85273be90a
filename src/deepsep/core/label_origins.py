"""Origins of labels: drawn at random, to fill quotas, or chosen; and the rows on which an accuracy may rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from deepsep.core.labels import Labels
from deepsep.errors import LabelError, Setting

Array = NDArray[Any]

ORIGINS = ("random", "quota", "chosen")
RANDOM, QUOTA, CHOSEN = range(len(ORIGINS))
MIN_FAIR_LABELS = 10  # beside labels of another origin
MAX_CHANCE_OF_EVEN = 0.05  # that labels drawn at random from equally frequent classes are as even
MAX_CHANCE_OF_PRIORS = 0.001  # that random labels are as far from the given shares


@dataclass(frozen=True)
class LabelOrigins:
    """The origin of every label.

    Attributes
    ----------
    codes : array (n,)
        Of all rows: indices into ``ORIGINS``, -1 for a row without a label.
    rests_on : tuple of str
        The origins of the labels on which an accuracy may rest: random, quota, both, or none.
    given : bool
        Whether the user gave all of them; otherwise some are guessed from the numbers of labels of each class.
    """

    codes: Array
    rests_on: tuple[str, ...] = ORIGINS[:1]
    given: bool = True

    @property
    def basis(self) -> str | None:
        """The kind of sample that the fair labels are: "random", "quota" (if any of them are), or None if none is."""
        return next((word for word in ("quota", "random") if word in self.rests_on), None)

    @property
    def fair(self) -> Array:
        """The labelled rows that may tell the accuracy, as a mask (n,)."""
        return np.isin(self.codes, [ORIGINS.index(word) for word in self.rests_on])

    @property
    def stratified(self) -> bool:
        """Whether folds should have the class shares of the labels: not those of labels drawn at random."""
        return self.basis != "random"

    @property
    def words(self) -> Array:
        """The origins as words, None for a row without a label."""
        return np.array([*ORIGINS, None], object)[self.codes]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of labels drawn at random, for quotas, and chosen."""
        return tuple(np.bincount(self.codes[self.codes >= 0], minlength=len(ORIGINS)).tolist())


def read_origins(labels_drawn: Any, labels: Labels, *, known_shares: bool = False) -> LabelOrigins:
    """Return the origins of labels from a word for all, or a word for every row, or raise.

    Without a word, labels that are spread evenly over the classes are taken for quotas, others for random ones.

    Accuracies rest on random labels or on quotas, whichever are more, and on both if the shares of the population are
    known: both are then weighted to them. Next to labels of another origin it takes ten, of two classes.

    Parameters
    ----------
    labels_drawn : {"random", "quota", "chosen"}, array-like of shape (n,), or None
        Words of rows without a label are ignored. A label with None, NaN or an empty string has no known origin.
    labels : Labels
        Of all rows.
    known_shares : bool, default=False
        Whether the shares of the classes in the population are known.

    Examples
    --------
    >>> labels = Labels(np.array([0, 1, 0, 1, -1]), np.array(["no", "yes"]))
    >>> read_origins(["random", "random", "chosen", "chosen", None], labels).counts
    (2, 0, 2)
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
        if word not in ORIGINS:
            raise LabelError(
                "{drawn} is not an origin of labels. Use 'random' (rows drawn at random), 'quota' (a fixed number of "
                "each class) or 'chosen' (rows picked for any other reason, such as being hard).",
                drawn=Setting("labels_drawn", words[row]),
            )
        codes[row] = ORIGINS.index(word)
    unsaid = labeled & ~known
    if unsaid.any():
        counts = np.bincount(labels.codes[unsaid], minlength=len(labels.classes))
        codes[unsaid] = QUOTA if looks_like_quotas(counts) else RANDOM
    return LabelOrigins(codes, _rests_on(codes, labels, known_shares), given=not unsaid.any())


def _rests_on(codes: Array, labels: Labels, known_shares: bool) -> tuple[str, ...]:
    """Return the origins of the labels on which an accuracy may rest."""
    counts = np.bincount(codes[codes >= 0], minlength=len(ORIGINS))
    present = [k for k in (RANDOM, QUOTA) if counts[k]]
    kept = present if known_shares else sorted(present, key=lambda k: -counts[k])[:1]
    fair = np.isin(codes, kept)
    alone = bool(fair[codes >= 0].all())
    if not alone and (fair.sum() < MIN_FAIR_LABELS or len(np.unique(labels.codes[fair])) < 2):
        return ()
    return tuple(ORIGINS[k] for k in kept)


def looks_like_quotas(counts: Array) -> bool:
    """Return whether labels are spread over the classes more evenly than chance does it.

    Even if all classes are equally frequent, labels of rows drawn at random differ in number: the statistic of the
    chi-squared test is then rarely near 0.

    Examples
    --------
    >>> looks_like_quotas(np.array([20, 20, 20])), looks_like_quotas(np.array([17, 22, 21]))
    (True, False)
    """
    expected = counts.sum() / len(counts)
    statistic = _chi_squared(counts, np.full(len(counts), expected)) if expected else np.inf
    return bool(expected >= 2 and chi2.cdf(statistic, len(counts) - 1) < MAX_CHANCE_OF_EVEN)


def contradict_shares(counts: Array, shares: Array) -> bool:
    """Return whether random labels have other shares than the population is said to have, beyond chance.

    Examples
    --------
    >>> contradict_shares(np.array([50, 50]), np.array([0.9, 0.1]))
    True
    >>> contradict_shares(np.array([8, 2]), np.array([0.9, 0.1]))
    False
    """
    statistic = _chi_squared(counts, counts.sum() * shares)
    return bool(chi2.sf(statistic, len(counts) - 1) < MAX_CHANCE_OF_PRIORS)


def _chi_squared(counts: Array, expected: Array) -> float:
    return float(((counts - expected) ** 2 / expected).sum())
