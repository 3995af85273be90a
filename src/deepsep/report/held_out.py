"""Evaluate a model on held-out labelled rows: its predictions, those of baselines, and column importances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from deepsep.classifiers.building import method
from deepsep.classifiers.catalogue import uses_unlabeled
from deepsep.core.arrays import Array
from deepsep.core.label_origins import LabelOrigins, read_origins
from deepsep.core.labels import Labels
from deepsep.core.model_parts import split_model
from deepsep.errors import LabelError
from deepsep.evaluation.expected_accuracy import Evidence
from deepsep.evaluation.folds import MAX_UNLABELED, Folds, deal_folds
from deepsep.evaluation.frames import column_names, take
from deepsep.evaluation.importance import Permuted, join
from deepsep.evaluation.out_of_fold import MODEL_NAME, Candidate, Fold, FoldFits, OutOfFold
from deepsep.evaluation.population import (
    Population,
    RawProbabilities,
    by_round,
    given_shares,
    held_out_weights,
    tempered,
)
from deepsep.report.committee_held_out import (
    FOREST_TREES,
    guess,
    is_fitted_to,
    predictions,
    shuffle_columns,
    shuffle_in_fold,
)
from deepsep.report.map import Embedded, embed, embed_members

OnStep = Callable[[int, int, str], object]

FOLDS = 5
BASELINE_METHODS = ("random-forest", "lightgbm-few-labels")  # the first is in the learning curve, too
START_KEY = "start"  # the method without its unlabelled rows
CURVE_SHARES = (0.25, 0.5)  # of a fold's training labels, in the learning curve; its last point has them all


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Predictions for the labelled rows, each by a model that was fitted without its label."""

    rows: Array  # (m,), numbers of the labelled rows, in the order of the folds
    codes: Array  # (m,), their classes
    weight: Array | None  # (m,); None if all are equal. With ``priors``, they give the classes those shares.
    p: dict[str, Array]  # (m, c), probabilities by "model", "majority", "start", and the name of a baseline or member
    networks: Array | None = None  # (rounds + 1, m, c), by each round's network; round 0 is the start
    averages: Array | None = None  # the same by the moving averages up to them
    # points of the learning curve: ``labels`` in training, and which rows were ``right``, by method
    curve: list[dict[str, Any]] = field(default_factory=list)
    permuted: Permuted | None  # the effect of shuffling each column
    embedded: Embedded  # rows for the map, by the model of the first fold
    n_folds: int
    n_training: int  # labels in the training part of a fold
    weighted: bool  # whether rows differ in weight because weights were given
    population: str  # source of the shares to which rows are weighted: "labels", "given" or "estimated"
    notes: tuple[str, ...] = ()  # limits of the evaluation, as sentences for the user

    @property
    def evidence(self) -> Evidence:
        """The predictions of the model."""
        weight = np.ones(len(self.codes)) if self.weight is None else self.weight
        return Evidence(self.p[MODEL_NAME], self.codes, weight, 1)


def evaluate_model(
    model: Any,  # it is cloned
    table: Any,
    labels: Labels,
    *,
    origins: LabelOrigins | None = None,  # only fair labels are held out; by default they are guessed
    folds: int = FOLDS,  # fewer where no class has as many labels
    seed: int = 0,
    sample_weight: Array | None = None,  # (n,), in training and in scores
    baselines: bool = True,  # and the learning curve
    repeats: int = 5,  # how often each column is shuffled for the permutation importance; 0 leaves it out
    n_jobs: int | None = None,
    on_step: OnStep | None = None,  # called with (done, total, what comes next)
) -> Evaluation | str:
    """Cross-validate the model and some baselines on the labelled rows.

    Returns
    -------
    Evaluation or str
        A string gives the reason why no evaluation is possible.
    """
    origins = origins or read_origins(None, labels)
    if origins.basis is None:
        return (
            "No accuracy is stated, because nearly all labels were chosen: rows that are harder or easier than the "
            "others say nothing about them. Label 50 rows drawn at random, and say that they were."
        )
    try:
        dealt = deal_folds(
            labels,
            n_splits=folds,
            seed=seed,
            weight=sample_weight,
            max_unlabeled=MAX_UNLABELED,
            stratified=origins.stratified,
        ).only(origins.fair)
    except LabelError as error:
        return str(error)
    encoder, estimator = split_model(model)
    if is_fitted_to(estimator, labels):
        return _of_committee(model, table, labels, seed, sample_weight, repeats, n_jobs)
    shares = given_shares(estimator, labels.classes)
    n_folds = len(dealt.tests)

    def on_fold(done: int) -> None:
        if on_step is not None:
            on_step(done, n_folds, f"cross-validation, fold {min(done + 1, n_folds)} of {n_folds}")

    alone = {MODEL_NAME: Candidate(_quiet(estimator))}
    candidates = _candidates(estimator, labels, dealt, shares) if baselines else alone
    look = partial(_look_inside, column_names(table), dealt, shares, repeats, seed)
    fits = FoldFits(candidates, table, labels, dealt, sample_weight, encoder, after_fit=look).fit(n_jobs, on_fold)
    if baselines:
        fits.p["majority"] = guess(labels, dealt, sample_weight, origins.fair, shares)
    return _evaluation(fits, estimator, shares, baselines)


