"""Variational autoencoders M1 and M2: generative models of the rows, without and with the class.

Noise is always an argument of the bounds, so that they are deterministic functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch, TorchNetwork, tensor
from deepsep.networks.frozen import FrozenNetwork
from deepsep.networks.torch_network import linear_layer
from deepsep.zoo.network_method import NetworkMethod


def kl_to_standard_normal(mean: Tensor, log_var: Tensor) -> Tensor:
    """Return KL(N(mean, var) ‖ N(0, 1)), summed over the last dimension."""
    return 0.5 * (mean.square() + log_var.exp() - log_var - 1).sum(-1)


def normal_log_density(x: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Return log N(x; mean, var), summed over the last dimension."""
    return -0.5 * ((x - mean).square() * (-log_var).exp() + log_var + math.log(2 * math.pi)).sum(-1)


def reparametrise(mean: Tensor, log_var: Tensor, noise: Tensor) -> Tensor:
    """Return a sample of N(mean, var) as a function of a sample of N(0, 1)."""
    return mean + (0.5 * log_var).exp() * noise


class _Normal(nn.Module):
    """A normal distribution whose mean and log-variance are linear in the input."""

    def __init__(self, n_in: int, n_out: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.mean = linear_layer(rng, n_in, n_out)
        self.log_var = linear_layer(rng, n_in, n_out)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean(h), self.log_var(h)


class VAE(nn.Module):
    """Posterior q(z | x) on top of an encoder, decoder p(x | z) and the standard normal p(z): a bound on log p(x).

    Mean and log-variance of z are linear in the encoder's output, of this width. Every feature of x is normal, with a
    mean by the decoder, whose layers are followed by tanh, and a learned variance.
    """

    def __init__(
        self, width: int, n_features: int, *, latent: int, hidden: Sequence[int], rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.latent = latent
        self.posterior = _Normal(width, latent, rng)
        self.decoder = _layers((latent, *hidden), n_features, rng)
        self.log_noise = nn.Parameter(torch.zeros(n_features, dtype=torch.float32))

    def bound(self, x: Tensor, h: Tensor, noise: Tensor) -> Tensor:
        """Return a sample of the bound E_q log p(x | z) - KL(q ‖ p) of each row, given noise of shape (rows, latent).

        The divergence is exact; only the first term is sampled.
        """
        mean, log_var = self.posterior(h)
        rebuilt = self.decoder(reparametrise(mean, log_var, noise))
        return normal_log_density(x, rebuilt, _floored(self.log_noise)) - kl_to_standard_normal(mean, log_var)


class ConditionalVAE(nn.Module):
    """q(z | x, y), p(x | y, z) and p(z): a bound on log p(x | y) for every class y, the generative half of M2.

    The layers from (x, y) to z are followed by tanh; the decoder has their widths in reverse.
    """

    def __init__(
        self, n_features: int, n_classes: int, *, latent: int, hidden: Sequence[int], rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.n_classes, self.latent = n_classes, latent
        # A layer on (x, one-hot y) is a layer on x plus a vector for each class, so x passes it once, not once per
        # class.
        self.from_x = linear_layer(rng, n_features, hidden[0])
        self.from_y = _class_vectors(rng, n_classes, hidden[0])
        self.encoder = nn.Sequential(nn.Tanh(), *_tanh_layers(tuple(hidden), rng))
        self.posterior = _Normal(hidden[-1], latent, rng)
        back = tuple(reversed(hidden))
        self.from_z = linear_layer(rng, latent, back[0])
        self.to_x = _class_vectors(rng, n_classes, back[0])
        self.decoder = nn.Sequential(nn.Tanh(), _layers(back, n_features, rng))
        self.log_noise = nn.Parameter(torch.zeros(n_features, dtype=torch.float32))

    def bound(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return a sample of the bound on log p(x | y) for each row and class, given noise (rows, c, latent)."""
        h = self.encoder(self.from_x(x).unsqueeze(1) + self.from_y)  # (rows, c, width)
        mean, log_var = self.posterior(h)
        rebuilt = self.decoder(self.from_z(reparametrise(mean, log_var, noise)) + self.to_x)  # (rows, c, d)
        density = normal_log_density(x.unsqueeze(1), rebuilt, _floored(self.log_noise))
        return density - kl_to_standard_normal(mean, log_var)


def marginal_bound(log_q: Tensor, bounds: Tensor) -> Tensor:
    """Return the bound on log p(x) of each row without its class: sum_y q(y | x) L(x, y) + H(q(y | x))."""
    return (log_q.exp() * (bounds - log_q)).sum(-1)


def _tanh_layers(widths: tuple[int, ...], rng: np.random.Generator) -> list[nn.Module]:
    return [layer for n_in, n_out in pairwise(widths) for layer in (linear_layer(rng, n_in, n_out), nn.Tanh())]


def _layers(widths: tuple[int, ...], n_out: int, rng: np.random.Generator) -> nn.Sequential:
    return nn.Sequential(*_tanh_layers(widths, rng), linear_layer(rng, widths[-1], n_out))


def _class_vectors(rng: np.random.Generator, n_classes: int, width: int) -> nn.Parameter:
    return nn.Parameter(linear_layer(rng, n_classes, width).weight.detach().T.contiguous())


def _floored(log_var: Tensor) -> Tensor:
    # A column determined by others, such as the last level of a category, would draw its variance towards 0, and then
    # dominate the decoder's loss.
    return log_var.clamp(min=-4.0)


@settings
class VariationalM1(NetworkMethod):
    r"""M1: a variational autoencoder describes every row by a few numbers z, and a classifier learns from z.

    Labels are not used for z: the autoencoder raises :math:`E_{q(z|x)} \log p(x|z) - KL(q(z|x) \| p(z))`, a bound on
    the log-likelihood, over all rows. The decoder is normal, with a mean given by a network and a variance for each
    feature. The classifier is a multinomial logistic regression on the mean of q(z|x). (The paper has a transductive
    SVM on samples of z; means make predictions deterministic.) It helps if the main differences between rows are also
    those between classes, and hurts if classes differ in a detail of x.

    Parameters
    ----------
    latent : int, default=16
        Dimension of z.
    C : float, default=1.0
        Inverse strength of the logistic regression's penalty, as in scikit-learn.
    steps : int, default=1000
        Steps of Adam. Three times as many lowered the mean accuracy.

    References
    ----------
    D. P. Kingma, D. J. Rezende, S. Mohamed, M. Welling. Semi-supervised learning with deep generative models.
    NIPS 2014.
    """

    method_name = "vae-m1"

    latent: int = integer(16, 1)
    C: float = real(1.0, above=0)
    dropout: float = 0.0
    l2: float = 1e-5
    steps: int = 1000

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        network, X, _ = self._begin(rows, rng)
        vae = learn_code(self, network, rows, X, rng, latent=self.latent, steps=self.steps)
        means = network.embed(X[torch.from_numpy(rows.labeled)])
        W, b = (p.detach().cpu().numpy() for p in (vae.posterior.mean.weight, vae.posterior.mean.bias))
        model = LogisticRegression(C=self.C, max_iter=1000)
        model.fit(means @ W.T + b, rows.codes[rows.labeled], rows.weight[rows.labeled])
        # The mean of z and the classifier are both linear; together they are the head of an ordinary network.
        coef, intercept = model.coef_, model.intercept_
        if rows.n_classes == 2:
            coef, intercept = np.vstack([-coef, coef]) / 2, np.concatenate([-intercept, intercept]) / 2
        self._keep(
            {
                **network.state(),
                "head.weight": (coef @ W).astype(np.float32),
                "head.bias": (coef @ b + intercept).astype(np.float32),
            }
        )


@settings
class VariationalM2(NetworkMethod):
    r"""M2: a variational autoencoder in which the class is one of the causes of a row.

    A row is generated from its class y and z, by p(x | y, z); q(z | x, y) estimates z, and the network q(y | x) the
    class.
    With :math:`L(x, y) = E_{q(z|x,y)} \log p(x|y,z) + \log p(y) - KL(q(z|x,y) \| p(z))`, a bound on
    :math:`\log p(x, y)`, the loss is the mean over all rows of

    - :math:`-L(x, y)` for a labelled row,
    - :math:`-\sum_y q(y|x) L(x, y) - H(q(y|x))` for an unlabelled one,

    plus α times the mean of :math:`-\log q(y|x)` over the labelled rows. All classes are equally likely a priori.
    Predictions are q(y | x), the network of :class:`deepsep.DeepSep`. The cost of a step is proportional to the number
    of classes.

    Parameters
    ----------
    alpha : float, default=10.0
        α. The bound of a row is a sum over its features: with a small α, the classes merely describe the rows
        as well as possible. The paper has 0.1.
    latent : int, default=16
        Dimension of z.

    References
    ----------
    D. P. Kingma, D. J. Rezende, S. Mohamed, M. Welling. Semi-supervised learning with deep generative models.
    NIPS 2014.
    """

    method_name = "vae-m2"

    alpha: float = real(10.0, above=0)
    latent: int = integer(16, 1)
    l2: float = 1e-5
    unlabeled_batch: int = 64

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        network, X, _ = self._begin(rows, rng)
        self._learn_classes(network, rows, lambda at: X[at], rng)
        self._keep(network.state())

    def _learn_classes(
        self, network: TorchNetwork, rows: TrainingRows, x_of: Callable[[Tensor], Tensor], rng: np.random.Generator
    ) -> None:
        """Train q(y|x), and what it needs, on the rows that ``x_of`` makes of their numbers."""
        (d,), hidden = network.input_shape, tuple(self.hidden)
        vae = ConditionalVAE(d, rows.n_classes, latent=self.latent, hidden=hidden, rng=rng).to(network.device)
        codes = torch.from_numpy(rows.codes).to(network.device)
        share = _share_of_labeled(rows)
        log_prior = -np.log(rows.n_classes)

        def loss_of(batch: Batch) -> Tensor:
            b = len(batch.labeled)
            x, y = x_of(batch.both), codes[batch.labeled].unsqueeze(1)
            log_q = torch.log_softmax(network.scores(x), -1)
            noise = torch.randn(len(x), rows.n_classes, self.latent, device=x.device)
            bounds = vae.bound(x, noise) + log_prior
            known = bounds[:b].gather(1, y).squeeze(1)
            bound = torch.cat([known, marginal_bound(log_q[b:], bounds[b:])])
            return -mean_over_rows(bound, b, share) - self.alpha * log_q[:b].gather(1, y).mean()

        self._train(network, rows, loss_of, rng, extra=vae)


def learn_code(
    method: NetworkMethod,
    network: TorchNetwork,
    rows: TrainingRows,
    X: Tensor,
    rng: np.random.Generator,
    *,
    latent: int,
    steps: int,
) -> VAE:
    """Train M1's autoencoder on top of a network's embedding, and the embedding with it; return it."""
    encoder, back = network.module["encoder"], tuple(reversed(method.hidden))
    vae = VAE(method.hidden[-1], X.shape[1], latent=latent, hidden=back, rng=rng).to(network.device)
    share = _share_of_labeled(rows)

    def loss_of(batch: Batch) -> Tensor:
        x = X[batch.both]
        bound = vae.bound(x, encoder(x), torch.randn(len(x), latent, device=x.device))
        return -mean_over_rows(bound, len(batch.labeled), share)

    method._train(network, rows, loss_of, rng, steps=steps, extra=vae)
    return vae


def _share_of_labeled(rows: TrainingRows) -> float:
    """Return the share of the labelled rows in the total weight."""
    return float(rows.weight[rows.labeled].sum() / rows.weight.sum())


def mean_over_rows(values: Tensor, n_labeled: int, share: float) -> Tensor:
    """Return an estimate of the mean over all rows from a batch in which labelled rows are overrepresented."""
    mean = share * values[:n_labeled].mean()
    return mean + (1 - share) * values[n_labeled:].mean() if len(values) > n_labeled else mean


@settings
class VariationalM1M2(VariationalM2):
    r"""M1+M2: M1 describes every row by a few numbers, and M2 learns the classes from them.

    First the autoencoder of :class:`deepsep.classifiers.VariationalM1` learns q(z₁|x) from all rows, without their
    labels. Then :class:`deepsep.classifiers.VariationalM2` is trained on samples of z₁ instead of x, a new one in each
    batch. Together they are the model
    :math:`p(y)\, p(z_2)\, p(z_1 | y, z_2)\, p(x | z_1)`. Predictions are q(y | z₁) at the mean of q(z₁|x).

    Parameters
    ----------
    code_steps : int, default=1000
        Steps of Adam for M1.
    steps : int, default=2000
        Steps of Adam for M2.
    latent : int, default=16
        Dimension of z₁ and of z₂.
    dropout : float, default=0.5
        Dropout rate of q(y | z₁); M1 has none.

    References
    ----------
    D. P. Kingma, D. J. Rezende, S. Mohamed, M. Welling. Semi-supervised learning with deep generative models.
    NIPS 2014.
    """

    method_name = "vae-m1m2"

    code_steps: int = integer(1000, 1)
    unlabeled_batch: int = 128

    @property
    def _all_steps(self) -> int:
        return self.code_steps + self.steps

    @property
    def _widths(self) -> tuple[int, ...]:
        return (*self.hidden, *self.hidden)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        encoder = self._network(rows.X.shape[1], rows.n_classes, rng, dropout=0.0)
        X = self._scale(rows, encoder.device)
        vae = learn_code(self, encoder, rows, X, rng, latent=self.latent, steps=self.code_steps)
        with torch.no_grad():
            mean, log_var = vae.posterior(tensor(encoder.embed(X), encoder.device))

        def sample(at: Tensor) -> Tensor:
            return reparametrise(mean[at], log_var[at], torch.randn_like(mean[at]))

        classifier = self._network(self.latent, rows.n_classes, rng)
        self._learn_classes(classifier, rows, sample, rng)
        self._keep(joined(encoder, vae, classifier))


def joined(encoder: TorchNetwork, vae: VAE, classifier: TorchNetwork) -> dict[str, Array]:
    """Return the state of one network that classifies rows by the mean of their code.

    Two consecutive linear maps are merged into one: the mean of the code and the classifier's first layer, and the
    classifier's batch norm and the layer after it.
    """
    W, b = (p.detach().cpu().numpy().astype(np.float64) for p in (vae.posterior.mean.weight, vae.posterior.mean.bias))
    (first, offset), *others = FrozenNetwork(classifier.state()).plain_layers()
    layers = [(W.T @ first, b @ first + offset), *others]
    L = len(layers)  # the encoder has one fewer, with batch norm and dropout after the first
    names = [*(f"encoder.{2 * (L + i)}" for i in range(L - 1)), "head"]
    state = encoder.state()
    for name, (weight, bias) in zip(names, layers, strict=True):
        state |= {f"{name}.weight": weight.T.astype(np.float32), f"{name}.bias": bias.astype(np.float32)}
    return state
