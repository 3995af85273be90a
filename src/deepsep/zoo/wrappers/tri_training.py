"""Tri-training: three classifiers, each trained on the labels on which the other two agree."""

from __future__ import annotations

from math import ceil, floor
from typing import Any, ClassVar, NamedTuple

import numpy as np

from deepsep.classifiers.declared_settings import integer, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.files.foreign import dump_classifiers, load_classifiers
from deepsep.zoo.wrappers.around import AroundClassifier


@settings
class TriTraining(AroundClassifier):
    r"""Tri-training: an unlabelled row on which two classifiers agree gets that label in the training of the third.

    Each of three copies of a classifier starts from labelled rows drawn with replacement, class by class. In a round,
    a copy may be fitted again, to all labelled rows and to the unlabelled ones on which the other two agree. Let e be
    the error of the other two on the labelled rows where they agree, and m the number of rows that they add, with e'
    and m' the same for the last refit of the copy. It is fitted again only if e < e' and e m < e' m', so that the noise
    in its labels falls. If there are too many rows for that, the largest allowed number is drawn. Rounds end when no
    copy is fitted again.

    The class probabilities are the means of the three; the paper takes their vote.

    The error is measured on labelled rows that the copies were trained on. Classifiers that memorise their training
    rows, as forests do, have error 0 there. They are fitted again only once, to all rows on which the others agree.

    Parameters
    ----------
    rounds : int, default=20
        Maximum number of rounds.

    Attributes
    ----------
    estimators_ : list of three classifiers
        Their classes are indices into ``classes_``.
    n_iter_ : int
        Rounds in which a classifier was fitted again.

    References
    ----------
    Z.-H. Zhou, M. Li. Tri-training: exploiting unlabeled data using three classifiers. IEEE Transactions on Knowledge
    and Data Engineering 17(11), 2005.
    """

    method_name = "tri-training"
    _saved_values: ClassVar = {"n_iter_": int}

    rounds: int = integer(20, 1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        X = self._fit_scaling(rows).apply(rows.X)
        codes, lab, unl = rows.codes, rows.labeled, rows.unlabeled
        self.estimators_ = []
        for _ in range(3):
            of_class = [lab[codes[lab] == k] for k in range(rows.n_classes)]
            drawn = np.concatenate([rng.choice(members, len(members)) for members in of_class])
            self.estimators_.append(self._fit_copy(X[drawn], codes[drawn], rng))
        taught = [Taught(0.5, 0)] * 3
        self.n_iter_ = 0
        for _ in range(self.rounds if len(unl) else 0):
            predicted = np.array([one.predict(X) for one in self.estimators_])
            taught_now = 0
            for i in range(3):
                one, other = (predicted[j] for j in range(3) if j != i)
                agree = one == other
                error = float((one != codes)[lab][agree[lab]].mean()) if agree[lab].any() else 1.0
                lent = unl[agree[unl]]
                size = lesson_size(error, len(lent), taught[i])
                if not size:
                    continue
                lent = rng.permutation(lent)[:size] if size < len(lent) else lent
                both = np.concatenate([lab, lent])
                self.estimators_[i] = self._fit_copy(X[both], np.concatenate([codes[lab], one[lent]]), rng)
                taught[i] = Taught(error, size)
                taught_now += 1
            if not taught_now:
                break
            self.n_iter_ += 1

    def _probabilities(self, X: Array) -> Array:
        X = self._scaling.apply(X)
        P = np.mean([one.predict_proba(X) for one in self.estimators_], axis=0, dtype=np.float64)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, arrays = super()._parts()
        return state, {**arrays, "classifiers.gz": dump_classifiers(self.estimators_)}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        classes = np.arange(len(self.classes_))
        part = "classifiers.gz"
        one, two, three = load_classifiers(part, arrays.get(part), self.n_features_in_, classes)
        self.estimators_ = [one, two, three]


class Taught(NamedTuple):
    """Last refit of a classifier: the error of its teachers, and the number of rows they added."""

    error: float
    size: int


def lesson_size(error: float, lent: int, before: Taught) -> int:
    """Return how many of the rows may be added to a classifier's training; 0 if its labels would be noisier."""
    if not (error < before.error and lent):
        return 0
    size = before.size or floor(error / (before.error - error) + 1)
    if lent <= size:
        return 0
    if error * lent < before.error * size:
        return lent
    return min(lent, ceil(before.error * size / error - 1)) if size > error / (before.error - error) else 0
