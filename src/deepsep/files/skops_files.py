"""Store the steps of a pipeline, and classifiers, as skops files that may contain only a fixed list of types.

skops builds every type that it, or the caller, trusts. Its own list covers all of scikit-learn, including estimators
that call functions named in their attributes; so every name in a file is first checked against the list here.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sklearn.exceptions import InconsistentVersionWarning

from deepsep.errors import ModelFileError

# Types that the steps of a pipeline may contain. None of them runs code named in its attributes.
_CLASSES = {
    "sklearn.compose._column_transformer": "ColumnTransformer make_column_selector _RemainderColsList",
    "sklearn.decomposition._factor_analysis": "FactorAnalysis",
    "sklearn.decomposition._fastica": "FastICA",
    "sklearn.decomposition._incremental_pca": "IncrementalPCA",
    "sklearn.decomposition._lda": "LatentDirichletAllocation",
    "sklearn.decomposition._nmf": "NMF",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.decomposition._truncated_svd": "TruncatedSVD",
    "sklearn.feature_extraction._dict_vectorizer": "DictVectorizer",
    "sklearn.feature_extraction._hash": "FeatureHasher",
    "sklearn.feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
    "sklearn.impute._base": "MissingIndicator SimpleImputer",
    "sklearn.impute._knn": "KNNImputer",
    "sklearn.kernel_approximation": "Nystroem RBFSampler",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing._data": "Binarizer MaxAbsScaler MinMaxScaler Normalizer PolynomialFeatures PowerTransformer "
    "QuantileTransformer RobustScaler StandardScaler",
    "sklearn.preprocessing._discretization": "KBinsDiscretizer",
    "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
    "sklearn.preprocessing._function_transformer": "FunctionTransformer",
    "sklearn.preprocessing._polynomial": "PolynomialFeatures SplineTransformer",
    "sklearn.random_projection": "GaussianRandomProjection",
    "scipy.interpolate._bsplines": "BSpline",
    "deepsep.table.columns": "UsefulColumns",
    "deepsep.table.encoder": "TableEncoder",
    "deepsep.table.normal_scores": "NormalScores",
    "skrub._apply_to_cols": "ApplyToCols",
    "skrub._apply_to_each_col": "ApplyToEachCol",
    "skrub._apply_to_sub_frame": "ApplyToSubFrame",
    "skrub._check_input": "CheckInputDataFrame",
    "skrub._clean_categories": "CleanCategories",
    "skrub._clean_null_strings": "CleanNullStrings",
    "skrub._datetime_encoder": "DatetimeEncoder _SplineEncoder",
    "skrub._drop_uninformative": "DropUninformative",
    "skrub._duration_to_float": "DurationToFloat",
    "skrub._gap_encoder": "GapEncoder",
    "skrub._minhash_encoder": "MinHashEncoder",
    "skrub._select_cols": "DropCols SelectCols",
    "skrub._squashing_scaler": "SquashingScaler _MinMaxScaler",
    "skrub._string_encoder": "StringEncoder",
    "skrub._table_vectorizer": "Cleaner PassThrough ShortReprDict TableVectorizer",
    "skrub._to_categorical": "ToCategorical",
    "skrub._to_datetime": "ToDatetime",
    "skrub._to_float": "ToFloat",
    "skrub._to_str": "ToStr",
    "skrub._utils": "LRUDict",
    "skrub.selectors._base": "All And Cols Filter Inv NameFilter Or Sub XOr",
}
_CLASSIFIERS = {
    "sklearn.ensemble._forest": "ExtraTreesClassifier RandomForestClassifier",
    "sklearn.linear_model._logistic": "LogisticRegression",
    "sklearn.neighbors._classification": "KNeighborsClassifier",
    "sklearn.semi_supervised._self_training": "SelfTrainingClassifier",
    "sklearn.svm._classes": "SVC",
    "sklearn.tree._classes": "DecisionTreeClassifier ExtraTreeClassifier",
}
_FUNCTIONS = {
    "numpy": "abs absolute arcsinh cbrt exp expm1 log log10 log1p log2 sqrt square tanh",
    "scipy._lib.array_api_compat.numpy._aliases": "asarray",  # an attribute of BSpline
    "skrub._dataframe._common": "has_nulls is_any_date is_bool is_categorical is_float is_integer is_numeric is_string",
    "skrub._table_vectorizer": "_created_by_predicate",
    "skrub.selectors._selectors": "_cardinality_below",
}
_SCALARS = {"numpy": "bool bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 str_"}


def _names(*groups: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        f"{module}.{name}" for group in groups for module, names in group.items() for name in names.split()
    )


Trusted = Mapping[str, frozenset[str]]

# What each kind of entry of a skops file may name. An entry of another kind (a bound method, a partial, a call) is
# refused whatever it names.
_VALUES = {
    "TypeNode": _names({"builtins": "str int float bool"}, _SCALARS, {"numpy": "number integer floating object_"}),
    "NdArrayNode": _names(_SCALARS, {"numpy": "ndarray"}),
    "DTypeNode": _names({"numpy": "dtype"}),
    "DictNode": _names({"builtins": "dict", "collections": "OrderedDict"}),
    **{f"{name.title()}Node": _names({"builtins": name}) for name in ("list", "tuple", "set", "slice")},
    "JsonNode": _names({"builtins": "str"}),
}
TRUSTED: Trusted = {
    **_VALUES,
    "ObjectNode": _names(_CLASSES),
    "FunctionNode": _names(_FUNCTIONS),
    "RandomStateNode": _names({"numpy.random.mtrand": "RandomState"}),
}
# Compiled code follows the indices in these without checking them: ``foreign.py`` does so before they are used.
TRUSTED_CLASSIFIERS: Trusted = {
    **_VALUES,
    "ObjectNode": _names(_CLASSIFIERS),
    "TreeNode": _names({"sklearn.tree._tree": "Tree"}),
    "SparseMatrixNode": _names({"scipy.sparse._csr": "csr_array csr_matrix"}),
}
SKOPS_PROTOCOL = 2  # the oldest in which an entry names its type where we look for it


def dump_step(name: str, step: Any) -> bytes:
    """Return a fitted transformer as a skops file, or raise if it contains types that are not on the list."""
    cure = "Use transformers of scikit-learn or skrub without functions of your own, or apply it before the pipeline"
    return dump(f"step {name!r} of the pipeline", step, TRUSTED, cure)


def load_step(place: str, data: bytes) -> Any:
    """Return the transformer in a skops file, or raise if the file names types that are not on the list."""
    step = load(place, data, TRUSTED)
    if not (step in (None, "passthrough") or hasattr(step, "transform")):
        raise ModelFileError(f"{place} holds a {type(step).__name__} instead of a transformer. Save the model again.")
    return step


def dump(what: str, value: Any, trusted: Trusted, cure: str) -> bytes:
    """Return a value as a skops file, or raise if it contains types that are not trusted."""
    try:
        data: bytes = import_module("skops.io").dumps(value)
        refused = _refused(data, trusted)
        if not refused:
            _build(data, trusted)  # fail now if it cannot be opened, while the model still exists
            return data
    except Exception as error:
        raise ModelFileError(f"{what} cannot be saved: {type(error).__name__}: {error}") from error
    raise ModelFileError(
        f"{what} cannot be saved: it holds {', '.join(refused)}, which a saved model must not contain, since opening "
        f"it could run code. {cure}."
    )


def load(place: str, data: bytes, trusted: Trusted) -> Any:
    """Return the value in a skops file, or raise if the file names types that are not trusted."""
    try:
        refused = _refused(data, trusted)
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{place} is not a skops file ({error}). Save the model again.") from error
    if refused:
        raise ModelFileError(
            f"{place} names {', '.join(refused)}, which a saved model must not contain: opening it could run code. "
            "Nothing was run. Ask its author for a model saved by deepsep."
        )
    return _build(data, trusted)


def _build(data: bytes, trusted: Trusted) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)  # deepsep.load warns of it
        return import_module("skops.io").loads(data, trusted=sorted(frozenset().union(*trusted.values())))


def _refused(data: bytes, trusted: Trusted = TRUSTED) -> list[str]:
    """Return the types in a skops file that are not trusted, without building anything."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError("its entries are compressed")
        schema = json.loads(archive.read("schema.json"))
    if not (isinstance(schema["protocol"], int) and schema["protocol"] >= SKOPS_PROTOCOL):
        raise ValueError(f"protocol {schema['protocol']!r}")
    refused, pending = set(), [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if "__loader__" in item:
                name = f"{item['__module__']}.{item['__class__']}"
                if name not in trusted.get(str(item["__loader__"]), ()):
                    refused.add(name)
            pending += item.values()
        elif isinstance(item, list):
            pending += item
    return sorted(refused)
