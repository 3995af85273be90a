"""SemiBoost: boosting in which unlabelled rows take the labels of similar rows, most certain first."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from deepsep.classifiers.base import UnweightedClassifier
from deepsep.classifiers.declared_settings import integer, real, setting, settings
from deepsep.classifiers.supervised import seeded
from deepsep.core.arrays import Array, checked_array, checked_pieces
from deepsep.core.training_rows import TrainingRows
from deepsep.files.foreign import dump_classifiers, load_classifiers
from deepsep.zoo.graphs.graph import affinities, connect, neighbours
from deepsep.zoo.scaled_method import ScaledMethod


def _is_learner(value: Any) -> bool:
    return value is None or (hasattr(value, "get_params") and not isinstance(value, type))


@settings
class SemiBoost(ScaledMethod, UnweightedClassifier):
    r"""SemiBoost: a sequence of weak learners, trained on labels of unlabelled rows from similar rows.

    For each class against the others, with labels y = ±1 and similarities S, the score H = Σ α_t h_t lowers

    .. math:: F = \sum_{i \in \ell, j \in u} S_{ij} e^{-2 y_i H_j} + C \sum_{i, j \in u} S_{ij} e^{H_i - H_j}.

    In each round, p_i and q_i measure how strongly the rows similar to an unlabelled row i pull it to 1 and to −1. Rows
    are drawn in proportion to |p_i − q_i|, labelled with the sign of p_i − q_i, and a weak learner h is trained on them
    and the labelled rows. Its weight α has a closed form; F falls in every round with α > 0, and rounds end at the
    first α that is not positive. The probability of a class is :math:`1 / (1 + e^{-4H})`, for which F is lowest,
    divided by the sum over the classes.

    The paper has the similarities of all pairs of rows. Here a row is similar to its nearest neighbours only, in a
    sparse matrix: :math:`S_{ij} = e^{-d_{ij}^2 / \sigma^2}`, with σ the distance to the farthest neighbour, and
    the larger of the two values of a pair.

    Parameters
    ----------
    estimator : classifier, optional
        The weak learner. By default a decision tree of depth 5 with at least three rows per leaf.
    rounds : int, default=20
        Maximum number of weak learners for a class.
    C : float, optional
        Weight of the pairs of unlabelled rows; by default the ratio of labelled to unlabelled rows.
    sample : float, default=0.03
        Share of the unlabelled rows that are drawn for a weak learner.
    n_neighbors : int, default=25
        Number of neighbours of a row.

    Attributes
    ----------
    boosted_ : list of lists of (float, classifier)
        The weak learners of each class, with their weights in the score H.
    objective_path_ : list of arrays
        F before the first round and after each round, for each class (one for two classes). It never rises.

    References
    ----------
    P. K. Mallapragada, R. Jin, A. K. Jain, Y. Liu. SemiBoost: boosting for semi-supervised learning. IEEE PAMI 2009.
    """

    method_name = "semiboost"

    estimator: Any = setting(None, _is_learner, "a classifier, such as DecisionTreeClassifier(max_depth=3), or None")
    rounds: int = integer(20, 1)
    C: float | None = real(None, at_least=0, or_else=(None,))
    sample: float = real(0.03, above=0, at_most=1)
    n_neighbors: int = integer(25, 1)

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        X = self._fit_scaling(rows).apply(rows.X)
        distance, index = neighbours(X, self.n_neighbors)
        S = connect(index, affinities(distance))
        self.boosted_, self.objective_path_ = [], []
        for k in range(1, 2) if rows.n_classes == 2 else range(rows.n_classes):
            signs = np.where(rows.codes[rows.labeled] == k, 1, -1)
            boosted, path = self._boost(X, signs, S, rows, rng)
            self.boosted_.append(boosted)
            self.objective_path_.append(path)

    def _boost(
        self, X: Array, signs: Array, S: sparse.csr_array, rows: TrainingRows, rng: np.random.Generator
    ) -> tuple[list[tuple[float, Any]], Array]:
        labeled, unlabeled = rows.labeled, rows.unlabeled
        similar = Similarities.of(S, labeled, unlabeled, signs, self.C)
        X_u = X[unlabeled]
        H = np.zeros(len(unlabeled))
        path = [similar.objective(H)]
        boosted: list[tuple[float, Any]] = []
        for _ in range(self.rounds):
            p, q = similar.pulls(H)
            drawn = draw_by_weight(np.abs(p - q), self.sample, rng)
            if not drawn.size:
                break
            learner = self._weak_learner(rng).fit(
                np.concatenate([X[labeled], X_u[drawn]]),
                np.concatenate([signs, np.where(p[drawn] > q[drawn], 1, -1)]),
            )
            h = learner.predict(X_u)
            alpha = weight_of(h, p, q)
            if alpha <= 0:
                break
            H = H + alpha * h
            path.append(similar.objective(H))
            boosted.append((alpha, learner))
        if not boosted:  # no help from similarities: the labels alone, with odds of e to 1
            boosted = [(0.25, self._weak_learner(rng).fit(X[labeled], signs))]
        return boosted, np.array(path)

    def _weak_learner(self, rng: np.random.Generator) -> Any:
        tree = DecisionTreeClassifier(max_depth=5, min_samples_leaf=3)
        return seeded(tree if self.estimator is None else clone(self.estimator), rng)

    def _probabilities(self, X: Array) -> Array:
        X = self._scaling.apply(X)
        H = np.column_stack([sum(alpha * learner.predict(X) for alpha, learner in one) for one in self.boosted_])
        if H.shape[1] == 1:
            H = np.hstack([-H, H])
        P = expit(4 * H)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        learners = [learner for one in self.boosted_ for _, learner in one]
        _, scaling = super()._parts()
        arrays = {
            "alpha": np.array([alpha for one in self.boosted_ for alpha, _ in one]),
            "rounds": np.array([len(one) for one in self.boosted_]),
            "objective_steps": np.array([len(path) for path in self.objective_path_]),
            "objective_path_": np.concatenate(self.objective_path_),
        }
        return {}, {**scaling, **arrays, "learners.gz": dump_classifiers(learners)}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        super()._restore(state, arrays)
        d, problems = self.n_features_in_, 1 if len(self.classes_) == 2 else len(self.classes_)
        self.objective_path_ = checked_pieces(arrays, "objective_path_", "objective_steps", problems)
        rounds = checked_array(arrays, "rounds", (problems,), "i")
        alpha = checked_array(arrays, "alpha", (int(rounds.sum()),), "f")
        learners = load_classifiers("learners.gz", arrays.get("learners.gz"), d, np.array([-1, 1]))
        pairs = list(zip(alpha.tolist(), learners, strict=True))
        ends = np.cumsum(rounds)
        self.boosted_ = [pairs[start:end] for start, end in zip(ends - rounds, ends, strict=True)]


class Similarities(NamedTuple):
    """Similarities of the unlabelled rows, for one class against the others."""

    positive: Array  # (u,): sum of the similarities to labelled rows of the class
    negative: Array  # (u,): and to labelled rows of the others
    unlabeled: sparse.csr_array  # (u, u)
    C: float

    @classmethod
    def of(cls, S: sparse.csr_array, labeled: Array, unlabeled: Array, signs: Array, C: float | None) -> Self:
        """Split the similarities of all rows, (n, n)."""
        S_u = S[unlabeled]
        S_ul = S_u[:, labeled]
        C = len(labeled) / max(len(unlabeled), 1) if C is None else C
        return cls(S_ul @ (signs > 0).astype(float), S_ul @ (signs < 0).astype(float), S_u[:, unlabeled], C)

    def objective(self, H: Array) -> float:
        """Return F of the scores of the unlabelled rows."""
        up, down = np.exp(H), np.exp(-H)
        return float(self.positive @ down**2 + self.negative @ up**2 + self.C * (up @ (self.unlabeled @ down)))

    def pulls(self, H: Array) -> tuple[Array, Array]:
        """Return p and q, the pulls of each row to 1 and to -1."""
        up, down = np.exp(H), np.exp(-H)
        p = self.positive * down**2 + self.C / 2 * down * (self.unlabeled @ up)
        q = self.negative * up**2 + self.C / 2 * up * (self.unlabeled @ down)
        return p, q


def weight_of(h: Array, p: Array, q: Array) -> float:
    """Return the weight α that lowers the bound on F most, for a learner that predicts ±1 for the unlabelled rows."""
    right = p[h > 0].sum() + q[h < 0].sum()
    wrong = p[h < 0].sum() + q[h > 0].sum()
    if right <= wrong:
        return 0.0
    odds = right / max(wrong, np.finfo(float).tiny)
    return float(np.log(min(odds, 1e12)) / 4)  # finite for a learner that is always right


def draw_by_weight(weight: Array, share: float, rng: np.random.Generator) -> Array:
    """Return a share of the rows, at least one, drawn without replacement in proportion to their weights."""
    there = np.flatnonzero(weight > 0)
    count = min(len(there), max(1, round(share * len(weight))))
    # The first arrivals of independent exponential clocks, whose rates are the weights.
    arrival = rng.exponential(size=len(there)) / weight[there]
    return np.asarray(there[np.argsort(arrival)[:count]])
