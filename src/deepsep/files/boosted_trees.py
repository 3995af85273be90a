"""Trees as arrays whose indices are checked, and the boosted trees of LightGBM and XGBoost.

Compiled code follows the indices in a tree without checking them. So a saved model never has a library's own format. It
has numbers, which are checked, and from which the text of LightGBM or XGBoost is written again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from deepsep.core.arrays import Array, checked_array
from deepsep.errors import ModelFileError

Parts = tuple[dict[str, Any], dict[str, Array]]


class Trees(NamedTuple):
    """Several binary trees, one after the other.

    Children are indices within their own tree; a leaf has -1 for both.
    """

    size: Array  # (trees,): the number of nodes of each
    left: Array  # (nodes,)
    right: Array  # (nodes,)
    feature: Array  # (nodes,): used at inner nodes only

    def check(self, n_features: int) -> Array:
        """Return the depth of each tree, or raise unless every one is a tree and uses existing features."""
        n = len(self.left)
        if (self.size < 1).any() or self.size.sum() != n:
            raise ValueError("the sizes of the trees do not add up")
        ends = np.cumsum(self.size)
        roots = ends - self.size
        first, end = np.repeat(roots, self.size), np.repeat(ends, self.size)
        inner = np.flatnonzero(self.left != -1)
        if (self.right[self.left == -1] != -1).any():
            raise ValueError("a leaf of a tree points to a node")
        limit = end[inner] - first[inner]
        for child in (self.left[inner], self.right[inner]):
            if ((child <= 0) | (child >= limit)).any():
                raise ValueError("a tree points to a node that does not exist")
        left, right = self.left + first, self.right + first
        parents = np.bincount(np.concatenate([left[inner], right[inner]]), minlength=n)
        parents[roots] += 1
        if (parents != 1).any():
            raise ValueError("a tree points to a node twice, or to none")
        feature = self.feature[inner]
        if ((feature < 0) | (feature >= n_features)).any():
            raise ValueError(f"a tree uses a feature beyond the {n_features} that exist")
        return self._depth(left, right, roots)

    def _depth(self, left: Array, right: Array, roots: Array) -> Array:
        """Return the depth of each tree, or raise if some nodes cannot be reached from a root, as in a cycle."""
        tree = np.repeat(np.arange(len(self.size)), self.size)
        depth = np.zeros(len(self.size), np.int64)
        level, reached, below = roots, len(roots), 0
        while level.size:
            level = level[self.left[level] != -1]
            level = np.concatenate([left[level], right[level]])
            below += 1
            depth[tree[level]] = below
            reached += len(level)
        if reached != len(self.left):
            raise ValueError("a tree has nodes that cannot be reached")
        return depth


# -- LightGBM ------------------------------------------------------------------------------------------------

# Fields of a tree in LightGBM's text; the letter is the type of their numbers.
INNER_FIELDS = {
    **{"split_feature": "i", "split_gain": "f", "threshold": "f", "decision_type": "i", "left_child": "i"},
    **{"right_child": "i", "internal_value": "f", "internal_weight": "f", "internal_count": "i"},
}
LEAF_FIELDS = {"leaf_value": "f", "leaf_weight": "f", "leaf_count": "i"}
LIGHTGBM_OBJECTIVES = ("binary", "multiclass", "multiclassova")


def take_lightgbm(classifier: Any) -> Parts:
    """Return the values and arrays of a fitted LGBMClassifier."""
    head, *blocks = classifier.booster_.model_to_string(num_iteration=-1).partition("\nend of trees")[0].split("Tree=")
    header = _fields(head)
    objective, *settings = header["objective"].split()
    sigmoid = [float(word.removeprefix("sigmoid:")) for word in settings if word.startswith("sigmoid:")]
    trees = [_fields(block) for block in blocks]
    odd = any(int(tree["num_cat"]) or int(tree.get("is_linear", 0)) for tree in trees)
    if objective not in LIGHTGBM_OBJECTIVES or odd:
        raise ModelFileError(
            f"LGBMClassifier cannot be saved with objective {objective!r}, categorical splits or linear trees. Fit "
            f"with one of the objectives {', '.join(LIGHTGBM_OBJECTIVES)} and constant leaves."
        )
    values = {"objective": objective, "sigmoid": (sigmoid or [1.0])[0], "average": "average_output" in head.split()}
    split = [tree for tree in trees if tree["num_leaves"] != "1"]
    arrays = {
        name: np.array(
            [word for tree in (trees if name in LEAF_FIELDS else split) for word in tree.get(name, "").split()],
            dtype=np.float64 if kind == "f" else np.int64,
        )
        for name, kind in (INNER_FIELDS | LEAF_FIELDS).items()
    }
    arrays["num_leaves"] = np.array([tree["num_leaves"] for tree in trees], dtype=np.int64)
    arrays["shrinkage"] = np.array([tree["shrinkage"] for tree in trees], dtype=np.float64)
    if len(arrays["leaf_weight"]) != len(arrays["leaf_value"]):  # a tree of one leaf has no weight and no count
        for name in ("leaf_weight", "leaf_count"):
            del arrays[name]
    return values, arrays


def put_lightgbm(values: Mapping[str, Any], arrays: Mapping[str, Any], new: Any, d: int, c: int) -> Any:
    """Return the unfitted LGBMClassifier fitted with the trees, or raise if they are not what LightGBM can follow."""
    text = _lightgbm_text(values, arrays, d, c)
    booster = import_module("lightgbm").Booster(model_str=text)
    # The wrapper offers no way to set a booster; these are the attributes that its fit sets.
    vars(new).update(
        _Booster=booster,
        _n_features=d,
        _n_features_in=d,
        _classes=np.arange(c),
        _n_classes=c,
        _objective=values["objective"],
        _best_iteration=0,
        _le=import_module("sklearn.preprocessing").LabelEncoder().fit(np.arange(c)),
        fitted_=True,
    )
    return new


def _lightgbm_text(values: Mapping[str, Any], arrays: Mapping[str, Any], d: int, c: int) -> str:
    """Return LightGBM's text of checked trees."""
    leaves = checked_array(arrays, "num_leaves", (None,), "i")
    inner, per_round = leaves - 1, 1 if c == 2 else c
    if (leaves < 1).any() or len(leaves) % per_round:
        raise ValueError("a tree has no leaf, or a round too few trees")
    fields = {
        name: (checked_array(arrays, name, (int(inner.sum()),), kind), inner) for name, kind in INNER_FIELDS.items()
    }
    fields |= {
        name: (checked_array(arrays, name, (int(leaves.sum()),), kind), leaves)
        for name, kind in LEAF_FIELDS.items()
        if name in arrays or name == "leaf_value"
    }
    shrinkage = checked_array(arrays, "shrinkage", (len(leaves),), "f")
    _check_lightgbm({name: array for name, (array, _) in fields.items()}, leaves, d)
    objective, sigmoid = values["objective"], float(values["sigmoid"])
    if objective not in LIGHTGBM_OBJECTIVES or (objective == "binary") != (c == 2) or not 0 < sigmoid < np.inf:
        raise ValueError(f"objective {objective!r} is not one for {c} classes")
    many = "" if c == 2 else f" num_class:{c}"
    slope = "" if objective == "multiclass" else f" sigmoid:{sigmoid!r}"
    pieces = {name: np.split(array, np.cumsum(length)[:-1]) for name, (array, length) in fields.items()}
    blocks = []
    for i, count in enumerate(leaves.tolist()):
        lines = [f"Tree={i}", f"num_leaves={count}", "num_cat=0"]
        lines += [f"{name}={' '.join(map(repr, piece[i].tolist()))}" for name, piece in pieces.items()]
        blocks.append("\n".join([*lines, "is_linear=0", f"shrinkage={shrinkage[i].item()!r}", "\n\n"]))
    head = [
        *("tree", "version=v4", f"num_class={per_round}", f"num_tree_per_iteration={per_round}", "label_index=0"),
        *(f"max_feature_idx={d - 1}", f"objective={objective}{many}{slope}"),
        *(["average_output"] if values["average"] is True else []),
        f"feature_names={' '.join(f'Column_{i}' for i in range(d))}",
        f"feature_infos={' '.join(['none'] * d)}",
        f"tree_sizes={' '.join(str(len(block)) for block in blocks)}",
    ]
    return "\n".join([*head, "", "".join(blocks) + "end of trees", ""])


