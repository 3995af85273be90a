"""The view of principal components, which inference offers beside the columns themselves."""

from __future__ import annotations

import torch
from torch import Tensor

MOST = 40


def principal_components(values: Tensor, n_context: int, n_components: int) -> tuple[Tensor, Tensor]:
    """Return the first components of the standardised columns, and the logs of their deviations (the first is 0).

    The axes come from the context rows alone: rows that are only asked about influence nothing.
    """
    context = values[:, :n_context]
    mean = context.mean(1, keepdim=True)
    scale = context.std(1, keepdim=True) + 1e-5 * mean.abs() + 1e-12
    scores = ((values - mean) / scale).clamp(-8, 8)
    context = scores[:, :n_context]
    size, axes = torch.linalg.eigh(context.transpose(1, 2) @ context / n_context)
    size, axes = size.flip(1)[:, :n_components], axes.flip(2)[:, :, :n_components]
    deviation = size.clamp(min=1e-8).sqrt()
    return scores @ axes, (deviation / deviation[:, :1]).log().clamp(min=-6)
