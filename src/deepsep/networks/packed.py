"""Many default networks trained as one, for a GPU that a single small network cannot fill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from deepsep.errors import DataError
from deepsep.networks.interface import (
    BN_EPS,
    BN_MOMENTUM,
    Array,
    Loss,
    check_names,
    check_phase,
    per_layer,
    present_rows,
    streams,
)
from deepsep.networks.loop import adam, private_seed, row_losses, run_epochs, tensor
from deepsep.networks.numpy_network import NumpyNetwork

EVALUATE_ROWS = 4096


class PackedNetwork:
    """M members of the default network, every array with a leading dimension of members.

    Members share the number of rows and the settings of a phase, nothing else: each has its own weights, targets,
    order of the rows and dropout, and is trained as it would be alone.

    Parameters
    ----------
    n_features, n_classes, hidden, dropout, l2
        Of each member; see :class:`deepsep.networks.NumpyNetwork`.
    device : str or torch.device
        ``"cpu"`` or ``"cuda"``.
    rngs : sequence of numpy.random.Generator
        Source of the initial weights of each member.
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        hidden: Sequence[int] = (128, 32),
        dropout: float = 0.5,
        l2: float | Sequence[float] = 0.0,
        device: str | torch.device = "cpu",
        rngs: Sequence[np.random.Generator],
    ) -> None:
        self.n_members, self.n_classes = len(rngs), n_classes
        self.dropout = dropout
        self.device = torch.device(device)
        self.l2 = per_layer(l2, len(hidden) + 1)
        members = [NumpyNetwork(n_features, n_classes, hidden=hidden, dropout=dropout, rng=rng) for rng in rngs]
        self._layers = members[0].layer_names()
        self._tensors: dict[str, Tensor] = {}
        states = [member.state() for member in members]
        for name in states[0]:
            self._tensors[name] = torch.from_numpy(np.stack([state[name] for state in states])).to(self.device)
            if name.endswith((".weight", ".bias")):
                self._tensors[name].requires_grad_()

    def train(
        self,
        X: Array | Tensor,
        targets: Array | Tensor,
        *,
        loss: Loss,
        epochs: int,
        lr: float,
        batch_size: int,
        rngs: Sequence[np.random.Generator],
        weight: Array | None = None,
    ) -> Array:
        """Run one phase of every member; see :class:`deepsep.networks.Network`.

        Parameters
        ----------
        X : array of shape (n, d) or (M, n, d)
            Rows, shared or for each member.
        targets : array of shape (M, n, c)
            Targets of each member.
        loss, epochs, lr, batch_size
            As for one network.
        rngs : sequence of numpy.random.Generator
            One for each member. The order of its rows is what it would be alone.
        weight : array of shape (n,), optional
            Weights of the rows, the same for every member.

        Returns
        -------
        array of shape (epochs, M)
            Mean loss of each epoch and member.
        """
        M, n = self.n_members, X.shape[-2]
        if len(targets) != M or len(rngs) != M:
            raise DataError(f"{len(targets)} sets of targets and {len(rngs)} generators for {M} members")
        check_phase(n, tuple(targets.shape[1:]), n_classes=self.n_classes, loss=loss, batch_size=batch_size)
        kept, weight = present_rows(n, weight)
        rows, goals = tensor(X, self.device), tensor(targets, self.device)
        weights = (
            torch.ones(n, dtype=torch.float32, device=self.device) if weight is None else tensor(weight, self.device)
        )
        n = n if kept is None else len(kept)
        mass = n if weight is None else float(weight.sum(dtype=np.float64))
        orders, noise_seeds = zip(*map(streams, rngs), strict=True)
        member = torch.arange(M, device=self.device)[:, None]
        decay = {f"{name}.weight": value for name, value in zip(self._layers, self.l2, strict=True)}
        optimiser = adam([(p, decay.get(name, 0.0)) for name, p in self._tensors.items() if p.requires_grad], lr=lr)

        def draw_order() -> Array:
            order = np.stack([rng.permutation(n) for rng in orders])
            return order if kept is None else kept[order]

        def step(at: Tensor) -> Tensor:
            w = weights[at]
            optimiser.zero_grad()
            x = rows[at] if rows.ndim == 2 else rows[member, at]
            scores = self._linear("head", self._encode(x, training=True))
            totals = (row_losses(scores, goals[member, at], loss) * w).sum(-1)
            # The sum over the members: none has a part in another's gradient.
            torch.autograd.backward((totals / w.sum(-1)).sum())
            optimiser.step()
            return totals.detach()

        history = np.empty((epochs, M))

        def record(epoch: int, totals: Array) -> None:
            history[epoch] = totals / mass

        with private_seed(int(np.bitwise_xor.reduce(noise_seeds)), self.device):
            size = min(batch_size, n)
            run_epochs(step, draw_order, record, members=(M,), n=n, epochs=epochs, batch_size=size, device=self.device)
        return history

    def embed(self, X: Array | Tensor) -> Array:
        """Return f(x) for every member and row, of shape (M, n, width), in evaluation mode."""
        return self._evaluate(X, head=False)

    def predict_proba(self, X: Array | Tensor) -> Array:
        """Return g(f(x)) for every member and row, of shape (M, n, c), in evaluation mode."""
        return self._evaluate(X, head=True)

    def state(self) -> dict[str, Array]:
        """Return a copy of the states of the members, stacked: ``state()[name][i]`` is that of member i alone."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self._tensors.items()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Take over what :meth:`state` returned."""
        check_names(state, self.state())
        with torch.no_grad():
            for name, value in self._tensors.items():
                value.copy_(torch.as_tensor(np.array(state[name])))

    def _evaluate(self, X: Array | Tensor, *, head: bool) -> Array:
        parts = []
        with torch.no_grad():
            for start in range(0, max(X.shape[-2], 1), EVALUATE_ROWS):
                x = tensor(X[..., start : start + EVALUATE_ROWS, :], self.device)
                out = self._encode(x.expand(self.n_members, *x.shape[-2:]), training=False)
                if head:
                    out = torch.softmax(self._linear("head", out), -1)
                parts.append(out.cpu().numpy())
        return np.concatenate(parts, axis=1)

    def _encode(self, x: Tensor, *, training: bool) -> Tensor:
        """Map (M, rows, d) to (M, rows, width)."""
        t = self._tensors
        mean, var = t["encoder.2.running_mean"], t["encoder.2.running_var"]
        h = torch.tanh(self._linear("encoder.0", x))
        if training and h.shape[1] > 1:
            h = _batch_norm(h, mean, var)
            t["encoder.2.num_batches_tracked"].add_(1)
        else:
            h = (h - mean[:, None]) * torch.rsqrt(var[:, None] + BN_EPS)
        h = h * t["encoder.2.weight"][:, None] + t["encoder.2.bias"][:, None]
        h = functional.dropout(h, self.dropout, training=training)
        for name in self._layers[1:-1]:
            h = torch.tanh(self._linear(name, h))
        return h

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return torch.baddbmm(self._tensors[f"{name}.bias"][:, None], x, self._tensors[f"{name}.weight"].mT)


def _batch_norm(x: Tensor, running_mean: Tensor, running_var: Tensor) -> Tensor:
    """Normalise the rows of each member, and let its running moments follow."""
    n = x.shape[1]
    mean = (x * (1 / n)).sum(1, keepdim=True)
    centred = x - mean
    var = (centred * (1 / n) * centred).sum(1, keepdim=True)
    with torch.no_grad():
        running_mean.lerp_(mean.squeeze(1), BN_MOMENTUM)
        running_var.lerp_(var.squeeze(1) * (n / (n - 1)), BN_MOMENTUM)  # the variance of a sample
    return centred * torch.rsqrt(var + BN_EPS)
