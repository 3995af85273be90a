"""What the method and its rivals say about labelled rows that they were not shown: one fit a fold for all figures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.catalogue import method, uses_unlabelled
from deepsep.core.labels import Labels
from deepsep.errors import DeepSepWarning
from deepsep.evaluation.folds import LabelledFold
from deepsep.evaluation.frames import column_names, in_batches, take
from deepsep.evaluation.importance import Permuted, join, permute
from deepsep.evaluation.population import Population, Said, by_round, given_shares, tempered, to_population
from deepsep.table.pipeline import source_columns

Array = NDArray[Any]
OnStep = Callable[[int, int, str], object]

FOLDS = 5
MOST_UNLABELLED = 20_000  # unlabelled rows in the fits of the folds
BASELINES = ("random-forest", "lightgbm-few-labels")
TREES = 200  # of the baselines, for speed
START = "start"  # the method without its unlabelled rows
CURVE = (0.25, 0.5)  # parts of a fold's training labels, beside all of them
CURVE_RIVAL = "random-forest"


@dataclass(frozen=True)
class Evaluation:
    """What was said about the labelled rows, each when it was held out.

    Attributes
    ----------
    rows : array (m,)
        The labelled rows, in the order of the folds.
    codes : array (m,)
        Their classes.
    weight : array (m,) or None
        How much each counts; None if all count alike. With ``priors``, classes have those shares by these weights.
    p : dict of str to array (m, c)
        Probabilities by method: "model", "majority", "start", and the baselines by name.
    networks, averages : array (rounds + 1, m, c) or None
        What each round's network, and the moving average up to it, said; round 0 is the start.
    curve : list of dict
        Accuracy against labels: ``labels`` in training, and which rows were right, by method.
    permuted : Permuted or None
        What shuffling columns did.
    n_folds : int
        Number of folds.
    n_training : int
        Labels in the training part of a fold.
    weighted, by_shares : bool
        Whether the weights given, and whether ``priors``, make rows count differently.
    """

    rows: Array
    codes: Array
    weight: Array | None
    p: dict[str, Array]
    networks: Array | None
    averages: Array | None
    curve: list[dict[str, Any]]
    permuted: Permuted | None
    n_folds: int
    n_training: int
    weighted: bool
    by_shares: bool
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Data:
    """What every fold needs."""

    model: Any
    table: Any
    codes: Array
    classes: Array
    weight: Array | None
    shares: Array | None  # of the classes in the population, where they are known
    seed: int
    rivals: bool
    repeats: int  # shuffles of each column; 0: none

    def y(self, rows: Array, hidden: Array | None = None) -> Array:
        """Return labels as the user would pass them: None where there is none, or where it is to be hidden."""
        codes = self.codes[rows].copy()
        if hidden is not None:
            codes[hidden] = -1
        return np.array([None if k < 0 else self.classes[k] for k in codes] + [None], dtype=object)[:-1]


def split_model(model: Any) -> tuple[Any, Any]:
    """Return the steps before the estimator (None if there are none), and the estimator."""
    if isinstance(model, Pipeline):
        return (model[:-1] if len(model.steps) > 1 else None), model[-1]
    return None, model


def held_out_rows(labels: Labels, folds: int, seed: int) -> tuple[list[Array], list[str]]:
    """Return the labelled rows that each fold holds out, and what to say about them.

    Classes with enough labels are dealt by :class:`LabelledFold`. Of a class with fewer labels than folds, a fold holds
    out at most one, so that all classes are in every training part. A class with one label is never held out. Without
    two classes that can be held out there are no folds.
    """
    counts = np.bincount(labels.codes[labels.labelled], minlength=len(labels.classes))
    if (counts >= 2).sum() < 2:
        return [], ["Accuracy cannot be estimated: at least two classes need two labels or more."]
    folds = min(folds, int(counts.max()))
    often = counts >= folds
    dealt = np.where(labels.labelled & often[labels.codes], labels.codes, -1)
    tests = [test.tolist() for _, test in LabelledFold(folds, random_state=seed).split(None, dealt)]
    rng = np.random.default_rng(seed)
    for k in np.flatnonzero(~often & (counts >= 2)):
        rows = rng.permutation(np.flatnonzero(labels.codes == k))
        for fold, row in zip(rng.permutation(folds), rows, strict=False):
            tests[fold].append(int(row))
    notes = []
    single = [str(labels.classes[k]) for k in np.flatnonzero(counts == 1)]
    if single:
        names = ", ".join(single[:5]) + (" and others" if len(single) > 5 else "")
        notes.append(f"Classes with one label are never held out, so nothing is known of how well they do: {names}.")
    return [np.sort(test) for test in tests], notes


def evaluate(
    model: Any,
    table: Any,
    labels: Labels,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    sample_weight: Array | None = None,
    rivals: bool = True,
    repeats: int = 5,
    n_jobs: int | None = None,
    on_step: OnStep | None = None,
) -> Evaluation | str:
    """Fit the model and its rivals to all but one fold, for each fold, and return what they say about it.

    Parameters
    ----------
    model : fitted or unfitted estimator or pipeline
        It is cloned.
    table : frame or matrix
        All rows.
    labels : Labels
        What is known of them.
    folds : int, default=5
        Number of folds; fewer where no class has as many labels.
    seed : int, default=0
        Seed of everything.
    sample_weight : array (n,), optional
        Of the rows, in training and when they are held out.
    rivals : bool, default=True
        Whether to fit the baselines, and to fewer labels, too.
    repeats : int, default=5
        How often each column is shuffled for the permutation importance; 0 leaves it out.
    n_jobs : int, optional
        Folds that are fitted at the same time.
    on_step : callable, optional
        Called with (done, total, what comes next).

    Returns
    -------
    Evaluation or str
        A string says why there is none.
    """
    if sample_weight is not None:  # a row of weight 0 is absent, and so is its label
        labels = Labels(np.where(np.asarray(sample_weight) > 0, labels.codes, -1), labels.classes)
    tests, notes = held_out_rows(labels, folds, seed)
    if not tests:
        return notes[0]
    rng = np.random.default_rng(seed)
    rows = np.arange(len(labels.codes))
    unlabelled = np.flatnonzero(~labels.labelled)
    if len(unlabelled) > MOST_UNLABELLED:
        drawn = rng.choice(unlabelled, MOST_UNLABELLED, replace=False)
        rows = np.sort(np.concatenate([np.flatnonzero(labels.labelled), drawn]))
        notes.append(
            f"The models behind these figures saw {MOST_UNLABELLED:,} of the {len(unlabelled):,} unlabelled rows."
        )
    data = _Data(
        model,
        take(table, rows) if len(rows) < len(labels.codes) else table,
        labels.codes[rows],
        labels.classes,
        None if sample_weight is None else np.asarray(sample_weight)[rows],
        given_shares(split_model(model)[1], labels.classes),
        seed,
        rivals,
        repeats,
    )
    n_folds = len(tests)
    places = [np.searchsorted(rows, test) for test in tests]  # labelled rows are all among the rows
    splits = [(np.setdiff1d(np.arange(len(rows)), test), test) for test in places]
    results = []
    for result in _run(data, splits, n_jobs):
        results.append(result)
        if on_step is not None:
            on_step(len(results), n_folds, f"cross-validation, fold {min(len(results) + 1, n_folds)} of {n_folds}")
    return _join(results, rows, data, n_folds, notes)


def _run(data: _Data, splits: Sequence[tuple[Array, Array]], n_jobs: int | None) -> Any:
    if n_jobs in (None, 1):
        return (_fold(data, i, *split) for i, split in enumerate(splits))
    from joblib import Parallel, delayed

    return Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_fold)(data, i, *split) for i, split in enumerate(splits)
    )


def _fold(data: _Data, i: int, train: Array, test: Array) -> dict[str, Any]:
    """Fit everything to the training rows of a fold and ask it about the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeepSepWarning)  # the fit to all rows has said what there is to say
        encoder, estimator = split_model(data.model)
        train_rows, test_rows = take(data.table, train), take(data.table, test)
        X, X_test = train_rows, test_rows
        if encoder is not None:
            encoder = clone(encoder)
            X = encoder.fit_transform(train_rows, data.y(train))
            X_test = encoder.transform(test_rows)
        weight = None if data.weight is None else data.weight[train]
        fitted = _fit(estimator, X, data.y(train), weight, data.seed)
        result: dict[str, Any] = {"test": test, "training": int((data.codes[train] >= 0).sum())}
        result["p"] = {"model": fitted.predict_proba(X_test)}
        if hasattr(fitted, "round_proba"):
            population = _population(data, train, X)
            result["networks"], result["averages"] = by_round(fitted, X_test, population)
        if data.rivals:
            _ask_rivals(data, train, estimator, X, X_test, weight, result)
            result["curve"] = _ask_with_fewer_labels(data, i, train, test, estimator, X, X_test, weight)
        if data.repeats:
            rng, codes = np.random.default_rng([data.seed, i]), data.codes[test]
            groups = None if encoder is None else source_columns(encoder, column_names(data.table))
            if encoder is None or groups is not None:
                result["permuted"] = permute(fitted.predict_proba, X_test, codes, data.repeats, rng, groups)
            else:
                ask = lambda some: fitted.predict_proba(encoder.transform(some))  # noqa: E731
                result["permuted"] = permute(ask, test_rows, codes, data.repeats, rng)
    return result


