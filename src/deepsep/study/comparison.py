"""Compare methods on the labels at hand, by cross-validation on the same folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from deepsep.classifiers.building import shipped_method
from deepsep.classifiers.catalogue import CATALOGUE, find_method
from deepsep.classifiers.committee.committee import Committee
from deepsep.classifiers.committee.fits import folds_of
from deepsep.classifiers.committee.members import COMMITTEE
from deepsep.core.arrays import Array
from deepsep.core.checks import check_priors, is_integer, with_fields
from deepsep.core.label_origins import LabelOrigins, read_origins
from deepsep.core.labels import Labels, as_labels
from deepsep.errors import DataError, LabelError, ParameterError
from deepsep.evaluation.folds import MAX_UNLABELED, Folds, deal_folds
from deepsep.evaluation.frames import take
from deepsep.evaluation.intervals import METRIC_NAMES, paired_difference, scores_with_intervals
from deepsep.evaluation.population import read_weights
from deepsep.model import for_table
from deepsep.report.findings import check_population, too_different
from deepsep.report.outcome import condition
from deepsep.report.provenance import changed_settings, plain_value
from deepsep.study.compared_fits import ComparedFits
from deepsep.study.verdict import comparison_frame, comparison_text, comparison_verdict

OnStep = Callable[[float, float, str], object]

COMPARED_METHODS = tuple(name for name, record in CATALOGUE.items() if record.compared)


class Comparison(dict[str, Any]):
    """The result of :func:`compare`: a table of methods, and a verdict.

    It is also a dict of plain values, which ``deepsep compare`` writes to a .json file: ``methods`` (one entry per
    method, with every metric and its interval), ``unlabelled`` (whether unlabelled rows helped: the best method that
    uses them, compared with the same method without them and with the best method that uses labels only),
    ``expected`` (the accuracy to expect on the unlabelled rows, of a committee that is recommended), ``labelled``,
    ``unlabelled_rows``, ``columns`` (those that were used), ``columns_left_out``, ``classes``, ``labels_per_class``,
    ``weighted``, ``by_shares`` (whether rows are weighted to shares of the population), ``population`` (the source of
    these: "given", "estimated" by the committee, or "labels"), ``folds``, ``repeats``, ``settings`` (those given, by
    method), ``findings``, ``notes`` and ``verdict``.
    """

    @property
    def table(self) -> pd.DataFrame:
        """One row per method: the one to use, and the others, the most accurate first.

        ``method``, ``uses_unlabelled``; ``accuracy``, ``balanced_accuracy``, ``log_loss`` and ``ece``, each with the
        ends of its 90 % interval (``accuracy_low``, ``accuracy_high``); ``difference``, in accuracy from the first
        method, likewise; and ``seconds`` per fit, on one core; of the committee, of all its members and folds.
        """
        return comparison_frame(self)

    @property
    def verdict(self) -> list[str]:
        """Sentences on the method to use, how far the others are from it, and whether unlabelled rows helped."""
        return list(self["verdict"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Problems of the table, as in ``deepsep check`` and a report: leaks, drift, unclear dates.

        Each has a ``severity``, a ``message`` and advice on what to do ``next``.
        """
        return list(self["findings"])

    @property
    def notes(self) -> list[str]:
        """Limits of the comparison, such as methods that were left out."""
        return list(self["notes"])

    def __repr__(self) -> str:
        found = [f"{finding['severity']}: {finding['message']}" for finding in self.findings]
        return "\n".join([*found, *([""] if found else []), self.text])

    @property
    def text(self) -> str:
        """The table and the verdict, for a terminal."""
        return "\n".join([comparison_text(self), "", *self.verdict])

    def _repr_html_(self) -> str:
        found = "".join(f"<p>{escape(finding['message'])}</p>" for finding in self.findings)
        verdict = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.verdict)
        return f"{found}{self.table._repr_html_()}{verdict}"


