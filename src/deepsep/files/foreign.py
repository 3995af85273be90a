"""Classifiers of other libraries in saved models: their settings and fitted state as plain values and arrays.

A saved model never has another library's own format. Compiled code follows the indices in a tree, or among support
vectors, without checking them, and a forged index could lead it anywhere in memory. So everything is checked here and
in ``boosted_trees.py`` before another library gets it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.tree._tree import Tree

from deepsep.core.arrays import Array, below, checked_array, checked_codes
from deepsep.errors import ModelFileError
from deepsep.files.boosted_trees import Trees, put_lightgbm, put_xgboost, take_lightgbm, take_xgboost
from deepsep.files.packed import pack_file, unpack_file
from deepsep.files.plain import pack, unpack

Parts = tuple[dict[str, Any], dict[str, Any]]


# -- settings ------------------------------------------------------------------------------------------------


def is_classifier(value: Any) -> bool:
    """Return whether a setting is an estimator rather than a plain value."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def describe_classifier(classifier: Any) -> dict[str, Any]:
    """Return the settings of a classifier, and of classifiers in it, as plain values with the name of its class."""
    kind = _kind(classifier)
    settings = {}
    for name, value in classifier.get_params(deep=False).items():
        try:
            settings[name] = describe_classifier(value) if is_classifier(value) else pack(value)
        except TypeError as error:
            raise ModelFileError(
                f"{kind}: {name}={value!r} cannot be saved: a saved model holds plain values and no code, and this is "
                f"{error}. Fit with a plain value."
            ) from None
    return {"__classifier__": kind, "settings": settings}


def is_described(value: Any) -> bool:
    """Return whether a value is a result of ``describe_classifier``."""
    return isinstance(value, dict) and "__classifier__" in value


def new_classifier(described: Mapping[str, Any]) -> Any:
    """Return an unfitted classifier from its description."""
    kind = described["__classifier__"]
    if kind not in CLASSIFIER_KINDS:
        raise ModelFileError(
            f"the model holds a classifier of unknown type {kind!r}; the known types are {', '.join(CLASSIFIER_KINDS)}."
        )
    settings = {
        name: new_classifier(value) if is_described(value) else unpack(value)
        for name, value in described["settings"].items()
    }
    for name in settings.keys() & {"n_jobs", "nthread", "num_threads", "num_thread"}:  # at most one thread per core
        if isinstance(settings[name], int):
            settings[name] = min(settings[name], os.cpu_count() or 1)
    return CLASSIFIER_KINDS[kind].type_of(kind)(**settings)


def _kind(classifier: Any) -> str:
    kind = type(classifier).__name__
    if kind not in CLASSIFIER_KINDS or type(classifier) is not CLASSIFIER_KINDS[kind].type_of(kind):
        raise ModelFileError(
            f"{kind} cannot be saved as part of a model. Fit one of {', '.join(CLASSIFIER_KINDS)}, or save it by other "
            "means, such as skops."
        )
    return kind


# -- fitted state --------------------------------------------------------------------------------------------


def dump_classifiers(classifiers: list[Any]) -> bytes:
    """Return fitted classifiers as the content of one file."""
    values: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for i, classifier in enumerate(classifiers):
        state, own = _take(classifier)
        values.append({"classifier": describe_classifier(classifier), "state": pack(state)})
        arrays |= {f"{i}.{name}": array for name, array in own.items()}
    return pack_file(values, arrays)


def load_classifiers(name: str, data: Any, n_features: int, classes: Array) -> list[Any]:
    """Return the classifiers from a result of ``dump_classifiers``.

    Raises ModelFileError unless they are for this number of features and these classes, and all their parts fit.
    """
    if not isinstance(data, bytes):
        raise ModelFileError(f"the model has no part {name!r}. Save it again.")
    values, arrays = unpack_file(name, data)
    try:
        classifiers = []
        for i, entry in enumerate(values):
            new = new_classifier(entry["classifier"])
            classifiers.append(_put(unpack(entry["state"]), below(arrays, f"{i}."), new, n_features, classes))
        return classifiers
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{name} does not hold a valid classifier ({error}). Save the model again.") from error


def _take(classifier: Any) -> Parts:
    return CLASSIFIER_KINDS[_kind(classifier)].take(classifier)


