"""From a table with categories, dates, text and gaps to a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from deepsep.table.columns import UsefulColumns
from deepsep.table.normal_scores import NormalScores

LEVELS = 40  # columns that a category becomes at most; rarer levels share one
RARE = 0.003  # of the rows
NAMES = 100  # levels from which on a category is a text


def for_table(estimator: Any, *, keep: Sequence[str] = ()) -> Pipeline:
    """Return a pipeline that takes a DataFrame as it is: useful columns, skrub's encoding of them, the estimator.

    Numbers go to normal scores by their ranks, so that outliers do not matter, and gaps in them are filled and marked;
    categories become one column a level, rare levels and those not seen in training one together; dates become their
    parts; texts, and names with a hundred levels or more, become 30 numbers by the letters they are made of. For
    forests and boosted trees, numbers stay as they are and categories become codes. Identifiers and constant columns
    are left out, with one warning that names them (see ``model[0].left_out_``).

    The columns and their types travel with the model: rows to score need the same columns in any order. Further columns
    are ignored; what is missing or has become something else is listed in the error.

    ``y`` may hold None for unlabelled rows, as everywhere. The pipeline can be saved with :func:`deepsep.save`. Its
    ``classes_``, ``predict``, ``predict_proba`` and ``transform`` are those of the estimator; what else the estimator
    has is reached through ``model[-1]``, for example ``model[-1].transduction_`` or
    ``model[-1].round_proba(model[:-1].transform(table))``.

    Parameters
    ----------
    estimator : estimator
        :class:`deepsep.DeepSep`, :class:`deepsep.TSVM`, or any scikit-learn classifier.
    keep : sequence of str, default=()
        Columns that are used even if they look like identifiers.

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
    >>> model.predict(table[["plan"]])
    Traceback (most recent call last):
    ...
    deepsep.errors.DataError: the columns differ from those of the training table:
      missing: 'age'
    """
    from skrub import DatetimeEncoder, StringEncoder, tabular_pipeline

    pipeline: Pipeline = tabular_pipeline(estimator)
    pipeline.steps.insert(0, ("usefulcolumns", UsefulColumns(keep=tuple(keep))))
    vectorizer = pipeline.named_steps["tablevectorizer"]
    vectorizer.set_params(high_cardinality=StringEncoder(random_state=0))
    if "squashingscaler" not in pipeline.named_steps:
        return pipeline  # trees, which skrub knows by name: categories as codes, nothing scaled
    # skrub scales all that it made, at the end. Only numbers and dates should be: a rare level, or one of the thirty
    # numbers of a text, would get the weight of a measurement.
    pipeline.steps = [step for step in pipeline.steps if step[0] != "squashingscaler"]
    vectorizer.set_params(
        cardinality_threshold=NAMES,
        numeric=NormalScores(),
        datetime=make_pipeline(DatetimeEncoder(add_weekday=True), NormalScores()),
        low_cardinality=OneHotEncoder(
            max_categories=LEVELS,
            min_frequency=RARE,
            handle_unknown="infrequent_if_exist",
            sparse_output=False,
            dtype=np.float32,
        ),
    )
    if "simpleimputer" in pipeline.named_steps:
        pipeline.set_params(simpleimputer__strategy="median")
    return pipeline


def source_columns(encoder: Any, names: Sequence[str]) -> list[list[int]] | None:
    """Return which columns of the encoded table come from each column of the table; None if that cannot be told.

    The encoding of ``for_table`` is made column by column and row by row. So what it makes of a shuffled column is what
    it makes of the column, shuffled, and a table need not be encoded again for each column. Other steps may mix columns
    though they keep their names, so they are not looked into.
    """
    from skrub import TableVectorizer

    steps = [step for _, step in getattr(encoder, "steps", [])]
    kinds = [type(step) for step in steps]
    if kinds[:2] != [UsefulColumns, TableVectorizer] or kinds[2:] not in ([], [SimpleImputer]):
        return None
    vectorizer = steps[1]
    made = list(vectorizer.get_feature_names_out())
    for imputer in steps[2:]:
        # Indicators of gaps come last. Their names are no help: a column may have such a name by itself.
        gaps = [] if imputer.indicator_ is None else imputer.indicator_.features_
        filled = list(imputer.get_feature_names_out())
        made = filled[: len(filled) - len(gaps)] + [made[i] for i in gaps]
    place = {name: j for j, name in enumerate(names)}
    sources = [vectorizer.output_to_input_[name] for name in made]
    if not place.keys() >= set(sources):
        return None
    found: list[list[int]] = [[] for _ in names]
    for i, source in enumerate(sources):
        found[place[source]].append(i)
    return found
