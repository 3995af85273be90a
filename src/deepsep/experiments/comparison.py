"""Which method for the labels that one has: repeated folds of them, all methods on the same rows, and a verdict."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.catalogue import find_method, method
from deepsep.core.checks import is_integer
from deepsep.core.labels import Labels, read_labels
from deepsep.errors import DataError, DeepSepWarning, LabelError, ParameterError
from deepsep.evaluation.frames import to_pandas
from deepsep.evaluation.intervals import METRICS, paired_difference, scores_with_intervals
from deepsep.evaluation.population import read_weights
from deepsep.experiments.verdict import verdict
from deepsep.report.held_out import MOST_UNLABELLED, held_out_rows
from deepsep.table import for_table

Array = NDArray[Any]
OnStep = Callable[[int, int, str], object]

# Seconds a fit at most, and every idea once: DeepSep, the boundary through few rows, neighbours, own guesses, and three
# that learn from the labels alone.
METHODS = (
    *("deepsep", "tsvm", "label-spreading", "self-training"),
    *("random-forest", "lightgbm-few-labels", "logistic-regression"),
)
FOLDS, REPEATS = 5, 2


@dataclass(frozen=True)
class _Job:
    """One fold: what to fit to it, and to which rows."""

    table: Any
    codes: Array
    classes: Array
    weight: Array | None
    names: tuple[str, ...]
    keep: tuple[str, ...]
    alone: bool  # without the unlabelled rows
    seed: int
    train: Array
    test: Array


@dataclass(frozen=True)
class _Truth:
    """Classes of the held-out rows of a repeat, and their weights."""

    codes: Array
    weight: Array | None


def compare(
    table: Any,
    labels: Any,
    *,
    methods: Sequence[str] = METHODS,
    folds: int = FOLDS,
    repeats: int = REPEATS,
    seed: int = 0,
    keep: Iterable[str] = (),
    sample_weight: Any = None,
    n_jobs: int | None = None,
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """Hold methods against each other on the labels at hand.

    The labelled rows are dealt into folds, several times. Every method is fitted to all rows but one fold, whose labels
    it is then asked for: all methods see the same rows, encoded in the same way.

    Parameters
    ----------
    table : DataFrame or matrix
        All rows, labelled and unlabelled.
    labels : array-like of shape (n,)
        Labels of the rows; None where there is none.
    methods : sequence of str
        Names of :func:`deepsep.methods`, with their own settings.
    folds, repeats : int, default=5 and 2
        Folds, and how often the rows are dealt anew.
    seed : int, default=0
        Seed of everything.
    keep : iterable of str
        Columns to use even if they look useless; see :func:`deepsep.for_table`.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, in training and when held-out rows are counted. A row of weight 0 is left out, and so is a
        method that takes no weights; a note names it.
    n_jobs : int, optional
        Folds that are fitted at the same time.
    on_step : callable, optional
        Called with (done, total, what comes next).

    Returns
    -------
    dict
        ``methods`` : one entry a method, the most accurate first: ``name``, ``uses_unlabelled``, ``accuracy``,
        ``balanced_accuracy``, ``log_loss`` and ``ece`` (each with ``value`` and 95 % ``interval``), ``seconds`` a fit,
        and ``against_best`` (``difference`` in accuracy to the first one, and its ``interval``);
        ``unlabelled`` : whether unlabelled rows helped: the best method that uses them, without them and against the
        best one from labels alone;
        ``verdict`` : list of sentences; ``notes`` : what limits them;
        ``labelled``, ``unlabelled_rows``, ``columns``, ``classes``, ``labels_per_class``, ``weighted``, ``folds``,
        ``repeats``. :func:`deepsep.report.summarize` takes it as ``comparison``, for the report to show.

    Notes
    -----
    Values are means over the repeats. Intervals are those of a single repeat: dealing the same rows again brings no new
    ones. The best method is chosen on the rows that it is then measured on, which flatters it a little.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep.experiments import compare
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (60, 3)), rng.normal(2, 1, (60, 3))])
    >>> y = np.full(120, None)
    >>> y[:15], y[-15:] = "low", "high"
    >>> found = compare(X, y, methods=["tsvm", "logistic-regression"], folds=3, repeats=1)
    >>> found["methods"][0]["accuracy"]["value"]
    1.0
    """
    known = read_labels(labels)
    if len(table) != len(known.codes):
        raise DataError(f"the table has {len(table)} rows and there are {len(known.codes)} labels; they must match.")
    _check(methods, folds, repeats)
    weight = read_weights(sample_weight, known)
    rows, splits, notes = _deal(known, weight, folds, repeats, seed)
    frame, codes = to_pandas(table).iloc[rows], known.codes[rows]
    if weight is not None:
        weight = weight[rows]
    semi = [name for name in methods if find_method(name).uses_unlabelled]
    passes = 2 if semi and (codes < 0).any() else 1

    def ask(names: Sequence[str], alone: bool) -> list[dict[str, Any]]:
        jobs = [
            _Job(frame, codes, known.classes, weight, tuple(names), tuple(keep), alone, seed, train, test)
            for repeat in splits
            for train, test in repeat
        ]
        answers = []
        for answer in _run(jobs, n_jobs):
            answers.append(answer)
            if on_step is not None:
                words = f"{names[0]} without the unlabelled rows" if alone else f"{len(names)} methods"
                on_step(len(answers) + alone * len(jobs), passes * len(jobs), words)
        return answers

    answers = ask(methods, False)
    failed = {name: why for answer in answers for name, why in answer["failed"].items()}
    notes += [f"{name} is left out, as it failed: {why}" for name, why in failed.items()]
    names = [name for name in methods if name not in failed]
    if not names:
        raise LabelError(f"no method could be fitted. {' '.join(notes)}")
    held_out = [np.concatenate([test for _, test in repeat]) for repeat in splits]
    truth = [_Truth(codes[test], None if weight is None else weight[test]) for test in held_out]
    said = {name: _join(answers, name, splits) for name in names}
    entries = [
        {
            "name": name,
            "uses_unlabelled": name in semi,
            **_scores(said[name], truth, seed),
            "seconds": float(np.mean([answer["seconds"][name] for answer in answers])),
        }
        for name in names
    ]
    entries.sort(key=lambda entry: (-entry["accuracy"]["value"], entry["log_loss"]["value"]))
    best = entries[0]["name"]
    for entry in entries:
        entry["against_best"] = _against(said[entry["name"]], said[best], truth)
    unlabelled = None
    ours = next((entry["name"] for entry in entries if entry["uses_unlabelled"]), None)
    if ours is not None and passes == 2:
        answers = ask([ours], True)
        other = next((entry["name"] for entry in entries if not entry["uses_unlabelled"]), None)
        whole = not any(answer["failed"] for answer in answers)
        unlabelled = {
            "method": ours,
            "without": _against(said[ours], _join(answers, ours, splits), truth) if whole else None,
            "labels_alone": other,
            "against_labels_alone": None if other is None else _against(said[ours], said[other], truth),
        }
    found = {
        "labelled": int((known.codes >= 0).sum()),
        "unlabelled_rows": int((known.codes < 0).sum()),
        "columns": frame.shape[1],
        "classes": [str(name) for name in known.classes],
        "labels_per_class": np.bincount(known.codes[known.labelled], minlength=len(known.classes)).tolist(),
        "weighted": weight is not None and bool(np.ptp(weight[codes >= 0]) > 0),
        "folds": len(splits[0]),
        "repeats": repeats,
        "methods": entries,
        "unlabelled": unlabelled,
        "notes": notes,
    }
    return {**found, "verdict": verdict(found)}


def _check(methods: Sequence[str], folds: int, repeats: int) -> None:
    for name, value, least in (("folds", folds, 2), ("repeats", repeats, 1)):
        if not is_integer(value, least):
            raise ParameterError(f"compare: {name}={value!r}; pass an integer of at least {least}.")
    if not methods or len(set(methods)) < len(methods):
        raise ParameterError("compare: name at least one method, and each once.")
    for name in methods:
        method(name)  # raises if there is none


def _deal(
    known: Labels, weight: Array | None, folds: int, repeats: int, seed: int
) -> tuple[Array, list[list[tuple[Array, Array]]], list[str]]:
    """Return the rows that take part, and for each repeat the (training, test) places among them."""
    rows = np.arange(len(known.codes))
    if weight is not None:  # a row of weight 0 is absent, and so is its label
        rows, known = rows[weight > 0], Labels(np.where(weight > 0, known.codes, -1), known.classes)
    tests, notes = held_out_rows(known, folds, seed)
    if not tests:
        raise LabelError(f"{notes[0]} Label more rows.")
    unlabelled = rows[~known.labelled[rows]]
    if len(unlabelled) > MOST_UNLABELLED:
        drawn = np.random.default_rng(seed).choice(unlabelled, MOST_UNLABELLED, replace=False)
        rows = np.sort(np.concatenate([np.flatnonzero(known.labelled), drawn]))
        notes.append(f"The methods saw {MOST_UNLABELLED:,} of the {len(unlabelled):,} unlabelled rows.")
    splits = []
    for repeat in range(repeats):
        places = [np.searchsorted(rows, test) for test in held_out_rows(known, folds, seed + repeat)[0]]
        splits.append([(np.setdiff1d(np.arange(len(rows)), place), place) for place in places])
    return rows, splits, notes


def _run(jobs: list[_Job], n_jobs: int | None) -> Iterator[dict[str, Any]]:
    if n_jobs in (None, 1):
        yield from map(_fold, jobs)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=1):
        yield from Parallel(return_as="generator")(delayed(_fold)(job) for job in jobs)


def _fold(job: _Job) -> dict[str, Any]:
    """Fit every method to the training rows of a fold and ask it about the others."""
    result: dict[str, Any] = {"p": {}, "seconds": {}, "failed": {}}
    at = job.train[job.codes[job.train] >= 0] if job.alone else job.train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)  # of few labels, which are the point
        # The same for every method of deepsep, and learned from all rows: what is compared is the method.
        encoder = for_table(method(job.names[0]), keep=job.keep)[:-1]
        encoder.fit(job.table.iloc[job.train], job.codes[job.train])
        X, X_test = encoder.transform(job.table.iloc[at]), encoder.transform(job.table.iloc[job.test])
        for name in job.names:
            began = time.perf_counter()
            try:
                fitted = _fit(_build(name, job), X, job.codes[at], None if job.weight is None else job.weight[at])
                p = np.zeros((len(job.test), len(job.classes)))
                p[:, fitted.classes_] = fitted.predict_proba(X_test)
            except ValueError as error:
                result["failed"][name] = str(error)
                continue
            result["p"][name], result["seconds"][name] = p, time.perf_counter() - began
    return result


def _fit(estimator: Any, X: Any, y: Array, weight: Array | None) -> Any:
    if weight is None:
        return estimator.fit(X, y)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ParameterError("it takes no weights.")
    return estimator.fit(X, y, sample_weight=weight)


def _build(name: str, job: _Job) -> Any:
    """Return a method that depends on the seed only; DeepSep without unlabelled rows is its initial network."""
    estimator = method(name)
    settings = estimator.get_params(deep=False)
    if "random_state" in settings:
        estimator.set_params(random_state=job.seed)
    if job.alone and name == "deepsep":
        estimator.set_params(rounds=0)
    return estimator


def _join(answers: list[dict[str, Any]], name: str, splits: list[list[Any]]) -> list[Array]:
    """Return for each repeat what a method said about all held-out rows."""
    each = iter(answers)
    return [np.concatenate([next(each)["p"][name] for _ in repeat]) for repeat in splits]


def _scores(said: list[Array], truth: list[_Truth], seed: int) -> dict[str, Any]:
    found = [scores_with_intervals(p, true.codes, seed, true.weight) for p, true in zip(said, truth, strict=True)]
    return {metric: _mean([one[metric] for one in found], "value") for metric in METRICS}


def _against(said: list[Array], other: list[Array], truth: list[_Truth]) -> dict[str, Any]:
    found = [
        paired_difference(p.argmax(axis=1) == true.codes, q.argmax(axis=1) == true.codes, true.weight)
        for p, q, true in zip(said, other, truth, strict=True)
    ]
    return _mean(found, "difference")


def _mean(found: list[dict[str, Any]], value: str) -> dict[str, Any]:
    """Return the means over the repeats of a value and of both ends of its interval."""
    ends = np.mean([one["interval"] for one in found], axis=0)
    return {value: float(np.mean([one[value] for one in found])), "interval": [float(end) for end in ends]}