def _put(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
    return CLASSIFIER_KINDS[_kind(new)].put(state, arrays, new, d, classes)


def _set(new: Any, d: int, classes: Array, **attributes: Any) -> Any:
    """Give an unfitted classifier the attributes that a fit would give it."""
    vars(new).update(n_features_in_=d, classes_=classes, **attributes)
    return new


# -- linear models, neighbours, support vectors --------------------------------------------------------------


def _take_logistic(classifier: Any) -> Parts:
    return {}, {name: getattr(classifier, name) for name in ("coef_", "intercept_", "n_iter_")}


def _put_logistic(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
    rows = 1 if len(classes) == 2 else len(classes)
    coef, intercept = checked_array(arrays, "coef_", (rows, d), "f"), checked_array(arrays, "intercept_", (rows,), "f")
    n_iter = checked_array(arrays, "n_iter_", (None,), "i")
    return _set(new, d, classes, coef_=coef, intercept_=intercept, n_iter_=n_iter)


def _take_neighbours(classifier: Any) -> Parts:
    if callable(classifier.metric) or callable(classifier.weights):
        raise ModelFileError("KNeighborsClassifier cannot be saved with a function of your own. Use a metric by name.")
    return {}, {"rows": classifier._fit_X, "codes": classifier._y.astype(np.int64)}


def _put_neighbours(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
    codes = checked_codes(arrays, "codes", len(classes))
    rows = checked_array(arrays, "rows", (len(codes), d), "f")
    if new.metric == "precomputed" or len(np.unique(codes)) != len(classes):
        raise ValueError("its neighbours are not rows of every class")
    return new.fit(rows, classes[codes])  # only stores them


SVM_ARRAYS = ("support_", "_n_support", "support_vectors_", "dual_coef_", "_dual_coef_", "intercept_", "_intercept_")
SVM_KERNELS = ("linear", "poly", "rbf", "sigmoid")


def _take_svm(classifier: Any) -> Parts:
    if classifier.kernel not in SVM_KERNELS or len(classifier._probA):
        raise ModelFileError(
            f"SVC cannot be saved with kernel={classifier.kernel!r} or probability=True. Use one of the kernels "
            f"{', '.join(SVM_KERNELS)}; probabilities are made of its scores."
        )
    state = {"gamma": float(classifier._gamma), "rows": classifier.shape_fit_[0]}
    return state, {name: getattr(classifier, name) for name in (*SVM_ARRAYS, "n_iter_", "class_weight_")}


def _put_svm(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
    c, n, integers = len(classes), len(arrays["support_"]), SVM_ARRAYS[:2]
    pairs = (c * (c - 1) // 2,)
    shapes = zip(SVM_ARRAYS, [(n,), (c,), (n, d), (c - 1, n), (c - 1, n), pairs, pairs], strict=True)
    fitted = {name: checked_array(arrays, name, shape, "i" if name in integers else "f") for name, shape in shapes}
    sparse = [hasattr(fitted[name], "indptr") for name in ("support_vectors_", "dual_coef_", "_dual_coef_")]
    gamma, rows, counts = float(state["gamma"]), int(state["rows"]), fitted["_n_support"]
    if new.kernel not in SVM_KERNELS or not 0 <= gamma < np.inf or len(set(sparse)) != 1:
        raise ValueError(f"an SVM of kernel {new.kernel!r} and gamma {gamma} cannot be in a saved model")
    if (counts < 0).any() or counts.sum() != n or not 0 < n <= rows:
        raise ValueError("the numbers of support vectors per class do not add up")
    if ((fitted["support_"] < 0) | (fitted["support_"] >= rows)).any():
        raise ValueError("a support vector is not one of the rows")
    fitted |= {name: fitted[name].astype(np.int32) for name in integers}  # the range was checked
    n_iter = checked_array(arrays, "n_iter_", (None,), "i")
    fitted |= {"_gamma": gamma, "_sparse": sparse[0], "_probA": np.empty(0), "_probB": np.empty(0)}
    fitted |= {"shape_fit_": (rows, d), "fit_status_": 0, "n_iter_": n_iter, "_num_iter": n_iter}
    fitted |= {"class_weight_": checked_array(arrays, "class_weight_", (c,), "f"), "_effective_probability": False}
    return _set(new, d, classes, **fitted)


# -- trees ---------------------------------------------------------------------------------------------------


def _take_trees(trees: list[Any]) -> Parts:
    states = [tree.tree_.__getstate__() for tree in trees]
    arrays = {
        name: np.concatenate([state["nodes"][name] for state in states]) for name in states[0]["nodes"].dtype.names
    }
    arrays["values"] = np.concatenate([state["values"][:, 0] for state in states])
    arrays["size"] = np.array([len(state["nodes"]) for state in states])
    return {"random_states": [tree.random_state for tree in trees]}, arrays


def _put_trees(arrays: Mapping[str, Any], new: list[Any], d: int, classes: Array) -> list[Any]:
    """Return the unfitted trees with the nodes of the arrays."""
    c = len(classes)
    size = checked_array(arrays, "size", (len(new),), "i")
    n = int(size.sum())
    values = checked_array(arrays, "values", (n, c), "f")
    if (values < 0).any():
        raise ValueError("a leaf has a negative share")
    dtype = _empty_tree(d, c).__getstate__()["nodes"].dtype
    nodes = np.zeros(n, dtype)
    for name in dtype.names:
        nodes[name] = checked_array(arrays, name, (n,), "f" if dtype[name].kind == "f" else "iu")
    depth = Trees(size, nodes["left_child"], nodes["right_child"], nodes["feature"]).check(d)
    for tree, count, end, levels in zip(new, size.tolist(), np.cumsum(size).tolist(), depth.tolist(), strict=True):
        part = slice(end - count, end)
        state = {"max_depth": levels, "node_count": count, "nodes": nodes[part].copy()}
        fitted = _empty_tree(d, c)
        fitted.__setstate__({**state, "values": values[part, None].astype(np.float64)})
        _set(tree, d, classes, tree_=fitted, n_outputs_=1, n_classes_=np.int64(c), max_features_=d)
    return new


def _empty_tree(d: int, c: int) -> Any:
    return Tree(d, np.array([c], dtype=np.intp), 1)


def _put_tree(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
    return _put_trees(arrays, [new], d, classes)[0]


def _take_forest(classifier: Any) -> Parts:
    return _take_trees(classifier.estimators_)


def _put_forest(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
    settings = {name: getattr(new, name) for name in new.estimator_params}
    seeds = state["random_states"]
    if len(seeds) != len(arrays["size"]) or not all(isinstance(seed, int | None) for seed in seeds):
        raise ValueError("the trees have other seeds")
    trees = [clone(new.estimator).set_params(**{**settings, "random_state": seed}) for seed in seeds]
    _put_trees(arrays, trees, d, classes)
    return _set(new, d, classes, estimator_=new.estimator, estimators_=trees, n_outputs_=1, n_classes_=len(classes))


# -- all kinds -----------------------------------------------------------------------------------------------


def _take_self_training(classifier: Any) -> Parts:
    state, arrays = _take(classifier.estimator_)
    own = {name: getattr(classifier, name) for name in ("n_iter_", "termination_condition_")}
    rows = {name: getattr(classifier, name) for name in ("transduction_", "labeled_iter_")}
    return {**own, "estimator": state}, {**rows, **{f"estimator.{name}": array for name, array in arrays.items()}}


def _put_self_training(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
    inner = _put(state["estimator"], below(arrays, "estimator."), clone(new.estimator), d, classes)
    rows = {name: checked_array(arrays, name, (None,), "i") for name in ("transduction_", "labeled_iter_")}
    own = {name: state[name] for name in ("n_iter_", "termination_condition_")}
    return _set(new, d, classes, estimator_=inner, **rows, **own)


class Kind(NamedTuple):
    """Module of a class of classifiers, and functions that take one apart, and put it together again."""

    module: str
    take: Callable[[Any], Parts]
    put: Callable[..., Any]

    def type_of(self, name: str) -> Any:
        """Return the class."""
        return getattr(import_module(self.module), name)


def _boosted(module: str, take: Callable[[Any], Parts], put: Callable[..., Any]) -> Kind:
    """Return the kind of boosted trees, whose classes are always 0, 1, ..."""

    def take_boosted(classifier: Any) -> Parts:
        if not np.array_equal(classifier.classes_, np.arange(len(classifier.classes_))):
            raise ModelFileError(f"{type(classifier).__name__} cannot be saved with classes that are not 0, 1, ...")
        return take(classifier)

    def put_boosted(state: dict[str, Any], arrays: Mapping[str, Any], new: Any, d: int, classes: Array) -> Any:
        if not np.array_equal(classes, np.arange(len(classes))):
            raise ValueError("its classes are not numbered")
        return put(state, arrays, new, d, len(classes))

    return Kind(module, take_boosted, put_boosted)


CLASSIFIER_KINDS = {
    "ExtraTreesClassifier": Kind("sklearn.ensemble", _take_forest, _put_forest),
    "RandomForestClassifier": Kind("sklearn.ensemble", _take_forest, _put_forest),
    "LogisticRegression": Kind("sklearn.linear_model", _take_logistic, _put_logistic),
    "KNeighborsClassifier": Kind("sklearn.neighbors", _take_neighbours, _put_neighbours),
    "SelfTrainingClassifier": Kind("sklearn.semi_supervised", _take_self_training, _put_self_training),
    "SVC": Kind("sklearn.svm", _take_svm, _put_svm),
    "DecisionTreeClassifier": Kind("sklearn.tree", lambda tree: _take_trees([tree]), _put_tree),
    "LGBMClassifier": _boosted("lightgbm", take_lightgbm, put_lightgbm),
    "XGBClassifier": _boosted("xgboost", take_xgboost, put_xgboost),
}
