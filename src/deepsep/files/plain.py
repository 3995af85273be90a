"""Lossless conversion of plain values to JSON and back, for the contents of a saved model that are not arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from deepsep.core.arrays import Array
from deepsep.errors import ModelFileError


def pack(value: Any) -> Any:
    """Convert a plain value to JSON types; types that JSON lacks become a mapping with one key like "__tuple__"."""
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.bool):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"__float__": str(float(value))}
    if isinstance(value, list):
        return [pack(item) for item in value]
    if isinstance(value, tuple):
        return {"__tuple__": [pack(item) for item in value]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("__") for key in value):
            return {str(key): pack(item) for key, item in value.items()}
        return {"__items__": [[pack(key), pack(item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray):
        return {"__labels__": encode_classes(value)}
    raise TypeError(f"{type(value).__name__}")


def unpack(value: Any) -> Any:
    """Restore a value from ``pack``."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "__float__" in value:
        return float(value["__float__"])
    if "__tuple__" in value:
        return tuple(unpack(item) for item in value["__tuple__"])
    if "__items__" in value:
        return {unpack(key): unpack(item) for key, item in value["__items__"]}
    if "__labels__" in value:
        return decode_classes(value["__labels__"])
    return {key: unpack(item) for key, item in value.items()}


def encode_classes(labels: Array) -> dict[str, Any]:
    """Return a 1-d array of strings, integers, booleans or floats as plain values with its dtype."""
    kind, values = labels.dtype.kind, labels.tolist()
    text = kind == "U" or (kind == "O" and all(isinstance(value, str) for value in values))
    if labels.ndim != 1 or not (text or (kind in "biuf" and labels.dtype.itemsize <= 8)):
        raise TypeError(f"an array of type {labels.dtype} and shape {labels.shape}")
    return {
        "dtype": "object" if kind == "O" else labels.dtype.str,
        "values": [str(v) for v in values] if text else values,
    }


def decode_classes(encoded: Mapping[str, Any]) -> Array:
    """Restore an array from ``encode_classes``, with the same dtype."""
    dtype, values = encoded["dtype"], encoded["values"]
    if dtype != "object" and not re.fullmatch(r"[<>|]([biuf][1248]|U\d{1,6})", dtype):
        raise ModelFileError(f"{dtype!r} is not a valid type of labels. Save the model again.")
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    if "U" in dtype and int(dtype.partition("U")[2]) > max(longest, 1_000):
        raise ModelFileError(f"labels of type {dtype!r} are longer than any of them. Save the model again.")
    labels = np.array(values, dtype=dtype)
    if encode_classes(labels) != encoded:
        raise ModelFileError(f"labels {values!r} do not have the type {dtype!r}. Save the model again.")
    return labels
