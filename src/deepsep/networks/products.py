"""Matrix products and attention for networks that predict on a CPU.

torch multiplies by MKL, which uses half of what an AMD processor can do on matrices of these sizes; oneDNN, which torch
contains as well, uses all of it, and computes a GELU on the way. Without oneDNN, in training and on a GPU, everything
here is torch's own.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

FEW_KEYS = 128  # up to so many, matrix products are faster than the fused attention of torch


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, gelu: bool = False) -> Tensor:
    """Return ``x @ weight.T + bias``, and its GELU if asked for."""
    if _by_one_dnn(x):
        then, how = ("gelu", "tanh") if gelu else ("none", "")
        return torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, then, [], how)  # type: ignore[no-any-return]
    y = F.linear(x, weight, bias)
    return F.gelu(y, approximate="tanh") if gelu else y


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return what queries (batch, heads, n, width), scaled already, read of all keys: (batch, n, heads * width)."""
    alone = len(keys) == 1
    if not _by_one_dnn(queries) or not (alone or keys.shape[2] <= FEW_KEYS):
        return F.scaled_dot_product_attention(queries, keys, values, scale=1.0).transpose(1, 2).flatten(2)
    if alone:
        heads = zip(queries[0], keys[0], values[0].transpose(1, 2), strict=True)
        return torch.cat([product(product(q, k).softmax(-1), v) for q, k, v in heads], 1)[None]
    heads = zip(queries.unbind(1), keys.unbind(1), values.unbind(1), strict=True)
    return torch.cat([torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v) for q, k, v in heads], 2)


def arrange(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values in the order in which :func:`attend` reads them, if a single batch entry has them all."""
    if len(keys) > 1 or not _by_one_dnn(keys):
        return keys, values
    return keys.contiguous(), values.transpose(2, 3).contiguous().transpose(2, 3)


def _by_one_dnn(x: Tensor) -> bool:
    # In inference mode alone: these products have no gradients.
    return torch.is_inference_mode_enabled() and x.device.type == "cpu" and x.dtype == torch.float32 and _HAS_ONE_DNN


_HAS_ONE_DNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")  # type: ignore[no-untyped-call]
