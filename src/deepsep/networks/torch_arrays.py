"""The TSVM's pass over the rows in torch, for rows that are on a GPU already or are worth moving there.

The pass itself is ``Rows`` of :mod:`deepsep.solvers`, which gets :class:`TorchArrays` as its array library. Rows and
multipliers stay on the device: a sweep sends w and receives sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepsep.networks.interface import Array

CHUNK_NUMBERS = {"cuda": 2**28, "cpu": 2**22}  # in the largest array, which has one per row, problem and feature
SPLIT_ROWS = 1024  # are summed in their own precision; these sums are added in double precision
SELECT_NUMBERS = 2**25  # with more in the largest array, rows without curvature are left out, at the cost of a wait
MAX_HOST_ROWS = 20_000  # that a CPU has swept before a GPU has launched its kernels


class TorchArrays:
    """torch's tensors on a device, as an array library for ``Rows``.

    Parameters
    ----------
    device : torch.device or str
        It must support double precision, which Apple's GPUs do not.
    """

    xp = torch

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Work without gradients, and with products in full precision, regardless of the settings elsewhere.

        Scores in TF32 are wrong in their fourth digit. The certificate would notice, and everything that follows would
        be done in double precision.
        """
        matmul: Any = torch.backends.cuda.matmul
        # torch 2.9 renamed the setting, and warns of code that uses both names.
        name, exact = ("fp32_precision", "ieee") if hasattr(matmul, "fp32_precision") else ("allow_tf32", False)
        before = getattr(matmul, name)
        if before != exact:
            setattr(matmul, name, exact)
        try:
            with torch.no_grad():
                yield
        finally:
            if before != exact:
                setattr(matmul, name, before)

    def precision(self, x: Any) -> Any:
        """Return double precision for rows that have it, single precision for all others."""
        return torch.float64 if str(x.dtype).endswith("float64") else torch.float32

    def rows(self, x: Any, dtype: Any, ones: bool) -> Tensor:
        """Return contiguous rows on the device, without copying if they are that already."""
        there = self.load(x, dtype)
        return torch.cat([there, there.new_ones(len(there), 1)], dim=1) if ones else there.contiguous()

    def load(self, values: Any, dtype: Any = None) -> Tensor:
        """Return values on the device, without copying if they are there in this type."""
        if not isinstance(values, Tensor):
            # Converted before the transfer. torch warns of arrays that are not writable, such as a memory map.
            wanted = {torch.float64: np.float64, torch.float32: np.float32}.get(dtype)
            values = torch.from_numpy(np.require(values, wanted, ["C", "W"]))
        there: Tensor = values.detach().to(self.device, dtype)
        return there

    def cast(self, x: Tensor, dtype: Any) -> Tensor:
        """Return a tensor as one of this type."""
        return x.to(dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Tensor:
        """Return a new tensor on the device."""
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def send(self, *arrays: Array, dtype: Any = None) -> list[Tensor]:
        """Return tensors on the device, in one transfer."""
        packed = self.load(np.concatenate([array.ravel() for array in arrays]), dtype)
        parts = torch.split(packed, [array.size for array in arrays])
        return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]

    def host(self, *tensors: Tensor) -> list[Array]:
        """Return NumPy arrays, in one transfer, since every transfer waits for the device."""
        packed = torch.cat([tensor.flatten() for tensor in tensors]).cpu().numpy()
        parts = np.split(packed, np.cumsum([math.prod(tensor.shape) for tensor in tensors])[:-1])
        return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def places(self, n: int, c: int, m: int, dtype: Any) -> Iterator[slice]:
        """Yield few and large chunks, each a multiple of SPLIT_ROWS except the last."""
        numbers = CHUNK_NUMBERS.get(self.device.type, CHUNK_NUMBERS["cpu"])
        size = max(1, numbers // (c * m * SPLIT_ROWS)) * SPLIT_ROWS
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))

    def scores(self, x: Tensor, w: Tensor, offset: Tensor) -> Tensor:
        """Return the scores."""
        return torch.addmm(offset, w.T, x.T)

    def multiply_add(self, a: Tensor, factor: Tensor, x: Tensor) -> Tensor:
        """Return the sum."""
        return torch.addcmul(a.to(x.dtype), factor, x)

    def products(self, a: Tensor, x: Tensor) -> Tensor:
        """Return the product, in double precision."""
        return _products(a.T, x)

    def totals(self, a: Tensor, cost: Tensor) -> Tensor:
        """Return the product in double precision, as one of matrices, since a sum would copy its argument first."""
        return _products(a.T.to(cost.dtype), cost[:, None])[:, 0]

    def add_totals(self, sums: Tensor, terms: tuple[Tensor, ...], cost: Tensor) -> None:
        """Add one product of all terms: on a GPU the time depends on the number of operations."""
        sums += self.totals(torch.cat(terms), cost).view(sums.shape)

    def curvature(self, kappa: Tensor, m: int, centre: Array | None) -> _Curvature:
        """Return matrices of any size."""
        return _Curvature(kappa, m)


