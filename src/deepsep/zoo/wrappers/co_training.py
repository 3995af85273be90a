"""Co-training: two classifiers on different columns that label their most confident rows for each other."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from deepsep.classifiers.declared_settings import integer, setting, settings
from deepsep.core.arrays import Array, checked_array
from deepsep.core.checks import is_integer
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ModelFileError, ParameterError, shown
from deepsep.files.foreign import dump_classifiers, load_classifiers
from deepsep.zoo.wrappers.around import AroundClassifier


def _are_views(pair: Any) -> bool:
    both = isinstance(pair, list | tuple) and len(pair) == 2
    return pair is None or (both and all(isinstance(view, list | tuple | np.ndarray) and len(view) for view in pair))


@settings
class CoTraining(AroundClassifier):
    r"""Co-training: classifiers on two views of the rows label unlabelled rows for each other.

    Each round fits one copy of a classifier to each view of the labelled rows. Each of the two then labels the rows
    that it is most confident about, a few for each class, out of a pool of unlabelled rows, and they join the labelled
    rows of both. The probability of a class is proportional to the product of the two predictions.

    The method assumes that the views are independent within each class, and that each view alone is sufficient. The
    classical views are the words of a page and those of the links to it. Two halves of the columns of a table are
    rarely such views.

    Parameters
    ----------
    views : pair of lists, optional
        Columns of each view, by number or, for rows in a frame, by name; views may overlap. By default each column is
        in one of them, at random.
    rounds : int, default=30
        Maximum number of rounds.
    per_round : int, default=1
        Number of rows that each classifier labels for the rarest class in a round; for the others, in proportion to
        the labels.
    pool : int, default=75
        Number of unlabelled rows among which they choose.

    Attributes
    ----------
    estimators_ : list of two classifiers
        Their classes are indices into ``classes_``.
    views_ : list of two arrays of int
        Columns of the two views.
    n_iter_ : int
        Rounds in which rows were labelled.

    References
    ----------
    A. Blum, T. Mitchell. Combining labeled and unlabeled data with co-training. COLT 1998.
    """

    method_name = "co-training"
    _saved_values: ClassVar = {"n_iter_": int}

    views: Any = setting(None, _are_views, "two lists of columns, such as ([0, 1], [2, 3]), or None")
    rounds: int = integer(30, 1)
    per_round: int = integer(1, 1)
    pool: int = integer(75, 1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        self.views_ = self._find_views(rows.X.shape[1], rng)
        X = self._fit_scaling(rows).apply(rows.X)
        known, codes = rows.labeled, rows.codes.copy()
        waiting = rng.permutation(rows.unlabeled)
        counts = np.bincount(codes[known])
        wanted = np.round(self.per_round * counts / counts.min()).astype(int)
        self.estimators_ = self._fit_views(X, known, codes, rng)
        self.n_iter_ = 0
        while self.n_iter_ < self.rounds and len(waiting):
            pool = waiting[: self.pool]
            labels = np.full(len(pool), -1)
            for one, view in zip(self.estimators_, self.views_, strict=True):
                own = most_confident(one.predict_proba(X[np.ix_(pool, view)]), wanted)
                labels = np.where(labels < 0, own, labels)
            codes[pool] = labels
            chosen = pool[labels >= 0]
            known = np.concatenate([known, chosen])
            waiting = np.concatenate([waiting[self.pool :], pool[labels < 0]])
            self.estimators_ = self._fit_views(X, known, codes, rng)
            self.n_iter_ += 1

    def _find_views(self, d: int, rng: np.random.Generator) -> list[Array]:
        if self.views is None:
            order = rng.permutation(d)
            return [np.sort(order[: (d + 1) // 2]), np.sort(order[(d + 1) // 2 :] if d > 1 else order)]
        names = list(getattr(self, "feature_names_in_", []))
        return [np.unique([self._column(column, names, d) for column in view]) for view in self.views]

    def _column(self, column: Any, names: list[str], d: int) -> int:
        if isinstance(column, str) and column in names:
            return names.index(column)
        if is_integer(column, 0) and int(column) < d:
            return int(column)
        have = f"the columns are {', '.join(names[:5])}{', ...' * (len(names) > 5)}" if names else f"X has {d} columns"
        raise ParameterError(f"CoTraining: views has a column {shown(column)}; {have}, from 0 to {d - 1}.")

    def _fit_views(self, X: Array, known: Array, codes: Array, rng: np.random.Generator) -> list[Any]:
        return [self._fit_copy(X[np.ix_(known, view)], codes[known], rng) for view in self.views_]

    def _probabilities(self, X: Array) -> Array:
        X = self._scaling.apply(X)
        first, second = (  # with an addend, so that the product is not 0 for all classes
            one.predict_proba(X[:, view]).astype(np.float64) + 1e-12
            for one, view in zip(self.estimators_, self.views_, strict=True)
        )
        return np.asarray(first * second / (first * second).sum(axis=1, keepdims=True))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, arrays = super()._parts()
        for i, (one, view) in enumerate(zip(self.estimators_, self.views_, strict=True)):
            arrays |= {f"view{i}": view, f"view{i}.gz": dump_classifiers([one])}
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        self.views_ = [checked_array(arrays, f"view{i}", (None,), "i") for i in range(2)]
        if any(len(view) == 0 or view.min() < 0 or view.max() >= self.n_features_in_ for view in self.views_):
            raise ModelFileError(f"a view has columns beyond the {self.n_features_in_} of the model. Save it again.")
        classes = np.arange(len(self.classes_))
        self.estimators_ = []
        for i, view in enumerate(self.views_):
            (one,) = load_classifiers(f"view{i}.gz", arrays.get(f"view{i}.gz"), len(view), classes)
            self.estimators_.append(one)


def most_confident(P: Array, wanted: Array) -> Array:
    """Return the class of the wanted number of rows with the largest probability of each class; -1 for other rows.

    A row counts for its most probable class only.
    """
    best = P.argmax(axis=1)
    labels = np.full(len(P), -1)
    for k, count in enumerate(wanted):
        own = np.flatnonzero(best == k)
        labels[own[np.argsort(-P[own, k], kind="stable")[:count]]] = k
    return labels
