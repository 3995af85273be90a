"""Entropy minimisation for logistic regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from deepsep.classifiers.declared_settings import integer, real, settings
from deepsep.core.arrays import Array, checked_array
from deepsep.core.training_rows import TrainingRows
from deepsep.zoo.scaled_method import ScaledMethod


@settings
class EntropyLogistic(ScaledMethod):
    r"""Multinomial logistic regression that should also be confident about the unlabelled rows.

    Minimises :math:`\sum_i -\log p_{y_i}(x_i) + \lambda \frac{\ell}{u} \sum_j H(p(x_j)) + \frac{1}{2 C} \lVert W
    \rVert^2` over weights W and offsets: the log loss of the ℓ labelled rows, as scikit-learn's
    ``LogisticRegression`` has it, and the entropy of the predictions of the u unlabelled ones.

    Neither the entropy nor the sum is convex, so there are local minima, and the result depends on the start. The start
    is the minimum without the entropy, which is convex. So the result is a supervised boundary that was moved away from
    the unlabelled rows.

    Parameters
    ----------
    entropy : float, default=0.1
        λ. 0: logistic regression of the labelled rows alone.
    C : float, default=1.0
        Inverse strength of the penalty on the weights.
    max_iter : int, default=500
        Maximum number of iterations of L-BFGS, in each of the two minimisations.
    random_state : int, RandomState or None, default=None
        Not used, since nothing is random; accepted because every method has it.

    Attributes
    ----------
    coef_, intercept_ : arrays (c, d) and (c,)
        Weights of the scaled features, and offsets.
    objective_ : float
        Final value of the objective.
    n_iter_ : int
        Iterations of the last minimisation.

    Notes
    -----
    With two classes, each has weights, w and -w. scikit-learn has one vector then, and the same C is half the penalty.
    A sample weight of k equals k copies of a row.

    References
    ----------
    Y. Grandvalet, Y. Bengio. Semi-supervised learning by entropy minimization. NIPS 2004.
    """

    method_name = "entropy-logistic"
    _saved_values: ClassVar = {"objective_": float, "n_iter_": int}

    entropy: float = real(0.1, at_least=0)
    C: float = real(1.0, above=0)
    max_iter: int = integer(500, 1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        d, c = rows.X.shape[1], rows.n_classes
        self._fit_scaling(rows)
        lab, unl = rows.labeled, rows.unlabeled
        labeled = (self._scale(rows.X[lab]), np.eye(c)[rows.codes[lab]], rows.weight[lab])
        unlabeled = (self._scale(rows.X[unl]), rows.weight[unl])

        def minimum(entropy: float, start: Array) -> Any:
            return minimize(
                objective,
                start,
                args=(labeled, unlabeled, entropy, self.C),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": self.max_iter, "maxfun": 10 * self.max_iter, "gtol": 1e-6, "ftol": 1e-14},
            )

        solution = minimum(0.0, np.zeros((d + 1) * c))
        if self.entropy > 0 and len(unl):
            solution = minimum(self.entropy, solution.x)
        self.n_iter_, self.objective_ = int(solution.nit), float(solution.fun)
        weights = solution.x.reshape(d + 1, c).T
        self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()

    def _scale(self, X: Array) -> Array:
        return np.asarray((X.astype(np.float64) - self._scaling.centre) / self._scaling.scale)

    def _probabilities(self, X: Array) -> Array:
        return np.asarray(softmax(self._scale(X) @ self.coef_.T + self.intercept_, axis=1))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        state, arrays = super()._parts()
        return state, {"coef_": self.coef_, "intercept_": self.intercept_, **arrays}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        d, c = self.n_features_in_, len(self.classes_)
        self.coef_ = checked_array(arrays, "coef_", (c, d), "f")
        self.intercept_ = checked_array(arrays, "intercept_", (c,), "f")


def objective(
    theta: Array, labeled: tuple[Array, Array, Array], unlabeled: tuple[Array, Array], entropy: float, C: float
) -> tuple[float, Array]:
    """Return the objective of :class:`EntropyLogistic` and its gradient, at weights (d, c) followed by offsets (1, c).

    Rows come with weights, labelled ones also with labels as vectors of 0 and 1.
    """
    X, Y, weight = labeled
    W = theta.reshape(-1, Y.shape[1])
    log_p = log_softmax(X @ W[:-1] + W[-1], axis=1)
    value = -(weight @ (Y * log_p).sum(axis=1)) + (W[:-1] ** 2).sum() / (2 * C)
    slope = weight[:, None] * (np.exp(log_p) - Y)
    gradient = np.vstack([X.T @ slope + W[:-1] / C, slope.sum(axis=0)])
    X, mass = unlabeled
    if entropy > 0 and len(X):
        share = entropy * weight.sum() * mass / mass.sum()
        log_p = log_softmax(X @ W[:-1] + W[-1], axis=1)
        p = np.exp(log_p)
        H = -(p * log_p).sum(axis=1)
        value += share @ H
        slope = -share[:, None] * p * (log_p + H[:, None])  # dH / ds_k = -p_k (log p_k + H)
        gradient += np.vstack([X.T @ slope, slope.sum(axis=0)])
    return float(value), gradient.ravel()
