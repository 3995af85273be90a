"""Muon: momentum whose matrices are made orthogonal, in one batch per shape."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def orthogonal(matrices: Tensor) -> Tensor:
    """Push all singular values of (n, rows, columns) towards 1, by Newton-Schulz steps in half precision."""
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        # x <- 3.4445 x + (-4.775 g + 2.0315 g g) x, in three launches
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=-4.775, alpha=2.0315), x, beta=3.4445)
    out: Tensor = x.transpose(1, 2) if tall else x
    return out.to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Muon for hidden matrices, with steps of the size that AdamW would take.

    torch's own takes the matrices one by one: some thousand launches a step for a network of many small ones.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, weight_decay: float = 0.02, momentum: float = 0.95) -> None:
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for param in params:
            by_shape.setdefault(param.shape, []).append(param)
        groups = [{"params": matrices} for matrices in by_shape.values()]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            matrices: list[Tensor] = group["params"]
            gradients = torch.stack([p.grad for p in matrices if p.grad is not None])
            state = self.state[matrices[0]]
            if not state:
                state["momentum"] = torch.zeros_like(gradients)
            state["momentum"].lerp_(gradients, 1 - group["momentum"])
            change = orthogonal(gradients.lerp(state["momentum"], group["momentum"]))
            size = 0.2 * max(matrices[0].shape) ** 0.5
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(matrices, list(change.unbind()), alpha=-group["lr"] * size)
