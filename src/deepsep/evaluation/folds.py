"""Folds of partly labelled rows: unlabelled rows train in every fold, and only labelled rows are held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from deepsep.core.arrays import Array
from deepsep.core.checks import called_from
from deepsep.core.labels import Labels, as_labels
from deepsep.errors import LabelError, ParameterError, shown

MAX_UNLABELED = 20_000  # unlabelled rows in the fits behind a report or a comparison


class LabeledFold:
    """Cross-validation folds for partly labelled rows.

    Every training fold has all unlabelled rows and the labelled rows of the other folds; every test fold has labelled
    rows only, stratified by class. scikit-learn's own splitters treat unlabelled rows as a class of their own and count
    every prediction for them as wrong.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds. No class may have fewer labelled rows.
    n_repeats : int, default=1
        Number of times that the labelled rows are split, each time in another way.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from deepsep import TSVM, LabeledFold
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    >>> y = np.full(400, None)
    >>> y[:10], y[-10:] = "low", "high"
    >>> cross_val_score(TSVM(), X, y, cv=LabeledFold(random_state=0)).mean()
    np.float64(1.0)
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, random_state: Any = None) -> None:
        for name, value, least in (("n_splits", n_splits, 2), ("n_repeats", n_repeats, 1)):
            if not isinstance(value, int | np.integer) or value < least:
                raise ParameterError(f"{name}={shown(value)}: pass an integer of at least {least}.")
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits: ``n_splits * n_repeats``."""
        return self.n_splits * self.n_repeats

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield (training rows, test rows) as sorted indices.

        Parameters
        ----------
        X : array-like of shape (n, ...)
            Only its length is used.
        y : array-like of shape (n,)
            Labels; unlabelled rows marked None, NaN, pd.NA, or -1 among integers.
        groups : None
            Not used.
        """
        if called_from("cross_val_predict"):
            raise LabelError(
                "cross_val_predict needs every row in a test fold, and LabelledFold holds out labelled rows only. Use "
                "deepsep.out_of_fold(model, X, y), which returns the probabilities of the labelled rows."
            )
        if y is None:
            raise LabelError("LabelledFold needs y to know which rows are labelled: call split(X, y).")
        labels = as_labels(y)
        if X is not None and _num_samples(X) != len(labels.codes):
            raise LabelError(f"X has {_num_samples(X)} rows and y has {len(labels.codes)} entries; they must match.")
        counts = np.bincount(labels.codes[labels.labeled])
        if counts.min() < self.n_splits:
            rarest = labels.classes[counts.argmin()]
            raise LabelError(
                f"class {shown(rarest)} has {counts.min()} labelled rows, fewer than n_splits={self.n_splits}. "
                + (
                    f"Use n_splits={counts.min()} or label more rows of it."
                    if counts.min() > 1
                    else "Label more rows of it."
                )
            )
        random_state = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            for test in _stratified(labels.codes, self.n_splits, random_state):
                yield np.setdiff1d(np.arange(len(labels.codes)), test), test

    def __repr__(self) -> str:
        return f"LabelledFold(n_splits={self.n_splits}, n_repeats={self.n_repeats}, random_state={self.random_state!r})"


def _stratified(codes: Array, n_splits: int, random_state: Any) -> list[Array]:
    """Return the labelled rows of each fold, sorted; each class is spread evenly."""
    rows = np.flatnonzero(codes >= 0)
    folds = StratifiedKFold(n_splits, shuffle=True, random_state=random_state)
    return [rows[test] for _, test in folds.split(rows, codes[rows])]


@dataclass(frozen=True)
class Folds:
    """The rows that take part in an evaluation, and those that each fold holds out."""

    rows: Array  # the rows that take part, sorted. A fold trains on all of them except those that it holds out.
    tests: tuple[Array, ...]  # the labelled rows that each fold holds out, sorted; one repeat after the other
    n_repeats: int = 1  # number of times that the labelled rows were split into folds
    seed: int = 0  # seed of the split, and of everything random in an evaluation on these folds
    notes: tuple[str, ...] = ()  # limits of the evaluation, as sentences for the user

    @property
    def n_splits(self) -> int:
        """The number of folds in a repeat."""
        return len(self.tests) // self.n_repeats

    def only(self, fair: Array) -> Folds:
        """Return the folds with only some of the rows held out, a mask of all; the others are in every training part.

        If no row is left to hold out, that is a LabelError.
        """
        tests = tuple(test[fair[test]] for test in self.tests)
        if not sum(map(len, tests)):
            raise LabelError("Accuracy cannot be estimated: no label can be held out. Label more rows drawn at random.")
        return replace(self, tests=tuple(test for test in tests if len(test)))

    def complete(self, done: Set[tuple[int, str]], names: Iterable[str]) -> tuple[list[int], Folds]:
        """Return the folds in which all of these names are done, as numbers and as folds.

        These are whole repeats or, if no repeat is complete, folds of the first one.
        """
        numbers = [i for i in range(len(self.tests)) if all((i, name) in done for name in names)]
        if len(numbers) == len(self.tests):
            return numbers, self
        whole = 0
        while set(range(whole * self.n_splits, (whole + 1) * self.n_splits)) <= set(numbers):
            whole += 1
        numbers = [i for i in numbers if i < max(whole, 1) * self.n_splits]
        return numbers, replace(self, tests=tuple(self.tests[i] for i in numbers), n_repeats=max(whole, 1))


