"""From a table with categories, dates, text and gaps to a matrix."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline


def for_table(estimator: Any) -> Pipeline:
    """Return a pipeline that takes a DataFrame as it is: skrub's encoding of the columns, then the estimator.

    Numbers are kept and gaps in them filled, categories become one column a level, dates become their parts, long texts
    become vectors; categories that were not seen in training are ignored. ``y`` may hold None for unlabelled rows, as
    everywhere. The pipeline can be saved with :func:`deepsep.save`.

    Parameters
    ----------
    estimator : estimator
        :class:`deepsep.DeepSep`, :class:`deepsep.TSVM`, or any scikit-learn classifier.

    Returns
    -------
    sklearn.pipeline.Pipeline

    Examples
    --------
    >>> import pandas as pd
    >>> from deepsep import TSVM, for_table
    >>> table = pd.DataFrame({"age": [25, 31, 64, 70, None, 68], "plan": ["free", "free", "pro", "pro", "free", "pro"]})
    >>> segment = ["young", "young", "old", "old", None, None]
    >>> model = for_table(TSVM()).fit(table, segment)
    >>> model.predict(table).tolist()
    ['young', 'young', 'old', 'old', 'young', 'old']
    """
    from skrub import tabular_pipeline

    pipeline: Pipeline = tabular_pipeline(estimator)
    return pipeline
