"""The fitted steps of a pipeline as plain values and arrays, built from a fixed list of types.

An entry of the file is a plain value, a collection of entries, an array, or a listed object with its attributes. Every
name is looked up in the lists here, so opening a file never builds anything else, and never calls anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.errors import ModelFileError
from deepsep.files.packed import pack_file, unpack_file


def _names(packages: Mapping[str, str]) -> frozenset[str]:
    return frozenset(f"{package}.{name}" for package, names in packages.items() for name in names.split())


# Types that the steps of a pipeline may contain. None of them runs code named in its attributes.
LISTED_NAMES = {
    "object": _names(
        {
            "sklearn.compose._column_transformer": "ColumnTransformer make_column_selector _RemainderColsList",
            "sklearn.decomposition": "_factor_analysis.FactorAnalysis _fastica.FastICA _incremental_pca.IncrementalPCA "
            "_lda.LatentDirichletAllocation _nmf.NMF _pca.PCA _truncated_svd.TruncatedSVD",
            "sklearn.feature_extraction": "_dict_vectorizer.DictVectorizer _hash.FeatureHasher text.CountVectorizer "
            "text.HashingVectorizer text.TfidfTransformer text.TfidfVectorizer",
            "sklearn.feature_selection": "_variance_threshold.VarianceThreshold",
            "sklearn.impute": "_base.MissingIndicator _base.SimpleImputer _knn.KNNImputer",
            "sklearn.kernel_approximation": "Nystroem RBFSampler",
            "sklearn.pipeline": "FeatureUnion Pipeline",
            "sklearn.preprocessing._data": "Binarizer MaxAbsScaler MinMaxScaler Normalizer PolynomialFeatures "
            "PowerTransformer QuantileTransformer RobustScaler StandardScaler",
            "sklearn.preprocessing": "_discretization.KBinsDiscretizer _encoders.OneHotEncoder "
            "_encoders.OrdinalEncoder _function_transformer.FunctionTransformer _polynomial.PolynomialFeatures "
            "_polynomial.SplineTransformer",
            "sklearn.random_projection": "GaussianRandomProjection",
            "scipy.interpolate": "_bsplines.BSpline",
            "deepsep.table": "columns.UsefulColumns encoder.TableEncoder normal_scores.NormalScores",
            "skrub": "_apply_to_cols.ApplyToCols _apply_to_each_col.ApplyToEachCol _apply_to_sub_frame.ApplyToSubFrame "
            "_check_input.CheckInputDataFrame _clean_categories.CleanCategories _clean_null_strings.CleanNullStrings "
            "_datetime_encoder.DatetimeEncoder _datetime_encoder._SplineEncoder _drop_uninformative.DropUninformative "
            "_duration_to_float.DurationToFloat _gap_encoder.GapEncoder _minhash_encoder.MinHashEncoder "
            "_select_cols.DropCols _select_cols.SelectCols _squashing_scaler.SquashingScaler "
            "_squashing_scaler._MinMaxScaler _string_encoder.StringEncoder _to_categorical.ToCategorical "
            "_to_datetime.ToDatetime _to_float.ToFloat _to_str.ToStr _utils.LRUDict",
            "skrub._table_vectorizer": "Cleaner PassThrough ShortReprDict TableVectorizer",
            "skrub.selectors._base": "All And Cols Filter Inv NameFilter Or Sub XOr",
        }
    ),
    "function": _names(
        {
            "numpy": "abs absolute arcsinh cbrt exp expm1 log log10 log1p log2 sqrt square tanh",
            "scipy._lib.array_api_compat.numpy._aliases": "asarray",  # an attribute of BSpline
            "skrub._dataframe._common": "has_nulls is_any_date is_bool is_categorical is_float is_integer is_numeric "
            "is_string",
            "skrub._table_vectorizer": "_created_by_predicate",
            "skrub.selectors._selectors": "_cardinality_below",
        }
    ),
    "type": _names(
        {
            "builtins": "str int float bool",
            "numpy": "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 str_ number "
            "integer floating object_",
        }
    ),
    "dict": _names({"builtins": "dict", "collections": "OrderedDict", "skrub._table_vectorizer": "ShortReprDict"}),
}


def dump_step(name: str, step: Any) -> bytes:
    """Return a fitted transformer as the content of a file, or raise if it holds types that are not listed."""
    writer = _Writer()
    try:
        entry = writer.write(step)
    except _NotListedError as error:
        raise ModelFileError(
            f"step {name!r} of the pipeline cannot be saved: it holds {error}, which a saved model must not contain, "
            "since opening it could run code. Use transformers of scikit-learn or skrub without functions of your own, "
            "or apply it before the pipeline."
        ) from None
    except RecursionError:
        raise ModelFileError(f"step {name!r} of the pipeline cannot be saved: it is nested too deeply.") from None
    return pack_file(entry, writer.arrays)


def load_step(place: str, data: bytes) -> Any:
    """Return the transformer in a file, or raise if the file names types that are not listed."""
    entry, arrays = unpack_file(place, data)
    try:
        reader = _Reader(arrays)
        step = reader.read(entry)
        for item in reader.objects:
            _check_step(item)
    except _NotListedError as error:
        raise ModelFileError(
            f"{place} names {error}, which a saved model must not contain: opening it could run code. Nothing was run. "
            "Ask its author for a model saved by deepsep."
        ) from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(
            f"{place} is not a saved step ({type(error).__name__}: {error}). Save the model again."
        ) from error
    if not (step in (None, "passthrough") or hasattr(step, "transform")):
        raise ModelFileError(f"{place} holds a {type(step).__name__} instead of a transformer. Save the model again.")
    return step


class _NotListedError(Exception):
    pass


def _name_of(thing: Any) -> str:
    module, name = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", getattr(thing, "__name__", ""))
    return f"{'numpy' if isinstance(thing, np.ufunc) else module}.{name or type(thing).__name__}"


def _listed(group: str, name: str) -> str:
    if name not in LISTED_NAMES[group]:
        raise _NotListedError(name)
    return name


class _Writer:
    """Turns a value into an entry: JSON in which all but None, numbers and text is a pair [kind, content]."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self._numbers: dict[int, int] = {}  # of the objects, by identity
        self._kept: list[Any] = []  # so that no identity is used twice

    def write(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if np.isfinite(value) else ["float", repr(value)]
        if type(value) in (list, tuple, set):
            return [type(value).__name__, [self.write(item) for item in value]]
        if isinstance(value, dict):
            name = _listed("dict", _name_of(type(value)))
            return ["dict", [name, [[self.write(key), self.write(item)] for key, item in value.items()]]]
        if isinstance(value, slice):
            return ["slice", [self.write(part) for part in (value.start, value.stop, value.step)]]
        if isinstance(value, np.ndarray):
            return self._write_array(value)
        if isinstance(value, np.generic):
            return ["scalar", self._write_array(np.asarray(value))]
        if isinstance(value, np.dtype):
            return ["dtype", _checked_dtype(value.str)]
        if isinstance(value, np.random.RandomState):
            name, keys, position, gauss, cached = value.get_state()
            return ["random", [name, self._write_array(np.asarray(keys)), int(position), int(gauss), float(cached)]]
        if isinstance(value, type):
            return ["type", _listed("type", _name_of(value))]
        if callable(value) and not hasattr(value, "get_params") and not hasattr(value, "__dict__"):
            return ["function", _listed("function", _name_of(value))]
        if callable(value) and _name_of(value) in LISTED_NAMES["function"]:
            return ["function", _name_of(value)]
        return self._write_object(value)

    def _write_object(self, value: Any) -> Any:
        if id(value) in self._numbers:
            return ["same", self._numbers[id(value)]]
        name = _name_of(type(value))
        if name not in LISTED_NAMES["object"]:
            raise _NotListedError(_name_of(value) if callable(value) and hasattr(value, "__qualname__") else name)
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        return ["object", [name, {key: self.write(item) for key, item in vars(value).items()}]]

    def _write_array(self, array: Array) -> Any:
        if array.dtype.kind in "biuf":
            name = str(len(self.arrays))
            self.arrays[name] = array
            return ["array", name]
        if array.dtype.kind in "Mm":
            return ["dates", [_checked_dtype(array.dtype.str), self._write_array(array.view(np.int64))]]
        if array.dtype.kind in "OU":
            cells = [self.write(cell) for cell in array.ravel().tolist()]
            return ["cells", [_checked_dtype(array.dtype.str), list(array.shape), cells]]
        raise _NotListedError(f"an array of type {array.dtype}")


class _Reader:
    """Builds the value of an entry."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self.objects: list[Any] = []

    def read(self, entry: Any) -> Any:
        if not isinstance(entry, list):
            if isinstance(entry, dict):
                raise ValueError("an entry is a mapping")
            return entry
        kind, content = entry
        match kind:
            case "float":
                return float(content)
            case "list" | "tuple" | "set":
                return {"list": list, "tuple": tuple, "set": set}[kind](map(self.read, content))
            case "slice":
                start, stop, step = map(self.read, content)
                return slice(start, stop, step)
            case "dict":
                name, items = content
                return _find(_listed("dict", name))((self.read(key), self.read(item)) for key, item in items)
            case "array":
                array = self._arrays[content]
                if not isinstance(array, np.ndarray):
                    raise TypeError("an array is of another kind")
                return array
            case "scalar":
                return self.read(content)[()]
            case "dtype":
                return np.dtype(_checked_dtype(content))
            case "dates":
                dtype, values = content
                return np.asarray(self.read(values)).view(_checked_dtype(dtype))
            case "cells":
                return self._cells(*content)
            case "random":
                name, keys, position, gauss, cached = content
                random = np.random.RandomState()
                random.set_state((name, self.read(keys), position, gauss, cached))
                return random
            case "type" | "function":
                return _find(_listed(kind, content))
            case "same":
                return self.objects[content]
            case "object":
                name, attributes = content
                wanted = _find(_listed("object", name))
                built = wanted.__new__(wanted)
                self.objects.append(built)
                vars(built).update({key: self.read(item) for key, item in attributes.items()})
                return built
        raise ValueError(f"{kind!r} is not a kind of entry")

    def _cells(self, dtype: str, shape: list[int], cells: list[Any]) -> Array:
        values = np.empty(len(cells), dtype=object)
        values[:] = [self.read(cell) for cell in cells]
        longest = max((len(str(cell)) for cell in values), default=0)
        if dtype != "|O" and np.dtype(_checked_dtype(dtype)).itemsize > max(4 * longest, 1_000):
            raise ValueError(f"type {dtype!r} is larger than its values")
        return values.astype(_checked_dtype(dtype)).reshape(shape)


def _find(name: str) -> Any:
    module, _, name = name.rpartition(".")
    return getattr(import_module(module), name)


def _checked_dtype(text: str) -> str:
    if text != "|O" and np.dtype(text).kind not in "biufUMm":
        raise _NotListedError(f"the type {text!r}")
    return text


# -- checks ----------------------------------------------------------------------------------------------------

# Most transformers compute with NumPy, which checks shapes and indices itself. The code of some trusts their
# attributes, and a forged index could lead it anywhere in memory.


def _check_step(step: Any) -> None:
    """Raise ValueError if compiled code could not trust this transformer. Its own steps are checked separately."""
    for kind in type(step).__mro__:
        STEP_CHECKS.get(kind.__name__, lambda step: None)(step)
    if hasattr(step, "memory"):
        step.memory = None  # a folder of pickles, which the next fit would open
    if isinstance(getattr(step, "n_jobs", None), int):
        step.n_jobs = min(step.n_jobs, os.cpu_count() or 1)


def _check_one_hot(step: Any) -> None:
    """Raise unless a one-hot encoder has a column for every category of a row."""
    if not hasattr(step, "categories_"):
        return
    n = len(step.categories_)
    mappings = step._default_to_infrequent_mappings if step._infrequent_enabled else [None] * n
    rare = step._infrequent_indices if step._infrequent_enabled else [None] * n
    dropped = step._drop_idx_after_grouping
    if not (n == step.n_features_in_ == len(mappings) == len(rare) == len(step._n_features_outs)):
        raise ValueError("a one-hot encoder has parts of different lengths")
    for i, categories in enumerate(step.categories_):
        width = len(categories)
        _need_integers(rare[i], width)
        mapping = mappings[i]
        if mapping is not None:
            _need_integers(mapping, width, length=width)
            width = int(mapping.max()) + 1
        if dropped is not None and dropped[i] is not None:
            width -= 1
        if categories.ndim != 1 or not len(categories) or step._n_features_outs[i] != width:
            raise ValueError("a one-hot encoder has more categories than columns")
        if categories.dtype.kind not in "OU":
            known = categories[~np.isnan(categories)] if categories.dtype.kind == "f" else categories
            if len(known) < len(categories) - 1 or (known[1:] <= known[:-1]).any():  # found by bisection
                raise ValueError("the categories of a one-hot encoder are not in order")


def _need_integers(array: Any, limit: int, length: int | None = None) -> None:
    if array is None:
        return
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array) or (length or len(array)) != len(array):
        raise ValueError("indices of categories are not integers, one for each")
    if array.min() < 0 or array.max() >= limit:
        raise ValueError("a category does not exist")


def _check_vocabulary(step: Any) -> None:
    """Raise unless words are numbered from 0 on: the numbers are columns of a sparse matrix."""
    if getattr(step, "input", "content") != "content":
        raise ValueError("a vectorizer would read files")
    words: dict[str, Any] = getattr(step, "vocabulary_", {})
    if sorted(_integers(words.values())) != list(range(len(words))):
        raise ValueError("the words of a vectorizer are not numbered")


def _check_hashes(step: Any) -> None:
    (count,) = _integers([step.n_features])
    if not 1 <= count < 2**31:
        raise ValueError(f"{count} hashed features")
    if getattr(step, "input", "content") not in ("content", "dict", "pair", "string"):
        raise ValueError("a vectorizer would read files")


def _check_table_encoder(step: Any) -> None:
    """Raise unless every feature has a place, since rows would otherwise have arbitrary content of the memory."""
    places = getattr(step, "places_", np.empty(0, int))
    if not np.array_equal(np.sort(places), np.arange(len(places))):
        raise ValueError("features of the table have no place")


def _check_spline(spline: Any) -> None:
    t, c, (k,) = spline.t, spline.c, _integers([spline.k])
    if not (t.dtype == c.dtype == np.float64 and t.ndim == 1 and c.ndim >= 1 and spline.axis == 0):
        raise ValueError("a spline has parts of another kind")
    if not (k >= 0 and len(t) >= 2 * k + 2 and len(c) >= len(t) - k - 1 and np.isfinite(t).all()):
        raise ValueError("a spline has parts of other lengths")
    if (np.diff(t) < 0).any():
        raise ValueError("the knots of a spline are not in order")


def _integers(values: Iterable[Any]) -> list[int]:
    numbers = list(values)
    if not all(isinstance(number, int | np.integer) and not isinstance(number, bool) for number in numbers):
        raise ValueError("a count is not an integer")
    return [int(number) for number in numbers]


STEP_CHECKS = {
    "OneHotEncoder": _check_one_hot,
    "CountVectorizer": _check_vocabulary,
    "DictVectorizer": _check_vocabulary,
    "FeatureHasher": _check_hashes,
    "HashingVectorizer": _check_hashes,
    "BSpline": _check_spline,
    "TableEncoder": _check_table_encoder,
}
