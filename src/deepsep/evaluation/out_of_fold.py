"""Out-of-fold predictions: class probabilities of labelled rows from models fitted without their labels."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from deepsep.core.arrays import Array, checked_array
from deepsep.core.checks import is_integer, private_generator
from deepsep.core.labels import Labels, as_labels
from deepsep.core.model_parts import split_model
from deepsep.core.probability import check_probabilities
from deepsep.core.threads import end_with, without_interrupts
from deepsep.core.training_rows import Context, TrainingRows
from deepsep.errors import DataError, DeepSepWarning, LabelWarning, ModelFileError, ParameterError, shown
from deepsep.evaluation.folds import Folds, deal_folds, spread_over_classes
from deepsep.evaluation.frames import prediction_columns, take
from deepsep.evaluation.population import read_weights, to_population

Result = TypeVar("Result")

MODEL_NAME = "model"  # of the only estimator of :func:`out_of_fold`


@dataclass(frozen=True)
class Candidate:
    """An estimator and the training rows that it is fitted to."""

    estimator: Any  # copied for every fold. A ``random_state`` of None becomes the seed of the folds.
    labeled_only: bool = False  # whether it is fitted to the labelled rows alone
    label_share: float = 1.0  # the share of the training labels that it gets; it sees other labelled rows as unlabelled
    class_shares: Array | None = None  # (c,), shares of the classes to which the labelled rows are weighted
    # maximum number of unlabelled rows that it gets, drawn at random, for an estimator that would not read more
    most_unlabeled: int | None = None


@dataclass(frozen=True)
class Fold:
    """The rows of one fold, encoded."""

    number: int  # from 0
    encoder: Any  # fitted to the training rows
    X: Any  # the training rows
    codes: Array  # -1 for unlabelled rows
    weight: Array | None
    test_rows: Any  # the rows held out, as they were given
    X_test: Any  # the same, encoded
    test_codes: Array


@dataclass(frozen=True)
class OutOfFold:
    """Out-of-fold class probabilities of the labelled rows.

    Attributes
    ----------
    rows : array (m,)
        Numbers of the rows, in the order of the folds; a row occurs once in each repeat.
    fold : array (m,)
        The fold that held the row out; those of the first repeat come first.
    codes : array (m,)
        The classes of the rows, as indices into ``classes``.
    classes : array (c,)
        The labels.
    weight : array (m,) or None
        The weights of the rows.
    p : dict of str to array (m, c)
        The probabilities, by estimator; those that failed in some fold are left out.
    seconds : dict of str to float
        Mean seconds of a fit, by estimator.
    failures : dict of str to str
        The reason why an estimator could not be fitted, by estimator.
    n_training : array (folds,)
        Labels in the training part of each fold.
    extras : list of dict
        The results of ``after_fit``, by fold and estimator.
    folds : Folds
        The split.
    """

    rows: Array
    fold: Array
    codes: Array
    classes: Array
    weight: Array | None
    p: dict[str, Array]
    seconds: dict[str, float]
    failures: dict[str, str]
    n_training: Array
    extras: list[dict[str, Any]]
    folds: Folds

    @property
    def probabilities(self) -> Array:
        """The probabilities by the only estimator."""
        (p,) = self.p.values()
        return p

    def by_repeat(self, values: Array) -> list[Array]:
        """Return values of the rows, such as ``codes`` or probabilities, as one array per repeat."""
        return np.split(values, self.folds.n_repeats)  # every repeat holds the same rows out

    def to_frame(self) -> Any:
        """Return a DataFrame of the row, fold, given label, prediction, probabilities and confidence."""
        import pandas as pd

        where = {"row": self.rows, "fold": self.fold, "given": self.classes[self.codes]}
        return pd.DataFrame(where | prediction_columns(self.classes, self.probabilities))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return plain values and arrays from which :meth:`from_parts` restores the predictions, without ``extras``.

        The classes of the rows are left out, since a model knows those of its training rows.
        """
        state = {
            "names": list(self.p),
            "seconds": self.seconds,
            "failures": self.failures,
            "n_repeats": self.folds.n_repeats,
            "seed": self.folds.seed,
            "notes": list(self.folds.notes),
        }
        arrays = {
            "rows": self.rows.astype(np.int32),
            "sizes": np.array([len(test) for test in self.folds.tests], np.int32),
            "n_training": self.n_training.astype(np.int32),
            "taking_part": self.folds.rows.astype(np.int32),
            "p": np.stack([*self.p.values()]).astype(np.float32),
        }
        if self.weight is not None:
            arrays["weight"] = self.weight
        return state, arrays

    @classmethod
    def from_parts(cls, state: Mapping[str, Any], arrays: Mapping[str, Any], codes: Array, classes: Array) -> Self:
        """Return the predictions from the result of :meth:`to_parts` and the classes of all training rows, or raise."""
        names, sizes = list(state["names"]), checked_array(arrays, "sizes", (None,), "i")
        rows, taking_part = (checked_array(arrays, name, (None,), "i") for name in ("rows", "taking_part"))
        p = checked_array(arrays, "p", (len(names), len(rows), len(classes)), "f")
        weight = checked_array(arrays, "weight", (len(rows),), "f") if "weight" in arrays else None
        n_training = checked_array(arrays, "n_training", (len(sizes),), "i")
        n_repeats = state["n_repeats"]
        if not _fit_together(rows, sizes, taking_part, n_repeats, len(codes)) or not _are_weights(weight):
            raise ModelFileError("the rows and folds of the model's predictions do not fit together. Save it again.")
        try:
            for each in p:
                check_probabilities(each)
        except DataError:
            raise ModelFileError("the model's predictions out of fold are not probabilities. Save it again.") from None
        tests = np.split(rows, np.cumsum(sizes)[:-1])
        return cls(
            rows=rows,
            fold=np.repeat(np.arange(len(sizes)), sizes),
            codes=codes[rows],
            classes=classes,
            weight=weight,
            p=dict(zip(names, p, strict=True)),
            seconds=dict(state["seconds"]),
            failures=dict(state["failures"]),
            n_training=n_training,
            extras=[{} for _ in tests],
            folds=Folds(taking_part, tuple(tests), n_repeats, state["seed"], tuple(state["notes"])),
        )


