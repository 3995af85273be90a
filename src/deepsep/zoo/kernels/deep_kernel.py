"""Semi-supervised deep kernel learning: a Gaussian process on a network's embedding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.special import softmax
from torch import Tensor, nn

from deepsep.classifiers.declared_settings import integer, real, setting, settings
from deepsep.core.arrays import Array, checked_array
from deepsep.core.checks import is_integer
from deepsep.core.training_rows import TrainingRows
from deepsep.networks import Batch, tensor
from deepsep.networks.frozen import ROW_BITS, WEIGHT_BITS, evaluate, rounded
from deepsep.zoo.kernels.svm_network import fit_slope, held_out
from deepsep.zoo.network_method import NetworkMethod


@settings
class DeepKernel(NetworkMethod):
    r"""Deep kernel learning: a Gaussian process on a network's embedding, also confident about unlabelled rows.

    A network embeds the rows, and a Gaussian process with an RBF kernel on the embedding predicts the classes. Its
    targets are 1 for a row's class and 0 for the others, minus the shares of the classes among the labels. All classes
    share the kernel. The network and the kernel's length, variance and noise are trained together to lower

    .. math:: -\frac{1}{\ell c} \log p(Y \mid \text{embeddings}) + \alpha \cdot \frac1u \sum_{i \in u}
        \operatorname{Var}[f(x_i) \mid Y],

    the negative log marginal likelihood of the labelled rows, and the mean posterior variance of the unlabelled ones:
    an embedding is good if every unlabelled row lies close to some labelled ones. The paper is about regression.

    Targets are predicted with a mean :math:`m_k` and a variance :math:`s^2`. The probability of class k is
    proportional to its share times :math:`e^{\beta m_k / s}`, where β is fitted to held-out labelled rows, for which
    ``folds`` further networks are trained. For an embedding far from those of all labelled rows, the probabilities are
    the shares.

    Parameters
    ----------
    alpha : float, default=1.0
        α, the weight of the variance. 0: the labelled rows alone (batch norm still sees all).
    max_labeled : int, default=1000
        Maximum number of labelled rows that predictions use, drawn at random if there are more. The time to predict a
        row grows with its square.
    folds : int, default=3
        Number of parts of the labelled rows, each held out once to fit β. 0: no further networks. Each labelled row is
        then predicted by the Gaussian process without it, in closed form, but on an embedding that has seen its label.
        This is cheap, and much too confident. It is also used if no class has two labelled rows.
    batch_size, unlabeled_batch : int, default=128 and 128
        Labelled and unlabelled rows in a step. With more labelled rows, a step uses the likelihood of some.

    Attributes
    ----------
    length_, variance_, noise_ : float
        Parameters of the kernel, and noise of targets scaled to a mean square of 1.
    slope_ : float
        β.

    References
    ----------
    N. Jean, S. M. Xie, S. Ermon. Semi-supervised deep kernel learning: regression with unlabeled data by minimizing
    predictive variance. NeurIPS 2018.
    """

    method_name = "deep-kernel"
    _saved_values: ClassVar = dict.fromkeys(("length_", "variance_", "noise_", "slope_"), float)

    alpha: float = real(1.0, at_least=0)
    max_labeled: int = integer(1000, 2)
    folds: int = setting(3, lambda folds: is_integer(folds, 0) and folds != 1, "0, or an integer of at least 2")
    steps: int = 500
    batch_size: int = 128

    @property
    def _all_steps(self) -> int:
        return (1 + self.folds) * self.steps

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        hidden, parts = [np.empty((0, rows.n_classes))], [np.empty(0, int)]
        for held, others in held_out(rows, self.folds, rng) if self.folds else ():
            self._fit_process(others, rng)
            hidden.append(self._scores(rows.X[held]))
            parts.append(held)
        at, targets = self._fit_process(rows, rng)
        scores, held = np.concatenate(hidden), np.concatenate(parts)
        if not len(held):
            mean, variance = self._process.leave_one_out(targets)
            scores, held = mean / np.sqrt(variance)[:, None], at
        self.slope_ = fit_slope(scores, rows.codes[held], rows.weight[held], self._log_shares)

    def _fit_process(self, rows: TrainingRows, rng: np.random.Generator) -> tuple[Array, Array]:
        """Train a network and its Gaussian process; return the labelled rows it uses, and their targets."""
        network, X, _ = self._begin(rows, rng)
        encoder = network.module["encoder"]
        kernel = KernelHead(self.hidden[-1]).to(network.device)
        shares, targets = centred_targets(rows)
        Y = tensor(targets, network.device)

        def loss_of(batch: Batch) -> Tensor:
            e, b = encoder(X[batch.both]), len(batch.labeled)
            loss, variance = kernel.costs(e[:b], Y[batch.labeled], e[b:] if self.alpha else e[:0])
            return loss + self.alpha * variance

        self._train(network, rows, loss_of, rng, extra=kernel)
        self._keep(network.state())
        self.length_, self.variance_, self.noise_ = (value.item() for value in kernel.settings())
        at = rows.labeled
        if len(at) > self.max_labeled:
            at = np.sort(rng.choice(at, self.max_labeled, replace=False))
        self._process = FrozenKernel.of(
            self._embed(rows.X[at]), targets[at], rows.weight[at], self.length_, self.variance_, self.noise_
        )
        self._log_shares = np.log(shares)
        return at, targets[at]

    def _embed(self, X: Array) -> Array:
        return evaluate(self.network_weights_, self._scaling.apply(X), head=False)

    def _scores(self, X: Array) -> Array:
        """Return the mean of each target divided by its deviation."""
        mean, variance = self._process.predict(self._embed(X))
        return np.asarray(mean / np.sqrt(variance)[:, None])

    def _probabilities(self, X: Array) -> Array:
        return np.asarray(softmax(self.slope_ * self._scores(X) + self._log_shares, axis=1))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, arrays = super()._parts()
        process = self._process
        held = {"known": process.known, "coef": process.coef, "inverse_root": process.inverse_root}
        return state, {**arrays, **held, "log_shares": self._log_shares}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        known = checked_array(arrays, "known", (None, self.hidden[-1]), "f")
        n, c = len(known), len(self.classes_)
        coef, root = checked_array(arrays, "coef", (n, c), "f"), checked_array(arrays, "inverse_root", (n, n), "f")
        self._process = FrozenKernel(known, coef, root, self.length_, self.variance_, self.noise_)
        self._log_shares = checked_array(arrays, "log_shares", (c,), "f")


def centred_targets(rows: TrainingRows) -> tuple[Array, Array]:
    """Return the shares of the classes among the labels, and targets (n, c) of mean 0 and a mean square of 1.

    Unlabelled rows have zeros.
    """
    at, c = rows.labeled, rows.n_classes
    part = rows.weight[at] / rows.weight[at].sum()
    shares = np.bincount(rows.codes[at], part, c)
    targets = np.zeros((len(rows.codes), c))
    targets[at] = np.eye(c)[rows.codes[at]] - shares
    return shares, targets / np.sqrt((part @ np.square(targets[at])).mean())


class KernelHead(nn.Module):
    """Length, amplitude and noise of a Gaussian process on an embedding: the loss of deep kernel learning.

    Targets are y(x) = f(x) + noise, with f of mean 0 and the kernel a² exp(-|e - e'|² / 2λ²) of embeddings e. All
    classes share the kernel, and with it one Cholesky factor. If values of the embedding are of the order of 1, rows
    are neither all alike nor all different at first.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.log_length = nn.Parameter(torch.tensor(0.5 * math.log(width / 2), dtype=torch.float32))
        self.log_variance = nn.Parameter(torch.tensor(0.0, dtype=torch.float32))
        self.log_noise = nn.Parameter(torch.tensor(math.log(0.1), dtype=torch.float32))

    def settings(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return λ, a² and the variance of the noise, in double precision."""
        length, variance, noise = (p.double().exp() for p in (self.log_length, self.log_variance, self.log_noise))
        return length, variance, noise + 1e-3  # so that rows with equal embeddings may differ

    def costs(self, known: Tensor, targets: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Return the negative log marginal likelihood of rows, and the mean posterior variance of f at other rows.

        Both kinds of rows are given by their embeddings. The likelihood is a mean over rows and columns.
        """
        length, variance, noise = self.settings()
        known, others, targets = known.double() / length, others.double() / length, targets.double()
        eye = torch.eye(len(known), dtype=torch.float64, device=known.device)
        root = torch.linalg.cholesky_ex(variance * gaussian(known, known) + noise * eye)[0]
        fit = torch.linalg.solve_triangular(root, targets, upper=False).square().mean()
        log_det = 2 * root.diagonal().log().mean()
        loss = 0.5 * (fit + log_det + math.log(2 * math.pi))
        if not len(others):
            return loss, torch.zeros_like(loss)
        seen = torch.linalg.solve_triangular(root, variance * gaussian(known, others), upper=False)
        return loss, variance - seen.square().sum(0).mean()


def gaussian(a: Tensor, b: Tensor) -> Tensor:
    """Return exp(-|a_i - b_j|² / 2)."""
    square = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
    return (-0.5 * square.clamp_min(0)).exp()


@dataclass(frozen=True)
class FrozenKernel:
    """Posterior of a Gaussian process, given the targets of some rows; a row gets the same bits in any batch.

    As in :mod:`deepsep.networks.frozen`, both factors of every matrix product lie on grids on which sums are exact in
    double precision, in any order. The kernel is variance * exp(-|e - e'|² / 2 length²).
    """

    known: Array  # (l, k): embeddings of these rows, from -1 to 1, on a grid
    coef: Array  # (l, c): inverse of the covariance of the targets, times the targets
    inverse_root: Array  # (l, l): inverse of the covariance's lower triangle
    length: float
    variance: float
    noise: float  # of the targets

    @classmethod
    def of(
        cls, known: Array, targets: Array, weight: Array, length: float, variance: float, noise: float
    ) -> FrozenKernel:
        """Condition on targets; a row of weight w stands for w rows, each with its own noise."""
        known = on_steps(known)
        covariance = variance * _gaussian(known, known, length)
        # A floor on the noise of rows of great weight, so that rows with equal embeddings may differ.
        covariance[np.diag_indices_from(covariance)] += np.maximum(noise / weight, 1e-8 * variance)
        inverse_root = np.tril(solve_triangular(cholesky(covariance, lower=True), np.eye(len(known)), lower=True))
        return cls(known, inverse_root.T @ (inverse_root @ targets), inverse_root, length, variance, noise)

    def predict(self, embedding: Array, chunk: int = 2_048) -> tuple[Array, Array]:
        """Return mean (n, c) and variance (n,) of the targets of new rows, noise included."""
        mean, variance = np.empty((len(embedding), self.coef.shape[1])), np.empty(len(embedding))
        for start in range(0, len(embedding), chunk):
            part = slice(start, start + chunk)
            k = _gaussian(on_steps(embedding[part]), self.known, self.length)
            k = rounded(k, np.array(-ROW_BITS))
            mean[part] = k @ self._on_grid[0]
            explained = np.square(k @ self._on_grid[1])
            # One column after the other, since the bits of a sum along a row depend on how rows are stored.
            variance[part] = self.variance + self.noise - np.cumsum(explained, axis=1)[:, -1]
        return mean, np.maximum(variance, self.noise)

    def leave_one_out(self, targets: Array) -> tuple[Array, Array]:
        """Return mean (l, c) and variance (l,) of each row's target, noise included, given those of all other rows."""
        precision = np.square(self.inverse_root).sum(axis=0)
        return targets - self.coef / precision[:, None], 1 / precision

    @cached_property
    def _on_grid(self) -> tuple[Array, Array]:
        parts = self.variance * self.coef, self.variance * self.inverse_root.T
        _, exponents = zip(*(np.frexp(1.001 * np.abs(part).sum(axis=0)) for part in parts), strict=True)
        first, second = (rounded(part, e - WEIGHT_BITS) for part, e in zip(parts, exponents, strict=True))
        return first, second


def on_steps(embedding: Array) -> Array:
    """Return numbers from -1 to 1, rounded to the grid, as float64.

    The grid has 22 bits, so products of two numbers, summed over up to 500, have 53 bits.
    """
    return rounded(embedding.astype(np.float64), np.array(-22))


def _gaussian(a: Array, b: Array, length: float) -> Array:
    square = np.square(a) @ np.ones((a.shape[1], 1)) + np.square(b).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.exp(-0.5 / length**2 * np.maximum(square, 0)))