class _Curvature:
    """The curvature as matrices, from one product for all problems."""

    def __init__(self, kappa: Tensor, m: int) -> None:
        self._kappa = kappa
        self._sums = kappa.new_zeros((len(kappa), m * m), dtype=torch.float64)

    def add(self, x: Tensor, cost: Tensor, alpha: Tensor) -> None:
        """Add some rows; the stiffness is multiplied at the end."""
        m = x.shape[1]
        inside = alpha.frac() != 0  # alpha is between 0 and 1
        weight = inside * cost
        if weight.numel() * m > SELECT_NUMBERS:
            # The number of rows near a kink is known only after waiting for the device, but most rows are not.
            rows = inside.any(dim=0).nonzero().squeeze(1)
            x, weight = x.index_select(0, rows), weight.index_select(1, rows)
        # The concatenated problems need one product instead of many small ones.
        weighted = (weight.T.unsqueeze(2) * x.unsqueeze(1)).flatten(1)
        self._sums += _products(weighted, x).view(self._sums.shape)

    def result(self) -> list[Array]:
        """Return a matrix (m, m) for each problem."""
        m = math.isqrt(self._sums.shape[1])
        return list((self._sums * self._kappa).cpu().numpy().reshape(-1, m, m))


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Return left' right in double precision, a sum over rows; SPLIT_ROWS at a time are summed in their own."""
    n, whole = len(right), len(right) // SPLIT_ROWS * SPLIT_ROWS
    if not whole:
        return (left.T @ right).double()
    left_pieces, right_pieces = (side[:whole].view(-1, SPLIT_ROWS, side.shape[1]) for side in (left, right))
    total = torch.bmm(left_pieces.transpose(1, 2), right_pieces).sum(dim=0, dtype=torch.float64)
    return total if whole == n else total.add_(left[whole:].T @ right[whole:])


def rows_by_size(rows: Callable[..., Any], *, device: torch.device | str | None = None) -> Callable[..., Any]:
    """Return a function that makes passes: on a device for many rows, on the host for few.

    The start of a TSVM, from the labelled rows and a sample of the others, has too few rows for a GPU.

    Parameters
    ----------
    rows : callable
        ``Rows`` of :mod:`deepsep.solvers`.
    device : torch.device or str, optional
        The device for many rows; by default that of the rows.
    """

    def make(labeled: Any, signs: Array, cost: Any, unlabeled: Any, cost_unlabeled: Any, **rest: Any) -> Any:
        if labeled.shape[0] + unlabeled.shape[0] > MAX_HOST_ROWS:
            library = TorchArrays(device_of(labeled, unlabeled) if device is None else device)
            return rows(labeled, signs, cost, unlabeled, cost_unlabeled, library=library, **rest)
        return rows(_host(labeled), signs, _host(cost), _host(unlabeled), _host(cost_unlabeled), **rest)

    return make


def device_of(*rows: Any) -> torch.device:
    """Return the device of the first tensor among these; the CPU if all are arrays."""
    return next((x.device for x in rows if isinstance(x, Tensor)), torch.device("cpu"))


def _host(values: Any) -> Array:
    return np.asarray(values.detach().cpu().numpy() if isinstance(values, Tensor) else values)
