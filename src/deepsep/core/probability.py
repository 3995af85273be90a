"""Targets for training networks, and maps from scores to probabilities: Platt's sigmoid and known class shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax

from deepsep.core.arrays import Array
from deepsep.errors import DataError


def check_probabilities(p: Array) -> Array:
    """Return class probabilities (n, c), or raise if they are not: a model never predicts NaN."""
    good = (np.abs(p.sum(axis=1) - 1) < 1e-3) & (p.min(axis=1) > -1e-6)  # false for NaN
    if not good.all():
        raise DataError(
            f"row {int(good.argmin())} gets numbers that are not probabilities. Look for values in it that are far "
            "larger than those of the other rows. If you find none, fit the model again with a smaller learning rate "
            "or penalty."
        )
    return p


def fit_platt(scores: Array, codes: Array, weight: Array) -> tuple[float, float]:
    """Fit p = sigmoid(slope * score + offset) to "is this the row's class?", with Platt's smoothed targets.

    Slope, which is positive, and offset are shared by all classes, so normalised probabilities keep the order of the
    scores, (n, c). A weight of k counts as k rows.
    """
    own = codes[:, None] == np.arange(scores.shape[1])
    pair_weight = np.broadcast_to(weight[:, None], own.shape)
    positive, negative = pair_weight[own].sum(), pair_weight[~own].sum()
    target = np.where(own, (positive + 1) / (positive + 2), 1 / (negative + 2)).ravel()
    w, f = pair_weight.ravel(), scores.ravel().astype(np.float64)
    spread = max(float(np.abs(f).max()), 1e-12)
    f = f / spread

    def loss(theta: Array) -> float:
        z = theta[0] * f + theta[1]
        return float(-(w * (target * log_expit(z) + (1 - target) * log_expit(-z))).sum())

    theta = np.array([1.0, 0.0])
    value = loss(theta)
    for _ in range(100):
        p = expit(theta[0] * f + theta[1])
        error, curve = w * (p - target), w * p * (1 - p)
        gradient = np.array([error @ f, error.sum()])
        hessian = np.array([[curve @ (f * f), curve @ f], [curve @ f, curve.sum()]])
        hessian[np.diag_indices(2)] += 1e-10 * w.sum()
        step = np.linalg.solve(hessian, gradient)
        scale = 1.0
        while scale > 1e-10 and loss(theta - scale * step) > value - 1e-4 * scale * float(gradient @ step):
            scale /= 2
        theta, previous = theta - scale * step, value
        value = loss(theta)
        if previous - value <= 1e-14 * abs(previous):
            break
    return max(float(theta[0]), 1e-6) / spread, float(theta[1])


def log_platt(scores: Array, slope: float, offset: float) -> Array:
    """Return the log of Platt's sigmoid of each score."""
    return np.asarray(log_expit(slope * scores + offset))


def platt_probabilities(scores: Array, slope: float, offset: float) -> Array:
    """Return Platt's sigmoids, normalised to sum to one per row; computed in logs to avoid 0 / 0."""
    return np.asarray(softmax(log_platt(scores, slope, offset), axis=1))


def log_shift_to_shares(log_p: Array, shares: Array, weight: Array) -> Array:
    """Return the a, (c,) with mean 0, for which softmax(log p + a), averaged over the rows, is ``shares``.

    If two populations differ only in their class shares, the probabilities of one are those of the other times a factor
    per class, normalised. Correct probabilities average to the shares of the population, which determines the factors
    e^a. The problem is convex: a minimises mean logsumexp(log p + a) - shares . a.
    """
    log_p, part = log_p.astype(np.float64), weight / weight.sum()

    def look(a: Array) -> tuple[float, Array]:
        return float(part @ logsumexp(log_p + a, axis=1) - shares @ a), part @ softmax(log_p + a, axis=1) - shares

    def hessian(a: Array) -> Array:
        p = softmax(log_p + a, axis=1)
        # Only the differences between entries of a matter: the last term fixes its mean.
        return np.asarray(np.diag(part @ p) - (part[:, None] * p).T @ p + 1 / len(a))

    start = np.log(shares) - np.log(np.maximum(part @ softmax(log_p, axis=1), 1e-300))
    best = minimize(look, start - start.mean(), jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-8})
    return np.asarray(best.x - best.x.mean())


def prior_shift(shares: Array, log_p: Array, weight: Array, codes: Array, code_weight: Array) -> Array:
    """Return the logs of the factors that adjust probabilities to known class shares.

    The weighted mean probabilities of the unlabelled rows, given as logs, become the shares. If there are none, the
    classes of the labelled rows are used, which is correct if the labelled rows of each class are a fair sample of it.
    """
    if len(weight):
        return log_shift_to_shares(log_p, shares, weight)
    among = np.bincount(codes, weights=code_weight)
    return np.asarray(np.log(shares * among.sum() / among))


def shifted(p: Array, shift: Array) -> Array:
    """Return p e^shift, normalised."""
    return np.asarray(softmax(np.log(np.maximum(p, 1e-30)) + shift, axis=1))