def _of_committee(
    model: Any, table: Any, labels: Labels, seed: int, weight: Array | None, repeats: int, n_jobs: int | None
) -> Evaluation | str:
    """Return the evaluation of a committee from the out-of-fold predictions that it already has."""
    _, committee = split_model(model)
    held_out = committee.out_of_fold_
    if held_out is None:
        return "Accuracy cannot be estimated: the fit was interrupted before a fold was complete. Fit again."
    permuted = shuffle_columns(model, table, labels, repeats, seed, weight, n_jobs) if repeats else None
    at = committee.label_origins_.fair[held_out.by_repeat(held_out.rows)[0]]
    rows, codes = (held_out.by_repeat(each)[0][at] for each in (held_out.rows, held_out.codes))
    own = None if held_out.weight is None else held_out.by_repeat(held_out.weight)[0][at]
    given, weighted, by_shares = held_out_weights(codes, own, committee.population_shares_)
    return Evaluation(
        rows=rows,
        codes=codes,
        weight=given,
        p={name: p[at] for name, p in predictions(committee, labels, held_out, weight).items()},
        permuted=permuted if isinstance(permuted, Permuted) else None,
        embedded=embed_members(committee, np.flatnonzero(labels.codes < 0), seed),
        n_folds=held_out.folds.n_splits,
        n_training=round(float(held_out.n_training.mean())),
        weighted=weighted,
        population="labels" if not by_shares else "given" if committee.priors is not None else "estimated",
        notes=held_out.folds.notes,
    )


def _candidates(estimator: Any, labels: Labels, dealt: Folds, shares: Array | None) -> dict[str, Candidate]:
    """Return the model, the baselines, and some of them with fewer labels for the learning curve."""
    model, own_name = _quiet(estimator), getattr(estimator, "method_name", None)
    names = [name for name in BASELINE_METHODS if name != own_name]
    # Baselines get the known shares as weights of the labelled rows, since they have no setting for shares.
    baselines = {name: method(name, n_estimators=FOREST_TREES, random_state=dealt.seed) for name in names}
    candidates = {MODEL_NAME: Candidate(model)} | {
        name: Candidate(baseline, labeled_only=True, class_shares=shares) for name, baseline in baselines.items()
    }
    if not hasattr(estimator, "round_proba") and uses_unlabeled(estimator):
        candidates[START_KEY] = Candidate(model, labeled_only=True)
    n_labeled = (labels.codes[dealt.rows] >= 0).sum()
    fewest = int(n_labeled - max(len(test) for test in dealt.tests))
    for part in CURVE_SHARES:
        if round(part * fewest) < 2 * len(labels.classes):  # with fewer than two labels per class, a point means little
            continue
        candidates[_with_fewer_labels(MODEL_NAME, part)] = Candidate(model, label_share=part)
        if BASELINE_METHODS[0] in baselines:
            fewer = Candidate(baselines[BASELINE_METHODS[0]], labeled_only=True, label_share=part, class_shares=shares)
            candidates[_with_fewer_labels(BASELINE_METHODS[0], part)] = fewer
    return candidates


def _with_fewer_labels(name: str, part: float) -> str:
    return f"{name} with {part} of the labels"


def _quiet(estimator: Any) -> Any:
    """Return a silent, uncalibrated copy: :func:`tempered` calibrates it by the other folds, without further fits."""
    quiet = {"verbose": 0, "callback": None, "calibrate": False, "twins": False}
    settings = estimator.get_params(deep=False)
    return clone(estimator).set_params(**{name: value for name, value in quiet.items() if name in settings})


