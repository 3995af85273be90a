"""Adapter that makes a method of any supervised classifier."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import get_tags
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import has_fit_parameter

from deepsep.classifiers.base import Classifier
from deepsep.core.arrays import Array
from deepsep.core.labels import Labels
from deepsep.core.probability import fit_platt, platt_probabilities
from deepsep.core.scaling import Scaling
from deepsep.core.training_rows import TrainingRows
from deepsep.errors import ModelFileError, ParameterError
from deepsep.evaluation.folds import deal_distinct
from deepsep.evaluation.out_of_fold import Candidate, FoldFits
from deepsep.files.foreign import dump_classifiers, load_classifiers


@dataclass(eq=False, repr=False)
class Supervised(Classifier):
    """Any scikit-learn classifier, on the labelled rows alone.

    A copy of the classifier is fitted to the labelled rows, and predicts all rows. One classifier is an exception:
    :class:`sklearn.semi_supervised.SelfTrainingClassifier` gets the unlabelled rows as well.

    Weights are passed on to a classifier that takes weights. For others, such as k nearest neighbours, a weight of k
    stands for k copies of the row, and must be a whole number. A row of weight 0 is absent. If there are fewer
    labelled rows than ``n_neighbors``, all of them are neighbours.

    If the classifier has scores instead of probabilities, as :class:`sklearn.svm.SVC` has, a sigmoid turns scores into
    probabilities, with one slope and offset for all classes. It is fitted to scores of held-out labelled rows in five
    folds; the only row of a class is never held out. If every class has just one row, the sigmoid is fitted to the
    training rows.

    Parameters
    ----------
    estimator : classifier
        The classifier; ``fit`` does not change it. Each ``random_state`` in it that is None is set from this
        ``random_state``. ``set_params`` takes its settings by their own names (``n_estimators`` for
        ``estimator__n_estimators``), so a search can too.
    standardize : bool, default=False
        Whether features are first scaled to mean 0 and variance 1 over all rows, labelled or not. Sparse features are
        scaled but not centred.
    method_name : str, default=""
        Name of the method in the catalogue, if it is there; :func:`deepsep.method` sets it.
    random_state : int, RandomState or None, default=None
        The same seed gives the same model.

    Attributes
    ----------
    estimator_ : classifier
        The fitted copy. Its classes are indices into ``classes_``.
    platt_ : (float, float) or None
        Slope and offset of the sigmoid of the scores; None for a classifier that has probabilities.
    classes_, transduction_, label_distributions_
        As in :class:`deepsep.DeepSep`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from deepsep.classifiers import Supervised
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(4, 1, (200, 2))])
    >>> y = np.full(400, None)
    >>> y[:5], y[-5:] = "near", "far"
    >>> model = Supervised(GaussianNB()).fit(X, y)
    >>> bool((model.predict(X[200:]) == "far").mean() > 0.9)
    True
    """

    estimator: Any
    _: KW_ONLY
    standardize: bool = False
    method_name: str = ""
    random_state: Any = None

    def set_params(self, **params: Any) -> Self:
        """Change settings, including those of the classifier by their own names.

        ``n_estimators=300`` is short for scikit-learn's ``estimator__n_estimators=300``.
        """
        own = self.get_params()
        longer = {name: f"estimator__{name}" for name in params if name not in own}
        super().set_params(
            **{longer[name] if longer.get(name) in own else name: value for name, value in params.items()}
        )
        return self

    @property
    def _accept(self) -> dict[str, Any]:  # type: ignore[override]
        return {"accept_sparse": "csr" if get_tags(self.estimator).input_tags.sparse else False}

    @property
    def uses_unlabeled(self) -> bool:
        """True if the classifier also gets the unlabelled rows."""
        return isinstance(self.estimator, SelfTrainingClassifier)

    def _check_parameters(self) -> None:
        usable = hasattr(self.estimator, "get_params") and not isinstance(self.estimator, type)
        predicts = hasattr(self.estimator, "predict_proba") or hasattr(self.estimator, "decision_function")
        if not (usable and predicts and is_classifier(self.estimator)):
            raise ParameterError(
                f"Supervised: estimator={self.estimator!r}; pass a classifier with predict_proba or decision_function, "
                "such as LogisticRegression()."
            )

    # -- learning --------------------------------------------------------------------------------------------

    def _learn(self, rows: TrainingRows, rng: np.random.Generator) -> None:
        used = np.flatnonzero(rows.weight > 0) if self.uses_unlabeled else rows.labeled
        self._scaling = self._fit_scaling(rows)
        X, codes, weight = self._scaled(rows.X[used]), rows.codes[used], rows.weight[used]
        estimator = seeded(clone(self.estimator), rng)
        takes_weight = has_fit_parameter(estimator, "sample_weight")
        if not takes_weight and (weight != 1).any():
            copies = self._copies(weight)
            X, codes, weight = X[copies], codes[copies], np.ones(len(copies))
        passed = weight if takes_weight and (weight != 1).any() else None
        self.estimator_ = fit_labeled(estimator, X, codes, passed)
        self.platt_ = None
        if not hasattr(estimator, "predict_proba"):
            held, scores = _unseen_scores(self.estimator_, X, codes, passed, rng)
            if not held.size:
                held, scores = np.arange(len(codes)), _scores(self.estimator_, X)
            self.platt_ = fit_platt(scores, codes[held], weight[held])

    def _fit_scaling(self, rows: TrainingRows) -> Scaling | None:
        if not self.standardize:
            return None
        if not sparse.issparse(rows.X):
            return Scaling.of(rows.X, rows.weight)
        share = rows.weight / rows.weight.sum()
        mean, square = rows.X.T @ share, rows.X.multiply(rows.X).T @ share
        deviation = np.sqrt(np.maximum(square - mean**2, 0))
        return Scaling(np.zeros_like(mean), np.where(deviation > 1e-7 * np.abs(mean), deviation, 1.0))

    def _scaled(self, X: Any) -> Any:
        if sparse.issparse(X):
            X = sparse.csr_matrix(X, copy=self._scaling is not None)  # LightGBM knows no sparse arrays
            if self._scaling is not None:
                X.data /= self._scaling.scale[X.indices]
            return X
        if self._scaling is None:
            return X
        return (X - self._scaling.centre) / self._scaling.scale

    def _copies(self, weight: Array, most: int = 10_000_000) -> Array:
        if (weight != np.floor(weight)).any() or weight.sum() > most:
            odd = weight[np.argmax(weight != np.floor(weight))]
            raise ParameterError(
                f"{type(self.estimator).__name__} takes no weights, so a weight must be a number of copies, but "
                f"sample_weight has {odd:g}, with a sum of {weight.sum():g}. Pass whole numbers with a sum of at "
                f"most {most:,}, or use a classifier that takes weights."
            )
        return np.repeat(np.arange(len(weight)), weight.astype(int))

    # -- predicting and saving -------------------------------------------------------------------------------

    def _probabilities(self, X: Any) -> Array:
        X = self._scaled(X)
        if self.platt_ is not None:
            return platt_probabilities(_scores(self.estimator_, X), *self.platt_)
        p = np.asarray(_own_probabilities(self.estimator_, X), dtype=np.float64)
        p = np.where(np.isfinite(p), p, 0.0)
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        scaling = {} if self._scaling is None else vars(self._scaling)
        return {"platt": self.platt_}, {**scaling, "classifier.gz": dump_classifiers([self.estimator_])}

    def _restore(self, state: dict[str, Any], arrays: dict[str, Any]) -> None:
        d, c = self.n_features_in_, len(self.classes_)
        try:
            self._check_parameters()
        except ParameterError as error:
            raise ModelFileError(str(error)) from None
        self._scaling = None
        if "scale" in arrays:
            self._scaling = Scaling.from_arrays(arrays, d)
        self.platt_ = None if state["platt"] is None else (float(state["platt"][0]), float(state["platt"][1]))
        (self.estimator_,) = load_classifiers("classifier.gz", arrays.get("classifier.gz"), d, np.arange(c))


def _own_probabilities(estimator: Any, X: Any) -> Array:
    """Return the probabilities of an estimator; those of a forest are added up here.

    scikit-learn changes the filters of warnings for each tree, so that threads which predict at once warn by thousands.
    """
    if type(estimator).__module__ != "sklearn.ensemble._forest":
        return np.asarray(estimator.predict_proba(X))
    X = X.astype(np.float32)  # as trees are fitted
    return np.asarray(sum(tree.predict_proba(X) for tree in estimator.estimators_) / len(estimator.estimators_))


def seeded(estimator: Any, rng: np.random.Generator) -> Any:
    """Set every random_state that is None, for which scikit-learn would use global state."""
    free = [name for name, value in sorted(estimator.get_params().items()) if name.endswith("random_state")]
    return estimator.set_params(
        **{name: int(rng.integers(2**31 - 1)) for name in free if estimator.get_params()[name] is None}
    )


def fit_labeled(estimator: Any, X: Any, codes: Array, weight: Array | None = None) -> Any:
    """Fit a classifier to labelled rows, with at most as many neighbours as rows."""
    if estimator.get_params().get("n_neighbors", 0) > len(codes):
        estimator.set_params(n_neighbors=len(codes))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="y contains no unlabeled samples")  # the base class warns
        warnings.filterwarnings("ignore", message="The number of unique classes")  # few labels are normal here
        try:
            return estimator.fit(X, codes) if weight is None else estimator.fit(X, codes, sample_weight=weight)
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from None


def _scores(estimator: Any, X: Any) -> Array:
    scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
    return scores if scores.ndim == 2 else np.column_stack([-scores, scores])


def _unseen_scores(
    estimator: Any, X: Any, codes: Array, weight: Array | None, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the rows held out in five folds, and their scores by copies that have not seen them."""
    folds = deal_distinct(X, codes, 5, rng)
    if not folds.tests:
        return np.empty(0, int), np.empty((0, 0))
    labels = Labels(codes, np.arange(codes.max() + 1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # as in a fit to all rows
        held_out = FoldFits({"copy": Candidate(estimator)}, X, labels, folds, weight, ask=_scores).fit()
    return held_out.rows, held_out.probabilities