def deal_folds(
    labels: Labels,
    *,
    n_splits: int,  # folds; fewer if no class has as many labels
    n_repeats: int = 1,
    seed: int = 0,  # repeat r is split with the seed ``seed + r``
    weight: Array | None = None,  # (n,)
    max_unlabeled: int | None = None,  # maximum number of unlabelled rows; of more, a random sample is drawn
    stratified: bool = True,  # whether each class is spread evenly over the folds
) -> Folds:
    """Split the labelled rows into folds, even if some classes have few of them.

    Stratified folds split classes with enough labels as :class:`LabeledFold` does. Of a class with fewer labels than
    folds, a fold holds out at most one. Folds that are not stratified hold out a random part of all labels; only a
    class whose labels would all be held out together is divided. So all classes are in every training part, and a
    class with one label is never held out. A row of weight 0 does not take part.

    In stratified folds, the rows held out have exactly the class shares of the training rows. This suits labels that
    fill quotas. A few labels drawn at random have other shares than the population, by chance, and their accuracy in
    stratified folds is too high.

    If there are not two classes that can be held out, that is a LabelError.
    """
    present = np.ones(len(labels.codes), bool) if weight is None else weight > 0
    codes = np.where(present, labels.codes, -1)
    counts = np.bincount(codes[codes >= 0], minlength=len(labels.classes))
    if (counts >= 2).sum() < 2:
        raise LabelError("Accuracy cannot be estimated: at least two classes need two labels or more. Label more rows.")
    notes = []
    single = [str(labels.classes[k]) for k in np.flatnonzero(counts == 1)]
    if single:
        names = ", ".join(single[:5]) + (" and others" if len(single) > 5 else "")
        notes.append(f"Classes with one label are never held out, so their accuracy is unknown: {names}.")
    unlabeled = np.flatnonzero(present & (codes < 0))
    if max_unlabeled is not None and len(unlabeled) > max_unlabeled:
        notes.append(
            f"The cross-validation uses {max_unlabeled:,} of the {len(unlabeled):,} unlabelled rows, drawn at random."
        )
        unlabeled = np.random.default_rng(seed).choice(unlabeled, max_unlabeled, replace=False)
    rows = np.sort(np.concatenate([np.flatnonzero(codes >= 0), unlabeled]))
    n_splits = min(n_splits, int(counts.max()))
    deal = _deal_evenly if stratified else _deal_at_random
    tests = [test for repeat in range(n_repeats) for test in deal(codes, counts, n_splits, seed + repeat)]
    return Folds(rows, tuple(tests), n_repeats, seed, tuple(notes))


def _deal_at_random(codes: Array, counts: Array, n_splits: int, seed: int) -> list[Array]:
    """Return the rows that each fold holds out: a random part, but never a whole class."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero((codes >= 0) & (counts[codes] >= 2)))
    fold = np.arange(len(rows)) % n_splits
    for k in np.flatnonzero(counts >= 2):
        own = np.flatnonzero(codes[rows] == k)
        if len(np.unique(fold[own])) == 1:
            fold[own[0]] = (fold[own[0]] + 1 + rng.integers(n_splits - 1)) % n_splits
    return [np.sort(rows[fold == number]) for number in range(n_splits)]


def _deal_evenly(codes: Array, counts: Array, n_splits: int, seed: int) -> list[Array]:
    """Return the rows that each fold holds out, each class spread evenly."""
    often = counts >= n_splits
    frequent = np.where((codes >= 0) & often[codes], codes, -1)
    tests = [test.tolist() for test in _stratified(frequent, n_splits, seed)]
    rng = np.random.default_rng(seed)
    for k in np.flatnonzero(~often & (counts >= 2)):
        rows = rng.permutation(np.flatnonzero(codes == k))
        for fold, row in zip(rng.permutation(n_splits), rows, strict=False):
            tests[fold].append(int(row))
    return [np.sort(test) for test in tests]


def deal_distinct(X: Any, codes: Array, n_splits: int, rng: np.random.Generator) -> Folds:
    """Split labelled rows into folds, with identical rows of a class in the same fold.

    Otherwise a model would be tested on copies of rows that it was trained on. A class whose rows are all equal is
    never held out; if that is true of all classes, the result has no folds.
    """
    key = X @ rng.normal(size=X.shape[1]) if sparse.issparse(X) else X
    alike = np.unique(key, axis=0, return_inverse=True)[1].ravel()
    fold = np.full(len(codes), -1)
    for k in range(codes.max() + 1):
        own = np.flatnonzero(codes == k)
        kinds, which = np.unique(alike[own], return_inverse=True)
        if len(kinds) > 1:
            fold[own] = (rng.permutation(len(kinds)) % n_splits)[which]
    return Folds(np.arange(len(codes)), tuple(np.flatnonzero(fold == i) for i in range(fold.max() + 1)))


def spread_over_classes(codes: Array, rng: np.random.Generator) -> Array:
    """Return the labelled rows in an order in which the first rows, however many, are stratified by class."""
    at = rng.permutation(np.flatnonzero(codes >= 0))
    place = np.empty(len(at))
    for k in np.unique(codes[at]):
        own = np.flatnonzero(codes[at] == k)
        place[own] = np.arange(len(own)) / len(own)  # the first of each class comes first of all
    return np.asarray(at[np.argsort(place, kind="stable")])
