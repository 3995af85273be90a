"""Adversarial networks that tell real rows from made-up ones: feature matching, and its complement."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from deepsep.classifiers.declared_settings import real, settings
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch
from deepsep.zoo.adversarial.generative_adversarial import (
    GenerativeAdversarial,
    entropy,
    made_loss,
    made_scores,
    mean_distance,
    pull_away,
    real_loss,
    real_rows,
    undisturbed,
)


@settings
class FeatureMatchingGAN(GenerativeAdversarial):
    r"""Feature-matching GAN: the classifier also tells real rows from made-up ones with the same mean features.

    In addition to the scores of the classes there is one for “made up”, which is always 0. With Z the sum of exp(score)
    over the classes, a row is real with probability D(x) = Z / (Z + 1). The loss of the classifier is the cross-entropy
    of the labelled rows, plus w / 2 times the means of -log D over unlabelled rows and of -log(1 - D) over made-up
    ones. The generator makes rows from noise, and lowers the squared distance between the mean embeddings of its rows
    and of unlabelled ones. Columns of two values, such as levels of categories, stay between the two.

    A real row must have a large score in some class. So scores become large where rows lie and small where only the
    generator makes rows, and boundaries between classes tend to lie there.

    Parameters
    ----------
    weight : float, default=1.0
        w. 0: the average of a network trained on the labelled rows alone (batch norm still sees all).

    References
    ----------
    T. Salimans, I. Goodfellow, W. Zaremba, V. Cheung, A. Radford, X. Chen. Improved techniques for training GANs. NIPS
    2016.
    """

    method_name = "feature-matching-gan"

    weight: float = real(1.0, at_least=0)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        network, X, codes = self._begin(rows, rng)
        encoder = network.module["encoder"]
        generator = self._make_generator(rows, X, rng)
        self._prepare(rows, X, rng)

        def classifier_loss(batch: Batch) -> Tensor:
            scores = network.scores(self._disturb(X[batch.both]))
            real = scores[-len(real_rows(batch)) :]
            loss = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled]) + self._more_about_real(real)
            if self.weight:
                with torch.no_grad():
                    made = self._disturb(generator(self._draw(batch)))
                loss = loss + self.weight * (real_loss(real) + made_loss(made_scores(network, made))) / 2
            return loss

        def generator_loss(batch: Batch) -> Tensor:
            made = generator(self._draw(batch))
            with undisturbed(network.module):
                features = encoder(made)
                with torch.no_grad():
                    goal = encoder(X[real_rows(batch)])
            return mean_distance(features, goal) + self._more_about_made(made, features)

        opponents = [(generator, generator_loss)] if self.weight else []
        self._play(network, rows, X, classifier_loss, opponents, rng)

    def _prepare(self, rows: TrainingRows, X: Tensor, rng: np.random.Generator) -> None:
        """Prepare the further terms of the losses."""

    def _more_about_real(self, scores: Tensor) -> Tensor | float:
        """Return a further term of the classifier's loss, of the scores of unlabelled rows."""
        return 0.0

    def _more_about_made(self, made: Tensor, features: Tensor) -> Tensor | float:
        """Return a further term of the generator's loss, of its rows and their embedding."""
        return 0.0


@settings
class ComplementGAN(FeatureMatchingGAN):
    r"""Complement GAN: made-up rows lie where real ones are few, and so do the boundaries.

    It is the feature-matching GAN with three more terms, which make a “bad” generator. The generator's loss has the
    pull-away term, the mean squared cosine between the embeddings of two of its rows, so that they are diverse; and the
    log-density of its rows above a threshold. The classifier's loss has the entropy of its predictions for unlabelled
    rows.

    The density is a normal kernel on up to 500 rows, in their first ten principal components, with the bandwidth under
    which rows are most likely when each is left out in turn. (The paper uses an autoregressive network for images.)
    In many columns, or many levels of categories, such a density says little.

    Parameters
    ----------
    entropy : float, default=0.1
        Weight of the entropy of predictions.
    spread : float, default=1.0
        Weight of the pull-away term.
    low_density : float, default=0.1
        Weight of the density of made-up rows.
    quantile : float, default=0.1
        Share of the rows whose density is below the threshold.

    References
    ----------
    Z. Dai, Z. Yang, F. Yang, W. W. Cohen, R. Salakhutdinov. Good semi-supervised learning that requires a bad GAN. NIPS
    2017.
    """

    method_name = "complement-gan"

    entropy: float = real(0.1, at_least=0)
    spread: float = real(1.0, at_least=0)
    low_density: float = real(0.1, at_least=0)
    quantile: float = real(0.1, at_least=0, at_most=1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        super()._learn(rows, rng)
        self._forget("_density", "_threshold")

    def _prepare(self, rows: TrainingRows, X: Tensor, rng: np.random.Generator) -> None:
        present = np.flatnonzero(rows.weight > 0)
        share = rows.weight[present] / rows.weight[present].sum()
        drawn = present[rng.choice(len(present), min(len(present), 500), replace=False, p=share)]
        self._density = Density(X[torch.from_numpy(drawn).to(X.device)])
        self._threshold = torch.quantile(self._density.left_out, self.quantile)

    def _more_about_real(self, scores: Tensor) -> Tensor | float:
        return self.entropy * entropy(scores) if self.entropy else 0.0

    def _more_about_made(self, made: Tensor, features: Tensor) -> Tensor:
        above = (self._density.log_density(made) - self._threshold).relu().mean()
        return self.spread * pull_away(features) + self.low_density * above


class Density:
    """Sum of normal kernels on every row, in the space of the first principal components.

    The bandwidth is the candidate, in units of the mean deviation of a component, under which rows are most likely when
    each is left out in turn.
    """

    def __init__(
        self,
        X: Tensor,
        *,
        components: int = 10,
        bandwidths: Sequence[float] = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0),
    ) -> None:
        self._mean = X.mean(0)
        axes = torch.linalg.svd((X - self._mean).double(), full_matrices=False)[2]
        self._axes = axes[:components].T.to(X.dtype)
        self._rows = (X - self._mean) @ self._axes
        spread = float(self._rows.double().square().mean().sqrt()) or 1.0
        squares = _square_distances(self._rows, self._rows)
        squares.fill_diagonal_(math.inf)  # a row does not count for itself
        likely = [self._log_density(squares, factor * spread, len(X) - 1) for factor in bandwidths]
        best = max(range(len(bandwidths)), key=lambda i: float(likely[i].double().mean()))
        self.bandwidth = bandwidths[best] * spread
        self.left_out = likely[best]  # the log-density of each row according to the others

    def log_density(self, x: Tensor) -> Tensor:
        """Return the log-density of each row."""
        squares = _square_distances((x - self._mean) @ self._axes, self._rows)
        return self._log_density(squares, self.bandwidth, len(self._rows))

    def _log_density(self, squares: Tensor, h: float, n: int) -> Tensor:
        constant = math.log(n) + self._rows.shape[1] * math.log(h * math.sqrt(2 * math.pi))
        total: Tensor = torch.logsumexp(-squares / (2 * h**2), 1) - constant
        return total


def _square_distances(a: Tensor, b: Tensor) -> Tensor:
    return (a.square().sum(1, keepdim=True) + b.square().sum(1) - 2 * a @ b.T).clamp_min(0)
