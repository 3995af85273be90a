"""Store classifiers of other libraries: their settings as plain values, their fitted state in safe formats.

scikit-learn's are skops files of listed types, LightGBM's its own text, XGBoost's its own JSON; none of them runs code.
But compiled code follows the indices in a tree without checking them, and a forged index could lead it anywhere in
memory: all indices are checked here first.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree._tree import Tree

from deepsep.errors import ModelFileError
from deepsep.files.plain import pack, unpack
from deepsep.files.skops_files import TRUSTED_CLASSIFIERS, dump, load

__all__ = [
    *("describe_classifier", "is_classifier", "is_described", "new_classifier"),
    *("dump_classifier", "load_classifier"),
    *("compress", "decompress"),
]

Array = NDArray[Any]

HOMES = {
    "ExtraTreesClassifier": "sklearn.ensemble",
    "RandomForestClassifier": "sklearn.ensemble",
    "LogisticRegression": "sklearn.linear_model",
    "KNeighborsClassifier": "sklearn.neighbors",
    "SelfTrainingClassifier": "sklearn.semi_supervised",
    "SVC": "sklearn.svm",
    "DecisionTreeClassifier": "sklearn.tree",
    "LGBMClassifier": "lightgbm",
    "XGBClassifier": "xgboost",
}

# A file of zeros shrinks a thousandfold, so a small forged file could fill the memory. Forests shrink by 5 to 40,
# neighbours on one-hot columns by 140.
SMALL = 1 << 28  # bytes to which any compressed part may unpack
RATIO = 200  # beyond that, the most times its compressed size
CHUNK = 1 << 20


# -- settings ------------------------------------------------------------------------------------------------


def is_classifier(value: Any) -> bool:
    """Whether a setting is an estimator rather than a plain value."""
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
    """Whether a value was returned by ``describe_classifier``."""
    return isinstance(value, dict) and "__classifier__" in value


def new_classifier(described: Mapping[str, Any]) -> Any:
    """Return an unfitted classifier from its description."""
    kind = described["__classifier__"]
    if kind not in HOMES:
        raise ModelFileError(
            f"the model holds a classifier of unknown type {kind!r}; the known types are {', '.join(HOMES)}."
        )
    settings = {
        name: new_classifier(value) if is_described(value) else unpack(value)
        for name, value in described["settings"].items()
    }
    return getattr(import_module(HOMES[kind]), kind)(**settings)


def _kind(classifier: Any) -> str:
    kind = type(classifier).__name__
    if kind not in HOMES or type(classifier) is not getattr(import_module(HOMES[kind]), kind):
        raise ModelFileError(
            f"{kind} cannot be saved as part of a model. Fit one of {', '.join(HOMES)}, or save it by other means, "
            "such as skops."
        )
    return kind


# -- fitted state --------------------------------------------------------------------------------------------


def dump_classifier(classifier: Any) -> dict[str, bytes]:
    """Return a fitted classifier as one file: {name: content}."""
    kind = _kind(classifier)
    if kind == "LGBMClassifier":
        text: str = classifier.booster_.model_to_string(num_iteration=-1)
        return {"classifier.txt": text.encode()}
    if kind == "XGBClassifier":
        return {"classifier.json": bytes(classifier.get_booster().save_raw("json"))}
    cure = "Use settings that are plain values, and algorithm='brute' for k nearest neighbours"
    data = dump(kind, classifier, TRUSTED_CLASSIFIERS, cure)
    return {"classifier.skops.gz": compress(data)}


def load_classifier(files: Mapping[str, Any], new: Any, n_features: int, n_classes: int) -> Any:
    """Return the classifier that ``dump_classifier`` stored, with the settings of the unfitted ``new``.

    Raises ModelFileError unless it has the same type and the same numbers of features and classes.
    """
    kind = _kind(new)
    name = {"LGBMClassifier": "classifier.txt", "XGBClassifier": "classifier.json"}.get(kind, "classifier.skops.gz")
    if not isinstance(files.get(name), bytes):
        raise ModelFileError(f"the model has no part {name!r}. Save it again.")
    data: bytes = files[name]
    try:
        if kind == "LGBMClassifier":
            return _load_lightgbm(data, new, n_features, n_classes)
        if kind == "XGBClassifier":
            return _load_xgboost(data, new, n_features, n_classes)
        fitted = load(name, decompress(name, data), TRUSTED_CLASSIFIERS)
        if type(fitted) is not type(new):
            raise ValueError(f"it is a {type(fitted).__name__}, not a {kind}")
        check_parts(fitted, n_features, n_classes)
        return fitted
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{name} does not hold a valid classifier ({error}). Save the model again.") from error


def compress(data: bytes) -> bytes:
    """Compress a part of a model with gzip, within the limits of ``decompress``."""
    packed = gzip.compress(data, 6, mtime=0)
    return packed if len(data) <= _most(packed) else gzip.compress(data, 0, mtime=0)


def decompress(name: str, packed: bytes) -> bytes:
    """Return the content of a gzip file, or raise if it is implausibly large."""
    most = _most(packed)
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        while chunk := file.read(CHUNK):
            content.write(chunk)
            if content.tell() > most:
                raise ModelFileError(
                    f"{name} has {len(packed):,} bytes and would unpack to more than {most:,}, which no model needs "
                    "and which could fill the memory. Ask its author for a model saved by deepsep."
                )
    return content.getvalue()


def _most(packed: bytes) -> int:
    return max(SMALL, RATIO * len(packed))


# -- indices that compiled code trusts -----------------------------------------------------------------------


def _check_tree(left: Array, right: Array, feature: Array, inner: Array, n_features: int) -> None:
    """Raise unless every inner node uses an existing feature and leads to existing later nodes."""
    if not (left.shape == right.shape == feature.shape == inner.shape == (len(left),)):
        raise ValueError("the parts of a tree differ in length")
    here = np.flatnonzero(inner)
    for child in (left[here], right[here]):
        if ((child <= here) | (child >= len(left))).any():
            raise ValueError("a tree points to a node that does not exist")
    if ((feature[here] < 0) | (feature[here] >= n_features)).any():
        raise ValueError(f"a tree uses a feature beyond the {n_features} that exist")


def check_parts(fitted: Any, n_features: int, n_classes: int) -> None:
    for part in _inside(fitted):
        if isinstance(part, Tree):
            _check_tree(part.children_left, part.children_right, part.feature, part.children_left != -1, n_features)
        elif sparse.issparse(part):
            part.check_format(full_check=True)
        elif isinstance(part, KNeighborsClassifier) and hasattr(part, "classes_"):
            _need_shape("_fit_X", part._fit_X, (part.n_samples_fit_, n_features))
        elif isinstance(part, SVC) and hasattr(part, "classes_"):
            n = len(part.support_)
            _need_shape("support_vectors_", part.support_vectors_, (n, n_features))
            for name in ("dual_coef_", "_dual_coef_"):
                _need_shape(name, getattr(part, name), (n_classes - 1, n))
            for name in ("intercept_", "_intercept_"):
                _need_shape(name, getattr(part, name), (n_classes * (n_classes - 1) // 2,))
            _need_shape("_n_support", part._n_support, (n_classes,))
            if (part._n_support < 0).any() or part._n_support.sum() != n:
                raise ValueError("the numbers of support vectors per class do not add up")


def _need_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape} instead of {shape}")


def _inside(value: Any) -> Iterator[Any]:
    """Yield a value and everything in it."""
    pending, seen = [value], set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, BaseEstimator):
            pending += vars(item).values()
        elif isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item


# -- LightGBM ------------------------------------------------------------------------------------------------


def _load_lightgbm(data: bytes, new: Any, n_features: int, n_classes: int) -> Any:
    text = data.decode()
    _check_lightgbm(text, n_features, n_classes)
    booster = import_module("lightgbm").Booster(model_str=text)
    classes = np.arange(n_classes)
    # The wrapper offers no way to set a booster; these are the attributes that its fit sets.
    vars(new).update(
        _Booster=booster,
        _n_features=n_features,
        _n_features_in=n_features,
        _classes=classes,
        _n_classes=n_classes,
        _objective=booster.params.get("objective"),
        _best_iteration=0,
        _le=import_module("sklearn.preprocessing").LabelEncoder().fit(classes),
        fitted_=True,
    )
    return new


def _check_lightgbm(text: str, n_features: int, n_classes: int) -> None:
    """Raise unless the text holds exactly the trees that its header lists, split as LightGBM splits them."""
    head, _, rest = text.partition("\n\n")
    header = _fields(head)
    per_round = 1 if n_classes == 2 else n_classes
    if not (int(header["num_class"]) == int(header["num_tree_per_iteration"]) == per_round):
        raise ValueError(f"it is not for {n_classes} classes")
    if int(header["max_feature_idx"]) != n_features - 1:
        raise ValueError(f"it is not for {n_features} features")
    sizes = _numbers(header.get("tree_sizes", ""))
    if len(sizes) % per_round or (sizes <= 0).any():
        raise ValueError("its rounds have different numbers of trees")
    start = 0
    for i, size in enumerate(sizes.tolist()):
        block = rest[start : start + size]
        if not block.startswith(f"Tree={i}\n") or block.count("Tree=") != 1:
            raise ValueError(f"tree {i} is not where it should be")
        _check_lightgbm_tree(_fields(block), n_features)
        start += size
    if not rest[start:].startswith("end of trees"):
        raise ValueError("it has more trees than its header lists")


def _check_lightgbm_tree(tree: Mapping[str, str], n_features: int) -> None:
    leaves = int(tree["num_leaves"])
    if int(tree["num_cat"]) or int(tree.get("is_linear", 0)) or len(tree["leaf_value"].split()) != leaves:
        raise ValueError("a tree is of another kind")
    if leaves == 1:
        return
    left, right, feature = (_numbers(tree[name]) for name in ("left_child", "right_child", "split_feature"))
    if not len(left) == len(tree["threshold"].split()) == len(tree["decision_type"].split()) == leaves - 1:
        raise ValueError("the parts of a tree differ in length")
    # Leaf k is written as -k - 1: put the leaves behind the inner nodes.
    left, right = (np.where(child < 0, leaves - 2 - child, child) for child in (left, right))
    pad = np.zeros(leaves, int)
    left, right, feature = (np.concatenate([part, pad]) for part in (left, right, feature))
    _check_tree(left, right, feature, np.arange(2 * leaves - 1) < leaves - 1, n_features)


def _fields(block: str) -> dict[str, str]:
    lines = [line.partition("=") for line in block.split("\n") if "=" in line]
    fields = {name: value for name, _, value in lines}
    if len(fields) != len(lines):
        raise ValueError("it sets a field twice")
    return fields


def _numbers(text: str) -> Array:
    return np.array([int(word) for word in text.split()], dtype=np.int64)


# -- XGBoost -------------------------------------------------------------------------------------------------


def _load_xgboost(data: bytes, new: Any, n_features: int, n_classes: int) -> Any:
    model = json.loads(data)
    booster = model["learner"]["gradient_booster"]
    if booster["name"] != "gbtree":
        raise ValueError(f"the booster {booster['name']!r} cannot be in a saved model; 'gbtree' can")
    sizes = model["learner"]["learner_model_param"]
    if int(sizes["num_feature"]) != n_features or max(int(sizes["num_class"]), 2) != n_classes:
        raise ValueError(f"it is not for {n_features} features and {n_classes} classes")
    for tree in booster["model"]["trees"]:
        left, right, feature = (_integers(tree[name]) for name in ("left_children", "right_children", "split_indices"))
        if any(tree.get("categories", ())):
            raise ValueError("a tree is of another kind")
        _check_tree(left, right, feature, left != -1, n_features)
    # Serialise again, so that XGBoost reads what was checked and not, say, the second of two equal keys.
    settings = new.get_params(deep=False)
    new.load_model(bytearray(json.dumps(model), "utf-8"))
    # load_model overwrites some settings: put them back.
    vars(new).update({name: value for name, value in settings.items() if name in vars(new)})
    return new


def _integers(values: Sequence[int]) -> Array:
    return np.array(values, dtype=np.int64)
