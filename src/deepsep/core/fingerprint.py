"""A hash of a training set, so that a saved model records what it was fitted to."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]


def fingerprint(X: Any, codes: Array, columns: Any = None) -> str:
    """Hash the shape, the type, the column names, every label and a sample of the values of a training set.

    The sample is at most 1,000 evenly spaced rows by 1,000 evenly spaced columns, so that it takes only
    milliseconds. The same data in another order has a different fingerprint.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Numbers.
    codes : array (n,) of int
        Index of each row's class, -1 for an unlabelled row.
    columns : sequence of m str, optional
        Names of the columns.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> fingerprint(X, np.array([0, 1, -1])) == fingerprint(X.copy(), np.array([0, 1, -1]))
    True
    >>> fingerprint(X, np.array([0, 1, -1])) == fingerprint(X[::-1], np.array([0, 1, -1]))
    False
    """
    n, m = X.shape
    names = None if columns is None else [str(name) for name in columns]
    digest = hashlib.sha256(repr((n, m, str(X.dtype), names)).encode("utf-8", "backslashreplace"))
    digest.update(codes.astype("<i8").tobytes())
    rows, some = _spaced(n), _spaced(m)
    sample = X[rows][:, some] if sparse.issparse(X) else X[np.ix_(rows, some)]
    sample = sample.toarray() if sparse.issparse(sample) else sample
    digest.update(sample.astype("<f8").tobytes())
    return digest.hexdigest()[:32]


def _spaced(n: int, most: int = 1_000) -> Array:
    return np.linspace(0, n - 1, min(n, most)).astype(int)
