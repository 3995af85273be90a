"""Triple-GAN: a classifier and a generator that make pairs of a row and a class, and a judge of such pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deepsep import networks
from deepsep.classifiers.base import settings
from deepsep.classifiers.generative_adversarial import GenerativeAdversarial, made_scores, undisturbed
from deepsep.core.checks import is_number, require
from deepsep.core.training_rows import TrainingRows

if TYPE_CHECKING:
    from torch import Tensor

    from deepsep.networks import Batch


@settings
class TripleGAN(GenerativeAdversarial):
    method_name = "triple-gan"

    alpha: float = 0.5
    adversarial: float = 1.0
    pseudo: float = 0.1
    warm_up: float = 0.25

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_weights("adversarial", "pseudo")
        require(self, "alpha", is_number(self.alpha) and 0 < self.alpha < 1, "a number between 0 and 1")
        require(self, "warm_up", is_number(self.warm_up) and 0 <= self.warm_up < 1, "a number from 0 to below 1")

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        network, X = self._begin(rows, rng)
        generator = self._make_generator(rows, X, rng, rows.n_classes)
        judge = networks.PairJudge(
            X.shape[1], rows.n_classes, hidden=tuple(self.hidden), dropout=self.dropout, rng=rng
        ).to(X.device)
        codes = torch.from_numpy(rows.codes).to(X.device)

        def real(batch: Batch) -> Tensor:
            return batch.unlabelled if len(batch.unlabelled) else batch.labelled

        def make(batch: Batch) -> tuple[Tensor, Tensor]:
            noise = self._latent(len(real(batch)), X.device)
            given = codes[batch.labelled]
            y = given.repeat(-(-len(noise) // len(given)))[: len(noise)]
            return generator(noise, y), y

        def classifier_loss(batch: Batch) -> Tensor:
            b = len(batch.labelled)
            x = self._disturb(X[batch.both])
            scores = network.scores(x)
            loss = cross_entropy(scores[:b], codes[batch.labelled])
            at = slice(len(x) - len(real(batch)), None)
            if self.adversarial:
                with torch.no_grad():
                    verdict = judge(x[at])
                loss = loss + self.adversarial * self.alpha * expected_log_fake(scores[at].softmax(-1), verdict)
            if self.pseudo:
                with torch.no_grad():
                    made, y = make(batch)
                on = (batch.progress >= self.warm_up).to(x.dtype)
                loss = loss + on * self.pseudo * cross_entropy(made_scores(network, self._disturb(made)), y)
            return loss

        def judge_loss(batch: Batch) -> Tensor:
            at = real(batch)
            with torch.no_grad(), undisturbed(network.module):
                p = network.scores(X[at]).softmax(-1)
                made, y = make(batch)
            verdicts = judge(self._disturb(torch.cat([X[batch.labelled], X[at], made])))
            given, unknown, invented = verdicts.split([len(batch.labelled), len(at), len(made)])
            return pair_loss(given, codes[batch.labelled], unknown, p, invented, y, self.alpha)

        def generator_loss(batch: Batch) -> Tensor:
            made, y = make(batch)
            return cross_log_real(judge(self._disturb(made)), y)

        opponents = [(judge, judge_loss), (generator, generator_loss)] if self.adversarial or self.pseudo else []
        self._play(network, rows, X, classifier_loss, opponents, rng)


def expected_log_fake(p: Tensor, verdicts: Tensor) -> Tensor:
    """Return the mean over rows of the sum over classes of p(y | x) log(1 - D(x, y)); D is a verdict's sigmoid."""
    from torch.nn.functional import softplus

    return -(p * softplus(verdicts)).sum(-1).mean()


def cross_log_real(verdicts: Tensor, codes: Tensor) -> Tensor:
    """Return the mean of -log D(x, y) for the given y."""
    from torch.nn.functional import softplus

    return softplus(-verdicts.gather(1, codes.unsqueeze(1))).mean()


def pair_loss(
    given: Tensor, codes: Tensor, unknown: Tensor, p: Tensor, invented: Tensor, wanted: Tensor, alpha: float
) -> Tensor:
    from torch.nn.functional import softplus

    invented_fake = softplus(invented.gather(1, wanted.unsqueeze(1))).mean()
    return cross_log_real(given, codes) - alpha * expected_log_fake(p, unknown) + (1 - alpha) * invented_fake