def _check_lightgbm(fields: Mapping[str, Array], leaves: Array, d: int) -> None:
    """Raise unless the trees are trees of constant leaves, split by numbers."""
    # Leaf k is written as -k - 1: put the leaves of a tree after its inner nodes.
    inner, size = leaves - 1, 2 * leaves - 1
    ends = np.cumsum(size)
    is_inner = np.arange(size.sum()) - np.repeat(ends - size, size) < np.repeat(inner, size)
    left, right = (np.full(len(is_inner), -1) for _ in range(2))
    for side, name in ((left, "left_child"), (right, "right_child")):
        child = fields[name]
        side[is_inner] = np.where(child < 0, np.repeat(inner, inner) - 1 - child, child)
    feature = np.zeros(len(is_inner), np.int64)
    feature[is_inner] = fields["split_feature"]
    if (left[is_inner] < 1).any() or (right[is_inner] < 1).any():
        raise ValueError("a tree points to a node that does not exist")
    Trees(size, left, right, feature).check(d)
    kind = fields["decision_type"]
    # Bits of the kind: categorical, missing left, type of missing values (0 to 2).
    if ((kind < 0) | (kind > 11) | (kind & 1 == 1)).any():
        raise ValueError("a tree splits in a way that is not known")


def _fields(block: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition("=") for line in block.split("\n") if "=" in line)}


