"""Ladder network: a classifier that must also remove noise from each of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, cross_entropy

from deepsep.classifiers.declared_settings import real, settings
from deepsep.core.checks import is_number, require
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch, choose_device
from deepsep.networks.interface import BN_EPS, BN_MOMENTUM, Array
from deepsep.networks.torch_network import linear_layer
from deepsep.zoo.network_method import NetworkMethod


@settings
class LadderNetwork(NetworkMethod):
    r"""Ladder network: a classifier that must also remove noise from each of its layers, on all rows.

    Every row passes through the encoder twice: clean, and with normal noise on the features and on every layer. The
    noisy pass gives the cross-entropy on the labelled rows. A decoder goes back from the noisy probabilities to the
    features, and estimates each layer's clean values from the noisy ones and from the layer above; its mean squared
    errors, times λ, are added. Predictions are those of the clean pass. Layers are normalised over
    the batch before noise and tanh.

    Parameters
    ----------
    noise : float, default=0.6
        Standard deviation of the noise; features and layers have variance 1. The paper has 0.3 for images.
    denoising : sequence of float, default=(10.0, 1.0)
        λ of the features, of the first layer, and so on up to the classes; the last one applies to all further
        layers. The paper has (1000, 10, 0.1) for images.

    References
    ----------
    A. Rasmus, H. Valpola, M. Honkala, M. Berglund, T. Raiko. Semi-supervised learning with ladder networks. NIPS 2015.
    """

    dropout: ClassVar[float] = 0.0  # type: ignore[misc]  # not a setting: noise on every layer replaces it
    method_name = "ladder"

    noise: float = real(0.6, at_least=0)
    denoising: Sequence[float] = (10.0, 1.0)
    l2: float = 1e-5
    steps: int = 1000

    def _check_parameters(self) -> None:
        weights = self.denoising if isinstance(self.denoising, Sequence) else ()
        require(
            self,
            "denoising",
            0 < len(weights) <= len(self.hidden) + 2 and all(is_number(value) and value >= 0 for value in weights),
            f"up to {len(self.hidden) + 2} numbers of at least 0, such as (10.0, 1.0)",
        )

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        device = torch.device(choose_device(self.device))
        X = self._scale(rows, device)
        codes = torch.from_numpy(rows.codes).to(device)
        ladder = Ladder(X.shape[1], rows.n_classes, hidden=tuple(self.hidden), l2=float(self.l2), rng=rng).to(device)
        weights = [self.denoising[min(i, len(self.denoising) - 1)] for i in range(len(ladder.widths))]

        def loss_of(batch: Batch) -> Tensor:
            x = X[batch.both]
            noise = [self.noise * torch.randn(len(x), m, device=device) for m in ladder.widths]
            noisy, clean = ladder.encode(x, noise), ladder.encode(x)
            loss = cross_entropy(noisy.scores[: len(batch.labeled)], codes[batch.labeled])
            costs = denoising_costs(clean, ladder.decode(noisy))
            return loss + sum(weight * cost for weight, cost in zip(weights, costs, strict=True))

        self._train(ladder, rows, loss_of, rng)
        self._keep(ladder.state())


class Path(NamedTuple):
    """Values of a pass through the encoder, with one entry per layer from the rows (0) to the class scores (L)."""

    z: list[Tensor]  # normalised, before scale, shift and tanh; z[0] are the rows
    mean: list[Tensor]  # of the batch before normalisation, in a clean pass
    std: list[Tensor]
    scores: Tensor


class Ladder(nn.Module):
    r"""Encoder and decoder of a ladder network.

    In layer l of the encoder, :math:`z_l = \mathrm{norm}(W_l h_{l-1}) + \text{noise}` and
    :math:`h_l = \tanh(\gamma_l (z_l + \beta_l))`; the scores of the classes are :math:`\gamma_L (z_L + \beta_L)`. The
    decoder comes back from the top: with :math:`u_l = \mathrm{norm}(V_{l+1} \hat z_{l+1})`, and :math:`u_L` the
    normalised probabilities of the noisy pass, :math:`\hat z_l = g(\tilde z_l, u_l)`.
    """

    def __init__(
        self, n_features: int, n_classes: int, *, hidden: Sequence[int], l2: float = 0.0, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.l2 = l2
        self.widths = (n_features, *hidden, n_classes)
        self.linears = nn.ModuleList([linear_layer(rng, n_in, n_out) for n_in, n_out in pairwise(self.widths)])
        self.gamma = nn.ParameterList([torch.ones(m) for m in self.widths[1:]])
        self.beta = nn.ParameterList([torch.zeros(m) for m in self.widths[1:]])
        norms = [nn.BatchNorm1d(m, eps=BN_EPS, momentum=BN_MOMENTUM, affine=False) for m in self.widths[1:]]
        self.norms = nn.ModuleList(norms)  # with the moments of the clean pass
        self.backs = nn.ModuleList([linear_layer(rng, n_out, n_in) for n_in, n_out in pairwise(self.widths)])
        for layer in (*self.linears, *self.backs):
            layer.register_parameter("bias", None)  # batch norm would remove it, and β follows
        self.combinators = nn.ModuleList([Combinator(m) for m in self.widths])

    def encode(self, x: Tensor, noise: Sequence[Tensor] | None = None) -> Path:
        """Return a pass through the encoder, clean or with noise for each layer from the rows on.

        The running moments follow the clean pass of a module in training.
        """
        h = x if noise is None else x + noise[0]
        z, means, stds = [h], [x.new_zeros(())], [x.new_ones(())]
        for i, linear in enumerate(self.linears):
            a = linear(h)
            z.append(self.norms[i](a) if noise is None else batch_normalised(a) + noise[i + 1])
            if noise is None:
                var, mean = torch.var_mean(a, 0, correction=0)
                means.append(mean)
                stds.append((var + BN_EPS).sqrt())
            scaled = self.gamma[i] * (z[-1] + self.beta[i])
            h = torch.tanh(scaled) if i < len(self.linears) - 1 else scaled
        return Path(z, means, stds, h)

    def decode(self, noisy: Path) -> list[Tensor]:
        """Return the decoder's ẑ of every layer, from the rows (0) to the top (L)."""
        top = len(self.widths) - 1
        u = batch_normalised(torch.softmax(noisy.scores, -1))
        out: list[Tensor] = []
        for i in range(top, -1, -1):
            if i < top:
                u = batch_normalised(self.backs[i](out[-1]))
            out.append(self.combinators[i](noisy.z[i], u))
        return out[::-1]

    @property
    def module(self) -> nn.Module:
        """The module that is trained: this one."""
        return self

    def decays(self) -> list[tuple[Tensor, float]]:
        """Return every parameter with the coefficient of its squared norm in the loss."""
        return [(p, self.l2 if "weight" in name else 0.0) for name, p in self.named_parameters()]

    def state(self) -> dict[str, Array]:
        """Return the clean network, with its running moments, as a state of the default network.

        Its batch norm after the first tanh becomes the identity.
        """
        names = [f"encoder.{0 if i == 0 else 2 + 2 * i}" for i in range(len(self.linears) - 1)] + ["head"]
        out: dict[str, Array] = {}
        for i, (name, linear) in enumerate(zip(names, self.linears, strict=True)):
            mean, var = (self.norms[i].get_buffer(moment).double() for moment in ("running_mean", "running_var"))
            factor = self.gamma[i].double() / (var + BN_EPS).sqrt()
            out[f"{name}.weight"] = _array(factor[:, None] * linear.weight.double())
            out[f"{name}.bias"] = _array(self.gamma[i].double() * self.beta[i].double() - factor * mean)
        m = self.widths[1]
        for kind, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0 - BN_EPS)):
            out[f"encoder.2.{kind}"] = np.full(m, value, np.float32)
        out["encoder.2.num_batches_tracked"] = np.array(0)
        return out


