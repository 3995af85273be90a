"""The view of principal components, one of the two views that the in-context network has of a table."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MOST_COMPONENTS = 40
LEAST_SPECTRUM = -6.0
_MOST_DEVIATIONS = 8


class Components(NamedTuple):
    """Principal axes of the standardised columns of B contexts."""

    mean: Tensor  # (B, 1, d)
    scale: Tensor  # (B, 1, d)
    axes: Tensor  # (B, d, k)
    spectrum: Tensor  # (B, k): logs of the components' deviations, the first being 0

    def apply(self, values: Tensor) -> Tensor:
        """Return the components of rows (B, n, d)."""
        return self._standardise(values) @ self.axes

    def apply_to_each(self, values: Tensor) -> Tensor:
        """Return the components of rows (B, n, d), computed separately for each row.

        A matrix product may round a row differently in another place. This matters because the network compares a value
        with that of the row's copy in the context. Here all sums go from the first column to the last.
        """
        scores = self._standardise(values)
        out = scores.new_zeros(*scores.shape[:2], self.axes.shape[2])
        for j in range(scores.shape[2]):
            out += scores[:, :, j, None] * self.axes[:, j, None]
        return out

    def _standardise(self, values: Tensor) -> Tensor:
        return ((values - self.mean) / self.scale).clamp(-_MOST_DEVIATIONS, _MOST_DEVIATIONS)


def find_components(context: Tensor, n_components: int) -> Components:
    """Find the first axes of ``context`` (B, c, d).

    The sign of an axis is arbitrary: here the largest entry of each is positive, so that the same rows give the same
    components on every machine, apart from rounding.
    """
    rows, columns = context.shape[1:]
    mean = context.mean(1, keepdim=True)
    scale = context.std(1, keepdim=True) + 1e-5 * mean.abs() + 1e-12
    scores = ((context - mean) / scale).clamp(-_MOST_DEVIATIONS, _MOST_DEVIATIONS)
    if columns <= rows:
        size, axes = torch.linalg.eigh(scores.transpose(1, 2) @ scores / rows)
        axes = axes.flip(2)[:, :, :n_components]
    else:  # the same from the smaller matrix of products of rows
        size, weights = torch.linalg.eigh(scores @ scores.transpose(1, 2) / rows)
        axes = scores.transpose(1, 2) @ weights.flip(2)[:, :, :n_components]
        axes = axes / axes.norm(dim=1, keepdim=True).clamp(min=1e-12)
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    deviation = size.flip(1)[:, :n_components].clamp(min=1e-8).sqrt()
    spectrum = (deviation / deviation[:, :1]).log().clamp(min=LEAST_SPECTRUM)
    return Components(mean, scale, torch.where(largest < 0, -axes, axes), spectrum)


def principal_components(values: Tensor, n_context: int, n_components: int) -> tuple[Tensor, Tensor]:
    """Return the components of all rows, and the logs of their deviations.

    The axes come from the context rows alone: rows that are only predicted have no influence.
    """
    components = find_components(values[:, :n_context], n_components)
    return components.apply(values), components.spectrum
