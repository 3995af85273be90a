"""The network of the paper with the loss of a support vector machine: a supervised baseline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from torch import Tensor

from deepsep.classifiers.declared_settings import integer, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch, TorchNetwork
from deepsep.zoo.network_method import NetworkMethod


@settings
class SVMNetwork(NetworkMethod):
    r"""A network with the squared hinge loss of one-vs-rest support vector machines instead of cross-entropy.

    The loss is :math:`\frac1\ell \sum_i \sum_k \max(0, 1 - t_{ik} s_k(x_i))^2`, where s are the scores before the
    softmax and t is 1 for the row's class and -1 for the others. Unlabelled rows are not part of it, but batch norm
    uses them, so its moments are those of the population.

    The scores are not probabilities. ``predict_proba`` returns the softmax of the scores times one slope for all
    classes. The slope is fitted to scores of held-out labelled rows, for which ``folds`` further networks are trained.
    If no class has two labelled rows, the slope is 1, which gives cautious probabilities.

    Parameters
    ----------
    folds : int, default=3
        Number of parts of the labelled rows, each held out once to fit the slope.

    Attributes
    ----------
    slope_ : float
        Factor of the scores before the softmax.

    References
    ----------
    Y. Tang. Deep learning using linear support vector machines. ICML workshop on challenges in representation
    learning, 2013.
    """

    method_name = "svm-network"
    _saved_values: ClassVar = {"slope_": float}

    folds: int = integer(3, 2)
    l2: float = 1e-4
    steps: int = 1000

    @property
    def _all_steps(self) -> int:
        return (1 + self.folds) * self.steps

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        network, _ = self._fit_network(rows, rng)
        scores, parts = [], []
        for held, others in held_out(rows, self.folds, rng):
            part, X = self._fit_network(others, rng)
            with torch.inference_mode():
                scores.append(part.scores(X[torch.from_numpy(held)]).double().cpu().numpy())
            parts.append(held)
        self.slope_ = 1.0
        if parts:
            at = np.concatenate(parts)
            self.slope_ = fit_slope(np.concatenate(scores), rows.codes[at], rows.weight[at])
        state = network.state()
        for name in ("head.weight", "head.bias"):  # the slope becomes part of the weights
            state[name] *= np.float32(self.slope_)
        self._keep(state)

    def _fit_network(self, rows: TrainingRows, rng: np.random.Generator) -> tuple[TorchNetwork, Tensor]:
        """Return a trained network, and all rows as its input."""
        network, X, codes = self._begin(rows, rng)

        def loss_of(batch: Batch) -> Tensor:
            scores = network.scores(X[batch.both])
            return squared_hinge(scores[: len(batch.labeled)], codes[batch.labeled])

        self._train(network, rows, loss_of, rng)
        return network, X


def held_out(rows: TrainingRows, folds: int, rng: np.random.Generator) -> Iterator[tuple[Array, TrainingRows]]:
    """Yield each part of the labelled rows, and all rows without its labels; rows alone in their class are in none."""
    fold = np.full(len(rows.codes), -1)
    start = 0
    for k in range(rows.n_classes):
        members = rng.permutation(rows.labeled[rows.codes[rows.labeled] == k])
        if len(members) > 1:
            fold[members] = (start + np.arange(len(members))) % folds
            start += len(members)
    for k in range(fold.max(initial=-1) + 1):
        yield np.flatnonzero(fold == k), replace(rows, codes=np.where(fold == k, -1, rows.codes))


def squared_hinge(scores: Tensor, codes: Tensor) -> Tensor:
    """Return the mean over rows of the one-vs-rest squared hinge losses, summed over the classes."""
    sign = 2 * torch.nn.functional.one_hot(codes, scores.shape[-1]).to(scores.dtype) - 1
    return torch.relu(1 - sign * scores).square().sum(-1).mean()


def fit_slope(
    scores: Array,
    codes: Array,
    weight: Array,
    offset: Array | float = 0.0,
    *,
    bounds: tuple[float, float] = (0.1, 20.0),
) -> float:
    """Return the slope for which the softmax of slope times scores plus offset has the lowest log loss on these rows.

    As in Platt's sigmoid, targets are slightly smoothed: with n rows, that of the own class is (n + 1) / (n + c).
    Otherwise, a few rows that are all predicted correctly would lead to probabilities of 1. The default bounds range
    from hardly any preference to near certainty, for scores of ±1 at the margin.
    """
    c, mass = scores.shape[1], weight.sum()
    targets = (np.eye(c)[codes] * mass + 1) / (mass + c)

    def loss(log_slope: float) -> float:
        return float(-(weight @ (targets * log_softmax(np.exp(log_slope) * scores + offset, axis=1)).sum(axis=1)))

    low, high = np.log(bounds)
    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))
