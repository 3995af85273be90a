"""Triple-GAN: a judge tells labelled rows from pairs of row and class by a classifier and a generator."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

from deepsep.classifiers.declared_settings import real, settings
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch
from deepsep.zoo.adversarial.generative_adversarial import (
    GenerativeAdversarial,
    PairJudge,
    made_scores,
    real_rows,
    undisturbed,
)

Pairs = tuple[Tensor, Tensor]


@settings
class TripleGAN(GenerativeAdversarial):
    r"""Triple-GAN: predicted pairs of row and class, and generated ones, should look like labelled rows.

    Three networks are trained. The judge D(x, y) learns to tell labelled rows with their classes from two other kinds
    of pairs: unlabelled rows with the classes C predicted by the classifier, a share α, and rows G(z, y) that a
    generator made for a class. The generator raises log D of its pairs. The loss of the classifier is the cross-entropy
    of the labelled rows, plus β α times the mean over unlabelled rows of :math:`\sum_y C(y|x) \log(1 - D(x, y))`, plus,
    after a warm-up, γ times the cross-entropy of made-up rows with the classes they were made for. The sum over classes
    takes the place of a sampled class, here and in the judge's loss: it has the same mean and no variance.

    The optimal judge is D = p / (p + α p_C + (1 - α) p_G), with p the distribution of labelled pairs, and both other
    kinds of pairs approach p. A judge memorises a few labelled rows, so it has noise and dropout as well.

    Parameters
    ----------
    alpha : float, default=0.5
        α.
    adversarial : float, default=0.1
        β. The paper has 1, which was worse with 35 to 125 labels, since the judge has seen too few pairs.
    pseudo : float, default=0.1
        γ.
    warm_up : float, default=0.25
        Share of the steps without made-up rows in the classifier's loss.

    Notes
    -----
    Made-up rows have the class shares of the labelled rows. With ``adversarial=0`` and ``pseudo=0`` it is the average
    of a network trained on the labelled rows alone.

    References
    ----------
    C. Li, K. Xu, J. Zhu, B. Zhang. Triple generative adversarial nets. NIPS 2017.
    """

    method_name = "triple-gan"

    alpha: float = real(0.5, above=0, below=1)
    adversarial: float = real(0.1, at_least=0)
    pseudo: float = real(0.1, at_least=0)
    warm_up: float = real(0.25, at_least=0, below=1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        network, X, codes = self._begin(rows, rng)
        generator = self._make_generator(rows, X, rng, rows.n_classes)
        d, c = X.shape[1], rows.n_classes
        judge = PairJudge(d, c, hidden=tuple(self.hidden), dropout=self.dropout, rng=rng).to(X.device)
        certain = torch.eye(c, device=X.device)  # certain[y]: probability 1 for class y

        def make(batch: Batch) -> tuple[Tensor, Tensor]:
            noise, given = self._draw(batch), codes[batch.labeled]
            y = given.repeat(-(-len(noise) // len(given)))[: len(noise)]
            return generator(noise, y), y

        def classifier_loss(batch: Batch) -> Tensor:
            x = self._disturb(X[batch.both])
            scores = network.scores(x)
            loss = cross_entropy(scores[: len(batch.labeled)], codes[batch.labeled])
            if self.adversarial:
                real = slice(-len(real_rows(batch)), None)
                with torch.no_grad():
                    verdicts = judge(x[real])
                loss = loss + self.adversarial * self.alpha * mean_log_fake(scores[real].softmax(-1), verdicts)
            if self.pseudo:
                with torch.no_grad():
                    made, y = make(batch)
                weight = self.pseudo * (batch.progress >= self.warm_up)
                loss = loss + weight * cross_entropy(made_scores(network, self._disturb(made)), y)
            return loss

        def judge_loss(batch: Batch) -> Tensor:
            given, real = batch.labeled, real_rows(batch)
            with torch.no_grad(), undisturbed(network.module):
                p = network.scores(X[real]).softmax(-1)
                made, y = make(batch)
            verdicts = judge(self._disturb(torch.cat([X[given], X[real], made])))
            first, second, third = verdicts.split([len(given), len(real), len(made)])
            return judge_loss_of((certain[codes[given]], first), (p, second), (certain[y], third), self.alpha)

        def generator_loss(batch: Batch) -> Tensor:
            made, y = make(batch)
            return -mean_log_real(certain[y], judge(self._disturb(made)))

        opponents = [(judge, judge_loss), (generator, generator_loss)] if self.adversarial or self.pseudo else []
        self._play(network, rows, X, classifier_loss, opponents, rng)


def judge_loss_of(labeled: Pairs, predicted: Pairs, made: Pairs, alpha: float) -> Tensor:
    """Return the loss of the judge, for which labelled pairs are real and the others are fake."""
    return -mean_log_real(*labeled) - alpha * mean_log_fake(*predicted) - (1 - alpha) * mean_log_fake(*made)


def mean_log_real(p: Tensor, verdicts: Tensor) -> Tensor:
    """Return the mean over rows of the sum over classes of p(y | x) log D(x, y); D is the sigmoid of a verdict."""
    return (p * logsigmoid(verdicts)).sum(-1).mean()


def mean_log_fake(p: Tensor, verdicts: Tensor) -> Tensor:
    """Return the mean over rows of the sum over classes of p(y | x) log(1 - D(x, y))."""
    return mean_log_real(p, -verdicts)
