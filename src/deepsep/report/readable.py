"""The columns of a model as readable features, and the classes described by them: profiles, and the rules of a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from deepsep.core.arrays import Array
from deepsep.core.column_kinds import ColumnType, seconds_of
from deepsep.core.model_parts import first_step
from deepsep.evaluation.intervals import wilson
from deepsep.report.wording import number, percent
from deepsep.table.columns import UsefulColumns, as_frame, decide, for_encoders

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Feature:
    """One property of the rows."""

    column: str  # the column of the user's table
    level: str | None  # the category, for a yes-or-no feature; None for a number or a date
    kind: Literal["number", "date", "level"]
    values: Array  # (n,), numbers, NaN where missing; days since 1970 for dates; 1 or 0 for categories

    @property
    def name(self) -> str:
        """The feature in words."""
        return self.column if self.level is None else f"{self.column} = {self.level}"

    def text(self, value: float | None) -> str:
        """Return a value, or a mean of values, in words."""
        if value is None or not np.isfinite(value):
            return "–"
        if self.kind == "level":
            return percent(value)
        if self.kind == "date":
            return str(np.datetime64(int(value * SECONDS_PER_DAY), "s").astype("datetime64[D]"))
        return number(value)


def typed_columns(model: Any, table: Any) -> tuple[pd.DataFrame, dict[str, ColumnType], dict[str, str]]:
    """Return the columns that a model uses, converted to their types; the types; and why other columns are left out."""
    first = first_step(model)
    if isinstance(first, UsefulColumns):
        return first.transform(table), first.schema_, first.left_out_
    frame = as_frame(table)
    decided = {name: decide(frame[name]) for name in frame.columns}
    kinds = {name: each.kind for name, each in decided.items() if each.kind is not None}
    return pd.DataFrame({name: for_encoders(decided[name].cells, kind) for name, kind in kinds.items()}), kinds, {}


def features_of(model: Any, table: Any) -> list[Feature]:
    """Return the features of the columns that a model uses."""
    columns, kinds, _ = typed_columns(model, table)
    return [feature for name, kind in kinds.items() for feature in _of_column(name, columns[name], kind)]


def _of_column(
    name: str, column: pd.Series[Any], kind: ColumnType, max_levels: int = 30, least_share: float = 0.01
) -> list[Feature]:
    """Return the features of a column; a category, or its gaps, are one if enough of the rows have it."""
    missing = column.isna().to_numpy()
    if kind == "boolean":
        own = [Feature(name, "yes", "level", (column == "true").to_numpy(float))]
    elif kind == "date":
        own = [Feature(name, None, "date", np.floor(seconds_of(column)) / SECONDS_PER_DAY)]
    elif kind == "number":
        largest = float(np.finfo(np.float32).max)  # trees compute in single precision
        values = np.clip(column.to_numpy(float), -largest, largest)
        binary = np.isin(values[~missing], (0, 1)).all() and not missing.all()
        own = [Feature(name, "1", "level", np.nan_to_num(values)) if binary else Feature(name, None, "number", values)]
    else:
        text = column.to_numpy(object)
        levels, counts = np.unique(text[~missing].astype(str), return_counts=True)
        often = np.argsort(-counts, kind="stable")[:max_levels]
        chosen = levels[often][counts[often] >= least_share * len(text)]
        own = [Feature(name, str(level), "level", (text == level).astype(float)) for level in chosen]
    if least_share <= missing.mean() < 1:
        own.append(Feature(name, "missing", "level", missing.astype(float)))
    return own


def profiles(features: list[Feature], codes: Array, classes: list[str]) -> list[dict[str, Any]]:
    """Return for each class the features in which it differs most from all rows, in standard deviations."""
    values = np.stack([feature.values for feature in features]) if features else np.empty((0, len(codes)))
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    mean = ratio(filled.sum(axis=1), known.sum(axis=1))
    spread = np.sqrt(ratio((np.where(known, values - mean[:, None], 0.0) ** 2).sum(axis=1), known.sum(axis=1)))
    result = []
    for k, name in enumerate(classes):
        own = codes == k
        inside = ratio(filled[:, own].sum(axis=1), known[:, own].sum(axis=1))
        size = ratio(inside - mean, spread)
        result.append(
            {
                "class": name,
                "rows": int(own.sum()),
                "share": float(own.mean()),
                "features": _largest_differences(features, inside, mean, size) if own.any() else [],
            }
        )
    return result


def _largest_differences(
    features: list[Feature],
    inside: Array,
    everyone: Array,
    size: Array,
    n_lines: int = 6,
    least: float = 0.1,
    max_per_column: int = 2,
) -> list[dict[str, Any]]:
    """Return the features that differ most, by at least ``least`` standard deviations; at most two of a column."""
    lines: list[dict[str, Any]] = []
    used: dict[str, int] = {}
    for i in np.argsort(-np.abs(np.nan_to_num(size)), kind="stable"):
        feature = features[i]
        if len(lines) == n_lines or not abs(size[i]) >= least:
            break
        # Columns that are missing together, such as those of one examination, would fill the list.
        group = "missing" if feature.level == "missing" else f"column {feature.column}"
        used[group] = used.get(group, 0) + 1
        if used[group] > max_per_column:
            continue
        lines.append(
            {
                "feature": feature.name,
                "column": feature.column,
                "level": feature.level,
                "kind": feature.kind,
                "value": float(inside[i]),
                "everyone": float(everyone[i]),
                "value_text": feature.text(inside[i]),
                "everyone_text": feature.text(everyone[i]),
                "lift": float(inside[i] / everyone[i]) if feature.kind == "level" and everyone[i] > 0 else None,
                "difference": float(size[i]),
            }
        )
    return lines


def ratio(a: Array, b: Array) -> Array:
    """Return a / b, NaN where b is not above 0."""
    return np.asarray(np.divide(a, b, out=np.full(np.shape(a), np.nan), where=np.asarray(b) > 0))


@dataclass
class _Bounds:
    """The range of one feature along a path through the tree."""

    low: float = -math.inf
    high: float = math.inf
    missing: bool = True  # whether rows with a missing value follow the path


def imitate(features: list[Feature], codes: Array, classes: list[str], depth: int, seed: int) -> dict[str, Any]:
    """Fit a shallow tree to the predictions of a model; return its rules and how often it agrees with the model.

    Returns
    -------
    dict
        ``fidelity``: the share of held-out rows on which tree and model agree, ``interval``, ``rows``; ``largest``: the
        same for the most frequent class alone; ``classes``: for each class its rules.
    """
    from sklearn.tree import DecisionTreeClassifier

    # A table without usable features, such as one of free text, gives a tree of one leaf.
    parts = [feature.values for feature in features] or [np.zeros(len(codes))]
    X = np.stack(parts, axis=1).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(codes))
    held = max(1, round(0.3 * len(codes)))
    test, train = order[:held], order[held:]
    leaf = max(5, round(0.01 * len(train)))
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=leaf, random_state=seed).fit(X[train], codes[train])
    agrees = tree.predict(X[test]) == codes[test]
    return {
        "depth": int(tree.get_depth()),
        "fidelity": float(agrees.mean()),
        "interval": wilson(int(agrees.sum()), len(test)),
        "rows": len(test),
        "largest": float((codes[test] == np.bincount(codes[train]).argmax()).mean()),
        "classes": _rules(tree, features, X, codes, classes),
    }


def _rules(tree: Any, features: list[Feature], X: Array, codes: Array, classes: list[str]) -> list[dict[str, Any]]:
    """Return the leaves as rules of the class that they predict: the three that cover most of it."""
    at, predicted = tree.apply(X), tree.predict(X)
    result = []
    for k, name in enumerate(classes):
        own = codes == k
        leaves, counts = np.unique(at[predicted == k], return_counts=True)
        rules: list[dict[str, Any]] = []
        for leaf, count in zip(leaves, counts, strict=True):
            here = at == leaf
            rules.append(
                {
                    "conditions": _conditions(tree.tree_, int(leaf), features),
                    "rows": int(count),
                    "agreement": float(own[here].mean()),
                    "coverage": float((own & here).sum() / max(own.sum(), 1)),
                }
            )
        rules = sorted((rule for rule in rules if rule["coverage"] >= 0.05), key=lambda rule: -rule["coverage"])
        result.append({"class": name, "rows": int(own.sum()), "rules": rules[:3]})
    return result


def _conditions(tree: Any, leaf: int, features: list[Feature]) -> list[str]:
    """Return the conditions that lead to a leaf as text, one per feature."""
    both_sides = (tree.children_left, tree.children_right)
    parents = {int(child): node for children in both_sides for node, child in enumerate(children) if child >= 0}
    bounds: dict[int, _Bounds] = {}
    node = leaf
    while node in parents:
        child, node = node, parents[node]
        left, threshold = child == tree.children_left[node], float(tree.threshold[node])
        own = bounds.setdefault(int(tree.feature[node]), _Bounds())
        if left:
            own.high = min(own.high, threshold)
        else:
            own.low = max(own.low, threshold)
        own.missing &= bool(tree.missing_go_to_left[node]) == left
    settled = {features[i].column for i, own in bounds.items() if features[i].kind == "level" and own.low > 0}
    return [
        _in_words(features[i], own)
        for i, own in sorted(bounds.items())
        # "colour is red" makes "colour is not blue" redundant.
        if not (features[i].kind == "level" and own.low < 0 and features[i].column in settled)
    ]


def _in_words(feature: Feature, bounds: _Bounds) -> str:
    name = feature.column
    if feature.kind == "level":
        if feature.level == "missing":
            return f"{name} is missing" if bounds.low > 0 else f"{name} is given"
        return f"{name} is {feature.level}" if bounds.low > 0 else f"{name} is not {feature.level}"
    known = feature.values[~np.isnan(feature.values)]
    whole = feature.kind == "number" and bool((known == np.round(known)).all())
    low, high = bounds.low, bounds.high
    if whole and math.isfinite(low) and math.isfinite(high):
        first, last = math.floor(low) + 1, math.floor(high)
        parts = [number(first, 4) if first == last else f"{number(first, 4)} to {number(last, 4)}"]
    else:
        above, below = f"above {number(low, 4)}", f"at most {number(high, 4)}"
        if feature.kind == "date":
            above, below = f"from {feature.text(low)}", f"before {feature.text(high)}"
        elif whole and math.isfinite(low):
            above = f"{number(math.floor(low) + 1, 4)} or more"
        elif whole:
            below = f"at most {number(math.floor(high), 4)}"
        parts = [words for end, words in ((low, above), (high, below)) if math.isfinite(end)]
    missing = " or missing" if bounds.missing and len(known) < len(feature.values) else ""
    return f"{name} {' and '.join(parts)}{missing}"
