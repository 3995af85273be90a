"""Ladder network: a classifier that must also remove noise from each of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from deepsep import networks
from deepsep.classifiers.declared_settings import real, settings
from deepsep.core.checks import is_number, require
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.network_method import NetworkMethod

if TYPE_CHECKING:
    from torch import Tensor

    from deepsep.networks import Batch


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
    l2 : float, default=1e-5
        Penalty on the squared weights.
    steps : int, default=1000
        Steps of Adam.

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
        import torch
        from torch.nn.functional import cross_entropy

        device = torch.device(networks.choose_device(self.device))
        X = self._scale(rows, device)
        codes = torch.from_numpy(rows.codes).to(device)
        from deepsep.zoo.consistency.ladder_network import Ladder, denoising_costs

        ladder = Ladder(X.shape[1], rows.n_classes, hidden=tuple(self.hidden), rng=rng).to(device)

        weights = [self.denoising[min(i, len(self.denoising) - 1)] for i in range(len(ladder.widths))]

        def loss_of(batch: Batch) -> Tensor:
            x = X[batch.both]
            noise = [self.noise * torch.randn(len(x), m, device=device) for m in ladder.widths]
            noisy, clean = ladder.encode(x, noise), ladder.encode(x)
            loss = cross_entropy(noisy.scores[: len(batch.labeled)], codes[batch.labeled])
            costs = denoising_costs(clean, ladder.decode(noisy))
            return loss + sum(weight * cost for weight, cost in zip(weights, costs, strict=True))

        networks.train_steps(
            ladder,
            loss_of,
            decays=[(p, float(self.l2) if "weight" in name else 0.0) for name, p in ladder.named_parameters()],
            labeled=rows.labeled,
            unlabeled=rows.unlabeled,
            steps=self.steps,
            lr=self.learning_rate,
            batch_size=self.batch_size,
            unlabeled_batch=self.unlabeled_batch,
            rng=rng,
            device=device,
            weight=rows.weight,
            on_step=rows.context.on_step,
        )
        self._keep(ladder.state())