@dataclass(frozen=True, kw_only=True)
class CrossValidation:
    """Folds of a comparison.

    Parameters
    ----------
    folds, repeats : int, optional
        Number of folds, and of random splits into folds. None: those in which ``deepsep fit`` evaluates a committee,
        with the same rows in each.
    seed : int, default=0
        Seed of the folds and of every method.
    n_jobs : int, optional
        Number of fits at the same time; by default one.
    """

    folds: int | None = None
    repeats: int | None = None
    seed: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        for name, minimum in (("folds", 2), ("repeats", 1)):
            value = getattr(self, name)
            if value is not None and not is_integer(value, minimum):
                raise ParameterError(f"compare: {name}={value!r}; pass an integer of at least {minimum}.")


USUAL_FOLDS = CrossValidation()


def compare(
    table: Any,
    labels: Any,
    *,
    methods: Sequence[str] = COMPARED_METHODS,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    priors: Mapping[Any, float] | None = None,
    keep: Iterable[str] = (),
    sample_weight: Any = None,
    labels_drawn: Any = None,
    cross_validation: CrossValidation = USUAL_FOLDS,
    on_cost: Callable[[int, float], object] | None = None,
    on_step: OnStep | None = None,
    **fields: Any,
) -> Comparison:
    """Compare methods on the labels at hand.

    Cross-validation: the labelled rows are split into folds, and every method is fitted without the labels of one fold
    and then predicts them. All methods see the same rows, encoded in the same way, and have the settings of ``deepsep
    fit``: DeepSep is calibrated.

    The committee is fitted once, with these folds. Its predictions of a row come from members that have not seen the
    row's label, with weights that do not depend on it. A method that is also a member is not fitted again.

    Parameters
    ----------
    table : DataFrame or matrix
        All rows, labelled and unlabelled.
    labels : array-like of shape (n,)
        Labels of the rows; None where there is none.
    methods : sequence of str
        Names from :func:`deepsep.methods`.
    settings : dict {method: {setting: value}}, optional
        Settings of some of the methods, where they are not the defaults.
    priors : dict {class: share}, optional
        Shares of the classes in the population. The held-out rows are weighted to these shares. Methods that
        have this setting get it; the probabilities of the others are adjusted so that their mean over the unlabelled
        rows is the shares.
    keep : iterable of str
        Columns to use even if they look useless; see :func:`deepsep.for_table`.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows, both in training and in the scores. Rows of weight 0 are left out, and so are methods that
        do not support weights; a note names them.
    labels_drawn : {"random", "quota", "chosen"} or array-like of shape (n,), optional
        How the labels were drawn; see :meth:`deepsep.Committee.fit`. Labels that cannot tell the accuracy, such as
        chosen ones among random ones, are learned from and never held out.
    cross_validation : CrossValidation, optional
        Number of folds and repeats, the seed, and the number of fits at the same time.
    on_cost : callable, optional
        Called before the fits with their number, and the approximate seconds that they take on one core.
    on_step : callable, optional
        Called with (seconds of work done, total seconds, current work); both are estimates.
    **fields
        Fields of ``cross_validation`` by name, such as ``folds``.

    Returns
    -------
    Comparison
        Its ``table`` is a DataFrame with one row per method, its ``verdict`` the result in sentences; its ``findings``
        are problems of the table that make it misleading.
        Pass it to :func:`deepsep.report.summarize` as ``comparison`` to show it in a report.

    Notes
    -----
    Values are means over the repeats. Intervals are as wide as those of a single repeat, since splitting the same rows
    again adds no new rows. The committee is recommended, unless another method is ahead of it by more than noise; the
    most accurate of these then is, which flatters it a little, since it is measured on the rows on which it is chosen.
    Labels that fill quotas are weighted to the shares that the committee estimates, as in a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from deepsep.study import compare
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(-2, 1, (60, 3)), rng.normal(2, 1, (60, 3))])
    >>> y = np.full(120, None)
    >>> y[:15], y[-15:] = "low", "high"
    >>> comparison = compare(X, y, methods=["tsvm", "logistic-regression"], folds=3, repeats=1)
    >>> comparison.table[["method", "accuracy", "accuracy_low"]].round(2)
                    method  accuracy  accuracy_low
    0                 tsvm       1.0          0.92
    1  logistic-regression       1.0          0.92
    >>> comparison.verdict[0].startswith("Use ")
    True
    """
    (dealing,) = with_fields("compare", fields, cross_validation)
    known = as_labels(labels)
    if len(table) != len(known.codes):
        raise DataError(f"the table has {len(table)} rows and there are {len(known.codes)} labels; they must match.")
    settings = {} if settings is None else settings
    estimators = _build(methods, settings, priors, dealing.seed)
    shares = None if priors is None else check_priors(priors, known.classes)
    weight = read_weights(sample_weight, known)
    origins = read_origins(labels_drawn, known)
    split = _deal(known, origins, estimators, dealing, weight)
    encoder = for_table(estimators[methods[0]], keep=tuple(keep))[:-1]  # the same for all methods
    columns = encoder[0].fit_transform(table, known)
    rows = split.rows
    some = Labels(known.codes[rows], known.classes)
    fits = ComparedFits(
        estimators,
        encoder[1:].fit_transform(take(columns, rows), some),
        some,
        replace(split, rows=np.arange(len(rows)), tests=tuple(np.searchsorted(rows, test) for test in split.tests)),
        None if weight is None else weight[rows],
        shares,
        origins.words[rows],
        dealing.n_jobs or 1,
    )
    if on_cost is not None:
        on_cost(*fits.cost)
    fits.run(on_step)
    notes = [*split.notes, *(f"{name} is left out: {reason}" for name, reason in fits.failures.items())]
    entries = [
        {
            "name": name,
            "uses_unlabelled": find_method(name).uses_unlabeled,
            **_scores(fits, fits.p[name], dealing.seed),
            "seconds": fits.seconds[name],
            "settings": changed_settings(fits.estimators[name]),
        }
        for name in methods
        if name in fits.p
    ]
    if not entries:
        raise LabelError(f"no method could be fitted. {' '.join(notes)}")
    entries.sort(key=lambda entry: (-entry["accuracy"]["value"], entry["log_loss"]["value"]))
    first = _recommended(fits, [entry["name"] for entry in entries])
    entries.sort(key=lambda entry: entry["name"] != first)
    for entry in entries:
        entry["against_first"] = _difference(fits, fits.p[entry["name"]], fits.p[first])
    findings = check_population(columns, known, shares, weight, encoder[0].left_out_)
    population = "labels" if not fits.by_shares else "given" if shares is not None else "estimated"
    result = {
        "labelled": int((known.codes >= 0).sum()),
        "unlabelled_rows": int((known.codes < 0).sum()),
        "columns": list(encoder[0].schema_),
        "columns_left_out": list(encoder[0].left_out_),
        "classes": [str(name) for name in known.classes],
        "labels_per_class": np.bincount(known.codes[known.labeled], minlength=len(known.classes)).tolist(),
        "weighted": fits.weighted,
        "by_shares": fits.by_shares,
        "population": population,
        "folds": split.n_splits,
        "repeats": split.n_repeats,
        "methods": entries,
        "expected": None if too_different(findings) else _expected(fits, first, origins, population),
        "unlabelled": _unlabeled(fits, entries, on_step) if (some.codes < 0).any() else None,
        "settings": {name: {key: plain_value(value) for key, value in own.items()} for name, own in settings.items()},
        "findings": findings,
        "notes": notes,
    }
    return Comparison(result, verdict=comparison_verdict(result))