def out_of_fold(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_splits: int = 5,
    n_repeats: int = 1,
    sample_weight: Any = None,
    random_state: Any = None,
) -> OutOfFold:
    """Return class probabilities of the labelled rows from copies of a model that were fitted without their labels.

    The labelled rows are split into folds. For each fold, a copy of the model is fitted to all other rows, the
    unlabelled ones included, and predicts the rows of the fold. All classes are in every training part: of a class with
    fewer labels than folds, a fold holds out at most one, and a class with one label is never held out.

    Parameters
    ----------
    model : estimator or pipeline
        It is copied, not changed.
    X : array-like or DataFrame of n rows
        All rows, labelled and unlabelled.
    y : array-like of shape (n,)
        Labels; unlabelled rows marked None, NaN, pd.NA, or -1 among integers.
    n_splits : int, default=5
        Number of folds; fewer if no class has as many labels.
    n_repeats : int, default=1
        Number of times that the labelled rows are dealt into folds.
    sample_weight : array-like of shape (n,), optional
        Passed on to a model that takes weights. A row of weight 0 is left out.
    random_state : int, RandomState or None, default=None
        Seed of the folds, which for an int are those of :class:`LabeledFold`, and of a model without a seed.

    Returns
    -------
    OutOfFold
        ``rows``, ``codes``, ``classes``, ``fold`` and ``probabilities``; ``to_frame()`` returns them as a DataFrame.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep import TSVM, out_of_fold
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    >>> y = np.full(400, None)
    >>> y[:10], y[-10:] = "low", "high"
    >>> result = out_of_fold(TSVM(), X, y, random_state=0)
    >>> result.probabilities.shape
    (20, 2)
    >>> table = result.to_frame()
    >>> float((table["label"] == table["given"]).mean())
    1.0
    """
    for name, value, least in (("n_splits", n_splits, 2), ("n_repeats", n_repeats, 1)):
        if not is_integer(value, least):
            raise ParameterError(f"out_of_fold: {name}={shown(value)}; pass an integer of at least {least}.")
    labels = as_labels(y)
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if X.shape[0] != len(labels.codes):
        raise DataError(f"X has {X.shape[0]} rows and y has {len(labels.codes)} entries; they must match.")
    weight = read_weights(sample_weight, labels)
    whole = is_integer(random_state, 0)
    seed = int(random_state if whole else private_generator(random_state).integers(2**31 - 1))
    folds = deal_folds(labels, n_splits=n_splits, n_repeats=n_repeats, seed=seed, weight=weight)
    for note in folds.notes:
        warnings.warn(note, LabelWarning, stacklevel=2)
    encoder, estimator = split_model(model)
    return FoldFits({MODEL_NAME: Candidate(estimator)}, X, labels, folds, weight, encoder).fit()


def predict_proba(fitted: Any, X: Any) -> Array:
    """Return the class probabilities of rows by a fitted estimator."""
    return np.asarray(fitted.predict_proba(X))


@dataclass(frozen=True)
class FoldResult:
    """The results of some candidates in one fold."""

    number: int
    n_training: int
    p: dict[str, Array]
    seconds: dict[str, float]
    failures: dict[str, str]
    extras: dict[str, Any]


