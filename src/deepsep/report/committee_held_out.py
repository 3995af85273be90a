"""Evaluate a committee on the out-of-fold predictions that its weights come from. Only a forest is fitted again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from deepsep.classifiers.building import method
from deepsep.classifiers.catalogue import record_of, title_of
from deepsep.classifiers.committee.committee import Committee
from deepsep.classifiers.committee.fits import twin_of
from deepsep.classifiers.committee.members import COMMITTEE
from deepsep.core.arrays import Array
from deepsep.core.labels import Labels
from deepsep.core.model_parts import split_model
from deepsep.errors import LabelError
from deepsep.evaluation.folds import Folds, deal_folds
from deepsep.evaluation.frames import column_names, take
from deepsep.evaluation.importance import Permuted, join, permute
from deepsep.evaluation.intervals import paired_difference
from deepsep.evaluation.out_of_fold import MODEL_NAME, Candidate, Fold, FoldFits, OutOfFold
from deepsep.report.wording import join_words, with_article
from deepsep.table.pipeline import source_columns

FOREST_TREES = 200  # of the forest whose columns are shuffled, and of each baseline


def is_fitted_to(estimator: Any, labels: Labels) -> bool:
    """Return whether an estimator is a committee that was fitted to rows with these labels."""
    if not isinstance(estimator, Committee) or not hasattr(estimator, "members_"):
        return False
    if len(estimator.transduction_) != len(labels.codes) or not np.array_equal(estimator.classes_, labels.classes):
        return False
    at = labels.labeled
    return np.array_equal(estimator.transduction_[at], labels.classes[labels.codes[at]])


def predictions(committee: Committee, labels: Labels, held_out: OutOfFold, weight: Array | None) -> dict[str, Array]:
    """Return the probabilities of the rows of the first repeat by the committee, its members, and guessing.

    If the committee was fitted with ``twins``, the one without unlabelled rows is included.
    """
    first = {name: held_out.by_repeat(p)[0] for name, p in held_out.p.items()}
    p = {MODEL_NAME: first[COMMITTEE]}
    if twin_of(COMMITTEE) in first:
        p["start"] = first[twin_of(COMMITTEE)]
    p |= {name: first[name] for name in committee.members_}
    fair = committee.label_origins_.fair
    return p | {"majority": guess(labels, held_out.folds, weight, fair, committee.population_shares_)}


def guess(labels: Labels, folds: Folds, weight: Array | None, fair: Array, shares: Array | None) -> Array:
    """Return the shares of the classes in the population, or among the other fair labels, for each row held out."""
    w = np.ones(len(labels.codes)) if weight is None else weight
    at, guesses = np.flatnonzero(labels.labeled & fair), []
    for test in folds.tests[: folds.n_splits]:
        train = np.setdiff1d(at, test)
        counts = np.bincount(labels.codes[train], w[train], len(labels.classes)) if shares is None else shares
        guesses.append(np.tile(counts / counts.sum(), (len(test), 1)))
    return np.concatenate(guesses)


def members(committee: Committee) -> dict[str, Any]:
    """Return the weight of each member, its gain from the unlabelled rows, and a sentence on those that matter most."""
    names = member_titles(committee)
    lines = [
        {"key": name, "name": names[name], "weight": weight, "unlabelled_rows": gain_from_unlabeled(committee, name)}
        for name, weight in committee.weights_.items()
    ]
    return {
        "lines": lines,
        "left_out": dict(committee.failures_),
        "temperature": committee.temperature_,
        "sentence": _rests_on(lines),
    }


def gain_from_unlabeled(committee: Committee, name: str = COMMITTEE) -> dict[str, Any] | None:
    """Return the lead in accuracy of a member, or of the committee, over its twin; None if it has none.

    Held-out rows are weighted to the shares of the classes in the population, since a model that reads those shares off
    the unlabelled rows would look worse on labels that fill quotas.
    """
    held_out, weight = committee.out_of_fold_, committee.held_out_weight_
    if held_out is None or weight is None or twin_of(name) not in held_out.p:
        return None
    at = slice(0, len(held_out.rows) // held_out.folds.n_repeats)
    right, other = (held_out.p[each][at].argmax(axis=1) == held_out.codes[at] for each in (name, twin_of(name)))
    return paired_difference(right, other, weight[at])


def member_titles(committee: Committee) -> dict[str, str]:
    """Return the names of the members for sentences: the method, and the variant if the member's name has one."""
    titles = {}
    for name, member in committee.members_.items():
        record = record_of(member)
        variant = name if record is None else name.removeprefix(record.name).strip("-")
        titles[name] = title_of(member) + (f" ({variant})" if variant else "")
    return titles


def _rests_on(lines: Sequence[dict[str, Any]], most: float = 0.6) -> str:
    """Return a sentence on the members that together have most of the weight."""
    ordered = sorted(lines, key=lambda line: -line["weight"])
    if len(ordered) == 1:
        return f"The answer rests on {with_article(ordered[0]['name'])} alone."
    if ordered[0]["weight"] < 1.5 * ordered[-1]["weight"]:
        return f"The answer rests on all {len(ordered)} members about equally."
    some, total = [], 0.0
    for line in ordered:
        some.append(f"{with_article(line['name'])} ({line['weight']:.2f})")
        total += line["weight"]
        if total >= most:
            break
    return f"The answer rests mostly on {join_words(some)}."


def shuffle_columns(
    model: Any, table: Any, labels: Labels, repeats: int, seed: int, sample_weight: Array | None, n_jobs: int | None
) -> Permuted | str:
    """Return the effect of shuffling each column on a random forest in five folds, or why there is none.

    Shuffling each column for all members would take longer than fitting them. The forest reads the labelled rows as
    the model encodes them.
    """
    encoder, _ = split_model(model)
    rows = np.flatnonzero(labels.labeled)
    known, weight = Labels(labels.codes[rows], labels.classes), None if sample_weight is None else sample_weight[rows]
    try:
        dealt = deal_folds(known, n_splits=5, seed=seed, weight=weight)
    except LabelError as error:
        return str(error)
    given = take(table, rows)
    look = partial(_shuffle, encoder, given, dealt, repeats, seed)
    forest = method("random-forest", n_estimators=FOREST_TREES, random_state=seed)
    X = given if encoder is None else encoder.transform(given)
    fits = FoldFits({"forest": Candidate(forest)}, X, known, dealt, weight, after_fit=look).fit(n_jobs)
    return join([extra["forest"] for extra in fits.extras])


def _shuffle(
    encoder: Any, given: Any, dealt: Folds, repeats: int, seed: int, name: str, fitted: Any, fold: Fold
) -> Permuted:
    rows = take(given, dealt.tests[fold.number])
    return shuffle_in_fold(fitted, encoder, rows, column_names(given), fold, repeats, seed)


def shuffle_in_fold(
    fitted: Any, encoder: Any, rows: Any, columns: Sequence[str], fold: Fold, repeats: int, seed: int
) -> Permuted:
    """Return the effect of shuffling each column of the rows that a fold holds out."""
    rng = np.random.default_rng([seed, fold.number])
    groups = None if encoder is None else source_columns(encoder, columns)
    if encoder is None or groups is not None:
        return permute(fitted.predict_proba, fold.X_test, fold.test_codes, repeats, rng, groups)
    ask = lambda some: fitted.predict_proba(encoder.transform(some))  # noqa: E731
    return permute(ask, rows, fold.test_codes, repeats, rng)
