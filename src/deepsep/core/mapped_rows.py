"""A matrix in a file, larger than memory: rows are read as they are asked for, and given back to the system."""

from __future__ import annotations

import errno
import mmap
import shutil
import tempfile
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deepsep.errors import DataError

Array = NDArray[Any]

CHUNK = 8_192  # rows in flight
HELD = 1 << 26  # bytes read after which pages are given back; the system keeps those that are still free in its cache
AROUND = 1 << 16  # bytes that the system maps around a row that is read alone
SCATTERED = HELD // AROUND  # rows read alone after which pages are given back


class MappedRows:
    """Rows of float32 in a file, read like those of an array, by slice or by index; every read is a copy.

    It can be swept like an array, too: ``rows -= centre`` is done as rows are read, and ``rows @ w`` in chunks.

    Parameters
    ----------
    matrix : numpy.memmap
        The rows of the file.
    index : array of int, optional
        Which of them these are. None: all.
    weight : array, optional
        A weight for each row of the file. None: 1.
    """

    ndim = 2

    def __init__(self, matrix: Any, index: Array | None = None, weight: Array | None = None) -> None:
        self._map, self._matrix, self._index, self.weight = matrix, np.asarray(matrix), index, weight
        self._centre: Array | None = None
        self._ones = False
        self._read = 0
        self.dtype = matrix.dtype

    @classmethod
    def write(cls, blocks: Iterable[Array], shape: tuple[int, int], weight: Array | None = None) -> Self:
        """Write blocks of rows to a temporary file, which is gone with the last reference to it, however that ends."""
        needed, folder = 4 * shape[0] * shape[1], tempfile.gettempdir()
        full = f"{needed / 1e9:,.1f} GB are needed for {shape[0]:,} rows of {shape[1]:,} features in {folder}"
        cure = "Make room, or name another folder in the environment variable TMPDIR."
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise DataError(f"{full}, and {free / 1e9:,.1f} GB are free. {cure}")
        file = tempfile.TemporaryFile(prefix="deepsep-", dir=folder)  # noqa: SIM115
        try:
            written = 0
            for block in blocks:
                file.write(np.ascontiguousarray(block, np.float32).data)
                written += len(block)
            file.flush()
            if written != shape[0]:
                raise DataError(f"{written:,} rows came in place of {shape[0]:,}: the table has changed. Fit again.")
            return cls(np.memmap(file, np.float32, "r", shape=shape), weight=weight)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise DataError(f"{full}, and the disk is full. {cure}") from error
        finally:
            file.close()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return len(self), self._matrix.shape[1] + self._ones

    def __len__(self) -> int:
        return len(self._matrix if self._index is None else self._index)

    def part(self, index: Array) -> MappedRows:
        """Return some of the rows, which are not read yet."""
        return self._of(index if self._index is None else self._index[index])

    def copy(self) -> MappedRows:
        """Return the same rows, from which something else can be subtracted."""
        return self._of(self._index)

    def _of(self, index: Array | None) -> MappedRows:
        twin = MappedRows(self._map, index)
        twin._centre = self._centre
        return twin

    def with_ones(self) -> MappedRows:
        """Return the rows with a column of ones behind."""
        twin = self.copy()
        twin._ones = True
        return twin

    def astype(self, dtype: Any, copy: bool = True) -> MappedRows:
        """Return the rows themselves: it is the chunks of them that are converted."""
        return self

    def __isub__(self, centre: Array) -> Self:
        self._centre = centre if self._centre is None else self._centre + centre
        return self

    def __matmul__(self, w: Array) -> Array:
        out = np.empty((len(self), w.shape[1]), w.dtype)
        for start in range(0, len(self), CHUNK):
            out[start : start + CHUNK] = self[start : start + CHUNK] @ w
        return out

    def __getitem__(self, at: Any) -> Array:
        index = self._places(at)
        n = len(range(*index.indices(len(self._matrix)))) if isinstance(index, slice) else len(index)
        out = np.empty((n, self.shape[1]), np.float32)
        rows = out[:, : self._matrix.shape[1]]
        if isinstance(index, slice):
            rows[:] = self._matrix[index]
            self._give_back(rows.nbytes)
        else:
            for start in range(0, n, SCATTERED):
                part = index[start : start + SCATTERED]
                rows[start : start + SCATTERED] = self._matrix[part]
                self._give_back(AROUND * len(part))
        if self._centre is not None:
            rows -= self._centre
        out[:, rows.shape[1] :] = 1
        return out

    def _places(self, at: Any) -> Any:
        """Return where rows lie in the file: a slice, if they lie together."""
        if self._index is None and isinstance(at, slice):
            return at
        places = at if self._index is None else self._index[at]
        if len(places) > 1 and places[-1] - places[0] == len(places) - 1 and (np.diff(places) == 1).all():
            return slice(int(places[0]), int(places[-1]) + 1)
        return places

    def _give_back(self, n_bytes: int) -> None:
        self._read += n_bytes
        if self._read >= HELD and hasattr(mmap, "MADV_DONTNEED"):
            self._map._mmap.madvise(mmap.MADV_DONTNEED)
            self._read = 0
