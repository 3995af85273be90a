"""Base of the networks that, in rounds, embed all rows, spread the labels among them, and train on the result."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.network_method import NetworkMethod

if TYPE_CHECKING:
    from torch import Tensor

    from deepsep.networks import Batch


class Spread(NamedTuple):
    """Labels of all rows, spread from the labelled ones, with weights."""

    codes: Array  # (n,): class of every row; labelled rows keep theirs
    weight: Array  # (n,): weight of the row in the loss


@settings
class PropagationMethod(NetworkMethod):
    """A network that is trained on the labelled rows, then in rounds on labels that spread in its embedding.

    Subclasses define ``_spread``, and may add a term to the loss of a row with ``_metric``.

    Parameters
    ----------
    rounds : int, default=10
        Number of times that labels are spread.
    warm_up : float, default=0.25
        Share of the steps on labelled rows alone, before the first round. The rounds share the other steps equally.
    """

    rounds: int = integer(10, 1)
    warm_up: float = real(0.25, above=0, below=1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        network, X, codes = self._begin(rows, rng)
        encoder, head = network.module["encoder"], network.module["head"]
        # A row of weight 0 is absent, from the embedding and from batches.
        present = np.flatnonzero(rows.weight > 0)

        def supervised(batch: Batch) -> Tensor:
            scores = network.scores(X[batch.both])
            return cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])

        first, *others = split_steps(self.steps, self.warm_up, self.rounds)
        self._train(network, rows, supervised, rng, steps=first)
        for steps in others:
            V = unit_rows(network.embed(X)[present])
            spread = self._spread(V, rows.codes[present], rows.weight[present], rows.n_classes)
            labels, trust = np.zeros(len(X), np.int64), np.zeros(len(X), np.float32)
            labels[present], trust[present] = spread
            goal, weight = (torch.from_numpy(values).to(network.device) for values in (labels, trust))
            metric = self._metric(V, spread, rng, network.device)

            def weighted(batch: Batch, goal: Tensor = goal, weight: Tensor = weight, metric: Any = metric) -> Tensor:
                at = batch.both
                h = encoder(X[at])
                losses = cross_entropy(head(h), goal[at], reduction="none")
                if metric is not None:
                    losses = losses + metric(h, goal[at])
                return (weight[at] * losses).mean()

            self._train(network, rows, weighted, rng, steps=steps)
        self._keep(network.state())

    def _spread(self, V: Array, codes: Array, weight: Array, n_classes: int) -> Spread:
        """Return labels and weights of all rows, given embeddings of length 1 and the labels of some."""
        raise NotImplementedError

    def _metric(self, V: Array, spread: Spread, rng: np.random.Generator, device: Any) -> Any:
        """Return a function of a batch's embeddings and labels that is added to the loss of each row, or None."""


def split_steps(steps: int, warm_up: float, rounds: int) -> list[int]:
    """Return the steps of the warm-up and of each round; there are fewer rounds if there are too few steps."""
    first = math.ceil(warm_up * steps)
    parts = np.array_split(np.arange(steps - first), rounds)
    return [first, *(len(part) for part in parts if len(part))]


def unit_rows(V: Array) -> Array:
    """Return rows scaled to length 1, as float64; a row of zeros is unchanged."""
    V = V.astype(np.float64)
    length = np.linalg.norm(V, axis=1, keepdims=True)
    return np.asarray(np.divide(V, length, out=np.zeros_like(V), where=length > 0))
