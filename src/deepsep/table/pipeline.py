"""Encode a table with categories, dates, text and gaps as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from deepsep.table.columns import UsefulColumns
from deepsep.table.normal_scores import NormalScores

LEVELS = 40  # most columns that a category becomes; rarer levels share one
RARE = 0.003  # share of the rows below which a level is rare
NAMES = 100  # number of levels from which a category is encoded as text


def for_table(estimator: Any, *, keep: Sequence[str] = ()) -> Pipeline:
    """Return a pipeline that takes any DataFrame: it selects useful columns, encodes them with skrub, and fits.

    Numbers become normal scores by rank, so that outliers do not matter, and their gaps are filled and marked.
    Categories become one column per level; rare levels, and levels not seen in training, share one. Dates are split
    into their parts. Texts, and categories with a hundred levels or more, become 30 numbers computed from their
    letters. For forests and boosted trees, numbers stay as they are and categories become codes. Identifiers, constant
    columns, and columns that are given for labelled rows only are left out, with one warning that names them (see
    ``model[0].left_out_``).

    The model remembers its columns and their types: rows to score need the same columns, in any order. Extra columns
    are ignored; missing columns and changed types are listed in the error.

    ``y`` may hold None for unlabelled rows, as everywhere. The pipeline can be saved with :func:`deepsep.save`. Its
    ``classes_``, ``predict``, ``predict_proba`` and ``transform`` are those of the estimator; use ``model[-1]`` for
    everything else, for example ``model[-1].transduction_`` or
    ``model[-1].round_proba(model[:-1].transform(table))``.

    Parameters
    ----------
    estimator : estimator
        :class:`deepsep.DeepSep`, :class:`deepsep.TSVM`, or any scikit-learn classifier.
    keep : sequence of str, default=()
        Columns to use even if they look like identifiers, or are given for labelled rows only.

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
    # skrub scales all of its output at the end. Only numbers and dates should be scaled: otherwise a rare level, or one
    # of the thirty numbers of a text, would count as much as a measurement.
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
    """Return which columns of the encoded table come from each column of the table; None if that is unknown.

    ``for_table`` encodes each column and each row by itself. The encoding of a shuffled column is therefore the
    shuffled encoding of the column, and a table need not be encoded again for each column. Other steps may mix columns
    even if they keep their names, so the answer for them is None.
    """
    from skrub import TableVectorizer

    steps = [step for _, step in getattr(encoder, "steps", [])]
    kinds = [type(step) for step in steps]
    if kinds[:2] != [UsefulColumns, TableVectorizer] or kinds[2:] not in ([], [SimpleImputer]):
        return None
    vectorizer = steps[1]
    made = list(vectorizer.get_feature_names_out())
    for imputer in steps[2:]:
        # The indicators of gaps come last. Their names do not help: an ordinary column may have the same name.
        gaps = [] if imputer.indicator_ is None else imputer.indicator_.features_
        filled = list(imputer.get_feature_names_out())
        made = filled[: len(filled) - len(gaps)] + [made[i] for i in gaps]
    place = {name: j for j, name in enumerate(names)}
    sources = [vectorizer.output_to_input_[name] for name in made]
    if not place.keys() >= set(sources):
        return None
    encoded: list[list[int]] = [[] for _ in names]
    for i, source in enumerate(sources):
        encoded[place[source]].append(i)
    return encoded