def _population(data: _Data, train: Array, X: Any) -> Population | None:
    """Return what brings probabilities to the shares given in a fold; None if there are none."""
    if data.shares is None:
        return None
    weight = np.ones(len(train)) if data.weight is None else data.weight[train]
    at = np.flatnonzero((data.codes[train] < 0) & (weight > 0))
    return Population(data.shares, take(X, at), weight[at])


def _fit(estimator: Any, X: Any, y: Array, weight: Array | None, seed: int) -> Any:
    """Return a fresh copy of the estimator, fitted, that is silent and depends on the seed only.

    It is not calibrated: :func:`tempered` does that with what the other folds said, without further fits.
    """
    fresh = clone(estimator)
    quiet = {"verbose": 0, "callback": None, "calibrate": False}
    settings = fresh.get_params(deep=False)
    changes = {name: value for name, value in quiet.items() if name in settings}
    if "random_state" in settings and settings["random_state"] is None:
        changes["random_state"] = seed
    fresh.set_params(**changes)
    if weight is None or not has_fit_parameter(fresh, "sample_weight"):
        return fresh.fit(X, y)
    return fresh.fit(X, y, sample_weight=weight)


def _baseline(name: str, seed: int) -> Any:
    return method(name, n_estimators=TREES, random_state=seed)


