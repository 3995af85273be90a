"""Networks whose predictions should not change under noise: Π-model, temporal ensembling, Mean Teacher."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch, TorchNetwork
from deepsep.zoo.network_method import NetworkMethod


@settings
class PiModel(NetworkMethod):
    r"""Π-model: two disturbed passes of every row through one network should agree.

    The loss is the cross-entropy of the labelled rows plus :math:`w(t) \lVert p - p' \rVert^2 / c`, the mean over all
    rows, labelled or not, where p and p' are predictions of a row under independent noise on its features and
    independent dropout. The weight w(t) grows as :math:`\exp(-5 (1 - t)^2)`, where t is the completed share of the
    ramp-up.

    Parameters
    ----------
    consistency : float, default=10.0
        Maximum weight of the disagreement. 0: the labelled rows alone (batch norm still sees all).
    noise : float, default=0.3
        Standard deviation of the noise on the features, which themselves have deviation 1.
    ramp_up : float, default=0.25
        Share of the steps over which the weight grows; 0: it is at its maximum from the start.

    References
    ----------
    S. Laine, T. Aila. Temporal ensembling for semi-supervised learning. ICLR 2017.
    """

    method_name = "pi-model"

    consistency: float = real(10.0, at_least=0)
    noise: float = real(0.3, at_least=0)
    ramp_up: float = real(0.25, at_least=0, at_most=1)

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor, batch: Batch) -> Tensor:
        scores = network.scores(self._disturb(X[batch.both].repeat(2, 1)))
        first, second = torch.softmax(scores, -1).chunk(2)
        supervised = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])
        return supervised + self._weight(batch) * mse_loss(first, second)

    def _disturb(self, x: Tensor) -> Tensor:
        return x + self.noise * torch.randn_like(x)

    def _weight(self, batch: Batch) -> Tensor:
        """Return the weight of the disagreement at this step."""
        return self.consistency * ramp(batch.progress, self.ramp_up)


@settings
class TemporalEnsembling(PiModel):
    r"""Temporal ensembling: predictions of a row should agree with the average of earlier ones.

    It is the Π-model with one pass: the other is replaced by the moving average of all earlier predictions of the row,
    :math:`(1 - \alpha) \sum_{i \le k} \alpha^{k - i} p_i / (1 - \alpha^k)` after its k-th turn, which is less noisy
    and costs no second pass, but is older. At its first turn a row has no such target, and no disagreement.

    Parameters
    ----------
    decay : float, default=0.6
        α, from one turn of a row to its next.

    References
    ----------
    S. Laine, T. Aila. Temporal ensembling for semi-supervised learning. ICLR 2017.
    """

    method_name = "temporal-ensembling"

    consistency: float = 30.0
    decay: float = real(0.6, at_least=0, below=1)
    noise: float = 0.5
    ramp_up: float = 0.5

    def _loss_function(self, network: TorchNetwork, X: Tensor, codes: Tensor) -> Callable[[Batch], Tensor]:
        past = PastOutputs(len(X), len(self.classes_), decay=self.decay, device=network.device)

        def loss_of(batch: Batch) -> Tensor:
            at = batch.both
            scores = network.scores(self._disturb(X[at]))
            p = torch.softmax(scores, -1)
            goals, known = past.recall(at)
            past.add(at, p.detach())
            supervised = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])
            return supervised + self._weight(batch) * (known * (p - goals).square().mean(-1)).mean()

        return loss_of


@settings
class MeanTeacher(PiModel):
    r"""Mean Teacher: a network should agree with the moving average of its own weights.

    The student is trained on the cross-entropy of the labelled rows plus :math:`w(t) \lVert p - q \rVert^2 / c`, the
    mean over all rows, labelled or not. Here q is the prediction of the teacher: the same network with the student's
    weights averaged over the steps, under its own noise and dropout. No gradient goes through the teacher, and the
    teacher predicts. The weight w(t) grows as :math:`\exp(-5 (1 - t)^2)`, where t is the completed share of the
    ramp-up.

    Parameters
    ----------
    consistency : float, default=30.0
        Maximum weight of the disagreement. 0: the average of a network trained on the labelled rows alone (batch
        norm still sees all).
    decay : float, default=0.98
        α: in step s the average keeps a share of :math:`\min(1 - 1 / s, \alpha)`, so it starts as the plain mean of
        the student's weights.

    References
    ----------
    A. Tarvainen, H. Valpola. Mean teachers are better role models: weight-averaged consistency targets improve
    semi-supervised deep learning results. NIPS 2017.
    """

    method_name = "mean-teacher"

    consistency: float = 30.0
    decay: float = real(0.98, at_least=0, below=1)
    noise: float = 0.5
    ramp_up: float = 0.5
    learning_rate: float = 2e-3

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        student, X, codes = self._begin(rows, rng)
        teacher = copy.deepcopy(student)
        teacher.module.requires_grad_(False).train()  # batch norm's moments follow the teacher's own activations
        pairs = list(zip(teacher.module.parameters(), student.module.parameters(), strict=True))

        def loss_of(batch: Batch) -> Tensor:
            x = X[batch.both]
            scores = student.scores(self._disturb(x))
            goals = torch.softmax(teacher.scores(self._disturb(x)), -1)
            supervised = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])
            return supervised + self._weight(batch) * mse_loss(torch.softmax(scores, -1), goals)

        def after_step(batch: Batch) -> None:
            # In the first step, numbered 0, the teacher becomes a copy of the student.
            rate = torch.clamp(1 / (batch.step + 1), min=1 - self.decay)
            for mean, latest in pairs:
                mean.lerp_(latest, rate)

        self._train(student, rows, loss_of, rng, after_step=after_step)
        self._keep(teacher.state())


class PastOutputs:
    """The moving average of each row's predictions, corrected for its start; it keeps ``decay`` at each turn."""

    def __init__(self, n: int, n_classes: int, *, decay: float, device: Any) -> None:
        self._mean = torch.zeros((n, n_classes), device=device)
        self._turns = torch.zeros(n, device=device)
        self._decay = decay

    def recall(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """Return the averages of these rows, and 1 for rows that have had a turn, else 0."""
        return self._mean[at], (self._turns[at] > 0).float()

    def add(self, at: Tensor, p: Tensor) -> None:
        """Add the predictions of these rows; only the first one of a row that occurs twice."""
        twice = torch.tril(at[:, None] == at, diagonal=-1).any(1)
        new = torch.where(twice, 0.0, 1.0)
        self._turns.index_add_(0, at, new)
        # With this rate the average includes the division by 1 - decay^k after every turn.
        rate = new * (1 - self._decay) / (1 - self._decay ** self._turns[at])
        self._mean.index_add_(0, at, rate[:, None] * (p - self._mean[at]))


def ramp(progress: Tensor, ramp_up: float) -> Tensor:
    """Return exp(-5 (1 - t)²), where t rises from 0 to 1 over the first ``ramp_up`` of the training and stays there."""
    if ramp_up == 0:
        return torch.ones_like(progress)
    return torch.exp(-5 * (1 - torch.clamp(progress / ramp_up, max=1)).square())


@settings
class TransformationStability(PiModel):
    r"""Transformation/stability: several disturbed passes of every row should agree, and on one class only.

    The loss is the cross-entropy of the labelled rows plus, as means over all rows, labelled or not,

    - ``consistency`` times the mean of :math:`\lVert p_j - p_k \rVert^2 / c` over all pairs of passes j and k, which
      have independent noise on the features and independent dropout,
    - ``exclusivity`` times the mean of :math:`-\sum_k p_k \prod_{l \ne k} (1 - p_l)` over the passes: minus the
      probability that exactly one of c independent events of probabilities p happens. It is -1 for a confident
      prediction, and closest to 0 if all classes are equally probable.

    Both weights grow as in :class:`deepsep.classifiers.PiModel`, which has two passes and no ``exclusivity``.

    Parameters
    ----------
    passes : int, default=4
        Passes of every row in a step; time grows with them.
    exclusivity : float, default=0.1
        Maximum weight of mutual exclusivity. 0: agreement alone.

    Notes
    -----
    The papers also transform images; a table has no such transformations, so passes differ in noise and dropout only.
    Their losses are sums over pairs and passes, with constant weights.

    References
    ----------
    M. Sajjadi, M. Javanmardi, T. Tasdizen. Regularization with stochastic transformations and perturbations for deep
    semi-supervised learning. NIPS 2016.

    M. Sajjadi, M. Javanmardi, T. Tasdizen. Mutual exclusivity loss for semi-supervised deep learning. ICIP 2016.
    """

    method_name = "transformation-stability"

    passes: int = integer(4, 2)
    exclusivity: float = real(0.1, at_least=0)

    def _loss(self, network: TorchNetwork, X: Tensor, codes: Tensor, batch: Batch) -> Tensor:
        scores = network.scores(self._disturb(X[batch.both].repeat(self.passes, 1)))
        passes = torch.softmax(scores, -1).reshape(self.passes, -1, scores.shape[1])
        supervised = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])
        unsupervised = self.consistency * disagreement(passes)
        unsupervised = unsupervised - self.exclusivity * exactly_one(scores).mean()
        return supervised + ramp(batch.progress, self.ramp_up) * unsupervised


def disagreement(passes: Tensor) -> Tensor:
    """Return the mean of (p_j - p_k)² over rows, classes, and the pairs of passes, which come first."""
    return 2 * passes.var(0).mean()


def exactly_one(scores: Tensor) -> Tensor:
    """Return for each row the probability that exactly one of c independent events happens.

    Their probabilities are the softmax of the scores. Logarithms of 1 - p are computed from the other scores, so that
    values and gradients are right even if p rounds to 1.
    """
    whole = scores.logsumexp(-1, keepdim=True)
    own = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    others = scores.unsqueeze(-2).masked_fill(own, -torch.inf).logsumexp(-1) - whole  # log (1 - p)
    return (scores - whole - others + others.sum(-1, keepdim=True)).exp().sum(-1)
