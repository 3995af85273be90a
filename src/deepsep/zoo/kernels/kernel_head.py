r"""A Gaussian process on an embedding, in torch: the loss of deep kernel learning.

Targets are y(x) = f(x) + noise, with f of mean 0 and the kernel a² exp(-|e - e'|² / 2λ²) of embeddings e. All classes
share the kernel, and with it one Cholesky factor.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class KernelHead(nn.Module):
    """Length, amplitude and noise of the Gaussian process, as logarithms.

    Parameters
    ----------
    width : int
        Width of the embedding. If its values are of the order of 1, rows are neither all alike nor all different at
        first.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.log_length = nn.Parameter(torch.tensor(0.5 * math.log(width / 2), dtype=torch.float32))
        self.log_variance = nn.Parameter(torch.tensor(0.0, dtype=torch.float32))
        self.log_noise = nn.Parameter(torch.tensor(math.log(0.1), dtype=torch.float32))

    def settings(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return λ, a² and the variance of the noise, in double precision."""
        length, variance, noise = (p.double().exp() for p in (self.log_length, self.log_variance, self.log_noise))
        return length, variance, noise + 1e-3  # so that rows with equal embeddings may differ

    def costs(self, known: Tensor, targets: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log marginal likelihood of rows, and the mean posterior variance of f at other rows.

        Parameters
        ----------
        known : tensor (l, k)
            Embeddings of the rows with targets.
        targets : tensor (l, c)
            The likelihood is a mean over rows and columns.
        others : tensor (m, k)
            Embeddings of the other rows; without any, their variance is 0.
        """
        length, variance, noise = self.settings()
        known, others, targets = known.double() / length, others.double() / length, targets.double()
        eye = torch.eye(len(known), dtype=torch.float64, device=known.device)
        root = torch.linalg.cholesky_ex(variance * gaussian(known, known) + noise * eye)[0]
        fit = torch.linalg.solve_triangular(root, targets, upper=False).square().mean()
        log_det = 2 * root.diagonal().log().mean()
        loss = 0.5 * (fit + log_det + math.log(2 * math.pi))
        if not len(others):
            return loss, torch.zeros_like(loss)
        seen = torch.linalg.solve_triangular(root, variance * gaussian(known, others), upper=False)
        return loss, variance - seen.square().sum(0).mean()


def gaussian(a: Tensor, b: Tensor) -> Tensor:
    """Return exp(-|a_i - b_j|² / 2)."""
    square = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
    return (-0.5 * square.clamp_min(0)).exp()
