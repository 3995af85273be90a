"""Map numbers of any distribution to normal scores by rank."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[Any]

MAX_SCORE = 3.0  # largest score, in standard deviations


class NormalScores(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Replace every value with the normal quantile of its mean rank, between -3 and 3.

    Outliers and skew lose their influence, which suits networks and linear models. Unlike scikit-learn's
    ``QuantileTransformer``, it puts repeated values at their mean rank: many zeros do not end up at the far end, and a
    column with two values keeps moderate ones. Missing values stay missing.

    Attributes
    ----------
    values_, scores_ : arrays
        For one column after the other, values in ascending order, and their scores; linear between two values, constant
        beyond the last.
    ends_ : array (columns,)
        Where each column ends in them.

    Examples
    --------
    >>> x = np.array([[0.0], [0.0], [0.0], [1.0], [np.nan]])
    >>> NormalScores().fit_transform(x).ravel().round(2)
    array([-0.32, -0.32, -0.32,  1.15,   nan], dtype=float32)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the distribution of every column."""
        knots = 1_000
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
        all_values, all_scores = [], []
        for column in np.ascontiguousarray(X.T):
            values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
            if not len(values):
                values, counts = np.zeros(1), np.ones(1, int)
            rank = (np.cumsum(counts) - counts / 2) / counts.sum()
            if len(values) > knots:
                at = np.unique(np.searchsorted(rank, np.linspace(rank[0], rank[-1], knots)))
                values, rank = values[at], rank[at]
            all_values.append(values.astype(np.float64))
            all_scores.append(np.clip(ndtri(rank), -MAX_SCORE, MAX_SCORE))
        self.values_, self.scores_ = np.concatenate(all_values), np.concatenate(all_scores)
        self.ends_ = np.cumsum([len(values) for values in all_values])
        return self

    def transform(self, X: Any) -> Array:
        """Return the scores."""
        check_is_fitted(self, "values_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=False)
        out, start = np.empty(X.shape, np.float32), 0
        for k, end in enumerate(self.ends_):
            scores = np.interp(X[:, k], self.values_[start:end], self.scores_[start:end])
            # Scores are never farther out, unless someone has edited a saved model.
            out[:, k] = np.where(np.isnan(X[:, k]), np.nan, np.clip(scores, -MAX_SCORE, MAX_SCORE))
            start = end
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
