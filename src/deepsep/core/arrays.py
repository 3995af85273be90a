"""Arrays that come from a file: each is checked for its shape and type before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from deepsep.errors import ModelFileError

Array = NDArray[Any]


def take(arrays: Mapping[str, Any], name: str, shape: tuple[int | None, ...], kinds: str) -> Any:
    """Return an array after a check of its shape (None: any length) and of the kind of its numbers ("f", "i", "b")."""
    if name not in arrays:
        raise ModelFileError(f"the model lacks the array {name!r}. Save it again.")
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
    if not fits or array.dtype.kind not in kinds:
        raise ModelFileError(
            f"array {name!r} has the shape {array.shape} and the type {array.dtype} where {shape} and {kinds!r} "
            "belong. Save the model again."
        )
    return array


def take_codes(arrays: Mapping[str, Any], name: str, n_classes: int) -> Array:
    """Return an array of indices into the classes, after a check that they are."""
    codes: Array = take(arrays, name, (None,), "i")
    if codes.size and not (codes.min() >= 0 and codes.max() < n_classes):
        raise ModelFileError(f"array {name!r} points beyond the {n_classes} classes. Save the model again.")
    return codes
