"""The type of arrays in signatures, and checks of the shape and type of those that were read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepsep.errors import ModelFileError

Array = NDArray[Any]


def checked_array(arrays: Mapping[str, Any], name: str, shape: tuple[int | None, ...], kinds: str) -> Any:
    """Return an array by name, or raise if its shape (None: any length) or dtype kind ("f", "i", "b") is wrong."""
    if name not in arrays:
        raise ModelFileError(f"the model has no array {name!r}. Save it again.")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
    if not fits or array.dtype.kind not in kinds:
        raise ModelFileError(
            f"array {name!r} has shape {array.shape} and type {array.dtype} instead of {shape} and {kinds!r}. Save the "
            "model again."
        )
    return array


def checked_pieces(arrays: Mapping[str, Any], name: str, lengths: str, n: int) -> list[Array]:
    """Return n arrays that were written as one, with their lengths in another array, or raise if these do not fit."""
    sizes = checked_array(arrays, lengths, (n,), "i")
    return np.split(checked_array(arrays, name, (int(sizes.sum()),), "f"), np.cumsum(sizes)[:-1])


def below(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def checked_codes(arrays: Mapping[str, Any], name: str, n_classes: int) -> Array:
    """Return an array of indices into the classes, or raise if one of them is out of range."""
    codes: Array = checked_array(arrays, name, (None,), "i")
    if codes.size and not (codes.min() >= 0 and codes.max() < n_classes):
        raise ModelFileError(f"array {name!r} has indices beyond the {n_classes} classes. Save the model again.")
    return codes
