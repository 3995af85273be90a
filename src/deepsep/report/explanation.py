"""Explain a model: which columns drive each class, and a few rules that describe it."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepsep.classifiers.committee.committee import Committee
from deepsep.core.arrays import Array
from deepsep.core.labels import Labels, as_labels, codes_of
from deepsep.core.model_parts import estimator_of
from deepsep.errors import DataError
from deepsep.evaluation.frames import column_names, in_batches, take
from deepsep.evaluation.importance import Permuted, permute
from deepsep.evaluation.intervals import NORMAL_QUANTILE
from deepsep.evaluation.population import read_weights
from deepsep.report.committee_held_out import shuffle_columns
from deepsep.report.held_out import OnStep, evaluate_model
from deepsep.report.readable import features_of, imitate
from deepsep.report.wording import join_words, percent, with_span

COLUMNS_PER_CLASS = 5  # in the text
NO_RULE = "No rule of the tree leads to this class: it takes more than a few conditions to separate it."


def explain(
    model: Any,
    table: Any,
    labels: Any,
    *,
    held_out: bool = True,
    depth: int = 4,
    repeats: int = 5,
    seed: int = 0,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """Measure which columns drive each class, and describe each class with a few rules.

    Parameters
    ----------
    model, table, labels, sample_weight
        As in :func:`deepsep.report.summarize`.
    held_out : bool, default=True
        Whether to measure importance on held-out labelled rows. This refits the model for each fold or, for a
        committee, a random forest in its place. False uses the model as it is; the importances are then too large.
    depth : int, default=4
        Depth of the tree: the most conditions in a rule.
    repeats : int, default=5
        How often each column is shuffled.
    seed : int, default=0
        Seed of the folds, of the shuffling and of the rows held out of the tree.
    n_jobs : int, optional
        Number of folds to fit in parallel.
    on_step : callable, optional
        Called with (done, total, what comes next).

    Returns
    -------
    dict
        Plain values. ``importance``: ``columns`` with the increase in log loss when the column is shuffled, its 90 %
        interval and the loss of accuracy, and ``classes`` with the increase in the log loss of each class against the
        rest. ``tree``: the ``fidelity`` of the tree and the ``rules`` of each class. For a text, see
        :func:`explanation_text`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from deepsep import TSVM, for_table
    >>> from deepsep.report.explanation import explain
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.integers(18, 90, 300), "shoe": rng.integers(36, 46, 300)})
    >>> segment = np.where(table.age < 50, "young", "old").astype(object)
    >>> segment[60:] = None
    >>> model = for_table(TSVM()).fit(table, segment)
    >>> result = explain(model, table, segment, held_out=False, depth=1)
    >>> result["importance"]["columns"][0]["column"]
    'age'
    >>> result["tree"]["classes"][1]["rules"][0]["conditions"]
    ['age at most 53']
    """
    known = as_labels(labels)
    if len(table) != len(known.codes):
        raise DataError(f"the table has {len(table)} rows and there are {len(known.codes)} labels; they must match.")
    order, by_forest = order_of(model, known), held_out and isinstance(estimator_of(model), Committee)
    measured: Permuted | str | None = None  # a text says why it could not be measured
    weight = read_weights(sample_weight, known)
    if by_forest:
        measured = shuffle_columns(model, table, known, repeats, seed, weight, n_jobs)
    elif held_out:
        how_often: Any = {"repeats": repeats, "seed": seed, "n_jobs": n_jobs, "on_step": on_step}
        evaluation = evaluate_model(model, table, known, sample_weight=weight, baselines=False, **how_often)
        measured = evaluation if isinstance(evaluation, str) else evaluation.permuted
    note = measured if isinstance(measured, str) else None
    if not isinstance(measured, Permuted):
        rows, rng, held_out, by_forest = np.flatnonzero(known.labeled), np.random.default_rng(seed), False, False
        ask = lambda some: model.predict_proba(some)[:, order]  # noqa: E731
        measured = permute(ask, take(table, rows), known.codes[rows], repeats, rng)
    classes = [str(name) for name in known.classes]
    result = {
        "classes": classes,
        "importance": importance(measured, column_names(table), classes, held_out=held_out, by_forest=by_forest),
        "tree": tree(model, table, classes, depth=depth, seed=seed, order=order),
    }
    if note is not None:
        result["note"] = note
    return result


def importance(
    permuted: Permuted, columns: list[str], classes: list[str], *, held_out: bool, by_forest: bool = False
) -> dict[str, Any]:
    """Return the columns by importance, the most important first, over all classes and for each class.

    ``by_forest``: it was measured on a random forest with the same labels, in place of a committee.
    """
    n = permuted.loss.shape[1]
    overall = _ranked(permuted.loss, columns)
    lost = dict(zip(columns, permuted.accuracy.mean(axis=1), strict=True))
    return {
        "held_out": held_out,
        "by_forest": by_forest,
        "rows": n,
        "columns": [{**line, "accuracy": float(lost[line["column"]])} for line in overall],
        "classes": [
            {"class": name, "columns": _ranked(permuted.per_class[:, :, k], columns)[: 2 * COLUMNS_PER_CLASS]}
            for k, name in enumerate(classes)
        ],
    }


def _ranked(rise: Array, columns: list[str]) -> list[dict[str, Any]]:
    mean = rise.mean(axis=1)
    half = (
        NORMAL_QUANTILE * rise.std(axis=1, ddof=1) / np.sqrt(rise.shape[1])
        if rise.shape[1] > 1
        else np.full(len(mean), np.inf)
    )
    return [
        {
            "column": columns[j],
            "loss": float(mean[j]),
            "interval": [float(mean[j] - half[j]), float(mean[j] + half[j])],
            "clear": bool(mean[j] - half[j] > 0),
        }
        for j in np.argsort(-mean, kind="stable")
        if mean[j] != 0
    ]


def tree(
    model: Any,
    table: Any,
    classes: list[str],
    *,
    proba: Any = None,
    depth: int = 4,
    seed: int = 0,
    order: Any = slice(None),
    max_rows: int = 20_000,
) -> dict[str, Any]:
    """Return a shallow tree that imitates the model on a sample of rows; ``proba`` are its probabilities, if known.

    ``order`` has the places of the classes among those of the model.
    """
    if len(table) > max_rows:
        rows = np.sort(np.random.default_rng(seed).choice(len(table), max_rows, replace=False))
        table, proba = take(table, rows), None if proba is None else np.asarray(proba)[rows]
    p = in_batches(model.predict_proba, table) if proba is None else np.asarray(proba)
    return imitate(features_of(model, table), p[:, order].argmax(axis=1), classes, depth, seed)


def order_of(model: Any, labels: Labels) -> Any:
    """Return the places of the labels' classes among the model's, which are no longer sorted once it is renamed."""
    own = np.asarray(getattr(model, "classes_", labels.classes))
    same = own.dtype.kind == labels.classes.dtype.kind and set(own.tolist()) == set(labels.classes.tolist())
    return codes_of(own, labels.classes) if same else slice(None)


def explanation_text(explanation: dict[str, Any], n_columns: int = 12) -> str:
    """Return the result of :func:`explain` as text for a terminal."""
    importances, rules = explanation["importance"], explanation["tree"]
    lines = [f"What the model looks at ({how(importances)})", ""]
    shown = [line for line in importances["columns"] if line["clear"]][:n_columns]
    width = max((len(line["column"]) for line in shown), default=0)
    lines += [
        f"  {line['column']:<{width}}  log loss +{line['loss']:.3f}, accuracy {-100 * line['accuracy']:+.1f} points"
        for line in shown
    ] or ["  No single column matters clearly with these labels."]
    lines += ["", fidelity_sentence(rules)]
    for driven, described in zip(importances["classes"], rules["classes"], strict=True):
        names = [line["column"] for line in driven["columns"] if line["clear"]][:COLUMNS_PER_CLASS]
        lines += ["", f"{driven['class']} ({described['rows']:,} rows)"]
        lines.append("  driven by " + (join_words(names) if names else "no single column that stands out"))
        lines += [f"  - {conditions(rule)}: {reach(rule)}" for rule in described["rules"]] or [f"  - {NO_RULE}"]
    return "\n".join([*lines, ""])


def how(importances: dict[str, Any]) -> str:
    """Return a phrase on how the importance was measured."""
    rows = f"{importances['rows']:,} labelled rows"
    if importances["by_forest"]:
        return f"by a random forest in the committee's place, on {rows}, held out"
    return f"on {rows}, held out" if importances["held_out"] else f"on the {rows} that the model was trained on"


def fidelity_sentence(rules: dict[str, Any]) -> str:
    """Return a sentence on how well the rules describe the model."""
    value = rules["fidelity"]
    trust = (
        "They describe most of what it does."
        if value >= 0.8
        else "They are a rough sketch: the model uses more than the rules show."
    )
    return (
        f"The rules agree with the model on {with_span(value, rules['interval'])} of {rules['rows']:,} rows "
        f"that the tree was not trained on; always predicting the most frequent class would agree on "
        f"{percent(rules['largest'])}. {trust}"
    )


def conditions(rule: dict[str, Any]) -> str:
    """Return the conditions of a rule."""
    return "; ".join(rule["conditions"]) or "every row"


def reach(rule: dict[str, Any]) -> str:
    """Return a phrase on the rows that meet a rule."""
    here, covered = percent(rule["agreement"]), percent(rule["coverage"])
    return f"{here} of such rows belong here; covers {covered} of the segment"