@dataclass(frozen=True)
class FoldFits:
    """The fits of a cross-validation: for each fold, copies of estimators are fitted to the other rows and predict it.

    All estimators get the same rows, encoded in the same way. The fits can run in any order and in other processes.
    """

    candidates: Mapping[str, Candidate]
    table: Any
    labels: Labels  # of all rows
    folds: Folds
    weight: Array | None = None  # (n,), of all rows; passed to the estimators that take weights
    encoder: Any = None  # fitted once per fold, to its training rows
    ask: Callable[[Any, Any], Array] = predict_proba  # (fitted, X) -> an array with a row for each row of X
    # (name, fitted, fold) -> one of the extras; called after each fit, in the process of the fit
    after_fit: Callable[[str, Any, Fold], Any] | None = None
    kept_failures: tuple[type[Exception], ...] = ()  # errors for which an estimator is left out, with the reason
    checked: bool = False  # whether table, labels and weights are those of TrainingRows, which are not checked again

    def fit(self, n_jobs: int | None = None, on_fold: Callable[[int], object] | None = None) -> OutOfFold:
        """Run all fits, some in parallel; ``on_fold`` is called with the number of folds done.

        Candidates of a fold share an encoder and are fitted one after the other; without one, each is a task of its
        own.
        """
        if self.weight is not None and (self.weight == 1).all():
            return replace(self, weight=None).fit(n_jobs, on_fold)
        groups = [(name,) for name in self.candidates] if self.encoder is None else [tuple(self.candidates)]
        tasks = [(self.run, (number, names)) for number in range(len(self.folds.tests)) for names in groups]
        results = []
        for _, result in in_parallel(tasks, n_jobs):
            results.append(result)
            if on_fold is not None and len(results) % len(groups) == 0:
                on_fold(len(results) // len(groups))
        return self.gather(results)

    def run(self, number: int, names: Sequence[str]) -> FoldResult:
        """Fit these candidates to the other rows of a fold, and predict the rows of the fold."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeepSepWarning)  # the fit to all rows gives the same warnings
            fold = _encoded(self, number)
            result = FoldResult(number, int((fold.codes >= 0).sum()), {}, {}, {}, {})
            for name in names:
                began = time.perf_counter()
                try:
                    fitted = self._fit(self.candidates[name], fold)
                    result.p[name] = self.ask(fitted, fold.X_test)
                except self.kept_failures as error:
                    result.failures[name] = str(error)
                    continue
                result.seconds[name] = time.perf_counter() - began
                if self.after_fit is not None:
                    result.extras[name] = self.after_fit(name, fitted, fold)
        return result

    def _fit(self, candidate: Candidate, fold: Fold) -> Any:
        """Return a copy of the candidate's estimator, fitted to its part of the fold's training rows."""
        codes, weight, seed = fold.codes, fold.weight, self.folds.seed
        pool, most = np.flatnonzero(codes < 0), candidate.most_unlabeled
        if most is not None and len(pool) > most:
            pool = np.random.default_rng([seed, fold.number]).choice(pool, most, replace=False)
        at = np.sort(np.concatenate([np.flatnonzero(codes >= 0), pool]))
        if candidate.label_share < 1:
            order = spread_over_classes(codes, np.random.default_rng([seed, fold.number]))
            codes = codes.copy()
            codes[order[round(candidate.label_share * len(order)) :]] = -1
        if candidate.labeled_only:
            at = np.flatnonzero(codes >= 0)
        X = fold.X if len(at) == len(codes) else take(fold.X, at)
        codes, weight = codes[at], None if weight is None else weight[at]
        if candidate.labeled_only:
            weight = to_population(codes, weight, candidate.class_shares)
        labels = Labels(codes, self.labels.classes)
        # Some callers look at more of a fitted estimator than its predictions of the rows held out.
        alone = self.after_fit is None and self.ask is predict_proba
        return fit_copy(candidate.estimator, X, labels, weight, seed, checked=self.checked, for_new_rows=alone)

    def gather(self, results: Iterable[FoldResult]) -> OutOfFold:
        """Join the results of tasks. If some are missing, only complete folds are used."""
        results = list(results)
        failures = {name: why for r in results for name, why in r.failures.items() if name in self.candidates}
        names = [name for name in self.candidates if name not in failures]
        numbers, folds = self.folds.complete({(r.number, name) for r in results for name in r.p}, names)
        by_fold = [_merged([result for result in results if result.number == number]) for number in numbers]
        rows = np.concatenate([np.zeros(0, int), *folds.tests])
        return OutOfFold(
            rows=rows,
            fold=np.repeat(np.arange(len(folds.tests)), [len(test) for test in folds.tests]),
            codes=self.labels.codes[rows],
            classes=self.labels.classes,
            weight=None if self.weight is None else self.weight[rows],
            p={name: np.concatenate([each.p[name] for each in by_fold]) for name in names if by_fold},
            seconds={name: float(np.mean([each.seconds[name] for each in by_fold])) for name in names if by_fold},
            failures=failures,
            n_training=np.array([each.n_training for each in by_fold]),
            extras=[each.extras for each in by_fold],
            folds=folds,
        )


def _merged(parts: Sequence[FoldResult]) -> FoldResult:
    """Return the results of a fold's tasks as one."""
    merged = FoldResult(parts[0].number, parts[0].n_training, {}, {}, {}, {})
    for part in parts:
        for field in ("p", "seconds", "failures", "extras"):
            getattr(merged, field).update(getattr(part, field))
    return merged


def in_parallel(
    tasks: Iterable[tuple[Callable[..., Result], tuple[Any, ...]]], n_jobs: int | None
) -> Iterator[tuple[int, Result]]:
    """Yield the number and the result of each task, (function, arguments), when it is done.

    Tasks begin in their order, in several processes if ``n_jobs`` is above one. An iterator of tasks is read only as
    they begin.
    """
    if n_jobs in (None, 1):
        for number, (function, arguments) in enumerate(tasks):
            yield number, function(*arguments)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=1):
        parent = os.getpid()
        with without_interrupts():
            results = Parallel(return_as="generator_unordered", batch_size=1)(
                delayed(_run_task)(parent, number, *task) for number, task in enumerate(tasks)
            )
        yield from results


