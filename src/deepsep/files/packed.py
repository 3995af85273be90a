"""A compressed file of plain values and arrays, which never unpacks to more than a model can need."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as write_tensors

from deepsep.errors import ModelFileError
from deepsep.files.array_layout import lay_out, restore_arrays

ALLOWED_BYTES = 1 << 28  # to which any compressed part may unpack


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
