"""Base of the generative adversarial networks that classify, their opponents, and the losses of made-up rows.

Noise is always an argument of the opponents, so that they are deterministic functions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch, TorchNetwork, adam
from deepsep.networks.torch_network import linear_layer
from deepsep.zoo.network_method import NetworkMethod


class Generator(nn.Module):
    """Generator of rows like those of X from ``latent`` random numbers, and from a class if there are classes.

    A column with two values in X, such as a level of a category, stays between the two and tends towards one of them;
    other columns may take any value. Layers are linear, followed by batch norm and max(0, ·).
    """

    def __init__(
        self, X: Tensor, *, latent: int, hidden: Sequence[int], n_classes: int = 0, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.latent, self.n_classes = latent, n_classes
        self.low: Tensor
        self.high: Tensor
        self.two_valued: Tensor
        low, high = X.amin(0), X.amax(0)
        levels = {"low": low, "high": high, "two_valued": ((low == X) | (high == X)).all(0)}
        for name, value in levels.items():
            self.register_buffer(name, value)
        widths = (latent + n_classes, *hidden)
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise(widths):
            norm = nn.BatchNorm1d(n_out, track_running_stats=False, dtype=torch.float32)
            layers += [linear_layer(rng, n_in, n_out), norm, nn.ReLU()]
        self.layers = nn.Sequential(*layers, linear_layer(rng, widths[-1], X.shape[1]))
        self.to(X.device)

    def forward(self, noise: Tensor, codes: Tensor | None = None) -> Tensor:
        """Return a row for each row of noise (m, latent), of the class in ``codes`` (m,) if there are classes."""
        if codes is not None:
            noise = torch.cat([noise, torch.eye(self.n_classes, dtype=noise.dtype, device=noise.device)[codes]], 1)
        h: Tensor = self.layers(noise)
        return torch.where(self.two_valued, self.low + (self.high - self.low) * torch.sigmoid(h), h)


class PairJudge(nn.Sequential):
    """Scores (rows, c) of each row with every class: the log-odds that the pair is from the data.

    Layers are followed by a leaky max(0, ·) and dropout.
    """

    def __init__(
        self, n_features: int, n_classes: int, *, hidden: Sequence[int], dropout: float, rng: np.random.Generator
    ) -> None:
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise((n_features, *hidden)):
            layers += [linear_layer(rng, n_in, n_out), nn.LeakyReLU(0.2), nn.Dropout(dropout)]
        super().__init__(*layers, linear_layer(rng, hidden[-1], n_classes))


@settings
class GenerativeAdversarial(NetworkMethod):
    r"""A network that learns to classify while another one makes up rows.

    Subclasses make both in ``_learn`` and train them with ``_play``.

    Parameters
    ----------
    latent : int, default=16
        Number of random numbers from which a row is generated.
    noise : float, default=0.5
        Standard deviation of the noise on the features of real and made-up rows that the classifier sees.
    decay : float, default=0.98
        Predictions use a moving average of the classifier's weights, which keeps a share of
        :math:`\min(1 - 1 / s, \text{decay})` in step s.
    unlabeled_batch : int, default=128
        Unlabelled rows in a step; there are as many made-up rows.
    """

    latent: int = integer(16, 1)
    steps: int = 1000
    l2: float = 1e-2
    noise: float = real(0.5, at_least=0)
    decay: float = real(0.98, at_least=0, below=1)

    def _make_generator(self, rows: TrainingRows, X: Tensor, rng: np.random.Generator, n_classes: int = 0) -> Generator:
        """Return a new generator that imitates the rows of positive weight."""
        present = X[torch.from_numpy(np.flatnonzero(rows.weight > 0)).to(X.device)]
        back = tuple(reversed(self.hidden))
        return Generator(present, latent=self.latent, hidden=back, n_classes=n_classes, rng=rng)

    def _draw(self, batch: Batch) -> Tensor:
        """Return noise for as many made-up rows as there are real ones in the batch."""
        n = max(len(real_rows(batch)), 2)  # batch norm needs two rows
        return torch.randn(n, self.latent, device=batch.labeled.device)

    def _disturb(self, x: Tensor) -> Tensor:
        """Return rows with noise on their features."""
        return x + self.noise * torch.randn_like(x)

    def _play(
        self,
        network: TorchNetwork,
        rows: TrainingRows,
        X: Tensor,
        loss_of: Callable[[Batch], Tensor],
        opponents: Sequence[tuple[nn.Module, Callable[[Batch], Tensor]]],
        rng: np.random.Generator,
    ) -> None:
        """Train the network and its opponents in turn, and keep the average of the network's weights.

        In each step the network lowers its loss, then each opponent lowers its own. Each step changes the weights of
        one player only.
        """
        players = [
            (list(module.parameters()), adam([(p, 0.0) for p in module.parameters()], lr=self.learning_rate))
            for module, _ in opponents
        ]
        average = copy.deepcopy(network)
        average.module.requires_grad_(False).eval()
        pairs = list(zip(average.module.parameters(), network.module.parameters(), strict=True))

        def after_step(batch: Batch) -> None:
            for (_, loss), (parameters, optimiser) in zip(opponents, players, strict=True):
                optimiser.zero_grad()
                with torch.enable_grad():
                    torch.autograd.backward(loss(batch), inputs=parameters)
                optimiser.step()
            rate = torch.clamp(1 / (batch.step + 1), min=1 - self.decay)
            for mean, latest in pairs:
                mean.lerp_(latest, rate)
            with _norms(average.module, train=True):
                average.module["encoder"](X[batch.both])  # batch norm's moments are those of the averaged weights

        self._train(network, rows, loss_of, rng, after_step=after_step)
        self._keep(average.state())


def real_rows(batch: Batch) -> Tensor:
    """Return the unlabelled rows of a batch, or the labelled ones if there are none."""
    return batch.unlabeled if len(batch.unlabeled) else batch.labeled


def real_loss(scores: Tensor) -> Tensor:
    """Return the mean of -log D(x), where D(x) = Z / (Z + 1) and Z is the sum of exp(scores) over the classes."""
    return softplus(-scores.logsumexp(-1)).mean()


def made_loss(scores: Tensor) -> Tensor:
    """Return the mean of -log(1 - D(x))."""
    return softplus(scores.logsumexp(-1)).mean()


def entropy(scores: Tensor) -> Tensor:
    """Return the mean entropy of the classes."""
    log_p = scores.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1).mean()


def mean_distance(features: Tensor, others: Tensor) -> Tensor:
    """Return the squared distance between the means of two sets of rows."""
    return (features.mean(0) - others.mean(0)).square().sum()


def pull_away(features: Tensor) -> Tensor:
    """Return the mean squared cosine between two different rows: 0 where all are orthogonal, 1 where all are alike."""
    n = len(features)
    unit = normalize(features, dim=-1)
    return ((unit @ unit.T).square().sum() - unit.square().sum(-1).square().sum()) / (n * (n - 1))


@contextmanager
def _norms(module: nn.Module, *, train: bool) -> Iterator[None]:
    """Let batch norm use and store the moments of the batch, or else use the stored moments."""
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm1d)]
    before = [norm.training for norm in norms]
    for norm in norms:
        norm.train(train)
    try:
        yield
    finally:
        for norm, mode in zip(norms, before, strict=True):
            norm.train(mode)


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Run the block without dropout, and with the stored moments of batch norm."""
    module.eval()
    try:
        yield
    finally:
        module.train()


def made_scores(network: TorchNetwork, x: Tensor) -> Tensor:
    """Return the scores of made-up rows.

    Batch norm uses the moments of real rows, as in prediction: a batch of made-up rows normalised by itself would look
    like real ones, and a mixed batch would change the normalisation of real ones.
    """
    with _norms(network.module, train=False):
        return network.scores(x)
