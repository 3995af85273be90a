"""Compare methods on the labels at hand, by repeated cross-validation on the same folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.catalogue import CATALOGUE, find_method, method
from deepsep.core.checks import is_integer
from deepsep.core.labels import as_labels
from deepsep.errors import DataError, DeepSepWarning, LabelError, ParameterError
from deepsep.evaluation.folds import MAX_UNLABELED, deal_folds
from deepsep.evaluation.frames import to_pandas
from deepsep.evaluation.intervals import paired_difference, scores_with_intervals
from deepsep.evaluation.metrics import METRICS
from deepsep.evaluation.out_of_fold import Candidate, OutOfFold, fit_folds
from deepsep.evaluation.population import read_weights
from deepsep.experiments.verdict import as_frame, as_text, verdict
from deepsep.table import for_table
from deepsep.table.columns import UsefulColumns

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]
OnStep = Callable[[int, int, str], object]

METHODS = tuple(name for name, record in CATALOGUE.items() if record.compared)
FOLDS, REPEATS = 5, 2


class Comparison(dict[str, Any]):
    """The result of :func:`compare`: a table of methods, and what it shows.

    It is also a dict of plain values, which ``deepsep compare`` writes to a .json file: ``methods`` (one entry per
    method, with every metric and its interval), ``unlabelled`` (whether unlabelled rows helped: the best method that
    uses them, compared with the same method without them and with the best method that uses labels only),
    ``labelled``, ``unlabelled_rows``, ``columns`` (those that were used), ``columns_left_out``, ``classes``,
    ``labels_per_class``, ``weighted``, ``folds``, ``repeats``, ``notes`` and ``verdict``.
    """

    @property
    def table(self) -> pd.DataFrame:
        """One row per method, the most accurate first.

        ``method``, ``uses_unlabelled``; ``accuracy``, ``balanced_accuracy``, ``log_loss`` and ``ece``, each with the
        ends of its 95 % interval (``accuracy_low``, ``accuracy_high``); ``difference``, in accuracy from the first
        method, likewise; and ``seconds`` per fit.
        """
        return as_frame(self)

    @property
    def verdict(self) -> list[str]:
        """Which method to use, whether its lead is more than noise, and whether unlabelled rows helped."""
        return list(self["verdict"])

    @property
    def notes(self) -> list[str]:
        """What limits the comparison, such as methods that were left out."""
        return list(self["notes"])

    def __repr__(self) -> str:
        return "\n".join([as_text(self), "", *self.verdict])

    def _repr_html_(self) -> str:
        return str(self.table._repr_html_()) + "".join(f"<p>{escape(sentence)}</p>" for sentence in self.verdict)


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
) -> Comparison:
    """Compare methods on the labels at hand.

    Repeated cross-validation: the labelled rows are split into folds, and every method is fitted without the labels of
    one fold and then predicts them. All methods see the same rows, encoded in the same way.

    Parameters
    ----------
    table : DataFrame or matrix
        All rows, labelled and unlabelled.
    labels : array-like of shape (n,)
        Labels of the rows; None where there is none.
    methods : sequence of str
        Names from :func:`deepsep.methods`. Each method has its default settings.
    folds, repeats : int, default=5 and 2
        Number of folds, and of random splits into folds.
    seed : int, default=0
        Seed of the folds and of every method.
    keep : iterable of str
        Columns to use even if they look useless; see :func:`deepsep.for_table`.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, both in training and in the scores. Rows of weight 0 are left out, and so are methods that
        do not support weights; a note names them.
    n_jobs : int, optional
        Number of folds fitted in parallel.
    on_step : callable, optional
        Called with (steps done, steps in all, description of the step).

    Returns
    -------
    Comparison
        Its ``table`` is a DataFrame with one row per method, and its ``verdict`` says what it shows, in sentences.
        Pass it to :func:`deepsep.report.summarize` as ``comparison`` to show it in a report.

    Notes
    -----
    Values are means over the repeats. Intervals are as wide as those of a single repeat, since splitting the same rows
    again adds no new rows. The best method is chosen on the rows on which it is measured, which flatters it a little.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep.experiments import compare
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (60, 3)), rng.normal(2, 1, (60, 3))])
    >>> y = np.full(120, None)
    >>> y[:15], y[-15:] = "low", "high"
    >>> comparison = compare(X, y, methods=["tsvm", "logistic-regression"], folds=3, repeats=1)
    >>> comparison.table[["method", "accuracy", "accuracy_low"]].round(2)
                    method  accuracy  accuracy_low
    0                 tsvm       1.0          0.89
    1  logistic-regression       1.0          0.89
    >>> comparison.verdict[0].startswith("Use ")
    True
    """
    known = as_labels(labels)
    if len(table) != len(known.codes):
        raise DataError(f"the table has {len(table)} rows and there are {len(known.codes)} labels; they must match.")
    estimators = _build(methods, folds, repeats, seed)
    weight = read_weights(sample_weight, known)
    split = deal_folds(known, n_splits=folds, n_repeats=repeats, seed=seed, weight=weight, max_unlabeled=MAX_UNLABELED)
    frame, codes = to_pandas(table), known.codes[split.rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)  # the fits give the same warning
        useful = UsefulColumns(keep=tuple(keep)).fit(frame, known)
    weights = None if weight is None else weight[split.rows][codes >= 0]
    semi = [name for name in methods if find_method(name).uses_unlabelled]
    n_folds = len(split.tests)
    total = n_folds * (2 if semi and (codes < 0).any() else 1)

    def fit(candidates: dict[str, Candidate], description: str, done_before: int = 0) -> OutOfFold:
        return fit_folds(
            candidates,
            frame,
            known,
            split,
            weight=weight,
            # One encoder for all methods, fitted to all rows, so that only the methods differ.
            encoder=for_table(estimators[methods[0]], keep=tuple(keep))[:-1],
            kept_failures=(ValueError,),
            n_jobs=n_jobs,
            on_fold=None if on_step is None else lambda done: on_step(done_before + done, total, description),
        )

    unweighted = [] if weight is None else [n for n in methods if not has_fit_parameter(estimators[n], "sample_weight")]
    taking_part = {name: Candidate(estimators[name]) for name in methods if name not in unweighted}
    fits = fit(taking_part, f"{len(methods)} methods")
    failures = dict.fromkeys(unweighted, "it does not support weights.") | fits.failures
    notes = [*split.notes, *(f"{name} is left out: {reason}" for name, reason in failures.items())]
    if not fits.p:
        raise LabelError(f"no method could be fitted. {' '.join(notes)}")
    entries = [
        {"name": name, "uses_unlabelled": name in semi, **_scores(fits, p, seed), "seconds": fits.seconds[name]}
        for name, p in fits.p.items()
    ]
    entries.sort(key=lambda entry: (-entry["accuracy"]["value"], entry["log_loss"]["value"]))
    best = entries[0]["name"]
    for entry in entries:
        entry["against_best"] = _difference(fits, fits.p[entry["name"]], fits.p[best])
    unlabelled = None
    semi_supervised = next((entry["name"] for entry in entries if entry["uses_unlabelled"]), None)
    if semi_supervised is not None and total > n_folds:
        name, p = semi_supervised, fits.p[semi_supervised]
        alone = fit({name: _without_unlabelled(name, estimators)}, f"{name} without the unlabelled rows", n_folds)
        supervised = next((entry["name"] for entry in entries if not entry["uses_unlabelled"]), None)
        unlabelled = {
            "method": name,
            "without": _difference(fits, p, alone.p[name]) if alone.p else None,
            "labels_alone": supervised,
            "against_labels_alone": None if supervised is None else _difference(fits, p, fits.p[supervised]),
        }
    result = {
        "labelled": int((known.codes >= 0).sum()),
        "unlabelled_rows": int((known.codes < 0).sum()),
        "columns": list(useful.schema_),
        "columns_left_out": list(useful.left_out_),
        "classes": [str(name) for name in known.classes],
        "labels_per_class": np.bincount(known.codes[known.labelled], minlength=len(known.classes)).tolist(),
        "weighted": weights is not None and bool(np.ptp(weights) > 0),
        "folds": split.n_splits,
        "repeats": repeats,
        "methods": entries,
        "unlabelled": unlabelled,
        "notes": notes,
    }
    return Comparison(result, verdict=verdict(result))


def _build(methods: Sequence[str], folds: int, repeats: int, seed: int) -> dict[str, Any]:
    """Return the estimators, seeded, or raise if an argument of :func:`compare` is wrong."""
    for name, value, minimum in (("folds", folds, 2), ("repeats", repeats, 1)):
        if not is_integer(value, minimum):
            raise ParameterError(f"compare: {name}={value!r}; pass an integer of at least {minimum}.")
    if not methods or len(set(methods)) < len(methods):
        raise ParameterError("compare: name at least one method, and each once.")
    estimators = {name: method(name) for name in methods}
    for estimator in estimators.values():
        if "random_state" in estimator.get_params(deep=False):
            estimator.set_params(random_state=seed)
    return estimators


def _without_unlabelled(name: str, estimators: Mapping[str, Any]) -> Candidate:
    """Return a method that is fitted to the labelled rows only; for DeepSep, its initial network."""
    changes = {"rounds": 0} if name == "deepsep" else {}
    return Candidate(clone(estimators[name]).set_params(**changes), labelled_only=True)


def _scores(fits: OutOfFold, p: Array, seed: int) -> dict[str, Any]:
    """Return every metric with its interval."""
    scores = [scores_with_intervals(p_repeat, codes, seed, weight) for codes, weight, p_repeat in _repeats(fits, p)]
    return {metric: _mean([one[metric] for one in scores], "value") for metric in METRICS}


def _difference(fits: OutOfFold, p: Array, other: Array) -> dict[str, Any]:
    """Return the difference in accuracy between two methods, with its interval."""
    return _mean(
        [
            paired_difference(first.argmax(axis=1) == codes, second.argmax(axis=1) == codes, weight)
            for codes, weight, first, second in _repeats(fits, p, other)
        ],
        "difference",
    )


def _repeats(fits: OutOfFold, *values: Array) -> Iterator[tuple[Any, ...]]:
    """Yield class codes, weights and the given values of the rows, repeat by repeat."""
    weights = [None] * fits.folds.n_repeats if fits.weight is None else fits.by_repeat(fits.weight)
    return zip(fits.by_repeat(fits.codes), weights, *map(fits.by_repeat, values), strict=True)


def _mean(each: list[dict[str, Any]], value: str) -> dict[str, Any]:
    """Return the mean over the repeats of a value and of both ends of its interval."""
    ends = np.mean([one["interval"] for one in each], axis=0)
    return {value: float(np.mean([one[value] for one in each])), "interval": [float(end) for end in ends]}