# -- XGBoost -------------------------------------------------------------------------------------------------

NODE_FIELDS = {
    **{"left_children": "i", "right_children": "i", "split_indices": "i", "default_left": "i"},
    **{"split_conditions": "f", "base_weights": "f", "loss_changes": "f", "sum_hessian": "f"},
}


def take_xgboost(classifier: Any) -> Parts:
    """Return the values and arrays of a fitted XGBClassifier."""
    model = json.loads(bytes(classifier.get_booster().save_raw("json")))
    learner = model["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    trees = booster["model"]["trees"] if booster["name"] == "gbtree" else []
    single = all(tree["tree_param"]["size_leaf_vector"] in ("0", "1") for tree in trees)
    if not trees or not single or any(any(t["split_type"]) for t in trees) or objective not in _objectives(2):
        raise ModelFileError(
            f"XGBClassifier cannot be saved with booster {booster['name']!r}, objective {objective!r}, categorical "
            "splits or leaves of several values. Fit with the booster 'gbtree' and the default objective."
        )
    values = {
        "objective": objective,
        "base_score": np.atleast_1d(json.loads(learner["learner_model_param"]["base_score"])).tolist(),
        "parallel": int(booster["model"]["gbtree_model_param"]["num_parallel_tree"]),
        "best_iteration": learner["attributes"].get("best_iteration"),
        "version": model["version"],
    }
    pruned = [_without_deleted(tree) for tree in trees]
    arrays = {name: np.concatenate([tree[name] for tree in pruned]) for name in NODE_FIELDS}
    return values, {**arrays, "size": np.array([len(tree["left_children"]) for tree in pruned])}


def _without_deleted(tree: Mapping[str, Any]) -> dict[str, Array]:
    """Return the arrays of a tree without the nodes that pruning left behind."""
    left, right = (np.array(tree[name]) for name in ("left_children", "right_children"))
    reached = [0]
    for node in reached:  # grows while it is read
        reached += [] if left[node] == -1 else [left[node], right[node]]
    kept = np.sort(reached)
    types = {"f": np.float32, "i": np.int64}
    nodes = {name: np.array(tree[name], types[kind])[kept] for name, kind in NODE_FIELDS.items()}
    for name in ("left_children", "right_children"):
        nodes[name] = np.where(nodes[name] == -1, -1, np.searchsorted(kept, nodes[name]))
    return nodes


def put_xgboost(values: Mapping[str, Any], arrays: Mapping[str, Any], new: Any, d: int, c: int) -> Any:
    """Return the unfitted XGBClassifier fitted with the trees, or raise if they are not what XGBoost can follow."""
    settings = new.get_params(deep=False)
    new.load_model(bytearray(_xgboost_text(values, arrays, d, c), "ascii"))
    # load_model overwrites some settings: put them back.
    vars(new).update({name: value for name, value in settings.items() if name in vars(new)})
    return new


def _objectives(c: int) -> dict[str, dict[str, Any]]:
    return {
        "binary:logistic": {"reg_loss_param": {"scale_pos_weight": "1"}},
        "multi:softprob": {"softmax_multiclass_param": {"num_class": str(c)}},
    }


def _xgboost_text(values: Mapping[str, Any], arrays: Mapping[str, Any], d: int, c: int) -> str:
    """Return XGBoost's JSON of checked trees."""
    size = checked_array(arrays, "size", (None,), "i")
    nodes = {name: checked_array(arrays, name, (int(size.sum()),), kind) for name, kind in NODE_FIELDS.items()}
    Trees(size, nodes["left_children"], nodes["right_children"], nodes["split_indices"]).check(d)
    per_class, outputs = int(values["parallel"]), 1 if c == 2 else c
    if not 1 <= per_class <= len(size) or len(size) % (per_class * outputs):
        raise ValueError("a round has too few trees")
    rounds = len(size) // (per_class * outputs)
    objective = values["objective"]
    if objective != ("binary:logistic" if c == 2 else "multi:softprob"):
        raise ValueError(f"objective {objective!r} is not one for {c} classes")
    base = np.asarray(values["base_score"], dtype=np.float64)
    if base.shape not in ((1,), (outputs,)) or not np.isfinite(base).all() or (c == 2 and not 0 < base[0] < 1):
        raise ValueError("base_score is not a probability")
    best = values["best_iteration"]
    if best is not None and not 0 <= int(best) < rounds:
        raise ValueError("the best round does not exist")
    version = [int(number) for number in values["version"]]
    if not (len(version) == 3 and version[0] >= 1 and max(version) < 1_000):
        raise ValueError(f"version {version} does not exist")
    nodes["default_left"] = np.clip(nodes["default_left"], 0, 1)
    trees = []
    for i, (end, count) in enumerate(zip(np.cumsum(size).tolist(), size.tolist(), strict=True)):
        one = {name: array[end - count : end] for name, array in nodes.items()}
        inner = np.flatnonzero(one["left_children"] != -1)
        one["parents"] = np.full(count, 2**31 - 1)  # no parent
        for side in ("left_children", "right_children"):
            one["parents"][one[side][inner]] = inner
        tree: dict[str, Any] = {name: _plain(array) for name, array in one.items()}
        tree |= {f"categories{word}": [] for word in ("", "_nodes", "_segments", "_sizes")}
        tree |= {"id": i, "split_type": [0] * count}
        param = {"num_deleted": "0", "num_feature": str(d), "num_nodes": str(count), "size_leaf_vector": "1"}
        trees.append({**tree, "tree_param": param})
    model = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": str(per_class), "num_trees": str(len(size))},
        "iteration_indptr": list(range(0, len(size) + 1, per_class * outputs)),
        "tree_info": np.tile(np.repeat(np.arange(outputs), per_class), rounds).tolist(),
        "trees": trees,
    }
    learner = {
        "attributes": {} if best is None else {"best_iteration": str(int(best))},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": f"[{','.join(repr(x) for x in base.tolist())}]",
            "boost_from_average": "1",
            "num_class": str(0 if c == 2 else c),
            "num_feature": str(d),
            "num_target": "1",
        },
        "objective": {"name": objective, **_objectives(c)[objective]},
    }
    return json.dumps({"learner": learner, "version": version}, allow_nan=False)


def _plain(array: Array) -> list[Any]:
    """Return numbers for JSON; float32 in the fewest digits that restore it."""
    return [float(str(x)) for x in array] if array.dtype == np.float32 else array.tolist()
