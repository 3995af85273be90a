"""Adversarial networks that tell real rows of K classes from made-up ones: feature matching, and its complement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepsep import networks
from deepsep.classifiers.base import settings
from deepsep.classifiers.generative_adversarial import (
    GenerativeAdversarial,
    entropy,
    made_loss,
    made_scores,
    mean_distance,
    pull_away,
    real_loss,
    undisturbed,
)
from deepsep.core.checks import is_number, require
from deepsep.core.training_rows import TrainingRows

if TYPE_CHECKING:
    from torch import Tensor

    from deepsep.networks import Batch, Density

CENTRES = 500  # rows that a density is made of, at most


@settings
class FeatureMatchingGAN(GenerativeAdversarial):
    method_name = "feature-matching-gan"

    weight: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_weights("weight")

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        network, X = self._begin(rows, rng)
        generator = self._make_generator(rows, X, rng)
        codes = torch.from_numpy(rows.codes).to(network.device)
        self._prepare(rows, X, rng)

        def real(batch: Batch) -> Tensor:
            return batch.unlabelled if len(batch.unlabelled) else batch.labelled

        def classifier_loss(batch: Batch) -> Tensor:
            b = len(batch.labelled)
            scores = network.scores(self._disturb(X[batch.both]))
            loss = cross_entropy(scores[:b], codes[batch.labelled])
            if self.weight:
                with torch.no_grad():
                    made = self._disturb(generator(self._latent(len(real(batch)), X.device)))
                found = scores[-len(real(batch)) :]
                loss = loss + self.weight * (real_loss(found) + made_loss(made_scores(network, made))) / 2
                loss = loss + self._more_about_real(found)
            return loss

        def generator_loss(batch: Batch) -> Tensor:
            made = generator(self._latent(len(real(batch)), X.device))
            with undisturbed(network.module):
                features = network.module["encoder"](made)
                with torch.no_grad():
                    goal = network.module["encoder"](X[real(batch)])
            return mean_distance(features, goal) + self._more_about_made(made, features)

        opponents = [(generator, generator_loss)] if self.weight else []
        self._play(network, rows, X, classifier_loss, opponents, rng)

    def _prepare(self, rows: TrainingRows, X: Tensor, rng: np.random.Generator) -> None:
        pass

    def _more_about_real(self, scores: Tensor) -> Tensor | float:
        return 0.0

    def _more_about_made(self, made: Tensor, features: Tensor) -> Tensor | float:
        return 0.0


@settings
class ComplementGAN(FeatureMatchingGAN):
    method_name = "complement-gan"

    entropy: float = 0.1
    spread: float = 1.0
    low_density: float = 0.1
    dense: float = 0.1

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_weights("entropy", "spread", "low_density")
        require(self, "dense", is_number(self.dense) and 0 < self.dense < 1, "a number between 0 and 1")

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        super()._learn(rows, rng)
        self._forget("_density", "_least")

    def _prepare(self, rows: TrainingRows, X: Tensor, rng: np.random.Generator) -> None:
        import torch

        weight = rows.weight.astype(np.float64)
        n = int((weight > 0).sum())
        drawn = rng.choice(len(weight), min(n, CENTRES), replace=False, p=weight / weight.sum())
        self._density = networks.Density(X[torch.from_numpy(drawn).to(X.device)])
        self._least = torch.quantile(self._density.left_out, self.dense)

    def _more_about_real(self, scores: Tensor) -> Tensor:
        return self.entropy * entropy(scores)

    def _more_about_made(self, made: Tensor, features: Tensor) -> Tensor:
        above = (self._density.log_density(made) - self._least).relu()
        return self.spread * pull_away(features) + self.low_density * above.mean()