def _ask_rivals(
    data: _Data,
    train: Array,
    estimator: Any,
    X: Any,
    X_test: Any,
    weight: Array | None,
    result: dict[str, Any],
) -> None:
    p = result["p"]
    at = np.flatnonzero(data.codes[train] >= 0)
    X_labelled, y = take(X, at), data.y(train[at])
    w = None if weight is None else weight[at]
    # Rivals are told the shares too, in the way that trees understand.
    told = to_population(data.codes[train[at]], w, data.shares)
    for name in BASELINES:
        if name != getattr(estimator, "method_name", None):
            p[name] = _fit(_baseline(name, data.seed), X_labelled, y, told, data.seed).predict_proba(X_test)
    shares = np.bincount(data.codes[train[at]], weights=told, minlength=len(data.classes)).astype(float)
    p["majority"] = np.tile(shares / shares.sum(), (p["model"].shape[0], 1))
    if "networks" not in result and uses_unlabelled(estimator):
        p[START] = _fit(estimator, X_labelled, y, w, data.seed).predict_proba(X_test)


def _ask_with_fewer_labels(
    data: _Data, i: int, train: Array, test: Array, estimator: Any, X: Any, X_test: Any, weight: Array | None
) -> list[dict[str, Any]]:
    """Hide some labels of the training rows, which stay as unlabelled rows, and ask again."""
    order = _spread(data.codes[train], np.random.default_rng([data.seed, i]))
    c, points = len(data.classes), []
    for part in CURVE:
        kept = round(part * len(order))
        if kept < 2 * c:  # below two labels a class a point says little
            continue
        hidden = np.setdiff1d(np.arange(len(train)), order[:kept])
        at, y = np.sort(order[:kept]), data.y(train, hidden)
        fitted = {"model": _fit(estimator, X, y, weight, data.seed)}
        if getattr(estimator, "method_name", None) != CURVE_RIVAL:
            told = to_population(data.codes[train[at]], None if weight is None else weight[at], data.shares)
            fitted[CURVE_RIVAL] = _fit(_baseline(CURVE_RIVAL, data.seed), take(X, at), y[at], told, data.seed)
        right = {n: model.predict_proba(X_test).argmax(axis=1) == data.codes[test] for n, model in fitted.items()}
        points.append({"part": part, "labels": kept, "right": right})
    return points


