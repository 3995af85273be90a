"""Base of the methods that train the network of the paper with another loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from deepsep.classifiers.declared_settings import integer, real, settings, widths
from deepsep.core.arrays import Array, below
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import (
    Batch,
    NetworkAverage,
    NumpyNetwork,
    StepSettings,
    TorchNetwork,
    choose_device,
    tensor,
    train_steps,
)
from deepsep.zoo.scaled_method import ScaledMethod


@settings
class NetworkMethod(ScaledMethod):
    """A method that trains the network f, g of :class:`deepsep.DeepSep` in steps on batches of both kinds of rows.

    Subclasses define its ``_loss``, or else ``_learn``, with ``_begin``, ``_train`` and ``_keep``.

    Parameters
    ----------
    hidden : sequence of int, default=(128, 32)
        Widths of the layers, as in :class:`deepsep.DeepSep`.
    dropout : float, default=0.5
        Dropout rate.
    l2 : float, default=1e-3
        Penalty on the squared weights.
    steps : int, default=2000
        Steps of Adam.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    batch_size : int, default=32
        Labelled rows in a step.
    unlabeled_batch : int, default=128
        Unlabelled rows in a step.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for training.

    Attributes
    ----------
    network_weights_ : dict
        The weights that predict, by torch's names.
    """

    hidden: Sequence[int] = widths((128, 32))
    dropout: float = real(0.5, at_least=0, below=1)
    l2: float = real(1e-3, at_least=0)
    steps: int = integer(2000, 1)
    learning_rate: float = real(1e-3, above=0)
    batch_size: int = integer(32, 1)
    unlabeled_batch: int = integer(128, 1)
    device: Literal["auto", "cpu", "cuda"] = "auto"

    @property
    def _all_steps(self) -> int:
        return self.steps

    @property
    def _widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers of the network that predicts."""
        return tuple(self.hidden)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        network, X, codes = self._begin(rows, rng)
        self._train(network, rows, self._loss_function(network, X, codes), rng)
        self._keep(network.state())

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor, batch: Batch) -> Tensor:
        """Return the loss of a batch, given all rows and their codes."""
        raise NotImplementedError

    def _loss_function(self, network: TorchNetwork, X: Tensor, codes: Tensor) -> Callable[[Batch], Tensor]:
        return partial(self._loss, network, X, codes)

    def _begin(self, rows: TrainingRows, rng: np.random.Generator) -> tuple[TorchNetwork, Tensor, Tensor]:
        """Return a new network, and on its device all rows, scaled, and their codes."""
        network = self._network(rows.X.shape[1], rows.n_classes, rng)
        return network, self._scale(rows, network.device), torch.from_numpy(rows.codes).to(network.device)

    def _network(
        self, n_features: int, n_classes: int, rng: np.random.Generator, dropout: float | None = None
    ) -> TorchNetwork:
        """Return a new network, with the dropout of the settings by default."""
        return TorchNetwork(
            n_features,
            n_classes,
            hidden=tuple(self.hidden),
            dropout=self.dropout if dropout is None else dropout,
            l2=float(self.l2),
            device=choose_device(self.device),
            rng=rng,
        )

    def _scale(self, rows: TrainingRows, device: torch.device) -> Tensor:
        """Return all rows, scaled, on a device."""
        return tensor(self._fit_scaling(rows).apply(rows.X), device)

    def _train(
        self,
        network: Any,  # a TorchNetwork, or anything with a module and the penalties of its parameters
        rows: TrainingRows,
        loss_of: Callable[[Batch], Tensor],
        rng: np.random.Generator,
        *,
        steps: int | None = None,
        after_step: Callable[[Batch], object] | None = None,
        extra: nn.Module | None = None,
    ) -> None:
        """Lower a loss over the network's parameters, and those of ``extra``, another module under the same penalty."""
        module, decays = network.module, network.decays()
        if extra is not None:
            module = nn.ModuleDict({"network": module, "extra": extra})
            decays += [(p, float(self.l2) if p.ndim > 1 else 0.0) for p in extra.parameters()]
        steps = self.steps if steps is None else steps
        train_steps(
            module,
            loss_of,
            StepSettings(steps, self.learning_rate, self.batch_size, self.unlabeled_batch),
            decays=decays,
            labeled=rows.labeled,
            unlabeled=rows.unlabeled,
            rng=rng,
            weight=rows.weight,
            after_step=after_step,
            on_step=rows.context.on_step,
        )

    def _keep(self, state: dict[str, Array]) -> None:
        """Keep a trained network's state for prediction, which does not need torch."""
        self.network_weights_ = state
        self._packed = NetworkAverage([state], np.ones(1), self._scaling.centre, self._scaling.scale)

    def _probabilities(self, X: Array) -> Array:
        return self._packed.predict_proba(X)

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, arrays = super()._parts()
        return state, arrays | {f"network/{name}": value for name, value in self.network_weights_.items()}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        d, c = self.n_features_in_, len(self.classes_)
        saved = below(arrays, "network/")
        # Raises if the weights do not fit the settings.
        NumpyNetwork(d, c, hidden=self._widths, rng=np.random.default_rng(0)).load_state(saved)
        self._keep(saved)
