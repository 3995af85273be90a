"""Arrays as contiguous tensors with a layout, and a compressed file of plain values and arrays.

A file never unpacks to more than a model can need.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors
from scipy import sparse

from deepsep.core.arrays import Array, checked_array
from deepsep.errors import ModelFileError

ALLOWED_BYTES = 1 << 28  # to which any compressed part may unpack


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
            names = [f"{name}.{part}" for part in ("data", "indices", "indptr")]
            parts = tuple(checked_array(tensors, part, (None,), "fi") for part in names)
            arrays[name] = make(parts, shape=tuple(entry["shape"]), copy=True)
            arrays[name].check_format(full_check=True)  # compiled code trusts these indices
        else:
            column_major, shape = entry["order"] == "F", tuple(entry["shape"])
            array = checked_array(tensors, name, shape[::-1] if column_major else shape, "biuf").copy()
            arrays[name] = array.T if column_major else array
        values = arrays[name].data if "csr" in entry else arrays[name]
        if values.dtype.kind == "f" and not np.isfinite(values).all():  # the model would predict NaN
            raise ModelFileError(f"array {name!r} has values that are not finite. Save the model again.")
    return arrays


# -- compressed files ------------------------------------------------------------------------------------------


def pack_file(values: Any, arrays: Mapping[str, Any]) -> bytes:
    """Return JSON values, and arrays or CSR matrices by name, as the content of one file."""
    layout, tensors, _ = lay_out({f"array.{name}": array for name, array in arrays.items()})
    text = json.dumps([values, layout], allow_nan=False).encode("ascii")
    return compress(write_tensors({**tensors, "values": np.frombuffer(text, np.uint8)}))


def unpack_file(name: str, data: bytes) -> tuple[Any, dict[str, Any]]:
    """Return the values and arrays that ``pack_file`` stored, or raise if the file holds anything else."""
    try:
        tensors = read_tensors(decompress(name, data))
        values, layout = json.loads(tensors["values"].tobytes())
        arrays = restore_arrays(tensors, layout)
        return values, {key.removeprefix("array."): array for key, array in arrays.items()}
    except (SafetensorError, zlib.error, EOFError, OSError) as error:
        raise ModelFileError(f"{name} is damaged or not part of a model ({error}). Save the model again.") from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(
            f"{name} is not part of a model ({type(error).__name__}: {error}). Save the model again."
        ) from error


def compress(data: bytes) -> bytes:
    """Compress a part of a model with gzip, within the limits of ``decompress``."""
    packed = gzip.compress(data, 6, mtime=0)
    return packed if len(data) <= _most(packed) else gzip.compress(data, 0, mtime=0)


def decompress(name: str, packed: bytes) -> bytes:
    """Return the content of a gzip file, or raise if it is implausibly large."""
    most = _most(packed)
    content = io.BytesIO()
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        while chunk := file.read(1 << 20):
            content.write(chunk)
            if content.tell() > most:
                raise ModelFileError(
                    f"{name} has {len(packed):,} bytes and would unpack to more than {most:,}, which no model needs "
                    "and which could fill the memory. Ask its author for a model saved by deepsep."
                )
    return content.getvalue()


def _most(packed: bytes) -> int:
    """Return the size to which a file may unpack.

    A file of zeros shrinks a thousandfold, so a small forged file could fill the memory. Forests shrink by 5 to 40,
    neighbours on one-hot columns by 140.
    """
    return max(ALLOWED_BYTES, 200 * len(packed))
