"""Which method suits the labels at hand: all methods on the same repeated folds, and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.catalogue import CATALOGUE, find_method, method
from deepsep.core.checks import is_integer
from deepsep.core.labels import as_labels
from deepsep.errors import DataError, LabelError, ParameterError
from deepsep.evaluation.folds import MAX_UNLABELED, deal_folds
from deepsep.evaluation.frames import to_pandas
from deepsep.evaluation.intervals import paired_difference, scores_with_intervals
from deepsep.evaluation.metrics import METRICS
from deepsep.evaluation.out_of_fold import Candidate, OutOfFold, fit_folds
from deepsep.evaluation.population import read_weights
from deepsep.experiments.verdict import verdict
from deepsep.table import for_table

Array = NDArray[Any]
OnStep = Callable[[int, int, str], object]

METHODS = tuple(name for name, record in CATALOGUE.items() if record.compared)
FOLDS, REPEATS = 5, 2


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
    """Compare methods on the labels at hand.

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
        ``methods`` : one entry per method, the most accurate first: ``name``, ``uses_unlabelled``, ``accuracy``,
        ``balanced_accuracy``, ``log_loss`` and ``ece`` (each with ``value`` and 95 % ``interval``), ``seconds`` per
        fit, and ``against_best`` (``difference`` in accuracy to the first one, and its ``interval``);
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
    known = as_labels(labels)
    if len(table) != len(known.codes):
        raise DataError(f"the table has {len(table)} rows and there are {len(known.codes)} labels; they must match.")
    estimators = _build(methods, folds, repeats, seed)
    weight = read_weights(sample_weight, known)
    dealt = deal_folds(known, n_splits=folds, n_repeats=repeats, seed=seed, weight=weight, max_unlabeled=MAX_UNLABELED)
    frame, codes = to_pandas(table), known.codes[dealt.rows]
    weights = None if weight is None else weight[dealt.rows][codes >= 0]
    semi = [name for name in methods if find_method(name).uses_unlabelled]
    n_folds = len(dealt.tests)
    total = n_folds * (2 if semi and (codes < 0).any() else 1)

    def fit(candidates: dict[str, Candidate], words: str, done_before: int = 0) -> OutOfFold:
        return fit_folds(
            candidates,
            frame,
            known,
            dealt,
            weight=weight,
            # The same for every method, and learned from all rows: what is compared is the method.
            encoder=for_table(estimators[methods[0]], keep=tuple(keep))[:-1],
            keep_failures=True,
            n_jobs=n_jobs,
            on_fold=None if on_step is None else lambda done: on_step(done_before + done, total, words),
        )

    unweighted = [] if weight is None else [n for n in methods if not has_fit_parameter(estimators[n], "sample_weight")]
    taking_part = {name: Candidate(estimators[name]) for name in methods if name not in unweighted}
    fits = fit(taking_part, f"{len(methods)} methods")
    failures = dict.fromkeys(unweighted, "it takes no weights.") | fits.failures
    notes = [*dealt.notes, *(f"{name} is left out, as it failed: {why}" for name, why in failures.items())]
    if not fits.p:
        raise LabelError(f"no method could be fitted. {' '.join(notes)}")
    entries = [
        {"name": name, "uses_unlabelled": name in semi, **_scores(fits, p, seed), "seconds": fits.seconds[name]}
        for name, p in fits.p.items()
    ]
    entries.sort(key=lambda entry: (-entry["accuracy"]["value"], entry["log_loss"]["value"]))
    best = entries[0]["name"]
    for entry in entries:
        entry["against_best"] = _against(fits, fits.p[entry["name"]], fits.p[best])
    unlabelled = None
    ours = next((entry["name"] for entry in entries if entry["uses_unlabelled"]), None)
    if ours is not None and total > n_folds:
        alone = fit({ours: _without_unlabelled(ours, estimators)}, f"{ours} without the unlabelled rows", n_folds)
        other = next((entry["name"] for entry in entries if not entry["uses_unlabelled"]), None)
        unlabelled = {
            "method": ours,
            "without": _against(fits, fits.p[ours], alone.p[ours]) if alone.p else None,
            "labels_alone": other,
            "against_labels_alone": None if other is None else _against(fits, fits.p[ours], fits.p[other]),
        }
    result = {
        "labelled": int((known.codes >= 0).sum()),
        "unlabelled_rows": int((known.codes < 0).sum()),
        "columns": frame.shape[1],
        "classes": [str(name) for name in known.classes],
        "labels_per_class": np.bincount(known.codes[known.labelled], minlength=len(known.classes)).tolist(),
        "weighted": weights is not None and bool(np.ptp(weights) > 0),
        "folds": dealt.n_splits,
        "repeats": repeats,
        "methods": entries,
        "unlabelled": unlabelled,
        "notes": notes,
    }
    return {**result, "verdict": verdict(result)}


def _build(methods: Sequence[str], folds: int, repeats: int, seed: int) -> dict[str, Any]:
    """Return the methods, which depend on the seed only, or raise if a setting of the comparison is wrong."""
    for name, value, least in (("folds", folds, 2), ("repeats", repeats, 1)):
        if not is_integer(value, least):
            raise ParameterError(f"compare: {name}={value!r}; pass an integer of at least {least}.")
    if not methods or len(set(methods)) < len(methods):
        raise ParameterError("compare: name at least one method, and each once.")
    estimators = {name: method(name) for name in methods}
    for estimator in estimators.values():
        if "random_state" in estimator.get_params(deep=False):
            estimator.set_params(random_state=seed)
    return estimators


def _without_unlabelled(name: str, estimators: Mapping[str, Any]) -> Candidate:
    """Return a method on labelled rows alone; DeepSep is then its initial network."""
    changes = {"rounds": 0} if name == "deepsep" else {}
    return Candidate(clone(estimators[name]).set_params(**changes), labelled_only=True)


def _scores(fits: OutOfFold, p: Array, seed: int) -> dict[str, Any]:
    scores = [scores_with_intervals(own, codes, seed, weight) for codes, weight, own in _repeats(fits, p)]
    return {metric: _mean([one[metric] for one in scores], "value") for metric in METRICS}


def _against(fits: OutOfFold, p: Array, other: Array) -> dict[str, Any]:
    return _mean(
        [
            paired_difference(own.argmax(axis=1) == codes, rival.argmax(axis=1) == codes, weight)
            for codes, weight, own, rival in _repeats(fits, p, other)
        ],
        "difference",
    )


def _repeats(fits: OutOfFold, *values: Array) -> Iterator[tuple[Any, ...]]:
    """Yield codes, weights and further values of the rows, for each repeat."""
    weights = [None] * fits.folds.n_repeats if fits.weight is None else fits.by_repeat(fits.weight)
    return zip(fits.by_repeat(fits.codes), weights, *map(fits.by_repeat, values), strict=True)


def _mean(each: list[dict[str, Any]], value: str) -> dict[str, Any]:
    """Return the means over the repeats of a value and of both ends of its interval."""
    ends = np.mean([one["interval"] for one in each], axis=0)
    return {value: float(np.mean([one[value] for one in each])), "interval": [float(end) for end in ends]}