def _recommended(fits: ComparedFits, names: Sequence[str]) -> str:
    """Return the committee, unless methods are ahead of it by more than noise; then the first of these."""
    if COMMITTEE not in names:
        return names[0]
    lows = {name: _difference(fits, fits.p[name], fits.p[COMMITTEE])["interval"][0] for name in names}
    return next((name for name in names if lows[name] > 0), COMMITTEE)


def _expected(fits: ComparedFits, name: str, origins: LabelOrigins, population: str) -> dict[str, Any] | None:
    """Return the accuracy to expect on the unlabelled rows, as a report does; None if it is not known."""
    known = fits.committee.expected_accuracy_ if name == COMMITTEE else None
    if known is None:
        return None
    shares = dict(zip(fits.labels.classes.astype(str), fits.committee.shares_.tolist(), strict=True))
    assumed = condition(origins, population, shares)
    return {"value": known.value, "interval": list(known.interval), "condition": assumed}


def _deal(
    labels: Labels,
    origins: LabelOrigins,
    estimators: Mapping[str, Any],
    dealing: CrossValidation,
    weight: Array | None,
) -> Folds:
    """Return folds that hold out the labels that can tell the accuracy, or all labels if there are none."""
    as_in_a_fit = dealing.folds is None
    effort = estimators[COMMITTEE].effort if COMMITTEE in estimators else "normal"
    usual, usual_repeats = folds_of(effort, int(labels.labeled.sum()))
    split = deal_folds(
        labels,
        n_splits=dealing.folds or usual,
        n_repeats=dealing.repeats or (usual_repeats if as_in_a_fit else 1),
        seed=Committee.seed_of_folds(dealing.seed) if as_in_a_fit else dealing.seed,
        weight=weight,
        max_unlabeled=MAX_UNLABELED,
        stratified=origins.stratified,
    )
    if origins.basis is None:
        note = "All labels were chosen: the figures hold for rows like these, not for all rows."
        return replace(split, notes=(*split.notes, note))
    others = int((labels.labeled & ~origins.fair).sum())
    note = f"{others:,} labels are learned from but not held out, since they cannot tell the accuracy."
    return replace(split.only(origins.fair), notes=(*split.notes, *([note] if others else [])))


