"""M1+M2: the variational autoencoder with a class, on the code of the one without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deepsep import networks
from deepsep.classifiers.declared_settings import integer, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.networks.frozen import FrozenNetwork
from deepsep.zoo.generative.variational_autoencoder import VariationalM2, learn_code

if TYPE_CHECKING:
    from torch import Tensor

    from deepsep.networks import TorchNetwork
    from deepsep.zoo.generative.variational import VAE


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
    alpha : float, default=10.0
        Weight of the labels in M2, as there.
    latent : int, default=16
        Dimension of z₁ and of z₂.
    hidden : sequence of int, default=(128, 32)
        Widths of the layers of either network, as in :class:`deepsep.DeepSep`.
    dropout : float, default=0.5
        Dropout rate of q(y | z₁); M1 has none.
    batch_size, unlabeled_batch : int, default=32 and 128
        Labelled and unlabelled rows in a step.

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
        import torch

        from deepsep.zoo.generative.variational import reparametrise

        encoder = self._network(rows.X.shape[1], rows.n_classes, rng, dropout=0.0)
        X = self._scale(rows, encoder.device)
        vae = learn_code(self, encoder, rows, X, rng, latent=self.latent, steps=self.code_steps)
        with torch.no_grad():
            mean, log_var = vae.posterior(networks.tensor(encoder.embed(X), encoder.device))

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
