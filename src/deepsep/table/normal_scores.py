"""Numbers of any distribution to a normal one, by their ranks."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[Any]

KNOTS = 1_000
FARTHEST = 3.0  # no row is farther out than this many deviations


class NormalScores(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Give every value the normal quantile of its mean rank, at most 3 from the middle.

    Outliers and skew lose their weight, which suits networks and linear models. It differs from scikit-learn's
    ``QuantileTransformer`` where values repeat: a column with many zeros has them at their mean rank and not at the
    far end, and a column of two values stays a moderate one. Missing values stay missing.

    Attributes
    ----------
    values_, scores_ : lists of arrays, one per column
        Values, ascending, and their scores; between two values it is linear, beyond the last it is flat.

    Examples
    --------
    >>> x = np.array([[0.0], [0.0], [0.0], [1.0], [np.nan]])
    >>> NormalScores().fit_transform(x).ravel().round(2)
    array([-0.32, -0.32, -0.32,  1.15,   nan], dtype=float32)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the distribution of every column."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
        self.values_, self.scores_ = [], []
        for column in X.T:
            values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
            if not len(values):
                values, counts = np.zeros(1), np.ones(1, int)
            rank = (np.cumsum(counts) - counts / 2) / counts.sum()
            if len(values) > KNOTS:
                at = np.unique(np.searchsorted(rank, np.linspace(rank[0], rank[-1], KNOTS)))
                values, rank = values[at], rank[at]
            self.values_.append(values.astype(np.float64))
            self.scores_.append(np.clip(ndtri(rank), -FARTHEST, FARTHEST))
        return self

    def transform(self, X: Any) -> Array:
        """Return the scores."""
        check_is_fitted(self, "values_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=False)
        out = np.empty(X.shape, np.float32)
        for k, (values, scores) in enumerate(zip(self.values_, self.scores_, strict=True)):
            out[:, k] = np.where(np.isnan(X[:, k]), np.nan, np.interp(X[:, k], values, scores))
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
