"""Dense and sparse arrays as contiguous tensors, with a layout from which they are restored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from deepsep.core.arrays import checked_array
from deepsep.errors import ModelFileError

Array = NDArray[Any]


def lay_out(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Array], dict[str, bytes]]:
    """Return the layout of every array, contiguous tensors (all that safetensors writes correctly), and the bytes.

    The memory order is kept, because matrix products round differently in another order.
    """
    layout: dict[str, Any] = {}
    tensors: dict[str, Array] = {}
    files = {name: value for name, value in arrays.items() if isinstance(value, bytes)}
    for name, array in arrays.items():
        if name in files:
            layout[name] = {"file": name}
            continue
        if sparse.issparse(array):
            layout[name] = {"csr": isinstance(array, sparse.sparray), "shape": list(array.shape)}
            parts = {f"{name}.{part}": getattr(array, part) for part in ("data", "indices", "indptr")}
        else:
            column_major = array.flags.f_contiguous and not array.flags.c_contiguous
            layout[name] = {"order": "F" if column_major else "C", "shape": list(array.shape)}
            parts = {name: array.T if column_major else array}
        tensors |= {part: np.ascontiguousarray(value).reshape(value.shape) for part, value in parts.items()}
    return layout, tensors, files


def part_names(layout: Mapping[str, Any]) -> list[str]:
    """Return the names of the parts that are separate files, after checking them."""
    names = [name for name, entry in layout.items() if "file" in entry]
    for name in names:
        if not re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z_]*)*", name):  # a file in the folder, not a path out of it
            raise ModelFileError(f"{name!r} is not a valid name for a part of a model. Save the model again.")
    return names


def restore_arrays(tensors: Mapping[str, Array], layout: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the arrays that ``lay_out`` stored."""
    arrays: dict[str, Any] = {}
    for name, entry in layout.items():
        if "file" in entry:
            continue
        if "csr" in entry:
            make = sparse.csr_array if entry["csr"] else sparse.csr_matrix
            parts = tuple(
                checked_array(tensors, f"{name}.{part}", (None,), "fi") for part in ("data", "indices", "indptr")
            )
            arrays[name] = make(parts, shape=tuple(entry["shape"]), copy=True)
            arrays[name].check_format(full_check=True)  # compiled code trusts these indices
        else:
            array = checked_array(
                tensors, name, tuple(entry["shape"][:: -1 if entry["order"] == "F" else 1]), "biuf"
            ).copy()
            arrays[name] = array.T if entry["order"] == "F" else array
        check_numbers(name, arrays[name])
    return arrays


def check_numbers(name: str, array: Any) -> None:
    """Raise if an array holds NaN or infinity, with which a model would predict NaN."""
    values = array.data if sparse.issparse(array) else array
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ModelFileError(f"array {name!r} has values that are not finite. Save the model again.")
