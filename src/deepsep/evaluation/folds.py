"""Splitting partly labelled data without fooling oneself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from deepsep.core.labels import read_labels
from deepsep.errors import LabelError, ParameterError


class LabelledFold:
    """Cross-validation folds for partly labelled rows.

    Every training fold holds all unlabelled rows and the labelled rows of the other folds; every test fold holds
    labelled rows only, stratified by class. scikit-learn's own splitters deal unlabelled rows out like a class and
    score predictions for them as wrong.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds. No class may have fewer labelled rows.
    n_repeats : int, default=1
        How often the labelled rows are dealt anew.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from deepsep import TSVM, LabelledFold
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    >>> y = np.full(400, None)
    >>> y[:10], y[-10:] = "low", "high"
    >>> cross_val_score(TSVM(), X, y, cv=LabelledFold(random_state=0)).mean()
    np.float64(1.0)
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, random_state: Any = None) -> None:
        for name, value, least in (("n_splits", n_splits, 2), ("n_repeats", n_repeats, 1)):
            if not isinstance(value, int | np.integer) or value < least:
                raise ParameterError(f"{name}={value!r}: pass an integer of at least {least}.")
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
        if y is None:
            raise LabelError("LabelledFold needs y to know which rows are labelled: call split(X, y).")
        labels = read_labels(y)
        if X is not None and _num_samples(X) != len(labels.codes):
            raise LabelError(f"X has {_num_samples(X)} rows and y has {len(labels.codes)} entries; they must match.")
        counts = np.bincount(labels.codes[labels.labelled])
        if counts.min() < self.n_splits:
            rarest = labels.classes[counts.argmin()]
            raise LabelError(
                f"class {rarest!r} has {counts.min()} labelled rows, fewer than n_splits={self.n_splits}. "
                + (
                    f"Use n_splits={counts.min()} or label more rows of it."
                    if counts.min() > 1
                    else "Label more rows of it."
                )
            )
        rows = np.flatnonzero(labels.labelled)
        random_state = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            folds = StratifiedKFold(self.n_splits, shuffle=True, random_state=random_state)
            for _, test in folds.split(rows, labels.codes[rows]):
                in_test = np.zeros(len(labels.codes), bool)
                in_test[rows[test]] = True
                yield np.flatnonzero(~in_test), rows[test]

    def __repr__(self) -> str:
        return f"LabelledFold(n_splits={self.n_splits}, n_repeats={self.n_repeats}, random_state={self.random_state!r})"