def _build(
    methods: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
    priors: Mapping[Any, float] | None,
    seed: int,
) -> dict[str, Any]:
    """Return the estimators, seeded, or raise if an argument of :func:`compare` is wrong."""
    if not methods or len(set(methods)) < len(methods):
        raise ParameterError("compare: name at least one method, and each once.")
    strangers = [name for name in settings if name not in methods]
    if strangers:
        raise ParameterError(f"compare: settings of {strangers[0]!r}, which is not among the methods.")
    if any("priors" in own for own in settings.values()):
        raise ParameterError("compare: pass the shares as priors=..., for all methods, not among the settings.")
    estimators = {name: shipped_method(name, settings.get(name, {}), seed) for name in methods}
    for estimator in estimators.values():
        if "priors" in estimator.get_params(deep=False):
            estimator.set_params(priors=priors)
    return estimators


def _unlabeled(fits: ComparedFits, entries: list[dict[str, Any]], on_step: OnStep | None) -> dict[str, Any] | None:
    """Return whether unlabelled rows helped the best method that uses them; None if none does."""
    name = next((entry["name"] for entry in entries if entry["uses_unlabelled"]), None)
    if name is None:
        return None
    alone = fits.without_unlabeled(name, on_step)
    supervised = next((entry["name"] for entry in entries if not entry["uses_unlabelled"]), None)
    return {
        "method": name,
        "without": None if alone is None else _difference(fits, fits.p[name], alone),
        "labels_alone": supervised,
        "against_labels_alone": None if supervised is None else _difference(fits, fits.p[name], fits.p[supervised]),
    }


def _scores(fits: ComparedFits, p: Array, seed: int) -> dict[str, Any]:
    """Return every metric with its interval."""
    scores = [scores_with_intervals(p_repeat, codes, seed, weight) for codes, weight, p_repeat in _repeats(fits, p)]
    return {metric: _mean([one[metric] for one in scores], "value") for metric in METRIC_NAMES}


def _difference(fits: ComparedFits, p: Array, other: Array) -> dict[str, Any]:
    """Return the difference in accuracy between two methods, with its interval."""
    return _mean(
        [
            paired_difference(first.argmax(axis=1) == codes, second.argmax(axis=1) == codes, weight)
            for codes, weight, first, second in _repeats(fits, p, other)
        ],
        "difference",
    )


def _repeats(fits: ComparedFits, *values: Array) -> Iterator[tuple[Any, ...]]:
    """Yield class codes, weights and the given values of the rows, repeat by repeat."""
    weights = [None] * fits.folds.n_repeats if fits.weight is None else fits.by_repeat(fits.weight)
    return zip(fits.by_repeat(fits.codes), weights, *map(fits.by_repeat, values), strict=True)


def _mean(each: list[dict[str, Any]], value: str) -> dict[str, Any]:
    """Return the mean over the repeats of a value and of both ends of its interval."""
    ends = np.mean([one["interval"] for one in each], axis=0)
    return {value: float(np.mean([one[value] for one in each])), "interval": [float(end) for end in ends]}