def _look_inside(
    columns: list[str], dealt: Folds, shares: Array | None, repeats: int, seed: int, name: str, fitted: Any, fold: Fold
) -> tuple[Any, Permuted | None, Embedded | None] | None:
    """Return the probabilities of all rounds, the effect of shuffling columns, and an embedding, for the model only."""
    if name != MODEL_NAME:
        return None
    rounds = None
    if hasattr(fitted, "round_proba"):
        population = None
        if shares is not None:
            at = np.flatnonzero(fold.codes < 0)
            weight = np.ones(len(at)) if fold.weight is None else fold.weight[at]
            population = Population(shares, take(fold.X, at), weight)
        rounds = by_round(fitted, fold.X_test, population)
    permuted = None
    if repeats:
        permuted = shuffle_in_fold(fitted, fold.encoder, fold.test_rows, columns, fold, repeats, seed)
    if fold.number > 0:
        return rounds, permuted, None
    test = dealt.tests[0]
    return rounds, permuted, embed(fitted, fold, np.setdiff1d(dealt.rows, test), test, seed)


def _evaluation(fits: OutOfFold, estimator: Any, shares: Array | None, baselines: bool) -> Evaluation:
    codes = fits.codes
    p = {name: fits.p[name] for name in (MODEL_NAME, *BASELINE_METHODS, "majority", START_KEY) if name in fits.p}
    weight, weighted, by_shares = held_out_weights(codes, fits.weight, shares)
    each_fold = [extra[MODEL_NAME] for extra in fits.extras]
    has_rounds, w = each_fold[0][0] is not None, np.ones(len(codes)) if weight is None else weight
    calibrate = bool(getattr(estimator, "calibrate", False))
    if calibrate:
        parts = [p[MODEL_NAME][fits.fold == k] for k in range(len(each_fold))]
        raw = [rounds[1][-1] for rounds, *_ in each_fold] if has_rounds else [RawProbabilities(part) for part in parts]
        p[MODEL_NAME] = tempered(p[MODEL_NAME], codes, raw, w)
    networks = averages = None
    if has_rounds:
        # With known shares, calibration can change the predicted class, so rounds are calibrated like the model.
        how = (codes, w) if calibrate and shares is not None else None
        networks, averages = (_rounds([rounds[kind] for rounds, *_ in each_fold], how) for kind in (0, 1))
        if baselines:
            p[START_KEY] = networks[0]
    permuted = [permuted for _, permuted, _ in each_fold if permuted is not None]
    return Evaluation(
        rows=fits.rows,
        codes=codes,
        weight=weight,
        p=p,
        networks=networks,
        averages=averages,
        curve=_curve(fits, p),
        permuted=join(permuted) if permuted else None,
        embedded=each_fold[0][2],
        n_folds=len(fits.folds.tests),
        n_training=round(float(fits.n_training.mean())),
        weighted=weighted,
        population="given" if by_shares else "labels",
        notes=fits.folds.notes,
    )


def _rounds(folds: list[list[RawProbabilities]], calibrate: tuple[Array, Array] | None) -> Array:
    """Return the probabilities of every round, (rounds + 1, m, c), calibrated if (codes, weights) are given."""
    rounds = []
    for raw in zip(*folds, strict=False):  # rounds may end early
        p = np.concatenate([part.adjusted() for part in raw])
        rounds.append(p if calibrate is None else tempered(p, calibrate[0], list(raw), calibrate[1]))
    return np.stack(rounds)


def _curve(fits: OutOfFold, p: dict[str, Array]) -> list[dict[str, Any]]:
    """Return the points of the learning curve, the one with all labels last."""
    points: list[dict[str, Any]] = []
    for part in CURVE_SHARES:
        names = {name: _with_fewer_labels(name, part) for name in (MODEL_NAME, BASELINE_METHODS[0])}
        right = {n: fits.p[key].argmax(axis=1) == fits.codes for n, key in names.items() if key in fits.p}
        if right:
            points.append({"labels": round(float(np.round(part * fits.n_training).mean())), "right": right})
    if points:
        whole = {name: p[name].argmax(axis=1) == fits.codes for name in points[0]["right"]}
        points.append({"labels": round(float(fits.n_training.mean())), "right": whole})
    return points