def _spread(codes: Array, rng: np.random.Generator) -> Array:
    """Return the labelled rows in an order whose every beginning has all classes, each about in its share."""
    at = rng.permutation(np.flatnonzero(codes >= 0))
    place = np.empty(len(at))
    for k in np.unique(codes[at]):
        own = np.flatnonzero(codes[at] == k)
        place[own] = np.arange(len(own)) / len(own)  # the first of each class comes first of all
    return np.asarray(at[np.argsort(place, kind="stable")])


def _join(results: list[dict[str, Any]], rows: Array, data: _Data, n_folds: int, notes: list[str]) -> Evaluation:
    test = np.concatenate([result["test"] for result in results])
    codes = data.codes[test]
    own = None if data.weight is None else data.weight[test]
    weight = to_population(codes, own, data.shares)
    weighted, by_shares = _differ(own), weight is not own and _differ(weight)
    weight = weight if weighted or by_shares else None
    p = {name: np.concatenate([result["p"][name] for result in results]) for name in results[0]["p"]}
    calibrate = bool(getattr(split_model(data.model)[1], "calibrate", False))
    w = np.ones(len(codes)) if weight is None else weight
    if calibrate:
        said = [result["averages"][-1] if "averages" in result else Said(result["p"]["model"]) for result in results]
        p["model"] = tempered(p["model"], codes, said, w)
    networks = averages = None
    if "networks" in results[0]:
        # With shares, the temperature matters for which class is likeliest: rounds are calibrated like the model.
        how = (codes, w) if calibrate and data.shares is not None else None
        networks, averages = (_rounds([result[name] for result in results], how) for name in ("networks", "averages"))
        if data.rivals:
            p[START] = networks[0]
    n_training = round(float(np.mean([result["training"] for result in results])))
    curve = _join_curve(results)
    if curve:
        whole = {name: p[name].argmax(axis=1) == codes for name in curve[0]["right"]}
        curve.append({"labels": n_training, "right": whole})
    permuted = join([result["permuted"] for result in results]) if data.repeats else None
    found = (curve, permuted, n_folds, n_training, weighted, by_shares, notes)
    return Evaluation(rows[test], codes, weight, p, networks, averages, *found)


def _rounds(folds: list[list[Said]], calibrate: tuple[Array, Array] | None) -> Array:
    """Return the probabilities of every round, (rounds + 1, m, c), tempered by codes and weights if there are any."""
    found = []
    for said in zip(*folds, strict=False):  # rounds may end early
        p = np.concatenate([part.brought_to_shares() for part in said])
        found.append(p if calibrate is None else tempered(p, calibrate[0], list(said), calibrate[1]))
    return np.stack(found)


def _differ(weight: Array | None) -> bool:
    return weight is not None and not np.allclose(weight, weight[0])


def _join_curve(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    joined = []
    for part in CURVE:
        points = [point for result in results for point in result.get("curve", []) if point["part"] == part]
        if len(points) < len(results):
            continue
        joined.append(
            {
                "labels": round(float(np.mean([point["labels"] for point in points]))),
                "right": {n: np.concatenate([point["right"][n] for point in points]) for n in points[0]["right"]},
            }
        )
    return joined


def predict_all(model: Any, table: Any) -> Array:
    """Return the model's probabilities for all rows."""
    return in_batches(model.predict_proba, table)