class Combinator(nn.Module):
    r"""Denoising function g of a layer, which estimates z from the noisy :math:`\tilde z` and the signal u from above.

    For each unit :math:`g(\tilde z, u) = (\tilde z - \mu(u))\, v(u) + \mu(u)`, the best denoiser of a normal z whose
    moments depend on u, with :math:`\mu(u) = a_1 \sigma(a_2 u + a_3) + a_4 u + a_5` and v(u) the same with
    :math:`a_6, \dots, a_{10}`.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        start = torch.zeros(10, width)
        start[[1, 6]] = 1.0  # a_2 and a_7
        self.a = nn.Parameter(start)

    def forward(self, z: Tensor, u: Tensor) -> Tensor:
        """Return g(z, u) of each row and unit."""
        a1, a2, a3, a4, a5, a6, a7, a8, a9, a10 = self.a.unbind()
        mean = a1 * torch.sigmoid(a2 * u + a3) + a4 * u + a5
        trust = a6 * torch.sigmoid(a7 * u + a8) + a9 * u + a10
        return torch.addcmul(mean, z - mean, trust)


def denoising_costs(clean: Path, rebuilt: Sequence[Tensor]) -> list[Tensor]:
    """Return, for each layer, the mean square of z - ẑ, with ẑ normalised by the moments of the clean batch."""
    return [
        (z - (hat - mean) / std).square().mean()
        for z, mean, std, hat in zip(clean.z, clean.mean, clean.std, rebuilt, strict=True)
    ]


def batch_normalised(x: Tensor) -> Tensor:
    """Return rows normalised to mean 0 and variance 1 over the batch."""
    return batch_norm(x, None, None, training=True, eps=BN_EPS)


def _array(values: Tensor) -> Array:
    out: Array = values.detach().cpu().numpy().astype(np.float32)
    return out