def _run_task(
    parent: int, number: int, function: Callable[..., Result], arguments: tuple[Any, ...]
) -> tuple[int, Result]:
    end_with(parent)
    return number, function(*arguments)


def _encoded(job: FoldFits, number: int) -> Fold:
    test = job.folds.tests[number]
    train = np.setdiff1d(job.folds.rows, test)
    codes = job.labels.codes[train]
    X, test_rows = take(job.table, train), take(job.table, test)
    X_test, encoder = test_rows, None
    if job.encoder is not None:
        encoder = clone(job.encoder)
        X = encoder.fit_transform(X, label_names(Labels(codes, job.labels.classes)))
        X_test = encoder.transform(test_rows)
    weight = None if job.weight is None else job.weight[train]
    return Fold(number, encoder, X, codes, weight, test_rows, X_test, job.labels.codes[test])


def fit_copy(
    estimator: Any,
    X: Any,
    labels: Labels,
    weight: Array | None,
    seed: int,
    *,
    checked: bool = False,
    for_new_rows: bool = False,
) -> Any:
    """Return a fitted copy of an estimator; it gets the weights if it takes weights, and the seed if it has none.

    Classifiers of deepsep get the labels as codes, and rows that are ``checked`` are not checked again. They do not
    predict their training rows if the copy is ``for_new_rows``.
    """
    copy = clone(estimator)
    if copy.get_params(deep=False).get("random_state", 0) is None:
        copy.set_params(random_state=seed)
    weight = weight if has_fit_parameter(copy, "sample_weight") else None
    weights = {} if weight is None else {"sample_weight": weight}
    if not hasattr(type(copy), "fit_rows"):
        return copy.fit(X, label_names(labels), **weights)
    if checked:
        each = np.ones(len(labels.codes)) if weight is None else weight
        rows = TrainingRows(X, labels.codes, each, labels.classes, weighted=weight is not None)
    else:
        rows = copy.training_rows(X, labels, **weights)
    return copy.fit_rows(rows, Context(is_part=True, for_new_rows=for_new_rows))


def label_names(labels: Labels) -> Array:
    """Return labels as a user would pass them, None for unlabelled rows."""
    if labels.labeled.all():
        return np.asarray(labels.classes[labels.codes])
    return np.array([*labels.classes.tolist(), None], dtype=object)[labels.codes]  # the code -1 is the last


def _fit_together(rows: Array, sizes: Array, taking_part: Array, n_repeats: Any, n: int) -> bool:
    """Return whether every repeat holds out as many rows, none twice, all of them among those that take part."""
    if not (isinstance(n_repeats, int) and n_repeats > 0 and len(rows)):
        return False
    if len(sizes) % n_repeats or len(rows) % n_repeats or (sizes < 1).any() or sizes.sum() != len(rows):
        return False
    if any(len(np.unique(part)) < len(part) for part in np.split(rows, n_repeats)):
        return False
    return bool(np.isin(rows, taking_part).all() and taking_part.min() >= 0 and taking_part.max() < n)


def _are_weights(weight: Array | None) -> bool:
    return weight is None or bool((np.isfinite(weight) & (weight >= 0)).all() and weight.any())