def hard_votes(scores: Array) -> Array:
    """Return 1 for the class with the highest score, 0 elsewhere."""
    return np.asarray(np.eye(scores.shape[1])[scores.argmax(axis=1)])


@dataclass(frozen=True)
class ScoreProbabilities:
    """Maps scores, one per class, to class probabilities."""

    # A sigmoid of each score, normalised; the softmax of the scores; or 1 for the highest score
    kind: Literal["platt", "softmax", "hard"]
    platt: tuple[float, float] | None = None  # slope and offset of the sigmoid
    shift: Array | None = None  # (c,): added to the log probabilities, so that they match known class shares

    def log_probabilities(self, scores: Array) -> Array:
        """Return the log probabilities, up to a constant per row."""
        if self.kind == "softmax":
            log_p = scores
        else:
            assert self.platt is not None
            log_p = log_platt(scores, *self.platt)
        return log_p if self.shift is None else log_p + self.shift

    def ranking(self, scores: Array) -> Array:
        """Return the values whose maximum is the predicted class: scores, or shifted log probabilities."""
        return scores if self.shift is None else self.log_probabilities(scores)

    def __call__(self, scores: Array) -> Array:
        """Return the probabilities, (n, c)."""
        if self.kind == "hard":
            return hard_votes(self.ranking(scores))
        return np.asarray(softmax(self.log_probabilities(scores), axis=1))

    def threshold(self) -> float:
        """Return the f at which two classes are equally likely: log p_1 / p_0 = shift_0 - shift_1, solved for f."""
        if self.shift is None:
            return 0.0
        log_odds = self.shift[0] - self.shift[1]
        if self.kind == "softmax":
            return float(log_odds / 2)
        assert self.platt is not None
        slope, offset = self.platt
        size = abs(log_odds)
        rise, tail = np.expm1(size), np.exp(-offset)
        z = np.log((rise + np.hypot(rise, 2 * tail * np.exp(size / 2))) / (2 * tail))
        return float(np.sign(log_odds) * z / slope)


def smooth_labels(codes: Array, n_classes: int, epsilon: float) -> Array:
    """Return h(y), equation (2) of the paper: epsilon for every other class, and the rest for the row's own class.

    The paper gives the row's own class 1 - c epsilon, so that rows sum to 1 - epsilon; here it gets 1 - (c - 1)
    epsilon, so that h(y) is a probability vector.
    """
    targets = np.full((len(codes), n_classes), epsilon, dtype=np.float32)
    targets[np.arange(len(codes)), codes] = 1 - (n_classes - 1) * epsilon
    return targets


def round_weights(n_rounds: int, decay: float) -> Array:
    """Return the weights of rounds 1 to T in the moving average: proportional to decay^(T - t), summing to one.

    They are the weights of s_t = decay s_(t-1) + (1 - decay) g_t with s_0 = 0, divided by 1 - decay^T.
    """
    weights = decay ** np.arange(n_rounds - 1, -1, -1, dtype=np.float64)
    return np.asarray(weights / weights.sum())


def moving_averages(rounds: Array, decay: float) -> Array:
    """Return the moving average up to each round, (T + 1, n, c); round 0, the start, is not part of the others."""
    averages = rounds.copy()
    for t in range(1, len(rounds)):
        averages[t] = np.tensordot(round_weights(t, decay), rounds[1 : t + 1], 1)
    return averages


def fit_temperature(probabilities: Array, codes: Array, weight: Array) -> float:
    """Return the T >= 1 for which p^(1/T), normalised, has the lowest log loss on these rows.

    Sharper probabilities, T < 1, are not considered: a few rows that all happen to be right would demand certainty.
    """
    log_p = np.log(np.maximum(probabilities.astype(np.float64), 1e-30))

    def loss(log_t: float) -> float:
        scaled = log_softmax(log_p / np.exp(log_t), axis=1)
        return float(-(weight * scaled[np.arange(len(codes)), codes]).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(0.0, np.log(20.0)), method="bounded").x))


def temper(probabilities: Array, temperature: float) -> Array:
    """Return p^(1/T), normalised."""
    return np.asarray(softmax(np.log(np.maximum(probabilities, 1e-30)) / temperature, axis=1))


def mixture_weights(likelihoods: Array, weight: Array, *, penalty: float = 0.3) -> Array:
    """Return the weights with which several models' probabilities are best averaged; equal ones without evidence.

    They are the softmax of the numbers a that minimise the log loss of the mixture, summed over rows, plus ``penalty *
    sum a^2``. The likelihoods, (models, n), are the probability that each model gave to the class of each row without
    having seen its label.
    """
    likelihoods = np.maximum(likelihoods, 1e-7)

    def look(a: Array) -> tuple[float, Array]:
        mix = softmax(a)
        p = mix @ likelihoods
        gradient = -mix * ((likelihoods / p - 1) @ weight)
        return float(-(weight @ np.log(p)) + penalty * a @ a), gradient + 2 * penalty * a

    best = minimize(look, np.zeros(len(likelihoods)), jac=True, method="BFGS")
    return np.asarray(softmax(best.x))
