"""A shallow decision tree that imitates a model, and its rules as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.evaluation.intervals import wilson
from deepsep.report.readable import Feature
from deepsep.report.wording import number

Array = NDArray[Any]

MAX_TREE_ROWS = 20_000


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
    parents = {int(child): node for node in range(tree.node_count) for child in _children(tree, node)}
    bounds: dict[int, _Bounds] = {}
    node = leaf
    while node in parents:
        child, node = node, parents[node]
        left = child == tree.children_left[node]
        own = bounds.setdefault(int(tree.feature[node]), _Bounds())
        threshold = float(tree.threshold[node])
        if left:
            own.high = min(own.high, threshold)
        else:
            own.low = max(own.low, threshold)
        own.missing &= bool(tree.missing_go_to_left[node]) == left
    settled = {features[i].column for i, own in bounds.items() if features[i].kind == "level" and own.low > 0}
    words = []
    for i, own in sorted(bounds.items()):
        # "colour is red" makes "colour is not blue" redundant.
        if features[i].kind == "level" and own.low < 0 and features[i].column in settled:
            continue
        words.append(_in_words(features[i], own))
    return words


def _children(tree: Any, node: int) -> list[int]:
    return [child for child in (tree.children_left[node], tree.children_right[node]) if child >= 0]


def _in_words(feature: Feature, bounds: _Bounds) -> str:
    name = feature.column
    if feature.kind == "level":
        if feature.level == "missing":
            return f"{name} is missing" if bounds.low > 0 else f"{name} is given"
        return f"{name} is {feature.level}" if bounds.low > 0 else f"{name} is not {feature.level}"
    known = feature.values[~np.isnan(feature.values)]
    whole = feature.kind == "number" and bool((known == np.round(known)).all())
    low, high = bounds.low, bounds.high
    if feature.kind == "date":
        parts = [f"from {feature.text(low)}"] * math.isfinite(low) + [f"before {feature.text(high)}"] * math.isfinite(
            high
        )
    elif whole:
        first, last = (end if math.isinf(end) else math.floor(end) for end in (low, high))
        first += 1
        parts = [f"{number(first, 4)} or more"] * math.isfinite(first) + [f"at most {number(last, 4)}"] * math.isfinite(
            last
        )
        if math.isfinite(first) and math.isfinite(last):
            parts = [number(first, 4) if first == last else f"{number(first, 4)} to {number(last, 4)}"]
    else:
        parts = [f"above {number(low, 4)}"] * math.isfinite(low) + [f"at most {number(high, 4)}"] * math.isfinite(high)
    missing = " or missing" if bounds.missing and len(known) < len(feature.values) else ""
    return f"{name} {' and '.join(parts)}{missing}"
